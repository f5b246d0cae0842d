"""What becomes of a call that was started and then lost from sight.

Method: tables written by hand, of what the design promises for each kind of effect; a process that
is killed in its tool with SIGKILL, before or after it has acted; tools that raise what a library
might raise; a store that takes its time. The ledger is outside, and no answer of ours counts.
"""

import asyncio
import errno
import signal
import ssl
import threading
from typing import Any

import pytest

from sayso import (
    Agent,
    Bounds,
    Context,
    Failed,
    Happened,
    NotDone,
    NotHappened,
    Policy,
    Returned,
    Rule,
    RunView,
    Sayso,
    ToolMessage,
    answer,
    approve,
    fail,
    reject,
    tool,
    user,
)
from sayso.engine.attempt import PROBE_S
from sayso.errors import NotAllowed, WrongVerdict
from sayso.store.base import Appended, Store, Write
from sayso.testing import call, say

from . import child
from .judge import judge
from .kit import (
    PATIENCE_S,
    Child,
    Delegate,
    Place,
    agent,
    completed,
    finished,
    held,
    journal,
    outcomes,
    suspended,
    tags,
    types,
    until,
)

QUICK = Bounds(look_s=0.05)


def told(view: RunView) -> list[Any]:
    return [m.outcome for m in view.messages if isinstance(m, ToolMessage)]


# A worker is lost.

LOST = {
    # kind, killed where: is a person asked, effects without one, what the model is told.
    ("none", "before"): (False, 1, "paid by heir"),
    ("none", "after"): (False, 2, "paid by heir"),
    ("keyed", "before"): (False, 1, "paid by heir"),
    ("keyed", "after"): (False, 1, "paid by heir"),
    ("probe", "before"): (False, 1, "paid by heir"),
    ("probe", "after"): (False, 1, "probed"),
    ("once", "before"): (True, 0, ""),
    ("once", "after"): (True, 1, ""),
}


async def killed(place: Place, kind: str, where: str, app: Sayso) -> str:
    """Let a process die in its tool; give the run's id."""
    with Child(place, do="serve", kind=kind, stay=where) as process:
        await process.said("ready")
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira")
        await process.said(where)
        process.signal(signal.SIGKILL)
        await process.gone()
    return run.id


def heir(place: Place, kind: str) -> Agent:
    return child.teller(place.world, {"kind": kind, "name": "heir"})


@pytest.mark.parametrize("kind, where", LOST)
async def test_a_call_whose_worker_was_killed_comes_out_as_its_effect_demands(
    file_place: Place, kind: str, where: str
) -> None:
    place = file_place
    async with Sayso(place.path, agents=[heir(place, kind)], work=False) as desk:
        run_id = await killed(place, kind, where, desk)
    asked, effects, result = LOST[kind, where]

    async with Sayso(place.path, agents=[heir(place, kind)], bounds=QUICK) as app:
        view = await app.run(run_id).wait(timeout=PATIENCE_S)

        assert len(place.world.effects()) == effects
        if asked:
            assert view.status == "suspended"
            (doubt,) = view.holds
            assert (doubt.kind, doubt.title) == ("in_doubt", "Did pay happen?")
            assert "was gone" in doubt.doubt
        else:
            assert view.status == "completed"
            assert told(view)[0].result() == result
        takeovers = [e for e in await journal(app.store, run_id) if e.type == "run.taken_over"]
        assert [e.event.proof for e in takeovers] == ["dead"]
        if (kind, where) != ("none", "after"):
            await judge(app.store, place.world, ("pay",))


VERDICTS = {
    # verdict: effects more, what the model is told.
    "answer": (0, "Returned"),
    "approve": (1, "Returned"),
    "reject": (0, "Declined"),
    "fail": (0, "Unknown"),
}


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_person_settles_a_doubt(place: Place, verdict: str) -> None:
    tries: list[int] = []

    @tool(approval=True, effect="once")
    async def pay(ctx: Context) -> str:
        place.world.act(ctx, {})
        tries.append(ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionResetError("the line went dead")
        return "paid at last"

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        doubt = await held(run)
        assert doubt.kind == "in_doubt"
        assert "line went dead" in doubt.doubt

        said = {
            "answer": answer({"receipt": 7}),
            "approve": approve(),
            "reject": reject("leave it"),
            "fail": fail("the bank does not say"),
        }[verdict]
        await app.decide(doubt, said, by="mira")
        view = await completed(run)

        more, outcome = VERDICTS[verdict]
        assert outcomes(view) == [outcome]
        assert len(place.world.effects()) == 1 + more
        assert tries == list(range(1, 2 + more))
        if verdict == "answer":
            assert told(view)[0].result() == {"receipt": 7}
        if verdict == "approve":
            assert told(view)[0].result() == "paid at last"
        await judge(app.store, place.world, ("pay",))


async def test_a_doubt_about_a_second_attempt_is_another_doubt(place: Place) -> None:
    @tool(effect="once")
    async def pay(ctx: Context) -> str:
        place.world.act(ctx, {})
        raise TimeoutError

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")
        first = await held(run)
        await app.decide(first, approve(), by="mira")
        second = await held(run)
        assert (second.kind, second.id != first.id) == ("in_doubt", True)
        await app.decide(second, approve(), by="mira")
        third = await held(run)

        await app.decide(third, answer("enough"), by="mira")
        await completed(run)

        assert len(place.world.effects()) == 3
        await judge(app.store, place.world)


async def test_whoever_could_have_allowed_a_call_is_asked_whether_it_happened(
    place: Place,
) -> None:
    @tool(effect="once")
    async def pay(ctx: Context) -> str:
        raise TimeoutError

    policy = Policy(Rule("pay", approvers=[user("boss")]))
    async with place.app(agent([call("pay"), say("x")], pay), policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="boss")
        doubt = await held(run)

        assert doubt.approvers == ("user:boss",)
        with pytest.raises(NotAllowed):
            await app.decide(doubt, answer(1), by="mira")
        with pytest.raises(WrongVerdict):
            await app.decide(doubt, approve(args={}), by="boss")
        await app.decide(doubt, answer(1), by="boss")
        await completed(run)


async def test_a_doubt_never_expires_and_stays_when_the_run_is_cancelled(place: Place) -> None:
    @tool(approval=True, effect="once", within="1m", on_silence="approve")
    async def pay(ctx: Context) -> str:
        place.world.act(ctx, {})
        raise TimeoutError

    async with place.app(agent([call("pay"), say("x")], pay)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        place.clock.advance("1m")
        await app.sweep()
        await until(lambda: _doubted(app, run.id), "the doubt")
        doubt = await held(run)
        place.clock.advance("52w")
        await app.sweep()
        assert (await run.view()).status == "suspended"

        await app.cancel(run, by="mira")
        view = await run.view()
        assert (view.status, view.cancelling, len(view.holds)) == ("suspended", True, 1)
        with pytest.raises(WrongVerdict):
            await app.decide(doubt, approve(), by="mira")
        await app.decide(doubt, answer("it did"), by="mira")
        view = await finished(run)

        assert (view.status, outcomes(view)) == ("cancelled", ["Returned"])
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world)


async def _doubted(app: Sayso, run_id: str) -> bool:
    return "call.doubted" in await types(app, run_id)


async def test_siblings_of_a_call_in_doubt_go_on(place: Place) -> None:
    @tool(effect="once")
    async def lost(ctx: Context) -> str:
        raise TimeoutError

    @tool(effect="once")
    async def fine(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "fine"

    async with place.app(agent([[call("lost"), call("fine")], say("x")], lost, fine)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await suspended(run)

        assert len(place.world.effects()) == 1
        assert [hold.tool for hold in view.holds] == ["lost"]


# What a tool raises.


class ReadTimeout(Exception):
    """As httpx and requests call it; derived from nothing that Python knows."""


class RemoteProtocolError(Exception):
    pass


class ServerDisconnectedError(Exception):
    pass


class PaymentError(Exception):
    pass


def caused(error: Exception, by: BaseException) -> Exception:
    error.__cause__ = by
    return error


def in_context(error: Exception, of: BaseException) -> Exception:
    error.__context__ = of
    return error


DOUBTFUL = {
    "timeout": TimeoutError(),
    "asyncio timeout": TimeoutError(),
    "reset": ConnectionResetError(errno.ECONNRESET, "reset"),
    "aborted": ConnectionAbortedError(),
    "broken pipe": BrokenPipeError(),
    "end of file": EOFError(),
    "cut off": asyncio.IncompleteReadError(b"", 10),
    "errno timed out": OSError(errno.ETIMEDOUT, "timed out"),
    "errno net down": OSError(errno.ENETDOWN, "net down"),
    "errno host unreachable": OSError(errno.EHOSTUNREACH, "no route"),
    "errno pipe": OSError(errno.EPIPE, "pipe"),
    "tls": ssl.SSLError("bad record"),
    "by name": ReadTimeout("slow"),
    "by name, protocol": RemoteProtocolError(),
    "by name, disconnected": ServerDisconnectedError(),
    "caused": caused(PaymentError("failed"), TimeoutError()),
    "caused twice": caused(PaymentError("a"), caused(PaymentError("b"), ReadTimeout())),
    "in the context of": in_context(PaymentError("failed"), ConnectionResetError()),
    "in a group": ExceptionGroup("several", [PaymentError("x"), TimeoutError()]),
    "cancelled": asyncio.CancelledError(),
}
DEFINITE = {
    "value": ValueError("no such account"),
    "own": PaymentError("insufficient funds"),
    "refused": ConnectionRefusedError(errno.ECONNREFUSED, "refused"),
    "no file": FileNotFoundError(errno.ENOENT, "no such file"),
    "permission": PermissionError(errno.EACCES, "denied"),
    "key": KeyError("x"),
    "assertion": AssertionError("never"),
    "recursion": RecursionError("deep"),
    "a group": ExceptionGroup("several", [PaymentError("x"), ValueError("y")]),
    "base": BaseException("odd"),
    "stop": StopAsyncIteration(),
    "generator exit": GeneratorExit(),
}
RAISED = [("once", name, error, "doubt") for name, error in DOUBTFUL.items()]
RAISED += [("once", name, error, "failed") for name, error in DEFINITE.items()]
RAISED += [
    (effect, name, error, "failed")
    for effect in ("none", "keyed")
    for name, error in (*list(DOUBTFUL.items())[:4], *list(DEFINITE.items())[:2])
]


@pytest.mark.parametrize(
    "effect, error, expected",
    [(effect, error, expected) for effect, _, error, expected in RAISED],
    ids=[f"{effect}-{name}" for effect, name, *_ in RAISED],
)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_an_error_is_in_doubt_or_definite_as_the_table_says(
    tmp_path: Any, effect: str, error: BaseException, expected: str, sync: bool
) -> None:
    place = Place("memory", tmp_path)
    if sync:

        @tool(effect=effect)
        def act() -> str:
            raise error
    else:

        @tool(effect=effect)
        async def act() -> str:
            raise error

    async with place.app(agent([call("act"), say("x")], act)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await run.wait(timeout=PATIENCE_S)

        if expected == "doubt":
            assert view.status == "suspended"
            assert view.holds[0].kind == "in_doubt"
        else:
            assert view.status == "completed"
            assert outcomes(view) == ["Failed"]


@pytest.mark.parametrize("effect", ["none", "keyed", "once"])
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_call_that_does_not_end_in_time_is_in_doubt_if_it_acts_once(
    place: Place, effect: str, sync: bool
) -> None:
    end = threading.Event()

    if sync:

        @tool(effect=effect, timeout="50ms")
        def act() -> str:
            end.wait(PATIENCE_S)
            return "late"
    else:

        @tool(effect=effect, timeout="50ms")
        async def act() -> str:
            await asyncio.Event().wait()
            return "late"

    async with place.app(agent([call("act"), say("x")], act)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await run.wait(timeout=PATIENCE_S)
        end.set()

        if effect == "once":
            assert view.holds[0].kind == "in_doubt"
            assert "0.05 seconds" in view.holds[0].doubt
        else:
            (outcome,) = told(view)
            assert (outcome.error, "0.05 seconds" in outcome.message) == ("Interrupted", True)
        await judge(app.store)


async def test_a_call_that_will_not_be_cancelled_does_not_hold_the_run_up(place: Place) -> None:
    end = asyncio.Event()

    @tool(effect="none", timeout="50ms")
    async def stubborn() -> str:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async with place.app(agent([call("stubborn"), say("x")], stubborn)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await completed(run)
        end.set()

        assert outcomes(view) == ["Failed"]


async def test_a_tool_that_exits_does_not_take_the_worker_with_it(place: Place) -> None:
    @tool(effect="once")
    def leave() -> str:
        raise SystemExit(3)

    @tool(effect="once")
    async def leave_async() -> str:
        raise SystemExit(3)

    script = [[call("leave"), call("leave_async")], say("x")]
    async with place.app(agent(script, leave, leave_async)) as app:
        run = await app.start("teller", "x", by="mira")

        view = await completed(run)

        assert outcomes(view) == ["Failed", "Failed"]


# Nothing was done, and the tool says so.


@pytest.mark.parametrize("effect", ["none", "keyed", "once"])
@pytest.mark.parametrize("fails", [0, 1, 4, 5, 9])
async def test_what_says_that_it_did_nothing_is_started_again_up_to_a_bound(
    place: Place, effect: str, fails: int
) -> None:
    keys: set[str] = set()
    attempts: list[int] = []

    @tool(approval=True, effect=effect)
    async def act(ctx: Context) -> str:
        keys.add(ctx.key)
        attempts.append(ctx.attempt)
        if ctx.attempt <= fails:
            raise NotDone("the queue is full")
        place.world.act(ctx, {})
        return "done"

    async with place.app(
        agent([call("act"), say("x")], act), bounds=Bounds(attempts_max=5, look_s=0.02)
    ) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira")

        view = await completed(run)

        assert keys == {hold.call_id}
        assert attempts == list(range(1, min(fails + 1, 5) + 1))
        if fails < 5:
            assert outcomes(view) == ["Returned"]
            assert len(place.world.effects()) == 1
        else:
            (outcome,) = told(view)
            assert isinstance(outcome, Failed)
            assert outcome.error == "NotDone"
            assert "5 attempts" in outcome.message
        assert (await types(app, run)).count("attempt.voided") == min(fails, 4)
        await judge(app.store, place.world, ("act",))


async def test_not_done_behind_a_lost_connection_is_doubt(place: Place) -> None:
    @tool(effect="once")
    async def act() -> str:
        try:
            raise NotDone
        except NotDone:
            raise ConnectionResetError from None

    async with place.app(agent([call("act"), say("x")], act)) as app:
        run = await app.start("teller", "x", by="mira")
        assert (await held(run)).kind == "in_doubt"


async def test_a_run_that_is_cancelled_does_not_start_a_voided_call_again(place: Place) -> None:
    inside, go = asyncio.Event(), asyncio.Event()
    attempts: list[int] = []

    @tool(effect="once")
    async def act(ctx: Context) -> str:
        attempts.append(ctx.attempt)
        inside.set()
        await go.wait()
        raise NotDone

    async with place.app(agent([call("act"), say("x")], act)) as app:
        run = await app.start("teller", "x", by="mira")
        await inside.wait()
        await app.cancel(run, by="mira")
        go.set()

        view = await finished(run)

        assert (view.status, outcomes(view), attempts) == ("cancelled", ["Declined"], [1])
        await judge(app.store)


# A start that came too late.


class Slow(Delegate):
    """A store whose answer to a start takes its time, by the lease clock."""

    def __init__(self, inner: Store, place: Place, times: int, ms: int) -> None:
        super().__init__(inner)
        self.place = place
        self.times = times
        self.ms = ms

    def append(self, *writes: Write) -> Any:
        answer = self.inner.append(*writes)
        if self.times and "call.started" in tags(writes):
            self.times -= 1
            return asyncio.ensure_future(self._late(answer))
        return answer

    async def _late(self, answer: Any) -> Appended:
        found = await answer
        self.place.clock.advance(self.ms)
        return found


GRACE = {
    # milliseconds, slow starts: attempts voided, effects.
    (2000, 9): (0, 1),
    (2001, 1): (1, 1),
    (60_000, 4): (4, 1),
    (60_000, 5): (4, 0),
}


@pytest.mark.parametrize("held_call", [True, False], ids=["held", "free"])
@pytest.mark.parametrize("ms, times", GRACE)
async def test_a_call_whose_start_took_too_long_is_not_made(
    place: Place, ms: int, times: int, held_call: bool
) -> None:
    @tool(approval=held_call, effect="once")
    async def act(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "done"

    async with place.app(
        agent([call("act"), say("x")], act), wrap=lambda store: Slow(store, place, times, ms)
    ) as app:
        run = await app.start("teller", "x", by="mira")
        if held_call:
            await app.decide(await held(run), approve(), by="mira")

        view = await completed(run)

        voided, effects = GRACE[ms, times]
        assert (await types(app, run)).count("attempt.voided") == voided
        assert len(place.world.effects()) == effects
        assert outcomes(view) == ["Returned" if effects else "Failed"]
        await judge(app.store, place.world, ("act",) if held_call else ())


# Probes.


class Broken:
    """A probe's answer that is none."""


PROBES = {
    "happened": (Happened(result={"at": 1}), "Returned", 1),
    "happened, unkeepable": (Happened(result=object()), "Returned", 1),
    "not happened": (NotHappened(), "Returned", 2),
    "does not know": (None, "doubt", 1),
    "another answer": (Broken(), "doubt", 1),
    "true": (True, "doubt", 1),
    "raises": (ValueError("no"), "doubt", 1),
    "times out": (TimeoutError(), "doubt", 1),
}


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_probe_is_believed_only_if_it_says_yes_or_no(
    place: Place, name: str, sync: bool
) -> None:
    found, expected, effects = PROBES[name]
    inside = asyncio.Event()

    def look(ctx: Context) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    async def look_async(ctx: Context) -> Any:
        return look(ctx)

    @tool(approval=True, effect="once", probe=look if sync else look_async)
    async def act(ctx: Context) -> str:
        place.world.act(ctx, {})
        inside.set()
        if ctx.deps == "one":
            await asyncio.Event().wait()
        return "done"

    script = [call("act"), say("x")]
    first = place.app(agent(script, act), deps="one", drain_s=0.01)
    async with first as app:
        run = await app.start("teller", "x", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await inside.wait()
        row = await app.store.load(run.id)
        assert row is not None
    if place.kind == "memory":
        place.kill(row.owner)
    else:
        # This process lives, and so nobody can prove that its tool does not.
        place.clock.advance("10m")

    async with place.app(agent(script, act), deps="two") as app:
        view = await app.run(run.id).wait(timeout=PATIENCE_S)

        assert len(place.world.effects()) == effects
        if expected == "doubt":
            assert view.holds[0].kind == "in_doubt"
        else:
            assert outcomes(view) == [expected]


def test_a_probe_has_a_bound() -> None:
    assert 0 < PROBE_S < 120


# Results.


RESULTS: dict[str, Any] = {
    "none": (None, None),
    "text": ("é😀", "é😀"),
    "big integer": (9007199254740993, 9007199254740993),
    "float": (12400.0, 12400.0),
    "nested": ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
}


@pytest.mark.parametrize("name", RESULTS)
async def test_a_result_comes_back_as_it_was(place: Place, name: str) -> None:
    value, expected = RESULTS[name]

    @tool(effect="none")
    async def act() -> Any:
        return value

    async with place.app(agent([call("act"), say("x")], act)) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        (outcome,) = told(view)
        assert isinstance(outcome, Returned)
        assert outcome.result() == expected
        assert type(outcome.result()) is type(expected)


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2, "a": object()}, "x" * 300_000, b"\xff\xfe", float("nan"), "\ud800"],
    ids=["object", "keys", "long", "bytes", "nan", "surrogate"],
)
async def test_a_result_that_cannot_be_kept_does_not_make_the_call_fail_or_run_again(
    place: Place, value: Any
) -> None:
    @tool(effect="once")
    async def act(ctx: Context) -> Any:
        place.world.act(ctx, {})
        return value

    async with place.app(agent([call("act"), say("x")], act)) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Returned"]
        assert len(place.world.effects()) == 1
        await judge(app.store, place.world)


async def test_a_tool_that_changes_its_arguments_changes_nothing_that_was_decided(
    place: Place,
) -> None:
    @tool(approval=True, effect="once")
    async def act(ctx: Context, items: list[int], more: dict[str, int]) -> int:
        place.world.act(ctx, {"items": items, "more": more})
        items.clear()
        more["x"] = 1
        if ctx.attempt == 1:
            raise NotDone
        return len(items)

    args = {"items": [1, 2], "more": {"a": 1}}
    async with place.app(agent([call("act", args), say("x")], act)) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira")
        await completed(run)

        assert (await app.hold(hold.id)).args == args
        lines = place.world.read("effects")
        assert len({line.split(" ")[2] for line in lines}) == 1


async def test_a_tool_is_told_of_its_call(place: Place) -> None:
    seen: list[Context] = []

    @tool(effect="none")
    async def act(ctx: Context) -> None:
        seen.append(ctx)

    async with place.app(agent([call("act"), say("x")], act), deps={"db": 1}) as app:
        run = await app.start("teller", "x", by="mira", thread="t", project="p")
        await completed(run)

    (ctx,) = seen
    assert (ctx.run_id, ctx.call_id, ctx.attempt) == (run.id, f"{run.id}.1.0", 1)
    assert (ctx.by.id, ctx.agent, ctx.project, ctx.thread) == ("mira", "teller", "p", "t")
    assert ctx.deps == {"db": 1}
