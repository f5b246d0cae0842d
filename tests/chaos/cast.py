"""Who takes part in the chaos: workers, clients who start and decide, and one who settles doubts.

Each is a process of its own, which anybody may kill, stop or cut off at any moment, and which is
then begun again with the same part. What it was told it notes before it goes on.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from sayso import Bounds, HoldView, Sayso, Verdict, answer, approve, reject
from sayso.errors import AlreadyDecided, SaysoError, StoreError
from sayso.store import postgres
from sayso.store.doubt import DoubtView
from sayso.store.postgres_proof import Proofs
from tests.chaos.bank import TIMEOUT_S, TOOLS, Bank, teller

LEASE_S = 2.0
PATIENCE_S = 3.0
LOOK_S = 0.2
T = TypeVar("T")


class Part:
    """What a process is told of its part."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.name: str = spec["name"]
        self.url: str = spec["url"]
        self.bank = Bank(Path(spec["world"]))
        self.chance = random.Random(f"{spec['seed']}-{spec['name']}-{spec['life']}")
        self.runs: list[int] = spec.get("runs", [])
        self.pace_s: float = spec.get("pace_s", 0.0)
        self.listen: bool = spec.get("listen", True)
        self.pause_s: float = spec.get("pause_s", 0.6)
        self.sabotage: str = spec.get("sabotage", "")
        self.sweeps: bool = spec.get("sweeps", True)
        self.ends_after_s: float | None = spec.get("ends_after_s")
        """After which time of silence somebody goes and ends a process that a doubt is about."""

    def app(self, **options: Any) -> Sayso:
        """Give an app on the store, opened as everybody does, with bounds fit for a test."""
        bounds = Bounds(
            look_s=0.3,
            beat_s=LEASE_S / 4,
            takeover_grace_ms=500,
            attempts_max=100,
            backoff_s=0.1,
        )
        return Sayso(self.url, agents=[teller(self.bank, self.pause_s)], bounds=bounds, **options)

    def note(self, **said: Any) -> None:
        self.bank.tell(self.name, **said)


def play(spec: dict[str, Any]) -> None:
    """Play a part, in a process that was made for it."""
    part = Part(spec)
    log = os.open(part.bank.root / f"log.{part.name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # Processes of one machine know by a file when one of them is dead; others wait for its lease.
    tempfile.tempdir = str(part.bank.root / f"machine.{spec['machine']}")
    Path(tempfile.tempdir).mkdir(exist_ok=True)
    _make_brisk(part)
    if part.sabotage == "everybody is dead":
        Proofs.is_dead = lambda *_: True  # type: ignore[method-assign]
    asyncio.run(globals()[spec["do"]](part))


def _make_brisk(part: Part) -> None:
    """Shorten leases and patience, however a store is opened: a minute of chaos is an hour's."""

    class Brisk(postgres.PostgresStore):
        @classmethod
        async def open(cls, url: str, **options: Any) -> Any:
            brisk = {"lease_ms": int(LEASE_S * 1000), "patience_s": PATIENCE_S}
            return await super().open(url, **{"listen": part.listen, **brisk, **options})

    postgres.PostgresStore = Brisk  # type: ignore[misc]


async def work(part: Part) -> None:
    """Work, until told to stop by SIGTERM."""
    while True:
        app = part.app(drain_s=10.0)
        serving = asyncio.create_task(app.serve())
        try:
            while app._worker is None and not serving.done():
                await asyncio.sleep(0.01)
            if app._worker is not None:
                part.bank.write("workers", f"{app._worker.id} {os.getpid()}")
            if app._sweeper is not None and not part.sweeps:
                await app._sweeper.stop()
            await serving
            return
        except StoreError as error:
            print("cannot serve:", error, file=sys.stderr)
            await asyncio.sleep(LOOK_S)


async def decide(part: Part) -> None:
    """Start the runs of this part, one after another, and decide whatever waits meanwhile."""
    await _again_and_again(part, [_start_all, _decide_some])


async def resolve(part: Part) -> None:
    """Settle what is in doubt, as a careful person does: look at the books, and at the worker."""
    await _again_and_again(part, [Resolver(part).look])


async def _again_and_again(part: Part, do: list[Callable[[Part, Sayso], Awaitable[None]]]) -> None:
    while not (part.bank.root / "over").exists():
        try:
            async with part.app(work=False) as app, asyncio.TaskGroup() as group:
                for one in do:
                    group.create_task(_for_ever(part, app, one))
        except* StoreError as group:
            print("cannot open:", group.exceptions, file=sys.stderr)
            await asyncio.sleep(LOOK_S)


async def _for_ever(part: Part, app: Sayso, do: Callable[[Part, Sayso], Awaitable[None]]) -> None:
    while not (part.bank.root / "over").exists():
        await _told(part, do(part, app))
        await asyncio.sleep(LOOK_S * (0.5 + part.chance.random()))


async def _told(part: Part, doing: Awaitable[T]) -> T | SaysoError:
    """Give an answer, or the error that somebody was told; it must be one of ours."""
    try:
        return await doing
    except SaysoError as error:
        return error
    except Exception as error:
        traceback.print_exc()
        part.note(raw=f"{type(error).__name__}: {error}")
        raise


async def _start_all(part: Part, app: Sayso) -> None:
    done = {one["start"] for one in part.bank.told(part.name) if "start" in one}
    for n in part.runs:
        if n in done:
            continue
        text = f"{TOOLS[n % len(TOOLS)]} {n}"
        found = await _told(part, app.start("teller", text, by=part.name, key=f"start {n}"))
        if isinstance(found, SaysoError):
            part.note(error=type(found).__name__)
            return  # And again, with the same key.
        part.note(start=n, run=found.id)
        await asyncio.sleep(part.pace_s * 2 * part.chance.random())


async def _decide_some(part: Part, app: Sayso) -> None:
    waiting = [hold for hold in (await app.holds(limit=50)).items if hold.kind == "approval"]
    # Everybody at the same ones now and then, or few would come at the same time.
    some = waiting if part.chance.random() < 0.5 else part.chance.sample(waiting, len(waiting))
    for hold in some[:4]:
        verdict = approve() if part.chance.random() < 0.85 else reject(part.name)
        other = reject(part.name) if verdict == approve() else approve()
        key = f"{part.name} {hold.id} {part.chance.random()}"
        clicks = 2 if part.chance.random() < 0.2 else 1
        await asyncio.gather(*(_insist(part, app, hold, verdict, key) for _ in range(clicks)))
        if part.chance.random() < 0.2:
            await _insist(part, app, hold, other, f"{key} other")


async def _insist(part: Part, app: Sayso, hold: HoldView, verdict: Verdict, key: str) -> None:
    """Decide, and ask again with the same key until there is an answer; note it."""
    for _ in range(20):
        found = await _told(part, app.decide(hold, verdict, by=part.name, key=key))
        if isinstance(found, AlreadyDecided):
            stands = found.decision
            part.note(hold=hold.id, told=stands.word, by=stands.by.id, key=stands.key)
            return
        if isinstance(found, HoldView):
            decision = found.decision
            assert decision is not None
            part.note(hold=hold.id, decided=decision.word, by=decision.by.id, key=decision.key)
            return
        part.note(error=type(found).__name__)
        if not isinstance(found, StoreError):
            return
        await asyncio.sleep(LOOK_S)


class Resolver:
    """A person with the books before them, who can go to the machines and look."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._beats: dict[str, set[Any]] = {}
        """By hold, signs of life of its worker after all that its call could take."""
        self._since: dict[str, float] = {}

    async def look(self, part: Part, app: Sayso) -> None:
        for hold in (await app.holds(limit=200)).items:
            if hold.kind == "in_doubt":
                await self._settle(app, await app.doubt(hold))

    async def _settle(self, app: Sayso, doubt: DoubtView) -> None:
        # First whether it can still happen, then whether it has.
        over = self._is_over(doubt)
        hold, part = doubt.hold, self._part
        if part.bank.effects(doubt.key):
            verdict, alive = answer("paid"), False
        elif over:
            again = part.chance.random() < 0.85
            verdict, alive = (approve(), doubt.may_live) if again else (reject("never mind"), False)
        else:
            return
        try:
            await app.decide(hold, verdict, by=part.name, even_if_alive=alive)
        except AlreadyDecided:
            return
        part.note(doubt=hold.id, why=doubt.why.split(" ")[-1], life=doubt.life.state)

    def _is_over(self, doubt: DoubtView) -> bool:
        """Tell whether an attempt cannot have its effect any more.

        A worker that was stopped acts when it wakes up, so that it lives proves nothing: only that
        it has said so twice since the call's time was over, because what it wakes up to comes
        between the two.
        """
        pid = self._part.bank.pid(doubt.worker)
        if not doubt.may_live or pid is None:
            return True
        since = self._since.setdefault(doubt.hold.id, time.monotonic())
        ends_after_s = self._part.ends_after_s
        if ends_after_s is not None and time.monotonic() > since + ends_after_s:
            os.kill(pid, signal.SIGKILL)
        seen, began = doubt.life.seen_at, doubt.started_at
        beats = self._beats.setdefault(doubt.hold.id, set())
        alive = doubt.life.state == "alive" and seen is not None and began is not None
        if alive and seen > began + timedelta(seconds=TIMEOUT_S + 1):
            beats.add(round(seen.timestamp() / (LEASE_S / 8)))
        return len(beats) > 2


if __name__ == "__main__":
    play(json.loads(sys.argv[1]))
