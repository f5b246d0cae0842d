"""The world outside of the chaos: a bank's books, what was acknowledged to whom, and who lives.

Every line is one system call and on the disk before anybody goes on. What the books say is the
truth that the judge holds the store against.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

from sayso import Agent, Context, Happened, NotHappened, tool
from sayso.errors import NotDone
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import World

TOOLS = ("pay", "wire", "pay", "book")
"""Of effect `once`, `keyed`, and `once` with a probe; which of them a run uses, in turn."""
TIMEOUT_S = 1.5


class Bank(World):
    """Books of effects, files of acknowledgements, and the processes that live."""

    def write(self, name: str, line: str) -> None:
        handle = os.open(self.root / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{line}\n".encode())
            os.fsync(handle)
        finally:
            os.close(handle)

    def read(self, name: str) -> list[str]:
        lines = super().read(name)
        if name == "effects":
            lines += [line for one in self.root.glob("bound.*") for line in _lines(one)]
        return lines

    def pay(self, ctx: Context, amount: int) -> None:
        """Pay, as often as it is asked for."""
        self.write("effects", _effect(ctx, amount))

    def wire(self, ctx: Context, amount: int) -> None:
        """Pay once for a key, however many ask for it at once."""
        self._bind(ctx.key, _effect(ctx, amount))

    def book(self, ctx: Context, amount: int) -> None:
        """Pay, unless somebody was told that this attempt has not paid and never will."""
        if not self._bind(f"{ctx.key}.{ctx.attempt}", _effect(ctx, amount)):
            raise NotDone("the bank was told not to")

    def was_booked(self, ctx: Context) -> bool:
        """Tell whether an attempt has paid. If it has not, it never will."""
        name = f"{ctx.key}.{ctx.attempt}"
        return not self._bind(name, "") and bool(_lines(self.root / f"bound.{name}"))

    def _bind(self, name: str, line: str) -> bool:
        """Say what a name stands for; False if it stands for something already."""
        draft = self.root / f"draft.{os.getpid()}.{random.random()}"
        draft.write_text(f"{line}\n" if line else "")
        try:
            os.link(draft, self.root / f"bound.{name}")
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def tell(self, client: str, **said: Any) -> None:
        """Note what somebody was told."""
        self.write(f"told.{client}", json.dumps(said))

    def told(self, client: str = "*") -> list[dict[str, Any]]:
        """Read what somebody was told, or everybody."""
        return [
            json.loads(line) for one in self.root.glob(f"told.{client}") for line in _lines(one)
        ]

    def started(self) -> dict[int, str]:
        """Give the runs that somebody was told are started, by their numbers."""
        return {one["start"]: one["run"] for one in self.told() if "start" in one}

    def pid(self, worker: str) -> int | None:
        """Give a worker's process, as somebody who goes to its machine can; None: it is gone."""
        pids = dict(line.split(" ") for line in self.read("workers"))
        pid = int(pids.get(worker, os.getpid()))  # Nobody has heard of it yet.
        return pid if Path(f"/proc/{pid}").exists() else None


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _effect(ctx: Context, amount: int) -> str:
    text = json.dumps({"amount": amount}, separators=(",", ":"))
    return f"{ctx.key} {ctx.attempt} {sha256(text.encode()).hexdigest()}"


def teller(bank: Bank, pause_s: float) -> Agent:
    """An agent that makes one payment, by the tool that it is told."""

    async def slowly(act: Callable[[Context, int], None], ctx: Context, amount: int) -> str:
        await asyncio.sleep(random.random() * pause_s)
        act(ctx, amount)
        await asyncio.sleep(random.random() * pause_s)
        return "paid"

    asked: dict[str, Any] = {"approvers": ["anyone"], "timeout": f"{TIMEOUT_S:g}s"}

    @tool(approval=True, effect="once", **asked)
    async def pay(ctx: Context, amount: int) -> str:
        return await slowly(bank.pay, ctx, amount)

    @tool(approval=True, effect="keyed", **asked)
    async def wire(ctx: Context, amount: int) -> str:
        return await slowly(bank.wire, ctx, amount)

    async def look(ctx: Context, amount: int) -> Happened | NotHappened:
        del amount
        return Happened(result="paid") if bank.was_booked(ctx) else NotHappened()

    @tool(approval=True, effect="once", probe=look, **asked)
    async def book(ctx: Context, amount: int) -> str:
        return await slowly(bank.book, ctx, amount)

    def script(messages: Any) -> Any:
        name, amount = messages[0].text.split(" ")
        return call(name, {"amount": int(amount)}) if len(messages) == 1 else say("Done.")

    return Agent("teller", model=ScriptedModel(script), tools=[pay, wire, book])
