"""Seed 5, adk-stream-protocol, "BLOCKING mode for tool approval": what the record decides, what the
finished system did, and what went wrong in it.

The setting that honours it: a durable body that awaits its approval (`@tool(durable=True)` with
`await ctx.approval(...)`), and `Agent(siblings="in_order")` where calls are asked for one after the
other. Its first pattern, a tool that is pending until a later request, is a gated tool; people
answer both in the same way. Its `approvalId` is a hold's id, its `toolCallId` a call's.

Kept by the server's own tests: the names of stream parts, `[DONE]` markers, how many there are in
each mode, a client that may not send while a stream is open, and the WebSocket. That an answer is
never lost, however early, late or often it comes, in one process and across two, is in
`tests/engine/test_durable_await.py`; here it is tried once more in the words of the record.
"""

from __future__ import annotations

import asyncio
from itertools import product
from typing import Any

import pytest

from sayso import (
    Bounds,
    Context,
    Failed,
    Returned,
    RunView,
    ToolMessage,
    answer,
    approve,
    reject,
    tool,
)
from sayso.errors import AlreadyDecided, HoldExpired, NotAllowed, UnknownHold, WaitTimeout
from sayso.testing import call, say
from tests.engine.kit import (
    QUICK,
    Place,
    agent,
    completed,
    finished,
    held,
    journal,
    suspended,
    types,
    until,
)

PAY = {"amount": 200.0, "recipient": "次郎", "currency": "USD"}
ASKED = "次郎さんに200ドル送金してください"
SCRIPT = [call("process_payment", PAY), say("終わりました。")]
COLD = Bounds(look_s=0.02, backoff_s=0.01, backoff_max_s=0.05, stay_hot_s=0)
HEAT = pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])


class Bank:
    """Their tool, in both of its patterns, and what was paid with it."""

    def __init__(self, *, within: str | None = "30s") -> None:
        self.paid: list[tuple[str, float]] = []

        def execute(amount: float, recipient: str) -> dict[str, Any]:
            self.paid.append((recipient, amount))
            return {"success": True, "amount": amount, "recipient": recipient}

        @tool(durable=True)
        async def process_payment(
            ctx: Context, amount: float, recipient: str, currency: str = "USD"
        ) -> dict[str, Any]:
            said = await ctx.approval(f"Pay {amount} {currency} to {recipient}?", within=within)
            if said.reason == "expired":
                raise TimeoutError("Approval request timed out")
            if not said:
                raise ValueError("User denied the payment")
            return await ctx.step("pay", execute, amount, recipient)

        @tool(approval=True, within=within or "1d", name="process_payment")
        async def pending(amount: float, recipient: str, currency: str = "USD") -> dict[str, Any]:
            del currency
            return execute(amount, recipient)

        self.blocking, self.pending = process_payment, pending

    def agent(self, script: Any = SCRIPT, *, pattern: str = "blocking", **options: Any) -> Any:
        used = self.blocking if pattern == "blocking" else self.pending
        return agent(script, used, name="bank", **options)


def outcomes(view: RunView) -> list[Any]:
    return [message.outcome for message in view.messages if isinstance(message, ToolMessage)]


# The decision: the tool waits inside its own function.


@HEAT
async def test_approved_the_payment_is_made_and_is_what_the_call_gave(
    place: Place, bounds: Bounds
) -> None:
    bank = Bank()
    async with place.app(bank.agent(), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        assert (hold.kind, hold.tool, hold.args) == ("approval", "process_payment", PAY)
        assert bank.paid == []
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        assert outcomes(view)[0].result() == {"success": True, "amount": 200.0, "recipient": "次郎"}
        assert (view.output, bank.paid) == ("終わりました。", [("次郎", 200.0)])


@HEAT
async def test_denied_the_error_is_what_the_call_gave_and_the_run_goes_on(
    place: Place, bounds: Bounds
) -> None:
    bank = Bank()
    async with place.app(bank.agent(), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        await app.decide(await held(run), reject("no"), by="mira")
        view = await completed(run)

        assert outcomes(view) == [Failed(error="ValueError", message="User denied the payment")]
        assert (view.output, bank.paid) == ("終わりました。", [])


@HEAT
async def test_timed_out_the_error_says_so_and_the_run_goes_on(
    place: Place, bounds: Bounds
) -> None:
    bank = Bank()
    async with place.app(bank.agent(), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        place.clock.advance("30s")
        with pytest.raises(HoldExpired):
            await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        (found,) = outcomes(view)
        assert (type(found), found.message) == (Failed, "Approval request timed out")
        assert (view.output, bank.paid) == ("終わりました。", [])
        assert not list(await app.holds())


async def test_blocking_does_not_block_the_event_loop(place: Place) -> None:
    bank = Bank()
    busy = agent([call("look"), say("looked")], tool(_look), name="busy")
    async with place.app(bank.agent(), busy) as app:
        waiting = [await app.start("bank", ASKED, by="mira") for _ in range(20)]
        for run in waiting:
            await held(run)
        other = await app.start("busy", "go", by="mira")
        assert (await completed(other)).output == "looked"
        for run in reversed(waiting):
            await app.decide(await held(run), approve(), by="mira")
        for run in waiting:
            await completed(run)

        assert len(bank.paid) == 20


async def _look() -> str:
    return "looked"


@HEAT
async def test_it_is_one_stream_with_one_end(place: Place, bounds: Bounds) -> None:
    heard: list[str] = []
    async with place.app(Bank().agent(), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        async for entry in app.events(run):
            heard.append(entry.type)
            if entry.type == "run.suspended":
                # A client that answers only once it has been told that the run waits.
                await app.decide(await held(run), approve(), by="mira")

        assert heard == [
            "run.started",
            "turn.taken",
            "call.started",
            "hold.opened",
            "run.suspended",
            "hold.settled",
            "run.resumed",
            "call.continued",
            "step.started",
            "step.finished",
            "call.finished",
            "turn.taken",
            "run.completed",
        ]


@pytest.mark.parametrize("pattern", ["blocking", "pending"])
@pytest.mark.parametrize("yes", [True, False])
async def test_people_answer_both_patterns_in_the_same_way(
    place: Place, pattern: str, *, yes: bool
) -> None:
    bank = Bank()
    async with place.app(bank.agent(pattern=pattern)) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        assert (hold.kind, hold.tool, hold.args) == ("approval", "process_payment", PAY)
        await app.decide(hold, approve() if yes else reject("no"), by="mira")
        view = await completed(run)

        assert len(bank.paid) == yes
        assert (type(outcomes(view)[0]) is Returned) == yes
        assert view.output == "終わりました。"


async def test_a_body_that_waits_long_costs_no_memory(place: Place) -> None:
    bank = Bank(within=None)
    async with place.app(bank.agent(), bounds=COLD) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        await until(lambda: not _bodies())

        assert (await app.hold(hold)).status == "open"


def _bodies() -> list[Any]:
    return [t for t in asyncio.all_tasks() if "_as_coroutine" in repr(t.get_coro())]


# What it leaves for later: timeouts by tool, cancelling, several approvals, an audit trail.


async def test_every_tool_has_a_timeout_of_its_own(place: Place) -> None:
    bank = Bank(within="1h")
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        place.clock.advance("59m")
        await app.decide(hold, approve(), by="mira")
        await completed(run)

        assert len(bank.paid) == 1


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_pending_approval_can_be_cancelled(place: Place, *, at_once: bool) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        kept = app._open_parts.hot
        await until(lambda: at_once or len(kept))
        await app.cancel(run, by="mira")
        assert (await finished(run)).status == "cancelled"
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve(), by="mira")

        assert (bank.paid, list(await app.holds())) == ([], [])
        await until(lambda: not _bodies())


@HEAT
@pytest.mark.parametrize("second", [True, False])
async def test_a_tool_may_need_several_approvals(
    place: Place, bounds: Bounds, *, second: bool
) -> None:
    paid: list[str] = []

    @tool(durable=True)
    async def process_payment(ctx: Context) -> str:
        for step in ("the amount", "the recipient"):
            if not await ctx.approval(f"Is {step} right?"):
                raise ValueError(f"User denied {step}")
        await ctx.step("pay", paid.append, "paid")
        return "paid"

    script = [call("process_payment"), say("Done.")]
    async with place.app(agent(script, process_payment, name="bank"), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        first = await held(run)
        assert first.title == "Is the amount right?"
        await app.decide(first, approve(), by="mira")
        last = await held(run)
        assert (last.title, paid) == ("Is the recipient right?", [])
        await app.decide(last, approve() if second else reject("no"), by="mira")
        await completed(run)

        assert paid == (["paid"] if second else [])


async def test_every_decision_is_in_the_audit_trail(place: Place) -> None:
    async with place.app(Bank().agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", note="seen it")
        await completed(run)

        (one,) = [x for x in await journal(app.store, run.id) if x.type == "hold.settled"]
        decision = one.event.decision
        assert (decision.by.id, decision.word, decision.note) == ("mira", "approved", "seen it")
        assert decision.digest == hold.digest


# What the finished system did.


TWO = [
    [
        call("process_payment", {"amount": 1.0, "recipient": "A"}),
        call("process_payment", {"amount": 2.0, "recipient": "B"}),
    ],
    say("Done."),
]
MIXES = list(product([True, False], repeat=2))


@HEAT
@pytest.mark.parametrize("first, second", MIXES)
async def test_two_payments_one_after_the_other(
    place: Place, bounds: Bounds, *, first: bool, second: bool
) -> None:
    bank = Bank()
    async with place.app(bank.agent(TWO, siblings="in_order"), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        for name, yes in (("A", first), ("B", second)):
            hold = await held(run)
            assert hold.args["recipient"] == name
            await app.decide(hold, approve() if yes else reject("no"), by="mira")
        view = await completed(run)

        paid = [name for name, yes in (("A", first), ("B", second)) if yes]
        assert [who for who, _ in bank.paid] == paid
        assert [type(one) is Returned for one in outcomes(view)] == [first, second]
        assert view.output == "Done."


@HEAT
@pytest.mark.parametrize("first, second", MIXES)
@pytest.mark.parametrize("backwards", [False, True])
async def test_two_payments_beside_each_other(
    place: Place, bounds: Bounds, *, first: bool, second: bool, backwards: bool
) -> None:
    bank = Bank()
    async with place.app(bank.agent(TWO), bounds=bounds) as app:
        run = await app.start("bank", ASKED, by="mira")
        holds = {hold.args["recipient"]: hold for hold in (await suspended(run)).holds}
        assert set(holds) == {"A", "B"}
        wanted = [("A", first), ("B", second)]
        for name, yes in reversed(wanted) if backwards else wanted:
            await app.decide(holds[name], approve() if yes else reject("no"), by="mira")
        view = await completed(run)

        assert sorted(who for who, _ in bank.paid) == [name for name, yes in wanted if yes]
        assert [type(one) is Returned for one in outcomes(view)] == [first, second]


async def test_an_approval_has_an_id_of_its_own_and_is_used_once(place: Place) -> None:
    async with place.app(Bank().agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        assert hold.id != hold.call_id
        for name in (hold.call_id, "confirm-123", hold.id + "0", ""):
            with pytest.raises(UnknownHold):
                await app.decide(name, approve(), by="mira")
        await app.decide(hold.id, approve(), by="mira")
        with pytest.raises(AlreadyDecided):
            await app.decide(hold.id, approve(), by="mira")
        view = await completed(run)

        (told,) = [m for m in view.messages if isinstance(m, ToolMessage)]
        assert told.call_id == hold.call_id


async def test_yes_and_no_take_the_same_way(place: Place) -> None:
    paths: list[list[str]] = []
    for verdict in (approve(), reject("no")):
        bank = Bank()

        @tool(durable=True)
        async def process_payment(ctx: Context) -> bool:
            return bool(await ctx.approval("Pay?"))

        one = agent([call("process_payment"), say("x")], process_payment, name=f"b{len(paths)}")
        async with place.app(one, bank.agent()) as app:
            run = await app.start(one.name, ASKED, by="mira")
            await app.decide(await held(run), verdict, by="mira")
            await completed(run)
            paths.append(await types(app, run))

    assert paths[0] == paths[1]


async def test_the_call_is_announced_before_it_is_asked_about(place: Place) -> None:
    async with place.app(Bank().agent(pattern="pending")) as app:
        run = await app.start("bank", ASKED, by="mira")
        await held(run)
        names = await types(app, run)

        assert names.index("turn.taken") < names.index("hold.opened") < names.index("run.suspended")


async def test_nothing_is_said_between_two_approvals_of_one_turn(place: Place) -> None:
    bank = Bank()
    async with place.app(bank.agent(TWO, siblings="in_order")) as app:
        run = await app.start("bank", ASKED, by="mira")
        for _ in range(2):
            await app.decide(await held(run), approve(), by="mira")
        await completed(run)
        names = await types(app, run)
        between = names[names.index("hold.opened") : len(names) - names[::-1].index("hold.settled")]

        assert "turn.taken" not in between


async def test_sessions_are_apart(place: Place) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        mira = await app.start("bank", ASKED, by="mira")
        also = await app.start("bank", ASKED, by="mira")
        hana = await app.start("bank", ASKED, by="hana")
        one, two, three = await held(mira), await held(also), await held(hana)
        assert [hold.id for hold in await app.holds(by="hana")] == [three.id]
        for who, hold in (("hana", one), ("mira", three)):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=who)
        await app.decide(two, approve(), by="mira")
        await completed(also)

        assert len(bank.paid) == 1
        assert await mira.status() == await hana.status() == "suspended"


@pytest.mark.parametrize("result", [{"ok": 1}, None, "text"])
async def test_what_a_client_executes_may_be_answered_before_anybody_waits(
    place: Place, result: Any
) -> None:
    @tool(client=True)
    async def change_background(colour: str) -> None: ...

    script = [call("change_background", {"colour": "red"}), say("Done.")]
    async with place.app(agent(script, change_background, name="bank")) as app:
        run = await app.start("bank", ASKED, by="mira")
        await until(lambda: _opened(app, run))
        await app.decide(f"hold_{run.id[4:]}.1", answer(result), by="mira")

        assert outcomes(await completed(run))[0].result() == result


async def _opened(app: Any, run: Any) -> bool:
    return "hold.opened" in await types(app, run)


# What went wrong.


async def test_an_answer_can_be_sent_while_the_stream_is_open(place: Place) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        stream = app.events(run)
        seen = [(await anext(stream)).type for _ in range(4)]
        assert seen[-1] == "hold.opened"
        await app.decide(await held(run), approve(), by="mira")
        rest = [entry.type async for entry in stream]

        assert rest[-1] == "run.completed"


@pytest.mark.parametrize("verdict", [approve(), reject("no")])
async def test_a_client_that_sends_its_answer_again_and_again_changes_nothing(
    place: Place, verdict: Any
) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        await app.decide(hold, verdict, by="mira", key="k")
        await completed(run)
        before = await types(app, run)
        for _ in range(123):
            assert (await app.decide(hold, verdict, by="mira", key="k")).status == "settled"
            with pytest.raises(AlreadyDecided):
                await app.decide(hold, verdict, by="mira")

        assert await types(app, run) == before
        assert len(bank.paid) == (verdict == approve())


async def test_the_result_belongs_to_the_call_that_asked(place: Place) -> None:
    bank = Bank()
    async with place.app(bank.agent(TWO)) as app:
        run = await app.start("bank", ASKED, by="mira")
        holds = (await suspended(run)).holds
        for hold in reversed(holds):
            await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        told = {m.call_id: m.outcome for m in view.messages if isinstance(m, ToolMessage)}
        for hold in holds:
            assert told[hold.call_id].result()["recipient"] == hold.args["recipient"]  # type: ignore[union-attr]


@HEAT
async def test_an_answer_before_anybody_waits_is_not_lost(place: Place, bounds: Bounds) -> None:
    bank = Bank()
    async with place.app(bank.agent(), work=False) as front:
        run = await front.start("bank", ASKED, by="mira")
    async with place.app(bank.agent(), bounds=bounds) as app:
        hold = await held(app.run(run.id))
    async with place.app(bank.agent(), work=False) as front:
        await front.decide(hold, approve(), by="mira")
    async with place.app(bank.agent(), bounds=bounds) as app:
        await completed(app.run(run.id))

        assert len(bank.paid) == 1


@pytest.mark.parametrize("verdicts", [(approve(), reject("no")), (reject("no"), approve())])
async def test_the_first_answer_counts_and_not_the_last(place: Place, verdicts: Any) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        await app.decide(hold, verdicts[0], by="mira")
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, verdicts[1], by="mira")
        await completed(run)

        assert len(bank.paid) == (verdicts[0] == approve())


async def test_everybody_who_waits_is_told(place: Place) -> None:
    async with place.app(Bank().agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        waiters = [asyncio.ensure_future(app.run(run.id).wait(final=True)) for _ in range(5)]
        await app.decide(await held(run), approve(), by="mira")
        found = await asyncio.wait_for(asyncio.gather(*waiters), 20)

        assert {view.output for view in found} == {"終わりました。"}


async def test_whoever_goes_away_leaves_the_approval_open_and_nothing_behind(place: Place) -> None:
    bank = Bank()
    async with place.app(bank.agent()) as app:
        run = await app.start("bank", ASKED, by="mira")
        hold = await held(run)
        waiter = asyncio.ensure_future(run.wait(final=True))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(WaitTimeout):
            await run.wait(final=True, timeout=0.01)
        stream = app.events(run)
        await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        assert (await app.hold(hold)).status == "open"
    assert not _bodies()
    async with place.app(bank.agent()) as app:
        await app.decide(hold, approve(), by="mira")
        await completed(app.run(run.id))

        assert len(bank.paid) == 1
    assert not _bodies()
