"""Handing over and handing on: escalations, yeses that grow old, holds given to others."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="the journal takes any escalation",
        file="domain/apply_holds.py",
        old="if not hold.ladder or (event.at, event.to) != (hold.ladder[0].at, hold.ladder[0].to):",
        new="if not hold.ladder:",
        test="domain/test_escalation.py::test_only_the_next_rung_is_taken",
    ),
    Mutant(
        name="when a yes was said is forgotten",
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
        name="one of many speaks for others",
        file="domain/handing.py",
        old="hold.approvers if right.name == OPERATOR else [first]",
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
        name="the journal lets it be handed over to who asked for it",
        file="domain/apply_holds.py",
        old='if event.to.removeprefix("user:") in requesters(run, hold):',
        new="if False:",
        test="domain/test_handing.py::test_four_eyes_are_not_handed_over_to_who_asked",
    ),
)
