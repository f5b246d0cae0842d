"""Many machines: two versions of the code, two roles, and a command line that makes nothing."""

from __future__ import annotations

from mutants.mutant import Mutant

_UPGRADE = "store/test_postgres_upgrade.py::"
_ROLE = "store/test_postgres_role.py::"
_NEWER = "engine/test_newer.py::"
_CLI = "cli/test_postgres.py::"
_TROUBLE = "store/test_postgres_trouble.py::"

MUTANTS = (
    Mutant(
        name="code that is too old goes on writing",
        file="store/sql/postgres/0001.sql",
        old="if needs > coalesce(knows, 0) then",
        new="if false then",
        test=_UPGRADE + "test_an_older_process_stops_when_a_newer_one_breaks",
    ),
    Mutant(
        name="an append of code that is too old does not look",
        file="store/sql/postgres/0005_append.sql",
        old="'0')::integer\n    then\n",
        new="'0')::integer and false\n    then\n",
        test=_UPGRADE + "test_an_open_store_finds_out_at_its_next_use[append]",
    ),
    Mutant(
        name="code that is too old never finds out by itself",
        file="store/sql/postgres/0003_rest.sql",
        old="    perform check_code();\n",
        new="",
        test=_UPGRADE + "test_an_open_store_finds_out_at_its_next_use",
    ),
    Mutant(
        name="what a newer version took away is called damage",
        file="store/postgres_link.py",
        old="if isinstance(found, StoreDamaged):",
        new="if False:",
        test=_UPGRADE + "test_an_open_store_finds_out_at_its_next_use",
    ),
    Mutant(
        name="a schema for newer code is opened",
        file="store/step.py",
        old="    if since > known:\n",
        new="    if False:\n",
        test="store/test_postgres_open.py::test_a_newer_store_is_refused",
    ),
    Mutant(
        name="a migration that says nothing lets older code go on",
        file="store/step.py",
        old="since, online = number, False",
        new="since, online = 1, False",
        test=_UPGRADE + "test_an_older_process_stops_when_a_newer_one_breaks",
    ),
    Mutant(
        name="an index that was half built counts as built",
        file="store/postgres_migrate.py",
        old="for (index,) in await cursor.fetchall():",
        new="for (index,) in ():",
        test=_UPGRADE + "test_an_index_that_was_half_built_is_built_again",
    ),
    Mutant(
        name="a migration keeps everybody waiting",
        file="store/postgres_migrate.py",
        old="await conn.execute(_BOUNDS, (str(LOCK_MS), True))",
        new='await conn.execute(_BOUNDS, ("0", True))',
        test=_UPGRADE + "test_a_migration_does_not_keep_everybody_waiting",
    ),
    Mutant(
        name="a migration goes on for a process that was killed",
        file="store/postgres_migrate.py",
        old="""version() like '%%linux%%'""",
        new="false",
        test=_UPGRADE + "test_whoever_is_killed_in_a_long_statement_keeps_nobody_out",
    ),
    Mutant(
        name="two who migrate are both at it",
        file="store/postgres_migrate.py",
        old="if not await _one(conn, _TRY_FOR_STEP, schema):",
        new="if False:",
        test=_UPGRADE + "test_two_who_migrate_at_once_do_it_once",
    ),
    Mutant(
        name="looking brings a database up",
        file="store/postgres.py",
        old="ready = migrate if make else check",
        new="ready = migrate",
        test=_CLI + "test_looking_at_a_database_makes_no_store",
    ),
    Mutant(
        name="an address that is one too many is repeated",
        file="cli/opened.py",
        old='UsageError(f"one argument too many{twice}")',
        new='UsageError(f"one argument too many{twice}: {names}")',
        test=_CLI + "test_too_many_arguments_are_not_repeated",
    ),
    Mutant(
        name="the app's role may change the journal",
        file="store/postgres_role.py",
        old='if kind == "app":',
        new="if False:",
        test=_ROLE + "test_what_is_only_added_to_cannot_be_changed_by_the_app",
    ),
    Mutant(
        name="whoever may not erase is not told who may",
        file="store/sql/postgres/0005_append.sql",
        old="    perform check_keeper();\n",
        new="",
        test=_ROLE + "test_the_app_does_everything_but_erase_and_the_keeper_does_that",
    ),
    Mutant(
        name="what a migration makes is nobody's but the owner's",
        file="store/postgres_migrate.py",
        old="    await regrant(conn, schema)\n",
        new="",
        test=_ROLE + "test_what_a_later_migration_makes_is_given_to_both",
    ),
    Mutant(
        name="the owner is taken for an app",
        file="store/postgres_role.py",
        old="if any(found):",
        new="if found[0]:",
        test=_ROLE + "test_a_role_that_could_do_everything_is_refused",
    ),
    Mutant(
        name="a run that newer code has written to is folded as of now",
        file="engine/ledger.py",
        old="if row.fold > FOLD:",
        new="if False:",
        test=_NEWER + "test_what_is_due_in_a_run_of_a_newer_sayso_is_left_to_it",
    ),
    Mutant(
        name="a run of newer code is claimed from a file",
        file="store/fair.py",
        old=" and fold <= ?\n",
        new=" and ? > 0\n",
        test=_NEWER + "test_a_run_of_a_newer_sayso_is_not_worked_on",
    ),
    Mutant(
        name="a run of newer code is claimed from a database",
        file="store/sql/postgres/0004_work.sql",
        old=" and r.fold <= folds\n",
        new="\n",
        test=_NEWER + "test_a_run_of_a_newer_sayso_is_not_worked_on",
    ),
    Mutant(
        name="a run with an event that is not known fails",
        file="engine/loop.py",
        old="NotUnderstood as error:\n            self._leave(error)\n        except StoreError",
        new="StoreError",
        test=_NEWER + "test_a_run_with_an_unknown_event_is_left_alone",
    ),
    Mutant(
        name="what newer code writes cuts a call off",
        file="engine/loop.py",
        old="            return []  # What is under way is waited for.\n",
        new="            raise\n",
        test=_NEWER + "test_a_call_under_way_is_not_cut_off_by_what_newer_code_writes",
    ),
    Mutant(
        name="a pool that is used up is out of reach",
        file="store/postgres_link.py",
        old="        return StoreBusy(\n",
        new="        return StoreError(\n",
        test=_TROUBLE + "test_a_pool_that_is_used_up_says_so_and_recovers",
    ),
    Mutant(
        name="a worker that was cut off says that all is well",
        file="wired.py",
        old="self._drained = await worker.drain(self._drain_s)",
        new="await worker.drain(self._drain_s)",
        test="cli/test_worker.py::test_a_call_that_takes_too_long_is_cut_off_and_said_so",
    ),
    Mutant(
        name="a worker goes on with a store that it may not write",
        file="engine/worker.py",
        old="self.outdated.set_exception(error)",
        new="pass",
        test="cli/test_worker.py::test_a_worker_ends_when_its_store_is_for_newer_code",
    ),
)
