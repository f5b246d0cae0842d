"""Seals and the door log: signed roots, their chain, and what they find."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="leaves are hashed as they are",
        file="store/seal.py",
        old='node = hashlib.sha256(b"\\x00" + leaf).digest()',
        new="node = hashlib.sha256(leaf).digest()",
        test="store/test_seal.py::test_the_root_is_the_one_that_others_come_to",
    ),
    Mutant(
        name="a node passes for a leaf",
        file="store/seal.py",
        old='return hashlib.sha256(b"\\x01" + left + right).digest()',
        new='return hashlib.sha256(b"\\x00" + left + right).digest()',
        test="store/test_seal.py::test_the_root_is_the_one_that_others_come_to",
    ),
    Mutant(
        name="anybody's key seals",
        file="store/seal_key.py",
        old="if seal.key not in trusted:",
        new="if False:",
        test="store/test_seal.py::test_a_seal_is_bound_to_its_key",
    ),
    Mutant(
        name="the signature of a seal is not checked",
        file="store/seal_key.py",
        old="        key.verify(bytes.fromhex(seal.signature), seal.signed())\n",
        new="",
        test="store/test_seal.py::test_a_seal_is_bound_to_its_key",
    ),
    Mutant(
        name="seals that are not to be trusted are believed",
        file="store/sealed.py",
        old="        if why:\n",
        new="        if False:\n",
        test="store/test_sealed.py::test_a_forged_seal_is_not_trusted_without_any_copy",
    ),
    Mutant(
        name="seals without a key to check them are believed",
        file="store/sealed.py",
        old="if not self.seals and not self._trusted and self._trusted is not None:",
        new="if False:",
        test="store/test_sealed.py::test_seals_without_a_key_to_check_them_are_a_fault",
    ),
    Mutant(
        name="a seal need not name the one before",
        file="store/sealed.py",
        old="if seal.before != (NOTHING if before is None else before.hash()).hex():",
        new="if False:",
        test="store/test_sealed.py::test_a_seal_that_skips_something_is_found",
    ),
    Mutant(
        name="a seal may leave something out",
        file="store/sealed.py",
        old="if seal.first != (1 if before is None else before.last + 1):",
        new="if False:",
        test="store/test_sealed.py::test_a_seal_that_skips_something_is_found",
    ),
    Mutant(
        name="seals may be missing in between",
        file="store/sealed.py",
        old="        if n > expected:\n",
        new="        if False:\n",
        test="store/test_sealed.py::test_seals_missing_in_between_are_named_without_any_copy",
    ),
    Mutant(
        name="entries that were removed are not missed",
        file="store/sealed.py",
        old="        if tree.count < seal.count:\n",
        new="        if False:\n",
        test="store/test_sealed.py::test_a_consistent_change_is_found_by_seals_alone[remove_run]",
    ),
    Mutant(
        name="entries that were put in are not noticed",
        file="store/sealed.py",
        old="        elif tree.count > seal.count:\n",
        new="        elif False:\n",
        test="store/test_sealed.py::test_an_entry_put_under_a_seal_is_found",
    ),
    Mutant(
        name="entries that were hashed again are not noticed",
        file="store/sealed.py",
        old="        elif tree.root().hex() != seal.root:\n",
        new="        elif False:\n",
        test="store/test_sealed.py::test_a_consistent_change_is_found_by_seals_alone[hash_again]",
    ),
    Mutant(
        name="seals that were cut off are not missed",
        file="store/sealed.py",
        old="        if self._lost:\n            first",
        new="        if False:\n            first",
        test="store/test_sealed.py::test_seals_cut_off_are_found_with_a_copy_and_only_then",
    ),
    Mutant(
        name="the table is believed before the copy",
        file="store/sealed.py",
        old="            if copy.line() != kept.line():\n",
        new="            if False:\n",
        test="store/test_sealed.py::test_a_copy_that_was_changed_is_found_as_well[edited]",
    ),
    Mutant(
        name="a copy may leave seals out",
        file="store/sealed.py",
        old="        if self._last and seal.n > self._last + 1:\n",
        new="        if False:\n",
        test="store/test_sealed.py::test_a_copy_that_was_changed_is_found_as_well[removed]",
    ),
    Mutant(
        name="any seal is the next one",
        file="store/seal.py",
        old="    if seal.n != last + 1:\n",
        new="    if False:\n",
        test="store/test_contract.py::TestMemory::test_only_the_next_seal_is_taken",
    ),
    Mutant(
        name="a seal can be taken out of the file",
        file="store/sql/0004_audit.sql",
        old="select raise(abort, 'a seal cannot be deleted');",
        new="select 1;",
        test="store/test_sealed.py::test_seals_and_door_log_refuse_every_change",
    ),
    Mutant(
        name="a seal is over what entries say",
        file="store/sqlite_audit.py",
        old="select position, hash from journal",
        new="select position, payload from journal",
        test="store/test_contract.py::TestSqlite::"
        "test_leaves_are_the_hashes_of_all_entries_in_commit_order",
    ),
    Mutant(
        name="what is erased breaks its seal",
        file="store/memory.py",
        old="Leaf(position, self._kept.journals[run_id][seq - 1].hash)",
        new="Leaf(position, self._kept.journals[run_id][seq - 1].payload)",
        test="engine/test_retain.py::test_what_was_said_is_gone_and_everything_verifies[memory]",
    ),
    Mutant(
        name="the door log is no chain",
        file="store/door.py",
        old='        b"sayso.door.1"\n        + prev\n',
        new='        b"sayso.door.1"\n',
        test="store/test_sealed.py::"
        "test_a_change_of_the_door_log_is_found_without_any_copy[hash_door_again]",
    ),
    Mutant(
        name="nobody checks the chain of the door log",
        file="store/sealed.py",
        old="if not self._broken and (entry.n, entry.hash) != (self.n + 1, made):",
        new="if False:",
        test="store/test_sealed.py::"
        "test_a_change_of_the_door_log_is_found_without_any_copy[edit_door]",
    ),
    Mutant(
        name="a door log that was hashed again is not noticed",
        file="store/sealed.py",
        old="elif self._doors.n == seal.refused and self._doors.hash.hex() != seal.door:",
        new="elif False:",
        test="store/test_sealed.py::"
        "test_a_change_of_the_door_log_is_found_without_any_copy[hash_door_again]",
    ),
    Mutant(
        name="a door log that was cut is not noticed",
        file="store/sealed.py",
        old="        if not reached:\n",
        new="        if False:\n",
        test="store/test_sealed.py::"
        "test_a_change_of_the_door_log_is_found_without_any_copy[cut_door]",
    ),
    Mutant(
        name="the time of the door log goes back",
        file="store/door.py",
        old="at = at if last is None else max(at, last.at)",
        new="at = at",
        test="store/test_contract.py::TestMemory::test_the_time_of_the_door_log_never_goes_back",
    ),
    Mutant(
        name="an entry can be taken out of the door log",
        file="store/sql/0004_audit.sql",
        old="select raise(abort, 'an entry of the door log cannot be deleted');",
        new="select 1;",
        test="store/test_sealed.py::test_seals_and_door_log_refuse_every_change",
    ),
    Mutant(
        name="whoever is refused again and again fills the log",
        file="engine/door.py",
        old="if window.count >= NOTES_MAX or every.count >= NOTES_MAX_OF_ALL:",
        new="if every.count >= NOTES_MAX_OF_ALL:",
        test="engine/test_door.py::"
        "test_who_tries_again_and_again_is_counted_and_not_written_down[memory]",
    ),
    Mutant(
        name="a refusal is lost when its note is",
        file="engine/door.py",
        old="        except Exception as fault:",
        new="        except KeyError as fault:",
        test="engine/test_door.py::test_a_log_that_fails_hides_no_refusal[memory-error0]",
    ),
)
