"""Commands for instances: where they reach, what they may do, and what they leave alone."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sayso import (
    Declined,
    Failed,
    Instance,
    Machine,
    Node,
    Policy,
    Returned,
    Rule,
    answer,
    approve,
    tool,
)
from sayso.errors import UnknownRun
from sayso.testing import call, say

from .kit import Place, completed, suspended, types, until
from .machines import HIRES, check, clerk, said, script, shop, statuses, tree

GO = [HIRES, *[say("...") for _ in range(5)]]


def waiting(**options: Any) -> Any:
    return shop(script(go=GO, A=clerk("A"), B=clerk("B"), C=clerk("C")), **options)


async def test_a_command_reaches_an_instance_that_waits(place: Place):
    async with place.app(waiting()) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        done = await app.command(run, "give", {"value": "fine"}, by="ann", strand="clerk.2")

        assert isinstance(done.outcome, Returned)
        await until(lambda: _is(run, "clerk.2", "closed"))
        view = await suspended(run)
        assert statuses(view)["clerk.3"] == "waiting"
        await app.decide(view.holds[0], answer(1), by="ann")
        view = await completed(run)

    assert tree(view)["clerk.2"].result == "A is checked"


async def _is(run: Any, name: str, status: str) -> bool:
    return statuses(await run.view())[name] == status


async def test_a_command_resumes_one_of_several_holds(place: Place):
    both = [call("check", {"what": "x"}), call("check", {"what": "y"})]
    async with place.app(shop(script(go=[both, say("end")]))) as app:
        run = await app.start("shop", "go", by="ann")
        first, second = (await suspended(run)).holds

        await app.command(run, "give", {"value": "1", "hold": second.id}, by="ann")
        assert [hold.id for hold in (await suspended(run)).holds] == [first.id]
        again = await app.command(run, "give", {"value": "1", "hold": second.id}, by="ann")
        assert "does not wait for this" in again.outcome.message  # type: ignore[union-attr]
        foreign = await app.command(run, "give", {"value": "1", "hold": "hold_x.1"}, by="ann")
        assert "no hold 'hold_x.1'" in foreign.outcome.message  # type: ignore[union-attr]
        await app.command(run, "give", {"value": "0"}, by="ann")
        view = await completed(run)

    outcomes = [one.outcome.result() for one in view.messages if hasattr(one, "outcome")]
    assert outcomes == ["0", "1"]


async def test_a_command_cannot_say_yes_for_a_person(place: Place):
    async with place.app(shop(script(go=[call("pay", {"amount": 1}), say("end")]))) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        done = await app.command(run, "give", {"value": "1"}, by="ann")

        assert isinstance(done.outcome, Failed)
        assert "has to be decided by itself" in done.outcome.message
        assert len((await suspended(run)).holds) == 1


async def test_a_model_cannot_answer_what_it_waits_for(place: Place):
    from .machines import give

    turns = [[call("check", {"what": "x"}), call("give", {"value": "me"})], say("end")]
    async with place.app(shop(script(go=turns), [give])) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        await app.decide(view.holds[0], answer("a person"), by="ann")
        view = await completed(run)

    outcomes = [one.outcome for one in view.messages if hasattr(one, "outcome")]
    assert outcomes[0].result() == "a person"
    assert (outcomes[1].error, "only a command" in outcomes[1].message) == ("BadMove", True)


async def test_a_command_ends_an_instance_that_waits(place: Place):
    async with place.app(waiting()) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)

        await app.command(run, "dismiss", by="ann", strand="clerk.2")
        await until(lambda: _heard(run))
        after = await suspended(run)

        assert statuses(after) == {"main": "active", "clerk.2": "closed", "clerk.3": "waiting"}
        assert (await app.hold(view.holds[0])).decision.word == "withdrawn"  # type: ignore[union-attr]
        assert said(after) == ['clerk.2 has ceded: "dismissed"']


async def _heard(run: Any) -> bool:
    view = await run.view()
    return len(said(view)) == 1 and view.messages[-1].text == "..."


async def test_a_command_moves_an_instance_whose_turn_is_over(place: Place):
    async with place.app(waiting()) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        done = await app.command(run, "close_shop", by="ann")
        assert isinstance(done.outcome, Returned)
        view = await completed(run)

    assert (tree(view)["main"].node, tree(view)["main"].state["total"]) == ("till", 7)
    assert said(view) == ["You are at 'till' now. Go on from here."]
    assert set(statuses(view).values()) == {"closed"}


async def test_a_command_moves_an_instance_that_waits_itself(place: Place):
    turns = [call("check", {"what": "x"}), say("end")]
    async with place.app(shop(script(go=turns))) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        await app.command(run, "close_shop", by="ann")
        view = await completed(run)

    assert tree(view)["main"].node == "till"
    (outcome,) = [one.outcome for one in view.messages if hasattr(one, "outcome")]
    assert isinstance(outcome, Declined)


async def test_a_command_is_more_than_a_transition_that_waits(place: Place):
    turns = [[call("pay", {"amount": 1}), call("transition_to_till")], say("end")]
    async with place.app(shop(script(go=turns))) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        done = await app.command(run, "close_shop", by="ann")
        assert isinstance(done.outcome, Returned)
        view = await completed(run)

    assert tree(view)["main"].state["total"] == 7


async def test_an_answer_of_the_model_from_before_a_transition_does_not_count(place: Place):
    asked, go = asyncio.Event(), asyncio.Event()
    model = script(go=[call("pay", {"amount": 1})])
    inner = model.answer

    async def slow(prompt: Any, emit: Any) -> Any:
        if "Count." in prompt.instructions:
            from sayso.engine.ports import Answer

            return Answer(text="counted")
        asked.set()
        await go.wait()
        return await inner(prompt, emit)

    model.answer = slow  # pyright: ignore[reportAttributeAccessIssue]
    async with place.app(shop(model)) as app:
        run = await app.start("shop", "go", by="ann")
        await asked.wait()
        await app.command(run, "close_shop", by="ann")
        go.set()
        view = await completed(run)

    assert (view.output, tree(view)["main"].node) == ("counted", "till")


async def test_commands_are_those_of_the_node(place: Place):
    async with place.app(waiting()) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)

        wrong = [
            await app.command(run, "note", {"text": "x"}, by="ann", strand="clerk.2"),
            await app.command(run, "nothing", by="ann"),
            await app.command(run, "note", {"text": 3}, by="ann"),
            await app.command(run, "note", {"words": "x"}, by="ann"),
        ]

        errors = [view.outcome.error for view in wrong]  # type: ignore[union-attr]
        assert errors == ["UnknownTool", "UnknownTool", "BadArguments", "BadArguments"]
        assert (await suspended(run)).tree == before.tree
        with pytest.raises(UnknownRun):
            await app.command(run, "note", {"text": "x"}, by="ann", strand="clerk.9")


async def test_a_command_that_is_allowed_after_its_instance_moved_on_does_not_run(place: Place):
    policy = Policy(Rule("hire"))
    async with place.app(waiting(), policy=policy) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        asked = await app.command(run, "hire", {"input": "C"}, by="ann")
        assert asked.status == "held"

        await app.command(run, "close_shop", by="ann")
        view = await completed(run)

        assert "clerk.4" not in tree(view)
        assert (await app.hold(asked.holds[0])).decision.word == "withdrawn"  # type: ignore[union-attr]


async def test_a_command_is_gated_and_can_wait(place: Place):
    policy = Policy(Rule("note"))
    async with place.app(waiting(), policy=policy) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)

        gated = await app.command(run, "note", {"text": "x"}, by="ann")
        waits = await app.command(run, "wait_first", by="ann")
        assert (gated.status, waits.status) == ("held", "held")
        view = await suspended(run)
        assert tree(view)["main"].holds == (*gated.holds, *waits.holds)
        await app.decide(gated.holds[0], approve(), by="ann")
        await app.decide(waits.holds[0], answer("now"), by="ann")
        done = await run.command("c2")

        assert done.outcome.result() == "now"  # type: ignore[union-attr]
        await until(lambda: _noted(run))
        assert not [one for one in await types(app, run) if one.startswith("run.failed")]


async def _noted(run: Any) -> bool:
    return tree(await run.view())["main"].state["note"] == "x"


async def test_commands_before_the_first_turn_find_the_root(place: Place):
    asked = asyncio.Event()
    model = script(go=[say("end")])
    inner = model.answer

    async def slow(prompt: Any, emit: Any) -> Any:
        await asked.wait()
        return await inner(prompt, emit)

    model.answer = slow  # pyright: ignore[reportAttributeAccessIssue]
    async with place.app(shop(model)) as app:
        run = await app.start("shop", "go", by="ann")
        done = await app.command(run, "note", {"text": "early"}, by="ann")
        assert isinstance(done.outcome, Returned)
        asked.set()
        view = await completed(run)

    assert tree(view)["main"].state["note"] == "early"


async def test_the_root_does_not_end_the_run_over_an_instance_that_has_just_begun(place: Place):
    asked, go = asyncio.Event(), asyncio.Event()

    async def slow() -> Any:
        asked.set()
        await go.wait()
        return say("end")

    model = script(go=[slow, say("C is back")], C=clerk("C"))
    async with place.app(shop(model)) as app:
        run = await app.start("shop", "go", by="ann")
        await asked.wait()
        await app.command(run, "hire", {"input": "C"}, by="ann")
        await until(lambda: _is(run, "clerk.2", "waiting"))
        go.set()
        view = await suspended(run)
        await app.decide(view.holds[0], answer(1), by="ann")

        assert (await completed(run)).output == "C is back"


async def test_a_command_that_its_node_does_not_have_any_more_does_not_run(place: Place):
    policy = Policy(Rule("remark"))

    @tool
    def remark(me: Instance) -> None:
        me.update_state(note="remarked")

    def machine(*commands: Any) -> Machine:
        turns = script(go=[call("check", {"what": "x"}), say("end")])
        desk = Node("desk", tools=[check], commands=commands, state={"note": ""})
        return Machine("m", model=turns, root="desk", nodes=[desk, Node("b", commands=[remark])])

    async with place.app(machine(remark), policy=policy) as app:
        run = await app.start("m", "go", by="ann")
        await suspended(run)
        asked = await app.command(run, "remark", by="ann")
    async with place.app(machine(), policy=policy) as app:
        await app.decide(asked.holds[0], approve(), by="ann")
        done = await app.run(run.id).command("c1")

        assert isinstance(done.outcome, Failed)
        assert done.outcome.error == "UnknownTool"
        assert tree(await app.run(run.id).view())["main"].state == {"note": ""}
