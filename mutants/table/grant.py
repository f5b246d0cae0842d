"""Grants: scope, arguments, end date, use count, revocation."""

from __future__ import annotations

from mutants.mutant import Mutant

_GRANTS = "engine/test_grants.py::"
_FAULTS = "engine/test_people_faults.py::"
_TABLE = (
    "authority/test_library.py::test_everybody_may_do_what_the_table_says_and_nothing_else[memory-"
)

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        name="a grant is used as often as one likes",
        file="domain/grant.py",
        old="left = self.uses_max is None or self.used < self.uses_max",
        new="left = True",
        test="domain/test_grant.py::test_a_grant_is_good_until_it_ends_is_used_up_or_revoked",
    ),
    Mutant(
        name="the calls of one turn share one use",
        file="engine/grants.py",
        old="(most is not None and first.grant.used + times >= most)",
        new="False",
        test=_GRANTS + "test_calls_of_one_turn_share_the_uses_that_are_left[memory]",
    ),
    Mutant(
        name="a use is not counted",
        file="engine/grants.py",
        old="used=found.grant.used + times",
        new="used=found.grant.used",
        test=_GRANTS + "test_the_last_use_is_had_by_one[memory]",
    ),
    Mutant(
        name="a grant never ends",
        file="domain/grant.py",
        old="self.revoked is None and now < self.until and left",
        new="self.revoked is None and left",
        test="domain/test_grant.py::test_a_grant_is_good_until_it_ends_is_used_up_or_revoked",
    ),
    Mutant(
        name="a grant's end is not compared at the commit",
        file="domain/guard.py",
        old="                if event.grant_until is not None:",
        new="                if False:",
        test=_FAULTS + "test_a_grant_ends_between_the_check_and_the_start[memory]",
    ),
    Mutant(
        name="a revoked grant is good",
        file="domain/grant.py",
        old="self.revoked is None and now < self.until and left",
        new="now < self.until and left",
        test=_GRANTS + "test_a_grant_ends_when_it_says_and_when_it_is_revoked[memory]",
    ),
    Mutant(
        name="anybody revokes a grant",
        file="engine/grants.py",
        old="            if not who.active or not (mine or who.right([OPERATOR])):",
        new="            if not who.active:",
        test=_TABLE + "grant-open]",
    ),
    Mutant(
        name="a grant is worth what whoever gave it could allow then",
        file="engine/grants.py",
        old="return None if right is None else right.basis",
        new="return (right or who.rights[0]).basis",
        test=_GRANTS + "test_a_grant_is_worth_what_whoever_gave_it_may_allow_now[memory]",
    ),
    Mutant(
        name="one's standing yes is a quorum",
        file="domain/grant.py",
        old="ruling.quorum == 1 and not",
        new="not",
        test=_GRANTS + "test_no_grant_is_given_or_used_where_one_yes_is_not_enough[memory-quorum]",
    ),
    Mutant(
        name="a grant is a way around four eyes",
        file="domain/grant.py",
        old="not ruling.not_requester and",
        new="",
        test=_GRANTS
        + "test_no_grant_is_given_or_used_where_one_yes_is_not_enough[memory-four eyes]",
    ),
    Mutant(
        name="a critical call has a standing yes",
        file="domain/grant.py",
        old=' and ruling.risk != "critical"',
        new="",
        test=_GRANTS
        + "test_no_grant_is_given_or_used_where_one_yes_is_not_enough[memory-critical]",
    ),
    Mutant(
        name="1 and True are one number to a grant",
        file="domain/grant.py",
        old="    return encode_value(now[name]) == encode_value(before[name])",
        new="    return now[name] == before[name]",
        test=_FAULTS + "test_a_grant_for_one_number_is_for_no_other[memory-True]",
    ),
    Mutant(
        name="True is at most ten",
        file="domain/grant.py",
        old="        if isinstance(found, bool) or not isinstance(found, int | float):",
        new="        if not isinstance(found, int | float):",
        test=_FAULTS + "test_a_limit_on_a_number_allows_numbers_only[memory]",
    ),
    Mutant(
        name="a grant is for every version of its tool",
        file="domain/grant.py",
        old="if tool_version != self.tool_version or agent != self.agent:",
        new="if agent != self.agent:",
        test=_GRANTS + "test_another_version_of_the_tool_is_asked_about[memory]",
    ),
    Mutant(
        name="a grant of a run is for all",
        file="domain/grant.py",
        old="        if self.run and self.run not in tuple(runs):",
        new="        if False:",
        test=_GRANTS + "test_a_grant_of_a_run_is_for_that_run[memory]",
    ),
    Mutant(
        name="a standing yes is taken back and stands",
        file="engine/giving.py",
        old="    if request.undo_ms:",
        new="    if False:",
        test=_FAULTS + "test_a_standing_yes_that_could_be_taken_back_is_refused[memory]",
    ),
    Mutant(
        name="two at once have the last use of a grant",
        file="store/admit.py",
        old="    _check_item(expected, rev_of(write.project, item.kind, item.id))\n",
        new="",
        test="store/test_contract.py::TestMemory::test_a_stale_item_refuses_its_append",
    ),
    Mutant(
        name="a start does not say when its grant ends",
        file="engine/proposal.py",
        old="grant_until=None if grant is None else grant.until,",
        new="grant_until=None,",
        test="engine/test_grants.py::"
        "test_a_call_like_it_starts_without_anybody_and_the_journal_says_why[memory]",
    ),
    Mutant(
        name="a grant covers another agent",
        file="domain/grant.py",
        old="if tool_version != self.tool_version or agent != self.agent:",
        new="if tool_version != self.tool_version:",
        test="domain/test_grant.py::"
        "test_it_is_for_one_version_of_the_tool_one_agent_and_maybe_one_run",
    ),
    Mutant(
        name="at most is at least",
        file="domain/grant.py",
        old='return found <= limit if self.kind == "at_most" else found >= limit',
        new='return found >= limit if self.kind == "at_most" else found <= limit',
        test="domain/test_grant.py::test_limits_let_arguments_be_otherwise_and_nothing_else",
    ),
    Mutant(
        name="a grant covers arguments that it does not know",
        file="domain/grant.py",
        old="if name not in now or (limit is None and name not in before):",
        new="if name not in now:",
        test="domain/test_grant.py::test_limits_let_arguments_be_otherwise_and_nothing_else",
    ),
    Mutant(
        name="a grant is used where one yes is not enough",
        file="engine/grants.py",
        old="        if not may_be_granted(ruling):\n            return None\n",
        new="",
        test="engine/test_grants.py::"
        "test_no_grant_is_given_or_used_where_one_yes_is_not_enough[memory-quorum]",
    ),
    Mutant(
        name="a grant is given where one yes is not enough",
        file="engine/grants.py",
        old="        if not may_be_granted(ruling):\n            raise",
        new="        if False:\n            raise",
        test="engine/test_grants.py::"
        "test_no_grant_is_given_or_used_where_one_yes_is_not_enough[memory-quorum]",
    ),
    Mutant(
        name="a grant of one who is shut out is good",
        file="engine/grants.py",
        old="right = who.right(approvers_of(run, ruling)) if who.active else None",
        new="right = who.right(approvers_of(run, ruling))",
        test="engine/test_grants.py::"
        "test_a_grant_is_worth_what_whoever_gave_it_may_allow_now[memory]",
    ),
    Mutant(
        name="a start under a grant does not rest on who gave it",
        file="engine/gate.py",
        old="return replace(start, basis=found.basis, found=found)",
        new="return replace(start, found=found)",
        test="engine/test_grants.py::"
        "test_a_call_like_it_starts_without_anybody_and_the_journal_says_why[memory]",
    ),
    Mutant(
        name="a grant that nobody has signed counts",
        file="engine/gate.py",
        old="if self.grants is None or pins or is_sealed(args) or self.trust is not None:",
        new="if self.grants is None or pins or is_sealed(args):",
        test="engine/test_signing.py::test_a_grant_is_signed_by_nobody[memory]",
    ),
    Mutant(
        name="a grant covers what files say",
        file="engine/gate.py",
        old="if self.grants is None or pins or is_sealed(args) or self.trust is not None:",
        new="if self.grants is None or is_sealed(args) or self.trust is not None:",
        test="engine/test_operand.py::test_no_grant_speaks_of_what_files_say[memory]",
    ),
    Mutant(
        name="a grant is given to what files say",
        file="engine/giving.py",
        old="    if shown.operands:\n",
        new="    if False:\n",
        test="engine/test_operand.py::test_no_grant_speaks_of_what_files_say[memory]",
    ),
    Mutant(
        name="a grant keeps secrets",
        file="engine/giving.py",
        old="    if is_sealed(args):\n",
        new="    if False:\n",
        test="engine/test_secrets.py::test_no_grant_keeps_a_secret[memory]",
    ),
    Mutant(
        name="a grant is given before its decision is one",
        file="engine/grants.py",
        old="            isinstance(one, e.HoldSettled) for one in decided\n",
        new="            True for one in decided\n",
        test="engine/test_grants.py::test_an_edit_that_others_must_decide_gives_no_grant[memory]",
    ),
)
