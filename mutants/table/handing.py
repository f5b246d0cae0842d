"""Handing over and handing on: escalations, yeses that grow old, holds given to others."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="others are asked before their time",
        file="domain/settling.py",
        old="        if rung.at <= now\n",
        new="",
        test="domain/test_escalation.py::test_each_is_asked_at_their_time",
    ),
    Mutant(
        name="an escalation is not bound to its time",
        file="domain/guard.py",
        old="            return [Since(at=at, hold=n)]\n",
        new="            return []\n",
        test="domain/test_escalation.py::"
        "test_several_rungs_that_are_due_are_taken_at_once_and_each_in_its_time",
    ),
    Mutant(
        name="the journal takes any escalation",
        file="domain/apply_holds.py",
        old="if not hold.ladder or (event.at, event.to) != (hold.ladder[0].at, hold.ladder[0].to):",
        new="if not hold.ladder:",
        test="domain/test_escalation.py::test_only_the_next_rung_is_taken",
    ),
    Mutant(
        name="a yes is good for ever",
        file="domain/apply_holds.py",
        old="        if hold.start_by_ms is not None:\n",
        new="        if False:\n",
        test="domain/test_escalation.py::test_a_yes_is_good_for_as_long_as_the_rule_says",
    ),
    Mutant(
        name="a start is not bound to its time",
        file="domain/guard.py",
        old="                    found.append(Before(at=row.start_by))\n",
        new="                    pass\n",
        test="domain/test_escalation.py::test_a_yes_is_good_for_as_long_as_the_rule_says",
    ),
    Mutant(
        name="a yes that was not used in time starts its call",
        file="engine/still.py",
        old="if row.start_by is not None and now >= row.start_by:",
        new="if False:",
        test="engine/test_people.py::"
        "test_a_yes_that_is_not_used_in_time_goes_back_to_a_person[memory]",
    ),
    Mutant(
        name="one of many names anybody",
        file="domain/handing.py",
        old="theirs = to.right(hold.approvers if right.name == OPERATOR else [right.name])",
        new="theirs = right",
        test="domain/test_handing.py::test_who_is_one_of_many_may_name_one_of_the_same_many",
    ),
    Mutant(
        name="one of many speaks for others",
        file="domain/handing.py",
        old="hold.approvers if right.name == OPERATOR else [right.name]",
        new="hold.approvers",
        test="domain/test_handing.py::test_who_is_one_of_many_speaks_for_no_others",
    ),
    Mutant(
        name="the journal lets one of many speak for others",
        file="domain/apply_holds.py",
        old="        if event.instead_of not in own:\n",
        new="        if False:\n",
        test="domain/test_handing.py::test_who_is_one_of_many_speaks_for_no_others",
    ),
    Mutant(
        name="somebody is asked in place of several",
        file="domain/handing.py",
        old="        if max(hold.quorum, hold.reject_quorum) > 1:\n",
        new="        if False:\n",
        test="domain/test_handing.py::test_many_are_not_handed_over_to_one",
    ),
    Mutant(
        name="the journal lets somebody be asked in place of several",
        file="domain/apply_holds.py",
        old="if hold.together or (max(hold.quorum, hold.reject_quorum) > 1 and not named):",
        new="if hold.together:",
        test="domain/test_handing.py::test_many_are_not_handed_over_to_one",
    ),
    Mutant(
        name="who has voted lets somebody else vote as well",
        file="domain/handing.py",
        old="if has_voted(hold, {by.by.id, *by.also, right.of}):",
        new="if False:",
        test="domain/test_handing.py::test_who_has_voted_takes_it_back_first",
    ),
    Mutant(
        name="the journal lets who has voted name another",
        file="domain/apply_holds.py",
        old='if has_voted(hold, {event.by.id, event.of, event.instead_of.removeprefix("user:")}):',
        new="if False:",
        test="domain/test_handing.py::test_who_has_voted_takes_it_back_first",
    ),
    Mutant(
        name="it is handed over to who asked for it",
        file="domain/handing.py",
        old="if to.is_one_of(requesters(run, hold)):",
        new="if False:",
        test="domain/test_handing.py::test_four_eyes_are_not_handed_over_to_who_asked",
    ),
    Mutant(
        name="the journal lets it be handed over to who asked for it",
        file="domain/apply_holds.py",
        old='if event.to.removeprefix("user:") in requesters(run, hold):',
        new="if False:",
        test="domain/test_handing.py::test_four_eyes_are_not_handed_over_to_who_asked",
    ),
    Mutant(
        name="it is handed over to who may do nothing",
        file="domain/handing.py",
        old='if to.by.kind != "person" or not to.active:',
        new='if to.by.kind != "person":',
        test="domain/test_handing.py::test_it_is_handed_over_to_a_person_who_may_act",
    ),
)
