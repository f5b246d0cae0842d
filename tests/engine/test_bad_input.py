"""Bad input at every door of the library: a typed error, and nothing has changed.

Method: a corpus of values that cannot be kept, or that two readers would read differently, goes
through every parameter that takes one. After each refusal the store's journal, run rows and hold
rows are compared with what they were before.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from sayso import (
    Context,
    Policy,
    Principal,
    Rule,
    Sayso,
    UserMessage,
    answer,
    approve,
    fail,
    reject,
    tool,
    user,
)
from sayso.domain.hold import Answered, Approved
from sayso.errors import (
    AlreadyDecided,
    BadSetup,
    BadValue,
    CannotUndo,
    HoldExpired,
    KeyReused,
    NotAllowed,
    NotWhatWasShown,
    Refused,
    SaysoError,
    StoreClosed,
    StoreForked,
    UnknownAgent,
    UnknownHold,
    UnknownRun,
    WrongVerdict,
)
from sayso.store.base import Store
from sayso.store.query import HoldQuery, RunQuery
from sayso.testing import call, say

from .judge import judge
from .kit import Place, agent, completed, entries, held, outcomes

DEEP = "[" * 10_000 + "]" * 10_000
ARGS = {"n": 1, "data": None}
SCRIPT = [call("act", ARGS), say("done")]


def circular() -> Any:
    value: dict[str, Any] = {}
    value["self"] = value
    return value


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


class Text(str):
    """Looks like text, and might say something else when asked again."""


VALUES: dict[str, Callable[[], Any]] = {
    "an object": object,
    "a set": lambda: {1, 2},
    "bytes": lambda: b"x",
    "a function": lambda: print,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("-inf"),
    "a lone surrogate": lambda: "\ud800",
    "a lone surrogate as key": lambda: {"\udfff": 1},
    "a number as key": lambda: {1: 2},
    "circular": circular,
    "101 deep": lambda: deep(101),
    "10,000 deep": lambda: deep(10_000),
    "oversized": lambda: "x" * 300_000,
    "too many parts": lambda: [0] * 300_000,
    "an endless integer": lambda: 10**5000,
    "a subclass of str": lambda: Text("x"),
    "a complex number": lambda: 1j,
}

TEXTS = {
    "nothing": "",
    "a word": "hello",
    "null": "null",
    "a list": "[1]",
    "a number": "1",
    "text": '"x"',
    "open": '{"n": 1',
    "two": '{"n": 1}{"n": 2}',
    "nan": '{"n": NaN, "data": null}',
    "infinity": '{"n": 1, "data": Infinity}',
    "huge exponent": '{"n": 1, "data": 1e999}',
    "duplicate key": '{"n": 1, "n": 2, "data": null}',
    "escaped duplicate key": '{"n": 1, "\\u006e": 2, "data": null}',
    "lone surrogate": '{"n": 1, "data": "\\ud800"}',
    "real surrogate": '{"n": 1, "data": "\ud800"}',
    "10,000 deep": '{"n": 1, "data": ' + DEEP + "}",
    "10,000 open": '{"n": 1, "data": ' + "[" * 10_000,
    "endless integer": '{"n": ' + "9" * 5000 + ', "data": null}',
    "oversized": '{"n": 1, "data": "' + "x" * 300_000 + '"}',
    "wrong type": '{"n": "lots", "data": null}',
    "missing": '{"data": null}',
    "unknown": '{"n": 1, "data": null, "more": 1}',
    "python": "{'n': 1}",
    "comment": '{"n": 1 /* one */, "data": null}',
    "bom": '\ufeff{"n": 1, "data": null}',
}


def acting(place: Place, **options: Any) -> Any:
    @tool(name="act", approval=True, effect="once", **options)
    async def act(ctx: Context, n: int, data: Any) -> str:
        place.world.act(ctx, {"n": n, "data": data})
        return "acted"

    return act


async def snapshot(store: Store) -> Any:
    """Everything that is kept, but for leases."""
    rows = [msgspec.structs.replace(row, owner="") for row in await store.runs(RunQuery(limit=500))]
    holds = await store.holds(HoldQuery(status="any", limit=500))
    return await entries(store), rows, holds


@asynccontextmanager
async def unchanged(store: Store, *errors: type[Exception]) -> Any:
    """Expect a typed error inside, and nothing changed afterwards."""
    before = await snapshot(store)
    with pytest.raises(errors or Refused) as raised:
        yield raised
    assert isinstance(raised.value, SaysoError)
    assert str(raised.value)
    assert await snapshot(store) == before


# What a model writes.


@pytest.mark.parametrize("name", TEXTS)
async def test_unusable_arguments_are_an_error_for_the_model_and_open_no_hold(
    place: Place, name: str
) -> None:
    script = [call("act", TEXTS[name]), say("done")]
    async with place.app(agent(script, acting(place))) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Failed"]
        assert len(await app.holds(status="any")) == 0
        assert place.world.effects() == []
        await judge(app.store, place.world, ("act",))


async def test_what_a_model_says_is_kept_even_if_it_is_not_text(place: Place) -> None:
    script = [[say("\ud800 odd \x00"), call("act", ARGS, id="\udfff")], say("\udc00")]
    async with place.app(agent(script, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        await app.decide(await held(run), approve(), by="mira")

        assert (await completed(run)).output == "?"
        await judge(app.store, place.world, ("act",))


# What people send.


@pytest.mark.parametrize("name", VALUES)
async def test_values_that_cannot_be_kept_are_refused_at_every_door(
    place: Place, name: str
) -> None:
    make = VALUES[name]
    with pytest.raises(BadValue):
        approve(args={"n": 1, "data": make()})
    with pytest.raises(BadValue):
        answer(make())
    async with place.app(agent(SCRIPT, acting(place)), tools=[acting(place)]) as app:
        run = await app.start("teller", "x", by="mira")
        await held(run)
        async with unchanged(app.store):
            await app.start("teller", "x", by="mira", metadata={"a": make()})
        async with unchanged(app.store):
            await app.gate("act", {"n": 1, "data": make()}, by="mira")


@pytest.mark.parametrize(
    "raw",
    [b"{", b"", b"NaN", b'{"a":1,"a":2}', DEEP.encode(), b'"\xff"', b'"\\ud800"', b"1 2"],
    ids=["open", "empty", "nan", "duplicate", "deep", "not utf-8", "surrogate", "two"],
)
async def test_verdicts_made_by_hand_of_bytes_that_are_no_value_are_refused(
    place: Place, raw: bytes
) -> None:
    @tool(effect="once")
    async def lost(ctx: Context) -> str:
        raise TimeoutError

    script = [[call("act", ARGS), call("lost")], say("done")]
    async with place.app(agent(script, acting(place), lost)) as app:
        run = await app.start("teller", "x", by="mira")
        view = await run.wait(timeout=10)
        asked = {hold.kind: hold for hold in view.holds}
        async with unchanged(app.store):
            await app.decide(asked["approval"], Approved(args=msgspec.Raw(raw)), by="mira")
        async with unchanged(app.store):
            await app.decide(asked["in_doubt"], Answered(value=msgspec.Raw(raw)), by="mira")


LINES = {
    "a lone surrogate": "\ud800",
    "too long": "x" * 1_000_001,
    "bytes": b"x",
    "a number": 7,
    "a list": ["x"],
}


@pytest.mark.parametrize("name", LINES)
async def test_texts_that_cannot_be_kept_are_refused_at_every_door(place: Place, name: str) -> None:
    text: Any = LINES[name]
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        doors: list[Callable[[], Awaitable[Any]]] = [
            lambda: app.start("teller", text, by="mira"),
            lambda: app.start("teller", "x", by="mira", key=text),
            lambda: app.start("teller", "x", by="mira", thread=text),
            lambda: app.start("teller", "x", by="mira", id=text),
            lambda: app.start("teller", "x", by="mira", project=text),
            lambda: app.start("teller", "x", by=text),
            lambda: app.start(text, "x", by="mira"),
            lambda: app.decide(hold, reject(text), by="mira"),
            lambda: app.decide(hold, fail(text), by="mira"),
            lambda: app.decide(hold, approve(), by="mira", note=text),
            lambda: app.decide(hold, approve(), by="mira", key=text),
            lambda: app.decide(hold, approve(), by="mira", channel=text),
            lambda: app.decide(hold, approve(), by="mira", digest=text),
            lambda: app.decide(hold, approve(), by="mira", digest=text, key="k"),
            lambda: app.decide(hold, approve(), by=text),
            lambda: app.decide(hold, approve(), by=text, key="k"),
            lambda: app.say(run, text, by="mira", supersede=True),
            lambda: app.say(run, "x", by=text),
            lambda: app.cancel(run, by="mira", reason=text),
            lambda: app.cancel(run, by=text),
            lambda: app.undo(hold, by=text),
        ]
        for door in doors:
            async with unchanged(app.store):
                await door()
        assert (await run.view()).status == "suspended"
        await judge(app.store, place.world, ("act",))


IDS: dict[str, Any] = {
    "nothing": "",
    "blank": " ",
    "a word": "hold",
    "no number": "hold_x",
    "zero": "hold_x.0",
    "padded": "hold_x.01",
    "negative": "hold_x.-1",
    "huge": "hold_x." + "9" * 50,
    "very long": "hold_" + "x" * 100_000 + ".1",
    "arabic digits": "hold_x.١",
    "full width": "hold_x.１",
    "newline": "hold_x.1\n",
    "nul": "hold_\x00.1",
    "surrogate": "hold_\ud800.1",
    "sql": "hold_' or 1=1 --.1",
    "path": "hold_../../x.1",
    "another prefix": "run_x.1",
    "a number": 1,
    "none": None,
    "bytes": b"hold_x.1",
    "a list": [],
}


@pytest.mark.parametrize("name", IDS)
async def test_unknown_ids_are_unknown(place: Place, name: str) -> None:
    bad = IDS[name]
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        await held(run)
        for door in (
            lambda: app.decide(bad, approve(), by="mira"),
            lambda: app.undo(bad, by="mira"),
            lambda: app.hold(bad),
            lambda: app.resume(_as(bad, "req"), approve(), by="mira"),
        ):
            async with unchanged(app.store, UnknownHold):
                await door()
        run_id = _as(bad, "run")
        for door in (
            lambda: app.run(run_id).view(),
            lambda: app.run(run_id).wait(timeout=1),
            lambda: app.run(run_id).status(),
            lambda: app.cancel(run_id, by="mira"),
            lambda: app.say(run_id, "x", by="mira"),
            lambda: anext(app.events(run_id)),
            lambda: anext(app.events(run_id, deltas=True)),
        ):
            async with unchanged(app.store, UnknownRun):
                await door()
        async with unchanged(app.store, UnknownAgent):
            await app.start(bad, "x", by="mira")


def _as(bad: Any, prefix: str) -> Any:
    return f"{prefix}{bad.removeprefix('hold')}" if isinstance(bad, str) else bad


async def test_ids_of_one_thing_do_not_open_another(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        name = run.id.removeprefix("run_")
        for bad in (hold.request_id, run.id, hold.call_id, f"hold_{name}.2", f"hold_{name}.1.1"):
            async with unchanged(app.store, UnknownHold):
                await app.decide(bad, approve(), by="mira")
        for bad in (hold.id, run.id, f"req_{name}.2"):
            async with unchanged(app.store, UnknownHold):
                await app.resume(bad, approve(), by="mira")
        for bad in (hold.id, hold.request_id, hold.call_id):
            async with unchanged(app.store, UnknownRun):
                await app.cancel(bad, by="mira")


RUN_IDS = [
    "", "x", "run_", "run", "RUN_x", "run_x.1", "run_a b", "run_\n", "run_é", "run_" + "x" * 81,
    "run_../x", "run_\x00", "hold_x.1", "run_١",
]  # fmt: skip


@pytest.mark.parametrize("run_id", RUN_IDS)
async def test_a_run_id_that_could_be_misread_is_refused(place: Place, run_id: str) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app, unchanged(app.store, BadValue):
        await app.start("teller", "x", by="mira", id=run_id)


@pytest.mark.parametrize("key", ["", "x" * 201, "\ud800"])
async def test_a_bad_key_is_refused(place: Place, key: str) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        async with unchanged(app.store, BadValue):
            await app.start("teller", "x", by="mira", key=key)
        async with unchanged(app.store, BadValue):
            await app.decide(hold, approve(), by="mira", key=key)
        async with unchanged(app.store, BadValue):
            await app.resume(hold.request_id, approve(), by="mira", key=key)
        async with unchanged(app.store, BadValue):
            await app.gate("act", ARGS, by="mira", key=key)


@pytest.mark.parametrize("thread", ["", "x" * 201, "\ud800"])
async def test_a_bad_thread_is_refused(place: Place, thread: str) -> None:
    async with place.app(agent([say("secret")])) as app:
        await completed(await app.start("teller", "mine alone", by="mira"))

        async with unchanged(app.store, BadValue):
            await app.start("teller", "x", by="noor", thread=thread)


async def test_another_persons_thread_is_not_gone_on_with(place: Place) -> None:
    def script(messages: Any) -> Any:
        return say(str([m.text for m in messages]))

    async with place.app(agent(script)) as app:
        run = await app.start("teller", "mine alone", by="mira", thread="t")
        await completed(run)
        for thread in ("t", run.id):
            async with unchanged(app.store, NotAllowed):
                await app.start("teller", "x", by="noor", thread=thread)


@pytest.mark.parametrize(
    "history", [["text"], [{"is": "user", "text": "x"}], [None], [UserMessage(text="\ud800")]]
)
async def test_a_history_that_is_none_is_refused(place: Place, history: Any) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app, unchanged(app.store, BadValue):
        await app.start("teller", "x", by="mira", history=history)


PEOPLE: dict[str, Any] = {
    "somebody else": "noor",
    "nobody": "",
    "another case": "Mira",
    "padded": "mira ",
    "a rule's word": "anyone",
    "with a prefix": "user:mira",
    "the owner": "owner",
    "an agent": Principal(kind="agent", id="mira"),
    "a service": Principal(kind="service", id="mira"),
    "the clock": Principal(kind="clock", id="clock"),
    "a unicode twin": "mirа",
    "zero width": "mira\u200b",
    "none": None,
    "a number": 0,
    "a list": ["mira"],
}


@pytest.mark.parametrize("name", PEOPLE)
async def test_the_wrong_person_decides_nothing(place: Place, name: str) -> None:
    by = PEOPLE[name]
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        for verdict in (approve(), reject("no"), approve(args={"n": 2, "data": None})):
            async with unchanged(app.store, NotAllowed, BadValue):
                await app.decide(hold, verdict, by=by)
        async with unchanged(app.store, NotAllowed, BadValue):
            await app.resume(hold.request_id, approve(), by=by)
        async with unchanged(app.store, NotAllowed, BadValue):
            await app.cancel(run, by=by)
        async with unchanged(app.store, NotAllowed, BadValue):
            await app.say(run, "x", by=by, supersede=True)
        await app.decide(hold, reject("no"), by="mira", undo="1m")
        async with unchanged(app.store, NotAllowed, BadValue):
            await app.undo(hold, by=by)


async def test_whoever_may_not_decide_learns_nothing_of_what_was_decided(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        await app.decide(hold, reject("my secret reason"), by="mira")
        await completed(run)

        async with unchanged(app.store, NotAllowed) as raised:
            await app.decide(hold, approve(), by="noor")
        assert "secret" not in str(raised.value)
        assert not hasattr(raised.value, "decision")


async def test_late_repeated_and_contradictory_decisions_change_nothing(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place, within="1h"))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", key="k")
        await completed(run)

        for verdict in (approve(), reject("no"), approve(args={"n": 2, "data": None}), fail("x")):
            async with unchanged(app.store, AlreadyDecided) as raised:
                await app.decide(hold, verdict, by="mira")
            assert raised.value.decision.word == "approved"
            async with unchanged(app.store, AlreadyDecided):
                await app.resume(hold.request_id, verdict, by="mira")
        async with unchanged(app.store, KeyReused):
            await app.decide(hold, reject("no"), by="mira", key="k")
        async with unchanged(app.store, CannotUndo):
            await app.undo(hold, by="mira")
        assert len(place.world.effects()) == 1

        second = await app.start("teller", "x", by="mira")
        late = await held(second)
        place.clock.advance("1h")
        with pytest.raises(HoldExpired):
            await app.decide(late, approve(), by="mira")
        await completed(second)
        async with unchanged(app.store, HoldExpired):
            await app.decide(late, approve(), by="mira")


@pytest.mark.parametrize("digest", ["x", "0" * 64, "é", " "])
async def test_a_digest_of_something_else_is_refused(place: Place, digest: str) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        for shown in (digest, hold.digest.upper(), hold.digest[:-1], hold.digest + "0"):
            async with unchanged(app.store, NotWhatWasShown):
                await app.decide(hold.id, approve(), by="mira", digest=shown)
            async with unchanged(app.store, NotWhatWasShown):
                await app.resume(hold.request_id, approve(), by="mira", digest=shown)


async def test_a_verdict_that_does_not_answer_the_ask_is_refused(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        for verdict in (answer(1), fail("x")):
            async with unchanged(app.store, WrongVerdict):
                await app.decide(hold, verdict, by="mira")


@pytest.mark.parametrize("undo", ["soon", -1, "0s", "200y", 601, float("nan"), True, object()])
async def test_an_undo_that_is_no_time_is_refused(place: Place, undo: Any) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        async with unchanged(app.store, Refused, BadSetup):
            await app.decide(hold, approve(), by="mira", undo=undo)


@pytest.mark.parametrize(
    "query",
    [
        {"after": "x"},
        {"after": "1"},
        {"after": "1.x"},
        {"after": "-1.0"},
        {"after": "١.١"},
        {"limit": 0},
        {"limit": -1},
        {"limit": True},
        {"limit": "many"},
        {"status": "typo"},
        {"status": "decided", "by": "mira"},
        {"status": None},
    ],
)
async def test_a_page_that_cannot_be_is_refused(place: Place, query: Any) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app, unchanged(app.store, BadValue):
        await app.holds(**query)


@pytest.mark.parametrize("limit", [1, 10**9])
async def test_a_page_of_any_size_is_a_page(place: Place, limit: int) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        await held(await app.start("teller", "x", by="mira"))
        await held(await app.start("teller", "x", by="mira"))

        page = await app.holds(limit=limit)

        assert len(page) == min(limit, 2)


@pytest.mark.parametrize("after", [-1, -100])
async def test_following_from_before_the_beginning_gives_everything(
    place: Place, after: int
) -> None:
    async with place.app(agent([say("x")])) as app:
        run = await app.start("teller", "x", by="mira")
        view = await completed(run)

        found = [one.seq async for one in app.events(run.id, after=after)]

        assert found == list(range(1, view.seq + 1))


async def test_gates_with_arguments_that_are_none_are_refused(place: Place) -> None:
    async with place.app(tools=[acting(place)]) as app:
        outcome = await app.gate("act", {}, by="mira")
        assert type(outcome).__name__ == "Failed"
        for args in (None, [], "n", 5):
            async with unchanged(app.store):
                await app.gate("act", args, by="mira")  # type: ignore[arg-type]


# Where nothing can be done any more.


async def test_an_app_that_was_closed_refuses_everything(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
    doors: list[Callable[[], Any]] = [
        lambda: app.start("teller", "x", by="mira"),
        lambda: app.decide(hold, approve(), by="mira"),
        lambda: app.resume(hold.request_id, approve(), by="mira"),
        lambda: app.undo(hold, by="mira"),
        lambda: app.cancel(run, by="mira"),
        lambda: app.say(run, "x", by="mira"),
        lambda: app.holds(),
        lambda: app.hold(hold.id),
        lambda: app.gate("act", ARGS, by="mira"),
        lambda: app.sweep(),
        lambda: app.run(run.id).view(),
        lambda: anext(app.events(run.id)),
        lambda: app.store.load(run.id),
    ]
    for door in doors:
        with pytest.raises(StoreClosed):
            await door()
    await app.close()
    if place.kind == "sqlite":
        for look in (run.view, run.wait, run.status):
            with pytest.raises(StoreClosed):
                await look()
    assert place.world.effects() == []


async def test_an_app_that_was_never_opened_refuses_everything() -> None:
    app = Sayso("memory:", agents=[agent([say("x")])])

    with pytest.raises(StoreClosed):
        await app.start("teller", "x", by="mira")
    async with app:
        with pytest.raises(BadSetup):
            await app.open()
        await completed(await app.start("teller", "x", by="mira"))


async def test_an_app_can_be_opened_again(place: Place) -> None:
    app = Sayso(place.path, agents=[agent([say("x")])])
    for _ in range(3):
        async with app:
            await completed(await app.start("teller", "x", by="mira"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
async def test_an_app_refuses_everything_in_a_child_that_was_forked_off(
    file_place: Place,
) -> None:
    place = file_place
    async with place.app(agent(SCRIPT, acting(place))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        before = await snapshot(app.store)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os._exit(_in_child(app, run, hold, write))
        os.close(write)
        _, status = await asyncio.to_thread(os.waitpid, child, 0)
        with os.fdopen(read) as pipe:
            told = pipe.read()

        assert (status, told) == (0, "ok")
        assert await snapshot(app.store) == before
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        assert len(place.world.effects()) == 1


def _in_child(app: Sayso, run: Any, hold: Any, pipe: int) -> int:
    """Try every door in the child, on a loop of its own."""
    doors: list[Callable[[], Any]] = [
        lambda: app.start("teller", "x", by="mira"),
        lambda: app.decide(hold, approve(), by="mira"),
        lambda: app.cancel(run, by="mira"),
        lambda: app.holds(),
        lambda: run.view(),
        lambda: app.store.close(),
    ]
    try:
        for door in doors:
            try:
                asyncio.run(door())
            except StoreForked:
                continue
            os.write(pipe, b"a door was open")
            return 1
        os.write(pipe, b"ok")
    except BaseException as error:
        os.write(pipe, repr(error).encode())
        return 2
    sys.stdout.flush()
    return 0


# The set-up.


@pytest.mark.parametrize(
    "make",
    [
        lambda place: Sayso("mysql://x"),
        lambda place: Sayso("http://x"),
    ],
)
async def test_a_store_that_is_none_is_refused(place: Place, make: Any) -> None:
    with pytest.raises(BadSetup):
        await make(place).open()


def test_two_agents_or_tools_of_one_name_are_refused(place: Place) -> None:
    with pytest.raises(BadSetup):
        Sayso(place.path, agents=[agent([]), agent([])])
    with pytest.raises(BadSetup):
        Sayso(place.path, tools=[acting(place), acting(place)])
    with pytest.raises(BadSetup):
        Policy(Rule("x", approvers=[]), Rule("x", approvers=[user("a")]))
