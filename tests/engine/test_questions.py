"""Questions: every kind, by every way to ask one.

Method: each kind of question with answers that fit and answers that do not, asked by `ask_user`, by
a blocking tool, by a body that suspends and by a durable body. An answer that does not fit changes
nothing; the next one that does is the outcome. What is sensitive is looked for in everything that
is kept, shown, logged or sent.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from sayso import (
    Bounds,
    Context,
    Declined,
    Failed,
    NotAnswered,
    Returned,
    Sayso,
    ToolMessage,
    answer,
    anyone,
    approve,
    ask_user,
    fail,
    question,
    reject,
    tool,
    user,
)
from sayso.domain import codec
from sayso.domain.digest import request_digest
from sayso.domain.hold import Expired
from sayso.errors import (
    AlreadyDecided,
    BadAnswer,
    BadTool,
    BadValue,
    HoldExpired,
    KeyReused,
    NotAllowed,
    WrongVerdict,
)
from sayso.testing import call, say

from .kit import QUICK, Place, agent, completed, entries, held, journal, suspended

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
    "additionalProperties": False,
}
OPTIONS = [
    {"label": "Mercury (planet)", "value": "planet", "description": "close to the sun"},
    {"label": "Mercury (element)", "value": "element"},
]
KINDS: list[tuple[str, dict[str, Any], Any, list[Any]]] = [
    ("text", {"length_max": 10, "pattern": "[a-z]+"}, "blue", [7, "", "way too long for it", "B1"]),
    ("choice", {"options": OPTIONS}, "planet", ["Mercury (planet)", 1, ["planet"], None]),
    (
        "choices",
        {"kind": "choices", "options": ["a", "b", "c"], "picks_min": 1, "picks_max": 2},
        ["a", "c"],
        [[], ["a", "b", "c"], ["a", "a"], ["x"], "a"],
    ),
    ("yes_no", {"kind": "yes_no"}, False, ["no", 0, None]),
    ("number", {"kind": "number", "number_min": 1, "number_max": 9}, 4.5, [0, 10, "4", True]),
    ("date", {"kind": "date"}, "2026-11-16", ["16.11.2026", "2026-13-01", 20261116]),
    ("form", {"schema": FORM}, {"name": "Ann", "age": 3}, [{}, {"name": 1}, {"name": "A", "x": 1}]),
]
WAYS = ("blocking", "suspending", "durable")
COLD = Bounds(look_s=0.02, backoff_s=0.01, backoff_max_s=0.05, stay_hot_s=0)


def asking(way: str, words: dict[str, Any], seen: list[Any], **who: Any) -> Any:
    """A tool that asks by one of the ways."""
    asked = question("What is it?", **words)

    if way == "blocking":

        @tool(name="find", blocking=True, asks=asked, **who)
        async def blocking() -> None:
            seen.append("prepared")

        return blocking

    @tool(name="find")
    async def suspending(ctx: Context) -> Any:
        seen.append("prepared")
        return ctx.suspend(asked, **who)

    @tool(name="find", durable=True)
    async def durable(ctx: Context) -> Any:
        found = await ctx.ask(asked, **who)
        seen.append(found)
        return found

    return {"suspending": suspending, "durable": durable}[way]


def finder(way: str, words: dict[str, Any], seen: list[Any], **who: Any) -> Any:
    return agent([call("find"), say("Done.")], asking(way, words, seen, **who))


def outcome(view: Any) -> Any:
    (told,) = [message for message in view.messages if isinstance(message, ToolMessage)]
    return told.outcome


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind, words, good, bad", KINDS, ids=[kind for kind, *_ in KINDS])
async def test_an_answer_that_fits_is_the_outcome_and_one_that_does_not_changes_nothing(
    place: Place, way: str, kind: str, words: dict[str, Any], good: Any, bad: list[Any]
) -> None:
    async with place.app(finder(way, words, [])) as app:
        run = await app.start("teller", "find out", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title) == ("question", "What is it?")
        assert hold.question is not None
        assert hold.question.kind == kind
        before = (await run.view()).seq

        for wrong in bad:
            with pytest.raises(BadAnswer) as refused:
                await app.decide(hold, answer(wrong), by="mira")
            assert refused.value.problems
        for odd in (approve(), approve(args={})):
            with pytest.raises(WrongVerdict):
                await app.decide(hold, odd, by="mira")
        assert (await run.view()).seq == before
        assert (await app.hold(hold)).status == "open"

        await app.decide(hold, answer(good), by="mira")
        view = await completed(run)
        assert outcome(view).result() == good


@pytest.mark.parametrize("kind, words, good, bad", KINDS, ids=[kind for kind, *_ in KINDS])
async def test_a_model_asks_every_kind_of_question(
    place: Place, kind: str, words: dict[str, Any], good: Any, bad: list[Any]
) -> None:
    told = {key: words[key] for key in ("options", "schema") if key in words}
    if "options" in told:
        told["options"] = [
            {"label": one, "value": one} if isinstance(one, str) else one for one in told["options"]
        ]
    asked = call("ask_user", {"question": "What is it?", "kind": kind, **told})
    async with place.app(agent([asked, say("Done.")], ask_user())) as app:
        run = await app.start("teller", "find out", by="mira")
        hold = await held(run)
        with pytest.raises(BadAnswer):
            await app.decide(hold, answer({"no": "such"}), by="mira")

        await app.decide(hold, answer(good), by="mira")

        assert outcome(await completed(run)).result() == good


async def test_options_are_shown_with_label_value_and_description(place: Place) -> None:
    asked = call("ask_user", {"question": "Which?", "options": OPTIONS})
    async with place.app(agent([asked, say("Done.")], ask_user())) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

        assert hold.question is not None
        first, second = hold.question.options
        assert (first.label, first.value) == ("Mercury (planet)", "planet")
        assert (first.description, second.description) == ("close to the sun", "")


async def test_message_is_taken_for_question(place: Place) -> None:
    script = [call("ask_user", {"message": "Who are you?"}), say("Done.")]
    async with place.app(agent(script, ask_user())) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

        assert hold.question is not None
        assert hold.question.text == "Who are you?"


BAD_ASKS: list[dict[str, Any]] = [
    {},
    {"question": ""},
    {"question": "  "},
    {"question": 3},
    {"question": "Which?", "kind": "choice"},
    {"question": "Which?", "kind": "choices", "options": []},
    {"question": "Which?", "options": [{"label": "no value"}]},
    {"question": "Which?", "options": [{"value": "a", "label": "A"}, {"value": "a", "label": "B"}]},
    {"question": "Which?", "kind": "buttons"},
    {"question": "Fill in", "kind": "form"},
    {"question": "Fill in", "schema": {"type": "nonsense"}},
    {"question": "Hm?", "colour": "red"},
]


@pytest.mark.parametrize("args", BAD_ASKS)
async def test_what_nobody_could_answer_is_an_error_for_the_model_and_no_hold(
    place: Place, args: dict[str, Any]
) -> None:
    script = [call("ask_user", args), call("ask_user", {"question": "Well?"}), say("Done.")]
    async with place.app(agent(script, ask_user())) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)

        assert hold.question is not None
        assert hold.question.text == "Well?"
        first = outcome(await run.view())
        assert isinstance(first, Failed)
        assert first.error == "BadArguments"


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_may_be_declined(place: Place, way: str) -> None:
    async with place.app(finder(way, {}, [])) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), reject("none of your business"), by="mira")

        found = outcome(await completed(run))
        if way == "durable":
            why = "there is no answer: rejected by mira: none of your business"
            assert found == Failed(error="NotAnswered", message=why)
        else:
            assert found == Declined(reason="none of your business", by="mira")


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_may_come_to_nothing(place: Place, way: str) -> None:
    async with place.app(finder(way, {}, [])) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), fail("the archive has burnt down"), by="mira")

        found = outcome(await completed(run))
        assert isinstance(found, Failed)
        assert found.message.endswith("the archive has burnt down")
        assert found.error == ("NotAnswered" if way == "durable" else "Errored")


@pytest.mark.parametrize("way", WAYS)
async def test_a_question_may_expire_and_late_is_late(place: Place, way: str) -> None:
    async with place.app(finder(way, {}, [], within="1h")) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        place.clock.advance("1h")
        with pytest.raises(HoldExpired):
            await app.decide(hold, answer("late"), by="mira")

        view = await completed(run)
        settled = await app.hold(hold)
        assert settled.decision is not None
        assert isinstance(settled.decision.verdict, Expired)
        found = outcome(view)
        assert isinstance(found, Failed if way == "durable" else Declined)


@pytest.mark.parametrize("way", WAYS)
async def test_silence_answers_with_the_default(place: Place, way: str) -> None:
    words = {"within": "1h", "on_silence": "answer"}
    async with place.app(finder(way, {"default": "blue"}, [], **words)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        place.clock.advance("1h")
        await app.sweep()

        found = outcome(await completed(run))
        assert isinstance(found, Returned)
        assert found.result() == "blue"
        settled = await app.hold(hold)
        assert settled.decision is not None
        assert isinstance(settled.decision.verdict, Expired)


async def test_a_body_may_catch_that_there_is_no_answer(place: Place) -> None:
    @tool(durable=True)
    async def find(ctx: Context) -> str:
        try:
            return await ctx.ask("Who?")
        except NotAnswered as error:
            return f"nobody: {error.decision.word}"

    async with place.app(agent([call("find"), say("Done.")], find)) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), reject(), by="mira")

        assert outcome(await completed(run)).result() == "nobody: rejected"


@pytest.mark.parametrize("way", [*WAYS, "ask_user"])
async def test_only_whom_it_asks_may_answer(place: Place, way: str) -> None:
    who = {"approvers": [user("bob")]}
    teller = finder(way, {}, [], **who) if way != "ask_user" else None
    if teller is None:
        script = [call("ask_user", {"question": "Who?"}), say("Done.")]
        teller = agent(script, ask_user(**who))
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        for verdict in (answer("x"), reject(), fail("x")):
            with pytest.raises(NotAllowed):
                await app.decide(hold, verdict, by="mira")
        assert (await app.hold(hold)).status == "open"
        assert [one.id for one in await app.holds(by="bob")] == [hold.id]
        assert not list(await app.holds(by="mira"))

        await app.decide(hold, answer("bob knows"), by="bob")
        assert outcome(await completed(run)) == Returned(value=answer("bob knows").value)


async def test_anyone_may_answer_where_anyone_is_asked(place: Place) -> None:
    async with place.app(finder("blocking", {}, [], approvers=[anyone])) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), answer("hello"), by="somebody")

        assert outcome(await completed(run)).result() == "hello"


@pytest.mark.parametrize("way", WAYS)
async def test_a_retried_answer_with_its_key_is_the_same_answer(place: Place, way: str) -> None:
    async with place.app(finder(way, {}, [])) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, answer("blue"), by="mira", key="k")
        again = await app.decide(hold, answer("blue"), by="mira", key="k")

        assert again.status == "settled"
        with pytest.raises(KeyReused):
            await app.decide(hold, answer("red"), by="mira", key="k")
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(hold, answer("red"), by="mira")
        assert refused.value.decision.by.id == "mira"
        assert outcome(await completed(run)).result() == "blue"


async def test_a_question_is_asked_once_however_often_its_body_goes_on(place: Place) -> None:
    seen: list[Any] = []
    async with place.app(finder("durable", {}, seen), bounds=COLD) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), answer("blue"), by="mira")
        await completed(run)

        assert seen == ["blue"]
        opened = [one for one in await journal(app.store, run.id) if one.type == "hold.opened"]
        assert len(opened) == 1


async def test_several_questions_at_once_are_one_request_and_answered_one_by_one(
    place: Place,
) -> None:
    @tool(durable=True)
    async def find(ctx: Context) -> list[Any]:
        return await ctx.ask_all([question("Name?"), question("Age?", kind="number")])

    async with place.app(agent([call("find"), say("Done.")], find)) as app:
        run = await app.start("teller", "go", by="mira")
        name, age = (await suspended(run)).holds
        assert name.request_id == age.request_id
        await app.decide(age, answer(7), by="mira")
        assert [one.id for one in (await suspended(run)).holds] == [name.id]
        await app.decide(name, answer("Ann"), by="mira")

        assert outcome(await completed(run)).result() == ["Ann", 7]


def test_what_a_tool_cannot_ask_is_refused_where_it_is_made() -> None:
    async def find() -> None: ...

    with pytest.raises(BadTool, match="blocking=True"):
        tool(asks="Who?")(find)
    with pytest.raises(BadTool, match="durable"):
        tool(durable=True, blocking=True)(find)
    with pytest.raises(BadTool, match="blocking"):
        tool(blocking=True, client=True)(find)
    with pytest.raises(BadValue):
        question("")


# What is sensitive.

SECRET = "s3cr3t-hunter2"


async def everything(app: Sayso, run: Any) -> str:
    """All that anybody can get to see of a run."""
    view = await run.view()
    parts = [repr(view), repr(view.messages), repr(list(await app.holds(status="any")))]
    parts += [repr(one) async for one in app.events(run)]
    parts += [str(entry.payload) for entry in await entries(app.store)]
    row = await app.store.load(run.id)
    assert row is not None
    return "\n".join([*parts, repr(row)])


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_sensitive_answer_reaches_the_body_and_nothing_else(
    place: Place, bounds: Bounds, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    seen: list[Any] = []

    @tool(durable=True)
    async def log_in(ctx: Context) -> str:
        seen.append(await ctx.ask(question("Password?", sensitive=True, length_min=5)))
        await ctx.ask("And then?")
        return "logged in"

    async with place.app(agent([call("log_in"), say("Done.")], log_in), bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        with pytest.raises(BadAnswer) as refused:
            await app.decide(hold, answer(["no", SECRET]), by="mira")
        assert SECRET not in repr(refused.value) + str(refused.value.problems)

        decided = await app.decide(hold, answer(SECRET), by="mira", key="k")
        assert SECRET not in repr(decided)
        await app.decide(await held(run), answer("go on"), by="mira")
        view = await completed(run)

        assert set(seen) == {SECRET}
        assert outcome(view).result() == "logged in"
        assert SECRET not in await everything(app, run)
        assert SECRET not in caplog.text
    if place.kind == "sqlite":
        for path in filter(Path.is_file, place.path.parent.rglob("sayso.db*")):
            assert SECRET.encode() not in path.read_bytes()


def test_a_blocking_tool_asks_nothing_sensitive():
    with pytest.raises(BadTool, match="in a durable body"):

        @tool(blocking=True, asks=question("PIN?", sensitive=True))
        def pin() -> None: ...


async def test_a_body_that_suspends_asks_nothing_sensitive(place: Place) -> None:
    @tool
    def pin(ctx: Context) -> Any:
        return ctx.suspend(question("PIN?", sensitive=True))

    async with place.app(agent([call("pin"), say("Done.")], pin)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

        assert isinstance(outcome(view), Failed)
        assert outcome(view).error == "BadQuestion"


async def test_a_retried_sensitive_answer_is_known_by_its_key(place: Place) -> None:
    async with place.app(finder("durable", {"sensitive": True}, [])) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, answer(SECRET), by="mira", key="k")

        assert (await app.decide(hold, answer(SECRET), by="mira", key="k")).status == "settled"
        with pytest.raises(KeyReused):
            await app.decide(hold, answer("another"), by="mira", key="k")


@pytest.mark.parametrize("sensitive", [False, True])
async def test_an_idempotency_key_of_a_sensitive_answer_gives_nothing_away(
    place: Place, *, sensitive: bool
) -> None:
    async with place.app(finder("durable", {"sensitive": sensitive}, [])) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, answer("1234"), by="mira", key="k")
        kept = await app.store.key("default", "k")
        assert kept is not None

        guess = codec.encode_verdict(answer("1234"))
        guessed = request_digest("decide", hold.id, "mira", hold.digest, guess)

        assert (guessed in repr(kept)) is not sensitive


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
async def test_a_secret_given_to_a_step_cannot_be_found_out_by_its_digest(
    place: Place, bounds: Bounds
) -> None:
    @tool(durable=True)
    async def log_in(ctx: Context) -> str:
        pin = await ctx.ask(question("PIN?", sensitive=True))
        await ctx.step("use", len, pin, effect="none")
        await ctx.ask("Done?")
        return "ok"

    async with place.app(agent([call("log_in"), say("In.")], log_in), bounds=bounds) as app:
        run = await app.start("teller", "go", by="mira")
        await app.decide(await held(run), answer("1234"), by="mira")
        await app.decide(await held(run), answer("yes"), by="mira")
        view = await completed(run)

        assert outcome(view).result() == "ok"
        (digest,) = [
            one.event.digest async for one in app.events(run) if one.type == "step.started"
        ]
        assert digest != request_digest("use", b'["1234"]')
        assert app._open_parts.vault.names(digest, "use", b'["1234"]')
        assert not app._open_parts.vault.names(digest, "use", b'["1235"]')
