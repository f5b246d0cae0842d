"""How long a run works: what counts, who is refused for it, and who is not."""

from __future__ import annotations

from mutants.mutant import Mutant

_HERE = "engine/test_work_time.py::"
_PURE = "domain/test_budget.py::"

MUTANTS = (
    Mutant(
        name="a turn begins when the time is over",
        file="engine/turn.py",
        old="    if not left_ms:\n        raise _overtime(run)\n",
        new="    if not left_ms:\n        return None\n",
        test=_HERE + "test_no_turn_begins_when_the_time_is_over_and_no_tool_is_cut_off[memory]",
    ),
    Mutant(
        name="a model is waited for as long as it takes",
        file="engine/turn.py",
        old="bound = asyncio.timeout(left_s)",
        new="bound = asyncio.timeout(None)",
        test=_HERE + "test_a_model_is_waited_for_no_longer_than_the_run_may_work[memory]",
    ),
    Mutant(
        name="a model that was cut off is asked again",
        file="engine/turn.py",
        old="            if cut_off or not error.retryable",
        new="            if not error.retryable",
        test=_HERE + "test_a_model_that_does_not_mind_to_be_cut_off_gains_nothing[memory-fails]",
    ),
    Mutant(
        name="a model that was cut off is taken for one that failed",
        file="engine/turn.py",
        old="        if bound.expired():\n            raise _overtime(live.run) from error\n",
        new="        if False:\n            raise _overtime(live.run) from error\n",
        test=_HERE + "test_a_model_that_does_not_mind_to_be_cut_off_gains_nothing[memory-fails]",
    ),
    Mutant(
        name="a model that was cut off may answer all the same",
        file="engine/turn.py",
        old="    if bound.expired():\n        raise _overtime(live.run)\n",
        new="",
        test=_HERE + "test_a_model_that_does_not_mind_to_be_cut_off_gains_nothing[memory-answers]",
    ),
    Mutant(
        name="an answer that comes too late counts",
        file="engine/turn.py",
        old="    _time_left_s(parts, live.run)\n    return answer\n",
        new="    return answer\n",
        test=_HERE + "test_an_answer_that_comes_too_late_is_none[memory]",
    ),
    Mutant(
        name="what a model says of its own time is ours",
        file="engine/turn.py",
        old="        if bound.expired():\n            raise _overtime(live.run) from error\n",
        new="        if True:\n            raise _overtime(live.run) from error\n",
        test=_HERE + "test_what_a_model_says_of_its_own_time_is_not_taken_for_ours[memory]",
    ),
    Mutant(
        name="a yes is taken that there is no time left for",
        file="domain/settling.py",
        old="elif time is not None and not time.left_ms(now):",
        new="elif False and time is not None:",
        test=_HERE + "test_a_yes_that_the_run_has_no_time_left_for_is_refused[memory]",
    ),
    Mutant(
        name="a yes is taken that there is no turn left for",
        file="domain/settling.py",
        old="if run.turns_max and run.turns + run.spent >= run.turns_max:",
        new="if False:",
        test="engine/test_budgets.py::"
        "test_a_yes_that_the_run_has_no_turn_left_for_is_refused[memory]",
    ),
    Mutant(
        name="waiting costs time",
        file="domain/run.py",
        old="(max(0, now - self.since) if self.since else 0)",
        new="max(0, now - self.since)",
        test=_PURE + "test_a_run_that_waits_does_not_work",
    ),
    Mutant(
        name="a clock that is set back gives time back",
        file="domain/run.py",
        old="(max(0, now - self.since) if self.since else 0)",
        new="(now - self.since if self.since else 0)",
        test=_PURE + "test_a_clock_that_was_set_back_gives_no_time_back",
    ),
    Mutant(
        name="a run is given all of its time again when it goes on",
        file="domain/run.py",
        old="return replace(self, since=0, worked_ms=self.worked_by(at))",
        new="return replace(self, since=0, worked_ms=0)",
        test=_HERE + "test_waiting_costs_no_time[memory]",
    ),
    Mutant(
        name="a run stops, and does not say when",
        file="domain/lifecycle.py",
        old="if bool(event.at) != (time is not None):",
        new="if False:",
        test=_PURE
        + "test_when_a_run_stops_and_goes_on_is_said_if_its_time_is_bounded_and_only_then",
    ),
    Mutant(
        name="a run that is parked takes room for a bound that it has not",
        file="domain/codec.py",
        old="    if run.work_time is None:\n",
        new="    if False:\n",
        test=_PURE + "test_a_run_without_a_bound_takes_no_more_room_for_it",
    ),
    Mutant(
        name="what a child works is nobody's time",
        file="domain/apply_holds.py",
        old="worked_ms=time.worked_ms + event.worked_ms)",
        new="worked_ms=time.worked_ms)",
        test=_HERE + "test_what_a_child_works_is_its_parents_time[memory-5m-1]",
    ),
    Mutant(
        name="a run without a bound keeps the time of its child",
        file="engine/part.py",
        old="worked_ms=0 if above.work_time is None or time is None else",
        new="worked_ms=0 if time is None else",
        test=_HERE + "test_a_parent_without_a_bound_keeps_no_time_of_its_child[memory]",
    ),
    Mutant(
        name="a child may work for longer than its parent",
        file="engine/children.py",
        old="return min(share, driver.timeout_ms or share)",
        new="return driver.timeout_ms or share",
        test=_HERE + "test_a_child_has_what_its_parent_has_left_at_most[memory-options3-minutes3]",
    ),
    Mutant(
        name="each child has all that its parent has left",
        file="engine/children.py",
        old="max(1, time.left_ms(now) // among)",
        new="max(1, time.left_ms(now))",
        test=_HERE + "test_a_child_has_what_its_parent_has_left_at_most[memory-options1-minutes1]",
    ),
    Mutant(
        name="a child of a run without time has no bound",
        file="engine/children.py",
        old="max(1, time.left_ms(now) // among)",
        new="time.left_ms(now) // among",
        test=_HERE
        + "test_a_child_of_a_run_that_has_no_time_left_is_not_one_without_a_bound[memory]",
    ),
    Mutant(
        name="agents begin that there is no time for",
        file="engine/children.py",
        old="if agents and time is not None and",
        new="if False and time is not None and",
        test=_HERE + "test_no_run_begins_agents_that_there_is_no_time_for[memory]",
    ),
    Mutant(
        name="a run works on its way",
        file="domain/apply_holds.py",
        old="work_time=time.stopped(last).resumed(event.at))",
        new="work_time=time)",
        test=_PURE + "test_nobody_works_on_a_run_that_is_on_its_way",
    ),
    Mutant(
        name="a run that is taken in does not know when it stopped",
        file="engine/adopt.py",
        old="epilogue(steps[-1].after, now)",
        new="epilogue(steps[-1].after)",
        test="engine/test_adoption.py::"
        "test_a_run_may_work_elsewhere_for_as_long_as_it_has_left[memory]",
    ),
    Mutant(
        name="a row of the fold before is folded anew, which erasing forbids",
        file="engine/ledger.py",
        old="if FOLD_LIKE <= row.fold <= FOLD:",
        new="if row.fold == FOLD:",
        test=_HERE + "test_a_row_of_the_fold_before_is_read_even_if_its_journal_is_erased[memory]",
    ),
    Mutant(
        name="a row of the fold before is not audited",
        file="store/audit.py",
        old="if FOLD_LIKE <= row.fold <= FOLD and",
        new="if row.fold == FOLD and",
        test="store/test_audit.py::test_a_row_of_the_fold_before_is_held_to_its_journal_as_well",
    ),
)
