"""What works in the background goes on after anything but the end of its store."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sayso import Bounds, tool
from sayso.errors import StoreClosed
from sayso.store.base import Store
from sayso.testing import call, say

from .kit import QUICK, Delegate, Place, agent, completed, finished, held, until


class Stumbling(Delegate):
    """A store one method of which once does what no store may, and counts what it is asked."""

    def __init__(self, inner: Store, method: str, error: Exception) -> None:
        super().__init__(inner)
        self._method, self._error = method, error
        self.armed = False
        self.calls = 0
        self.calls_after = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._watched(found) if name == self._method else found

    def _watched(self, method: Any) -> Any:
        async def stumble(*args: Any, **how: Any) -> Any:
            if self.armed:
                self.calls += 1
                if self.calls == 1:
                    raise self._error
                self.calls_after += 1
            return await method(*args, **how)

        return stumble


def stumbles(method: str, error: Exception) -> tuple[Any, list[Stumbling]]:
    made: list[Stumbling] = []

    def wrap(store: Store) -> Stumbling:
        made.append(Stumbling(store, method, error))
        return made[-1]

    return wrap, made


BOUNDS = Bounds(look_s=0.01, beat_s=0.01)


@pytest.mark.parametrize("method", ["claim", "beat", "due", "lost"])
async def test_a_service_goes_on_after_what_should_not_happen_and_says_so(
    place: Place, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrap, made = stumbles(method, RuntimeError("should not happen"))
    with caplog.at_level(logging.ERROR, logger="sayso"):
        async with place.app(agent([say("x")]), wrap=wrap, bounds=BOUNDS):
            made[0].armed = True
            await until(lambda: made[0].calls_after > 1, f"another {method}")

    said = [record for record in caplog.records if record.exc_info]
    assert [str(record.exc_info[1]) for record in said if record.exc_info] == ["should not happen"]


@pytest.mark.parametrize("method", ["claim", "beat", "due", "lost"])
async def test_a_service_ends_with_its_store(
    place: Place, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrap, made = stumbles(method, StoreClosed())
    with caplog.at_level(logging.WARNING, logger="sayso"):
        async with place.app(agent([say("x")]), wrap=wrap, bounds=BOUNDS) as app:
            made[0].armed = True
            await until(lambda: made[0].calls == 1, method)
            await completed(await app.start("teller", "x", by="mira"))

    assert (made[0].calls_after, caplog.records) == (0, [])


async def test_a_run_that_breaks_the_sweeper_keeps_no_other_waiting(place: Place) -> None:
    @tool(approval=True, within="1h")
    async def pay() -> str:
        return "paid"

    class Breaking(Delegate):
        bad = ""

        async def load(self, run_id: str) -> Any:
            if run_id == self.bad:
                raise RuntimeError("should not happen")
            return await self.inner.load(run_id)

    made: list[Breaking] = []

    def wrap(store: Store) -> Breaking:
        made.append(Breaking(store))
        return made[-1]

    async with place.app(agent([call("pay"), say("x")], pay), wrap=wrap, bounds=QUICK) as app:
        first = await app.start("teller", "x", by="mira")
        await held(first)
        second = await app.start("teller", "x", by="mira")
        await held(second)

        made[0].bad = first.id
        place.clock.advance("1h")
        await app.sweep()

        assert (await finished(second)).status == "completed"
