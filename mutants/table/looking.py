"""Looking: it changes nothing, misses nothing, and shows what there is."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="looking for keys makes some",
        file="store/keyring.py",
        old="return cls.load(store_path, env) if there or env.get(VARIABLE) else None",
        new="return cls.load(store_path, env)",
        test="store/test_checkup.py::test_keys_are_looked_for_and_never_made",
    ),
    Mutant(
        name="looking at a run makes keys",
        file="given.py",
        old="return KeyRing.look(_beside(store))",
        new="return KeyRing.load(_beside(store))",
        test="engine/test_doctor.py::"
        "test_a_sensitive_answer_whose_key_is_gone_is_a_problem[sqlite]",
    ),
    Mutant(
        name="looking brings an older store up",
        file="cli/doctor.py",
        old="if not upgrade and (older",
        new="if False and (older",
        test="cli/test_doctor.py::test_an_older_store_is_left_as_it_is_unless_somebody_says_so",
    ),
    Mutant(
        name="looking makes a store",
        file="cli/doctor.py",
        old="if not _is_there(where):",
        new="if not where:",
        test="cli/test_doctor.py::test_a_store_that_is_not_there_yet_is_not_made",
    ),
    Mutant(
        name="whoever looks works",
        file="wired.py",
        old="    other._work = False",
        new="    other._work = True",
        test="cli/test_doctor.py::test_an_app_that_is_looked_at_does_no_work",
    ),
    Mutant(
        name="what durability rests on is taken on trust",
        file="store/sqlite_checkup.py",
        old="synced = isinstance(sync, int) and sync >= _FULL",
        new="synced = True",
        test="store/test_checkup.py::test_less_durability_is_found",
    ),
    Mutant(
        name="files that others may read are fine",
        file="store/sqlite_checkup.py",
        old="if stat.S_IMODE(os.stat(one).st_mode) & 0o077]",
        new="if stat.S_IMODE(os.stat(one).st_mode) & 0o007]",
        test="store/test_checkup.py::test_a_file_that_others_may_read_is_found",
    ),
    Mutant(
        name="damaged pages are in order",
        file="store/sqlite_checkup.py",
        old='return [] if said == ["ok"] else said',
        new="return []",
        test="store/test_checkup.py::test_a_damaged_page_is_found",
    ),
    Mutant(
        name="a clock may be behind",
        file="store/checkup.py",
        old="if behind > BEHIND_MAX_MS:",
        new="if False:",
        test="store/test_contract.py::TestSqlite::test_a_clock_behind_the_last_entry_is_found",
    ),
    Mutant(
        name="silent workers are alive",
        file="store/sqlite.py",
        old='    "lease": "silent",',
        new='    "lease": "alive",',
        test="store/test_contract.py::TestSqlite::"
        "test_workers_are_told_apart_by_whether_they_were_heard_of",
    ),
    Mutant(
        name="a tool that is gone is not missed",
        file="engine/resumable.py",
        old='            yield one.found("tool", "problem", _no_tool(one.run, row))\n',
        new="",
        test="engine/test_doctor.py::test_a_call_is_held_against_the_tool_of_now",
    ),
    Mutant(
        name="arguments that read otherwise now are fine",
        file="engine/resumable.py",
        old="same = same_but_for_order(tool.freeze(args), args)",
        new="same = bool(tool.freeze(args))",
        test="engine/test_doctor.py::test_a_parameter_that_is_new_is_a_problem",
    ),
    Mutant(
        name="a body without its tool's journal is fine",
        file="engine/resumable.py",
        old="if tool.durable or not (begun or",
        new="if True or not (begun or",
        test="engine/test_doctor.py::test_a_body_whose_tool_is_not_durable_any_more_is_a_problem",
    ),
    Mutant(
        name="one run that cannot be read hides the others",
        file="engine/doctor.py",
        old="    except StoreError:\n        raise\n",
        new="    except SaysoError:\n        raise\n",
        test="engine/test_doctor.py::test_a_run_that_cannot_be_read_is_found_and_hides_no_other",
    ),
    Mutant(
        name="numbers of another kind are the same",
        file="domain/digest.py",
        old="    return encode_value(_unordered(decode_value(one))) == encode_value(\n"
        "        _unordered(decode_value(two))\n    )",
        new="    return _unordered(decode_value(one)) == _unordered(decode_value(two))",
        test="domain/test_digest.py::test_values_may_be_the_same_but_for_the_order_of_lists",
    ),
    Mutant(
        name="text from a journal reaches the terminal as it is",
        file="cli/plain.py",
        old="return inline(str(text))",
        new="return str(text)",
        test="cli/test_plain.py::test_a_special_character_is_written_as_its_number",
    ),
    Mutant(
        name="an answer that comes late takes a waiter back in time",
        file="engine/handle.py",
        old="late = news is not None and news.after + len(news.entries) < at",
        new="late = False",
        test="engine/test_reads.py::"
        "test_an_answer_that_comes_late_takes_nobody_back_in_time[memory]",
    ),
)
