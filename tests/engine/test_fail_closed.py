"""Whatever goes wrong around the gate, the tool does not run.

Method: break one thing at a time (a rule, a check, the store at its n-th append, the bytes on disk,
the tool, the policy, the person) and look at the ledger outside. A store that fails is tried at
every append there is, until the story comes through without meeting the fault.
"""

import asyncio
import random
import threading
from typing import Any

import apsw
import pytest

from sayso import (
    Bounds,
    Context,
    Forbid,
    Policy,
    Proceed,
    Require,
    Rule,
    Sayso,
    approve,
    reject,
    require,
    role,
    tool,
    user,
)
from sayso.domain.hold import Expired, Withdrawn
from sayso.engine.gate import Gate
from sayso.errors import (
    AlreadyDecided,
    CommitUnknown,
    ModelFailed,
    NotAllowed,
    SaysoError,
    StoreBusy,
    StoreError,
    StoreFull,
    WrongVerdict,
)
from sayso.store.base import Store, Write
from sayso.testing import call, say

from .judge import judge
from .kit import (
    PATIENCE_S,
    Delegate,
    Place,
    agent,
    completed,
    finished,
    held,
    outcomes,
    suspended,
    tags,
    types,
    until,
)

SCRIPT = [call("act", {"n": 1}), say("done")]


def acting(place: Place, **options: Any) -> Any:
    @tool(name="act", effect="once", **options)
    async def act(ctx: Context, n: int) -> str:
        place.world.act(ctx, {"n": n})
        return "acted"

    return act


# Rules and checks.


async def coroutine(facts: Any) -> bool:
    return False


CONDITIONS: dict[str, Any] = {
    "raises": lambda facts: facts.args["no such key"],
    "exits": lambda facts: (_ for _ in ()).throw(RecursionError("deep")),
    "none": lambda facts: None,
    "zero": lambda facts: 0,
    "empty": lambda facts: "",
    "yes": lambda facts: "yes",
    "one": lambda facts: 1,
    "a coroutine": coroutine,
}


@pytest.mark.parametrize("name", CONDITIONS)
async def test_a_broken_condition_asks_a_person(place: Place, name: str) -> None:
    policy = Policy(Rule("act", when=CONDITIONS[name]))
    async with place.app(agent(SCRIPT, acting(place)), policy=policy) as app:
        hold = await held(await app.start("teller", "x", by="mira"))

        assert "could not be applied" in hold.why
        assert place.world.effects() == []


async def test_a_broken_condition_of_a_rule_that_forbids_asks_a_person(place: Place) -> None:
    policy = Policy(Rule("act", when=lambda facts: 1 / 0, forbid="never"))
    async with place.app(agent(SCRIPT, acting(place)), policy=policy) as app:
        await held(await app.start("teller", "x", by="mira"))

        assert place.world.effects() == []


async def never(facts: Any) -> bool:
    await asyncio.Event().wait()
    return False


async def stubborn(facts: Any) -> bool:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if asyncio.get_running_loop().is_closed() or stubborn_done.is_set():
                raise


stubborn_done = threading.Event()


async def cancelled(facts: Any) -> bool:
    raise asyncio.CancelledError


async def raises_async(facts: Any) -> bool:
    raise ValueError("no")


class AsyncCallable:
    async def __call__(self, facts: Any) -> bool:
        return False


def raises(facts: Any) -> bool:
    raise KeyError(facts.tool)


CHECKS: dict[str, Any] = {
    "raises": raises,
    "raises, async": raises_async,
    "none": lambda facts: None,
    "a word": lambda facts: "yes",
    "a false word": lambda facts: "",
    "one": lambda facts: 1,
    "zero": lambda facts: 0,
    "a coroutine, not awaited": lambda facts: coroutine(facts),
    "a class": lambda facts: Proceed,
    "a rule": lambda facts: Rule("act"),
    "never, async": never,
    "never, and will not be cancelled": stubborn,
    "cancelled": cancelled,
    "an object whose call is async": AsyncCallable(),
    "true": lambda facts: True,
    "a ruling": lambda facts: require(why="I say so"),
}


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("whose", ["app", "agent"])
async def test_a_check_that_does_not_say_no_asks_a_person(
    place: Place, name: str, whose: str
) -> None:
    stubborn_done.clear()
    theirs = {"check_for_intervention": CHECKS[name]}
    teller = agent(SCRIPT, acting(place), **(theirs if whose == "agent" else {}))
    app = place.app(teller, **(theirs if whose == "app" else {}))
    async with app as app:
        impatient(app)
        run = await app.start("teller", "x", by="mira")
        await held(run)

        assert place.world.effects() == []
        assert (await types(app, run)).count("turn.taken") == 1
        stubborn_done.set()


async def test_a_check_that_blocks_for_ever_asks_a_person(place: Place) -> None:
    go = threading.Event()

    def blocks(facts: Any) -> bool:
        go.wait(PATIENCE_S)
        return False

    async with place.app(agent(SCRIPT, acting(place)), check_for_intervention=blocks) as app:
        impatient(app)
        try:
            hold = await held(await app.start("teller", "x", by="mira"))
        finally:
            go.set()

        assert "did not answer" in hold.why
        assert place.world.effects() == []


def impatient(app: Sayso) -> None:
    gate = app._gate
    assert isinstance(gate, Gate)
    gate._patience_s = 0.1


@pytest.mark.parametrize(
    "check", [lambda facts: False, lambda facts: Proceed()], ids=["false", "proceed"]
)
async def test_a_check_that_says_no_lets_the_call_go(place: Place, check: Any) -> None:
    async with place.app(agent(SCRIPT, acting(place)), check_for_intervention=check) as app:
        await completed(await app.start("teller", "x", by="mira"))

        assert len(place.world.effects()) == 1


async def test_a_check_cannot_loosen_what_a_rule_or_the_tool_demands(place: Place) -> None:
    policy = Policy(Rule("act", approvers=[user("boss")]))
    async with place.app(
        agent(SCRIPT, acting(place)), policy=policy, check_for_intervention=lambda f: Proceed()
    ) as app:
        assert (await held(await app.start("teller", "x", by="mira"))).approvers == ("user:boss",)


async def test_a_forbidden_call_is_declined_whoever_would_say_yes(place: Place) -> None:
    async with place.app(
        agent(SCRIPT, acting(place, approval=True)),
        check_for_intervention=lambda facts: Forbid(why="not on a Sunday"),
    ) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Declined"]
        assert place.world.effects() == []


async def test_two_rules_that_name_nobody_in_common_forbid(place: Place) -> None:
    policy = Policy(Rule("act", approvers=[user("a")]), Rule("act", approvers=[user("b")]))
    async with place.app(agent(SCRIPT, acting(place)), policy=policy) as app:
        view = await completed(await app.start("teller", "x", by="a"))

        assert outcomes(view) == ["Declined"]


@pytest.mark.parametrize(
    "demand", [Require(quorum=2), Require(not_requester=True)], ids=["quorum", "four eyes"]
)
async def test_a_demand_that_cannot_be_enforced_forbids(place: Place, demand: Require) -> None:
    async with place.app(
        agent(SCRIPT, acting(place)), check_for_intervention=lambda facts: demand
    ) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Declined"]
        assert place.world.effects() == []


# The store.


class Failing(Delegate):
    """A store that refuses its n-th append, or does it and will not say so."""

    def __init__(self, inner: Store, n: int, error: type[StoreError], *, done: bool) -> None:
        super().__init__(inner)
        self.left = n
        self.error = error
        self.done = done
        self.failed = ""

    def append(self, *writes: Write) -> Any:
        self.left -= 1
        if self.left:
            return self.inner.append(*writes)
        self.failed = "+".join(tags(writes))
        return asyncio.ensure_future(self._fail(writes))

    async def _fail(self, writes: tuple[Write, ...]) -> Any:
        if self.done:
            await self.inner.append(*writes)
        raise self.error("the disk said no")


FAULTS = {
    "busy": (StoreBusy, False),
    "full": (StoreFull, False),
    "unknown, not done": (CommitUnknown, False),
    "unknown, done": (CommitUnknown, True),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verdict", ["approve", "reject"])
async def test_a_store_that_fails_at_any_append_makes_no_call_without_a_yes_and_none_twice(
    place: Place, fault: str, verdict: str
) -> None:
    error, done = FAULTS[fault]
    script = [[call("act", {"n": 1}), call("free", {})], say("done")]
    met: list[str] = []
    for n in range(1, 40):
        here = place.another(place.path.parent / str(n))

        @tool(effect="once")
        async def free(ctx: Context) -> str:
            here.world.act(ctx, {})  # noqa: B023
            return "free"

        teller = agent(script, acting(here, approval=True), free)
        store: list[Failing] = []

        def wrap(inner: Store) -> Failing:
            store.append(Failing(inner, n, error, done=done))  # noqa: B023
            return store[0]  # noqa: B023

        said = approve() if verdict == "approve" else reject("no")
        async with here.app(teller, wrap=wrap) as app:
            run_id = await patiently(lambda: app.start("teller", "x", by="mira", key="start"))
            hold = await held(app.run(run_id.id))
            await patiently(lambda: app.decide(hold, said, by="mira", key="say"))  # noqa: B023
            view = await completed(app.run(run_id.id))

            assert outcomes(view) == [
                "Returned" if verdict == "approve" else "Declined",
                "Returned",
            ]
            assert len(here.world.effects()) == (2 if verdict == "approve" else 1)
            await judge(app.store, here.world, ("act",))
        if not store[0].failed:
            break
        met.append(store[0].failed)
    else:
        pytest.fail("the story never came through")
    assert any("turn.taken" in one for one in met)
    assert any("call.started" in one for one in met) or verdict == "reject"
    assert any("call.finished" in one for one in met)


async def patiently(ask: Any) -> Any:
    """Ask again, as a client with an idempotency key would."""
    for _ in range(5):
        try:
            return await ask()
        except StoreError:
            continue
    raise AssertionError("the store failed once only")


class Unreadable(Delegate):
    """A store that fails to read a run's row every now and then."""

    def __init__(self, inner: Store, share: float) -> None:
        super().__init__(inner)
        self.share = share
        self.chance = random.Random(11)

    def maybe_fail(self) -> None:
        if self.chance.random() < self.share:
            raise StoreBusy("somebody else reads")

    async def load(self, run_id: str) -> Any:
        self.maybe_fail()
        return await self.inner.load(run_id)

    async def journal(self, run_id: str, **page: Any) -> Any:
        self.maybe_fail()
        return await self.inner.journal(run_id, **page)


@pytest.mark.parametrize("share", [0.1, 0.5])
async def test_a_store_that_fails_to_read_now_and_then_strands_no_run(
    place: Place, share: float
) -> None:
    script = [[call("act", {"n": 1}), call("act", {"n": 2})], call("act", {"n": 3}), say("done")]
    teller = agent(script, acting(place, approval=True))
    async with (
        place.app(teller, wrap=lambda store: Unreadable(store, share)) as app,
        place.app(work=False) as desk,
    ):
        for _ in range(5):
            run = await patiently(lambda: app.start("teller", "x", by="mira", key=None))
            handle = desk.run(run.id)
            while True:
                view = await handle.wait(timeout=PATIENCE_S)
                if view.final:
                    break
                for hold in view.holds:
                    await desk.decide(hold, approve(), by="mira")
            assert view.status == "completed", view.error
        assert len(place.world.effects()) == 15
        await judge(desk.store, place.world, ("act",))


async def test_a_read_that_fails_while_a_call_runs_does_not_cut_the_call_off(
    place: Place,
) -> None:
    inside, go = asyncio.Event(), asyncio.Event()

    @tool(effect="once")
    async def slow(ctx: Context) -> str:
        place.world.act(ctx, {})
        inside.set()
        await go.wait()
        return "slow"

    def script(messages: Any) -> Any:
        return call("slow") if len(messages) == 1 else say("done")

    stores: list[Unreadable] = []

    def wrap(inner: Store) -> Unreadable:
        stores.append(Unreadable(inner, 0))
        return stores[0]

    async with (
        place.app(agent(script, slow), wrap=wrap) as app,
        place.app(work=False) as desk,
    ):
        run = await app.start("teller", "x", by="mira")
        await inside.wait()
        stores[0].share = 1
        # Other processes write to the run, and the worker wants to look at it.
        for n in range(3):
            await desk.say(run.id, f"hurry {n}", by="mira")
            await asyncio.sleep(0.05)
        stores[0].share = 0
        go.set()

        view = await completed(desk.run(run.id))

        assert outcomes(view) == ["Returned"]
        assert len(place.world.effects()) == 1


async def test_a_result_waits_for_a_store_that_is_full_for_a_while(place: Place) -> None:
    class Full(Delegate):
        left = 20

        def append(self, *writes: Write) -> Any:
            if "call.finished" in tags(writes) and self.left:
                self.left -= 1
                return asyncio.ensure_future(self._fail())
            return self.inner.append(*writes)

        async def _fail(self) -> Any:
            raise StoreFull

    async with place.app(agent(SCRIPT, acting(place)), wrap=Full) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Returned"]
        assert len(place.world.effects()) == 1
        assert "call.doubted" not in await types(app, view.id)


async def test_a_run_that_cannot_be_read_does_not_keep_others_from_expiring(
    file_place: Place,
) -> None:
    place = file_place
    teller = agent(SCRIPT, acting(place, approval=True, within="1m"))
    async with place.app(teller, bounds=Bounds(look_s=3600)) as app:
        bad, good = [await app.start("teller", "x", by="mira") for _ in range(2)]
        await held(bad)
        await held(good)
        tamper(place, "update runs set state = ? where id = ?", b"[]", bad.id)
        place.clock.advance("1m")

        await app.sweep()

        view = await completed(good)
        assert outcomes(view) == ["Declined"]
        assert place.world.effects() == []


# The bytes.


def tamper(place: Place, sql: str, *bindings: Any) -> None:
    """Change the file behind the store's back."""
    conn = apsw.Connection(str(place.path))
    try:
        conn.set_busy_timeout(10_000)
        for name in ("the_journal_is_never_cut", "the_journal_is_only_redacted"):
            conn.execute(f"drop trigger if exists {name}")
        conn.execute(sql, bindings)
        assert conn.changes() == 1
    finally:
        conn.close()


@pytest.mark.parametrize("when", ["suspended", "closed"])
async def test_arguments_changed_in_the_file_are_not_executed(file_place: Place, when: str) -> None:
    place = file_place
    tag, old, new = "turn.taken.1", b'"n":1', b'"n":7'
    teller = agent(SCRIPT, acting(place, approval=True))

    def change() -> None:
        conn = apsw.Connection(str(place.path))
        ((position, payload),) = conn.execute(
            "select position, payload from journal where instr(payload, ?)", (tag.encode(),)
        ).fetchall()
        conn.close()
        assert old in payload
        tamper(
            place,
            "update journal set payload = ? where position = ?",
            payload.replace(old, new),
            position,
        )

    async with place.app(teller) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
        if when == "suspended":
            # Let the worker forget the run first.
            await until(lambda: not app._worker._loops, "the worker's rest")  # type: ignore[union-attr]
            change()
            await app.decide(hold, approve(), by="mira")
            await finished(run)
    if when == "closed":
        change()
        async with place.app(teller) as app:
            await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
            view = await finished(app.run(run.id))
            assert view.status == "failed" or outcomes(view) == ["Failed"]

    assert place.world.effects() == []


async def test_a_decision_row_that_was_forged_in_the_file_starts_nothing_on_other_bytes(
    file_place: Place,
) -> None:
    place = file_place
    teller = agent(SCRIPT, acting(place, approval=True))
    async with place.app(teller) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
    tamper(place, "update holds set digest = ? where n = 1", b"\x00" * 32)

    async with place.app(teller) as app:
        shown = await app.hold(hold.id)
        assert shown.digest == "00" * 32
        with pytest.raises(SaysoError):
            await app.decide(shown, approve(), by="mira")

        assert (await app.run(run.id).view()).status == "suspended"
        assert place.world.effects() == []


# Unknown things.


async def test_an_unknown_tool_is_an_error_for_the_model(place: Place) -> None:
    script = [[call("rm", {"path": "/"}), call("act\ud800"), call("")], say("done")]
    async with place.app(agent(script, acting(place))) as app:
        view = await completed(await app.start("teller", "x", by="mira"))

        assert outcomes(view) == ["Failed"] * 3
        assert place.world.effects() == []


VERDICTS: dict[str, Any] = {
    "text": "approve",
    "padded": "APPROVE ",
    "true": True,
    "one": 1,
    "none": None,
    "a dict": {"is": "approved"},
    "the function": approve,
    "the class": type(approve()),
    "expired": Expired(silence="approve"),
    "expired reject": Expired(silence="reject"),
    "withdrawn": Withdrawn(),
}


@pytest.mark.parametrize("name", VERDICTS)
async def test_an_unknown_verdict_is_refused(place: Place, name: str) -> None:
    async with place.app(agent(SCRIPT, acting(place, approval=True, within="1h"))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)

        with pytest.raises(WrongVerdict):
            await app.decide(hold, VERDICTS[name], by="mira")
        with pytest.raises(WrongVerdict):
            await app.resume(hold.request_id, VERDICTS[name], by="mira")

        assert (await run.view()).holds == (hold,)
        assert place.world.effects() == []


# What has changed while people thought.


async def reopened(place: Place, *tools: Any, **options: Any) -> Any:
    """Suspend a run of the first tool, then open the place with others."""
    async with place.app(agent(SCRIPT, acting(place, approval=True))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
    return run.id, hold, place.app(agent(SCRIPT, *tools), **options)


async def test_a_tool_that_was_upgraded_while_its_call_waited_is_asked_about_again(
    place: Place,
) -> None:
    newer = acting(place, approval=True, version="2")
    run_id, hold, app = await reopened(place, newer)
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        again = await held(app.run(run_id))
        assert place.world.effects() == []
        assert (again.id != hold.id, again.version) == (True, 2)
        assert "changed" in again.why
        await app.decide(again, approve(), by="mira")
        await completed(app.run(run_id))

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("act",))


async def test_a_tool_that_is_upgraded_again_and_again_is_asked_about_each_time(
    place: Place,
) -> None:
    run_id, hold, app = await reopened(place, acting(place, approval=True, version="2"))
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        second = await held(app.run(run_id))
    async with place.app(agent(SCRIPT, acting(place, approval=True, version="3"))) as app:
        await app.decide(second.id, approve(), by="mira", digest=second.digest)
        third = await held(app.run(run_id))
        assert third.version == 3
        assert place.world.effects() == []
        await app.decide(third, approve(), by="mira")

        await completed(app.run(run_id))

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("act",))


async def test_a_call_that_was_edited_under_one_version_is_asked_about_again_under_the_next(
    place: Place,
) -> None:
    run_id, hold, app = await reopened(place, acting(place, approval=True, version="2"), work=False)
    async with app as app:
        edited = await app.decide(hold.id, approve(args={"n": 5}), by="mira", digest=hold.digest)
        assert edited.decision is not None
    async with place.app(agent(SCRIPT, acting(place, approval=True, version="3"))) as app:
        again = await held(app.run(run_id))
        assert again.args == {"n": 5}
        assert place.world.effects() == []
        await app.decide(again, approve(), by="mira")

        await completed(app.run(run_id))

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("act",))


async def test_a_policy_that_names_somebody_else_by_now_asks_them(place: Place) -> None:
    stricter = Policy(Rule("act", approvers=[user("boss")]))
    run_id, hold, app = await reopened(
        place, acting(place, approval=True, approvers=[user("mira"), user("boss")]), policy=stricter
    )
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        again = await held(app.run(run_id))
        assert again.approvers == ("user:boss",)
        assert place.world.effects() == []
        with pytest.raises(NotAllowed):
            await app.decide(again, approve(), by="mira")
        await app.decide(again, approve(), by="boss")
        await completed(app.run(run_id))

        assert len(place.world.effects()) == 1
        await judge(app.store, place.world, ("act",))


async def test_a_policy_that_forbids_by_now_declines_what_was_approved(place: Place) -> None:
    run_id, hold, app = await reopened(
        place, acting(place, approval=True), policy=Policy(Rule("act", forbid="frozen"))
    )
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        view = await completed(app.run(run_id))

        assert outcomes(view) == ["Declined"]
        assert place.world.effects() == []


async def test_a_rule_that_came_after_a_free_call_was_let_through_asks_before_it_starts_again(
    place: Place,
) -> None:
    inside = asyncio.Event()

    @tool(name="act", effect="none")
    async def act(ctx: Context, n: int) -> str:
        place.world.act(ctx, {"n": n})
        inside.set()
        if ctx.deps == "one":
            await asyncio.Event().wait()
        return "acted"

    async with place.app(agent(SCRIPT, act), deps="one", drain_s=0.01) as app:
        run = await app.start("teller", "x", by="mira")
        await inside.wait()
        row = await app.store.load(run.id)
        assert row is not None
    place.kill(row.owner)
    place.clock.advance("10m")

    async with place.app(agent(SCRIPT, act), policy=Policy(Rule("act"))) as app:
        hold = await held(app.run(run.id))

        assert "rules were changed" in hold.why
        assert len(place.world.effects()) == 1


async def test_silence_that_approved_no_longer_counts_once_the_rules_do_not_say_so(
    place: Place,
) -> None:
    async with place.app(
        agent(SCRIPT, acting(place, approval=True, within="1m", on_silence="approve")), work=True
    ) as app:
        run = await app.start("teller", "x", by="mira")
        await held(run)
    place.clock.advance("1m")
    async with place.app(work=False) as desk:
        await desk.sweep()
        assert (await desk.run(run.id).view()).status == "running"

    async with place.app(agent(SCRIPT, acting(place, approval=True, within="1m"))) as app:
        again = await held(app.run(run.id))

        assert again.status == "open"
        assert place.world.effects() == []


async def test_a_tool_that_was_removed_is_not_run(place: Place) -> None:
    @tool(effect="none")
    async def other() -> str:
        return "other"

    run_id, hold, app = await reopened(place, other)
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        view = await completed(app.run(run_id))

        assert outcomes(view) == ["Failed"]
        assert place.world.effects() == []


async def test_a_run_whose_agent_was_removed_waits_for_one_that_has_it(place: Place) -> None:
    async with place.app(agent(SCRIPT, acting(place, approval=True))) as app:
        run = await app.start("teller", "x", by="mira")
        hold = await held(run)
    async with place.app(agent([say("x")], name="other")) as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        await app.sweep()
        await asyncio.sleep(0.05)
        assert (await app.run(run.id).view()).status == "running"
        assert place.world.effects() == []

    async with place.app(agent(SCRIPT, acting(place, approval=True))) as app:
        await completed(app.run(run.id))
        assert len(place.world.effects()) == 1


async def test_a_tool_whose_parameters_have_changed_is_not_called_with_the_old_ones(
    place: Place,
) -> None:
    @tool(name="act", approval=True, effect="once")
    async def act(ctx: Context, n: int, to: str) -> str:
        place.world.act(ctx, {"n": n, "to": to})
        return "acted"

    run_id, hold, app = await reopened(place, act)
    async with app as app:
        await app.decide(hold.id, approve(), by="mira", digest=hold.digest)
        view = await completed(app.run(run_id))

        assert outcomes(view) == ["Failed"]
        assert place.world.effects() == []


# Models that misbehave.


async def test_a_model_that_is_cancelled_from_within_fails_the_run_and_is_not_asked_for_ever(
    place: Place,
) -> None:
    asked: list[int] = []

    async def script(messages: Any) -> Any:
        asked.append(1)
        raise asyncio.CancelledError

    async with place.app(agent(script, model_tries_max=2)) as app:
        view = await finished(await app.start("teller", "x", by="mira"))

        assert view.status == "failed"
        assert len(asked) <= 2


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), ModelFailed("x"), RecursionError("x"), ExceptionGroup("x", [OSError()])],
)
async def test_a_model_that_raises_fails_its_run_and_no_other(
    place: Place, error: Exception
) -> None:
    async with place.app(agent([error], name="bad"), agent(SCRIPT, acting(place))) as app:
        bad = await app.start("bad", "x", by="mira")
        good = await app.start("teller", "x", by="mira")

        assert (await finished(bad)).status == "failed"
        await completed(good)


async def test_a_yes_said_after_the_run_was_failed_starts_nothing(place: Place) -> None:
    async def script(messages: Any) -> Any:
        return [call("act", {"n": 1})] if len(messages) == 1 else say("done")

    async with place.app(agent(script, acting(place, approval=True))) as app:
        run = await app.start("teller", "x", by="mira")
        (hold,) = (await suspended(run)).holds
        await app.cancel(run, by="mira")

        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve(), by="mira")

        assert place.world.effects() == []


async def test_nobody_decides_by_what_they_may_do_in_another_project(place: Place) -> None:
    @tool(effect="once")
    def pay(ctx: Context) -> str:
        place.world.act(ctx, {})
        return "paid"

    policy = Policy(Rule("pay", approvers=[role("finance")]))
    async with place.app(agent([call("pay"), say("Paid.")], pay), policy=policy) as app:
        # Ann may at home: in the project that the app itself is for.
        await app.people.put("ann", roles=["finance"])
        await app.people.put("ann", roles=["sales"], project="elsewhere")
        await app.people.put("bob", roles=["finance"], project="elsewhere")
        run = await app.start("teller", "Pay", by="mira", project="elsewhere")
        hold = await held(run)
        with pytest.raises(NotAllowed):
            await app.decide(hold, approve(), by="ann")
        assert not place.world.effects()
        await app.decide(hold, approve(), by="bob")
        await completed(run)
