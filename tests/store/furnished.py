"""A store with something of every kind in it, made by real runs; and all that its ports say."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sayso import (
    Agent,
    Always,
    Notice,
    Policy,
    Rule,
    Sayso,
    Secret,
    UserMessage,
    approve,
    reject,
    role,
    spawn,
    tool,
    user,
)
from sayso.errors import NotAllowed
from sayso.store.base import Store
from sayso.store.journal import read_holds, read_journal
from sayso.store.query import HoldQuery, RunQuery
from sayso.testing import ScriptedModel, call, say

PATIENCE_S = 60
PARKED = "run_parked"
KINDS = ("person", "grant", "identity", "credential", "notice")


def agents(paid: Path) -> list[Agent]:
    """The agents, which write every payment down."""

    @tool(approval=True, effect="once")
    def pay(amount: int, recipient: str) -> str:
        """Pay somebody."""
        with paid.open("a") as file:
            file.write(f"{recipient} {amount}\n")
        if recipient == "death":
            os.kill(os.getpid(), signal.SIGKILL)
        if recipient == "sleep":
            time.sleep(amount)
        if recipient == "nobody":
            raise ConnectionResetError("the bank has hung up")
        return f"paid {recipient}"

    @tool(approval=True)
    def log_in(password: Secret) -> str:
        """Log in."""
        return f"in with {len(password.reveal())} characters"

    def answer(messages: list[Any]) -> Any:
        asked = next(one.text for one in reversed(messages) if isinstance(one, UserMessage)).split()
        if not isinstance(messages[-1], UserMessage):
            if asked[0] == "spawn-and-pay" and messages[-1].tool == "spawn":
                return call("pay", {"amount": 8, "recipient": "parent"})
            return say("Done.")
        match asked[0]:
            case "pay":
                return call("pay", {"amount": int(asked[2]), "recipient": asked[1]})
            case "secret":
                return call("log_in", {"password": "hunter2"})
            case "spawn" | "spawn-and-pay":
                return call("spawn", {"agent": "teller", "input": "pay child 7"})
            case _:
                return say("Hello.")

    model = ScriptedModel(answer)
    teller = Agent("teller", model=model, tools=[pay, log_in])
    return [teller, Agent("boss", model=model, tools=[spawn(teller), pay])]


_LARGE = 1000
POLICY = Policy(
    Rule(
        "pay",
        when=lambda call: call.args["amount"] > _LARGE,
        quorum=2,
        approvers=[role("finance")],
    ),
    Rule("pay", approvers=[user("mira"), role("finance")], remind_every="1h", within="30d"),
)


async def _notify(notice: Notice) -> None:
    if "nobody" in str(notice.hold.args):
        raise ConnectionError("no mail today")


def opened(where: Any, paid: Path, **more: Any) -> Sayso:
    """Open a store with the agents."""
    return Sayso(where, agents=agents(paid), policy=POLICY, notify=_notify, **more)


async def furnish(where: Any, paid: Path) -> None:
    """Fill a store."""
    async with opened(where, paid) as app:
        for name in ("mira", "ann", "bob"):
            await app.people.put(name, roles=["finance"], identities=[f"mail:{name}@example.com"])

        async def start(text: str, agent: str = "teller", **more: Any) -> Any:
            return await app.start(agent, text, by="mira", **more)

        async def held(run: Any) -> Any:
            return (await run.wait(held=True, timeout=PATIENCE_S)).holds[0]

        for name in ("first", "second"):
            run = await start(f"pay {name} 10", thread="talk", key=f"key-{name}")
            await app.decide(await held(run), approve(), by="ann", note="ünï", key=f"yes-{name}")
            await run.wait(final=True, timeout=PATIENCE_S)
        await app.redact(run, 2, by="mira", reason="private")
        run = await start("pay always 3")
        always = Always(args={"amount": {"at_most": 5}}, until="30d", uses=20)
        await app.decide(await held(run), approve(), by="mira", always=always)
        await run.wait(final=True, timeout=PATIENCE_S)
        run = await start("pay rejected 20")
        await app.decide(await held(run), reject("too much"), by="bob")
        await run.wait(final=True, timeout=PATIENCE_S)
        run = await start("pay nobody 30")
        await app.decide(await held(run), approve(), by="mira")
        while (await held(run)).kind != "in_doubt":
            pass
        run = await start("pay voted 5000")
        hold = await held(run)
        await app.decide(hold, approve(), by="ann")
        with suppress(NotAllowed):
            await app.decide(hold, approve(), by="eve")
        run = await start("pay undone 40")
        await app.decide(await held(run), approve(), by="mira", undo="10m")
        await held(await start("secret"))
        await held(await start("spawn", "boss"))
        await held(await start("pay parked 50", id=PARKED, key="key-parked", thread="waits"))
        await app.sweep()
        await app.audit.seal()
        await held(await start("pay after-seal 60"))


async def everything(store: Store) -> dict[str, Any]:
    """Read all that the ports of a store say."""
    runs, before = [], None
    while page := await store.runs(RunQuery(before=before, limit=3)):
        runs += page
        before = page[-1].id
    keys = [f"{kind}-{name}" for kind in ("key", "yes") for name in ("first", "second", "parked")]
    people = [f"user:{name}" for name in ("mira", "ann", "bob")] + ["role:finance"]
    return {
        "runs": runs,
        "journals": {row.id: await read_journal(store, row.id) for row in runs},
        "tail": await store.tail(limit=500),
        "holds": await read_holds(store, HoldQuery(status="any")),
        "open": await read_holds(store, HoldQuery()),
        "waiting": await read_holds(store, HoldQuery(who=tuple(people))),
        "found": await read_holds(store, HoldQuery(search=("parked",))),
        "keys": {key: await store.key("default", key) for key in keys},
        "threads": {name: await store.thread("default", name) for name in ("talk", "waits", "x")},
        "shelf": {kind: await store.shelf.list("default", kind, limit=500) for kind in KINDS},
        "dead": await store.outbox.dead_ones("default"),
        "next_due": await store.outbox.next_due(),
        "due": await store.due(),
        "seals": await store.seals.list(limit=500),
        "leaves": await store.seals.leaves(limit=500),
        "door": await store.door.list(limit=500),
    }


def summary(found: dict[str, Any]) -> dict[str, int]:
    """Count what was found, for those who want some of everything."""
    flat = msgspec.to_builtins(found["shelf"])
    return {
        "open": len(found["open"]),
        "waiting": len(found["waiting"]),
        "redacted": sum(entry.redacted for entry in found["tail"]),
        "seals": len(found["seals"]),
        "door": len(found["door"]),
        "people": len(flat["person"]),
        "grants": len(flat["grant"]),
    }
