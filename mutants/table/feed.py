"""Text in passing: never after its turn, never to oneself, and not while nobody listens."""

from __future__ import annotations

from mutants.mutant import Mutant

MUTANTS = (
    Mutant(
        name="text comes after the turn that has it",
        file="engine/feed.py",
        old="if delta.seen > taken.get(delta.strand, -1):",
        new="if True:",
        test="engine/test_feed.py::test_a_delta_of_a_turn_that_was_taken_is_not_shown",
    ),
    Mutant(
        name="text is said while nobody follows",
        file="store/postgres_aside.py",
        old="if self._listened.get(run_id, 0.0) < time.monotonic():",
        new="if False:",
        test="engine/test_feed.py::test_nothing_is_said_while_nobody_elsewhere_follows",
    ),
    Mutant(
        name="whoever says something hears it itself",
        file="store/postgres_aside.py",
        old="if sender == self._sender or self._closed:",
        new="if self._closed:",
        test="store/test_contract_postgres.py::TestPostgres::"
        "test_what_is_mentioned_is_overheard_elsewhere_and_not_here",
    ),
    Mutant(
        name="a process hears its own sockets",
        file="store/aside.py",
        old=" and name not in self._own]",
        new="]",
        test="store/test_contract.py::TestSqlite::"
        "test_what_is_mentioned_is_overheard_elsewhere_and_not_here",
    ),
    Mutant(
        name="text is said in pieces that no notice can carry",
        file="engine/feed.py",
        old="PIECE = 900\n",
        new="PIECE = 9000\n",
        test="engine/test_feed.py::test_text_is_said_in_pieces_that_every_store_can_carry",
    ),
)
