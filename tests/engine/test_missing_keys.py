"""Workers of one store with different keys: who cannot read an answer leaves it to the others."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from sayso import Bounds, Context, Sayso, answer, approve, tool
from sayso.store.keyring import VARIABLE, KeyRing, new_key
from sayso.testing import call, say

from .kit import QUICK, Place, agent, completed, held, types, until

SLOW = Bounds(look_s=3600.0)
COLD = Bounds(look_s=0.02, stay_hot_s=0)
SAID = "waits for a worker with the key"


class Counting(KeyRing):
    """A key ring that counts how often something was to be decrypted with it."""

    looks = 0

    def decrypt(self, purpose: str, data: bytes, aad: bytes = b"") -> bytes:
        self.looks += 1
        return super().decrypt(purpose, data, aad)


def log_in() -> Any:
    @tool(durable=True)
    async def log_in(ctx: Context) -> str:
        pin = await ctx.ask("PIN?", sensitive=True)
        return f"{len(pin)} digits"

    return agent([call("log_in"), say("In.")], log_in)


def count_looks(app: Sayso) -> Counting:
    """Put a key ring that counts in place of the one that the app has already."""
    ring = Counting({"other": bytes(32)})
    app._open_parts.vault._ring = ring
    return ring


@pytest.mark.parametrize("bounds", [SLOW, COLD], ids=["hot", "parked"])
async def test_a_worker_without_the_key_leaves_the_answer_to_one_that_has_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    bounds: Bounds,
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setenv(VARIABLE, new_key())
    place = Place("sqlite", tmp_path)
    async with place.app(log_in(), bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        ring = count_looks(app)
        async with place.app(log_in(), work=False) as other:
            await other.decide(hold, answer("4711"), by="mira")

        await until(lambda: ring.looks > (0 if bounds is SLOW else 3))
        before = await types(app, run)
        assert before[-1] == "run.resumed"
        assert caplog.text.count(SAID) == 1
        if bounds is SLOW:
            for _ in range(100):
                await asyncio.sleep(0)
            assert ring.looks == 1, "it looks again and again"
        closing = asyncio.get_running_loop().time()
    # What waits for a key keeps no process from ending.
    assert asyncio.get_running_loop().time() - closing < 4

    async with place.app(log_in(), bounds=QUICK) as app:
        view = await completed(app.run(run.id))
        assert view.messages[-2].outcome.result() == "4 digits"


async def test_a_body_that_is_to_start_again_is_left_to_one_that_has_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = new_key()
    monkeypatch.setenv(VARIABLE, key)
    home, away = Place("sqlite", tmp_path / "home"), Place("sqlite", tmp_path / "away")
    async with home.app(log_in()) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    async with home.app(log_in(), work=False) as app:
        await app.decide(hold, answer("4711"), by="mira")
        data = await app.export(run.id, by="mira")
    async with away.app(log_in()) as app:
        moved = await app.adopt(data, by="mira")
        hold = await held(moved)
        ring = count_looks(app)
        before = await types(app, moved)
        await app.decide(hold, approve(), by="mira")

        await until(lambda: ring.looks > 3)
        assert "call.started" not in (await types(app, moved))[len(before) :]

    async with away.app(log_in()) as app:
        view = await completed(app.run(run.id))
        assert view.messages[-2].outcome.result() == "4 digits"
