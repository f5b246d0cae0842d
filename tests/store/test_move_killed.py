"""A move whose process is killed, wherever that may be: the same command goes on, and until it has
ended nobody can work on either store, or on the first one alone.
"""

import asyncio
import os
import random
import signal

import apsw
import pytest

from sayso.errors import CannotMove, StoreMoved, StoreUnfinished
from sayso.store.move import move, undo
from tests.store.child import forked
from tests.store.test_move import Place, Watched, carry, copy_file, full, look, place

__all__ = ["full", "place"]


def killed(source: Place, target: Place, point: int, what=move) -> bool:
    """Move in a child that dies before its n-th step, a statement to a file or a call; tell whether
    it came to that.
    """
    count = 0

    def step(*_) -> bool:
        nonlocal count
        count += 1
        if count == point:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    async def call(*_) -> None:
        step()

    async def moving() -> None:
        apsw.connection_hooks.append(lambda conn: setattr(conn, "exec_trace", step))
        async with source.transfer() as here, target.transfer() as there:
            await what(Watched(here, call), Watched(there, call))
        source.path.with_suffix(".steps").write_text(str(count))

    return os.WIFSIGNALED(forked(moving))


async def can_work(place: Place) -> bool:
    """Tell whether there can be work in a store."""
    try:
        store = await place.store()
    except StoreUnfinished:
        return False
    try:
        # Another name each time: one that was refused keeps its lock while this process lives.
        worker = os.urandom(4).hex()
        await store.beat(worker)
        await store.retire(worker)
    except StoreMoved:
        return False
    finally:
        await store.close()
    return True


def check_killed(source: Place, target: Place, before) -> None:
    """Look what a move that was killed has left, and let it go on."""
    if asyncio.run(can_work(source)):
        # It has not begun.
        assert not asyncio.run(can_work(target)) or not asyncio.run(look(target))["runs"]
    asyncio.run(carry_on(source, target))

    assert asyncio.run(look(target)) == before
    assert not asyncio.run(can_work(source))
    assert asyncio.run(can_work(target))


async def carry_on(source: Place, target: Place) -> None:
    """Give the command again. If it had ended, it says so."""
    try:
        await carry(source, target)
    except CannotMove as error:
        assert "already" in str(error)


def steps_of(source: Place, target: Place) -> int:
    """Count the steps of a move that nobody kills."""
    assert not killed(source, target, 0)
    return int(source.path.with_suffix(".steps").read_text())


@pytest.fixture
def make(place, full):
    def make(kind: str = "sqlite") -> tuple[Place, Place]:
        source, target = place("sqlite"), place(kind)
        copy_file(full, source.path)
        return source, target

    return make


def some(steps: int, count: int) -> list[int]:
    return sorted(random.Random(steps).sample(range(1, steps + 1), min(count, steps)))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_move_goes_on_wherever_it_was_killed(make, kind):
    before = asyncio.run(look(make()[0]))
    steps = steps_of(*make(kind))
    assert steps > 100

    for point in some(steps, 8 if kind == "sqlite" else 4):
        source, target = make(kind)
        assert killed(source, target, point)
        check_killed(source, target, before)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_move_goes_on_wherever_it_was_killed_twice(make, kind):
    before = asyncio.run(look(make()[0]))
    for point in range(1, steps_of(*make(kind)) + 1):
        source, target = make(kind)
        assert killed(source, target, point)
        killed(source, target, random.Random(point).randrange(1, point + 1))
        check_killed(source, target, before)


@pytest.mark.parametrize("point", [2, 5, 20, 60, 100, 140])
def test_an_undoing_goes_on_wherever_it_was_killed(make, point):
    source, target = make()
    before = asyncio.run(look(source))
    asyncio.run(carry(source, target))
    killed(source, target, point, undo)

    assert not (asyncio.run(can_work(source)) and asyncio.run(can_work(target)))
    asyncio.run(undo_again(source, target))

    assert asyncio.run(look(source)) == before
    assert asyncio.run(can_work(source))
    assert not asyncio.run(can_work(target))


async def undo_again(source: Place, target: Place) -> None:
    async with source.transfer() as here, target.transfer() as there:
        try:
            await undo(here, there)
        except CannotMove as error:
            assert "was not moved" in str(error)
