"""Where the seeds disagree: one and the same turn, and for each the setting that honours it.

The turn: a harmless call, a risky one, another risky one, another harmless one. For each seed: what
people are asked at first, what has run by then, what has run after every yes, and what a no does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from sayso import (
    Context,
    Declined,
    Policy,
    Rule,
    RunView,
    Sayso,
    ToolMessage,
    answer,
    anyone,
    approve,
    question,
    reject,
    tool,
    user,
)
from sayso.errors import NotAllowed
from sayso.testing import call, say
from tests.engine.kit import Place, agent, completed, finished, held, suspended

TURN = [
    call("look", {"n": 0}),
    call("act", {"n": 1}),
    call("act", {"n": 2}),
    call("look", {"n": 3}),
]


class Seed(NamedTuple):
    """A seed's own way, and what becomes of the turn by it."""

    name: str
    options: dict[str, Any]
    asked: list[int]
    """Which calls people are asked about at first."""
    before: list[int]
    """What has run by then."""
    after: list[int]
    """What has run after every yes."""
    ends: bool = False
    """Whether a no ends the run."""


SEEDS = [
    Seed("art", {"siblings": "halt"}, [1], [0], [0, 1]),
    Seed(
        "teal, as planned",
        {"resolve": "together", "siblings": "hold", "on_reject": "cancel"},
        [1, 2],
        [],
        [0, 1, 2, 3],
        ends=True,
    ),
    Seed(
        "teal, as built",
        {"resolve": "together", "siblings": "run", "on_reject": "cancel"},
        [1, 2],
        [0, 3],
        [0, 1, 2, 3],
        ends=True,
    ),
    Seed("markov", {}, [1, 2], [0, 3], [0, 1, 2, 3]),
    Seed("emergent", {"resolve": "latest"}, [2], [0, 3], [0, 2, 3]),
    Seed("adk, one by one", {"siblings": "in_order"}, [1], [0], [0, 1, 2, 3]),
    Seed("adk, at once", {}, [1, 2], [0, 3], [0, 1, 2, 3]),
]
each = pytest.mark.parametrize("seed", SEEDS, ids=[seed.name for seed in SEEDS])


def maker(seed: Seed, ran: list[int]) -> Any:
    @tool
    async def look(n: int) -> int:
        ran.append(n)
        return n

    @tool(approval=True)
    async def act(n: int) -> int:
        ran.append(n)
        return n

    return agent([TURN, say("Done.")], look, act, name="seed", **seed.options)


async def decide(app: Sayso, view: RunView, verdict: Any) -> None:
    """Decide all that is asked now, the way it is asked."""
    for hold in view.holds:
        if hold.together:
            await app.resume(hold.request_id, verdict, by="mira")
            return
        await app.decide(hold, verdict, by="mira")


@each
async def test_every_yes(place: Place, seed: Seed) -> None:
    ran: list[int] = []
    async with place.app(maker(seed, ran)) as app:
        run = await app.start("seed", "go", by="mira")
        view = await suspended(run)
        assert [hold.args["n"] for hold in view.holds] == seed.asked
        assert sorted(ran) == seed.before
        while not view.final:
            await decide(app, view, approve())
            view = await run.wait(timeout=20)

        assert (view.status, sorted(ran)) == ("completed", seed.after)
        assert len([m for m in view.messages if isinstance(m, ToolMessage)]) == 4


@each
async def test_every_no(place: Place, seed: Seed) -> None:
    ran: list[int] = []
    async with place.app(maker(seed, ran)) as app:
        run = await app.start("seed", "go", by="mira")
        view = await suspended(run)
        while not view.final:
            await decide(app, view, reject("no"))
            view = await run.wait(timeout=20)

        assert view.status == ("cancelled" if seed.ends else "completed")
        assert not {1, 2} & set(ran)
        told = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
        assert [type(one) for one in told[1:3]] == [Declined, Declined]


@pytest.mark.parametrize("way", ["the answer is the result", "the call is executed"])
async def test_what_a_yes_leads_to_is_for_the_tool_to_say(place: Place, way: str) -> None:
    ran: list[str] = []

    @tool(name="act", blocking=True, asks=question("May I?", kind="yes_no"))
    async def asks() -> None:
        ran.append("prepared")

    @tool(name="act", approval=True)
    async def executes() -> str:
        ran.append("executed")
        return "done"

    used = asks if way == "the answer is the result" else executes
    async with place.app(agent([call("act"), say("Done.")], used)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, answer(True) if hold.kind == "question" else approve(), by="mira")
        view = await completed(run)

        (told,) = [m.outcome for m in view.messages if isinstance(m, ToolMessage)]
        want = (True, ["prepared"]) if used is asks else ("done", ["executed"])
        assert (told.result(), ran) == want  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "approvers, may, may_not",
    [
        (None, ["mira"], ["bob", "eve"]),
        ([user("bob")], ["bob"], ["mira", "eve"]),
        ([anyone], ["mira", "bob", "eve"], []),
    ],
    ids=["who started it", "who is named", "anybody of the project"],
)
async def test_who_may_decide(
    place: Place, approvers: Any, may: list[str], may_not: list[str]
) -> None:
    @tool(approval=True, approvers=approvers)
    async def act() -> str:
        return "done"

    for one in may:
        async with place.app(agent([call("act"), say("Done.")], act)) as app:
            run = await app.start("teller", "go", by="mira")
            hold = await held(run)
            for other in may_not:
                with pytest.raises(NotAllowed):
                    await app.decide(hold, approve(), by=other)
            await app.decide(hold, approve(), by=one)
            await completed(run)


@pytest.mark.parametrize(
    "silence, status, ran",
    [
        ("reject", "completed", []),
        ("approve", "completed", ["act"]),
        ("fail", "failed", []),
        ("cancel", "cancelled", []),
    ],
)
async def test_what_silence_means(place: Place, silence: str, status: str, ran: list[str]) -> None:
    did: list[str] = []

    @tool(approval=True, within="30s", on_silence=silence)
    async def act() -> None:
        did.append("act")

    async with place.app(agent([call("act"), say("Done.")], act)) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        place.clock.advance("30s")
        await app.sweep()

        assert ((await finished(run)).status, did) == (status, ran)


@pytest.mark.parametrize("where", ["tool", "rule", "check", "body"])
async def test_what_holds_a_call(place: Place, where: str) -> None:
    did: list[str] = []

    @tool(approval=where == "tool", name="act")
    async def plain() -> str:
        did.append("act")
        return "done"

    @tool(durable=True, name="act")
    async def body(ctx: Context) -> str:
        if await ctx.approval("May I?"):
            did.append("act")
        return "done"

    options: dict[str, Any] = {}
    if where == "rule":
        options["policy"] = Policy(Rule("act"))
    if where == "check":
        options["check_for_intervention"] = lambda facts: facts.tool == "act"
    used = body if where == "body" else plain
    async with place.app(agent([call("act"), say("Done.")], used), **options) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert (hold.kind, did) == ("approval", [])
        await app.decide(hold, approve(), by="mira")
        await completed(run)

        assert did == ["act"]
