"""Seed 3, markov-machines, "Suspend/Resume Implementation Plan": its decisions, its eight test
cases, its example, phase by phase, and what was shipped in the end. `test_markov_failures.py` has
what went wrong in it.
"""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from sayso import Context, Declined, Failed, Instance, Returned, answer, approve, fail, reject, tool
from sayso.domain.call import Outcome
from sayso.errors import (
    AlreadyDecided,
    BadExport,
    BadValue,
    RunExists,
    UnknownHold,
    UnknownRun,
    WrongVerdict,
)
from sayso.store.keyring import VARIABLE, new_key
from sayso.testing import call, say
from tests.engine.kit import Place, completed, finished, held, suspended, types, until

from .markov import Markov, hire, refund, said, statuses, tree

OK = {"approved": True}


# The eight test cases of the plan.


async def test_case_1_a_single_tool_suspends_and_resumes(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert len(shop.shown["go"]) == 1
        await app.decide(hold, answer(OK), by="ann")
        view = await completed(run)

    assert view.output == "Refunded."
    assert [one.result() for one in shop.told()] == [OK]
    assert shop.approvals == ["A 10"]


async def test_case_2_one_of_several_tools_suspends_and_the_others_complete(place: Place):
    look = call("look_up", {"order_id": "A"})
    shop = Markov(place, {"go": [[look, refund("A"), look], say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert len(shop.effects) == 2
        await app.decide(hold, answer(OK), by="ann")
        await completed(run)

    assert [one.result() for one in shop.told()] == ["A was delivered", OK, "A was delivered"]
    assert len(shop.effects) == 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
async def test_case_3_several_tools_suspend_and_are_resumed_one_by_one(
    place: Place, order: tuple[int, ...]
):
    shop = Markov(place, {"go": [[refund("A"), refund("B"), refund("C")], say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        holds = (await suspended(run)).holds
        assert [hold.metadata["approval_id"] for hold in holds] == ["appr-A", "appr-B", "appr-C"]
        left = [hold.id for hold in holds]
        for at in order:
            # As long as one is left, it stays suspended, and its model is not asked.
            assert [hold.id for hold in (await suspended(run)).holds] == left
            assert len(shop.shown["go"]) == 1
            await app.decide(holds[at], answer({"n": at}), by="ann")
            left.remove(holds[at].id)
        await completed(run)

        assert (await types(app, run)).count("run.resumed") == 1
    assert [one.result() for one in shop.told()] == [{"n": 0}, {"n": 1}, {"n": 2}]


async def test_case_4_a_wrong_id_is_an_error_and_changes_nothing(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        for wrong in (view.holds[0].id + "9", "hold_01kdvdna005g43vqwnwc5vmvpj.1", "A", ""):
            with pytest.raises(UnknownHold):
                await app.decide(wrong, answer(OK), by="ann")

        assert await run.view() == view


async def test_case_5_what_is_not_suspended_cannot_be_resumed(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        await app.decide(hold, answer(OK), by="ann")
        view = await completed(run)
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, answer(OK), by="ann")

        assert await run.view() == view
    assert len(shop.shown["go"]) == 2


async def test_case_6_a_command_suspends_and_resumes(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        waiting = await app.command(run, "escalate", {"to": "bob"}, by="ann")
        assert (waiting.status, waiting.outcome) == ("held", None)
        hold = await app.hold(waiting.holds[0])
        assert (hold.tool, hold.args, hold.metadata) == ("escalate", {"to": "bob"}, {"to": "bob"})
        await app.decide(hold, answer("take it"), by="ann")
        done = await run.command(waiting.call_id.rpartition(".")[2])

        assert _value(done.outcome) == "take it"
        # It is no business of the model: that was asked once, and still waits for its own call.
        assert len(shop.shown["go"]) == 1
        assert (await run.view()).status == "suspended"


def _value(outcome: Outcome | None) -> Any:
    assert isinstance(outcome, Returned), outcome
    return outcome.result()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give both stores the same keys, so that one trusts what the other has exported."""
    monkeypatch.setenv(VARIABLE, new_key())


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("to", ["memory", "sqlite"])
async def test_case_7_a_suspended_machine_goes_to_json_and_back(tmp_path: Path, to: str):
    here, there = Place("sqlite", tmp_path / "here"), Place(to, tmp_path / "there")
    turns = {
        "go": [[refund("A"), *hire("B")], say("..."), say("All refunded.")],
        "B": [[refund("B1"), refund("B2")], call("cede", {"payload": "B is done"})],
    }
    async with here.app(Markov(here, turns).machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        await app.command(run, "remark", {"text": "in a hurry"}, by="ann", strand="clerk.2")
        before = await suspended(run)
        text = json.dumps(await app.export(run, by="ann"))
    shop = Markov(there, turns)
    async with there.app(shop.machine) as app:
        run = await app.adopt(json.loads(text), by="ann")
        after = await suspended(run)
        assert (after.id, after.tree, after.messages) == (before.id, before.tree, before.messages)
        # With its ids, digests, metadata and times: what was shown there can be decided here.
        assert after.holds == before.holds
        for hold in before.holds:
            await app.decide(hold, answer({"for": hold.metadata["approval_id"]}), by="ann")
        view = await completed(run)
        with pytest.raises(RunExists):
            await app.adopt(json.loads(text), by="ann")

    assert view.output == "All refunded."
    assert tree(view)["clerk.2"].state["note"] == "in a hurry"
    assert [one.result() for one in shop.told("B")] == [{"for": "appr-B1"}, {"for": "appr-B2"}]
    assert shop.approvals == []  # Nothing that was done there is done again here.


@pytest.mark.usefixtures("keys")
async def test_case_7_what_was_edited_on_the_way_is_refused(tmp_path: Path):
    here, there = Place("sqlite", tmp_path / "here"), Place("sqlite", tmp_path / "there")
    shop = Markov(here, {"go": [refund("A"), say("Refunded.")]})
    async with here.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        text = json.dumps(await app.export(run, by="ann"))

    async with there.app(shop.machine) as app:
        with pytest.raises(BadExport):
            await app.adopt(json.loads(text.replace("appr-A", "appr-Z")), by="ann")
        assert not list(await app.holds())


@pytest.mark.parametrize(
    "verdict, outcome",
    [
        (fail("the bank is closed"), Failed(error="Errored", message="the bank is closed")),
        (reject("too much"), Declined(reason="too much", by="ann")),
    ],
)
async def test_case_8_an_error_payload_is_an_error_and_the_machine_goes_on(
    place: Place, verdict: Any, outcome: Outcome
):
    shop = Markov(place, {"go": [refund("A"), say("Then not.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await app.decide(await held(run), verdict, by="ann")
        view = await completed(run)

    assert shop.told() == [outcome]
    assert view.output == "Then not."


# Phases 1 to 5 and the example.


async def test_a_suspended_call_says_all_that_the_plan_lists(place: Place):
    shop = Markov(place, {"go": [refund("A", 30), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        waiting = await app.command(run, "escalate", {"to": "bob"}, by="ann")
        command = await app.hold(waiting.holds[0])

    assert hold.call_id == f"{run.id}.1.0"
    assert (hold.tool, hold.args) == ("request_refund", {"order_id": "A", "amount": 30})
    assert (hold.title, hold.metadata) == ("refund of A", {"approval_id": "appr-A"})
    assert hold.opened_at.tzinfo is UTC
    assert command.call_id == f"{run.id}.c1"
    assert command.id != hold.id


@pytest.mark.parametrize("payload", [None, False, 0, "", [], {"deep": [{"er": 1.5}]}, "ä" * 1000])
async def test_any_json_is_a_payload(place: Place, payload: Any):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await app.decide(await held(run), answer(payload), by="ann")
        await completed(run)

    assert [one.result() for one in shop.told()] == [payload]


@pytest.mark.parametrize("bad", [object(), float("nan"), {1: 2}])
async def test_what_is_no_json_is_no_payload(place: Place, bad: Any):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        with pytest.raises(BadValue):
            await app.decide(view.holds[0], answer(bad), by="ann")
        with pytest.raises(WrongVerdict):
            await app.decide(view.holds[0], approve(), by="ann")

        assert await run.view() == view


async def test_a_call_that_suspends_without_returning_it_suspends(place: Place):
    @tool(effect="none")
    async def forgets(ctx: Context) -> None:
        ctx.suspend(reason="somebody looks at it")

    shop = Markov(place, {"go": [call("forgets"), say("Looked at.")]}, tools=[forgets])

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert hold.title == "somebody looks at it"
        await app.decide(hold, answer(OK), by="ann")
        await completed(run)


@pytest.mark.parametrize("twice", [False, True])
async def test_a_call_that_suspends_and_goes_on_is_an_error(place: Place, twice: bool):
    @tool(effect="none")
    async def goes_on(ctx: Context) -> Any:
        ctx.suspend(reason="somebody looks at it")
        if twice:
            ctx.suspend(reason="and somebody else")
            return None
        return "requested"

    shop = Markov(place, {"go": [call("goes_on"), say("No.")]}, tools=[goes_on])

    async with place.app(shop.machine) as app:
        await completed(await app.start("shop", "go", by="ann"))

    (outcome,) = shop.told()
    assert isinstance(outcome, Failed)
    assert "return ctx.suspend" in outcome.message


async def test_the_example_waits_in_another_process(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})
    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)

    again = Markov(place, shop.turns)
    async with place.app(again.machine) as app:
        await app.decide(hold.id, answer(OK), by="ann")
        await completed(app.run(run.id))

    assert [one.result() for one in again.told()] == [OK]
    assert again.approvals == ["A 10"]


# What was shipped: suspended instances in a tree.

TWO = {
    "go": [hire("A", "B"), say("..."), say("One is back."), say("Both are back.")],
    "A": [refund("A"), call("cede", {"payload": "A is done"})],
    "B": [refund("B"), call("cede", {"payload": "B is done"})],
}


async def test_a_suspended_instance_stays_in_the_tree_and_others_go_on(place: Place):
    shop = Markov(place, {**TWO, "B": [call("look_up", {"order_id": "B"}), say("B is done.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)

        assert statuses(view) == {"main": "active", "clerk.2": "waiting", "clerk.3": "closed"}
        assert said(view) == ['clerk.3 has ceded: "B is done."']
        await app.decide(view.holds[0], answer(OK), by="ann")
        assert (await completed(run)).output == "Both are back."


async def test_when_all_are_suspended_the_run_is_with_the_list(place: Place):
    async with place.app(Markov(place, TWO).machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await run.wait()

        assert (view.status, view.final) == ("suspended", False)
        assert [one.holds for one in view.tree] == [(), (view.holds[0].id,), (view.holds[1].id,)]
        assert [one.title for one in view.holds] == ["refund of A", "refund of B"]


async def test_the_answer_of_a_person_may_travel_by_a_command(place: Place):
    shop = Markov(place, TWO)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        await app.command(run, "remark", {"text": "fine"}, by="ann", strand="clerk.2")
        done = await app.command(run, "settle", {"value": OK}, by="ann", strand="clerk.2")
        assert isinstance(done.outcome, Returned)
        await until(lambda: _is(run, "clerk.2", "closed"))
        (hold,) = (await suspended(run)).holds
        await app.decide(hold, answer(OK), by="ann")
        view = await completed(run)

    assert [one.result() for one in shop.told("A")] == [OK]
    assert tree(view)["clerk.2"].state == {"refunds": 0, "note": "fine"}


async def _is(run: Any, name: str, status: str) -> bool:
    return statuses(await run.view())[name] == status


@pytest.mark.parametrize(
    "name, args, strand, error",
    [
        ("remark", {"text": 7}, None, "BadArguments"),
        ("remark", {}, None, "BadArguments"),
        ("dance", {}, None, "UnknownTool"),
        ("settle", {"value": 1}, "main", "BadMove"),
        ("settle", {"value": 1, "hold": "hold_x.1"}, "clerk.2", "BadMove"),
        ("leave", {}, "main", "BadMove"),
        ("stumble", {}, "clerk.2", "ValueError"),
    ],
)
async def test_what_is_wrong_with_a_command_is_its_result_and_changes_nothing(
    place: Place, name: str, args: dict[str, Any], strand: str | None, error: str
):
    async with place.app(Markov(place, TWO).machine) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)
        done = await app.command(run, name, args, by="ann", strand=strand)

        assert isinstance(done.outcome, Failed)
        assert done.outcome.error == error
        after = await suspended(run)
        assert (after.tree, after.holds) == (before.tree, before.holds)


async def test_an_instance_that_there_is_not_is_an_error(place: Place):
    async with place.app(Markov(place, TWO).machine) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)
        with pytest.raises(UnknownRun, match=r"clerk\.9"):
            await app.command(run, "remark", {"text": "x"}, by="ann", strand="clerk.9")

        assert await run.view() == before


async def test_commands_move_the_tree(place: Place):
    turns = {**TWO, "C": [refund("C"), say("C is done.")]}
    async with place.app(Markov(place, turns).machine) as app:
        run = await app.start("shop", "go", by="ann")
        holds = (await suspended(run)).holds
        await app.command(run, "add_clerk", {"input": "C"}, by="ann")
        await until(lambda: _is(run, "clerk.4", "waiting"))
        # Those that were there before are there still.
        assert set(statuses(await run.view())) == {"main", "clerk.2", "clerk.3", "clerk.4"}
        await app.command(run, "leave", by="ann", strand="clerk.3")
        await until(lambda: _is(run, "clerk.3", "closed"))
        await app.command(run, "go_to_till", by="ann")
        view = await completed(run)

        assert tree(view)["main"].node == "till"
        assert tree(view)["main"].state == {"refunds": 7, "note": ""}
        assert set(statuses(view).values()) == {"closed"}
        words = [(await app.hold(hold)).decision.word for hold in holds]
    assert words == ["withdrawn", "withdrawn"]


async def test_the_root_cannot_cede(place: Place):
    @tool
    def quit_(me: Instance) -> None:
        me.cede("bye")

    shop = Markov(place, {"go": [call("quit_"), say("Still here.")]}, tools=[quit_])

    async with place.app(shop.machine) as app:
        view = await completed(await app.start("shop", "go", by="ann"))

    assert shop.told()[0].error == "BadMove"
    assert view.output == "Still here."


async def test_a_machine_that_goes_round_in_circles_comes_to_an_end(place: Place):
    shop = Markov(place, {"go": [call("look_up", {"order_id": "A"})] * 60}, turns_max=50)

    async with place.app(shop.machine) as app:
        view = await finished(await app.start("shop", "go", by="ann"))

    assert view.status == "failed"
    assert "50 turns" in (view.error or "")
    assert len(shop.effects) == 50
