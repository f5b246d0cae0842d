"""A worker that is told to stop, in every state that it can be in.

Method: a real process that does nothing but `await app.serve()`, brought to a known point and sent
SIGTERM there, once or twice; another process looks at what it left, and goes on with it.
"""

import signal
from typing import Any

import pytest

from sayso import Bounds, Sayso, approve
from sayso.store.base import RunRow

from . import child
from .judge import judge
from .kit import (
    PATIENCE_S,
    Child,
    Place,
    completed,
    held,
    outcomes,
    suspended,
    types,
    until,
)

QUICK = Bounds(look_s=0.05)


def desk(place: Place) -> Sayso:
    """An app that starts and decides, and leaves the work to others."""
    return Sayso(place.path, agents=[child.teller(place.world, {})], work=False)


def heir(place: Place) -> Sayso:
    """An app that goes on with what another has left."""
    return Sayso(place.path, agents=[child.teller(place.world, {"name": "heir"})], bounds=QUICK)


async def row(app: Sayso, run_id: str) -> RunRow:
    found = await app.store.load(run_id)
    assert found is not None
    return found


def let_go(place: Place) -> None:
    (place.world.root / "go").touch()


SIGNALS = pytest.mark.parametrize(
    "signals",
    [[signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGTERM]],
    ids=["SIGTERM", "SIGINT", "SIGTERM twice"],
)


@SIGNALS
async def test_an_idle_worker_ends_at_once(file_place: Place, signals: Any) -> None:
    with Child(file_place, do="serve") as worker:
        await worker.said("ready")

        for one in signals:
            worker.signal(one)

        assert await worker.gone() == 0
        assert "over" in worker.words


@SIGNALS
async def test_a_worker_with_suspended_runs_ends_at_once(file_place: Place, signals: Any) -> None:
    place = file_place
    with Child(place, do="serve") as worker:
        await worker.said("ready")
        async with desk(place) as app:
            run = await app.start("teller", "Pay", by="mira")
            hold = await held(run)

            for one in signals:
                worker.signal(one)
            assert await worker.gone() == 0

            assert (await row(app, run.id)).owner == ""
            await app.decide(hold, approve(), by="mira")
    async with heir(place) as app:
        await completed(app.run(run.id))
        assert "run.taken_over" not in await types(app, run.id)
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("pay",))


@SIGNALS
async def test_a_worker_in_a_model_call_waits_for_the_answer(
    file_place: Place, signals: Any
) -> None:
    place = file_place
    with Child(place, do="serve", stay="model") as worker:
        await worker.said("ready")
        async with desk(place) as app:
            run = await app.start("teller", "Pay", by="mira")
            await worker.said("model")

            for one in signals:
                worker.signal(one)
            let_go(place)
            assert await worker.gone() == 0

            view = await suspended(run)
            assert len(view.holds) == 1
            assert worker.words.count("model") == 1


async def test_a_worker_in_a_model_call_that_does_not_end_leaves_the_run_to_others(
    file_place: Place,
) -> None:
    place = file_place
    with Child(place, do="serve", stay="model", drain_s=0.2) as worker:
        await worker.said("ready")
        async with desk(place) as app:
            run = await app.start("teller", "Pay", by="mira")
            await worker.said("model")

            worker.signal(signal.SIGTERM)
            assert await worker.gone() == 0

            found = await row(app, run.id)
            assert (found.status, found.owner) == ("running", "")
    async with heir(place) as app:
        await held(app.run(run.id))
        assert "run.taken_over" not in await types(app, run.id)


@SIGNALS
@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_worker_in_a_tool_waits_for_it_and_finishes_the_run(
    file_place: Place, signals: Any, where: str
) -> None:
    place = file_place
    with Child(place, do="serve", stay=where) as worker:
        await worker.said("ready")
        async with desk(place) as app:
            run = await app.start("teller", "Pay", by="mira")
            await app.decide(await held(run), approve(), by="mira")
            await worker.said(where)

            for one in signals:
                worker.signal(one)
            let_go(place)
            assert await worker.gone() == 0

            view = await completed(run)
            assert outcomes(view) == ["Returned"]
            assert len(place.world.effects()) == 1
            await judge(app.store, place.world, ("pay",))


@pytest.mark.parametrize("where, effects", [("before", 0), ("after", 1)])
async def test_a_worker_in_a_tool_that_does_not_end_leaves_a_doubt_for_a_person(
    file_place: Place, where: str, effects: int
) -> None:
    place = file_place
    with Child(place, do="serve", stay=where, drain_s=0.2) as worker:
        await worker.said("ready")
        async with desk(place) as app:
            run = await app.start("teller", "Pay", by="mira")
            await app.decide(await held(run), approve(), by="mira")
            await worker.said(where)

            worker.signal(signal.SIGTERM)
            assert await worker.gone() == 0

            # It may not say that it is done with the run: it does not know how the call ended.
            assert (await row(app, run.id)).owner != ""
    async with heir(place) as app:
        doubt = await held(app.run(run.id))
        assert doubt.kind == "in_doubt"
        assert len(place.world.effects()) == effects
        await judge(app.store, place.world, ("pay",))


async def test_a_worker_that_drains_takes_nothing_new(file_place: Place) -> None:
    place = file_place
    with Child(place, do="serve", stay="before") as worker:
        await worker.said("ready")
        async with desk(place) as app:
            first = await app.start("teller", "Pay", by="mira")
            await app.decide(await held(first), approve(), by="mira")
            await worker.said("before")
            waiting = await app.start("teller", "Pay", by="mira")
            hold = await held(waiting)

            worker.signal(signal.SIGTERM)
            await until(lambda: _new_is_left_alone(app), "the drain")
            second = await app.start("teller", "Pay", by="mira")
            await app.decide(hold, approve(), by="mira")
            let_go(place)
            assert await worker.gone() == 0

            await completed(first)
            for run in (second, waiting):
                found = await row(app, run.id)
                assert (found.status, found.owner) == ("running", "")
            assert len(place.world.effects()) == 1
    async with heir(place) as app:
        await completed(app.run(waiting.id))
        view = await app.run(second.id).wait(timeout=PATIENCE_S)
        assert view.status == "suspended"


async def _new_is_left_alone(app: Sayso) -> bool:
    """Start a run, and tell whether nobody takes it within a moment."""
    run = await app.start("teller", "Pay", by="mira")
    try:
        await run.wait(timeout=0.3)
    except TimeoutError:
        return True
    except Exception as error:
        return type(error).__name__ == "WaitTimeout"
    return False
