"""A person who decides as a test tells them to.

    async with FakeHuman(app, by="mira", decide=approve()):  # yes to all that mira may decide
        view = await run.wait(final=True)

    human = FakeHuman(app, by="mira", decide=lambda hold: reject("no"))
    view = await human.settle(run)  # decides until this run is finished

Rule: a verdict alone answers approvals. Whether a call in doubt happened is nothing to say by rote:
give a function for that.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from types import TracebackType
from typing import Self

from sayso.app import Sayso
from sayso.domain.hold import Verdict
from sayso.domain.value import Principal
from sayso.engine.handle import RunHandle
from sayso.errors import AlreadyDecided, NotWhatWasShown, StoreClosed, WaitTimeout
from sayso.store.views import HoldView, RunView

Answer = Verdict | None
"""What to say to a hold; None leaves it to somebody else."""
Decide = Verdict | Callable[[HoldView], Answer | Awaitable[Answer]]


class FakeHuman:
    """Somebody who answers holds, one verdict for all or one by one."""

    def __init__(self, app: Sayso, *, by: str | Principal, decide: Decide) -> None:
        self._app = app
        self._by = by
        self._decide = decide
        self._left: set[tuple[str, int]] = set()
        self._task: asyncio.Task[None] | None = None
        self.decided: list[HoldView] = []
        """What was decided, in order, each as it was after that."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._follow(), name="sayso-fake-human")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.result()  # A mistake in `decide` is the test's to know.

    async def settle(self, run: RunHandle, *, timeout: float = 30.0) -> RunView:
        """Decide this run's holds until it is finished. `WaitTimeout` if that does not come."""
        watch = self._app.store.watch(run.id)
        clock = asyncio.get_running_loop().time
        until = clock() + timeout
        try:
            while not (view := await run.view()).final:
                if await self._answer(view.holds):
                    continue
                if not await watch.wait(until - clock()):
                    raise WaitTimeout(f"{run.id!r} is still {view.status}")
            return view
        finally:
            watch.close()

    async def _follow(self) -> None:
        watch = self._app.store.watch()
        try:
            while True:
                after: str | None = None
                while True:
                    page = await self._app.holds(by=self._by, after=after)
                    await self._answer(page)
                    after = page.next
                    if after is None:
                        break
                await watch.wait()
        except StoreClosed:
            return  # The app is gone; so is the work.
        finally:
            watch.close()

    async def _answer(self, holds: Iterable[HoldView]) -> bool:
        """Decide what is to be decided; tell whether that was anything."""
        acted = False
        for hold in holds:
            if hold.status != "open" or (hold.id, hold.version) in self._left:
                continue
            verdict = await self._verdict(hold)
            if verdict is None:
                self._left.add((hold.id, hold.version))
                continue
            acted = True
            try:
                self.decided.append(await self._app.decide(hold, verdict, by=self._by))
            except (AlreadyDecided, NotWhatWasShown):
                continue  # Somebody else was faster; there may be something new to see.
        return acted

    async def _verdict(self, hold: HoldView) -> Answer:
        if not callable(self._decide):
            return self._decide if hold.kind == "approval" else None
        said = self._decide(hold)
        return await said if inspect.isawaitable(said) else said
