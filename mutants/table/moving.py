"""Moving a store: all of it, and never two of it."""

from __future__ import annotations

from mutants.mutant import Mutant

_MOVE = "store/test_move.py::"

MUTANTS = (
    Mutant(
        name="a store is moved under somebody who works on it",
        file="store/transfer.py",
        old="    if alive or (silent and not even_if_silent):",
        new="    if silent and not even_if_silent:",
        test=_MOVE + "test_a_store_that_is_worked_on_is_not_moved",
    ),
    Mutant(
        name="a store is moved under somebody who may come back",
        file="store/transfer.py",
        old="    if alive or (silent and not even_if_silent):",
        new="    if alive:",
        test=_MOVE + "test_who_is_silent_may_come_back",
    ),
    Mutant(
        name="a file that was moved still takes writes",
        file="store/sqlite_transfer.py",
        old="            for name, op in _SHUT:\n                self._all(\n",
        new="            for name, op in ():\n                self._all(\n",
        test=_MOVE + "test_the_source_takes_no_writes_from_anybody[up]",
    ),
    Mutant(
        name="a database that was moved still takes writes",
        file="store/postgres_transfer.py",
        old='            for name in _SHUT.split(", "):\n                await self._all(\n',
        new="            for name in ():\n                await self._all(\n",
        test=_MOVE + "test_the_source_takes_no_writes_from_anybody[down]",
    ),
    Mutant(
        name="there is work in a store that was moved",
        file="store/transfer.py",
        old="    if moved_to:\n",
        new="    if False:\n",
        test=_MOVE + "test_the_source_takes_no_writes_from_anybody[up]",
    ),
    Mutant(
        name="a store that is half moved can be opened",
        file="store/transfer.py",
        old='    if mark.state == "filling":\n        raise',
        new='    if mark.state == "full":\n        raise',
        test=_MOVE + "test_what_is_half_moved_cannot_be_opened[up]",
    ),
    Mutant(
        name="a store is moved into one that has something in it",
        file="store/sqlite_transfer.py",
        old="if await self.mark() is not None or any(self._count(one) for one in TABLES):",
        new="if await self.mark() is not None:",
        test=_MOVE + "test_a_place_that_is_taken_is_refused[sqlite]",
    ),
    Mutant(
        name="a store is moved into a database that has something in it",
        file="store/postgres_transfer.py",
        old="            if found or await self.mark() is not None:",
        new="            if await self.mark() is not None:",
        test=_MOVE + "test_a_place_that_is_taken_is_refused[postgres]",
    ),
    Mutant(
        name="rows that are not the same are passed over",
        file="store/compare.py",
        old="        if here != there:",
        new="        if here.rows != there.rows:",
        test=_MOVE + "test_what_is_not_the_same_there_is_found",
    ),
    Mutant(
        name="a broken chain is moved as if it held",
        file="store/compare.py",
        old="        if seq != head.seq + 1 or link != made:",
        new="        if seq != head.seq + 1:",
        test=_MOVE + "test_a_store_that_was_changed_is_not_passed_off_as_whole",
    ),
    Mutant(
        name="a journal that ends early is moved as if it did not",
        file="store/compare.py",
        old="        watch.finish()\n",
        new="",
        test=_MOVE + "test_a_store_that_was_changed_is_not_passed_off_as_whole",
    ),
    Mutant(
        name="a broken seal is moved as if it held",
        file="store/compare.py",
        old="    await _check_seals(target)\n",
        new="",
        test=_MOVE + "test_a_store_that_was_changed_is_not_passed_off_as_whole",
    ),
    Mutant(
        name="values are moved to where they cannot be opened",
        file="store/compare.py",
        old="if self._key_ids is not None and name not in self._key_ids:",
        new="if False:",
        test=_MOVE + "test_values_that_could_not_be_opened_there_are_found",
    ),
    Mutant(
        name="revs begin again in a store that was moved",
        file="store/move.py",
        old="    await target.go_on_after(await source.last_rev())\n",
        new="    await target.go_on_after(0)\n",
        test=_MOVE + "test_revs_keys_and_positions_go_on_above[up]",
    ),
    Mutant(
        name="a move is undone although somebody worked there",
        file="store/move.py",
        old="            await compare(source, target, None, _tell(progress))\n        except",
        new="            pass\n        except",
        test=_MOVE + "test_a_move_is_not_undone_once_somebody_worked_there",
    ),
    Mutant(
        name="what is undone is looked at before it is shut",
        file="store/move.py",
        old="        await target.shut(undone)\n        try:\n",
        new="        try:\n",
        test=_MOVE + "test_a_move_is_undone_while_nobody_worked_there[up]",
    ),
    Mutant(
        name="two fill one store at once",
        file="store/postgres_transfer.py",
        old="            if await self.last(table) != after:",
        new="            if False:",
        test=_MOVE + "test_two_who_fill_one_store_do_not_both_go_on",
    ),
    Mutant(
        name="a store is moved a second time to another place",
        file="store/move.py",
        old='if there is None or (there.token, there.state) != (mark.token, "filling"):',
        new="if False:",
        test=_MOVE + "test_only_what_was_moved_is_undone_and_only_from_there",
    ),
    Mutant(
        name="a ring that lacks a key passes for whole",
        file="store/keyring.py",
        old="return all(self._keys.get(key_id) == key for key_id, key in other._keys.items())",
        new="return True",
        test="cli/test_move.py::test_the_keys_have_to_be_there_first",
    ),
)
