"""A run that has taken all its turns is not let go on."""

import pytest
from msgspec.structs import replace

from sayso.domain import settling
from sayso.domain.hold import Rejected, answer, fail
from sayso.domain.run import Run
from sayso.errors import BudgetSpent

from .build import (
    APPROVE,
    MIRA,
    NOW,
    QUESTION,
    asking,
    blocked,
    commanded,
    commit,
    doubted,
    executing,
    held,
)
from .forge import opened


def spent(run: Run, turns: int = 3) -> Run:
    """The run with so many turns of its own, one of a child, and four to take at most."""
    return replace(run, turns_max=4, turns=turns, spent=1)


def test_nobody_lets_a_call_start_whose_outcome_no_turn_could_see():
    run = spent(held("d"))

    with pytest.raises(BudgetSpent, match="4 turns"):
        settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)
    assert settling.settle(run, 1, Rejected(), by=MIRA, now=NOW)
    assert settling.settle(spent(held("d"), turns=2), 1, APPROVE, by=MIRA, now=NOW)
    assert settling.settle(replace(run, turns_max=0), 1, APPROVE, by=MIRA, now=NOW)


@pytest.mark.parametrize("run", [asking(QUESTION), blocked()])
def test_nobody_answers_what_no_turn_could_see(run: Run):
    with pytest.raises(BudgetSpent):
        settling.settle(spent(run), 1, answer(1), by=MIRA, now=NOW)
    assert settling.settle(spent(run), 1, fail("no"), by=MIRA, now=NOW)


def test_that_something_happened_can_always_be_said():
    run = spent(doubted(executing("d")))

    assert settling.settle(run, 1, answer(1), by=MIRA, now=NOW)
    with pytest.raises(BudgetSpent):
        settling.settle(run, 1, APPROVE, by=MIRA, now=NOW)


def test_a_command_needs_no_turn():
    run = commanded(held("d"))
    run = commit(run, opened(run, "c1"))

    assert settling.settle(spent(run), 2, APPROVE, by=MIRA, now=NOW)
