"""Dispatch: work that is offered with its commit, fair shares, bounds, and queues that fail."""

from __future__ import annotations

from mutants.mutant import Mutant

_QUEUE = "store/test_postgres_queue.py::"
_DISPATCH = "engine/test_dispatch.py::"
_CLAIMS = "store/test_contract_postgres.py::TestPostgres::"
_HERE = "store/test_contract.py::TestSqlite::"
_WORK = "store/sql/postgres/0004_work.sql"
_JOBS = "store/postgres_jobs.py"

MUTANTS = (
    Mutant(
        name="work is not offered",
        file="store/sql/postgres/0005_append.sql",
        old="        perform offer(unowned);\n",
        new="        null;\n",
        test=_QUEUE + "test_a_commit_that_leaves_work_to_nobody_leaves_one_job",
    ),
    Mutant(
        name="work that has an owner is offered",
        file=_WORK,
        old="where id = any (named) and status = 'running' and owner = '';",
        new="where id = any (named) and status = 'running';",
        test=_QUEUE + "test_a_commit_that_leaves_work_to_nobody_leaves_one_job",
    ),
    Mutant(
        name="what a worker leaves is not offered",
        file="store/sql/postgres/0003_rest.sql",
        old="    perform offer(left_over);\n",
        new="",
        test=_QUEUE + "test_runs_that_a_worker_leaves_are_offered",
    ),
    Mutant(
        name="a broken queue refuses appends",
        file=_WORK,
        old="exception when others then\n    raise warning 'work cannot be offered: %', sqlerrm;\n",
        new="",
        test=_QUEUE + "test_a_queue_without_its_tables_refuses_no_append",
    ),
    Mutant(
        name="a project of a database gets beyond its bound",
        file=_WORK,
        old="where bound is null or c.rank <= bound",
        new="where true",
        test=_CLAIMS + "test_no_project_gets_beyond_its_bound",
    ),
    Mutant(
        name="claims from a database go by age alone",
        file=_WORK,
        old="order by c.rank, c.k limit most",
        new="order by c.k limit most",
        test=_CLAIMS + "test_what_is_under_way_counts_whoever_works_on_it",
    ),
    Mutant(
        name="a claim looks at the same agents and projects for ever",
        file="store/postgres.py",
        old="        self._looked_at = end[1:]\n",
        new="",
        test=_QUEUE + "test_what_cannot_be_taken_hides_nothing_behind_it[version]",
    ),
    Mutant(
        name="runs are taken over beyond the bound of the worker",
        file="engine/worker.py",
        old="self._parts.ledger.giving | self._taking_over",
        new="self._parts.ledger.giving",
        test="engine/test_sweeper.py::"
        "test_no_more_is_taken_over_at_once_than_there_is_room_for[postgres]",
    ),
    Mutant(
        name="two claims from a database count at the same time",
        file=_WORK,
        old="    perform pg_advisory_xact_lock(\n        1398110581,",
        new="    perform abs(\n        0 *",
        test=_QUEUE + "test_a_claim_counts_what_another_one_is_about_to_take",
    ),
    Mutant(
        name="a claim looks at everything that waits",
        file=_WORK,
        old="            order by r.k limit most\n        ) f",
        new="            order by r.k\n        ) f",
        test=_QUEUE + "test_a_claim_costs_the_same_however_many_wait",
    ),
    Mutant(
        name="a claim from a file sorts everything that waits",
        file="store/fair.py",
        old="select project, agent from runs indexed by runs_free",
        new="select project, agent from runs",
        test="store/test_fair.py::test_a_claim_from_a_file_goes_by_indexes_alone",
    ),
    Mutant(
        name="claims go by age alone",
        file="store/fair.py",
        old="sorted(ranked)[:limit]",
        new="ranked[:limit]",
        test=_HERE + "test_claims_take_turns_between_projects",
    ),
    Mutant(
        name="a project gets beyond its bound",
        file="store/fair.py",
        old="if project_max is None or rank[run.project] <= project_max:",
        new="if rank:",
        test=_HERE + "test_no_project_gets_beyond_its_bound",
    ),
    Mutant(
        name="an append takes a run beyond the bound of its project",
        file="engine/worker.py",
        old="if self.could_take(agent) and not bounded else",
        new="if self.could_take(agent) else",
        test=_DISPATCH
        + "test_a_bound_on_a_project_holds_in_the_process_that_starts_its_runs[memory]",
    ),
    Mutant(
        name="room that becomes free is noticed late",
        file="engine/worker.py",
        old="                self._dispatch.wake(loop.run_id)\n",
        new="                pass\n",
        test=_DISPATCH + "test_room_that_becomes_free_is_filled_at_once[sqlite]",
    ),
    Mutant(
        name="a claim that comes back while draining is begun",
        file="engine/worker.py",
        old="            if self._draining:\n                return  # They",
        new="            if not agents:\n                return  # They",
        test=_DISPATCH + "test_a_claim_that_comes_back_while_draining_is_left_to_others",
    ),
    Mutant(
        name="a job that fails is gone",
        file=_JOBS,
        old='on_failure="hold"',
        new='on_failure="delete"',
        test=_QUEUE + "test_a_job_that_fails_is_held_shown_and_offered_again",
    ),
    Mutant(
        name="jobs are picked without room for them",
        file=_JOBS,
        old="room = min(batch_size, self.room())",
        new="room = batch_size",
        test=_QUEUE + "test_without_room_no_job_is_picked_and_others_get_it",
    ),
    Mutant(
        name="a job without room is done",
        file=_JOBS,
        old="if self._manager.shutdown.is_set() or self._taker.room() <= 0:",
        new="if self._manager.shutdown.is_set():",
        test=_QUEUE + "test_a_job_for_which_there_is_no_room_any_more_is_handed_back",
    ),
    Mutant(
        name="a job that is none of ours is done",
        file=_JOBS,
        old='raise BadValue(f"the job {job.id} is none of ours: {error}") from None',
        new="return",
        test=_QUEUE + "test_a_job_that_is_none_of_ours_is_held",
    ),
    Mutant(
        name="the environment names the channel of the queue",
        file=_JOBS,
        old="        channel=Channel(work_channel(schema)),\n",
        new="",
        test=_QUEUE + "test_names_in_the_environment_have_no_effect",
    ),
    Mutant(
        name="pgqueuer is not begun again",
        file="store/postgres_queue.py",
        old="            if isinstance(error, StoreClosed) or self._stopped:\n",
        new="            if error or self._stopped:\n",
        test=_QUEUE + "test_jobs_are_picked_again_after_pgqueuer_has_ended",
    ),
    Mutant(
        name="jobs of the dead stay with them",
        file=_JOBS,
        old="heartbeat_timeout=timedelta(seconds=SILENT_S)",
        new="heartbeat_timeout=timedelta(days=1)",
        test=_DISPATCH
        + "test_a_job_of_a_process_that_was_killed_before_it_claimed_is_picked_again",
    ),
    Mutant(
        name="nobody is told that pgqueuer is missing",
        file="given.py",
        old='if find_spec("pgqueuer") is None:',
        new="if not find_spec:",
        test="store/test_postgres_open.py::"
        "test_a_queue_that_is_not_installed_is_missed_before_anybody_works",
    ),
    Mutant(
        name="the log of jobs grows for ever",
        file=_WORK,
        old="where l.created < now() - interval '1 minute'",
        new="where false",
        test=_QUEUE + "test_what_became_of_jobs_is_forgotten_but_for_those_that_are_held",
    ),
    Mutant(
        name="jobs that are not held are said to be offered again",
        file="cli/jobs.py",
        old="if not await queue.requeue(one)]",
        new="if await queue.requeue(one) is None]",
        test="cli/test_jobs.py::test_jobs_that_failed_are_listed_and_offered_again",
    ),
    Mutant(
        name="only a page of jobs is offered again",
        file="store/postgres_jobs.py",
        old="    while found := [",
        new="    if found := [",
        test="cli/test_jobs.py::test_all_of_them_are_more_than_a_page",
    ),
    Mutant(
        name="a worker takes whatever its own process starts at once",
        file="engine/worker.py",
        old="self._parts.ledger.giving | self._taking_over",
        new="self._taking_over",
        test="engine/test_dispatch.py::"
        "test_a_worker_takes_no_more_than_its_bound_of_what_its_own_process_starts[memory]",
    ),
    Mutant(
        name="a worker takes what is started while it claims",
        file="engine/worker.py",
        old="self.room() > self._claiming",
        new="self.room() > 0",
        test="engine/test_dispatch.py::"
        "test_what_is_started_while_a_claim_is_under_way_leaves_room_for_what_it_brings",
    ),
    Mutant(
        name="what was given an owner counts for ever",
        file="engine/ledger.py",
        old="            self.giving.discard(part.run.id)\n",
        new="",
        test="engine/test_dispatch.py::test_room_that_starts_have_taken_becomes_free_again[memory]",
    ),
)
