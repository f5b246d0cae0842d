"""A run that has taken all its turns, or worked for as long as it may, is not let go on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.codec import decode_run, encode_run
from sayso.domain.hold import Rejected, answer, fail
from sayso.domain.lifecycle import apply, epilogue
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status, WorkTime
from sayso.errors import BudgetSpent

from .build import (
    APPROVE,
    CHILD,
    DELEGATION,
    MIRA,
    NOW,
    QUESTION,
    asking,
    begun,
    blocked,
    commanded,
    commit,
    doubted,
    executing,
    held,
)
from .build import answer as turn
from .forge import illegal, opened

TIMEOUT = 600_000


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


def bounded(run: Run, worked_ms: int = 0, since: int = 0) -> Run:
    """The run as one that may work for ten minutes, and has worked for so long."""
    time = WorkTime(timeout_ms=TIMEOUT, since=since, worked_ms=worked_ms)
    return replace(run, work_time=time)


def begins() -> Run:
    return commit(None, replace(begun(), timeout_ms=TIMEOUT))


def time_of(run: Run) -> WorkTime:
    assert run.work_time is not None
    return run.work_time


def asks(run: Run, now: int) -> Run:
    """The run after its model has asked for a call that somebody has to allow."""
    taken = turn(run, "d")
    request = verbs.HoldRequest(ref=taken.calls[0].ref, ruling=Require())
    return commit(run, taken, *verbs.open_holds(apply(run, taken), [request], now=now), now=now)


def refused(run: Run, now: int) -> Run:
    """The run after it was told no, and is due another turn."""
    (hold,) = run.holds
    return commit(run, *settling.settle(run, hold.n, Rejected(), by=MIRA, now=now), now=now)


def test_a_run_works_from_its_start_on():
    run = begins()

    assert run.work_time == WorkTime(timeout_ms=TIMEOUT, since=NOW)
    assert time_of(run).worked_by(NOW + 7) == 7
    assert time_of(run).left_ms(NOW + 7) == TIMEOUT - 7
    assert time_of(run).left_ms(NOW + TIMEOUT + 7) == 0


def test_a_run_that_waits_does_not_work():
    run = asks(begins(), NOW + 7)

    assert run.work_time == WorkTime(timeout_ms=TIMEOUT, worked_ms=7)
    assert time_of(run).worked_by(NOW + 1_000_000) == 7


def test_a_run_goes_on_working_with_what_was_decided():
    run = refused(asks(begins(), NOW + 7), NOW + 1007)

    assert time_of(run).since == NOW + 1007
    assert time_of(run).worked_by(NOW + 1010) == 10


def test_a_clock_that_was_set_back_gives_no_time_back():
    run = asks(begins(), NOW - 1000)

    assert time_of(run).worked_ms == 0
    assert time_of(begins()).left_ms(NOW - 1000) == TIMEOUT


@given(
    st.lists(st.tuples(st.integers(-9, 99), st.integers(-9, 99)), min_size=1, max_size=6),
)
def test_what_counts_is_the_time_between_a_resumption_and_the_next_suspension(
    stretches: list[tuple[int, int]],
):
    run, now, expected = begins(), NOW, 0
    for works, waits in stretches:
        expected += max(0, works)
        run = asks(run, now + works)
        assert time_of(run).worked_by(now + works + waits) == expected
        now += works + waits
        run = refused(run, now)

    assert time_of(run).worked_by(now) == expected


def test_when_a_run_stops_and_goes_on_is_said_if_its_time_is_bounded_and_only_then():
    waits = replace(held("d"), told=Status.RUNNING)

    assert epilogue(waits, NOW) == [e.RunSuspended()]
    assert epilogue(bounded(waits, since=NOW), NOW + 5) == [e.RunSuspended(at=NOW + 5)]
    illegal(waits, e.RunSuspended(at=NOW), match="bounded")
    illegal(bounded(waits, since=NOW), e.RunSuspended(), match="bounded")


@pytest.mark.parametrize(
    "run, now",
    [
        (bounded(held("d"), TIMEOUT), NOW),
        (bounded(held("d", ready=("r",)), 10, since=NOW), NOW + TIMEOUT - 10),
    ],
)
def test_nobody_lets_a_call_start_in_a_run_that_has_worked_for_as_long_as_it_may(
    run: Run, now: int
):
    with pytest.raises(BudgetSpent, match="10m that it may work"):
        settling.settle(run, 1, APPROVE, by=MIRA, now=now)
    assert settling.settle(run, 1, Rejected(), by=MIRA, now=now)


def test_a_millisecond_is_enough_to_be_let_go_on():
    waits = bounded(held("d"), TIMEOUT - 1)
    works = bounded(held("d", ready=("r",)), 10, since=NOW)

    assert settling.settle(waits, 1, APPROVE, by=MIRA, now=NOW + 1_000_000)
    assert settling.settle(works, 1, APPROVE, by=MIRA, now=NOW + TIMEOUT - 11)


@pytest.mark.parametrize("run", [asking(QUESTION), blocked()])
def test_nobody_answers_what_there_is_no_time_to_see(run: Run):
    with pytest.raises(BudgetSpent):
        settling.settle(bounded(run, TIMEOUT), 1, answer(1), by=MIRA, now=NOW)
    assert settling.settle(bounded(run, TIMEOUT), 1, fail("no"), by=MIRA, now=NOW)


def test_what_happened_and_what_is_commanded_takes_no_time():
    doubt = bounded(doubted(executing("d")), TIMEOUT)
    command = commanded(held("d"))
    command = bounded(commit(command, opened(command, "c1")), TIMEOUT)

    assert settling.settle(doubt, 1, answer(1), by=MIRA, now=NOW)
    assert settling.settle(command, 2, APPROVE, by=MIRA, now=NOW)


@pytest.mark.parametrize("worked_ms, counted", [(0, 40), (50, 90)])
def test_what_a_child_has_worked_counts_as_what_its_turns_do(worked_ms: int, counted: int):
    run = bounded(asking(DELEGATION), 40)
    ended = {"child": CHILD, "now": NOW, "turns": 2, "worked_ms": worked_ms}
    after = commit(run, *settling.settle_child(run, 1, answer("found"), **ended))

    assert (after.spent, time_of(after).worked_ms) == (2, counted)
    assert time_of(after).since == NOW


def test_a_run_without_a_bound_does_not_count_what_its_child_has_worked():
    run = asking(DELEGATION)
    ended = {"child": CHILD, "now": NOW, "turns": 2, "worked_ms": 50}

    assert commit(run, *settling.settle_child(run, 1, answer("found"), **ended)).work_time is None


ADOPTED = e.RunAdopted(by=MIRA, at=NOW + 10_000, source="elsewhere")


@pytest.mark.parametrize(
    "run, adopted, worked_ms",
    [
        (begins(), replace(ADOPTED, times=(NOW, NOW + 30)), 30),
        (begins(), replace(ADOPTED, times=(NOW - 30,)), 0),
        (begins(), ADOPTED, 0),
        (asks(begins(), NOW + 7), replace(ADOPTED, times=(NOW + 30,)), 7),
    ],
)
def test_nobody_works_on_a_run_that_is_on_its_way(run: Run, adopted: e.RunAdopted, worked_ms: int):
    time = time_of(apply(run, adopted))

    assert time.worked_by(adopted.at) == worked_ms
    assert bool(time.since) == bool(time_of(run).since)


def test_a_run_without_a_bound_takes_no_more_room_for_it():
    plain = encode_run(held("d"))

    assert plain.endswith(b',"","",0,[]]')
    assert encode_run(bounded(held("d"), 7)).startswith(plain.removesuffix(b"]"))
    for run in (bounded(held("d"), 7), begins()):
        assert decode_run(encode_run(run)) == run
