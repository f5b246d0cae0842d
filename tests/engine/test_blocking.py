"""Calls whose outcome is somebody's answer: blocking tools, tools that the caller runs, commands.

Method: the body writes down that it ran, so that a second time would show; whoever should not be
able to answer tries to, and nothing changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from sayso import (
    Context,
    Declined,
    Failed,
    Policy,
    Principal,
    Returned,
    Rule,
    ToolMessage,
    answer,
    approve,
    fail,
    question,
    reject,
    service,
    tool,
    user,
)
from sayso.domain.message import AssistantMessage
from sayso.errors import AlreadyDecided, BadPolicy, BadValue, NotAllowed, WrongVerdict
from sayso.testing import call, say

from .kit import Place, agent, completed, entries, finished, held, journal, suspended

CI = Principal(kind="service", id="ci")
OTHER = Principal(kind="service", id="other")
BOT = Principal(kind="agent", id="bot")
PAYLOADS: list[Any] = [
    None,
    True,
    0,
    -1.5,
    "",
    "text\n\u2028 \U0001f600",
    [],
    {"approved": True, "deep": [{"a": [1, {"b": None}]}]},
    "x" * 100_000,
]


def outcomes(view: Any) -> list[Any]:
    return [message.outcome for message in view.messages if isinstance(message, ToolMessage)]


def refund(ran: list[str], **options: Any) -> Any:
    @tool(name="refund", blocking=True, **options)
    async def request_refund(ctx: Context, order: str) -> dict[str, str]:
        ran.append(ctx.call_id)
        return {"ticket": f"T-{order}"}

    return request_refund


REFUND = call("refund", {"order": "7"})


@pytest.mark.parametrize("payload", PAYLOADS)
async def test_whatever_is_sent_is_the_outcome(place: Place, payload: Any) -> None:
    ran: list[str] = []
    async with place.app(agent([REFUND, say("Done.")], refund(ran))) as app:
        run = await app.start("teller", "refund it", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.metadata) == ("external", {"ticket": "T-7"})
        assert hold.args == {"order": "7"}
        assert ran == [hold.call_id]

        await app.decide(hold, answer(payload), by="mira")
        view = await completed(run)

        (found,) = outcomes(view)
        assert isinstance(found, Returned)
        assert found.result() == payload
        assert ran == [hold.call_id]


async def test_an_error_may_be_the_outcome(place: Place) -> None:
    async with place.app(agent([REFUND, say("Done.")], refund([]))) as app:
        run = await app.start("teller", "refund it", by="mira")
        await app.decide(await held(run), fail("the bank said no"), by="mira")

        (found,) = outcomes(await completed(run))
        assert found == Failed(error="Errored", message="the bank said no")


async def test_a_no_is_an_outcome_and_the_run_goes_on(place: Place) -> None:
    async with place.app(agent([REFUND, say("Done.")], refund([]))) as app:
        run = await app.start("teller", "refund it", by="mira")
        await app.decide(await held(run), reject("not now"), by="mira")

        (found,) = outcomes(await completed(run))
        assert found == Declined(reason="not now", by="mira")


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), object(), {1: 2}])
async def test_what_cannot_be_kept_is_refused(place: Place, value: Any) -> None:
    async with place.app(agent([REFUND, say("Done.")], refund([]))) as app:
        run = await app.start("teller", "refund it", by="mira")
        hold = await held(run)
        with pytest.raises(BadValue):
            await app.decide(hold, answer(value), by="mira")
        circle: list[Any] = []
        circle.append(circle)
        with pytest.raises(BadValue):
            await app.decide(hold, answer(circle), by="mira")

        assert (await app.hold(hold)).status == "open"


async def test_a_blocking_body_does_not_run_again_after_a_restart(place: Place) -> None:
    ran: list[str] = []
    teller = agent([REFUND, say("Done.")], refund(ran))
    async with place.app(teller) as app:
        run_id = (await app.start("teller", "refund it", by="mira")).id
        hold = await held(app.run(run_id))
    async with place.app(teller, work=False) as app:
        await app.decide(hold, answer({"ok": True}), by="mira")
    async with place.app(teller) as app:
        view = await completed(app.run(run_id))

        assert outcomes(view)[0].result() == {"ok": True}
        assert len(ran) == 1
        started = [one for one in await journal(app.store, run_id) if one.type == "call.started"]
        assert len(started) == 1


async def test_the_answer_goes_to_the_call_that_asked_and_every_call_has_one_outcome(
    place: Place,
) -> None:
    ran: list[str] = []
    script = [[call("refund", {"order": "1"}), call("refund", {"order": "2"})], say("Done.")]
    async with place.app(agent(script, refund(ran))) as app:
        run = await app.start("teller", "refund both", by="mira")
        holds = {hold.args["order"]: hold for hold in (await suspended(run)).holds}
        await app.decide(holds["2"], answer("two"), by="mira")
        assert [hold.id for hold in (await suspended(run)).holds] == [holds["1"].id]
        await app.decide(holds["1"], answer("one"), by="mira")
        view = await completed(run)

        turn = next(m for m in view.messages if isinstance(m, AssistantMessage))
        told = [m for m in view.messages if isinstance(m, ToolMessage)]
        assert [m.call_id for m in told] == [f"{run.id}.{c.ref}" for c in turn.calls]
        assert [m.outcome.result() for m in told] == ["one", "two"]
        assert len(ran) == 2


async def test_a_service_reports_what_it_is_named_for_and_nothing_else(place: Place) -> None:
    @tool(approval=True)
    async def pay() -> None: ...

    script = [[REFUND, call("pay"), call("who")], say("Done.")]

    @tool(blocking=True, asks="Who?")
    async def who() -> None: ...

    tools = (refund([], approvers=[service("ci")]), pay, who)
    async with place.app(agent(script, *tools)) as app:
        run = await app.start("teller", "refund it", by="mira")
        holds = {hold.tool: hold for hold in (await suspended(run)).holds}
        assert set(holds) == {"refund", "pay", "who"}
        for one in (OTHER, BOT, "mira", "ci", Principal(kind="agent", id="ci")):
            with pytest.raises(NotAllowed):
                await app.decide(holds["refund"], answer(1), by=one)
        for verdict, name in ((approve(), "pay"), (reject(), "pay"), (answer("x"), "who")):
            with pytest.raises(NotAllowed):
                await app.decide(holds[name], verdict, by=CI)

        assert [hold.id for hold in await app.holds(by=CI)] == [holds["refund"].id]
        assert not list(await app.holds(by=OTHER))
        assert {hold.tool for hold in await app.holds(by="mira")} == {"pay", "who"}
        assert not list(await app.holds(by="ci"))
        await app.decide(holds["refund"], answer({"build": "green"}), by=CI)
        await app.decide(holds["pay"], reject(), by="mira")
        await app.decide(holds["who"], answer("me"), by="mira")
        assert outcomes(await completed(run))[0].result() == {"build": "green"}


def test_a_service_never_approves_and_never_answers_a_question() -> None:
    async def fn() -> None: ...

    with pytest.raises(BadPolicy):
        tool(approval=True, approvers=[service("ci")])(fn)
    with pytest.raises(BadPolicy):
        tool(blocking=True, asks="Who?", approvers=[service("ci")])(fn)
    with pytest.raises(BadPolicy):
        Rule("pay", approvers=[service("ci")])


async def test_a_service_that_started_a_run_does_not_approve_its_own_calls(place: Place) -> None:
    @tool(approval=True)
    async def pay() -> None: ...

    async with place.app(agent([call("pay"), say("Done.")], pay)) as app:
        run = await app.start("teller", "pay", by=CI)
        hold = await held(run)
        for one in (CI, "ci"):
            with pytest.raises(NotAllowed):
                await app.decide(hold, approve(), by=one)
            assert not list(await app.holds(by=one))


async def test_any_body_may_wait_for_something_outside(place: Place) -> None:
    ran: list[int] = []

    @tool
    async def deploy(ctx: Context, build: int) -> Any:
        ran.append(build)
        if build < 10:
            return "small: done at once"
        return ctx.suspend(
            reason="waits for the pipeline",
            metadata={"build": build},
            approvers=[service("ci"), user("mira")],
        )

    script = [
        [call("deploy", {"build": 1}), call("deploy", {"build": 12})],
        say("Done."),
    ]
    async with place.app(agent(script, deploy)) as app:
        run = await app.start("teller", "deploy", by="mira")
        hold = await held(run)
        assert (hold.title, hold.metadata) == ("waits for the pipeline", {"build": 12})
        await app.decide(hold, answer("green"), by=CI)

        found = [one.result() for one in outcomes(await completed(run))]
        assert found == ["small: done at once", "green"]
        assert sorted(ran) == [1, 12]


async def test_metadata_that_cannot_be_kept_is_the_calls_error(place: Place) -> None:
    @tool
    async def deploy(ctx: Context) -> Any:
        return ctx.suspend(metadata=object())

    async with place.app(agent([call("deploy"), say("Done.")], deploy)) as app:
        view = await completed(await app.start("teller", "deploy", by="mira"))

        (found,) = outcomes(view)
        assert (type(found), found.error) == (Failed, "BadValue")


async def test_a_body_that_fails_before_it_asks_asks_nobody(place: Place) -> None:
    @tool(blocking=True)
    async def deploy() -> None:
        raise ValueError("no such build")

    async with place.app(agent([call("deploy"), say("Done.")], deploy)) as app:
        view = await completed(await app.start("teller", "deploy", by="mira"))

        assert outcomes(view) == [Failed(error="ValueError", message="no such build")]


@pytest.mark.parametrize("verdict", [answer("ok"), reject("no"), fail("broken")])
async def test_a_gated_blocking_call_is_approved_first_and_answered_after(
    place: Place, verdict: Any
) -> None:
    ran: list[str] = []
    async with place.app(agent([REFUND, say("Done.")], refund(ran, approval=True))) as app:
        run = await app.start("teller", "refund it", by="mira")
        first = await held(run)
        assert (first.kind, ran) == ("approval", [])
        with pytest.raises(WrongVerdict):
            await app.decide(first, answer("early"), by="mira")
        await app.decide(first, approve(), by="mira")
        second = await held(run)
        assert (second.kind, len(ran)) == ("external", 1)
        with pytest.raises(AlreadyDecided):
            await app.decide(first, reject(), by="mira")
        with pytest.raises(WrongVerdict):
            await app.decide(second, approve(), by="mira")
        await app.decide(second, verdict, by="mira")

        (found,) = outcomes(await completed(run))
        assert type(found) in (Returned, Declined, Failed)
        assert len(ran) == 1


async def test_a_gated_blocking_call_that_is_rejected_prepares_nothing(place: Place) -> None:
    ran: list[str] = []
    policy = Policy(Rule("refund"))
    async with place.app(agent([REFUND, say("Done.")], refund(ran)), policy=policy) as app:
        run = await app.start("teller", "refund it", by="mira")
        await app.decide(await held(run), reject("no"), by="mira")

        assert outcomes(await completed(run)) == [Declined(reason="no", by="mira")]
        assert ran == []


def local(**options: Any) -> Any:
    @tool(name="open_file", client=True, **options)
    async def open_file(path: str) -> str:
        raise AssertionError("the caller runs it")

    return open_file


OPEN = call("open_file", {"path": "/tmp/x"})


@pytest.mark.parametrize("by", ["mira", CI])
async def test_whoever_started_the_run_executes_a_client_tool(place: Place, by: Any) -> None:
    async with place.app(agent([OPEN, say("Done.")], local())) as app:
        run = await app.start("teller", "open it", by=by)
        hold = await held(run)
        assert (hold.kind, hold.args) == ("external", {"path": "/tmp/x"})
        for stranger in (OTHER, "bob", BOT, "ci" if by is CI else "ann"):
            with pytest.raises(NotAllowed):
                await app.decide(hold, answer("evil"), by=stranger)
        await app.decide(hold, answer("the content"), by=by)

        assert outcomes(await completed(run))[0].result() == "the content"


async def test_all_client_calls_of_a_turn_are_handed_out_and_each_gets_its_result(
    place: Place,
) -> None:
    script = [[call("open_file", {"path": str(n)}) for n in range(4)], say("Done.")]
    async with place.app(agent(script, local())) as app:
        run = await app.start("teller", "open them", by="mira")
        holds = (await suspended(run)).holds
        assert [hold.args["path"] for hold in holds] == ["0", "1", "2", "3"]
        for hold in reversed(holds):
            verdict = fail("gone") if hold.args["path"] == "2" else answer(hold.args["path"])
            await app.decide(hold, verdict, by="mira")

        zero, one, two, three = outcomes(await completed(run))
        assert [zero.result(), one.result(), three.result()] == ["0", "1", "3"]
        assert two == Failed(error="Errored", message="gone")


async def test_a_client_tool_may_be_gated(place: Place) -> None:
    async with place.app(agent([OPEN, say("Done.")], local(approval=True))) as app:
        run = await app.start("teller", "open it", by="mira")
        first = await held(run)
        assert first.kind == "approval"
        await app.decide(first, approve(args={"path": "/tmp/y"}), by="mira")
        second = await held(run)
        assert (second.kind, second.args) == ("external", {"path": "/tmp/y"})
        await app.decide(second, answer("y"), by="mira")

        assert outcomes(await completed(run))[0].result() == "y"


async def test_a_client_call_with_wrong_arguments_is_handed_to_nobody(place: Place) -> None:
    script = [call("open_file", {"path": 3}), say("Done.")]
    async with place.app(agent(script, local())) as app:
        view = await completed(await app.start("teller", "open it", by="mira"))

        (found,) = outcomes(view)
        assert (type(found), found.error) == (Failed, "BadArguments")
        assert not list(await app.holds(status="any"))


async def test_nobody_answers_in_time(place: Place) -> None:
    async with place.app(agent([REFUND, say("Done.")], refund([], within="1h"))) as app:
        run = await app.start("teller", "refund it", by="mira")
        await held(run)
        place.clock.advance("61m")
        await app.sweep()

        assert outcomes(await completed(run)) == [Declined(reason="nobody decided in time")]


async def test_cancelling_takes_back_what_was_asked(place: Place) -> None:
    ran: list[str] = []
    async with place.app(agent([REFUND, say("Done.")], refund(ran))) as app:
        run = await app.start("teller", "refund it", by="mira")
        hold = await held(run)
        await app.cancel(run, by="mira")
        view = await finished(run)

        assert view.status == "cancelled"
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(hold, answer("late"), by="mira")
        assert refused.value.decision.word == "withdrawn"
        assert len(ran) == 1


async def test_a_blocking_question_is_validated_like_any(place: Place) -> None:
    asks = question("Refund how much?", kind="number", number_min=0)
    async with place.app(agent([REFUND, say("Done.")], refund([], asks=asks))) as app:
        run = await app.start("teller", "refund it", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title) == ("question", "Refund how much?")
        await app.decide(hold, answer(12.5), by="mira")

        assert outcomes(await completed(run))[0].result() == 12.5
        assert await entries(app.store)
