"""Seed 2, teal-agents, "Phase 3: Human-in-the-Loop": what the document asks for, what the finished
system did, and what went wrong in it.

The setting that honours it: `Agent(resolve="together", on_reject="cancel")` with
`check_for_intervention`. Its tasks are our runs, its `request_id` is ours, "Paused" is `suspended`,
"Canceled" is `cancelled`. Its plan held every call of the turn (`siblings="hold"`), its code ran
those without risk first (`siblings="run"`); both are tried.

Kept by the server's own tests: the URLs in the payload, that one URL works as given, the status
codes (404, 403, 409), the streamed resume, and that a stranger cannot tell "not mine" from "not
there".
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import (
    Context,
    Declined,
    Failed,
    HoldView,
    Returned,
    RunView,
    ToolMessage,
    answer,
    approve,
    ask_user,
    reject,
    tool,
)
from sayso.errors import (
    AlreadyDecided,
    NotAllowed,
    NotWhatWasShown,
    RunWaiting,
    UnknownHold,
    WrongVerdict,
)
from sayso.testing import call, say
from tests.engine.judge import judge
from tests.engine.kit import (
    Delegate,
    Place,
    agent,
    completed,
    finished,
    held,
    journal,
    suspended,
    tags,
    types,
)

HIGH_RISK = {"transfer", "shut_down"}
TURN = [
    call("look_up", {"name": "Jiro"}),
    call("transfer", {"to": "Jiro", "amount": 200}),
    call("transfer", {"to": "Hana", "amount": 300}),
    call("shut_down"),
]
SCRIPT = [TURN, say("All done.")]
SIBLINGS = pytest.mark.parametrize("siblings", ["run", "hold"])


def is_risky(facts: Any) -> bool:
    """What their placeholder is for."""
    return facts.tool in HIGH_RISK


class Teal:
    """Their agent: three tools, of which two are risky, and a turn that uses all of them."""

    def __init__(self, place: Place, script: Any = SCRIPT, *, breaks: str = "", **options: Any):
        self.world = place.world

        @tool(effect="once")
        async def look_up(ctx: Context, name: str) -> str:
            self.world.act(ctx, {"name": name})
            return f"{name} is known"

        @tool(effect="once")
        async def transfer(ctx: Context, to: str, amount: int) -> dict[str, Any]:
            if to == breaks:
                raise ValueError(f"no account of {to}")
            self.world.act(ctx, {"to": to, "amount": amount})
            return {"to": to, "amount": amount}

        @tool(effect="once")
        async def shut_down(ctx: Context) -> str:
            self.world.act(ctx, {})
            return "down"

        options.setdefault("check_for_intervention", is_risky)
        self.agent = agent(
            script,
            look_up,
            transfer,
            shut_down,
            name="teal",
            **{"resolve": "together", "siblings": "hold", "on_reject": "cancel", **options},
        )

    @property
    def ran(self) -> list[str]:
        return sorted(key.split(".", 1)[1] for key in self.world.effects())


def outcomes(view: RunView) -> list[Any]:
    return [message.outcome for message in view.messages if isinstance(message, ToolMessage)]


# The resulting flow.


async def test_flow_1_the_calls_are_saved_so_that_they_can_be_resumed(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        holds = (await suspended(run)).holds
        entries = await journal(app.store, run.id)
        turn = next(one.event for one in entries if one.type == "turn.taken")

        assert [one.tool for one in turn.calls] == ["look_up", "transfer", "transfer", "shut_down"]
    # A process that has nothing but the store goes on from there.
    async with place.app(Teal(place).agent) as app:
        await app.resume(holds[0].request_id, approve(), by="mira")
        await completed(app.run(run.id))

        assert teal.ran == ["1.0", "1.1", "1.2", "1.3"]


async def test_flow_2_the_task_is_paused_and_no_risky_call_runs(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        view = await suspended(run)
        await app.sweep()

        assert (await run.view()).seq == view.seq
        assert teal.ran == []


async def test_flow_3_the_payload_names_every_call_and_the_request(place: Place) -> None:
    async with place.app(Teal(place).agent) as app:
        run = await app.start("teal", "go", by="mira")
        holds = (await suspended(run)).holds

        assert [(hold.tool, hold.args) for hold in holds] == [
            ("transfer", {"to": "Jiro", "amount": 200}),
            ("transfer", {"to": "Hana", "amount": 300}),
            ("shut_down", {}),
        ]
        assert len({hold.request_id for hold in holds}) == 1
        assert all(hold.request_id.startswith("req_") for hold in holds)


@SIBLINGS
async def test_approved_the_task_goes_on_from_the_calls(place: Place, siblings: str) -> None:
    teal = Teal(place, siblings=siblings)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        await app.resume(hold.request_id, approve(), by="mira")
        view = await completed(run)

        assert view.output == "All done."
        assert [type(one) for one in outcomes(view)] == [Returned] * 4
        await judge(app.store, place.world, tuple(HIGH_RISK))


@SIBLINGS
async def test_rejected_the_task_is_cancelled_and_says_so(place: Place, siblings: str) -> None:
    teal = Teal(place, siblings=siblings)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        told = await app.resume(hold.request_id, reject("not today"), by="mira")
        view = await finished(run)

        assert view.status == "cancelled"
        assert teal.ran == (["1.0"] if siblings == "run" else [])
        assert told[0].decision is not None
        assert told[0].decision.word == "rejected"
        assert not list(await app.holds())


@pytest.mark.parametrize("verdict", [approve(), reject("no")])
async def test_decisions_are_recorded(place: Place, verdict: Any) -> None:
    async with place.app(Teal(place).agent) as app:
        run = await app.start("teal", "go", by="mira")
        holds = (await suspended(run)).holds
        await app.resume(holds[0].request_id, verdict, by="mira")
        await finished(run)

        settled = [
            one.event for one in await journal(app.store, run.id) if one.type == "hold.settled"
        ]
        own = [one.decision for one in settled if one.decision.word in ("approved", "rejected")]
        assert len(own) == 3
        assert {(one.by.id, one.digest) for one in own} == {("mira", h.digest) for h in holds}


# Non-functional requirements.


async def test_one_way_to_resume_serves_every_kind_of_ask(place: Place) -> None:
    @tool(blocking=True)
    async def report() -> dict[str, str]:
        return {"where": "there"}

    script = [
        call("ask_user", {"question": "Who?"}),
        call("report"),
        call("shut_down"),
        say("All done."),
    ]
    teal = Teal(place, script)
    tools = [ask_user(), report, *teal.agent.tools.values()]
    mixed = agent(script, *tools, name="teal", check_for_intervention=is_risky)
    async with place.app(mixed) as app:
        run = await app.start("teal", "go", by="mira")
        for kind, verdict in (
            ("question", answer("Jiro")),
            ("external", answer({"any": ["json"]})),
            ("approval", approve()),
        ):
            hold = await held(run)
            assert hold.kind == kind
            await app.resume(hold.request_id, verdict, by="mira")

        assert (await completed(run)).output == "All done."


async def test_the_request_id_alone_names_the_task(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        one = await app.start("teal", "go", by="mira")
        two = await app.start("teal", "go", by="mira", thread="another session")
        first = (await suspended(one)).holds[0].request_id
        second = (await suspended(two)).holds[0].request_id
        await app.resume(second, approve(), by="mira")
        await completed(two)

        assert first != second
        assert (await one.view()).status == "suspended"


async def test_only_whoever_started_the_task_resumes_it(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        before = await types(app, run)
        for verdict in (approve(), reject()):
            with pytest.raises(NotAllowed):
                await app.resume(request, verdict, by="bob")

        assert (teal.ran, await types(app, run)) == ([], before)


@pytest.mark.parametrize("where", ["agent", "app"])
async def test_what_is_risky_is_for_the_check_to_say(place: Place, where: str) -> None:
    asked: list[tuple[str, Any]] = []

    async def check(facts: Any) -> bool:
        asked.append((facts.tool, facts.args))
        return facts.tool == "transfer" and facts.args["amount"] > 250

    teal = Teal(place, check_for_intervention=check if where == "agent" else None)
    options = {"check_for_intervention": check} if where == "app" else {}
    async with place.app(teal.agent, **options) as app:
        run = await app.start("teal", "go", by="mira")
        hold = await held(run)

        assert hold.args == {"to": "Hana", "amount": 300}
        assert [name for name, _ in asked] == ["look_up", "transfer", "transfer", "shut_down"]


async def test_the_payload_is_a_model_of_its_own(place: Place) -> None:
    async with place.app(Teal(place, [say("Nothing to do.")]).agent) as app:
        view = await completed(await app.start("teal", "go", by="mira"))

        assert (view.holds, view.output) == ((), "Nothing to do.")
        assert not set(HoldView.__struct_fields__) <= set(RunView.__struct_fields__)


@SIBLINGS
async def test_no_part_of_a_request_is_decided(place: Place, siblings: str) -> None:
    teal = Teal(place, siblings=siblings)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        holds = (await suspended(run)).holds
        before, ran = (await run.view()).seq, teal.ran
        for hold in holds:
            for verdict in (approve(), reject("no")):
                with pytest.raises(WrongVerdict):
                    await app.decide(hold, verdict, by="mira")

        assert ((await run.view()).seq, teal.ran) == (before, ran)
        assert {hold.status for hold in (await run.view()).holds} == {"open"}


# What the finished system did.


async def test_a_task_may_be_paused_again(place: Place) -> None:
    script = [TURN[1], TURN[2], TURN[3], say("All done.")]
    teal = Teal(place, script)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        seen: set[str] = set()
        for _ in range(3):
            hold = await held(run)
            seen.add(hold.request_id)
            await app.resume(hold.request_id, approve(), by="mira")

        assert (await completed(run)).output == "All done."
        assert len(seen) == 3
        assert teal.ran == ["1.0", "2.0", "3.0"]


async def test_siblings_without_risk_run_first_and_never_again(place: Place) -> None:
    teal = Teal(place, siblings="run")
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        assert teal.ran == ["1.0"]
        await app.resume(hold.request_id, approve(), by="mira")
        await completed(run)

        assert teal.ran == ["1.0", "1.1", "1.2", "1.3"]


async def test_planned_errors_are_typed(place: Place) -> None:
    async with place.app(Teal(place).agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        with pytest.raises(UnknownHold):
            await app.resume(request.rpartition(".")[0] + ".99", approve(), by="mira")
        with pytest.raises(NotAllowed):
            await app.resume(request, approve(), by="bob")
        await app.resume(request, approve(), by="mira")
        await completed(run)
        with pytest.raises(AlreadyDecided) as refused:
            await app.resume(request, approve(), by="mira")

        assert refused.value.decision.word == "approved"


async def test_where_all_is_risky_by_default_what_reads_only_is_let_through(place: Place) -> None:
    teal = Teal(place, check_for_intervention=lambda facts: facts.tool != "look_up")
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")

        assert len((await suspended(run)).holds) == 3


# What went wrong.


@pytest.mark.parametrize("count", [1, 2, 7])
async def test_every_approved_call_runs_once_and_not_only_the_last(
    place: Place, count: int
) -> None:
    turn = [call("transfer", {"to": f"p{n}", "amount": n}) for n in range(count)]
    teal = Teal(place, [turn, say("All done.")])
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        await app.resume(hold.request_id, approve(), by="mira")
        view = await completed(run)

        assert teal.ran == sorted(f"1.{n}" for n in range(count))
        told = [m for m in view.messages if isinstance(m, ToolMessage)]
        assert [m.call_id for m in told] == [f"{run.id}.1.{n}" for n in range(count)]
        assert [m.outcome.result()["amount"] for m in told] == list(range(count))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "action", ["aprove", "", None, True, {"action": "approve"}, answer("approve")]
)
async def test_an_unknown_action_executes_nothing(place: Place, action: Any) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        before = await types(app, run)
        with pytest.raises(WrongVerdict):
            await app.resume(request, action, by="mira")

        assert (teal.ran, await types(app, run)) == ([], before)


@pytest.mark.parametrize("args", ["{}", "", "null", None])
async def test_a_call_without_arguments_is_held_and_runs(place: Place, args: Any) -> None:
    teal = Teal(place, [call("shut_down", args), say("All done.")])
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = await held(run)
        assert hold.args == {}
        await app.resume(hold.request_id, approve(), by="mira")
        await completed(run)

        assert teal.ran == ["1.0"]


async def test_every_handler_finds_the_task(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as worker, place.app(teal.agent, work=False) as front:
        run = await worker.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        await front.resume(request, approve(), by="mira")

        assert (await completed(run)).output == "All done."


@pytest.mark.parametrize("count", [2, 9])
async def test_of_many_approvals_one_counts_and_the_calls_run_once(
    place: Place, count: int
) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        found = await asyncio.gather(
            *[app.resume(request, approve(), by="mira") for _ in range(count)],
            return_exceptions=True,
        )
        await completed(run)

        refused = [one for one in found if isinstance(one, BaseException)]
        assert [type(one) for one in refused] == [AlreadyDecided] * (count - 1)
        assert teal.ran == ["1.0", "1.1", "1.2", "1.3"]


async def test_approve_and_reject_at_once_is_one_of_both(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        found = await asyncio.gather(
            app.resume(request, approve(), by="mira"),
            app.resume(request, reject("no"), by="mira"),
            return_exceptions=True,
        )
        view = await finished(run)

        assert sum(isinstance(one, AlreadyDecided) for one in found) == 1
        assert len(teal.ran) == (4 if view.status == "completed" else 0)


async def test_what_is_shown_is_a_copy(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        hold.args["amount"] = 10_000
        assert (await app.hold(hold.id)).args["amount"] == 200
        await app.resume(hold.request_id, approve(), by="mira")
        view = await completed(run)

        assert outcomes(view)[1].result()["amount"] == 200


async def test_a_crash_after_the_decision_loses_nothing(place: Place) -> None:
    teal = Teal(place)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
    async with place.app(teal.agent, work=False) as app:
        await app.resume(request, approve(), by="mira")
        assert (await app.run(run.id).view()).status == "running"
        assert teal.ran == []
    async with place.app(teal.agent) as app:
        await completed(app.run(run.id))

        assert teal.ran == ["1.0", "1.1", "1.2", "1.3"]


async def test_a_call_that_fails_takes_nothing_away_from_the_others(place: Place) -> None:
    teal = Teal(place, breaks="Jiro")
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        await app.resume(hold.request_id, approve(), by="mira")
        view = await completed(run)

        assert teal.ran == ["1.0", "1.2", "1.3"]
        assert [type(one) for one in outcomes(view)] == [Returned, Failed, Returned, Returned]


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_every_end_is_a_status(place: Place, end: str) -> None:
    last: Any = ValueError("no idea") if end == "failed" else say("All done.")
    teal = Teal(place, lambda messages: _turn(messages, last))
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        verdict = reject("no") if end == "cancelled" else approve()
        await app.resume(hold.request_id, verdict, by="mira")

        assert (await finished(run)).status == end


def _turn(messages: Any, last: Any) -> Any:
    if len(messages) == 1:
        return TURN
    if isinstance(last, Exception):
        raise last
    return last


async def test_who_may_not_decide_is_not_told_what_was_decided(place: Place) -> None:
    async with place.app(Teal(place).agent) as app:
        run = await app.start("teal", "go", by="mira")
        request = (await suspended(run)).holds[0].request_id
        await app.resume(request, approve(), by="mira")
        await completed(run)
        with pytest.raises(NotAllowed) as refused:
            await app.resume(request, approve(), by="bob")

        assert not hasattr(refused.value, "decision")


def broken(facts: Any) -> Any:
    raise RuntimeError(f"no catalog entry for {facts.tool}")


@pytest.mark.parametrize("check", [broken, lambda facts: None, lambda facts: "no", lambda facts: 1])
async def test_a_check_that_does_not_know_asks_a_person(place: Place, check: Any) -> None:
    teal = Teal(place, check_for_intervention=check)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")

        assert len((await suspended(run)).holds) == 4
        assert teal.ran == []


async def test_an_unknown_tool_is_not_executed(place: Place) -> None:
    teal = Teal(place, [call("transfer_all", {}), say("All done.")])
    async with place.app(teal.agent) as app:
        (found,) = outcomes(await completed(await app.start("teal", "go", by="mira")))

        assert (type(found), found.error) == (Failed, "UnknownTool")


class Refusing(Delegate):
    """A store that takes no holds."""

    def append(self, *writes: Any) -> Any:
        if "hold.opened" in tags(writes):
            raise OSError("disk on fire")
        return self.inner.append(*writes)


async def test_what_cannot_be_asked_is_not_executed(place: Place) -> None:
    teal = Teal(place, siblings="run")
    async with place.app(teal.agent, wrap=Refusing) as app:
        run = await app.start("teal", "go", by="mira")
        await run.wait(timeout=20)

        assert teal.ran == []


async def test_a_request_is_found_by_its_id_and_not_by_its_place(place: Place) -> None:
    teal = Teal(place, [TURN[1], TURN[2], say("All done.")])
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        first = await held(run)
        await app.resume(first.request_id, approve(), by="mira")
        second = await held(run)
        with pytest.raises(AlreadyDecided):
            await app.resume(first.request_id, reject("the first"), by="mira")
        with pytest.raises(NotWhatWasShown):
            await app.decide(second.id, approve(), by="mira", digest=first.digest)

        assert (await app.hold(second)).status == "open"
        assert teal.ran == ["1.0"]


async def test_a_second_message_to_a_task_is_defined(place: Place) -> None:
    teal = Teal(place, lambda messages: say("Again.") if len(messages) > 1 else TURN)
    async with place.app(teal.agent) as app:
        run = await app.start("teal", "go", by="mira")
        await suspended(run)
        with pytest.raises(RunWaiting):
            await app.say(run, "hello?", by="mira")
        await app.say(run, "never mind", by="mira", supersede=True)
        view = await completed(run)
        assert {type(one) for one in outcomes(view)} == {Returned, Declined}
        nxt = await app.say(run, "and now?", by="mira")

        assert (await completed(nxt)).output == "Again."
