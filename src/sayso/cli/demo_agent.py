"""The agent of `sayso demo`, in a process of its own: started, killed, and started again.

    python -m sayso.cli.demo_agent start DIR     start the run, say that it waits, stay until killed
    python -m sayso.cli.demo_agent resume DIR    go on with it to its end
    python -m sayso.cli.demo_agent all DIR PORT  all the agents: start what is not, then work

It speaks to the demo in single lines of JSON. The payments are counted outside the store, in a file
that only the tool appends to.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from sayso.agents.agent import Agent
from sayso.agents.tools import tool
from sayso.app import Sayso
from sayso.domain.call import Declined, Returned
from sayso.domain.message import Message, ToolMessage
from sayso.domain.recorded import Recorded
from sayso.domain.ruling import user
from sayso.engine.ports import Context
from sayso.testing.scripted import ScriptedModel, Turn, call, say

RUN_ID = "run_demo"
WISH = "Pay Jiro 200 dollars for the garden work."
ASKED: dict[str, Any] = {"amount": 200.0, "recipient": "Jiro"}
HINTS = {"properties": {"amount": {"format": "money", "currency": "currency"}}}
"""How its arguments are best shown."""
PATIENCE_S = 60.0
"""Whatever takes longer is a surprise."""


class Payment(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the payments file."""

    amount: float
    recipient: str
    currency: str
    key: str
    pid: int


def store_path(directory: Path) -> Path:
    """Where the demo keeps its store."""
    return directory / "demo.db"


def payments(directory: Path) -> list[Payment]:
    """Read the payments made so far."""
    path = directory / "payments.jsonl"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=Payment) for line in lines]


def make_teller(directory: Path) -> Agent:
    """Make the agent. Every process makes its own, and all of them are the same agent."""

    @tool(
        approval=True,
        effect="once",
        risk="high",
        within="4h",
        timeout="30s",
        approvers=[user("mira"), user("jonas")],
    )
    def process_payment(
        ctx: Context, amount: float, recipient: str, currency: str = "USD"
    ) -> dict[str, str]:
        """Pay somebody."""
        payment = Payment(
            amount=amount, recipient=recipient, currency=currency, key=ctx.key, pid=os.getpid()
        )
        with (directory / "payments.jsonl").open("ab") as file:
            file.write(msgspec.json.encode(payment) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        return {"paid": f"{amount:.2f} {currency} to {recipient}"}

    return Agent(
        "teller",
        model=ScriptedModel(_script),
        instructions="You pay what people ask you to pay.",
        tools=[process_payment],
    )


def _script(messages: tuple[Message, ...]) -> Turn:
    match messages[-1]:
        case ToolMessage(outcome=Returned() as outcome):
            return say(f"Paid {outcome.result()['paid']}.")
        case ToolMessage(outcome=Declined(reason=reason)):
            return say(f"Not paid: {reason or 'no reason was given'}.")
        case ToolMessage():
            return say("I could not pay.")
        case _:
            return call("process_payment", ASKED)


async def _start(app: Sayso) -> None:
    run = await app.start("teller", WISH, by="mira", id=RUN_ID)
    view = await run.wait(timeout=PATIENCE_S)
    _tell(status=view.status, holds=[hold.id for hold in view.holds], worker=view.worker)
    # To be killed; but should the demo itself go first, the end of its pipe is noticed.
    await asyncio.to_thread(sys.stdin.buffer.read)


async def _resume(app: Sayso) -> None:
    view = await app.run(RUN_ID).wait(final=True, timeout=PATIENCE_S)
    _tell(status=view.status, output=view.output, error=view.error)


def _tell(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


async def _work(app: Sayso) -> None:
    from sayso.cli.demo_cast import CAST

    # So that every page of the inbox can be looked at, the audit too.
    await app.people.put("mira", roles=["operator"])
    runs = {"teller": (RUN_ID, WISH), **CAST}
    for agent, (run_id, wish) in runs.items():
        # The same key gives the same run, in whichever process.
        await app.start(agent, wish, by="mira", id=run_id, key=f"demo/{run_id}")
    view = await app.run(RUN_ID).wait(timeout=PATIENCE_S)
    for run_id, _ in CAST.values():
        if run_id != CAST["billing"][0]:
            await app.run(run_id).wait(timeout=PATIENCE_S)
    async for found in app.events(CAST["billing"][0]):
        if isinstance(found, Recorded) and found.type == "call.started":
            break
    _tell(status=view.status, holds=[hold.id for hold in view.holds], worker=view.worker)
    await asyncio.to_thread(sys.stdin.buffer.read)


async def _main(what: str, directory: Path, port: int = 0) -> None:
    agents, providers = [make_teller(directory)], list[Any]()
    if what == "all":
        # That a run is taken over is part of the story, and told in it.
        logging.getLogger("sayso").setLevel(logging.ERROR)
        from sayso.cli.demo_cast import make_cast, provider

        agents, providers = [*agents, *make_cast()], [provider(port)]
    async with Sayso(store_path(directory), agents=agents, providers=providers) as app:
        await {"start": _start, "resume": _resume, "all": _work}[what](app)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])))
