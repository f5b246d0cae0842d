"""What a durable body comes to: in memory and on SQLite, kept hot and parked at every wait.

Each test says once what must come of it, and is run all four ways.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from typing import Any

import pytest

from sayso import (
    Agent,
    Context,
    Failed,
    NotAnswered,
    NotDone,
    Returned,
    Sayso,
    StepFailed,
    answer,
    approve,
    fail,
    question,
    reject,
    tool,
)
from sayso.domain.call import Declined, Unknown
from sayso.errors import AlreadyDecided, BadValue, RunWaiting, StoreBusy, WrongVerdict
from sayso.store.base import Appended, Store, Write
from sayso.testing import ScriptedModel, call, say

from .kit import Delegate, Place, agent, completed, finished, held, suspended, tags, types, until
from .stage import Stage, check, durable, outcome, play_on, say_yes


@pytest.fixture(params=["hot", "parked"])
def stage(request: pytest.FixtureRequest, place: Place) -> Stage:
    return Stage(place, request.param)


def value(found: Any) -> Any:
    assert isinstance(found, Returned), found
    return found.result()


# Steps


async def test_what_a_step_gives_is_what_its_journal_gives(stage: Stage) -> None:
    seen: list[Any] = []

    async def work(ctx: Context) -> Any:
        pair = await ctx.step("pair", lambda: {"a": (1, 2.0), "b": None})
        seen.append(pair)
        pair["a"].append("mine")
        await ctx.ask("Go on?")
        return pair["a"]

    found = await stage.play(work)

    assert value(found) == [1, 2.0, "mine"]
    assert all(type(one["a"]) is list for one in seen)
    assert len(seen) == (1 if stage.hot else 2)


async def test_a_step_runs_once_however_often_its_body_does(stage: Stage) -> None:
    taken: list[str] = []
    passes: list[int] = []

    async def slowly(what: str) -> str:
        await asyncio.sleep(0)
        taken.append(what)
        return what

    async def work(ctx: Context) -> Any:
        passes.append(ctx.attempt)
        found = [await ctx.step("one", taken.append, "one", effect="none")]
        found.append(await ctx.ask("A?"))
        found.append(await ctx.step("two", slowly, "two", effect="keyed"))
        found.append(await ctx.ask("B?"))
        found.append(await ctx.step("three", slowly, "three"))
        return found

    found = await stage.play(work)

    assert value(found) == [None, "to A?", "two", "to B?", "three"]
    assert taken == ["one", "two", "three"]
    assert len(passes) == (1 if stage.hot else 3)


async def test_a_failed_step_fails_in_the_same_words_every_time(stage: Stage) -> None:
    seen: list[tuple[str, str]] = []

    def break_down() -> None:
        raise KeyError("rate")

    async def work(ctx: Context) -> Any:
        try:
            await ctx.step("break", break_down)
        except StepFailed as error:
            seen.append((error.kind, str(error)))
        await ctx.ask("Go on?")
        return seen[-1]

    found = await stage.play(work)

    assert len(set(seen)) == 1
    assert seen[0][0] == "KeyError"
    assert "'break'" in seen[0][1]
    assert value(found) == list(seen[0])
    assert len(seen) == (1 if stage.hot else 2)


async def test_a_failed_step_that_nobody_catches_is_the_calls_failure(stage: Stage) -> None:
    async def work(ctx: Context) -> None:
        await ctx.ask("Go on?")
        await ctx.step("break", lambda: 1 / 0)

    found = await stage.play(work)

    assert isinstance(found, Failed)
    assert found.error == "StepFailed"
    assert "ZeroDivisionError" in found.message


@pytest.mark.parametrize(
    "name, fn, args, effect, said",
    [
        ("", len, (), "once", "cannot name a step"),
        ("x" * 201, len, (), "once", "cannot name a step"),
        (7, len, (), "once", "cannot name a step"),
        ("a", "len", (), "once", "is given a function"),
        ("a", len, (), "twice", "no effect of the step"),
        ("a", len, (object(),), "once", ""),
    ],
)
async def test_a_step_that_cannot_be_kept_is_refused_before_it_is_taken(
    file_place: Place, name: Any, fn: Any, args: Any, effect: str, said: str
) -> None:
    async def work(ctx: Context) -> None:
        await ctx.step(name, fn, *args, effect=effect)

    found = await Stage(file_place, "hot").play(work)

    assert isinstance(found, Failed)
    assert found.error in ("BadTool", "BadValue")
    assert said in found.message


# Asking


async def test_answers_arrive_where_they_were_asked(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        hotel = await ctx.ask("Hotel?", options=["Ritz", "Ibis"])
        nights = await ctx.ask(question("Nights?", kind="number"))
        secret = await ctx.ask(question("Card?", sensitive=True))
        told.append(secret)
        return [hotel, nights, len(secret)]

    told: list[str] = []
    answers = {"Hotel?": "Ibis", "Nights?": 3, "Card?": "4111"}
    found = await stage.play(work, lambda hold: answer(answers[hold.title]))

    assert value(found) == ["Ibis", 3, 4]
    assert told == ["4111"]


async def test_a_sensitive_answer_is_in_nothing_that_its_body_says(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        secret = await ctx.ask(question("Card?", sensitive=True))
        return {"card": f"it is {secret}", secret: [secret, 4111]}

    found = await stage.play(work, lambda _: answer("4111"))

    assert value(found) == {"card": "it is [secret]", "[secret]": ["[secret]", 4111]}


async def test_what_is_asked_at_once_is_answered_in_any_order(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        return await ctx.ask_all(["A?", "B?", "C?"])

    async with stage.app(work) as app:
        for order in itertools.permutations(range(3)):
            run = await app.start("worker", "Go", by="mira")
            holds = (await suspended(run)).holds
            assert len({hold.request_id for hold in holds}) == 1
            for index in order:
                assert (await run.status()) == "suspended"
                await app.decide(holds[index], answer("abc"[index]), by="mira")

            assert value(outcome(await completed(run))) == ["a", "b", "c"]
        await check(app.store)


async def test_nothing_asked_at_once_is_refused(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        with pytest.raises(BadValue):
            await ctx.ask_all([])
        return "none"

    assert value(await stage.play(work)) == "none"


@pytest.mark.parametrize("way", ["yes", "no", "expired"])
async def test_an_approval_inside_a_body_says_what_was_said(stage: Stage, way: str) -> None:
    async def work(ctx: Context) -> Any:
        said = await ctx.approval("Book?", why="It is dear.", within="1h")
        return [bool(said), said.reason, said.by]

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title, hold.why) == ("approval", "Book?", "It is dear.")
        if way == "expired":
            stage.place.clock.advance("2h")
            await app.sweep()
        else:
            verdict = approve() if way == "yes" else reject("too dear")
            await app.decide(hold, verdict, by="mira")
        found = value(outcome(await completed(run)))

    yes, reason, by = found
    assert yes is (way == "yes")
    assert "mira" in by or way == "expired"
    assert reason == {"yes": "approved", "no": "too dear", "expired": "expired"}[way]


@pytest.mark.parametrize("way", ["rejected", "expired", "withdrawn", "errored"])
async def test_a_question_without_an_answer_says_why(stage: Stage, way: str) -> None:
    async def work(ctx: Context) -> Any:
        try:
            await ctx.ask("A?", within="1h")
        except NotAnswered as error:
            return [error.decision.word, await ctx.step("after", lambda: "went on")]

    async with stage.app(agents=(agent([call("work"), say("1"), say("2")], durable(work)),)) as app:
        run = await app.start("teller", "Go", by="mira")
        hold = await held(run)
        match way:
            case "rejected":
                await app.decide(hold, reject("no"), by="mira")
            case "errored":
                await app.decide(hold, fail("no"), by="mira")
            case "expired":
                stage.place.clock.advance("2h")
                await app.sweep()
            case _:
                with pytest.raises(RunWaiting):
                    await app.say(run, "Never mind", by="mira")
                await app.say(run, "Never mind", by="mira", supersede=True)
        view = await completed(run)
        await check(app.store)

    assert value(outcome(view)) == [way, "went on"]
    assert view.output == "1" or way == "withdrawn"


@pytest.mark.parametrize("way", ["answer", "fail"])
async def test_what_happens_outside_arrives_inside(stage: Stage, way: str) -> None:
    async def work(ctx: Context) -> Any:
        try:
            return await ctx.external("Parcel", metadata={"track": 7})
        except NotAnswered as error:
            return str(error)

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.metadata) == ("external", {"track": 7})
        verdict = answer({"at": [1, 2]}) if way == "answer" else fail("lost at sea")
        await app.decide(hold, verdict, by="mira")
        found = value(outcome(await completed(run)))

    assert found == {"at": [1, 2]} if way == "answer" else "errored" in found


# How a body ends


async def test_a_wait_takes_no_time_of_its_body(stage: Stage) -> None:
    async def work(ctx: Context) -> str:
        await asyncio.sleep(0.02)
        await ctx.ask("A?")
        await asyncio.sleep(0.02)
        return "in time"

    body = durable(work, timeout="5s")
    async with stage.app(body) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        stage.place.clock.advance("1h")
        await app.decide(hold, answer("x"), by="mira")

        assert value(outcome(await completed(run))) == "in time"


@pytest.mark.parametrize("where", ["outside", "none", "once"])
async def test_a_leg_that_takes_too_long_is_cut_off(stage: Stage, where: str) -> None:
    begun: list[str] = []

    async def never() -> str:
        begun.append(where)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return "at last"

    async def work(ctx: Context) -> str:
        await ctx.ask("A?")
        if where == "outside":
            return await never()
        return await ctx.step("wait", never, effect=where)

    doubts: list[str] = []

    def decide(hold: Any) -> Any:
        if hold.kind == "in_doubt":
            doubts.append(hold.doubt)
            return answer("it did")
        return say_yes(hold)

    found = await stage.play(durable(work, timeout="0.2s"), decide)

    match where:
        case "outside":
            assert isinstance(found, Failed)
            assert found.error == "Interrupted"
        case "none":
            assert value(found) == "at last"
            assert len(begun) == 2
        case _:
            assert value(found) == "it did"
            assert "at its step 'wait'" in doubts[0]
            assert len(begun) == 1


async def test_a_body_that_raises_fails_its_call(stage: Stage) -> None:
    async def work(ctx: Context) -> str:
        await ctx.ask("A?")
        raise LookupError("nobody there")

    found = await stage.play(work)

    assert found == Failed(error="LookupError", message="nobody there")


async def test_a_body_that_has_done_nothing_may_start_again(stage: Stage) -> None:
    tries: list[int] = []

    async def work(ctx: Context) -> str:
        tries.append(ctx.attempt)
        if len(tries) < 3:
            raise NotDone("busy")
        return await ctx.ask("A?")

    assert value(await stage.play(work)) == "to A?"
    assert tries[:3] == [1, 2, 3]


async def test_a_body_that_has_taken_a_step_cannot_say_that_nothing_was_done(stage: Stage) -> None:
    async def work(ctx: Context) -> str:
        await ctx.step("one", lambda: 1)
        raise NotDone("busy")

    assert await stage.play(work) == Failed(error="NotDone", message="busy")


async def test_a_move_that_a_body_makes_counts_hot_or_parked(stage: Stage) -> None:
    async def work(ctx: Context) -> str:
        await ctx.ask("A?")
        ctx.moves.append("north")
        return "moved"

    found = await stage.play(work)

    # A plain agent has nowhere to go: what matters is that the wish was heard.
    assert isinstance(found, Failed)
    assert "north" in found.message


# Steps in doubt


@pytest.mark.parametrize("effect", ["none", "keyed"])
async def test_a_step_that_may_be_repeated_fails_when_its_line_goes_dead(
    stage: Stage, effect: str
) -> None:
    def lose() -> None:
        raise ConnectionResetError("gone")

    async def work(ctx: Context) -> str:
        with pytest.raises(StepFailed) as caught:
            await ctx.step("lose", lose, effect=effect)
        return caught.value.kind

    assert value(await stage.play(work)) == "ConnectionResetError"


VERDICTS = {
    "approve": (approve(), ["paid 2"], 2),
    "answer": (answer("it did"), ["it did"], 1),
    "reject": (reject("it did not"), ["Declined", "it did not"], 1),
    "fail": (fail("who knows"), ["Unknown", "who knows"], 1),
}


@pytest.mark.parametrize("name", VERDICTS)
async def test_a_once_step_that_lost_its_line_asks_and_does_as_told(
    stage: Stage, name: str
) -> None:
    verdict, told, times = VERDICTS[name]
    paid: list[int] = []

    def pay() -> str:
        paid.append(1)
        if len(paid) == 1:
            raise ConnectionResetError("gone")
        return f"paid {len(paid)}"

    async def work(ctx: Context) -> Any:
        await ctx.step("first", lambda: "first")
        try:
            found = [await ctx.step("pay", pay)]
        except StepFailed as error:
            found = [error.kind, str(error).rpartition(": ")[2]]
        await ctx.ask("Go on?")
        return found

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        doubt = await held(run)
        assert doubt.kind == "in_doubt"
        assert "ConnectionResetError" in doubt.doubt
        await app.decide(doubt, verdict, by="mira")
        with pytest.raises(AlreadyDecided):
            await app.decide(doubt, reject("late"), by="mira")
        found = outcome(await play_on(app, run))
        await check(app.store)

    assert value(found) == told
    assert len(paid) == times


async def test_every_new_start_of_a_step_takes_a_new_decision(stage: Stage) -> None:
    paid: list[int] = []

    def pay() -> str:
        paid.append(1)
        if len(paid) < 4:
            raise TimeoutError
        return "paid"

    async def work(ctx: Context) -> str:
        return await ctx.step("pay", pay)

    asked: Counter[str] = Counter()

    def decide(hold: Any) -> Any:
        asked[hold.kind] += 1
        return approve()

    assert value(await stage.play(work, decide)) == "paid"
    assert (len(paid), asked["in_doubt"]) == (4, 3)


async def test_a_step_that_is_cut_off_again_and_again_is_asked_about(stage: Stage) -> None:
    begun: list[int] = []

    async def cut() -> None:
        begun.append(1)
        raise asyncio.CancelledError

    async def work(ctx: Context) -> str:
        return await ctx.step("cut", cut, effect="keyed")

    kinds: list[str] = []

    def decide(hold: Any) -> Any:
        kinds.append(hold.kind)
        return answer("enough")

    assert value(await stage.play(work, decide)) == "enough"
    assert kinds == ["in_doubt"]
    assert len(begun) == 5


# Bodies whose code has changed


async def first_body(ctx: Context, took: list[str]) -> Any:
    a = await ctx.step("one", _note(took, "one"), 1)
    b = await ctx.ask("A?")
    c = await ctx.step("two", _note(took, "two"), 2)
    d = await ctx.ask("B?")
    return [a, b, c, d]


async def other_name(ctx: Context, took: list[str]) -> Any:
    await ctx.step("eins", _note(took, "eins"), 1)


async def other_arguments(ctx: Context, took: list[str]) -> Any:
    await ctx.step("one", _note(took, "one"), 99)


async def other_order(ctx: Context, took: list[str]) -> Any:
    await ctx.ask("A?")


async def other_question(ctx: Context, took: list[str]) -> Any:
    await ctx.step("one", _note(took, "one"), 1)
    await ctx.ask("A, really?")


async def more_questions(ctx: Context, took: list[str]) -> Any:
    await ctx.step("one", _note(took, "one"), 1)
    await ctx.ask_all(["A?", "B?"])


async def fewer_steps(ctx: Context, took: list[str]) -> Any:
    return await ctx.step("one", _note(took, "one"), 1)


async def raises_early(ctx: Context, took: list[str]) -> Any:
    raise ValueError("new code")


async def swallows_everything(ctx: Context, took: list[str]) -> Any:
    try:
        await ctx.step("eins", _note(took, "eins"), 1)
    except BaseException:
        await ctx.step("zwei", _note(took, "zwei"), 2)
    return "went on"


def _note(took: list[str], name: str) -> Any:
    def note(number: int) -> int:
        took.append(name)
        return number

    return note


CHANGES = [
    (other_name, "at place 1 the journal has the step 'one', and it came to the step 'eins'"),
    (other_arguments, "at place 1 the journal has the step 'one', and it came to the step 'one', "),
    (other_order, "at place 1 the journal has the step 'one', and it came to a question"),
    (other_question, "at place 2 the journal has a question, and it came to a question, with"),
    (more_questions, "at place 2 the journal has a question, and it came to a question, with"),
    (fewer_steps, "it ended 3 places before its journal does"),
    (raises_early, "it ended 4 places before its journal does"),
    (swallows_everything, "at place 1"),
    (None, "is not durable any more"),
]


@pytest.mark.parametrize("changed, where", CHANGES)
async def test_a_body_whose_code_has_changed_stops_and_says_where(
    place: Place, changed: Any, where: str
) -> None:
    took: list[str] = []

    def make(body: Any) -> Any:
        async def work(ctx: Context) -> Any:
            if body is None:
                took.append("plain")
                return "plain"
            return await body(ctx, took)

        return tool(durable=body is not None)(work)

    stage = Stage(place, "parked")
    async with stage.app(make(first_body)) as app:
        run = await app.start("worker", "Go", by="mira")
        await app.decide(await held(run), answer("a"), by="mira")
        until_b = await held(run)
        assert until_b.title == "B?"
    async with stage.app(make(changed)) as app:
        run = app.run(run.id)
        await app.decide(until_b, answer("b"), by="mira")
        doubt = await held(run)
        assert doubt.kind == "in_doubt"
        assert where in doubt.doubt
        assert took == ["one", "two"]
    # With its old code back, a yes lets it go on to where it was.
    async with stage.app(make(first_body)) as app:
        run = app.run(run.id)
        await app.decide(doubt, approve(), by="mira")

        assert value(outcome(await completed(run))) == [1, "a", 2, "b"]
        assert took == ["one", "two"]
        await check(app.store)


async def test_a_tool_that_is_gone_ends_its_call(place: Place) -> None:
    async def work(ctx: Context) -> Any:
        return await ctx.ask("A?")

    async def idle(ctx: Context) -> Any:
        return None

    stage = Stage(place, "parked")
    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
    async with stage.app(idle) as app:
        run = app.run(run.id)
        await app.decide(hold, answer("a"), by="mira")
        found = outcome(await completed(run))

    assert isinstance(found, Failed)
    assert found.error == "UnknownTool"


# Several bodies, several processes


async def test_a_body_that_waits_goes_on_in_another_process(stage: Stage) -> None:
    took: list[str] = []

    async def work(ctx: Context) -> Any:
        one = await ctx.step("one", _note(took, "one"), 1)
        return [one, await ctx.ask("A?")]

    async with stage.app(work) as first:
        run = await first.start("worker", "Go", by="mira")
        hold = await held(run)
    async with stage.app(work) as second:
        await second.decide(hold.id, answer("a"), by="mira")

        assert value(outcome(await completed(second.run(run.id)))) == [1, "a"]
        assert took == ["one"]


async def test_a_body_here_is_answered_from_a_desk_elsewhere(stage: Stage) -> None:
    passes: list[int] = []

    async def work(ctx: Context) -> Any:
        passes.append(ctx.attempt)
        return [await ctx.ask("A?"), await ctx.ask("B?")]

    async with stage.app(work) as first, stage.app(work, work=False) as desk:
        run = await first.start("worker", "Go", by="mira")
        elsewhere = desk.run(run.id)
        view = await play_on(desk, elsewhere)

        assert value(outcome(view)) == ["to A?", "to B?"]
        assert len(passes) == (1 if stage.hot else 3)


async def test_a_body_hot_here_and_answered_there_goes_on_once(stage: Stage) -> None:
    took: list[str] = []

    async def work(ctx: Context) -> Any:
        a = await ctx.ask("A?")
        return [a, await ctx.step("one", _note(took, "one"), 1)]

    # Both have a worker: whichever takes the run, the step is taken once.
    async with stage.app(work) as first, stage.app(work) as second:
        for _ in range(5):
            took.clear()
            run = await first.start("worker", "Go", by="mira")
            await second.decide(await held(run), answer("a"), by="mira")

            assert value(outcome(await completed(run))) == ["a", 1]
            assert took == ["one"]
        await check(first.store)


async def test_more_bodies_than_are_kept_come_to_the_same(place: Place) -> None:
    passes: Counter[str] = Counter()

    async def work(ctx: Context) -> Any:
        passes[ctx.run_id] += 1
        return await ctx.ask("A?")

    stage = Stage(place, "hot")
    async with stage.app(work, bounds=stage.bounds(bodies_max=2)) as app:
        runs = [await app.start("worker", "Go", by="mira") for _ in range(5)]
        for run in runs:
            await suspended(run)
        for run in runs:
            assert value(outcome(await play_on(app, run))) == "to A?"

    # The first three had to make room.
    assert [passes[run.id] for run in runs] == [2, 2, 2, 1, 1]


async def test_an_older_body_of_a_call_is_let_go_for_the_newer(place: Place) -> None:
    left: list[str] = []

    async def work(ctx: Context) -> Any:
        try:
            a = await ctx.ask("A?")
        except asyncio.CancelledError:
            left.append("let go")
            raise
        return [a, await ctx.ask("B?")]

    async def changed(ctx: Context) -> Any:
        return "changed"

    changed.__name__ = "work"
    stage = Stage(place, "hot")
    async with stage.app(work) as first:
        run = await first.start("worker", "Go", by="mira")
        hold = await held(run)
        async with stage.app(changed) as second:
            # Whoever decides goes on with it, and there it comes to something else.
            await second.decide(hold, answer("a"), by="mira")
            doubt = await held(second.run(run.id))
        assert not left
        await first.decide(doubt, approve(), by="mira")
        hold = await held(run)
        assert hold.title == "B?"
        await until(lambda: left, "the end of the older one")
        await first.decide(hold, answer("b"), by="mira")

        assert value(outcome(await completed(run))) == ["a", "b"]


async def test_bodies_of_one_turn_wait_beside_each_other(stage: Stage) -> None:
    async def one(ctx: Context) -> Any:
        return await ctx.ask("A?")

    async def two(ctx: Context) -> Any:
        return [await ctx.step("two", lambda: 2), await ctx.ask("B?"), await ctx.ask("C?")]

    async with stage.app(one, two) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run)

    found = [m.outcome.result() for m in view.messages if hasattr(m, "outcome")]
    assert found == ["to A?", [2, "to B?", "to C?"]]


# Cancelling


async def test_a_body_that_waits_is_cancelled_with_its_run(stage: Stage) -> None:
    went_on: list[str] = []

    async def work(ctx: Context) -> Any:
        try:
            await ctx.ask("A?")
            went_on.append("answered")
        finally:
            await ctx.step("after", went_on.append, "after")

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
        await app.cancel(run, by="mira")
        view = await finished(run)
        assert view.status == "cancelled"
        assert not await app.holds(by="mira")
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, answer("late"), by="mira")
        await check(app.store)
    assert not went_on
    (found,) = [m.outcome for m in view.messages if hasattr(m, "outcome")]
    assert found.error == "Cancelled"


async def test_a_step_under_way_ends_before_its_run_does(stage: Stage) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    took: list[str] = []

    async def slow() -> str:
        begun.set()
        await go.wait()
        took.append("slow")
        return "slow"

    async def work(ctx: Context) -> Any:
        await ctx.step("slow", slow)
        try:
            await ctx.step("next", took.append, "next")
        except Exception:
            return "as if nothing had happened"

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        await begun.wait()
        await app.cancel(run, by="mira")
        assert (await run.view()).cancelling
        go.set()
        view = await finished(run)
        assert view.status == "cancelled"
        names = await types(app, run)
        await check(app.store)
    assert took == ["slow"]
    assert names.count("step.finished") == 1
    (found,) = [m.outcome for m in view.messages if hasattr(m, "outcome")]
    assert isinstance(found, Failed), found
    assert found.error == "Cancelled"


async def test_a_step_in_doubt_is_looked_into_although_its_run_is_to_end(stage: Stage) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def lose() -> None:
        begun.set()
        await go.wait()
        raise ConnectionResetError("gone")

    async def work(ctx: Context) -> Any:
        await ctx.step("lose", lose)

    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        await begun.wait()
        await app.cancel(run, by="mira")
        go.set()
        doubt = await held(run)
        with pytest.raises(WrongVerdict):
            await app.decide(doubt, approve(), by="mira")
        await app.decide(doubt, fail("who knows"), by="mira")
        view = await finished(run)

    assert view.status == "cancelled"
    (found,) = [m.outcome for m in view.messages if hasattr(m, "outcome")]
    assert isinstance(found, Unknown | Declined), found


# Standing still


class Late(Delegate):
    """A store that takes a while over one append, by a clock that only we move."""

    def __init__(self, inner: Store, place: Place, at: str, times: int = 1) -> None:
        super().__init__(inner)
        self.place, self.at, self.times = place, at, times

    def append(self, *writes: Write) -> Any:
        answer = self.inner.append(*writes)
        if self.at in tags(writes) and self.times:
            self.times -= 1
            return asyncio.ensure_future(self._late(answer))
        return answer

    async def _late(self, answer: Any) -> Appended:
        found = await answer
        self.place.clock.advance("3s")
        return found


@pytest.mark.parametrize("at", ["call.started", "step.started", "call.continued"])
async def test_who_stood_still_does_not_begin_but_begins_again(stage: Stage, at: str) -> None:
    took: list[str] = []
    entered: list[int] = []

    async def work(ctx: Context) -> Any:
        entered.append(ctx.attempt)
        a = await ctx.ask("A?")
        return [a, await ctx.step("one", _note(took, "one"), 1)]

    async with stage.app(work, wrap=lambda store: Late(store, stage.place, at)) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run)
        names = await types(app, run)
        await check(app.store)

    assert value(outcome(view)) == ["to A?", 1]
    assert took == ["one"]
    if at == "step.started":
        assert names.count("step.voided") == 1
        assert names.count("step.started") == 2
    if at == "call.started":
        assert entered[0] == 2
    if at == "call.continued":
        assert names.count("body.parked") == 1


async def test_a_changed_body_that_is_approved_late_goes_on_later(place: Place) -> None:
    """A yes to a body in doubt starts a call that has taken steps: it must not start anew."""
    took: list[str] = []

    async def work(ctx: Context) -> Any:
        return [await ctx.step("one", _note(took, "one"), 1), await ctx.ask("A?")]

    async def changed(ctx: Context) -> Any:
        return "changed"

    changed.__name__ = "work"
    stage = Stage(place, "parked")
    async with stage.app(work) as app:
        run = await app.start("worker", "Go", by="mira")
        hold = await held(run)
    async with stage.app(changed) as app:
        await app.decide(hold, answer("a"), by="mira")
        doubt = await held(app.run(run.id))
    async with stage.app(work, wrap=lambda store: Late(store, place, "call.started")) as app:
        await app.decide(doubt, approve(), by="mira")

        assert value(outcome(await completed(app.run(run.id)))) == [1, "a"]
        assert took == ["one"]
        await check(app.store)


class Stuck(Delegate):
    """A store that keeps one append until it is told to go on."""

    def __init__(self, inner: Store, at: str) -> None:
        super().__init__(inner)
        self.at: str | None = at
        self.go_on = asyncio.Event()

    def append(self, *writes: Write) -> Any:
        if self.at not in tags(writes):
            return self.inner.append(*writes)
        self.at = None
        return asyncio.ensure_future(self._later(writes))

    async def _later(self, writes: Any) -> Appended:
        await self.go_on.wait()
        return await self.inner.append(*writes)


@pytest.mark.parametrize("at", ["step.started", "hold.opened"])
async def test_the_time_that_the_store_takes_is_not_the_bodys(stage: Stage, at: str) -> None:
    took: list[str] = []
    stuck: list[Stuck] = []

    async def work(ctx: Context) -> Any:
        return [await ctx.step("one", _note(took, "one"), 1), await ctx.ask("A?")]

    def wrap(store: Store) -> Any:
        stuck.append(Stuck(store, at))
        return stuck[0]

    async with stage.app(durable(work, timeout="0.2s"), wrap=wrap) as app:
        run = await app.start("worker", "Go", by="mira")
        await asyncio.sleep(0.4)  # Longer than the body may take.
        stuck[0].go_on.set()
        view = await play_on(app, run)
        names = await types(app, run)
        await check(app.store)

    assert value(outcome(view)) == [1, "to A?"]
    assert took == ["one"]
    assert names.count("hold.opened") == 1


class Sick(Delegate):
    """A store that is busy for a while when something is first appended."""

    def __init__(self, inner: Store, at: str) -> None:
        super().__init__(inner)
        self.at, self.left = at, 1

    def append(self, *writes: Write) -> Any:
        if self.at in tags(writes) and self.left:
            self.left -= 1
            return asyncio.ensure_future(_busy())
        return self.inner.append(*writes)


async def _busy() -> Appended:
    raise StoreBusy


@pytest.mark.parametrize("at", ["step.started", "step.finished", "hold.opened", "call.continued"])
async def test_a_store_that_is_busy_is_nothing_to_the_body(stage: Stage, at: str) -> None:
    took: list[str] = []
    caught: list[str] = []

    async def work(ctx: Context) -> Any:
        try:
            one = await ctx.step("one", _note(took, "one"), 1)
            return [one, await ctx.ask("A?")]
        except Exception as error:
            caught.append(type(error).__name__)
            return "went on without"

    async with stage.app(work, wrap=lambda store: Sick(store, at)) as app:
        run = await app.start("worker", "Go", by="mira")
        view = await play_on(app, run, lambda hold: answer("a"))
        await check(app.store)

    assert value(outcome(view)) == [1, "a"]
    assert took == ["one"]
    assert set(caught) <= {"BodyGone"}


async def test_a_durable_command_waits_like_any_call(stage: Stage) -> None:
    async def work(ctx: Context) -> Any:
        return [await ctx.step("one", lambda: 1), await ctx.ask("A?"), str(ctx.by)]

    async def idle(ctx: Context) -> Any:
        return await ctx.ask("Idle?")

    found = Agent(
        "worker",
        model=ScriptedModel([call("idle"), say("Done.")]),
        tools=[durable(idle)],
        commands=[durable(work)],
    )
    async with stage.app(agents=(found,)) as app:
        run = await app.start("worker", "Go", by="mira")
        await held(run)
        command = await app.command(run, "work", {}, by="mira")
        assert command.status == "held"
        await app.decide(command.holds[0], answer("a"), by="mira")
        await until(lambda: _answered(app, run), "the command's outcome")
        view = await play_on(app, run)
        await check(app.store)

    assert view.status == "completed"


async def _answered(app: Sayso, run: Any) -> bool:
    return (await types(app, run)).count("call.finished") == 1
