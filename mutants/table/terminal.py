"""Guards of the command line: what a key or a yes may do, and where a token goes."""

from __future__ import annotations

from mutants.mutant import Mutant

_DESK = "cli/test_desk.py::"
_KEYS = "cli/test_keys.py::"
_PEOPLE = "cli/test_people.py::"
_TERMINAL = "cli/test_terminal.py::"
_WATCH = "cli/test_watch.py::"

MUTANTS = (
    Mutant(
        name="a digit answers a question in words",
        file="cli/inbox.py",
        old='        if key in "123456789" and _takes_digits(hold):',
        new='        if key in "123456789" and hold.question is not None:',
        test=_TERMINAL + "test_a_digit_is_no_answer_where_it_could_only_begin_one[local]",
    ),
    Mutant(
        name="an editor shows what cannot be seen",
        file="cli/asking.py",
        old="            file.write(head + _visible(text)",
        new="            file.write(head + text",
        test=_PEOPLE + "test_an_editor_that_changes_nothing_changes_nothing[\\u2028]",
    ),
    Mutant(
        name="keys count before anything was seen",
        file="cli/keys.py",
        old="        await asyncio.sleep(GRACE_S)\n        self.drop()",
        new="        pass",
        test=_KEYS + "test_keys_count_once_something_was_seen",
    ),
    Mutant(
        name="all of what is typed at once counts",
        file="cli/keys.py",
        old="        read = os.read(self._fd, _AT_ONCE)",
        new="        read = os.read(self._fd, 1)",
        test=_KEYS + "test_of_what_comes_at_once_only_the_first_counts",
    ),
    Mutant(
        name="a yes counts that was typed before anything was shown",
        file="cli/asking.py",
        old="    if fresh and sys.stdin.isatty():",
        new="    if False:",
        test=_TERMINAL + "test_a_yes_that_was_typed_before_anything_was_shown_is_none",
    ),
    Mutant(
        name="a yes beforehand goes for what is critical",
        file="cli/approve.py",
        old="    if critical and (yes or not is_terminal()):",
        new="    if False:",
        test=_PEOPLE + "test_what_is_critical_takes_no_yes_beforehand[local]",
    ),
    Mutant(
        name="something critical is approved with others",
        file="cli/approve.py",
        old="    if critical and len(holds) > 1:",
        new="    if False:",
        test=_PEOPLE + "test_several_are_decided_each_for_itself[local]",
    ),
    Mutant(
        name="any word approves what is critical",
        file="cli/approve.py",
        old="        agreed = typed == critical[0].tool",
        new="        agreed = bool(typed)",
        test=_TERMINAL + "test_what_is_critical_takes_the_name_of_its_tool[local]",
    ),
    Mutant(
        name="without a terminal nobody has to say yes",
        file="cli/approve.py",
        old="    if not yes and not is_terminal():",
        new="    if False:",
        test=_PEOPLE + "test_an_error_is_1_and_a_wrong_command_line_2[local]",
    ),
    Mutant(
        name="a decision over HTTP carries no digest of what was shown",
        file="cli/desk_remote.py",
        old='{**_verdict(verdict), "seen": hold.digest}',
        new='{**_verdict(verdict), "seen": (await self.hold(hold.id)).digest}',
        test=_DESK + "test_what_was_shown_is_what_is_decided[remote]",
    ),
    Mutant(
        name="a decision that is sent again has another key",
        file="cli/desk_remote.py",
        old='        headers = {} if key is None else {"idempotency-key": key}\n',
        new="        headers: dict[str, str] = {}\n",
        test=_DESK + "test_a_decision_whose_answer_is_lost_is_made_once",
    ),
    Mutant(
        name="what has no key is sent again",
        file="cli/desk_remote.py",
        old='        safe = method == "GET" or key is not None',
        new="        safe = True",
        test=_DESK + "test_what_the_server_would_not_know_again_is_not_sent_again",
    ),
    Mutant(
        name="a token goes over the network in the clear",
        file="cli/desk_remote.py",
        old='    if parts.scheme == "http" and parts.hostname not in _NEAR and not plain_http:',
        new="    if False:",
        test=_PEOPLE + "test_a_token_is_never_an_argument_and_never_goes_in_the_clear",
    ),
    Mutant(
        name="a token is taken from the command line",
        file="cli/desk.py",
        old="    if token is not None:",
        new="    if False:",
        test=_PEOPLE + "test_a_token_is_never_an_argument_and_never_goes_in_the_clear",
    ),
    Mutant(
        name="what watch runs goes through a shell",
        file="cli/watch.py",
        old="create_subprocess_exec(*argv, stdin",
        new='create_subprocess_shell(" ".join(argv), stdin',
        test=_WATCH + "test_what_happens_is_told_as_it_happens[local]",
    ),
    Mutant(
        name="a filter passes over what it does not know",
        file="domain/filter.py",
        old="        else:\n            raise BadFilter(",
        new="        elif key == key.upper():\n            raise BadFilter(",
        test="domain/test_filter.py::"
        "test_what_is_not_known_is_refused_and_names_what_is_near[rsik:high-'risk']",
    ),
    Mutant(
        name="an approval is asked for where to sign in, over HTTP",
        file="server/holds.py",
        old="    if hold.kind not in SIGN_INS:",
        new="    if False:",
        test="server/test_deciding.py::test_what_asks_for_no_sign_in_has_no_address_for_one",
    ),
    Mutant(
        name="watch comes back without saying how far it was",
        file="cli/hearing.py",
        old='        headers = {"last-event-id": self._place} if self._place else {}',
        new="        headers = {}",
        test=_WATCH + "test_what_came_and_was_decided_while_the_server_was_gone_is_told_once",
    ),
    Mutant(
        name="watch tells of a request again when its decision takes effect",
        file="cli/watch.py",
        old="                passed = moved - now.keys() - recent.keys()",
        new="                passed = moved - now.keys()",
        test=_WATCH + "test_what_is_new_is_told_in_a_moment_and_what_has_passed_as_well[remote]",
    ),
    Mutant(
        name="a server that cannot tell is asked for ever",
        file="cli/hearing.py",
        old="                self._deaf = True",
        new="                pass",
        test=_WATCH + "test_a_server_that_cannot_tell_is_looked_at_instead",
    ),
)
