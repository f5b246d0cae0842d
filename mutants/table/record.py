"""People: their records, identities, roles and stand-ins, and what is looked at again."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="nobody looks whose an identity is",
        file="engine/people.py",
        old="found, via = await self._linked(project, by.id), by.id",
        new="found, via = None, by.id",
        test="engine/test_people.py::test_one_person_counts_once_whatever_they_come_by[memory]",
    ),
    Mutant(
        name="an identity that was given up still leads to a person",
        file="engine/people.py",
        old="return found if found is not None and identity in found[0].identities else None",
        new="return found",
        test="engine/test_people.py::test_an_identity_that_was_given_up_is_nobodys[memory]",
    ),
    Mutant(
        name="an identity is taken from whom it is of",
        file="engine/people.py",
        old="            if await self._linked(project, identity) is not None:\n",
        new="            if False:\n",
        test="engine/test_people.py::"
        "test_records_of_people_are_refused_where_they_could_not_work[memory]",
    ),
    Mutant(
        name="a start does not rest on people's records",
        file="domain/guard.py",
        old="                found += _resting_on(basis)\n            case e.HoldSettled(",
        new="            case e.HoldSettled(",
        test="domain/test_escalation.py::test_a_start_rests_on_the_records_of_those_who_allowed_it",
    ),
    Mutant(
        name="an edit does not rest on people's records",
        file="domain/guard.py",
        old="                found += _resting_on(basis)\n            case e.DecisionEffective(",
        new="            case e.DecisionEffective(",
        test="domain/test_escalation.py::"
        "test_a_vote_must_be_committed_in_time_and_on_the_records_it_rests_on",
    ),
    Mutant(
        name="a role that is lost before the commit counts",
        file="domain/guard.py",
        old="        found.append(ItemAt(kind=PERSON, id=one.person, rev=one.rev))\n",
        new="",
        test="domain/test_escalation.py::test_the_last_vote_rests_on_all_records",
    ),
    Mutant(
        name="a stand-in whose time ends before the commit counts",
        file="domain/guard.py",
        old="            found.append(Before(at=one.until))\n",
        new="            pass\n",
        test="domain/test_escalation.py::test_a_start_rests_on_the_records_of_those_who_allowed_it",
    ),
    Mutant(
        name="nobody asks what the others' votes rest on",
        file="engine/voters.py",
        old="                basis[n] = (*basis.get(n, ()), *right.basis)\n",
        new="                pass\n",
        test="engine/test_people.py::"
        "test_the_journal_says_by_what_right_and_on_which_records[memory]",
    ),
    Mutant(
        name="who has lost the role before the start has allowed it",
        file="engine/still.py",
        old="    if said < ruling.quorum:\n",
        new="    if False:\n",
        test="engine/test_people.py::"
        "test_who_has_lost_the_role_before_the_start_has_allowed_nothing[memory]",
    ),
    Mutant(
        name="who is shut out before the start has allowed it",
        file="engine/still.py",
        old='if not who.active or who.by.kind != "person":',
        new='if who.by.kind != "person":',
        test="engine/test_people.py::"
        "test_a_yes_is_worth_at_the_start_what_it_is_worth_then[memory-shut out]",
    ),
    Mutant(
        name="a start names no records",
        file="engine/still.py",
        old="return Still(basis=tuple(dict.fromkeys(basis)))",
        new="return Still()",
        test="engine/test_people.py::"
        "test_the_journal_says_by_what_right_and_on_which_records[memory]",
    ),
    Mutant(
        name="a right that no record gives counts",
        file="domain/apply_holds.py",
        old='if by.kind != "person" or said.right not in hold.approvers or not said.basis:',
        new="if False:",
        test="domain/test_votes.py::test_a_right_that_no_record_gives_is_refused",
    ),
    Mutant(
        name="who is no member is anyone of the project",
        file="domain/people.py",
        old="rights = (own, Right(name=anyone, basis=basis)) if member else (own,)",
        new="rights = (own, Right(name=anyone, basis=basis))",
        test="domain/test_people.py::test_who_is_no_member_is_not_just_anyone",
    ),
    Mutant(
        name="who is shut out is still one of those asked",
        file="domain/hold.py",
        old="return who.active and who.right(approvers) is not None",
        new="return who.right(approvers) is not None",
        test="domain/test_people.py::test_who_is_shut_out_is_meant_by_nothing",
    ),
    Mutant(
        name="anybody does what a run's owner may",
        file="engine/people.py",
        old="        if not owns(who, run):",
        new="        if False:",
        test="engine/test_people.py::test_an_operator_does_what_the_owner_may[memory]",
    ),
)
