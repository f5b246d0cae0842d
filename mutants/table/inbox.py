"""Guards of the inbox: what is shown is what is decided, once, by whoever's session it is."""

from __future__ import annotations

from mutants.mutant import Mutant

_DECIDE = "web/test_decide.py::"
_INBOX = "web/test_inbox.py::"
_FORM = "web/test_form.py::"
_LIVE = "web/test_live.py::"
_PAGE = "web/test_page.py::"
_EXACT = "web/test_exact.py::"

MUTANTS = (
    Mutant(
        name="what may have happened is approved with others",
        file="web/decide.py",
        old='        if hold.duplicate_of and typed.get("say") in YES:',
        new="        if False:",
        test=_EXACT + "test_what_may_have_happened_already_is_not_approved_in_passing",
    ),
    Mutant(
        name="a stream hints at what moves in another project",
        file="web/live.py",
        old="            if any([await _may_leave(window, one) for one in moved if one.wide]):",
        new="            if any(one.wide for one in moved):",
        test=_LIVE + "test_what_moves_in_another_project_is_not_even_hinted_at",
    ),
    Mutant(
        name="what somebody typed into a field that is not known is left out",
        file="web/verdict.py",
        old=" and one not in known for one in typed.values):",
        new=" and False for one in typed.values):",
        test=_EXACT + "test_a_field_that_a_request_has_not_decides_nothing[args/tu]",
    ),
    Mutant(
        name="what is edited is allowed always by what it was before",
        file="web/verdict.py",
        old='    if say == "always" and (typed.get("edit") or hold.together):',
        new="    if False:",
        test=_EXACT + "test_always_is_said_of_one_call_as_it_is",
    ),
    Mutant(
        name="several are allowed always at once",
        file="web/decide.py",
        old='        if typed.get("say") not in ("approve", "reject"):',
        new="        if False:",
        test=_EXACT + "test_always_is_said_of_one_call_as_it_is",
    ),
    Mutant(
        name="two values that can be chosen are called the same",
        file="web/form.py",
        old="    return value if plain and not _is_json(value) else _json(value)",
        new="    return value",
        test=_EXACT + "test_no_two_values_that_can_be_chosen_are_called_the_same",
    ),
    Mutant(
        name="a form of anybody's may be of any size",
        file="web/session.py",
        old="    await request.body()",
        new="    pass",
        test=_PAGE + "test_a_form_is_bounded_as_a_whole[application/x-www-form-urlencoded]",
    ),
    Mutant(
        name="the inbox takes a form without its word",
        file="web/session.py",
        old='    visitor.check_csrf(str(form.get("csrf", "")))',
        new="    pass",
        test=_DECIDE + "test_a_form_of_somebody_elses_page_decides_nothing",
    ),
    Mutant(
        name="the inbox decides for a session that may only read",
        file="web/decide.py",
        old='    caller.need("decide")\n    typed = _typed(form)\n'
        "    hold = await caller.window(app).hold(hold_id)\n    try:\n        saying",
        new="    typed = _typed(form)\n    hold = await caller.window(app).hold(hold_id)\n"
        "    try:\n        saying",
        test=_DECIDE + "test_a_session_that_may_only_read_decides_nothing",
    ),
    Mutant(
        name="the inbox approves what is critical in one step",
        file="web/decide.py",
        old="    if yes and needs_two_steps(hold, *others) and not saying.confirmed:",
        new="    if False:",
        test=_DECIDE + "test_what_is_critical_is_approved_in_two_steps",
    ),
    Mutant(
        name="the inbox decides without a digest",
        file="web/verdict.py",
        old="    if not seen:",
        new="    if False:",
        test=_DECIDE + "test_a_form_that_does_not_say_what_was_shown_decides_nothing[gone0]",
    ),
    Mutant(
        name="the inbox leaves out the digest of what it showed",
        file="web/decide.py",
        old="            digest=saying.seen,\n            key=key,\n            # What is",
        new="            digest=hold.digest,\n            key=key,\n            # What is",
        test=_DECIDE + "test_what_was_changed_meanwhile_is_not_decided",
    ),
    Mutant(
        name="the inbox decides twice",
        file="web/decide.py",
        old='f"web/{hold.id}/{saying.key}") if saying.key else None',
        new='f"web/{hold.id}/{saying.key}") if False else None',
        test=_DECIDE + "test_the_same_form_sent_twice_is_one_decision",
    ),
    Mutant(
        name="the inbox lets nobody take a decision back",
        file="web/decide.py",
        old="            undo=None if saying.always is not None else undo,",
        new="            undo=None,",
        test=_DECIDE + "test_a_yes_is_a_decision_of_the_session_and_can_be_undone",
    ),
    Mutant(
        name="the inbox writes what nobody touched anew",
        file="web/form.py",
        old="_sent(field, posted, field.was) == _flat(field.was):",
        new="False:",
        test=_FORM + "test_what_nobody_touched_keeps_its_very_bytes",
    ),
    Mutant(
        name="the inbox edits what cannot be seen as it is",
        file="web/form.py",
        old="    if show(value).escaped:",
        new="    if False:",
        test=_FORM + "test_what_cannot_be_seen_is_edited_by_its_number",
    ),
    Mutant(
        name="the inbox puts a secret into a form",
        file="web/form.py",
        old="    if value is not ABSENT and mark_in(value) is not None:",
        new="    if False:",
        test=_FORM + "test_a_secret_is_never_in_a_form_and_stays",
    ),
    Mutant(
        name="the inbox sends a sensitive answer back",
        file="web/detail.py",
        old="fill_in(fields, {} if secret else typed.values, typed.problems)",
        new="fill_in(fields, typed.values, typed.problems)",
        test=_DECIDE + "test_a_sensitive_answer_is_never_sent_back",
    ),
    Mutant(
        name="the inbox shows everybody everything",
        file="web/listing.py",
        old='    if view == "all" and not sees_all:',
        new="    if False:",
        test=_INBOX + "test_mine_team_and_all",
    ),
    Mutant(
        name="the inbox shows a conversation to whoever decides",
        file="web/detail.py",
        old="    if not around.owns or hold.kind not in _TALK_KINDS:",
        new="    if hold.kind not in _TALK_KINDS:",
        test=_INBOX + "test_whoever_only_decides_sees_the_request_and_not_the_conversation",
    ),
    Mutant(
        name="the inbox looks through everything for a filter",
        file="web/listing.py",
        old="    for _ in range(LOOKS_MAX):",
        new="    for _ in range(1000):",
        test=_INBOX + "test_a_filter_looks_only_so_far_at_a_time",
    ),
    Mutant(
        name="a conversation is followed without the right to see it",
        file="web/chat.py",
        old="""            await window.check_run(run_id)
        except""",
        new="""            pass
        except""",
        test=_LIVE + "test_the_stream_of_a_conversation_ends_with_the_right_to_see_it",
    ),
    Mutant(
        name="the inbox tells a session that has ended",
        file="web/session.py",
        old="        return (await visitor_of(request)).session.id == visitor.session.id",
        new="        return True",
        test=_LIVE + "test_a_stream_ends_with_its_session",
    ),
    Mutant(
        name="the inbox tells of what somebody may not see",
        file="server/live.py",
        old="        return None  # Not theirs to see, or gone by now.",
        new='        return type("", (), {"id": moved.run_id, "status": "open"})()',
        test=_LIVE + "test_a_session_is_told_of_what_it_may_see_and_of_nothing_else",
    ),
    Mutant(
        name="the inbox keeps all that a session has not heard",
        file="server/live.py",
        old="        if len(self._moved) >= PENDING_MAX:",
        new="        if False:",
        test=_LIVE + "test_who_does_not_keep_up_looks_at_the_list_instead",
    ),
    Mutant(
        name="the audit is for operators with any credential",
        file="web/session.py",
        old='    audits = "admin" in caller.scopes and ',
        new="    audits = ",
        test="web/test_views.py::test_the_audit_is_linked_for_those_who_may_see_it",
    ),
    Mutant(
        name="the audit is for whoever has the scope",
        file="web/audit.py",
        old="    if not visitor.audits:",
        new="    if False:",
        test="web/test_views.py::test_the_audit_is_for_operators",
    ),
)
