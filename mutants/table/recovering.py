"""Recovering: doubt rather than a guess, one owner, and nothing stranded."""

from __future__ import annotations

from mutants.mutant import Mutant

_SWEEPER = "engine/test_sweeper.py::"

MUTANTS = (
    Mutant(
        name="whoever recovers starts a once call again",
        file="engine/attempt.py",
        old="    if tool.effect is not Effect.ONCE:\n        may = ",
        new="    if True:\n        may = ",
        test="engine/test_effects.py::"
        "test_a_call_whose_worker_was_killed_comes_out_as_its_effect_demands[once-after]",
    ),
    Mutant(
        name="whoever recovers takes a once call for failed",
        file="engine/attempt.py",
        old="    if not tool.has_probe:\n        return Doubt(why=why)",
        new="    if not tool.has_probe:\n        return Done(outcome=Failed(message=why))",
        test="engine/test_effects.py::"
        "test_a_call_whose_worker_was_killed_comes_out_as_its_effect_demands[once-before]",
    ),
    Mutant(
        name="an interrupted call has failed",
        file="engine/attempt.py",
        old='        return _lost(tool, "it was interrupted by CancelledError")',
        new='        return Done(outcome=Failed(message="it was interrupted"))',
        test="engine/test_effects.py::test_an_error_is_in_doubt_or_definite_as_the_table_says",
    ),
    Mutant(
        name="a call that timed out has failed",
        file="engine/attempt.py",
        old="    if tool.effect is Effect.ONCE:\n        return Doubt(why=why)",
        new="    if tool.effect is Effect.ONCE:\n        return Done(outcome=Failed(message=why))",
        test="engine/test_effects.py::"
        "test_a_call_that_does_not_end_in_time_is_in_doubt_if_it_acts_once",
    ),
    Mutant(
        name="a body cut off in a once step takes it again",
        file="engine/leg.py",
        old="if last.effect == Effect.ONCE:",
        new="if False:",
        test="engine/test_body_misuse.py::test_a_step_that_is_cut_off_by_its_body_is_in_doubt",
    ),
    Mutant(
        name="runs of the dead are never rescued",
        file="store/lease.py",
        old='            return "dead"\n',
        new="            return None\n",
        test="store/test_process.py::test_a_killed_worker_is_dead_at_once",
    ),
    Mutant(
        name="a silent worker is taken for dead at once",
        file="engine/sweeper.py",
        old="return self._parts.store.tick() >= max(ends, default=0)",
        new="return True",
        test="engine/test_races.py::test_a_worker_stopped_for_less_than_its_time_is_left_alone",
    ),
    Mutant(
        name="what a dead worker has left waits in line",
        file="engine/sweeper.py",
        old="for _ in work[:AT_ONCE]:",
        new="for _ in work[:1]:",
        test=_SWEEPER + "test_what_a_dead_worker_has_left_is_taken_over_from_several_sides",
    ),
    Mutant(
        name="every sweeper begins at the same end",
        file="engine/sweeper.py",
        old="crc32(worker.id.encode()) % (len(page) or 1)",
        new="0",
        test=_SWEEPER + "test_what_a_dead_worker_has_left_is_taken_over_from_several_sides",
    ),
    Mutant(
        name="a store that was copied proves a death",
        file="store/lease.py",
        old="return self._is_locked(self._path(worker)) is False",
        new="return not self._is_locked(self._path(worker))",
        test="store/test_process.py::test_a_copy_without_the_lock_files_takes_nobody_for_dead",
    ),
    Mutant(
        name="whoever lost a run still writes to it",
        file="store/admit.py",
        old="if write.owner_was is not None and owner != write.owner_was:",
        new="if False:",
        test="store/test_contract.py::TestSqlite::"
        "test_an_owner_stays_until_an_append_says_otherwise",
    ),
    Mutant(
        name="whoever lost a run does not say who must own it",
        file="engine/ledger.py",
        old="            owned_by=owned_by,\n",
        new="            owned_by=None,\n",
        test="engine/test_takeover.py::"
        "test_a_model_that_fails_in_a_worker_that_was_taken_over_does_not_fail_the_run",
    ),
    Mutant(
        name="the result of any attempt counts",
        file="domain/verbs.py",
        old="if row is None or row.state is not CallState.STARTED or row.attempt != attempt:",
        new="if row is None or row.state is not CallState.STARTED:",
        test="domain/test_verbs.py::test_any_other_result_is_late",
    ),
    Mutant(
        name="the journal takes the result of any attempt",
        file="domain/apply_calls.py",
        old="if (event.attempt != row.attempt) if begun else event.attempt:",
        new="if False:",
        test="domain/test_lifecycle_call.py::test_an_outcome_is_of_the_attempt_under_way",
    ),
    Mutant(
        name="a run that waits keeps its owner",
        file="engine/ledger.py",
        old='        if status_of(run) is not Status.RUNNING:\n            return ""',
        new="        if status_of(run) is not Status.RUNNING:\n            return None",
        test="engine/test_cycle.py::test_an_approved_call_runs_once_and_the_run_goes_on",
    ),
    Mutant(
        name="a lost answer is taken for another's entry",
        file="engine/ledger.py",
        old="if not found or found[0].id != write.entries[0].id:",
        new="if found:",
        test="engine/test_adoption.py::test_an_answer_that_was_lost_is_looked_for",
    ),
    Mutant(
        name="what was approved elsewhere counts here",
        file="domain/adopting.py",
        old="approved = [row for row in rows if row.state is CallState.APPROVED]",
        new="approved = [row for row in rows if False]",
        test="engine/test_adoption.py::test_what_was_approved_elsewhere_is_asked_again",
    ),
    Mutant(
        name="a doubt is withdrawn with its run",
        file="domain/settling.py",
        old='if hold.kind == "in_doubt" or hold.child or only not in ("", hold.call):',
        new='if hold.child or only not in ("", hold.call):',
        test="domain/test_verbs.py::test_a_doubt_outlives_cancelling",
    ),
    Mutant(
        name="a worker is kept for as long as a command is in doubt",
        file="engine/turn.py",
        old="self.waits = any(row.state is not CallState.DOUBTED for row in left)",
        new="self.waits = bool(left)",
        test="engine/test_doubted_command.py::"
        "test_whatever_people_say_of_it_the_run_is_complete_after_that[memory-answer]",
    ),
    Mutant(
        name="a run is complete while a command is in doubt",
        file="engine/turn.py",
        old="            if not left:\n",
        new="            if True:\n",
        test="engine/test_doubted_command.py::"
        "test_whatever_people_say_of_it_the_run_is_complete_after_that[memory-answer]",
    ),
    Mutant(
        name="nobody can say what became of the last command of a run",
        file="domain/lifecycle.py",
        old="not (run.holds or has_work(run) or concludes(run))",
        new="not (run.holds or has_work(run))",
        test="domain/test_commands.py::"
        "test_a_run_with_a_command_in_doubt_waits_with_its_last_answer",
    ),
    Mutant(
        name="nobody ends a run whose last command was in doubt",
        file="engine/loop.py",
        old="not in self._turns and turn_due(run, strand)",
        new="not in self._turns and turn_due(run, strand)\n"
        "            and (strand.calls or strand.said > strand.seen)",
        test="engine/test_doubted_command.py::"
        "test_whatever_people_say_of_it_the_run_is_complete_after_that[memory-answer]",
    ),
    Mutant(
        name="a run is concluded over a command that is under way",
        file="domain/standing.py",
        old="run.ending or run.final or run.commands or run.holds:",
        new="run.ending or run.final or run.holds:",
        test="domain/test_commands.py::"
        "test_a_run_is_not_to_be_concluded_over_anything_that_is_open",
    ),
    Mutant(
        name="a run is concluded over what was said to it",
        file="domain/standing.py",
        old="return not (others or main.calls or main.said > main.seen)",
        new="return not (others or main.calls)",
        test="domain/test_commands.py::"
        "test_a_run_is_not_to_be_concluded_over_anything_that_is_open",
    ),
)
