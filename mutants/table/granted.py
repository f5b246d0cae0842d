"""Grants: how long, how often, for what, and what they never cover."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="uses of a grant are not counted",
        file="engine/grants.py",
        old="used=found.grant.used + times)",
        new="used=found.grant.used)",
        test="engine/test_grants.py::"
        "test_a_call_like_it_starts_without_anybody_and_the_journal_says_why[memory]",
    ),
    Mutant(
        name="calls of one turn use a grant more often than it says",
        file="engine/grants.py",
        old="if first.rev != found.rev or (most is not None and first.grant.used + times >= most):",
        new="if first.rev != found.rev:",
        test="engine/test_grants.py::test_calls_of_one_turn_share_the_uses_that_are_left[memory]",
    ),
    Mutant(
        name="two at once have the last use of a grant",
        file="store/admit.py",
        old="    _check_item(expected, rev_of(write.project, item.kind, item.id))\n",
        new="",
        test="store/test_contract.py::TestMemory::test_a_stale_item_refuses_its_append",
    ),
    Mutant(
        name="a start under a grant is not bound to its end",
        file="domain/guard.py",
        old="                    found.append(Before(at=event.grant_until))\n",
        new="                    pass\n",
        test="domain/test_guard.py::test_a_start_under_a_grant_must_be_committed_before_its_end",
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
        name="a grant that was revoked is good",
        file="domain/grant.py",
        old="return self.revoked is None and now",
        new="return now",
        test="domain/test_grant.py::test_a_grant_is_good_until_it_ends_is_used_up_or_revoked",
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
        name="a grant stands for several persons",
        file="domain/grant.py",
        old="return ruling.quorum == 1 and not ruling.not_requester",
        new="return not ruling.not_requester",
        test="domain/test_grant.py::test_one_standing_yes_is_never_more_than_one_yes",
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
        name="a grant is worth more than whoever gave it",
        file="engine/grants.py",
        old="right = who.right(approvers_of(run, ruling)) if who.active else None",
        new="right = who.rights[0] if who.active else None",
        test="engine/test_grants.py::"
        "test_a_grant_is_worth_what_whoever_gave_it_may_allow_now[memory]",
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
        old="if self.grants is None or pins or self.trust is not None:",
        new="if self.grants is None or pins:",
        test="engine/test_signing.py::test_a_grant_is_signed_by_nobody[memory]",
    ),
    Mutant(
        name="a grant covers what files say",
        file="engine/gate.py",
        old="if self.grants is None or pins or self.trust is not None:",
        new="if self.grants is None or self.trust is not None:",
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
