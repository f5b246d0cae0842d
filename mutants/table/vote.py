"""Votes: quorums, persons rather than votes, and four eyes."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="one person's word settles what takes several",
        file="domain/settling.py",
        old="    if missing(hold, decision):\n        vote",
        new="    if False:\n        vote",
        test="engine/test_people.py::test_one_person_counts_once_whatever_they_come_by[memory]",
    ),
    Mutant(
        name="the journal takes one person's word for several",
        file="domain/apply_holds.py",
        old="    if missing(hold, decision):\n        raise",
        new="    if False:\n        raise",
        test="domain/test_votes.py::test_a_hold_is_settled_with_its_quorum_only",
    ),
    Mutant(
        name="votes are counted, not persons",
        file="domain/apply_holds.py",
        old="if isinstance(vote.verdict, kind) and not {*vote.persons} & {*decision.persons}",
        new="if isinstance(vote.verdict, kind)",
        test="domain/test_votes.py::test_nobody_votes_twice",
    ),
    Mutant(
        name="the journal takes two votes of one person",
        file="domain/apply_holds.py",
        old="    if has_voted(hold, decision.persons):\n        raise",
        new="    if False:\n        raise",
        test="domain/test_votes.py::test_nobody_votes_twice",
    ),
    Mutant(
        name="a vote that was enough is one of many",
        file="domain/apply_holds.py",
        old="or missing(hold, decision) < 1:",
        new="or False:",
        test="domain/test_votes.py::test_the_vote_that_is_enough_is_a_decision",
    ),
    Mutant(
        name="who stands in and who is stood in for count twice",
        file="domain/hold.py",
        old="return (self.by.id, self.of) if self.of else (self.by.id,)",
        new="return (self.by.id,)",
        test="domain/test_votes.py::test_who_stands_in_and_who_is_stood_in_for_count_once",
    ),
    Mutant(
        name="an identity counts as another person",
        file="domain/settling.py",
        old="mine = {*decision.persons, *who.also}",
        new="mine = {*decision.persons}",
        test="domain/test_votes.py::test_a_vote_by_an_identity_that_was_nobodys_is_known_again",
    ),
    Mutant(
        name="an edit keeps the votes on what it replaces",
        file="domain/apply_holds.py",
        old="        votes=(),\n",
        new="        votes=hold.votes,\n",
        test="domain/test_votes.py::test_an_edit_voids_the_votes",
    ),
    Mutant(
        name="somebody else takes a vote back",
        file="domain/apply_holds.py",
        old="if event.by not in (SAYSO, Principal(id=event.person)):",
        new="if False:",
        test="domain/test_votes.py::test_a_vote_is_taken_back_by_whoever_cast_it",
    ),
    Mutant(
        name="a run from elsewhere brings its votes",
        file="domain/adopting.py",
        old="        for vote in hold.votes:\n",
        new="        for vote in ():\n",
        test="domain/test_votes.py::test_a_run_from_elsewhere_brings_no_votes",
    ),
    Mutant(
        name="one person lets a doubt run again that takes several",
        file="engine/gate.py",
        old="            quorum=found.quorum,\n",
        new="            quorum=1,\n",
        test="engine/test_people.py::"
        "test_a_doubt_is_looked_into_by_as_many_as_the_call_needs[memory]",
    ),
    Mutant(
        name="of two rules the smaller quorum counts",
        file="domain/ruling.py",
        old="quorum=max(one.quorum, two.quorum),",
        new="quorum=min(one.quorum, two.quorum),",
        test="domain/test_ruling.py::test_a_combination_takes_as_many_as_the_stricter_one",
    ),
    Mutant(
        name="the journal lets who asked for a call allow it",
        file="domain/apply_holds.py",
        old="if not {by.id, said.of}.isdisjoint(requesters(run, hold)):",
        new="if False:",
        test="domain/test_votes.py::test_four_eyes_keep_out_who_asked_for_the_call",
    ),
    Mutant(
        name="who asked for a call allows it by another name",
        file="domain/people.py",
        old="mine = {self.by.id, *self.also, *(",
        new="mine = {self.by.id, *(",
        test="domain/test_votes.py::"
        "test_four_eyes_know_who_asked_by_every_name_and_by_whoever_stands_in",
    ),
    Mutant(
        name="who stands in for who asked for a call allows it",
        file="domain/people.py",
        old="*self.also, *(right.of for right in self.rights if right.of)}",
        new="*self.also}",
        test="domain/test_votes.py::"
        "test_four_eyes_know_who_asked_by_every_name_and_by_whoever_stands_in",
    ),
    Mutant(
        name="who edited a call allows it",
        file="domain/apply_holds.py",
        old="else (run.by.id, row.by, row.editor)",
        new="else (run.by.id, row.by)",
        test="domain/test_votes.py::test_four_eyes_keep_out_who_made_it_what_it_is",
    ),
    Mutant(
        name="who invoked a command allows it",
        file="domain/apply_holds.py",
        old="else (run.by.id, row.by, row.editor)",
        new="else (run.by.id, row.editor)",
        test="domain/test_votes.py::test_four_eyes_keep_out_who_invoked_the_command",
    ),
    Mutant(
        name="of two rules the one without four eyes counts",
        file="domain/ruling.py",
        old="not_requester=one.not_requester or two.not_requester,",
        new="not_requester=one.not_requester and two.not_requester,",
        test="domain/test_ruling.py::test_four_eyes_of_one_rule_are_four_eyes_of_both",
    ),
)
