"""Seed 3, markov-machines: what its own project later found wrong or left undone, or what went
wrong in several of the five systems, each as a test that would notice.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from sayso import (
    Failed,
    Instance,
    Returned,
    ToolMessage,
    UserMessage,
    answer,
    approve,
    fail,
    tool,
)
from sayso.errors import AlreadyDecided, ModelFailed, NotAllowed, RunFinished, RunWaiting
from sayso.testing import call, say
from tests.engine.kit import Place, completed, finished, held, suspended, types, until

from .markov import Desk, Markov, hire, refund, said, statuses, tree

OK = {"approved": True}
TWO = {
    "go": [hire("A", "B"), *[say("...")] * 8],
    "A": [refund("A"), call("cede", {"payload": "A is done"})],
    "B": [refund("B"), call("cede", {"payload": "B is done"})],
}


async def test_resumes_that_come_together_with_a_message_and_a_command_lose_none(place: Place):
    """A batch with a resume in it lost everything else, a second resume included."""
    shop = Markov(place, TWO)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        first, second = (await suspended(run)).holds
        await asyncio.gather(
            app.say(run, "Hurry.", by="ann"),
            app.decide(first, answer({"n": 1}), by="ann"),
            app.command(run, "remark", {"text": "rush"}, by="ann"),
            app.decide(second, answer({"n": 2}), by="ann"),
            app.say(run, "Please.", by="ann"),
        )
        view = await completed(run)

    heard = [text.split(":")[0] for text in said(view)]
    assert sorted(heard) == ["Hurry.", "Please.", "clerk.2 has ceded", "clerk.3 has ceded"]
    assert [one.result() for one in shop.told("A") + shop.told("B")] == [{"n": 1}, {"n": 2}]
    assert tree(view)["main"].state["note"] == "rush"


async def test_what_is_resumed_goes_on_without_another_message(place: Place):
    """The resumed instance was active again, and nobody ever went on with it."""
    shop = Markov(place, TWO)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        first, _ = (await suspended(run)).holds
        await app.decide(first, answer(OK), by="ann")
        await until(lambda: _is(run, "clerk.2", "closed"))

        assert said(await suspended(run)) == ['clerk.2 has ceded: "A is done"']
        assert shop.shown["A"][-1][-1].outcome.result() == OK


async def _is(run: Any, name: str, status: str) -> bool:
    return statuses(await run.view())[name] == status


async def test_a_second_suspension_of_an_instance_does_not_overwrite_the_first(place: Place):
    shop = Markov(place, {"go": [[refund("A"), refund("A")], say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        await app.command(run, "escalate", {"to": "bob"}, by="ann")
        await app.command(run, "escalate", {"to": "bob"}, by="ann")
        view = await suspended(run)
        assert len({hold.id for hold in view.holds}) == 4
        assert tree(view)["main"].holds == tuple(hold.id for hold in view.holds)
        for n, hold in reversed(list(enumerate(view.holds))):
            await app.decide(hold, answer(n), by="ann")
        await completed(run)
        commands = [(await run.command(ref)).outcome for ref in ("c1", "c2")]

    assert [one.result() for one in shop.told()] == [0, 1]
    assert [one.result() for one in commands if isinstance(one, Returned)] == [2, 3]


async def test_the_root_is_suspended_while_others_are_active(place: Place):
    """Its README said of this: not handled."""
    shop = Markov(
        place,
        {
            "go": [[refund("me"), *hire("A")], say("..."), say("All done.")],
            "A": [call("look_up", {"order_id": "A"}), say("A is done.")],
        },
    )

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
        assert statuses(view) == {"main": "waiting", "clerk.2": "closed"}
        # Its model is told only after its own call has an outcome; nothing is lost until then.
        assert len(shop.shown["go"]) == 1
        with pytest.raises(RunWaiting):
            await app.say(run, "Well?", by="ann")
        await app.decide(view.holds[0], answer(OK), by="ann")
        view = await completed(run)

    kinds = [type(one).__name__ for one in shop.shown["go"][1]]
    assert kinds == ["UserMessage", "AssistantMessage", "ToolMessage", "ToolMessage", "UserMessage"]
    assert said(view) == ['clerk.2 has ceded: "A is done."']


async def test_a_command_reads_what_it_has_written(place: Place):
    @tool
    def count(me: Instance[Desk], n: int) -> list[int]:
        seen: list[int] = []
        for _ in range(n):
            me.update_state(refunds=me.state.refunds + 1)
            seen.append(me.state.refunds)
        return seen

    async with place.app(Markov(place, TWO, commands=[count]).machine) as app:
        run = await app.start("shop", "go", by="ann")
        await suspended(run)
        done = await app.command(run, "count", {"n": 3}, by="ann", strand="clerk.2")
        again = await app.command(run, "count", {"n": 1}, by="ann", strand="clerk.2")

        assert [one.outcome.result() for one in (done, again)] == [[1, 2, 3], [4]]  # type: ignore[union-attr]
        view = await run.view()
        assert [tree(view)[name].state["refunds"] for name in ("clerk.2", "clerk.3")] == [4, 0]


async def test_a_command_that_fails_after_half_of_it_has_done_nothing(place: Place):
    @tool
    def half(me: Instance, how: str) -> None:
        me.update_state(note="half")
        me.spawn("clerk", "C")
        if how == "unknown node":
            me.spawn("nowhere", "D")
        if how == "wrong state":
            me.update_state(refunds="many")
        me.transition("till")
        me.spawn("clerk", "too late")

    async with place.app(Markov(place, TWO, commands=[half]).machine) as app:
        run = await app.start("shop", "go", by="ann")
        before = await suspended(run)
        for how in ("unknown node", "wrong state", "after leaving"):
            done = await app.command(run, "half", {"how": how}, by="ann")
            assert isinstance(done.outcome, Failed), how

        after = await suspended(run)
        assert (after.tree, after.holds) == (before.tree, before.holds)


async def test_a_history_never_has_a_call_without_an_outcome(place: Place):
    """The reason to give up suspended calls for suspended instances, as far as one can tell."""
    shop = Markov(
        place,
        {
            "go": [[refund("A"), *hire("A"), refund("B")], *[say("...")] * 8],
            "A": [[refund("C"), call("look_up", {"order_id": "C"})], say("A is done.")],
        },
    )

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        while (view := await run.wait()).holds:
            await app.decide(view.holds[-1], fail("no"), by="ann")
            await until(lambda seen=view: _moved(run, seen.seq))

    for prompts in shop.shown.values():
        for messages in prompts:
            asked = [c.ref for one in messages for c in getattr(one, "calls", ())]
            told = [one.call_id for one in messages if isinstance(one, ToolMessage)]
            assert told == [f"{run.id}.{ref}" for ref in asked]


async def _moved(run: Any, seq: int) -> bool:
    view = await run.view()
    return view.status != "running" and view.seq > seq


NESTED = {
    "go": [[refund("A"), *hire("B")], *[say("A is done.")] * 4],
    "B": [[refund("B"), *hire("C")], *[say("B is done.")] * 4],
    "C": [refund("C"), say("C is done.")],
}


@pytest.mark.parametrize("order", list(itertools.permutations("ABC")), ids="".join)
async def test_another_process_goes_on_after_each_answer(place: Place, order: tuple[str, ...]):
    async with place.app(Markov(place, NESTED).machine) as app:
        run = await app.start("shop", "go", by="ann")
        await until(lambda: _asks(run, 3))
        holds = {hold.metadata["approval_id"][-1]: hold for hold in (await run.view()).holds}
    for left, name in enumerate(order):
        # One process takes the answer and is gone; another does what follows from it, and is gone.
        async with place.app(work=False) as app:
            await app.decide(holds[name], answer(name), by="ann")
        async with place.app(Markov(place, NESTED).machine) as app:
            view = await app.run(run.id).wait(timeout=20)
            assert len(view.holds) == 2 - left

    assert (view.status, view.output) == ("completed", "A is done.")
    assert said(view) == ['clerk.2 has ceded: "B is done."']
    assert sorted(place.world.read("approvals")) == ["A 10", "B 10", "C 10"]


@pytest.mark.parametrize("order", list(itertools.permutations("ABC")), ids="".join)
async def test_instances_below_one_another_are_resumed_in_any_order(
    place: Place, order: tuple[str, ...]
):
    shop = Markov(place, NESTED)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        await until(lambda: _asks(run, 3))
        holds = {hold.metadata["approval_id"][-1]: hold for hold in (await run.view()).holds}
        for name in order:
            await app.decide(holds[name], answer(name), by="ann")
        view = await completed(run)

    assert view.output == "A is done."
    assert said(view) == ['clerk.2 has ceded: "B is done."']
    told = [one.text for one in shop.shown["B"][-1] if isinstance(one, UserMessage)]
    assert told == ["B", 'clerk.3 has ceded: "C is done."']
    for name, word in (("A", "go"), ("B", "B"), ("C", "C")):
        assert shop.told(word)[0].result() == name


async def _asks(run: Any, count: int) -> bool:
    return len((await run.view()).holds) == count


# The failure classes that it shares with the others.


async def test_of_many_resumes_at_once_one_counts(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        ways = [app.decide(hold, answer(n), by="ann") for n in range(10)]
        ways += [app.decide(hold, fail(str(n)), by="ann") for n in range(10)]
        found = await asyncio.gather(*ways, return_exceptions=True)
        await completed(run)

        assert [type(one) for one in found].count(AlreadyDecided) == 19
        assert (await types(app, run)).count("run.resumed") == 1
    assert len(shop.shown["go"]) == 2


async def test_a_decision_and_a_command_that_resume_at_once_count_once(place: Place):
    shop = Markov(place, {"go": [refund("A"), say("Refunded.")]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        found = await asyncio.gather(
            app.decide(hold, answer("by hand"), by="ann"),
            app.command(run, "settle", {"value": "by command"}, by="ann"),
            return_exceptions=True,
        )
        await completed(run)

    decided, commanded = found
    (outcome,) = shop.told()
    if isinstance(decided, AlreadyDecided):
        assert outcome.result() == "by command"
        assert isinstance(commanded.outcome, Returned)  # type: ignore[union-attr]
    else:
        assert outcome.result() == "by hand"
        # The run may be over by the time that the command comes.
        late = isinstance(commanded, RunFinished)
        assert late or not isinstance(commanded.outcome, Returned)  # type: ignore[union-attr]


async def test_an_answer_as_fast_as_the_event_is_taken(place: Place):
    shop = Markov(place, TWO)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        async for entry in app.events(run):
            if entry.type == "hold.opened":
                hold = f"hold_{run.id.removeprefix('run_')}.{entry.event.hold}"
                await app.decide(hold, answer(OK), by="ann")

        assert (await run.view()).status == "completed"
    assert shop.approvals == ["A 10", "B 10"]


async def test_a_process_that_dies_right_after_the_resume_loses_nothing(place: Place):
    shop = Markov(place, TWO)
    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        view = await suspended(run)
    async with place.app(work=False) as app:
        for hold in view.holds:
            await app.decide(hold, answer(OK), by="ann")
    assert "A is done" not in str(said(view))

    again = Markov(place, TWO)
    async with place.app(again.machine) as app:
        view = await completed(app.run(run.id))

    assert sorted(said(view)) == [
        'clerk.2 has ceded: "A is done"',
        'clerk.3 has ceded: "B is done"',
    ]
    assert again.approvals == ["A 10", "B 10"]


async def test_an_instance_whose_model_fails_after_its_resume_tells_its_parent(place: Place):
    def broken(messages: Any) -> Any:
        raise ModelFailed("out of order")

    shop = Markov(place, {**TWO, "A": [refund("A"), broken]})

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        for hold in (await suspended(run)).holds:
            await app.decide(hold, answer(OK), by="ann")
        view = await completed(run)

    assert "out of order" in (tree(view)["clerk.2"].error or "")
    assert any(text.startswith("clerk.2 could not go on") for text in said(view))


async def test_cancelling_leaves_no_instance_and_no_hold(place: Place):
    async with place.app(Markov(place, TWO).machine) as app:
        run = await app.start("shop", "go", by="ann")
        holds = (await suspended(run)).holds
        await app.cancel(run, by="ann")
        view = await finished(run)

        assert view.status == "cancelled"
        assert set(statuses(view).values()) == {"closed"}
        assert not list(await app.holds())
        for hold in holds:
            with pytest.raises(AlreadyDecided):
                await app.decide(hold, answer(OK), by="ann")


async def test_whoever_holds_an_id_may_still_not_decide(place: Place):
    async with place.app(Markov(place, TWO).machine) as app:
        run = await app.start("shop", "go", by="ann")
        for hold in (await suspended(run)).holds:
            with pytest.raises(NotAllowed):
                await app.decide(hold.id, answer(OK), by="eve")
        with pytest.raises(NotAllowed):
            await app.command(run, "settle", {"value": 1}, by="eve", strand="clerk.2")

        assert len((await suspended(run)).holds) == 2


# Where the documents disagree, a machine can be set either way.


@pytest.mark.parametrize(
    "siblings, asked, told",
    [
        ("run", ["A", "B"], ["Returned", "Returned", "Returned"]),
        ("halt", ["A"], ["Returned", "Declined", "Declined"]),
        ("in_order", ["A"], ["Returned", "Returned", "Returned"]),
    ],
)
async def test_what_the_other_calls_of_a_turn_do_is_a_setting(
    place: Place, siblings: str, asked: list[str], told: list[str]
):
    turn = [refund("A"), call("look_up", {"order_id": "C"}), refund("B")]
    shop = Markov(place, {"go": [turn, say("Refunded.")]}, siblings=siblings)

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        holds = (await suspended(run)).holds
        assert [hold.args["order_id"] for hold in holds] == asked
        while (view := await run.wait()).holds:
            await app.decide(view.holds[0], answer(OK), by="ann")
            await until(lambda seen=view: _moved(run, seen.seq))

    assert [type(one).__name__ for one in shop.told()] == told


async def test_a_call_of_an_instance_may_be_gated_as_in_any_agent(place: Place):
    def check(call: Any) -> bool:
        return call.tool == "look_up"

    shop = Markov(
        place,
        {"go": [call("look_up", {"order_id": "A"}), say("Done.")]},
        check_for_intervention=check,
    )

    async with place.app(shop.machine) as app:
        run = await app.start("shop", "go", by="ann")
        hold = await held(run)
        assert (hold.kind, shop.effects) == ("approval", [])
        await app.decide(hold, approve(), by="ann")
        await completed(run)

    assert shop.effects == [hold.call_id]
