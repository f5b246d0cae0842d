"""Restored stores: what was put back or copied takes no writes, and nothing goes on by itself."""

from __future__ import annotations

from mutants.mutant import Mutant

_STORE = "store/test_origin.py::"
_ENGINE = "engine/test_restore.py::"

MUTANTS = (
    Mutant(
        name="a file that was restored is written to",
        file="store/sqlite.py",
        old="if changes and self._writer.fault and not self._recovers:",
        new="if False:",
        test=_STORE + "test_a_backup_that_is_put_back_in_place_is_found",
    ),
    Mutant(
        name="a file that is behind its mark is taken for whole",
        file="store/sqlite_origin.py",
        old="if found is not None and found.position > position:",
        new="if False:",
        test=_STORE + "test_a_backup_that_is_put_back_in_place_is_found",
    ),
    Mutant(
        name="the mark comes after the answer",
        file="store/sqlite_writer.py",
        old="            handles.pen.origin.note(self._seen)\n",
        new="",
        test=_STORE + "test_a_process_that_is_killed_leaves_a_mark_of_all_that_was_answered",
    ),
    Mutant(
        name="a mark that was copied along is believed",
        file="store/sqlite_origin.py",
        old=' and row.place in ("", found.place)',
        new="",
        test=_STORE + "test_a_copy_beside_the_original_is_found[folder]",
    ),
    Mutant(
        name="a number that was given again passes for the same file",
        file="store/origin.py",
        old="        fcntl.ioctl(fd, _GET_VERSION, turn, True)\n",
        new="        pass\n",
        test=_STORE + "test_a_mark_that_is_written_again_is_another_even_with_its_old_number",
    ),
    Mutant(
        name="a copy without a mark is taken for whole",
        file="store/sqlite_origin.py",
        old="if row.token and found is None:",
        new="if False:",
        test=_STORE + "test_a_copy_beside_the_original_is_found[vacuum]",
    ),
    Mutant(
        name="a file that is put back in use is written to",
        file="store/sqlite_writer.py",
        old="elif handles.pen.position < self._seen:",
        new="elif False:",
        test=_STORE + "test_a_store_that_is_put_back_under_a_worker_is_not_written_to",
    ),
    Mutant(
        name="a database that was restored is written to",
        file="store/sql/postgres/0001.sql",
        old="    perform check_origin();\n",
        new="",
        test=_STORE + "TestInPostgres::test_a_dump_is_found_wherever_it_is_restored",
    ),
    Mutant(
        name="an append takes a database for the one it was",
        file="store/sql/postgres/0005_append.sql",
        old="    if mark is distinct from current_setting('sayso.here', true) || '.' || spot\n",
        new="    if false\n",
        test=_STORE + "TestInPostgres::test_a_dump_is_found_wherever_it_is_restored",
    ),
    Mutant(
        name="a database is looked at before its turn",
        file="store/sql/postgres/0001.sql",
        old="may have said it meanwhile.\n    perform check_origin();\n",
        new="may have said it meanwhile.\n",
        test=_STORE
        + "TestInPostgres::test_one_that_is_doubted_while_others_wait_is_not_written_to",
    ),
    Mutant(
        name="the imprint of a database leaves the schema out",
        file="store/sql/postgres/0001.sql",
        old=",\n        (select oid from pg_namespace where nspname = current_schema()))",
        new=")",
        test=_STORE + "TestInPostgres::test_a_dump_is_found_wherever_it_is_restored",
    ),
    Mutant(
        name="a database that is put back in use is written to",
        file="store/postgres_ear.py",
        old="if place < before:",
        new="if False:",
        test=_STORE + "TestInPostgres::test_one_that_is_put_back_under_a_worker_is_not_written_to",
    ),
    Mutant(
        name="a recovery that is killed hides that the store was behind",
        file="engine/restore.py",
        old="    await parts.store.doubt_origin(origin.fault or SAID_SO)\n",
        new="",
        test=_ENGINE + "test_whoever_is_killed_on_the_way_asks_nothing_twice",
    ),
    Mutant(
        name="what was approved before a restore runs",
        file="engine/restore.py",
        old="if status_of(run) is Status.RUNNING or run.calls(*_COULD_GO_ON):",
        new="if False:",
        test=_ENGINE
        + "test_what_was_approved_and_has_run_since_is_not_run_again_without_a_person[sqlite]",
    ),
    Mutant(
        name="a call that needs nobody runs again after a restore",
        file="engine/restore.py",
        old="        unasked=_unasked(parts, run, journal),\n",
        new="",
        test=_ENGINE + "test_a_call_that_needs_nobody_is_asked_about_if_it_acts_once[sqlite]",
    ),
    Mutant(
        name="a recovery asks again what it has asked",
        file="engine/restore.py",
        old="isinstance(one, e.RunAdopted) and one.source == event.source for one in events",
        new="False for one in events",
        test=_ENGINE + "test_a_run_that_goes_on_by_itself_is_named[sqlite]",
    ),
    Mutant(
        name="a restore after a move is taken for the one before it",
        file="engine/restore.py",
        old="({origin.epoch + 1}, {origin.token})",
        new="({origin.epoch + 1})",
        test=_ENGINE + "test_a_store_that_was_restored_and_moved_is_restored_again",
    ),
    Mutant(
        name="a body that silence let go on does so again after a restore",
        file="engine/restore.py",
        old=" or (one.resumes and one.deadline)\n",
        new="\n",
        test=_ENGINE
        + "test_no_body_that_silence_let_go_on_does_so_again_without_a_person[sqlite-reject]",
    ),
    Mutant(
        name="a deadline that was cleared is still shown",
        file="store/rows.py",
        old="        return event.undated\n",
        new="        return ()\n",
        test=_ENGINE
        + "test_no_body_that_silence_let_go_on_does_so_again_without_a_person[sqlite-reject]",
    ),
    Mutant(
        name="any hold loses its deadline by an adoption",
        file="domain/apply_holds.py",
        old="if hold is None or hold.deadline is None or not hold.resumes:",
        new="if hold is None:",
        test="domain/test_adopting.py::"
        "test_only_a_hold_by_which_silence_lets_a_body_go_on_loses_its_deadline[1]",
    ),
    Mutant(
        name="whoever cannot let a store work begins to",
        file="store/sql/postgres/0003_rest.sql",
        old="if not has_column_privilege('store', 'imprint', 'update') then",
        new="if false then",
        test="store/test_postgres_role.py::test_only_the_keeper_lets_a_restored_store_work",
    ),
    Mutant(
        name="a store that was moved is let work again",
        file="engine/restore.py",
        old="    check_work(parts.store.name, parts.store.moved_to)\n",
        new="",
        test=_ENGINE + "test_a_store_that_was_moved_is_not_let_work[sqlite]",
    ),
    Mutant(
        name="a seal that the store has lost stops nobody",
        file="engine/seal_file.py",
        old="        await store.doubt_origin(why)\n",
        new="",
        test=_ENGINE + "test_a_seal_outside_that_the_store_has_lost_stops_it[sqlite]",
    ),
)
