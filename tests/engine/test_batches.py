"""Several calls in one turn: how they are decided, and what the others do meanwhile.

Method: a turn with two risky calls and two harmless ones, once for each of the seven combinations,
set for the agent or by a rule. What ran is counted outside, at every moment that matters.
"""

from __future__ import annotations

from typing import Any

import pytest

from sayso import (
    Context,
    Declined,
    NotAnswered,
    Policy,
    Returned,
    Rule,
    ToolMessage,
    answer,
    approve,
    ask_user,
    fail,
    reject,
    tool,
    user,
)
from sayso.domain.message import AssistantMessage
from sayso.domain.ruling import BATCHES
from sayso.errors import (
    AlreadyDecided,
    BadAgent,
    BadPolicy,
    HoldExpired,
    NotAllowed,
    NotWhatWasShown,
    UnknownHold,
    WrongVerdict,
)
from sayso.testing import call, say

from .judge import judge
from .kit import Place, World, agent, completed, finished, held, journal, suspended, types, until

TURN = [
    call("look", {"n": 0}),
    call("pay", {"n": 1}),
    call("look", {"n": 2}),
    call("pay", {"n": 3}),
    call("look", {"n": 4}),
]
SCRIPT = [TURN, say("Done.")]


def tools(world: World, **options: Any) -> tuple[Any, Any]:
    @tool(effect="once")
    async def look(ctx: Context, n: int) -> int:
        world.act(ctx, {"n": n})
        return n

    @tool(approval=True, effect="once", **options)
    async def pay(ctx: Context, n: int) -> int:
        world.act(ctx, {"n": n})
        return n

    return look, pay


def batch(place: Place, how: str, resolve: str, siblings: str, **options: Any) -> Any:
    """The options of an app whose turns are decided so, by its agent or by a rule."""
    if how == "agent":
        teller = agent(SCRIPT, *tools(place.world), resolve=resolve, siblings=siblings, **options)
        return place.app(teller)
    teller = agent(SCRIPT, *tools(place.world), **options)
    return place.app(teller, policy=Policy(Rule("pay", resolve=resolve, siblings=siblings)))


def ran(place: Place) -> list[str]:
    """The calls that have had their effect, by their place in the turn."""
    return sorted(key.rpartition(".")[2] for key in place.world.effects())


def outcomes(view: Any) -> list[Any]:
    return [message.outcome for message in view.messages if isinstance(message, ToolMessage)]


def check_answered(view: Any) -> None:
    """Every call of every turn has exactly one outcome, in order, right after its turn."""
    expected: list[str] = []
    for message in view.messages:
        if isinstance(message, ToolMessage):
            assert message.call_id.endswith(expected.pop(0))
        else:
            assert not expected, "a turn before the outcomes of the one before"
        if isinstance(message, AssistantMessage):
            expected = [one.ref for one in message.calls]
    assert not expected


HOW = pytest.mark.parametrize("how", ["agent", "rule"])


@HOW
async def test_each_run_siblings_go_on_and_each_is_decided_alone(place: Place, how: str) -> None:
    async with batch(place, how, "each", "run") as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        assert one.request_id == three.request_id
        assert ran(place) == ["0", "2", "4"]
        await app.decide(three, reject("no"), by="mira")
        assert [hold.id for hold in (await suspended(run)).holds] == [one.id]
        assert ran(place) == ["0", "2", "4"]
        await app.decide(one, approve(), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "1", "2", "4"]
        assert outcomes(view)[3] == Declined(reason="no", by="mira")
        check_answered(view)
        await judge(app.store, place.world, ("pay",))


@HOW
async def test_each_halt_the_first_that_asks_stops_the_turn(place: Place, how: str) -> None:
    async with batch(place, how, "each", "halt") as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert hold.args == {"n": 1}
        assert ran(place) == ["0"]
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "1"]
        found = outcomes(view)
        assert [type(one) for one in found] == [Returned, Returned, Declined, Declined, Declined]
        assert "not executed: pay" in found[2].reason
        check_answered(view)
        await judge(app.store, place.world, ("pay",))


async def test_halt_stops_at_a_body_that_asks_too(place: Place) -> None:
    ran_: list[int] = []

    @tool
    async def look(ctx: Context, n: int) -> Any:
        ran_.append(n)
        return ctx.suspend(metadata={"n": n}) if n == 1 else n

    script = [[call("look", {"n": n}) for n in range(4)], say("Done.")]
    async with place.app(agent(script, look, siblings="halt")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert (hold.metadata, ran_) == ({"n": 1}, [0, 1])
        await app.decide(hold, answer("one"), by="mira")
        view = await completed(run)

        assert ran_ == [0, 1]
        assert [type(one) for one in outcomes(view)] == [Returned, Returned, Declined, Declined]
        check_answered(view)


async def test_calls_that_may_be_halted_run_one_after_another(place: Place) -> None:
    log: list[str] = []

    @tool
    async def look(n: int) -> None:
        log.append(f"in {n}")
        await until(lambda: True)
        log.append(f"out {n}")

    script = [[call("look", {"n": n}) for n in range(3)], say("Done.")]
    async with place.app(agent(script, look, siblings="halt")) as app:
        await completed(await app.start("teller", "go", by="mira"))

        assert log == ["in 0", "out 0", "in 1", "out 1", "in 2", "out 2"]


@HOW
async def test_each_hold_nothing_runs_before_all_is_decided(place: Place, how: str) -> None:
    async with batch(place, how, "each", "hold") as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        assert ran(place) == []
        await app.decide(one, approve(), by="mira")
        await suspended(run)
        assert ran(place) == []
        await app.decide(three, reject("no"), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "1", "2", "4"]
        check_answered(view)
        await judge(app.store, place.world, ("pay",))


@HOW
async def test_each_in_order_one_is_asked_after_the_other(place: Place, how: str) -> None:
    async with batch(place, how, "each", "in_order") as app:
        run = await app.start("teller", "go", by="mira")
        one = await held(run)
        assert (one.args, ran(place)) == ({"n": 1}, ["0"])
        await app.decide(one, approve(), by="mira")
        await until(lambda: ran(place) == ["0", "1", "2"])
        three = await held(run)
        assert three.args == {"n": 3}
        assert three.request_id != one.request_id
        await app.decide(three, reject("no"), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "1", "2", "4"]
        check_answered(view)
        await judge(app.store, place.world, ("pay",))


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
async def test_in_order_every_mix_of_yes_and_no(place: Place, *, first: bool, second: bool) -> None:
    async with batch(place, "agent", "each", "in_order") as app:
        run = await app.start("teller", "go", by="mira")
        for yes in (first, second):
            await app.decide(await held(run), approve() if yes else reject("no"), by="mira")
        view = await completed(run)

        paid = [n for n, yes in (("1", first), ("3", second)) if yes]
        assert [n for n in ran(place) if n in "13"] == paid
        kinds = [type(one) for one in outcomes(view)]
        assert kinds[1] is (Returned if first else Declined)
        assert kinds[3] is (Returned if second else Declined)


async def test_in_order_a_call_that_was_just_refused_is_not_asked_again(place: Place) -> None:
    script = [[call("pay", {"n": 1}), call("pay", {"n": 1}), call("pay", {"n": 2})], say("Done.")]
    teller = agent(script, *tools(place.world), siblings="in_order")
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), reject("no"), by="mira")
        second = await held(run)

        assert second.args == {"n": 2}


@pytest.mark.parametrize("siblings", ["in_order", "halt"])
async def test_a_call_that_repeats_one_that_came_in_doubt_before_it_is_asked_about(
    place: Place, siblings: str
) -> None:
    @tool(effect="once")
    async def charge(ctx: Context, n: int) -> int:
        place.world.act(ctx, {"n": n})
        raise TimeoutError

    script = [[call("charge", {"n": 1}), call("charge", {"n": 1})], say("Done.")]
    async with place.app(agent(script, charge, siblings=siblings)) as app:
        run = await app.start("teller", "go", by="mira")
        doubt = await held(run)
        await app.decide(doubt, fail("nobody knows"), by="mira")
        repeat = await held(run)

        assert (repeat.kind, repeat.duplicate_of) == ("approval", doubt.call_id)
        assert place.world.effects() == [doubt.call_id]


async def test_a_call_in_order_that_repeats_one_in_doubt_is_asked_about(place: Place) -> None:
    @tool(effect="once")
    async def charge(ctx: Context, n: int) -> int:
        place.world.act(ctx, {"n": n})
        raise TimeoutError

    look, _ = tools(place.world)
    script = [
        call("charge", {"n": 1}),
        [call("look", {"n": 0}), call("charge", {"n": 1})],
        say("Done."),
    ]
    async with place.app(agent(script, charge, look, siblings="in_order")) as app:
        run = await app.start("teller", "go", by="mira")
        doubt = await held(run)
        await app.decide(doubt, fail("nobody knows"), by="mira")
        repeat = await held(run)

        assert (repeat.kind, repeat.duplicate_of) == ("approval", doubt.call_id)
        assert len(place.world.effects(doubt.call_id)) == 1


@HOW
@pytest.mark.parametrize("siblings", ["run", "hold"])
async def test_together_all_or_nothing(place: Place, how: str, siblings: str) -> None:
    free = ["0", "2", "4"] if siblings == "run" else []
    async with batch(place, how, "together", siblings) as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        before = (await run.view()).seq
        assert one.together
        assert three.together
        assert ran(place) == free
        for hold in (one, three):
            for verdict in (approve(), reject("no")):
                with pytest.raises(WrongVerdict, match=one.request_id):
                    await app.decide(hold, verdict, by="mira")
        assert (await run.view()).seq == before

        settled = await app.resume(one.request_id, approve(), by="mira")
        view = await completed(run)

        assert [hold.status for hold in settled] == ["settled", "settled"]
        assert ran(place) == ["0", "1", "2", "3", "4"]
        check_answered(view)
        with pytest.raises(AlreadyDecided):
            await app.resume(one.request_id, reject(), by="mira")
        await judge(app.store, place.world, ("pay",))


@HOW
async def test_together_one_no_is_a_no_to_all(place: Place, how: str) -> None:
    async with batch(place, how, "together", "hold") as app:
        run = await app.start("teller", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        await app.resume(hold.request_id, reject("too much"), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "2", "4"]
        assert [type(one) for one in outcomes(view)][1::2] == [Declined, Declined]


async def test_together_nothing_is_edited(place: Place) -> None:
    async with batch(place, "agent", "together", "hold") as app:
        run = await app.start("teller", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        assert not hold.editable
        with pytest.raises(WrongVerdict):
            await app.resume(hold.request_id, approve(args={"n": 9}), by="mira")
        with pytest.raises(WrongVerdict):
            await app.decide(hold, approve(args={"n": 9}), by="mira")
        with pytest.raises(NotAllowed):
            await app.resume(hold.request_id, approve(), by="bob")
        with pytest.raises(NotWhatWasShown):
            await app.resume(hold.request_id, approve(), by="mira", digest="0" * 64)

        assert ran(place) == []
        assert len((await suspended(run)).holds) == 2


async def test_together_the_earliest_deadline_is_everybodys(place: Place) -> None:
    policy = Policy(
        Rule("pay", when=lambda facts: facts.args["n"] == 1, within="1h"),
        Rule("pay", when=lambda facts: facts.args["n"] == 3, within="5h"),
    )
    teller = agent(SCRIPT, *tools(place.world), resolve="together", siblings="hold")
    async with place.app(teller, policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        assert one.deadline == three.deadline
        place.clock.advance("1h")
        with pytest.raises(HoldExpired):
            await app.resume(one.request_id, approve(), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "2", "4"]
        assert [type(one) for one in outcomes(view)][1::2] == [Declined, Declined]


async def test_together_if_one_may_not_be_decided_by_somebody_none_is(place: Place) -> None:
    policy = Policy(
        Rule("pay", when=lambda facts: facts.args["n"] == 3, approvers=[user("bob")]),
    )
    teller = agent(SCRIPT, *tools(place.world), resolve="together", siblings="hold")
    async with place.app(teller, policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        hold = (await suspended(run)).holds[0]
        for one in ("mira", "bob"):
            with pytest.raises(NotAllowed):
                await app.resume(hold.request_id, approve(), by=one)

        assert {one.status for one in (await suspended(run)).holds} == {"open"}
        assert ran(place) == []


async def test_together_a_question_beside_is_answered_alone(place: Place) -> None:
    turn = [*TURN, call("ask_user", {"question": "Why?"})]
    teller = agent(
        [turn, say("Done.")],
        *tools(place.world),
        ask_user(),
        resolve="together",
        siblings="hold",
    )
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        holds = {hold.tool: hold for hold in (await suspended(run)).holds}
        assert not holds["ask_user"].together
        await app.resume(holds["pay"].request_id, approve(), by="mira")
        assert (await held(run)).tool == "ask_user"
        await app.decide(holds["ask_user"], answer("because"), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "1", "2", "3", "4"]
        assert outcomes(view)[5].result() == "because"


@HOW
async def test_latest_only_the_last_question_counts(place: Place, how: str) -> None:
    async with batch(place, how, "latest", "run") as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert hold.args == {"n": 3}
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        assert ran(place) == ["0", "2", "3", "4"]
        assert outcomes(view)[1] == Declined(reason="a later question counts")
        check_answered(view)
        await judge(app.store, place.world, ("pay",))


async def test_latest_a_later_question_of_a_body_withdraws_the_earlier_one(place: Place) -> None:
    second = [False]

    @tool
    async def find(ctx: Context, n: int) -> Any:
        if n == 2:
            await until(lambda: second[0])
        return ctx.suspend(f"Question {n}?")

    script = [[call("find", {"n": 1}), call("find", {"n": 2})], say("Done.")]
    async with place.app(agent(script, find, resolve="latest")) as app:
        run = await app.start("teller", "go", by="mira")
        view = await run.wait(held=True, timeout=20)
        (first,) = view.holds
        second[0] = True
        later = await held(run)
        assert later.title == "Question 2?"
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(first, answer("late"), by="mira")
        assert refused.value.decision.word == "withdrawn"
        await app.decide(later, answer("two"), by="mira")
        view = await completed(run)

        one, two = outcomes(view)
        assert isinstance(one, Declined)
        assert "superseded" in one.reason
        assert two.result() == "two"
        check_answered(view)


async def test_latest_bodies_that_ask_again_do_not_withdraw_each_other(place: Place) -> None:
    @tool(durable=True)
    async def find(ctx: Context, n: int) -> str:
        while True:
            try:
                return await ctx.ask(f"Question {n}?")
            except NotAnswered:
                continue

    script = [[call("find", {"n": 1}), call("find", {"n": 2})], say("Done.")]
    async with place.app(agent(script, find, resolve="latest")) as app:
        run = await app.start("teller", "go", by="mira")
        holds = (await suspended(run)).holds
        assert {hold.title for hold in holds} == {"Question 1?", "Question 2?"}
        for hold in holds:
            await app.decide(hold, answer(hold.title), by="mira")
        view = await completed(run)

        assert [one.result() for one in outcomes(view)] == ["Question 1?", "Question 2?"]


@pytest.mark.parametrize("common", [True, False])
async def test_together_is_for_those_who_may_decide_each(place: Place, common: bool) -> None:
    cy = [user("cy")] if common else []

    @tool(approval=True, approvers=[user("ann"), *cy])
    async def pay() -> str:
        return "paid"

    @tool(approval=True, approvers=[*cy, user("bob")])
    async def send() -> str:
        return "sent"

    script = [[call("pay"), call("send")], say("Done.")]
    async with place.app(agent(script, pay, send, resolve="together")) as app:
        run = await app.start("teller", "go", by="mira")
        one, two = (await suspended(run)).holds
        if common:
            assert one.approvers == two.approvers == ("user:cy",)
            await app.resume(one.request_id, approve(), by="cy")
        else:
            await app.decide(one, approve(), by="ann")
            await app.decide(two, approve(), by="bob")

        assert [found.result() for found in outcomes(await completed(run))] == ["paid", "sent"]


async def test_one_held_call_under_together_is_decided_like_any(place: Place) -> None:
    script = [[call("look", {"n": 0}), call("pay", {"n": 1})], say("Done.")]
    teller = agent(script, *tools(place.world), resolve="together", siblings="hold")
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert not hold.together
        await app.decide(hold, approve(args={"n": 5}), by="mira")

        assert outcomes(await completed(run))[1].result() == 5


@pytest.mark.parametrize("resolve", ["each", "together", "latest", "all", ""])
@pytest.mark.parametrize("siblings", ["run", "halt", "hold", "in_order", "skip", ""])
def test_what_cannot_work_is_refused_where_it_is_written(resolve: str, siblings: str) -> None:
    if (resolve, siblings) in BATCHES:
        assert agent([], resolve=resolve, siblings=siblings).batch == (resolve, siblings)
        Rule("pay", resolve=resolve, siblings=siblings)
        return
    with pytest.raises(BadAgent):
        agent([], resolve=resolve, siblings=siblings)
    if (resolve or "each", siblings or "run") not in BATCHES:
        with pytest.raises(BadPolicy):
            Rule("pay", resolve=resolve, siblings=siblings)


async def test_a_rule_decides_only_the_turns_in_which_it_holds_something(place: Place) -> None:
    policy = Policy(Rule("pay", when=lambda facts: facts.args["n"] > 9, siblings="hold"))
    look, _ = tools(place.world)

    @tool
    async def pay(ctx: Context, n: int) -> int:
        place.world.act(ctx, {"n": n})
        return n

    script = [TURN, [call("look", {"n": 0}), call("pay", {"n": 10})], say("Done.")]
    async with place.app(agent(script, look, pay), policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)

        assert (hold.args, len(place.world.effects())) == ({"n": 10}, 5)


@pytest.mark.parametrize("how", ["agent", "rule", "tool"])
async def test_a_no_may_end_the_run(place: Place, how: str) -> None:
    policy = Policy(Rule("pay", on_reject="cancel")) if how == "rule" else None
    options = {"on_reject": "cancel"} if how == "agent" else {}
    words = {"on_reject": "cancel"} if how == "tool" else {}
    teller = agent(SCRIPT, *tools(place.world, **words), siblings="hold", **options)
    async with place.app(teller, policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        await app.decide(one, reject("stop it"), by="mira")
        view = await finished(run)

        assert (view.status, ran(place)) == ("cancelled", [])
        assert [type(found) for found in outcomes(view)] == [Declined] * 5
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(three, approve(), by="mira")
        assert refused.value.decision.word == "withdrawn"
        await judge(app.store, place.world, ("pay",))


async def test_a_no_that_ends_the_run_still_does_after_an_edit(place: Place) -> None:
    script = [call("pay", {"n": 1}), say("Done.")]
    policy = Policy(Rule("pay", when=lambda facts: facts.args["n"] > 9, approvers=[user("bob")]))
    teller = agent(script, *tools(place.world), on_reject="cancel")
    async with place.app(teller, policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        edited = await app.decide(await held(run), approve(args={"n": 10}), by="mira")
        assert (edited.version, edited.approvers) == (2, ("user:bob",))
        await app.decide(edited, reject("never"), by="bob")

        assert (await finished(run)).status == "cancelled"


async def test_a_no_that_ends_the_run_does_so_for_one_asked_later(place: Place) -> None:
    teller = agent(SCRIPT, *tools(place.world), siblings="in_order", on_reject="cancel")
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await until(lambda: "2" in ran(place))
        await app.decide(await held(run), reject("stop"), by="mira")

        assert (await finished(run)).status == "cancelled"
        assert ran(place) == ["0", "1", "2"]


async def test_a_no_to_a_question_ends_the_run_if_the_agent_says_so(place: Place) -> None:
    script = [call("ask_user", {"question": "Who?"}), say("Done.")]
    async with place.app(agent(script, ask_user(), on_reject="cancel")) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), reject("stop"), by="mira")

        assert (await finished(run)).status == "cancelled"


async def test_a_no_to_what_a_body_asks_ends_the_run_if_the_agent_says_so(place: Place) -> None:
    @tool
    async def find(ctx: Context) -> Any:
        return ctx.suspend("Who?")

    async with place.app(agent([call("find"), say("Done.")], find, on_reject="cancel")) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), reject("stop"), by="mira")

        assert (await finished(run)).status == "cancelled"


@pytest.mark.parametrize("name", ["bonus", "count"])
async def test_a_no_to_a_command_tells_whoever_gave_it(place: Place, name: str) -> None:
    @tool(approval=True)
    async def bonus() -> None: ...

    @tool(blocking=True, asks="How many?")
    async def count() -> None: ...

    script = [call("pay", {"n": 1}), say("Done.")]
    teller = agent(script, *tools(place.world), commands=[bonus, count], on_reject="cancel")
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        given = await app.command(run, name, by="mira")
        await app.decide(given.holds[0], reject("no"), by="mira")

        assert (await run.view()).status == "suspended"


def test_an_agent_says_what_a_no_does_or_is_refused() -> None:
    with pytest.raises(BadAgent, match="on_reject"):
        agent([], on_reject="retry")


async def test_a_suspension_never_grows(place: Place) -> None:
    slow = [False]

    @tool
    async def find(ctx: Context) -> Any:
        await until(lambda: slow[0])
        return ctx.suspend("Who?")

    script = [[call("pay", {"n": 1}), call("find")], say("Done.")]
    async with place.app(agent(script, *tools(place.world), find)) as app:
        run = await app.start("teller", "go", by="mira")
        (first,) = (await run.wait(held=True, timeout=20)).holds
        slow[0] = True
        pay, find_ = (await suspended(run)).holds
        assert (pay.request_id, find_.tool) == (first.request_id, "find")
        assert find_.request_id != first.request_id

        settled = await app.resume(first.request_id, approve(), by="mira")
        assert [hold.id for hold in settled] == [first.id]
        assert (await held(run)).id == find_.id
        entries = await journal(app.store, run.id)
        opened = [one.event for one in entries if one.type == "hold.opened"]
        assert [event.suspension for event in opened] == [1, 2]


@pytest.mark.parametrize("name", ["req_x.1", "req_01.1", "hold", "", None, 7])
async def test_a_request_that_is_none_is_refused(place: Place, name: Any) -> None:
    async with place.app(agent(SCRIPT, *tools(place.world))) as app:
        with pytest.raises(UnknownHold):
            await app.resume(name, approve(), by="mira")


async def test_a_request_decides_what_it_still_asks(place: Place) -> None:
    async with batch(place, "agent", "each", "run") as app:
        run = await app.start("teller", "go", by="mira")
        one, three = (await suspended(run)).holds
        await app.decide(one, reject("not this one"), by="mira")
        settled = await app.resume(one.request_id, approve(), by="mira")
        await completed(run)

        assert [hold.decision.word for hold in settled if hold.decision] == ["rejected", "approved"]
        assert ran(place) == ["0", "2", "3", "4"]
        assert three.request_id == one.request_id
        assert "run.completed" in await types(app, run)
