"""Deciding: who may, what was shown, in time, and once."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="a hold that is decided can be decided again",
        file="domain/entitled.py",
        old="    if hold.decision is not None:\n        raise AlreadyDecided",
        new="    if False:\n        raise AlreadyDecided",
        test="domain/test_verbs.py::test_a_second_decision_is_told_what_stands",
    ),
    Mutant(
        name="the journal takes a second decision",
        file="domain/apply_holds.py",
        old="if hold is None or (hold.decision is not None and not withdrawn):",
        new="if hold is None:",
        test="domain/test_lifecycle_hold.py::test_a_second_decision_is_refused",
    ),
    Mutant(
        name="a decision is not bound to its time",
        file="domain/guard.py",
        old="            | e.HoldReassigned(hold=n)\n        ):\n"
        "            return [] if deadline is None else [Before(at=deadline, hold=n)]",
        new="            | e.HoldReassigned(hold=n)\n        ):\n            return []",
        test="domain/test_guard.py::test_a_decision_must_be_committed_before_the_deadline",
    ),
    Mutant(
        name="expiry is not bound to its time",
        file="domain/guard.py",
        old="return [] if deadline is None else [Since(at=deadline, hold=n)]",
        new="return []",
        test="domain/test_guard.py::test_expiry_must_not_be_committed_before_the_deadline",
    ),
    Mutant(
        name="deadlines are compared before the commit only",
        file="engine/write.py",
        old="only_if=conditions_of(before, events) if before else (),",
        new="only_if=(),",
        test="engine/test_races.py::test_a_decision_the_deadline_and_a_cancellation_never_both_win",
    ),
    Mutant(
        name="the last millisecond counts twice",
        file="store/admit.py",
        old="holds = at < condition.at",
        new="holds = at <= condition.at",
        test="store/test_contract.py::TestMemory::"
        "test_conditions_are_held_against_store_time_to_the_millisecond",
    ),
    Mutant(
        name="a late decision is taken because nobody has swept",
        file="domain/entitled.py",
        old="    if hold.deadline is not None and now >= hold.deadline:\n        raise HoldExpired",
        new="    if False:\n        raise HoldExpired",
        test="domain/test_verbs.py::test_a_late_decision_is_told_that_nobody_decided_in_time",
    ),
    Mutant(
        name="expiry is somebody's decision",
        file="domain/entitled.py",
        old="        by=CLOCK,",
        new='        by=type(CLOCK)(kind="person", id=hold.approvers[0].removeprefix("user:")),',
        test="domain/test_verbs.py::test_silence_means_what_the_ruling_says",
    ),
    Mutant(
        name="the journal takes expiry in somebody's name",
        file="domain/apply_holds.py",
        old="if decision.by != CLOCK or hold.deadline is None or",
        new="if hold.deadline is None or",
        test="domain/test_lifecycle_hold.py::test_expiry_is_nobodys_decision",
    ),
    Mutant(
        name="silence approves whatever the rule says",
        file="domain/standing.py",
        old='return verdict.silence == "approve"',
        new="return True",
        test="domain/test_verbs.py::test_silence_means_what_the_ruling_says",
    ),
    Mutant(
        name="silence approves what is of high risk",
        file="domain/ruling.py",
        old='if highest not in ("low", "medium") and silence == "approve":',
        new='if highest not in RISKS and silence == "approve":',
        test="domain/test_policy.py::test_silence_never_approves_what_is_of_high_risk",
    ),
    Mutant(
        name="silence lets a call in doubt start again",
        file="domain/apply_holds.py",
        old='if kind in _NEVER_SILENT and event.ruling.on_silence == "approve":',
        new="if False:",
        test="domain/test_lifecycle_hold.py::test_silence_never_lets_a_call_in_doubt_start_again",
    ),
    Mutant(
        name="a no starts the call",
        file="domain/standing.py",
        old="return isinstance(verdict, Approved)",
        new='return type(verdict).__name__ in ("Approved", "Rejected")',
        test="engine/test_cycle.py::test_a_rejected_call_never_runs_and_the_model_is_told_why",
    ),
    Mutant(
        name="whoever is first in the list is decided",
        file="domain/entitled.py",
        old="    hold = run.hold(n)\n",
        new="    hold = next(iter(run.holds), None)\n",
        test="domain/test_commands.py::test_a_command_may_need_leave",
    ),
    Mutant(
        name="a request decides by position",
        file="engine/decide.py",
        old='asked = [one.row.n for one in whole if one.row.status == "open"]',
        new='asked = [n for n, one in enumerate(whole, 1) if one.row.status == "open"][:1]',
        test="engine/test_cycle.py::test_resume_decides_all_or_nothing",
    ),
    Mutant(
        name="anybody decides",
        file="domain/entitled.py",
        old="    right = by.right(hold.approvers)\n"
        "    if hold.child or right is None or not may_decide(hold.approvers, by, hold.kind):",
        new="    right = by.right(hold.approvers) or by.rights[0]\n    if hold.child:",
        test="domain/test_verbs.py::test_whoever_may_not_decide_is_refused",
    ),
    Mutant(
        name="the journal takes anybody's decision",
        file="domain/apply_holds.py",
        old="elif not may_decide(hold.approvers, by, hold.kind):",
        new="elif False:",
        test="domain/test_lifecycle_hold.py::test_nobody_edits_or_decides_who_may_not",
    ),
    Mutant(
        name="agents and services approve",
        file="domain/hold.py",
        old='if who.by.kind != "person" and (kind != "external" or who.by.kind != "service"):',
        new="if False:",
        test="domain/test_people.py::test_a_service_reports_what_happens_outside_and_decides_nothing",
    ),
    Mutant(
        name="what was shown need not be what is decided",
        file="domain/settling.py",
        old=" or (digest is not None and digest != hold.digest):",
        new=":",
        test="domain/test_verbs.py::test_only_what_was_shown_is_decided",
    ),
    Mutant(
        name="an old version is decided after an edit",
        file="domain/settling.py",
        old="if (digest is None and hold.version > 1) or (",
        new="if (",
        test="engine/test_regressions.py::"
        "test_resuming_all_without_a_digest_does_not_decide_what_was_edited",
    ),
    Mutant(
        name="the journal takes a decision on another version",
        file="domain/apply_holds.py",
        old="    if event.version != hold.version or decision.digest != hold.digest:\n"
        '        raise IllegalEvent("a decision binds',
        new='    if False:\n        raise IllegalEvent("a decision binds',
        test="domain/test_lifecycle_hold.py::test_a_decision_binds_what_was_shown",
    ),
    Mutant(
        name="an edit needs nobody new",
        file="domain/apply_holds.py",
        old="        revised=run.seq,\n        approvers=event.approvers,",
        new="        revised=run.seq,\n        approvers=hold.approvers,",
        test="engine/test_cycle.py::test_an_edit_that_needs_somebody_else_stays_open_for_them",
    ),
    Mutant(
        name="an edit is not ruled on",
        file="engine/edit.py",
        old="    if isinstance(ruling, Forbid):\n        raise NotAllowed",
        new="    if False:\n        raise NotAllowed",
        test="engine/test_cycle.py::test_an_edit_is_validated_and_may_be_forbidden",
    ),
    Mutant(
        name="an edit buys time",
        file="domain/verbs.py",
        old="deadline=min((at for at in (hold.deadline, within) if at is not None), default=None),",
        new="deadline=within,",
        test="domain/test_verbs.py::test_an_edit_never_buys_time",
    ),
    Mutant(
        name="anybody undoes a decision",
        file="domain/settling.py",
        old="if hold.decision.by != by:",
        new="if False:",
        test="domain/test_verbs.py::test_a_decision_can_be_undone_in_time_by_whoever_made_it",
    ),
    Mutant(
        name="a key is good for another request",
        file="engine/keys.py",
        old="if found is not None and found.digest != key.digest:",
        new="if False:",
        test="engine/test_cycle.py::test_a_retried_decision_gets_the_same_answer",
    ),
    Mutant(
        name="people count as they do in the project of the app",
        file="engine/voters.py",
        old="    who = await records.authority(run.project, by)\n",
        new="    who = await records.authority(parts.records.project, by)\n",
        test="engine/test_fail_closed.py::"
        "test_nobody_decides_by_what_they_may_do_in_another_project",
    ),
    Mutant(
        name="a decision that is committed is answered with an error",
        file="engine/decide.py",
        old="            return None  # It is decided all the same.",
        new="            raise",
        test="engine/test_newer.py::"
        "test_a_decision_about_a_run_with_an_unknown_event_is_told_to_whoever_made_it[database]",
    ),
)
