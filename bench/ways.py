"""Every way to wait, against the plain cycle: asking in a body, a plan, agents below agents."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench import teller
from bench.measure import rounds
from bench.report import Report, number
from bench.size import Size
from sayso import (
    Agent,
    Bounds,
    Context,
    Message,
    Planner,
    Sayso,
    ToolMessage,
    UserMessage,
    answer,
    approve,
    spawn,
    tool,
)
from sayso.testing import ScriptedModel, call, say
from sayso.testing.scripted import Turn

DEPTH = 3
ITEMS = 20
PLAN = "Make a plan"


@tool(durable=True, timeout="30s")
async def pay_inside(ctx: Context, recipient: str) -> str:
    """Pay somebody, and ask in between."""
    account = await ctx.ask("Which account?")
    await ctx.step("pay", _pay, recipient, account)
    return "paid"


def _pay(recipient: str, account: str) -> str:
    return f"{recipient} {account}"


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head("Every way to wait, to the plain cycle")
    agents = [teller.make_teller(), _asker(), *_tree(), _planner()]
    parked = Bounds(stay_hot_s=0)
    async with (
        Sayso(folder / "hot.db", agents=agents) as hot,
        Sayso(folder / "parked.db", agents=agents, bounds=parked) as cold,
    ):
        found = await rounds(
            {
                "plain": teller.cycles_of(hot),
                "hot": teller.cycles_of(hot, _ask_inside),
                "parked": teller.cycles_of(cold, _ask_inside),
                "tree": teller.cycles_of(hot, _held("top")),
                "plan": teller.cycles_of(hot, _plan),
            },
            times=size.rounds,
            cycles=max(size.cycles // 10, 1),
        )
    plain = found["plain"]
    report.plain("the plain cycle", f"{number(plain.wall_ms)} ms")
    for name, said in (
        ("hot", "asking in a body that stays in memory"),
        ("parked", "asking in a body that is parked"),
        ("tree", f"agents {DEPTH} deep, the lowest held"),
        ("plan", f"a plan of {ITEMS} items"),
    ):
        ours = found[name]
        report.ratio(said, f"{number(ours.wall_ms)} ms", ours.to(plain), "the plain cycle")
    ratio = found["parked"].to(found["hot"])
    report.ratio("a body parked", f"{number(found['parked'].wall_ms)} ms", ratio, "one in memory")


def _asker() -> Agent:
    model = ScriptedModel([call("pay_inside", {"recipient": "Jiro"}), say("Paid.")])
    return Agent("asker", model=model, tools=[pay_inside])


def _tree() -> list[Agent]:
    names = ["top", *(f"below {n}" for n in range(1, DEPTH))]
    names = [name.replace(" ", "-") for name in names]
    return [
        Agent(
            name,
            model=ScriptedModel([call("spawn", {"agent": below, "input": "x"}), say("Paid.")]),
            tools=[spawn(below)],
        )
        for name, below in zip(names, [*names[1:], "teller"], strict=True)
    ]


def _planner() -> Planner:
    items = [{"id": f"i{n}", "task": f"look up {n}"} for n in range(ITEMS)]

    def model(messages: tuple[Message, ...]) -> Turn:
        first = messages[0]
        assert isinstance(first, UserMessage)
        if first.text == PLAN:
            return say(json.dumps({"items": items}) if len(messages) == 1 else "Done.")
        if isinstance(messages[-1], ToolMessage):
            return say("Looked up.")
        return call("look_up", {"what": "something"})

    return Planner("planner", model=ScriptedModel(model), tools=[teller.look_up], items_max=ITEMS)


async def _ask_inside(app: Sayso) -> None:
    run = await app.start("asker", teller.PAY, by=teller.BY)
    view = await run.wait()
    await app.decide(view.holds[0], answer("main"), by=teller.BY)
    await teller.finish(app, run.id)


def _held(agent: str) -> Callable[[Sayso], Awaitable[None]]:
    async def one(app: Sayso) -> None:
        run = await app.start(agent, teller.PAY, by=teller.BY)
        view = await run.wait()
        await app.decide(view.holds[0], approve(), by=teller.BY)
        await teller.finish(app, run.id)

    return one


async def _plan(app: Sayso) -> None:
    run = await app.start("planner", PLAN, by=teller.BY)
    view = await run.wait(final=True)
    assert view.status == "completed", view.error
