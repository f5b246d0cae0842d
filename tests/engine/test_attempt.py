"""What is said of an attempt that was lost from sight, by the effect of its tool."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sayso import Context, Failed, tool
from sayso.testing import call, say

from .judge import judge
from .kit import QUICK, Place, agent, completed, finished, outcomes, suspended, types


class HttpStatusError(Exception):
    """As most clients have it: the answer is attached."""

    def __init__(self, status: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.response = SimpleNamespace(status_code=status)


class ResponseError(Exception):
    """As others have it: the status is the exception's own."""

    def __init__(self, status: Any) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class UnansweredError(Exception):
    """One that has an attribute for an answer, and none in it."""

    response = None


class SecretiveError(Exception):
    """One that cannot even be looked at."""

    @property
    def response(self) -> Any:
        raise RuntimeError("closed")


@pytest.mark.parametrize("lost", ["timeout", "reset", "gateway"])
async def test_a_keyed_call_that_was_lost_from_sight_starts_again_under_its_key(
    place: Place, lost: str
) -> None:
    keys: list[tuple[str, int]] = []

    @tool(effect="keyed", timeout="50ms")
    async def pay(ctx: Context) -> str:
        keys.append((ctx.key, ctx.attempt))
        if ctx.attempt > 1:
            return "paid"
        if lost == "timeout":
            await asyncio.Event().wait()
        raise HttpStatusError(504) if lost == "gateway" else ConnectionResetError

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")

        view = await completed(run)

        key = f"{run.id}.1.0"
        assert (outcomes(view), keys) == (["Returned"], [(key, 1), (key, 2)])
        await judge(app.store)


async def test_a_keyed_call_that_stays_lost_is_failed_after_so_many_attempts(place: Place) -> None:
    keys: list[str] = []

    @tool(effect="keyed")
    async def pay(ctx: Context) -> str:
        keys.append(ctx.key)
        raise ConnectionResetError("gone")

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        view = await completed(await app.start("teller", "Pay", by="mira"))

        outcome = next(m.outcome for m in view.messages if hasattr(m, "outcome"))
        assert isinstance(outcome, Failed)
        assert (outcome.error, "nobody knows" in outcome.message) == ("Interrupted", True)
        assert (len(keys), len(set(keys))) == (QUICK.attempts_max, 1)


async def test_a_keyed_call_lost_in_a_run_that_ends_is_not_said_to_be_declined(
    place: Place,
) -> None:
    started, end = asyncio.Event(), asyncio.Event()

    @tool(effect="keyed")
    async def pay() -> str:
        started.set()
        await end.wait()
        raise ConnectionResetError

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await started.wait()
        await app.cancel(run, by="mira")
        end.set()

        view = await finished(run)

        assert (view.status, outcomes(view)) == ("cancelled", ["Failed"])
        assert (await types(app, run)).count("call.started") == 1
        await judge(app.store)


async def test_a_read_that_was_lost_from_sight_has_failed(place: Place) -> None:
    reads: list[int] = []

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        reads.append(ctx.attempt)
        raise ConnectionResetError

    async with place.app(agent([call("look"), say("x")], look)) as app:
        view = await completed(await app.start("teller", "Look", by="mira"))

        assert (outcomes(view), reads) == (["Failed"], [1])


def behind(error: Exception) -> Exception:
    wrapper = ValueError("could not pay")
    wrapper.__cause__ = error
    return wrapper


ANSWERS: dict[str, tuple[Exception, bool]] = {
    **{f"response {n}": (HttpStatusError(n), True) for n in (408, 500, 502, 503, 504, 599)},
    **{f"response {n}": (HttpStatusError(n), False) for n in (200, 400, 404, 409, 429, 600)},
    "own 503": (ResponseError(503), True),
    "own 404": (ResponseError(404), False),
    "text 503": (ResponseError("503"), False),
    "behind": (behind(HttpStatusError(504)), True),
    "behind, refused": (behind(HttpStatusError(404)), False),
    "no answer": (UnansweredError(), False),
    "secretive": (SecretiveError(), False),
}


@pytest.mark.parametrize("error, doubted", ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_that_leaves_open_what_was_done_is_doubt(
    tmp_path: Any, error: Exception, doubted: bool
) -> None:
    @tool(effect="once")
    async def pay() -> str:
        raise error

    async with Place("memory", tmp_path).app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")

        if doubted:
            (hold,) = (await suspended(run)).holds
            assert (hold.kind, type(error).__name__ in hold.doubt) == ("in_doubt", True)
        else:
            assert outcomes(await completed(run)) == ["Failed"]


async def test_a_read_whose_server_broke_down_has_failed_by_its_own_name(place: Place) -> None:
    @tool(effect="none")
    async def look() -> str:
        raise HttpStatusError(503)

    async with place.app(agent([call("look"), say("x")], look)) as app:
        view = await completed(await app.start("teller", "Look", by="mira"))

        outcome = next(m.outcome for m in view.messages if hasattr(m, "outcome"))
        assert isinstance(outcome, Failed)
        assert outcome.error == "HttpStatusError"
