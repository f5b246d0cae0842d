"""People: quorum, votes, distinct persons, roles, four eyes, stand-ins, handing over."""

from __future__ import annotations

from mutants.mutant import Mutant

_PEOPLE = "engine/test_people.py::"
_FAULTS = "engine/test_people_faults.py::"
_TABLE = (
    "authority/test_library.py::test_everybody_may_do_what_the_table_says_and_nothing_else[memory-"
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="one person is a quorum",
        file="domain/apply_holds.py",
        old="    return max(needed - len(others) - 1, 0)",
        new="    return 0",
        test=_PEOPLE + "test_one_person_counts_once_whatever_they_come_by[memory]",
    ),
    Mutant(
        name="a quorum is not counted again at the start",
        file="engine/still.py",
        old="    if said < ruling.quorum:",
        new="    if not said:",
        test=_FAULTS + "test_a_quorum_that_was_raised_after_the_votes_is_asked_for[memory]",
    ),
    Mutant(
        name="somebody votes twice",
        file="domain/settling.py",
        old="    _check_voted(hold, decision, who)\n",
        new="",
        test=_PEOPLE + "test_one_person_counts_once_whatever_they_come_by[memory]",
    ),
    Mutant(
        name="two names of one person are two at the start",
        file="engine/still.py",
        old="        if not counted.isdisjoint(persons):",
        new="        if False:",
        test=_FAULTS + "test_two_yeses_that_turn_out_to_be_one_persons_start_nothing[memory]",
    ),
    Mutant(
        name="whom somebody speaks for now is not asked at the start",
        file="engine/still.py",
        old='persons = {*decision.persons, who.by.id, right.of} - {""}',
        new="persons = {*decision.persons, who.by.id}",
        test=_FAULTS + "test_the_start_counts_whom_somebody_speaks_for_now[memory]",
    ),
    Mutant(
        name="who somebody turns out to be is not asked at the start",
        file="engine/still.py",
        old='persons = {*decision.persons, who.by.id, right.of} - {""}',
        new='persons = {*decision.persons, right.of} - {""}',
        test=_FAULTS + "test_two_yeses_that_turn_out_to_be_one_persons_start_nothing[memory]",
    ),
    Mutant(
        name="a vote counts for whomever its voter speaks for now",
        file="engine/voters.py",
        old='            if {voter.by.id, right.of} - {""} <= {*vote.persons}:',
        new="            if True:",
        test=_FAULTS
        + "test_who_votes_for_themselves_does_not_later_vote_for_another_with_it[memory]",
    ),
    Mutant(
        name="a vote of one who has lost the role counts",
        file="engine/voters.py",
        old="                lapsed.setdefault(n, []).append(vote.by.id)\n                continue",
        new="                continue",
        test=_PEOPLE + "test_a_vote_of_one_who_has_lost_the_role_does_not_count[memory]",
    ),
    Mutant(
        name="a vote that came in meanwhile counts unseen",
        file="engine/voters.py",
        old="    if hold is not None and hold.votes != standing.votes[n]:",
        new="    if False:",
        test=_FAULTS + "test_a_vote_that_comes_in_meanwhile_counts_only_if_it_still_may[memory]",
    ),
    Mutant(
        name="an edit keeps the votes before it",
        file="domain/apply_holds.py",
        old="        votes=(),\n        ladder=_ladder(run, event.ruling, hold.opened_at),",
        new="        ladder=_ladder(run, event.ruling, hold.opened_at),",
        test=_PEOPLE + "test_an_edit_voids_the_votes_before_it[memory]",
    ),
    Mutant(
        name="who asked for it decides under four eyes",
        file="domain/entitled.py",
        old="    if by.is_one_of(requesters(run, hold)):",
        new="    if False:",
        test=_PEOPLE
        + "test_four_eyes_keeps_out_who_asked_their_accounts_and_their_stand_ins[memory]",
    ),
    Mutant(
        name="the stand-in of who asked for it decides under four eyes",
        file="domain/people.py",
        old="{self.by.id, *self.also, *(right.of for right in self.rights if right.of)}",
        new="{self.by.id, *self.also}",
        test=_PEOPLE
        + "test_four_eyes_keeps_out_who_asked_their_accounts_and_their_stand_ins[memory]",
    ),
    Mutant(
        name="who edited it decides when it is asked again",
        file="domain/apply_holds.py",
        old="(run.by.id, row.by, row.editor)",
        new="(run.by.id, row.by)",
        test=_FAULTS + "test_who_edited_a_call_does_not_allow_it_when_it_is_asked_again[memory]",
    ),
    Mutant(
        name="who asked for it has allowed it at the start",
        file="engine/still.py",
        old="right is None or (ruling.not_requester and who.is_one_of(requesters))",
        new="right is None",
        test=_FAULTS
        + "test_who_asked_for_it_has_not_allowed_it_under_rules_that_came_since[memory]",
    ),
    Mutant(
        name="it is listed for whom it is not to be decided by",
        file="engine/voters.py",
        old="None if hold is not None and who.is_one_of(requesters(run, hold)) else view",
        new="view",
        test=_FAULTS + "test_who_edited_a_call_does_not_allow_it_when_it_is_asked_again[memory]",
    ),
    Mutant(
        name="it is handed over to who asked for it",
        file="domain/handing.py",
        old="    if to.is_one_of(requesters(run, hold)):",
        new="    if False:",
        test=_FAULTS + "test_nothing_is_handed_over_to_who_asked_for_it[memory]",
    ),
    Mutant(
        name="a role lost before the commit of a decision counts",
        file="domain/guard.py",
        old="                found += _resting_on(decision.basis)\n",
        new="",
        test=_FAULTS + "test_a_role_lost_before_the_commit_is_lost[memory]",
    ),
    Mutant(
        name="a voter's role lost before the commit of the last word counts",
        file="domain/settling.py",
        old="basis=tuple(dict.fromkeys((*right.basis, *basis)))",
        new="basis=right.basis",
        test=_FAULTS
        + "test_a_vote_before_the_last_one_is_lost_with_its_role_up_to_the_commit[memory]",
    ),
    Mutant(
        name="a role lost before the start counts",
        file="engine/gate.py",
        old="            still = await still_allowed(\n"
        "                records or self.records, run, row, ruling, transcript, now=now\n"
        "            )\n",
        new="            still = Still()\n",
        test=_PEOPLE + "test_who_has_lost_the_role_before_the_start_has_allowed_nothing[memory]",
    ),
    Mutant(
        name="a role lost before the commit of the start counts",
        file="domain/guard.py",
        old="                    found.append(Before(at=event.grant_until))\n"
        "                found += _resting_on(basis)",
        new="                    found.append(Before(at=event.grant_until))",
        test=_FAULTS + "test_a_role_lost_before_the_start_is_committed_starts_nothing[memory]",
    ),
    Mutant(
        name="whoever is shut out decides",
        file="domain/entitled.py",
        old="    if not by.active:",
        new="    if False:",
        test=_PEOPLE + "test_who_is_shut_out_does_nothing_whoever_names_them[memory]",
    ),
    Mutant(
        name="whoever is shut out takes a decision back",
        file="engine/decide.py",
        old='        if not who.active:\n            raise NotAllowed(f"{who.by} may not take',
        new='        if False:\n            raise NotAllowed(f"{who.by} may not take',
        test=_FAULTS + "test_whoever_is_shut_out_takes_nothing_back[memory]",
    ),
    Mutant(
        name="whoever is shut out signs in",
        file="agents/sign_in.py",
        old=" or not may_decide(found.row.who, who, found.row.kind):",
        new=":",
        test=_FAULTS + "test_whoever_is_shut_out_signs_in_nowhere[memory]",
    ),
    Mutant(
        name="a stand-in signs in for somebody else",
        file="agents/sign_in.py",
        old="        if right is None or right.of or",
        new="        if right is None or",
        test=_FAULTS + "test_whoever_is_shut_out_signs_in_nowhere[memory]",
    ),
    Mutant(
        name="a stand-in never ends",
        file="domain/people.py",
        old="not stand_in.since <= now < stand_in.until:",
        new="now < stand_in.since:",
        test=_PEOPLE + "test_a_stand_in_decides_for_a_time_and_the_two_count_as_one[memory]",
    ),
    Mutant(
        name="a stand-in begins at once",
        file="domain/people.py",
        old="not stand_in.since <= now < stand_in.until:",
        new="not now < stand_in.until:",
        test=_TABLE + "named-open]",
    ),
    Mutant(
        name="a stand-in's end is not compared at the commit",
        file="domain/guard.py",
        old="        if one.until is not None:",
        new="        if False:",
        test=_FAULTS + "test_a_stand_in_whose_time_ends_before_the_commit_is_told_so[memory]",
    ),
    Mutant(
        name="who stands in for one shut out has their rights",
        file="domain/people.py",
        old="        if other is None or not other.active or",
        new="        if other is None or",
        test=_FAULTS + "test_who_stands_in_for_somebody_shut_out_has_no_rights_of_theirs[memory]",
    ),
    Mutant(
        name="an operator's stand-in is an operator",
        file="domain/people.py",
        old="if name not in (anyone, OPERATOR)]",
        new="if name != anyone]",
        test=_TABLE + "owner-open]",
    ),
    Mutant(
        name="a stranger is one of the project",
        file="engine/people.py",
        old="basis=(Basis(person=by.id, rev=0),), member=False)",
        new="basis=(Basis(person=by.id, rev=0),))",
        test=_PEOPLE + "test_anyone_is_a_person_of_the_project[memory]",
    ),
    Mutant(
        name="a yes is good for ever",
        file="engine/still.py",
        old="    if row.start_by is not None and now >= row.start_by:",
        new="    if False:",
        test=_PEOPLE + "test_a_yes_that_is_not_used_in_time_goes_back_to_a_person[memory]",
    ),
    Mutant(
        name="how long a yes is good is not compared at the commit",
        file="domain/guard.py",
        old="                if row is not None and row.start_by is not None:",
        new="                if False:",
        test=_FAULTS
        + "test_a_yes_that_was_good_until_the_commit_of_its_start_is_asked_for_again[memory]",
    ),
    Mutant(
        name="others are asked before their time",
        file="domain/settling.py",
        old="        if rung.at <= now\n",
        new="",
        test=_PEOPLE + "test_silence_asks_others_as_well_and_then_means_no[memory]",
    ),
    Mutant(
        name="when others are asked is not compared at the commit",
        file="domain/guard.py",
        old="            return [Since(at=at, hold=n)]",
        new="            return []",
        test=_FAULTS + "test_others_are_not_asked_before_their_time_by_the_stores_clock[memory]",
    ),
    Mutant(
        name="one of many hands it over to anybody",
        file="domain/handing.py",
        old='    if not first.startswith("user:"):',
        new="    if False:",
        test=_PEOPLE + "test_one_of_many_hands_over_only_to_one_of_the_same_many[memory]",
    ),
    Mutant(
        name="who was named by one of many hands it on to anybody",
        file="domain/handing.py",
        old="    first = dict(hold.handed).get(right.name, right.name)",
        new="    first = right.name",
        test=_FAULTS + "test_what_asks_many_is_handed_on_only_among_them[memory]",
    ),
    Mutant(
        name="it is handed over to somebody unknown",
        file="domain/handing.py",
        old=" or to.right([anyone]) is None:",
        new=":",
        test=_FAULTS + "test_nothing_is_handed_over_to_somebody_unknown_or_shut_out[memory]",
    ),
    Mutant(
        name="it is handed over to one who is shut out",
        file="domain/handing.py",
        old='to.by.kind != "person" or not to.active or',
        new='to.by.kind != "person" or',
        test=_FAULTS + "test_nothing_is_handed_over_to_somebody_unknown_or_shut_out[memory]",
    ),
    Mutant(
        name="one is asked in place of several",
        file="domain/handing.py",
        old="        if max(hold.quorum, hold.reject_quorum) > 1:",
        new="        if False:",
        test=_PEOPLE + "test_nobody_is_asked_in_place_of_several[memory]",
    ),
    Mutant(
        name="whoever likes does to a run what its owner may",
        file="engine/people.py",
        old="return who.active and (has_started(who, run) or who.right([OPERATOR]) is not None)",
        new="return who.active",
        test=_TABLE + "owner-open]",
    ),
    Mutant(
        name="names that look alike are two",
        file="engine/people.py",
        old="    if not _is_normal(text):",
        new="    if False:",
        test=_FAULTS + "test_names_that_only_look_alike_are_not_the_same_person[memory]",
    ),
)
