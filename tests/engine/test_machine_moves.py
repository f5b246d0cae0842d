"""How instances move: transitions, ceding, spawning, and what they wait for before they do."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from sayso import (
    Context,
    Declined,
    Failed,
    Instance,
    Machine,
    Policy,
    Returned,
    Rule,
    answer,
    approve,
    tool,
)
from sayso.domain.hold import Withdrawn
from sayso.errors import ModelFailed
from sayso.testing import call, say

from .kit import Place, completed, held, journal, suspended, until
from .machines import HIRES, clerk, last_outcome, said, script, shop, statuses, tree, waits


async def test_a_transition_replaces_node_and_state_and_goes_on(place: Place):
    turns = [
        call("add", {"n": 1}),
        call("transition_to_till", {"state": {"note": "late"}}),
        [call("add", {"n": 1}), call("pay", {"amount": 1})],
        say("end"),
    ]
    async with place.app(shop(script(go=turns))) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert (tree(view)["main"].node, tree(view)["main"].state) == (
        "till",
        {"total": 6, "note": "late"},
    )
    assert "no tool 'pay'" in last_outcome(view).message


async def test_a_transition_ends_the_instances_below_and_withdraws_what_they_ask(place: Place):
    turns = [HIRES, say("waiting"), call("transition_to_till"), say("end")]
    async with place.app(shop(script(go=turns, A=clerk("A"), B=clerk("B")))) as app:
        run = await app.start("shop", "go", by="ann")
        holds = (await suspended(run)).holds

        await app.say(run, "Enough.", by="ann")
        view = await completed(run)

        assert set(statuses(view).values()) == {"closed"}
        assert tree(view)["main"].node == "till"
        assert [(await app.hold(hold)).decision.word for hold in holds] == ["withdrawn"] * 2
        assert said(view) == ["Enough."]


async def test_a_transition_waits_for_the_other_calls_of_its_turn(place: Place):
    turns = [[call("pay", {"amount": 1}), call("transition_to_till")], say("end")]
    async with place.app(shop(script(go=turns))) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert tree(await run.view())["main"].node == "desk"

        await app.decide(hold, approve(), by="ann")
        view = await completed(run)

    assert tree(view)["main"].node == "till"
    outcomes = [one.outcome.result() for one in view.messages if hasattr(one, "outcome")]
    assert outcomes == ["paid 1", {"transition": "till"}]


async def test_an_instance_leaves_once(place: Place):
    @tool
    def leave(me: Instance, to: str) -> None:
        me.transition(to)

    turns = [
        [call("pay", {"amount": 1}), call("transition_to_till"), call("leave", {"to": "till"})],
        say("end"),
    ]
    batch = {"siblings": "run"}
    async with place.app(shop(script(go=turns), [leave], **batch)) as app:
        run = await app.start("shop", "go", by="ann")
        await app.decide(await held(run), approve(), by="ann")
        view = await completed(run)

    outcomes = [one.outcome for one in view.messages if hasattr(one, "outcome")]
    refused = [one for one in outcomes if isinstance(one, Failed)]
    assert [one.error for one in refused] == ["BadMove"]
    assert "on its way to 'till' already" in refused[0].message


async def test_what_an_instance_has_started_is_waited_for_before_it_ends(place: Place):
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        begun.set()
        await go.wait()
        return "worked"

    turns = [
        call("spawn", {"node": "clerk", "input": "A"}),
        say("..."),
        call("transition_to_till"),
        say("at the till"),
        say("end"),
    ]
    model = script(go=turns, A=[call("work")])
    async with place.app(shop(model, lower=[work])) as app:
        run = await app.start("shop", "go", by="ann")
        await begun.wait()
        await app.say(run, "Enough.", by="ann")
        await until(lambda: _at(run, "main", "till"))
        assert statuses(await run.view())["clerk.2"] == "active"

        go.set()
        view = await completed(run)

    assert statuses(view)["clerk.2"] == "closed"
    assert said(view) == ["Enough.", "clerk.2 is over."]
    assert (await _outcomes(place, run.id))[-1] == Returned(value=msgspec.Raw(b'"worked"'))


async def _at(run: Any, name: str, node: str) -> bool:
    return tree(await run.view())[name].node == node


async def _outcomes(place: Place, run_id: str) -> list[Any]:
    store = await place.store()
    try:
        found = await journal(store, run_id)
    finally:
        if place.kind == "sqlite":
            await store.close()
    return [
        one.event.outcome
        for one in found
        if one.type.startswith("call.finished") and one.event.attempt
    ]


@pytest.mark.parametrize("fails", [False, True])
async def test_an_instance_that_ends_rests_until_what_is_below_it_is_over(
    place: Place, *, fails: bool
):
    begun, go, slow = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        begun.set()
        await go.wait()
        return "worked"

    async def late() -> Any:
        await slow.wait()
        if fails:
            raise ModelFailed("out of tokens")
        return call("cede", {"payload": "A"})

    model = script(
        go=[call("spawn", {"node": "clerk", "input": "A"}), say("..."), say("end")],
        A=[call("spawn", {"node": "clerk", "input": "B"}), late],
        B=[[call("work"), call("spawn", {"node": "clerk", "input": "C"})]],
        C=clerk("C"),
    )
    async with place.app(shop(model, lower=[work])) as app:
        run = await app.start("shop", "go", by="ann")
        await begun.wait()
        await until(lambda: waits(run, "clerk.4"))
        slow.set()
        await until(lambda: _is(run, "clerk.4", "closed"))
        await until(lambda: _rested(app.store, run.id, "clerk.2"))
        assert statuses(await run.view())["clerk.2"] == "active"

        go.set()
        view = await completed(run)

    assert said(view) == [
        "clerk.2 could not go on: the model failed: out of tokens"
        if fails
        else 'clerk.2 has ceded: "A"'
    ]
    assert set(statuses(view).values()) == {"closed"}


async def test_a_model_that_fails_after_its_instance_was_to_end_changes_nothing(place: Place):
    begun, go, slow = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def work() -> str:
        begun.set()
        await go.wait()
        return "worked"

    async def late() -> Any:
        await slow.wait()
        raise ModelFailed("out of tokens")

    turns = [
        call("spawn", {"node": "clerk", "input": "A"}),
        say("..."),
        call("transition_to_till"),
        say("..."),
        say("end"),
    ]
    model = script(
        go=turns, A=[call("spawn", {"node": "clerk", "input": "B"}), late], B=[call("work")]
    )
    async with place.app(shop(model, lower=[work])) as app:
        run = await app.start("shop", "go", by="ann")
        await begun.wait()
        await app.say(run, "Enough.", by="ann")
        await until(lambda: _at(run, "main", "till"))
        slow.set()
        await until(lambda: _rested(app.store, run.id, "clerk.2"))

        go.set()
        view = await completed(run)

    assert said(view) == ["Enough.", "clerk.2 is over."]
    assert tree(view)["clerk.2"].error == ""


async def _rested(store: Any, run_id: str, name: str) -> bool:
    turns = [one.event for one in await journal(store, run_id) if one.type == "turn.taken"]
    return any(turn.strand == name and not turn.calls for turn in turns)


async def _is(run: Any, name: str, status: str) -> bool:
    return statuses(await run.view())[name] == status


async def test_a_move_of_an_instance_that_is_over_is_refused(place: Place):
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def mark(me: Instance) -> str:
        begun.set()
        await go.wait()
        me.update_state(seen=["x"])
        return "marked"

    model = script(
        go=[call("spawn", {"node": "clerk", "input": "A"}), say("..."), say("end")], A=clerk("A")
    )
    async with place.app(shop(model, orders=[mark])) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        marking = asyncio.ensure_future(app.command(run, "mark", by="ann", strand="clerk.2"))
        await begun.wait()
        await app.command(run, "dismiss", by="ann", strand="clerk.2")
        go.set()
        view = await marking

        assert isinstance(view.outcome, Failed)
        assert view.outcome.message == "the instance 'clerk.2' is over"
        assert tree(await completed(run))["clerk.2"].state == {"seen": []}


async def test_a_machine_has_a_bounded_number_of_instances(place: Place, monkeypatch: Any):
    monkeypatch.setattr("sayso.agents.tree.INSTANCES_MAX", 2)
    model = script(go=[HIRES, say("..."), say("end")], A=clerk("A"), B=clerk("B"))
    async with place.app(shop(model, siblings="in_order")) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)

    assert list(tree(view)) == ["main", "clerk.2"]
    assert last_outcome(view).message == "a machine has at most 2 instances at once"


async def test_spawning_adds_to_the_instances_that_are_there(place: Place):
    model = script(
        go=[call("spawn", {"node": "clerk", "input": "A"}), say("...")], A=clerk("A"), C=clerk("C")
    )
    async with place.app(shop(model)) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        await app.command(run, "hire", {"input": "C"}, by="ann")
        view = await suspended(run)

    assert statuses(view) == {"main": "active", "clerk.2": "waiting", "clerk.3": "waiting"}


async def test_rules_hold_transitions_like_every_call(place: Place):
    model = script(go=[call("transition_to_till"), say("end")])
    policy = Policy(Rule("transition_to_till"))
    async with place.app(shop(model), policy=policy) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert (hold.tool, tree(await run.view())["main"].node) == ("transition_to_till", "desk")

        await app.decide(hold, approve(), by="ann")
        assert tree(await completed(run))["main"].node == "till"


async def test_arguments_that_do_not_fit_a_node_open_no_hold(place: Place):
    turns = [
        [
            call("transition_to_till", {"state": {"total": "many"}}),
            call("transition_to_till", {"state": {"size": 1}}),
            call("transition_to_till", {"to": "clerk"}),
            call("spawn", {"node": "till", "input": "x"}),
            call("spawn", {"node": "clerk", "input": " "}),
            call("spawn", {"node": "clerk"}),
        ],
        say("end"),
    ]
    policy = Policy(Rule("*"))
    async with place.app(shop(script(go=turns)), policy=policy) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    outcomes = [one.outcome for one in view.messages if hasattr(one, "outcome")]
    assert [one.error for one in outcomes] == ["BadArguments"] * 6
    assert list(tree(view)) == ["main"]


@pytest.mark.parametrize(
    "move, why",
    [
        ({"to": "clerk"}, "there is no transition from 'desk' to 'clerk'"),
        ({"spawn": "till"}, "no instance can begin at 'till' from 'desk'"),
        ({"spawn": "moon"}, "no instance can begin at 'moon' from 'desk'"),
    ],
)
async def test_only_declared_moves_are_made(place: Place, move: dict[str, str], why: str):
    @tool
    def wander(me: Instance, to: str = "", spawn: str = "") -> None:
        me.update_state(total=3)
        if to:
            me.transition(to)
        else:
            me.spawn(spawn, "x")

    model = script(go=[call("wander", move), say("end")])
    async with place.app(shop(model, [wander])) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert (last_outcome(view).error, last_outcome(view).message) == ("BadMove", why)
    assert tree(view)["main"].state["total"] == 0


async def test_whatever_an_instance_below_has_not_finished_gets_its_outcome(place: Place):
    @tool(durable=True)
    async def ask(ctx: Context) -> str:
        return await ctx.ask("Well?")

    work = [call("ask"), call("check", {"what": "A"})]
    turns = [
        call("spawn", {"node": "clerk", "input": "A"}),
        say("..."),
        call("transition_to_till"),
        say("end"),
    ]
    model = script(go=turns, A=[work])
    async with place.app(shop(model, lower=[ask], siblings="in_order")) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        await app.say(run, "Enough.", by="ann")
        view = await completed(run)
        found = await journal(app.store, run.id)

    assert statuses(view)["clerk.2"] == "closed"
    ended = {one.event.call: one.event.outcome for one in found if one.type == "call.finished"}
    (turn,) = [
        one.event.turn
        for one in found
        if one.type == "turn.taken" and one.event.strand == "clerk.2"
    ]
    assert ended[f"{turn}.0"] == Failed(error="Cancelled", message="clerk.2 has moved on")
    assert ended[f"{turn}.1"] == Declined(reason="clerk.2 has moved on")


async def test_a_move_from_where_an_instance_was_is_refused(place: Place):
    begun, go = asyncio.Event(), asyncio.Event()

    @tool
    async def mark(me: Instance) -> None:
        begun.set()
        await go.wait()
        me.update_state(total=3)

    turns = [
        call("spawn", {"node": "clerk", "input": "A"}),
        say("..."),
        call("check", {"what": "x"}),
        say("end"),
    ]
    machine = shop(script(go=turns, A=clerk("A")))
    desk = machine.nodes["desk"]
    desk.commands = (*desk.commands, mark)
    nodes = list(machine.nodes.values())
    machine = Machine("shop", model=machine.model, nodes=nodes, root="desk")
    async with place.app(machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        marking = asyncio.ensure_future(app.command(run, "mark", by="ann"))
        await begun.wait()
        await app.command(run, "close_shop", by="ann")
        go.set()
        done = await marking

        assert isinstance(done.outcome, Failed)
        assert done.outcome.message == "'main' is at 'till' by now, not at 'desk'"
        assert tree(await run.view())["main"].state["total"] == 7


async def test_an_instance_whose_node_is_gone_tells_its_parent(place: Place):
    def turns() -> Any:
        return script(
            go=[call("spawn", {"node": "clerk", "input": "A"}), say("..."), say("end")],
            A=clerk("A"),
        )

    async with place.app(shop(turns())) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
    nodes = [node for node in shop(turns()).nodes.values() if node.name != "clerk"]
    nodes[0].spawns = ()
    other = Machine("shop", model=turns(), nodes=nodes, root="desk")
    async with place.app(other) as app:
        await app.decide(hold, answer(1), by="ann")
        view = await completed(app.run(run.id))

    assert tree(view)["clerk.2"].error.endswith(
        "is at 'clerk', which the machine does not have now"
    )


async def test_a_command_reports_that_what_is_waited_for_will_not_come(place: Place):
    @tool
    def give_up(me: Instance, why: str) -> None:
        me.resume(error=why)

    model = script(
        go=[call("spawn", {"node": "clerk", "input": "A"}), say("..."), say("end")], A=clerk("A")
    )
    async with place.app(shop(model, orders=[give_up])) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        await app.command(run, "give_up", {"why": "closed"}, by="ann", strand="clerk.2")
        await completed(run)
        found = await journal(app.store, run.id)

    outcomes = [one.event.outcome for one in found if one.type == "call.finished"]
    assert Failed(error="Errored", message="closed") in outcomes


async def test_a_command_that_was_not_allowed_in_time_goes_with_its_node(place: Place):
    turns = [HIRES, say("..."), call("transition_to_till"), say("end")]
    model = script(go=turns, A=clerk("A"), B=clerk("B"))
    async with place.app(shop(model), policy=Policy(Rule("hire"))) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        asked = await app.command(run, "hire", {"input": "C"}, by="ann")
        await app.say(run, "Enough.", by="ann")
        await completed(run)

        decision = (await app.hold(asked.holds[0])).decision
        assert decision is not None
        assert decision.verdict == Withdrawn(reason="main has moved on")
