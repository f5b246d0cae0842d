"""PostgreSQL: one after another, by its own clocks, and never taken for safer than it is."""

from __future__ import annotations

from mutants.mutant import Mutant

_STORE = "store/test_postgres.py::"
_OPEN = "store/test_postgres_open.py::"
_PARTS = "store/test_postgres_parts.py::"
_FAULT = "store/test_postgres_fault.py::"
_APPEND = "store/sql/postgres/0005_append.sql"

MUTANTS = (
    Mutant(
        name="what is meant as a database becomes a file, with its password in the name",
        file="given.py",
        old="    if re.search(_MEANT, text):\n",
        new="    if False:\n",
        test="cli/test_move.py::test_what_is_meant_as_a_database_becomes_no_file_and_is_not_repeated"
        "[postgres:u:s3cret@h/db]",
    ),
    Mutant(
        name="appends to a database overtake one another",
        file=_APPEND,
        old="    said := pg_advisory_xact_lock(1398110579, spot);\n",
        new="",
        test=_STORE + "test_an_append_waits_for_one_that_is_not_committed_yet",
    ),
    Mutant(
        name="a condition that a database does not know is met",
        file=_APPEND,
        old="end) is not true then",
        new="end) is false then",
        test=_STORE + "test_a_condition_that_the_server_does_not_know_is_not_taken_for_met",
    ),
    Mutant(
        name="an outage of a database ends leases",
        file="store/sql/postgres/0001.sql",
        old="tick + least(greatest(now_ms(null) - at, 0), 3000)",
        new="tick + (now_ms(null) - at)",
        test=_STORE + "test_the_time_in_which_a_server_was_away_ends_no_lease",
    ),
    Mutant(
        name="entries of a database can be changed",
        file="store/sql/postgres/0001.sql",
        old="        and new.id = old.id and new.at = old.at and new.hash = old.hash\n",
        new="",
        test=_STORE + "test_the_journal_is_only_added_to",
    ),
    Mutant(
        name="a part of the journal can be emptied",
        file="store/sql/postgres/0001.sql",
        old="before truncate on journal_%s",
        new="before delete on journal_%s",
        test=_PARTS + "test_no_part_of_the_journal_is_changed_or_cut",
    ),
    Mutant(
        name="positions are given ever slower during a backup",
        file="store/sql/postgres/0001.sql",
        old="create table ends (position bigint primary key);",
        new="create table ends (position bigint);",
        test=_PARTS + "test_positions_are_given_as_fast_while_somebody_keeps_an_old_view",
    ),
    Mutant(
        name="a question that cannot be answered takes others along",
        file="store/postgres_lane.py",
        old="            if len(some) == 1:\n",
        new="            if True:\n",
        test="store/test_postgres_lane.py::test_a_question_that_is_refused_is_refused_alone",
    ),
    Mutant(
        name="a position can be given twice",
        file=_APPEND,
        old="set position = position + wanted from store x\n"
        "    where position = (select max(position) from ends)\n",
        new="set position = (select max(position) from ends) + wanted from store x\n",
        test=_PARTS + "test_no_position_is_given_twice_even_without_the_lock",
    ),
    Mutant(
        name="what was refused leaves a gap between positions",
        file=_APPEND,
        old="    if seen < first + wanted then",
        new="    if false then",
        test=_STORE + "test_what_is_refused_leaves_no_gap_between_positions",
    ),
    Mutant(
        name="one mixture of appends after another is prepared anew",
        file="store/postgres_writer.py",
        old="None if given is None else str(given),",
        new="given,",
        test=_STORE + "test_an_append_is_prepared_before_it_is_needed",
    ),
    Mutant(
        name="a beginning looks through everything that was archived",
        file=_APPEND,
        old="        where project = new.project and thread = new.thread limit 1;\n",
        new="        where project = new.project and (thread = new.thread) is true limit 1;\n",
        test=_PARTS + "test_a_beginning_looks_at_no_archived_run_but_its_own",
    ),
    Mutant(
        name="what is due is looked for among all that wait",
        file="store/postgres_reader.py",
        old="due_at <= (select now_ms(%s::bigint))",
        new="due_at <= now_ms(%s::bigint)",
        test=_PARTS + "test_every_question_reads_what_it_answers_and_no_more",
    ),
    Mutant(
        name="plans for small tables stay when they have grown",
        file="store/postgres_link.py",
        old="    set_config('enable_bitmapscan', 'off', false),\n"
        "    set_config('enable_sort', 'off', false),\n",
        new="",
        test=_PARTS + "test_every_question_reads_what_it_answers_and_no_more",
    ),
    Mutant(
        name="a worker of another machine is taken for dead",
        file="store/postgres_proof.py",
        old="or not mine or boot != mine",
        new="",
        test=_STORE + "test_a_dead_process_of_this_machine_is_known_to_be_dead",
    ),
    Mutant(
        name="a lost answer of a database is a no",
        file="store/postgres_link.py",
        old="            if conn.closed:\n                raise _Cut(error) from None\n",
        new="",
        test=_STORE + "test_a_lost_answer_is_neither_a_yes_nor_a_no",
    ),
    Mutant(
        name="the pool sleeps for as long as the server was away",
        file="store/postgres_link.py",
        old="            reconnect_timeout=RECONNECT_S,\n",
        new="",
        test=_FAULT + "test_a_store_recovers_soon_after_a_long_outage",
    ),
    Mutant(
        name="a pool that has given up waits for somebody new",
        file="store/postgres_link.py",
        old="            reconnect_failed=_begin_anew,\n",
        new="",
        test=_FAULT + "test_a_store_recovers_soon_after_a_long_outage",
    ),
    Mutant(
        name="a connection is used without a look at it",
        file="store/postgres_link.py",
        old="            if await self._lives(conn):\n",
        new="            if True:\n",
        test=_FAULT + "test_nobody_waits_for_each_of_the_connections_that_a_restart_has_ended",
    ),
    Mutant(
        name="a dead connection is rested from",
        file="store/postgres_link.py",
        old="            await conn.close()\n            await self._pool.putconn(conn)\n",
        new="            await conn.close()\n            await self._pool.putconn(conn)\n"
        "            await asyncio.sleep(3)\n",
        test=_FAULT + "test_nobody_waits_for_each_of_the_connections_that_a_restart_has_ended",
    ),
    Mutant(
        name="a read gives up at the second connection that it loses",
        file="store/postgres_link.py",
        old="if cuts > 1 and time.monotonic() > end:",
        new="if cuts > 1:",
        test=_FAULT + "test_whoever_reads_may_lose_every_connection_that_there_is",
    ),
    Mutant(
        name="whoever is cancelled takes the statement along",
        file="store/postgres_link.py",
        old="return await asyncio.shield(task)",
        new="return await task",
        test=_STORE + "test_whoever_is_cancelled_stops_waiting_and_the_write_goes_on",
    ),
    Mutant(
        name="what a hint says about positions is believed",
        file="store/postgres_ear.py",
        old="        sender, _, _, moved = said\n",
        new="        sender, _, self._seen, moved = said\n",
        test=_STORE + "test_a_forged_hint_hides_nothing",
    ),
    Mutant(
        name="a database without fsync is used",
        file="store/postgres_link.py",
        old='found.fsync != "on" or ',
        new="",
        test=_OPEN + "test_a_server_that_could_lose_decisions_is_refused",
    ),
    Mutant(
        name="commits that do not wait for the disk are acknowledged",
        file="store/postgres_link.py",
        old='_DURABLE = ("on", ',
        new='_DURABLE = ("off", "local", "on", ',
        test=_OPEN + "test_a_user_whose_commits_do_not_wait_is_refused",
    ),
    Mutant(
        name="a read replica is opened",
        file="store/postgres_link.py",
        old="    if found.is_replica:",
        new="    if False:",
        test=_OPEN + "test_a_read_replica_is_refused",
    ),
    Mutant(
        name="a migration can be half there",
        file="store/postgres_migrate.py",
        old="    async with conn.transaction():\n        # Nobody",
        new="    if True:\n        # Nobody",
        test=_OPEN + "test_whoever_dies_in_a_migration_leaves_it_as_it_was",
    ),
    Mutant(
        name="a schema of another program is taken",
        file="store/postgres_migrate.py",
        old='row is None or row[0] != "sayso"',
        new="row is None",
        test=_OPEN + "test_a_schema_of_another_program_is_refused_and_left_alone",
    ),
    Mutant(
        name="a part of a password is in a message",
        file="store/postgres_address.py",
        old="    if not _HOST.fullmatch(host) or",
        new="    if False and",
        test=_OPEN + "test_an_address_that_cannot_be_read_is_not_repeated",
    ),
    Mutant(
        name="keys are made in a file that no other machine has",
        file="given.py",
        old='return None if "://" in store.name else store.name',
        new="return store.name",
        test=_OPEN + "test_keys_are_never_made_beside_a_store_that_machines_share",
    ),
    Mutant(
        name="a run that was woken meanwhile is shown as suspended",
        file="engine/handle.py",
        old="await there(row) and await self._stays(row)",
        new="await there(row)",
        test="engine/test_child_ends.py::"
        "test_an_end_between_two_looks_leaves_nobody_suspended_for_nothing",
    ),
    Mutant(
        name="nobody looks whether those are listed who may decide",
        file="store/audit.py",
        old="            if not await _is_listed(store, hold, who)\n",
        new="            if False\n",
        test="store/test_audit_postgres.py::test_what_was_changed_is_found[14]",
    ),
    Mutant(
        name="nobody looks who else is told of a hold",
        file="store/audit.py",
        old="            if not one.fits:\n",
        new="            if False:\n",
        test="store/test_audit_postgres.py::test_what_was_changed_is_found[16]",
    ),
    Mutant(
        name="a hold may be anywhere in a list",
        file="store/audit.py",
        old="if hold.key != hold_key(positions.get(hold.row.entry, 0), n)",
        new="if False",
        test="store/test_audit_postgres.py::test_what_was_changed_is_found[13]",
    ),
    Mutant(
        name="a list may tell of another project",
        file="store/postgres_reader.py",
        old="and h.status <> 'settled' and r.project = a.project",
        new="and h.status <> 'settled'",
        test="store/test_audit_postgres.py::test_what_was_changed_is_found[21]",
    ),
    Mutant(
        name="a host that cannot be is asked for",
        file="store/postgres_address.py",
        old='if not all(map(_can_be_named, host.split(","))):',
        new="if False:",
        test="store/test_postgres_open.py::"
        "test_a_host_that_no_name_service_could_know_is_refused[x..y]",
    ),
    Mutant(
        name="one answer that cannot be read leaves others without theirs",
        file="store/postgres_writer.py",
        old='were not understood", self._link.name)\n            for job in batch:',
        new='were not understood", self._link.name)\n            for job in batch[:0]:',
        test=_STORE + "test_an_answer_that_is_not_understood_leaves_nobody_waiting",
    ),
    Mutant(
        name="jobs that fail again keep others from being offered",
        file="store/postgres_jobs.py",
        old="and updated <= %s and id > %s order by id limit %s",
        new="and updated <= %s and %s = 0 order by id limit %s",
        test="cli/test_jobs.py::test_all_that_were_held_are_offered_once_whatever_fails_meanwhile",
    ),
    Mutant(
        name="jobs are offered for as long as others fail",
        file="store/postgres_jobs.py",
        old="and updated <= %s and id > %s order by id limit %s",
        new="and %s is not null and id > %s order by id limit %s",
        test="cli/test_jobs.py::test_all_that_were_held_are_offered_once_whatever_fails_meanwhile",
    ),
)
