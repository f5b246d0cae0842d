"""Machines: instances that wait beside each other, move, and end, in memory and on a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sayso import (
    Bounds,
    Context,
    Failed,
    Instance,
    InstanceView,
    Machine,
    Node,
    Returned,
    answer,
    fail,
    tool,
)
from sayso.errors import ModelFailed, RunWaiting
from sayso.store.keyring import VARIABLE, new_key
from sayso.testing import ScriptedModel, call, say

from .kit import Place, completed, finished, held, suspended, until
from .machines import HIRES, clerk, last_outcome, said, script, shop, statuses, tree, waits

GO = [HIRES, say("waiting"), say("one is back"), say("both are back")]


def two_clerks(**options: Any) -> Any:
    return shop(script(go=GO, A=clerk("A"), B=clerk("B")), **options)


def hold_of(view: Any, name: str) -> Any:
    (hold,) = [one for one in view.holds if one.id in tree(view)[name].holds]
    return hold


@pytest.mark.parametrize("order", [("clerk.2", "clerk.3"), ("clerk.3", "clerk.2")])
async def test_instances_that_wait_are_resumed_in_any_order(place: Place, order: tuple[str, str]):
    async with place.app(two_clerks()) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        assert statuses(view) == {"main": "active", "clerk.2": "waiting", "clerk.3": "waiting"}
        assert {hold.metadata["what"] for hold in view.holds} == {"A", "B"}

        await app.decide(hold_of(view, order[0]), answer({"ok": True}), by="ann")
        between = await suspended(run)
        assert statuses(between)[order[0]] == "closed"
        assert statuses(between)[order[1]] == "waiting"
        await app.decide(hold_of(view, order[1]), fail("it is broken"), by="ann")
        view = await completed(run)

    assert view.output == "both are back"
    assert [text.split()[0] for text in said(view)] == list(order)
    assert tree(view)["clerk.2"].result == "A is checked"


async def test_a_payload_or_an_error_is_the_outcome_of_the_call_that_waited(place: Place):
    seen: list[Any] = []

    def look(messages: Any) -> Any:
        outcomes = [one.outcome for one in messages if hasattr(one, "outcome")]
        if not outcomes:
            return [call("check", {"what": "A"}), call("check", {"what": "B"})]
        seen.extend(outcomes)
        return say("done")

    async with place.app(shop(ScriptedModel(look))) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        await app.decide(view.holds[1], fail("it is broken"), by="ann")
        await app.decide(view.holds[0], answer([1, 2]), by="ann")
        await completed(run)

    assert isinstance(seen[0], Returned)
    assert seen[0].result() == [1, 2]
    assert isinstance(seen[1], Failed)
    assert seen[1].message == "it is broken"


async def test_other_instances_go_on_while_onewaits(place: Place):
    free = [call("cede", {"payload": "B needs nobody"})]
    model = script(go=GO, A=clerk("A"), B=free)
    async with place.app(shop(model)) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)

        assert statuses(view) == {"main": "active", "clerk.2": "waiting", "clerk.3": "closed"}
        assert said(view) == ['clerk.3 has ceded: "B needs nobody"']
        await app.decide(view.holds[0], answer(1), by="ann")
        assert (await completed(run)).output == "both are back"


async def test_a_machine_goes_on_in_another_process(place: Place):
    async with place.app(two_clerks()) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)
        run_id = run.id
    async with place.app(two_clerks()) as app:
        view = await suspended(app.run(run_id))
        assert view.tree == before.tree
        await app.decide(hold_of(view, "clerk.3"), answer(1), by="ann")
        between = await suspended(app.run(run_id))
    async with place.app(two_clerks()) as app:
        view = await suspended(app.run(run_id))
        assert view.tree == between.tree
        await app.decide(view.holds[0], answer(1), by="ann")
        view = await completed(app.run(run_id))

    assert view.output == "both are back"
    assert said(view) == ['clerk.3 has ceded: "B is checked"', 'clerk.2 has ceded: "A is checked"']


async def test_a_tree_goes_to_json_and_back(place: Place):
    async with place.app(two_clerks()) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)

    text = msgspec.json.encode(view.tree)

    assert msgspec.json.decode(text, type=tuple[InstanceView, ...]) == view.tree
    assert tree(view)["clerk.2"] == InstanceView(
        id="clerk.2",
        node="clerk",
        state={"seen": []},
        parent="main",
        status="waiting",
        holds=(view.holds[0].id,),
    )


async def test_cancelling_ends_every_instance(place: Place):
    async with place.app(two_clerks()) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        await app.cancel(run, by="ann")
        view = await finished(run)

        assert view.status == "cancelled"
        assert set(statuses(view).values()) == {"closed"}
        assert not list(await app.holds())


async def test_resumes_a_message_and_a_command_sent_together_all_take_effect(place: Place):
    turns = [HIRES, *[say("heard") for _ in range(6)]]
    async with place.app(shop(script(go=turns, A=clerk("A"), B=clerk("B")))) as app:
        run = await app.start("shop", "go", by="ann")
        first, second = (await suspended(run)).holds

        await asyncio.gather(
            app.decide(first, answer(1), by="ann"),
            app.say(run, "Hurry.", by="ann"),
            app.command(run, "note", {"text": "rush"}, by="ann"),
            app.decide(second, answer(2), by="ann"),
        )
        view = await completed(run)

    assert sorted(text.split()[0] for text in said(view)) == ["Hurry.", "clerk.2", "clerk.3"]
    assert tree(view)["main"].state["note"] == "rush"
    assert (tree(view)["clerk.2"].result, tree(view)["clerk.3"].result) == (
        "A is checked",
        "B is checked",
    )


async def test_the_root_hears_while_others_wait_but_not_while_it_waits_itself(place: Place):
    turns = [
        call("spawn", {"node": "clerk", "input": "A"}),
        say("waiting"),
        call("check", {"what": "me"}),
        say("done"),
        say("all done"),
    ]
    async with place.app(shop(script(go=turns, A=clerk("A")))) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        await app.say(run, "And you?", by="ann")
        await until(lambda: waits(run, "main"))
        with pytest.raises(RunWaiting):
            await app.say(run, "Still there?", by="ann")
        for hold in (await suspended(run)).holds:
            await app.decide(hold, answer(1), by="ann")
        await completed(run)


async def test_an_instance_that_says_something_without_a_call_cedes_with_it(place: Place):
    model = script(go=[HIRES, say("..."), say("..."), say("end")], A=[say("A!")], B=[say("B!")])
    async with place.app(shop(model)) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert sorted(said(view)) == ['clerk.2 has ceded: "A!"', 'clerk.3 has ceded: "B!"']


async def test_an_instance_whose_model_fails_tells_its_parent(place: Place):
    def broken() -> Any:
        raise ModelFailed("out of tokens")

    turns = [call("spawn", {"node": "clerk", "input": "A"}), say("..."), say("end")]
    async with place.app(shop(script(go=turns, A=[broken]))) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert tree(view)["clerk.2"].error == "the model failed: out of tokens"
    assert said(view)[0].startswith("clerk.2 could not go on: the model failed")


async def test_the_root_whose_model_fails_fails_the_run(place: Place):
    def broken() -> Any:
        raise ModelFailed("out of tokens")

    async with place.app(shop(script(go=[broken]))) as app:
        view = await finished(await app.start("shop", "go", by="ann"))

    assert (view.status, view.error) == ("failed", "the model failed: out of tokens")


async def test_the_root_cannot_cede(place: Place):
    turns = [call("break_down", {"how": "cede"}), say("end")]
    async with place.app(shop(script(go=turns))) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert last_outcome(view).error == "BadMove"
    assert "the root cannot cede" in last_outcome(view).message
    assert tree(view)["main"].state == {"total": 0, "note": ""}


@pytest.mark.parametrize("how", ["raise", "type", "cede"])
async def test_a_call_that_fails_leaves_the_state_as_it_was(place: Place, how: str):
    turns = [call("break_down", {"how": how}), call("check", {"what": "x"}), say("end")]
    async with place.app(shop(script(go=turns))) as app:
        run = await app.start("shop", "go", by="ann")
        assert tree(await suspended(run))["main"].state["total"] == 0

        done = await app.command(run, "break_down", {"how": how}, by="ann")

        assert isinstance(done.outcome, Failed)
        assert tree(await suspended(run))["main"].state["total"] == 0


async def test_a_call_that_changes_state_and_then_waits_is_refused(place: Place):
    async with place.app(shop(script(go=[call("spoil"), say("end")]))) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert last_outcome(view).error == "BadMove"
    assert tree(view)["main"].state["total"] == 0


async def test_updates_are_visible_in_the_same_call_and_later(place: Place):
    turns = [call("add", {"n": 2}), call("add", {"n": 3}), say("end")]
    async with place.app(shop(script(go=turns))) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert [one.outcome.result() for one in view.messages if hasattr(one, "outcome")] == [2, 5]
    assert tree(view)["main"].state == {"total": 5, "note": ""}


async def test_calls_of_one_turn_change_fields_beside_each_other(place: Place):
    both = asyncio.Barrier(2)

    @tool(effect="none")
    async def put(me: Instance, field: str, value: int) -> None:
        me.update_state({field: value})
        await both.wait()

    turns = [
        [call("put", {"field": "total", "value": 4}), call("put", {"field": "note", "value": 1})],
        say("end"),
    ]
    node = Node("n", tools=[put], state={"total": 0, "note": 0})
    machine = Machine("shop", model=script(go=turns), root="n", nodes=[node])
    async with place.app(machine) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert tree(view)["main"].state == {"total": 4, "note": 1}


@pytest.mark.parametrize("stay_hot_s", [30.0, 0.0])
async def test_a_durable_body_asks_and_then_changes_the_state(place: Place, stay_hot_s: float):
    @tool(durable=True)
    async def haggle(ctx: Context, me: Instance, n: int) -> None:
        me.update_state(note="asked")
        me.update_state(total=n + await ctx.ask("How much more?", kind="number"))

    bounds = Bounds(look_s=0.02, stay_hot_s=stay_hot_s)
    model = script(go=[call("haggle", {"n": 1}), say("end")])
    async with place.app(shop(model, [haggle]), bounds=bounds) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert tree(await run.view())["main"].state == {"total": 0, "note": ""}
        await app.decide(hold, answer(4), by="ann")
        view = await completed(run)

    assert tree(view)["main"].state == {"total": 5, "note": "asked"}


async def test_an_instance_begins_while_the_model_of_another_takes_its_time(place: Place):
    go = asyncio.Event()

    async def slow() -> Any:
        await go.wait()
        return say("waiting")

    turns = [call("spawn", {"node": "clerk", "input": "A"}), slow, say("end")]
    async with place.app(shop(script(go=turns, A=clerk("A")))) as app:
        run = await app.start("shop", "go", by="ann")
        await until(lambda: waits(run, "clerk.2"))

        go.set()
        await app.decide((await suspended(run)).holds[0], answer(1), by="ann")
        await completed(run)


async def test_a_whole_machine_goes_to_another_store_and_on(tmp_path: Path, monkeypatch: Any):
    monkeypatch.setenv(VARIABLE, new_key())
    here, there = Place("sqlite", tmp_path / "here"), Place("sqlite", tmp_path / "there")
    async with here.app(two_clerks()) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)
        data = await app.export(run, by="ann")
    async with there.app(two_clerks()) as app:
        moved = await app.adopt(json.loads(json.dumps(data)), by="ann")
        view = await suspended(moved)
        assert view.tree == before.tree
        for hold in view.holds:
            await app.decide(hold, answer(1), by="ann")
        assert (await completed(moved)).output == "both are back"


@pytest.mark.parametrize("stay_hot_s", [30, 0], ids=["hot", "parked"])
async def test_a_body_that_waits_sees_the_state_its_call_started_with(
    place: Place, stay_hot_s: float
) -> None:
    seen: list[int] = []

    @tool(durable=True)
    async def confirm(ctx: Context, me: Instance) -> str:
        await ctx.ask(f"Confirm {me.state['count']} items?")
        seen.append(me.state["count"])
        return "confirmed"

    @tool(effect="none")
    def bump(me: Instance) -> None:
        me.update_state(count=me.state["count"] + 1)

    node = Node("r", tools=[confirm], commands=[bump], state={"count": 0})
    model = ScriptedModel([call("confirm"), say("ok")])
    machine = Machine("counter", model=model, root="r", nodes=[node])
    async with place.app(machine, bounds=Bounds(stay_hot_s=stay_hot_s)) as app:
        run = await app.start("counter", "go", by="ann")
        hold = await held(run)
        await app.command(run, "bump", by="ann")
        await app.decide(hold, answer("yes"), by="ann")
        view = await completed(run)

    assert seen == [0]
    assert tree(view)["main"].state == {"count": 1}
