"""The agent that is measured, and its cycle: asked, held, dropped, approved, paid, done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from sayso import Agent, Context, Message, Sayso, ToolMessage, UserMessage, approve, tool
from sayso.engine.ports import AskedCall
from sayso.testing import ScriptedModel, call, say
from sayso.testing.scripted import Turn

BY = "mira"
PAY = "Pay Jiro 200 dollars"
PAY_MANY = "Pay four people, and look four things up"
FILL = "Look up "
FILL_CALLS = 49
"""How many calls a turn asks for that is there to make a journal long: with it, 50 messages."""
TEXT = "x" * 400


@tool(approval=True, effect="once", risk="high", within="4h", timeout="30s")
async def process_payment(
    ctx: Context, amount: float, recipient: str, currency: str = "USD"
) -> dict:
    """Pay somebody."""
    del ctx, amount, recipient, currency
    return {"ok": True}


@tool(effect="none", timeout="30s")
async def look_up(ctx: Context, what: str) -> str:
    """Look something up."""
    del ctx
    return what


def answer(messages: tuple[Message, ...]) -> Turn:
    """Say what the model says next, by looking at both ends of the conversation only."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return say("Paid.") if last.tool == "process_payment" else _fill(messages)
    assert isinstance(last, UserMessage)
    if last.text.startswith(FILL):
        return _fill(messages)
    if last.text == PAY_MANY:
        pays = [_pay(f"person {n}") for n in range(4)]
        return [*(call("look_up", {"what": f"thing {n}"}) for n in range(4)), *pays]
    return _pay("Jiro")


def _pay(recipient: str) -> AskedCall:
    return call("process_payment", {"amount": 200, "recipient": recipient})


def _fill(messages: tuple[Message, ...]) -> Turn:
    first = messages[0]
    assert isinstance(first, UserMessage)
    if len(messages) >= int(first.text.removeprefix(FILL)):
        return say("Looked up.")
    return [call("look_up", {"what": f"{n} {TEXT}"}) for n in range(FILL_CALLS)]


def make_teller() -> Agent:
    return Agent(
        "teller",
        model=ScriptedModel(answer),
        instructions="You pay invoices.",
        tools=[process_payment, look_up],
    )


async def ask(app: Sayso, text: str = PAY, thread: str | None = None) -> str:
    """Start a run and wait until it is suspended; give the id of its first hold, and no more."""
    run = await app.start("teller", text, by=BY, thread=thread)
    view = await run.wait()
    assert view.status == "suspended", view.status
    await dropped(app, run.id)
    return view.holds[0].id


async def dropped(app: Sayso, run_id: str) -> None:
    """Wait until nothing of a run is in memory: what follows must load it by its id."""
    while run_id in app._open_parts.ledger._lives:  # noqa: ASYNC110 - a tick or two.
        await asyncio.sleep(0)


async def finish(app: Sayso, run_id: str) -> None:
    view = await app.run(run_id).wait(final=True)
    assert view.output == "Paid.", view


def run_of(hold_id: str) -> str:
    return "run_" + hold_id.removeprefix("hold_").rpartition(".")[0]


async def cycle(app: Sayso, text: str = PAY, thread: str | None = None) -> None:
    """One cycle."""
    hold_id = await ask(app, text, thread)
    await app.decide(hold_id, approve(), by=BY)
    await finish(app, run_of(hold_id))


async def cycle_of_eight(app: Sayso) -> None:
    """Eight calls, four of them held, all four decided by one answer."""
    run = await app.start("teller", PAY_MANY, by=BY)
    request_id = (await run.wait()).holds[0].request_id
    await dropped(app, run.id)
    await app.resume(request_id, approve(), by=BY)
    await finish(app, run.id)


async def cycle_of_eight_apart(app: Sayso) -> None:
    """The same, with four people deciding at the same moment."""
    run = await app.start("teller", PAY_MANY, by=BY)
    holds = [hold.id for hold in (await run.wait()).holds]
    await dropped(app, run.id)
    await asyncio.gather(*(app.decide(hold, approve(), by=BY) for hold in holds))
    await finish(app, run.id)


async def seed(app: Sayso, messages: int) -> str:
    """Make a thread of one finished run with so many messages; give its name."""
    run = await app.start("teller", f"{FILL}{messages}", by=BY)
    await run.wait(final=True)
    return run.id


async def seed_runs(app: Sayso, runs: int) -> str:
    """Make a thread of so many finished runs of two messages each; give its name."""
    name = ""
    for _ in range(runs):
        run = await app.start("teller", f"{FILL}0", by=BY, thread=name or None)
        await run.wait(final=True)
        name = name or run.id
    return name


def cycles_of(
    app: Sayso, one: Callable[[Sayso], Awaitable[None]] = cycle
) -> Callable[[int], Awaitable[None]]:
    """Cycles one after another."""

    async def work(count: int) -> None:
        for _ in range(count):
            await one(app)

    return work


def cycles_in(app: Sayso, threads: Sequence[str]) -> Callable[[int], Awaitable[None]]:
    """Cycles one after another, each in a thread of its own, never used before."""
    left = iter(threads)

    async def work(count: int) -> None:
        for _ in range(count):
            await cycle(app, PAY, next(left))

    return work
