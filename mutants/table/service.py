"""Guards of the service: who is let in, for what, and what they are told."""

from __future__ import annotations

from mutants.mutant import Mutant

_RUNS = "server/test_runs.py::"
_DOOR = "server/test_door.py::"
_ROUTES = "server/test_routes.py::"
_HOSTILE = "server/test_hostile.py::"
_SEAT = "server/test_seat.py::"
_FOREIGN = "server/test_foreign.py::"
_MATRIX = "server/test_matrix.py::test_everybody_is_answered_as_the_table_says"
_HOOKS = "notify/test_webhook.py::"
_HOLDS = "server/test_hold_events.py::"

MUTANTS = (
    Mutant(
        name="an agent has a credential that decides",
        file="server/caller.py",
        old='        if self.by.kind == "agent" and not self.scopes <= AGENT_SCOPES:',
        new="        if False:",
        test=_DOOR + "test_an_agent_has_no_credential_that_decides[decide]",
    ),
    Mutant(
        name="a scope is not looked at",
        file="server/caller.py",
        old="        if scope not in self.scopes:",
        new="        if False:",
        test=_ROUTES + "test_a_route_is_for_those_who_are_let_in_with_its_scope[route8]",
    ),
    Mutant(
        name="any agent is started over HTTP",
        file="server/runs.py",
        old="    if name not in app.agents:",
        new="    if False:",
        test=_RUNS + "test_only_agents_of_the_application_are_started",
    ),
    Mutant(
        name="runs of another project are there",
        file="engine/window.py",
        old="        if row is None or row.project != self.project:",
        new="        if row is None:",
        test=_ROUTES + "test_what_is_of_another_project_answers_as_what_is_not_there",
    ),
    Mutant(
        name="holds of another project are there",
        file="engine/window.py",
        old="        if found is None or found.project != self.project:",
        new="        if found is None:",
        test=_ROUTES + "test_what_is_of_another_project_answers_as_what_is_not_there",
    ),
    Mutant(
        name="a hold of an archived run of another project is told from none",
        file="engine/window.py",
        old="        with suppress(RunArchived):\n            if place",
        new="        with suppress():\n            if place",
        test=_FOREIGN + "test_what_is_of_another_project_is_what_does_not_exist[archived]",
    ),
    Mutant(
        name="an archived run of another project is no thread here",
        file="engine/desk.py",
        old="            if error.project == project:\n                raise\n",
        new="            if error.project:\n                raise\n",
        test=_FOREIGN + "test_what_is_of_another_project_is_what_does_not_exist[archived]",
    ),
    Mutant(
        name="a message is said with every retry",
        file="engine/desk.py",
        old="                key=bound,\n",
        new="",
        test="engine/test_messages.py::"
        "test_a_retried_message_to_a_run_at_work_is_said_once[memory]",
    ),
    Mutant(
        name="a message to a finished run is said with every retry",
        file="engine/desk.py",
        old="self._begin(following, driver, None, bound)",
        new="self._begin(following, driver, None, None)",
        test="engine/test_messages.py::test_a_retried_message_with_its_key_is_said_once[memory]",
    ),
    Mutant(
        name="a body is read of whoever is not let in",
        file="server/json.py",
        old="            await let_in(request)\n",
        new="",
        test=_HOSTILE + "test_nothing_is_read_of_whoever_is_not_let_in",
    ),
    Mutant(
        name="a request is sent on to where it says that it came to",
        file="server/app.py",
        old="redirect_slashes=False",
        new="redirect_slashes=True",
        test=_HOSTILE + "test_a_path_is_one_path_and_nothing_is_sent_on[/v1/runs/]",
    ),
    Mutant(
        name="a local token is good by way of a proxy",
        file="server/door.py",
        old="    return near and not any(",
        new="    return near or not any(",
        test=_HOSTILE + "test_a_local_token_is_not_good_by_way_of_another_machine[via]",
    ),
    Mutant(
        name="a stream goes on for whoever has lost the right to it",
        file="server/stream.py",
        old="            await window.check_run(run_id)\n        except",
        new="            pass\n        except",
        test=_HOSTILE + "test_a_stream_ends_with_the_right_to_read_it[change0]",
    ),
    Mutant(
        name="a chat goes on for whoever is shut out",
        file="server/caller.py",
        old="return same and (await people.authority(caller.project, caller.by)).active",
        new="return same",
        test=_HOSTILE + "test_a_chat_ends_for_whoever_is_shut_out",
    ),
    Mutant(
        name="an answer may be kept by whatever is between",
        file="server/json.py",
        old="                answer.headers.setdefault(name, value)",
        new="                pass",
        test=_HOSTILE + "test_no_answer_is_for_keeping",
    ),
    Mutant(
        name="one caller has all seats",
        file="server/seat.py",
        old=" or self._of[who] >= self._each:",
        new=":",
        test=_SEAT + "test_there_are_so_many_over_all_and_so_many_of_each",
    ),
    Mutant(
        name="there are any number of seats",
        file="server/seat.py",
        old="if self.open >= self._most or ",
        new="if ",
        test=_SEAT + "test_there_are_so_many_over_all_and_so_many_of_each",
    ),
    Mutant(
        name="who is gone before the first frame keeps the seat",
        file="server/seat.py",
        old="        finally:\n            self._seat.leave()\n",
        new="        finally:\n            pass\n",
        test=_SEAT + "test_whoever_is_gone_before_the_first_frame_has_left",
    ),
    Mutant(
        name="a request that is refused keeps its seat",
        file="server/seat.py",
        old="        if not self._kept:",
        new="        if False:",
        test=_SEAT + "test_a_seat_is_left_however_it_ends[GET-/v1/chat/c/stream-None-204]",
    ),
    Mutant(
        name="the clock has a credential",
        file="server/caller.py",
        old='        if self.by.kind == "clock":',
        new="        if False:",
        test="authority/test_http.py::test_nobody_bears_a_credential_of_the_clock",
    ),
    Mutant(
        name="an approver sees the conversation",
        file="engine/window.py",
        old="        await self._parts.records.owning(run, self.by)\n        return run",
        new="        return run",
        test=_RUNS + "test_approvers_see_the_request_and_not_the_conversation",
    ),
    Mutant(
        name="anybody sees a hold",
        file="engine/window.py",
        old="        if not owns(who, run):\n            raise NotAllowed",
        new="        if False:\n            raise NotAllowed",
        test=_RUNS + "test_approvers_see_the_request_and_not_the_conversation",
    ),
    Mutant(
        name="a resume over HTTP needs no digest",
        file="server/holds.py",
        old="    if given.seen is None:",
        new="    if False:",
        test=_RUNS + "test_a_decision_needs_the_digest_of_what_was_shown",
    ),
    Mutant(
        name="whoever comes first governs",
        file="server/govern.py",
        old='    return caller if first and caller.via == "local" else await _govern(app, caller)',
        new="    return caller if first else await _govern(app, caller)",
        test=_ROUTES + "test_only_operators_govern_once_there_are_people",
    ),
    Mutant(
        name="an operator makes a token of somebody else's",
        file="server/govern.py",
        old='    if body.kind == "person" and body.by != caller.by.id:',
        new="    if False:",
        test=_ROUTES + "test_only_operators_govern_once_there_are_people",
    ),
    Mutant(
        name="a token is good for more than its maker",
        file="server/govern.py",
        old="    if not set(body.scopes) <= caller.scopes:",
        new="    if False:",
        test=_ROUTES + "test_a_token_is_good_for_no_more_than_its_maker",
    ),
    Mutant(
        name="any secret opens a token",
        file="server/token.py",
        old="        return token if same and token.is_good(self._store.now()) else None",
        new="        return token if token.is_good(self._store.now()) else None",
        test=_DOOR + "test_a_changed_secret_is_not_good",
    ),
    Mutant(
        name="a revoked token is good",
        file="server/token.py",
        old="        return token if same and token.is_good(self._store.now()) else None",
        new="        return token if same else None",
        test=_DOOR + "test_a_token_ends_when_it_is_revoked_or_its_time_is_over",
    ),
    Mutant(
        name="a local token is good from afar",
        file="server/door.py",
        old="        if not is_from_here(request) or not hmac",
        new="        if not hmac",
        test=_DOOR + "test_a_local_token_is_good_on_this_machine_alone",
    ),
    Mutant(
        name="a token for somebody else is taken",
        file="server/issuer.py",
        old='                aud={"essential": True, "value": audience},\n',
        new="",
        test=_DOOR + "test_a_token_that_is_not_good_lets_nobody_in[another audience]",
    ),
    Mutant(
        name="a name at a provider is an account in Slack",
        file="server/issuer.py",
        old="    own = bool(text) and not text.startswith(SLACK)",
        new="    own = bool(text)",
        test=_DOOR + "test_a_token_that_is_not_good_lets_nobody_in[an account in Slack]",
    ),
    Mutant(
        name="an older token brings roles back",
        file="server/issuer.py",
        old="                if last is not None and issued <= last.iat:",
        new="                if False and last is not None:",
        test=_DOOR + "test_roles_come_from_the_newest_token",
    ),
    Mutant(
        name="a stream goes on without its credential",
        file="server/sse.py",
        old="                if not await recheck():",
        new="                if not await recheck() and False:",
        test="server/test_streams.py::test_a_stream_ends_with_its_credential",
    ),
    Mutant(
        name="whoever comes back to a stream sees everything again",
        file="server/runs.py",
        old="    place = max(after, last_event_id)",
        new="    place = after",
        test="server/test_streams.py::test_a_stream_ends_at_a_suspension_and_goes_on_from_there",
    ),
    Mutant(
        name="a webhook goes inside",
        file="notify/outward.py",
        old="        for address in addresses:\n            self._check(host, address)\n",
        new="        for address in ():\n            self._check(host, address)\n",
        test=_HOOKS + "test_nothing_inside_is_reached[127.0.0.1]",
    ),
    Mutant(
        name="HEAD begins a stream",
        file="server/head.py",
        old="                raise _Told\n",
        new="",
        test="web/test_head.py::test_a_stream_is_not_begun_and_its_seat_is_free[2.4]",
    ),
    Mutant(
        name="HEAD does what a callback does",
        file="server/head.py",
        old="    if _HEAD in request.scope:",
        new="    if False:",
        test="web/test_head.py::test_what_a_look_would_carry_out_is_not_carried_out_by_head",
    ),
    Mutant(
        name="what was told of a hold is told again",
        file="server/live.py",
        old="            moved = [one for one in moved if one.position > place]\n",
        new="",
        test=_HOLDS + "test_what_comes_between_reading_and_listening_is_told_once",
    ),
    Mutant(
        name="whoever was away for long has the whole store read",
        file="server/live.py",
        old="    if not until - REPLAY_MAX <= after <= until:",
        new="    if after > until:",
        test=_HOLDS + "test_too_much_and_no_place_of_this_store_is_the_list",
    ),
    Mutant(
        name="a place of another store is one of this",
        file="server/live.py",
        old="    if not until - REPLAY_MAX <= after <= until:",
        new="    if not until - REPLAY_MAX <= after:",
        test=_HOLDS + "test_too_much_and_no_place_of_this_store_is_the_list",
    ),
)
