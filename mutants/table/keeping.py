"""Keeping: durable before it is acknowledged, guarded, chained, and refused if not understood."""

from __future__ import annotations

from mutants.mutant import Mutant

_READS = "engine/test_reads.py::"

MUTANTS = (
    Mutant(
        name="appends are not guarded",
        file="store/admit.py",
        old="if seq != write.after:",
        new="if False:",
        test="store/test_contract.py::TestMemory::"
        "test_an_append_after_anything_but_the_last_entry_is_stale",
    ),
    Mutant(
        name="appends are guarded by number alone",
        file="store/admit.py",
        old="if write.after_id is not None and last != write.after_id:",
        new="if False:",
        test="store/test_contract.py::TestSqlite::"
        "test_an_append_after_somebody_elses_entry_of_the_same_number_is_stale",
    ),
    Mutant(
        name="commits are not synced unless somebody asks",
        file="store/sqlite.py",
        old='synchronous: str = "FULL",',
        new='synchronous: str = "NORMAL",',
        test="store/test_checkup.py::test_a_store_as_we_make_it_has_no_problem",
    ),
    Mutant(
        name="commits are not synced",
        file="store/sqlite_file.py",
        old='conn.pragma("synchronous", synchronous)',
        new='conn.pragma("synchronous", "NORMAL")',
        test="crash/test_power_loss.py::test_no_acknowledged_append_is_lost_to_a_power_cut",
    ),
    Mutant(
        name="the folder of a new store is not synced",
        file="store/sqlite.py",
        old="                sync_dir(os.path.dirname(real))\n",
        new="",
        test="crash/test_power_loss.py::test_no_acknowledged_append_is_lost_to_a_power_cut",
    ),
    Mutant(
        name="appends are acknowledged before the commit",
        file="store/sqlite_writer.py",
        old='            handles.conn.execute("commit")',
        new="            self._post(self._on_answered, batch)\n"
        '            handles.conn.execute("commit")',
        test="crash/test_power_loss.py::test_no_acknowledged_append_is_lost_to_a_power_cut",
    ),
    Mutant(
        name="appends are acknowledged though the commit failed",
        file="store/sqlite_writer.py",
        old="            _refuse_all(batch, self._what_now(handles, error, before))",
        new="            self._what_now(handles, error, before)",
        test="store/test_fault.py::test_an_io_error_stops_the_store_and_loses_nothing",
    ),
    Mutant(
        name="a store goes on after a fault of the disk",
        file="store/sqlite_writer.py",
        old="        if not undone or isinstance(error, FATAL):\n",
        new="        if False:\n",
        test="store/test_fault.py::test_an_io_error_stops_the_store_and_loses_nothing",
    ),
    Mutant(
        name="a refused job leaves half of itself behind",
        file="store/sqlite_writer.py",
        old='            handles.conn.execute("rollback to job")\n',
        new="",
        test="store/test_contract.py::TestSqlite::test_a_refused_append_leaves_the_others_alone",
    ),
    Mutant(
        name="a key is taken twice",
        file="store/sqlite_pen.py",
        old="        if write.key is not None:\n            self._check_key(write.key)",
        new="        if False:\n            self._check_key(write.key)",
        test="store/test_contract.py::TestSqlite::test_a_key_is_taken_once_whatever_its_digest",
    ),
    Mutant(
        name="time in a run goes back",
        file="store/sqlite_pen.py",
        old="at = max(self._clock.now(), *(head.at for head in heads))",
        new="at = self._clock.now()",
        test="store/test_contract.py::TestSqlite::test_time_in_a_run_never_goes_back",
    ),
    Mutant(
        name="entries are not chained to those before",
        file="store/chain.py",
        old="        + prev\n",
        new="",
        test="store/test_audit.py::test_an_entry_that_was_hashed_anew_is_found",
    ),
    Mutant(
        name="hashes do not cover the time",
        file="store/chain.py",
        old='        + at.to_bytes(8, "big")\n',
        new="",
        test="store/test_audit.py::test_every_one_of_a_thousand_tamperings_is_found",
    ),
    Mutant(
        name="a journal may be cut at its end",
        file="store/chain.py",
        old="if count != seq or prev != head:",
        new="if False:",
        test="store/test_audit.py::test_every_one_of_a_thousand_tamperings_is_found",
    ),
    Mutant(
        name="redaction breaks the chain",
        file="store/sqlite_pen.py",
        old="(chain.leaf(salt, payload), run, seq)",
        new="(chain.leaf(b'', payload), run, seq)",
        test="store/test_contract.py::TestSqlite::"
        "test_a_redacted_entry_is_gone_and_the_chain_still_holds",
    ),
    Mutant(
        name="what is redacted stays in the log",
        file="store/sqlite_writer.py",
        old="        if any(job.erases for job in done):\n",
        new="        if False:\n",
        test="store/test_sqlite.py::test_what_is_redacted_is_in_no_file_any_more",
    ),
    Mutant(
        name="entries can be deleted",
        file="store/sql/0001.sql",
        old="before delete on journal\n",
        new="before delete on runs\n",
        test="store/test_audit.py::test_the_journal_refuses_changes_other_than_redaction",
    ),
    Mutant(
        name="a store of a newer Sayso is opened",
        file="store/step.py",
        old="    if since > known:\n",
        new="    if False:\n",
        test="store/test_migrate.py::test_a_newer_store_is_refused_and_left_alone",
    ),
    Mutant(
        name="older code goes on writing to a file that was brought up",
        file="store/sqlite_writer.py",
        old="            check_code(handles.conn, self._name, len(released()))\n",
        new="",
        test="store/test_migrate.py::test_older_code_is_ended_by_a_migration_that_says_nothing[1]",
    ),
    Mutant(
        name="a later migration lets code go on that an earlier one has ended",
        file="store/migrate.py",
        old="max(since, step.since)",
        new="step.since",
        test="store/test_migrate.py::"
        "test_older_code_is_ended_by_a_migration_that_says_nothing[2_1]",
    ),
    Mutant(
        name="an old SQLite will do",
        file="store/sqlite_file.py",
        old='if tuple(int(part) for part in have.split(".")) < SQLITE_MIN:',
        new="if False:",
        test="store/test_sqlite.py::test_an_old_sqlite_is_refused",
    ),
    Mutant(
        name="any file system will do",
        file="store/sqlite_file.py",
        old="if kind_of(path) in NETWORK:",
        new="if False:",
        test="store/test_sqlite.py::test_a_store_on_a_network_file_system_is_refused",
    ),
    Mutant(
        name="entries that nobody understands are read",
        file="domain/value.py",
        old="kw_only=True,\n    forbid_unknown_fields=True,",
        new="kw_only=True,\n    forbid_unknown_fields=False,",
        test="domain/test_codec.py::test_an_entry_with_one_more_field_is_refused",
    ),
    Mutant(
        name="an answer is cut like the end of a row",
        file="domain/codec.py",
        old="        if hold.decision is not None or hold.votes:\n",
        new="        if False:\n",
        test="domain/test_codec.py::test_what_somebody_said_is_no_end_of_a_row",
    ),
    Mutant(
        name="a run cannot be opened unless its journal is read with it",
        file="store/journal.py",
        old="        with contextlib.suppress(StoreError):\n",
        new="        with contextlib.suppress():\n",
        test="engine/test_overtaken.py::"
        "test_a_run_is_opened_though_its_journal_cannot_be_read_just_now",
    ),
    Mutant(
        name="whoever waits is told what others have overtaken",
        file="store/watch.py",
        old="        last = None if self._others else self._last\n",
        new="        last = self._last\n",
        test="store/test_contract.py::TestMemory::"
        "test_a_watch_gives_what_this_store_has_written_last",
    ),
    Mutant(
        name="only the holds that were opened last are shown",
        file="engine/handle.py",
        old="        if own and (views is None or _names(views) != own):\n",
        new="        if own and views is None:\n",
        test=_READS + "test_holds_that_were_opened_before_the_last_write_are_shown[memory-False]",
    ),
    Mutant(
        name="nobody is shown to work on a run that somebody works on",
        file="engine/handle.py",
        old="            seen = seen if seen.owned else await self._see()\n",
        new="",
        test=_READS + "test_holds_that_were_opened_before_the_last_write_are_shown[memory-False]",
    ),
    Mutant(
        name="what was read with a run long ago is what there is now",
        file="engine/beside.py",
        old="        fresh = self._tick() - self._asked <= FRESH_MS\n",
        new="        fresh = True\n",
        test=_READS + "test_what_was_read_beside_a_run_is_good_for_its_project_and_a_moment",
    ),
    Mutant(
        name="who was read with a run is who there is ever after",
        file="engine/people.py",
        old="        beside, live.beside = live.beside, None\n",
        new="        beside = live.beside\n",
        test=_READS + "test_what_was_read_beside_a_run_is_used_once[memory]",
    ),
    Mutant(
        name="people do not change while a check takes its time",
        file="engine/calls.py",
        old="    records = None if checks else parts.records.beside(live)\n",
        new="    records = parts.records.beside(live)\n",
        test=_READS + "test_a_yes_counts_by_the_people_there_are_after_a_check[postgres]",
    ),
)
