"""Signed decisions: whoever can write the store, and has no key of a desk, lets nothing start.

Method: desks with and without keys, and a thief who writes whatever they like into the store: by
the ledger, or by SQL with the chain made again. What ran is counted outside.
"""

from __future__ import annotations

import logging
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from sayso import (
    Agent,
    Always,
    Context,
    Decision,
    Declined,
    DeskKey,
    HoldView,
    Operand,
    Policy,
    Rule,
    RunHandle,
    RunView,
    Sayso,
    ToolMessage,
    answer,
    anyone,
    approve,
    ask_user,
    reject,
    service,
    tool,
)
from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.call import CallState
from sayso.domain.digest import call_digest
from sayso.domain.run import FOLD, with_call
from sayso.domain.transcript import Transcript
from sayso.domain.value import Principal
from sayso.engine.genuine import check_genuine
from sayso.engine.signing import Trust
from sayso.errors import BadKeys, NotWhatWasShown
from sayso.store.chain import GENESIS, leaf, link
from sayso.testing import ScriptedModel, call, say

from .kit import PATIENCE_S, Child, Place, agent, finished, held, suspended, until

UNSIGNED = "Asked again: the decision is not signed by a desk that this worker trusts."
RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.fixture
def key(tmp_path: Path) -> DeskKey:
    return DeskKey.new(tmp_path / "desk.key")


@pytest.fixture
def stolen(tmp_path: Path) -> DeskKey:
    """A key that nobody trusts."""
    return DeskKey.new(tmp_path / "stolen.key")


@tool(approval=True, effect="once")
def pay(amount: int) -> str:
    RAN.append(amount)
    return "paid"


def teller(*tools: Any, script: Any = None) -> Agent:
    return agent(script or [call("pay", {"amount": 10}), say("ok")], *(tools or (pay,)))


def outcome(view: RunView) -> Any:
    return next(one.outcome for one in view.messages if isinstance(one, ToolMessage))


class Split:
    """A desk and a worker on one store, and whoever else can write to it."""

    def __init__(self, place: Place, key: DeskKey, *agents: Agent, **options: Any) -> None:
        self.place = place
        self.key = key
        self.agents = agents or (teller(),)
        self.options = options

    def worker(self, **options: Any) -> Any:
        options.setdefault("trust", [self.key.public])
        return self.place.app(*self.agents, **self.options, **options)

    def desk(self, **options: Any) -> Any:
        options.setdefault("sign_with", self.key)
        return self.place.app(*self.agents, work=False, **options)

    async def start(self, **options: Any) -> str:
        """Start a run, and give its id once it is suspended."""
        async with self.worker(**options) as app:
            run = await app.start("teller", "go", by="mira")
            await suspended(run)
            return run.id

    async def hold(self, run_id: str, *, end: str = "", **options: Any) -> HoldView:
        """Let the worker go on until the run is suspended again, or has the hold with this end."""
        async with self.worker(**options) as app:
            return await (held_as(app, run_id, end) if end else held(app.run(run_id)))

    async def decide(self, run_id: str, verdict: Any = None, **options: Any) -> None:
        by = options.pop("by", "mira")
        undo = options.pop("undo", None)
        async with self.desk(**options) as app:
            (hold,) = (await app.run(run_id).view()).holds
            await app.decide(hold, verdict or approve(), by=by, undo=undo)

    async def end(self, run_id: str, **options: Any) -> RunView:
        async with self.worker(**options) as app:
            return await finished(app.run(run_id))


async def forge(app: Sayso, run_id: str, n: int, **changes: Any) -> None:
    """Settle a hold by writing the entry itself."""

    def verb(run: Any) -> list[e.Event]:
        hold = run.hold(n)
        made = {"at": 1, "effective_at": 1, "by": Principal(id="mira"), "verdict": approve()}
        decision = Decision(**({**made, "digest": hold.digest} | changes))
        return [e.HoldSettled(hold=n, version=hold.version, decision=decision)]

    await app._parts.ledger.write(run_id, verb)  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage]


async def decisions(app: Sayso, run_id: str) -> list[Decision]:
    found = [one.decision for one in await app.holds(status="any") if one.run_id == run_id]
    return [one for one in found if one is not None]


async def test_what_a_trusted_desk_has_signed_starts(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run)

    assert (await split.end(run)).status == "completed"
    assert RAN == [10]


async def test_what_is_not_signed_is_asked_again_once_for_each_decision(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    for n in (2, 3):
        await split.decide(run, sign_with=None)
        again = await split.hold(run)
        assert (again.id.endswith(f".{n}"), again.why, RAN) == (True, UNSIGNED, [])

    await split.decide(run)
    await split.end(run)
    assert RAN == [10]


async def test_the_key_of_another_desk_is_none(place: Place, key: DeskKey, stolen: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, sign_with=stolen)

    assert ((await split.hold(run)).why, RAN) == (UNSIGNED, [])


async def test_several_desks_can_be_trusted(place: Place, key: DeskKey, stolen: DeskKey):
    split = Split(place, key)
    for one in (key, stolen):
        run = await split.start()
        await split.decide(run, sign_with=one)
        await split.end(run, trust=[key.public, stolen.public])

    assert RAN == [10, 10]


async def test_without_trust_no_decision_needs_a_signature(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, sign_with=None)
    await split.end(run, trust=None)

    assert RAN == [10]


async def test_a_grant_is_signed_by_nobody(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    async with split.desk() as app:
        (hold,) = (await app.run(run).view()).holds
        await app.decide(hold, approve(), by="mira", always=Always())
    await split.end(run)

    await split.start()
    assert RAN == [10]


async def test_every_vote_is_signed(place: Place, key: DeskKey):
    policy = Policy(Rule("pay", approvers=["user:mira", "user:ann"], quorum=2))
    split = Split(place, key, policy=policy)
    run = await split.start()
    await split.decide(run, sign_with=None)
    await split.decide(run, by="ann")
    assert ((await split.hold(run)).why, RAN) == (UNSIGNED, [])

    for by in ("mira", "ann"):
        await split.decide(run, by=by)
    await split.end(run)
    assert RAN == [10]


async def test_a_no_needs_no_signature(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, reject("no"), sign_with=None)

    assert isinstance(outcome(await split.end(run)), Declined)
    assert RAN == []


async def test_an_edit_is_signed_as_what_it_is(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, approve(args={"amount": 7}))
    await split.end(run)

    assert RAN == [7]


async def test_several_decisions_at_once_are_all_signed(place: Place, key: DeskKey):
    script = [[call("pay", {"amount": n}) for n in (1, 2)], say("ok")]
    split = Split(place, key, teller(script=script))
    run = await split.start()
    async with split.desk() as app:
        view = await app.run(run).view()
        await app.resume(view.holds[0].request_id, approve(), by="mira")
    await split.end(run)

    assert sorted(RAN) == [1, 2]


async def test_a_decision_that_can_be_undone_is_signed(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, undo="5s")
    place.clock.advance("6s")
    await split.end(run)

    assert RAN == [10]


def copied(decision: Decision, **changes: Any) -> dict[str, Any]:
    return {name: getattr(decision, name) for name in decision.__struct_fields__} | changes


async def test_the_signature_of_another_hold_is_none(place: Place, key: DeskKey, stolen: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run)
    # Asked again under the same digest: the first yes is not good for the second question.
    await split.hold(run, trust=[stolen.public])
    async with split.desk(sign_with=None) as app:
        (first,) = await decisions(app, run)
        await forge(app, run, 2, **copied(first))

    again = await split.hold(run)
    assert (again.id.endswith(".3"), again.digest, RAN) == (True, first.digest, [])


async def test_the_signature_of_another_version_is_none(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, undo="5s")
    async with split.desk() as app:
        (first,) = await decisions(app, run)
        (hold,) = (await app.run(run).view()).holds
        await app.undo(hold, by="mira")
    async with split.desk(sign_with=None) as app:
        await app.decide(hold, approve(args={"amount": 99}), by="mira", undo="5s")
        (edited,) = await decisions(app, run)
        await app.undo(hold, by="mira")
        await forge(app, run, 1, **copied(first, digest=edited.digest))
    place.clock.advance("6s")

    assert ((await split.hold(run, end=".2")).why, RAN) == (UNSIGNED, [])


async def test_the_signature_of_another_run_is_none(place: Place, key: DeskKey):
    split = Split(place, key)
    one, other = await split.start(), await split.start()
    await split.decide(one)
    async with split.desk(sign_with=None) as app:
        (first,) = await decisions(app, one)
        (target,) = (await app.run(other).view()).holds
        await forge(app, other, 1, **copied(first, digest=target.digest))
    await split.end(one)

    assert ((await split.hold(other)).why, RAN) == (UNSIGNED, [10])


@pytest.mark.parametrize(
    "changes",
    [
        {"signature": ""},
        {"signature": "x"},
        {"signature": "desk_0.AAAA"},
        {"signature": "\N{SNOWMAN}.\N{SNOWMAN}"},
        {"by": Principal(id="ann")},
        {"verdict": approve()},
        {"effective_at": 1, "at": 1},
        {"note": "x"},
        {"channel": "http"},
    ],
    ids=str,
)
async def test_a_decision_that_was_changed_does_not_count(
    key: DeskKey, tmp_path: Path, changes: dict[str, Any]
):
    @tool(approval=True, approvers=[anyone], name="pay")
    def open_to_all(amount: int) -> str:
        RAN.append(amount)
        return "paid"

    place = Place("memory", tmp_path)
    split = Split(place, key, teller(open_to_all))
    run = await split.start()
    # What the thief has is a no, which was signed, and then taken back.
    verdict = reject("no") if "verdict" in changes else approve()
    await split.decide(run, verdict, undo="5s")
    async with split.desk(sign_with=None) as app:
        (first,) = await decisions(app, run)
        (hold,) = (await app.run(run).view()).holds
        await app.undo(hold, by="mira")
        await forge(app, run, 1, **copied(first, **changes))
    place.clock.advance("6s")

    assert ((await split.hold(run, end=".2")).why, RAN) == (UNSIGNED, [])


async def test_a_decision_that_was_written_by_a_thief_and_signed_by_a_desk_counts(
    place: Place, key: DeskKey
):
    # What the tests above change is what makes the difference.
    split = Split(place, key)
    run = await split.start()
    await split.decide(run, undo="5s")
    async with split.desk(sign_with=None) as app:
        (first,) = await decisions(app, run)
        (hold,) = (await app.run(run).view()).holds
        await app.undo(hold, by="mira")
        await forge(app, run, 1, **copied(first))
    place.clock.advance("6s")
    await split.end(run)

    assert RAN == [10]


async def test_the_signature_of_another_project_is_none(place: Place, key: DeskKey):
    split = Split(place, key)
    run = await split.start()
    await split.decide(run)
    async with split.desk() as app:
        (decision,) = await decisions(app, run)
        state = await app._parts.ledger.load(run)  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage]
    trust = Trust([key.public])

    assert trust.verifies(state, 1, 1, decision)
    assert not trust.verifies(replace(state, project="other"), 1, 1, decision)
    assert not trust.verifies(replace(state, id="run_other"), 1, 1, decision)
    assert not trust.verifies(state, 2, 1, decision)
    assert not trust.verifies(state, 1, 2, decision)


def rewrite(path: Path, run_id: str, edit: Callable[[Any], Any]) -> None:
    """Edit the journal of a run in its file, chain it anew, and let it be folded anew."""
    conn = apsw.Connection(str(path))
    with conn:
        conn.execute("drop trigger if exists the_journal_is_only_redacted")
        ((k,),) = conn.execute("select k from runs where id = ?", (run_id,)).fetchall()
        sql = "select position, seq, id, at, salt, payload from journal where run = ? order by seq"
        prev = GENESIS
        entries: list[Any] = conn.execute(sql, (k,)).fetchall()
        for position, seq, entry_id, at, salt, payload in entries:
            data = codec.encode_event(edit(codec.decode_event(payload)))
            content = leaf(salt, data)
            prev = link(prev, run_id=run_id, seq=seq, entry_id=entry_id, at=at, content=content)
            conn.execute(
                "update journal set payload = ?, hash = ? where position = ?",
                (data, prev, position),
            )
        conn.execute("update runs set hash = ?, fold = 0 where k = ?", (prev, k))
    conn.close()


EVIL = b'{"amount":99999}'


def evil(run_id: str) -> Callable[[Any], Any]:
    """Make a payment another one, everywhere."""
    digest = call_digest(
        project="default", run=run_id, version=1, tool="pay", tool_version="1", args=EVIL
    )

    def edit(event: Any) -> Any:
        match event:
            case e.TurnTaken(calls=(first,)):
                first = replace(first, args=msgspec.Raw(EVIL), digest=digest)
                return replace(event, calls=(first,))
            case e.HoldOpened():
                return replace(event, digest=digest)
            case e.HoldSettled(decision=decision):
                return replace(event, decision=replace(decision, digest=digest))
            case _:
                return event

    return edit


async def test_a_journal_that_was_written_anew_runs_nothing(file_place: Place, key: DeskKey):
    split = Split(file_place, key)
    run = await split.start()
    await split.decide(run)
    rewrite(file_place.path, run, evil(run))
    async with file_place.app(work=False) as app:
        from sayso.store.audit import verify

        await verify(app.store)

    again = await split.hold(run)
    assert (again.args, again.why, RAN) == ({"amount": 99999}, UNSIGNED, [])


async def test_a_row_that_was_written_anew_runs_nothing(file_place: Place, key: DeskKey):
    split = Split(file_place, key)
    run = await split.start()
    await split.decide(run)
    edit = evil(run)
    # The decision stays as it was signed; what it decides on is something else.
    rewrite(file_place.path, run, lambda one: one if isinstance(one, e.HoldSettled) else edit(one))
    conn = apsw.Connection(str(file_place.path))
    ((state,),) = conn.execute("select state from runs where id = ?", (run,)).fetchall()
    before = codec.decode_run(state)  # pyright: ignore[reportArgumentType]
    (row,) = before.calls(CallState.APPROVED)
    digest = call_digest(
        project="default", run=run, version=1, tool="pay", tool_version="1", args=EVIL
    )
    after = codec.encode_run(with_call(before, replace(row, digest=digest)))
    conn.execute("update runs set state = ?, fold = ? where id = ?", (after, FOLD, run))
    conn.close()

    again = await split.hold(run)
    assert (again.args, again.why, RAN) == ({"amount": 99999}, UNSIGNED, [])


async def test_without_trust_that_journal_would_run(file_place: Place, key: DeskKey):
    split = Split(file_place, key)
    run = await split.start()
    await split.decide(run)
    rewrite(file_place.path, run, evil(run))
    await split.end(run, trust=None)

    assert RAN == [99999]


def harmless(event: Any) -> Any:
    """Let people see something harmless under the digest of something else."""
    if not isinstance(event, e.TurnTaken) or not event.calls:
        return event
    shown = replace(event.calls[0], args=msgspec.Raw(b'{"amount":1}'))
    return replace(event, calls=(shown,))


async def test_a_desk_signs_nothing_that_its_digest_does_not_name(file_place: Place, key: DeskKey):
    split = Split(file_place, key)
    run = await split.start()
    rewrite(file_place.path, run, harmless)
    async with split.desk() as app:
        (hold,) = (await app.run(run).view()).holds
        assert hold.args == {"amount": 1}
        for what in (hold, hold.id):
            with pytest.raises(NotWhatWasShown, match="audit verify"):
                await app.decide(what, approve(), by="mira")


async def test_a_desk_signs_nothing_else_than_was_shown(file_place: Place, key: DeskKey):
    split = Split(file_place, key)
    run = await split.start()
    saved: list[Any] = []
    rewrite(file_place.path, run, lambda event: saved.append(event) or harmless(event))
    async with split.desk() as app:
        (hold,) = (await app.run(run).view()).holds
    rest = iter(saved)
    rewrite(file_place.path, run, lambda _: next(rest))
    async with split.desk() as app:
        with pytest.raises(NotWhatWasShown):
            await app.decide(hold, approve(), by="mira")


async def test_what_was_asked_after_it_was_looked_at_is_not_called_forged(
    place: Place, key: DeskKey
):
    split = Split(place, key)
    run = await split.start()
    async with split.desk() as app:
        state = await app._parts.ledger.load(run)  # pyright: ignore[reportOptionalMemberAccess, reportPrivateUsage]

    with pytest.raises(NotWhatWasShown, match="look at it again"):
        check_genuine(state, 1, Transcript(run), None)


async def test_a_call_in_doubt_is_not_run_again_without_a_signature(place: Place, key: DeskKey):
    @tool(effect="once", name="pay")
    def lost(amount: int) -> str:
        RAN.append(amount)
        if len(RAN) == 1:
            raise TimeoutError
        return "paid"

    split = Split(place, key, teller(lost))
    run = await split.start()
    await split.decide(run, sign_with=None)
    again = await split.hold(run)
    assert (again.kind, again.why, RAN) == ("approval", UNSIGNED, [10])

    await split.decide(run)
    await split.end(run)
    assert RAN == [10, 10]


async def test_silence_lets_nothing_start_and_is_not_asked_again_for_ever(
    place: Place, key: DeskKey
):
    @tool(approval=True, effect="once", within="1h", on_silence="approve", name="pay")
    def silent(amount: int) -> str:
        RAN.append(amount)
        return "paid"

    split = Split(place, key, teller(silent))
    run = await split.start()
    place.clock.advance("2h")
    async with split.worker() as app:
        again = await held_as(app, run, ".2")
        assert (again.why, RAN) == (UNSIGNED, [])
        place.clock.advance("2h")
        view = await finished(app.run(run))
    assert isinstance(outcome(view), Declined)
    assert RAN == []


async def held_as(app: Sayso, run: str, end: str) -> HoldView:
    """Wait for a hold by the end of its id."""

    async def there() -> bool:
        return any(one.id.endswith(end) for one in (await app.run(run).view()).holds)

    await until(there, f"the hold {end}")
    return next(one for one in (await app.run(run).view()).holds if one.id.endswith(end))


@tool(durable=True, effect="once")
async def careful(ctx: Context) -> str:
    said = await ctx.approval("Really?", within="1h")
    RAN.append(bool(said))
    return "done"


@tool(durable=True)
async def curious(ctx: Context) -> Any:
    said = await ctx.ask("How much?", kind="number")
    RAN.append(said)
    return said


@tool(durable=True)
async def patient(ctx: Context) -> Any:
    said = await ctx.external("the bank", approvers=[service("bank")])
    RAN.append(said)
    return said


BANK = Principal(kind="service", id="bank")


@pytest.mark.parametrize("stay_hot", [True, False])
@pytest.mark.parametrize(
    "body, verdict, by, told",
    [
        (careful, approve(), "mira", True),
        (careful, reject("no"), "mira", False),
        (curious, answer(7), "mira", 7),
        (patient, answer("ok"), BANK, "ok"),
    ],
)
async def test_a_body_goes_on_only_with_what_is_signed(
    place: Place,
    key: DeskKey,
    caplog: pytest.LogCaptureFixture,
    body: Any,
    verdict: Any,
    by: Any,
    told: Any,
    *,
    stay_hot: bool,
):
    caplog.set_level(logging.WARNING, "sayso")
    split = Split(place, key, teller(body, script=[call(body.name, {}), say("ok")]))
    run = await split.start()
    if stay_hot:
        async with split.worker() as app:
            other = await app.start("teller", "go", by="mira")
            await suspended(other)
            await decide_by(split, other.id, verdict, by, sign_with=None)
            await until(lambda: other.id in caplog.text, "a warning")
            assert await other.status() == "running"
    await decide_by(split, run, verdict, by, sign_with=None)
    async with split.worker() as app:
        await until(lambda: run in caplog.text, "a warning")
        assert (await app.run(run).status(), RAN) == ("running", [])
    assert caplog.text.count(run) == 1
    # Somebody who does not mind goes on.
    await split.end(run, trust=None)
    assert told in RAN


async def decide_by(split: Split, run: str, verdict: Any, by: Any, **options: Any) -> None:
    await split.decide(run, verdict, by=by, **options)


@pytest.mark.parametrize(
    "body, verdict, by, told",
    [
        (careful, approve(), "mira", True),
        (careful, reject("no"), "mira", False),
        (curious, answer(7), "mira", 7),
        (patient, answer("ok"), BANK, "ok"),
    ],
)
async def test_a_body_goes_on_with_what_is_signed(
    place: Place, key: DeskKey, body: Any, verdict: Any, by: Any, told: Any
):
    split = Split(place, key, teller(body, script=[call(body.name, {}), say("ok")]))
    run = await split.start()
    await split.decide(run, verdict, by=by)
    await split.end(run)

    assert [told] == RAN


async def test_a_body_goes_on_after_silence_that_says_no(place: Place, key: DeskKey):
    split = Split(place, key, teller(careful, script=[call("careful", {}), say("ok")]))
    run = await split.start()
    place.clock.advance("2h")
    await split.end(run)

    assert RAN == [False]


async def test_a_body_goes_on_after_its_question_was_taken_back(place: Place, key: DeskKey):
    split = Split(place, key, teller(careful, script=[call("careful", {}), say("ok")]))
    run = await split.start()
    async with split.desk(sign_with=None) as app:
        await app.say(run, "never mind", by="mira", supersede=True)
    await split.end(run)

    assert RAN == [False]


async def test_a_body_goes_on_with_what_its_children_bring(place: Place, key: DeskKey):
    @tool(durable=True)
    async def boss(ctx: Context) -> Any:
        RAN.append(await ctx.spawn("clerk", "Find it."))

    clerk = Agent("clerk", model=ScriptedModel([say("found")]))
    split = Split(place, key, teller(boss, script=[call("boss", {}), say("ok")]), clerk)
    async with split.worker() as app:
        await finished(await app.start("teller", "go", by="mira"))

    assert RAN == ["found"]


async def test_silence_cannot_be_asked_to_approve_inside_a_body(place: Place, key: DeskKey):
    @tool(durable=True)
    async def hasty(ctx: Context) -> None:
        RAN.append(await ctx.approval("Really?", within="1h", on_silence="approve"))

    split = Split(place, key, teller(hasty, script=[call("hasty", {}), say("ok")]))
    async with split.worker() as app:
        view = await finished(await app.start("teller", "go", by="mira"))

    assert (outcome(view).error, RAN) == ("BadPolicy", [])


@tool(durable=True, effect="once", approval=True)
async def gated(ctx: Context) -> Any:
    said = await ctx.ask("How much?", kind="number")
    RAN.append(said)
    return said


async def test_a_body_that_should_not_have_begun_goes_on_only_if_somebody_says_so(
    place: Place, key: DeskKey
):
    split = Split(place, key, teller(gated, script=[call("gated", {}), say("ok")]))
    run = await split.start()
    await split.decide(run, sign_with=None)
    await split.hold(run, trust=None)
    await split.decide(run, answer(7))
    doubt = await split.hold(run)
    assert (doubt.kind, doubt.title, doubt.why, RAN) == (
        "in_doubt",
        "Go on with gated?",
        UNSIGNED,
        [],
    )

    await split.decide(run, sign_with=None)
    again = await split.hold(run)
    assert (again.kind, RAN) == ("approval", [])
    await split.decide(run)
    await split.end(run)
    assert RAN == [7]


async def test_a_body_that_was_allowed_by_a_signed_yes_goes_on(place: Place, key: DeskKey):
    split = Split(place, key, teller(gated, script=[call("gated", {}), say("ok")]))
    run = await split.start()
    await split.decide(run)
    await split.hold(run)
    await split.decide(run, answer(7))
    await split.end(run)

    assert RAN == [7]


async def test_a_body_that_is_started_again_needs_signed_answers_too(
    place: Place, key: DeskKey, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING, "sayso")

    def body(first: str) -> Any:
        @tool(durable=True, effect="once", name="body")
        async def asks(ctx: Context) -> None:
            said = [await ctx.ask(first), await ctx.ask("And?")]
            RAN.extend(said)

        return teller(asks, script=[call("body", {}), say("ok")])

    split = Split(place, key, body("Who?"))
    run = await split.start()
    await split.decide(run, answer("eve"), sign_with=None)
    await split.hold(run, trust=None)
    await split.decide(run, answer("you"))
    other = Split(place, key, body("Whom?"))
    doubt = await other.hold(run, trust=None)
    assert doubt.kind == "in_doubt"
    await split.decide(run)
    async with split.worker() as app:
        await until(lambda: run in caplog.text, "a warning")
        assert (await app.run(run).status(), RAN) == ("running", [])
    await split.end(run, trust=None)
    assert RAN == ["eve", "you"]


async def test_a_step_in_doubt_is_taken_again_only_with_a_signature(
    place: Place, key: DeskKey, caplog: pytest.LogCaptureFixture
):
    def send() -> str:
        RAN.append("sent")
        if len(RAN) == 1:
            raise TimeoutError
        return "ok"

    @tool(durable=True, effect="once")
    async def sender(ctx: Context) -> Any:
        return await ctx.step("send", send)

    caplog.set_level(logging.WARNING, "sayso")
    split = Split(place, key, teller(sender, script=[call("sender", {}), say("ok")]))
    run, other = await split.start(), ""
    await split.decide(run, sign_with=None)
    async with split.worker() as app:
        await until(lambda: run in caplog.text, "a warning")
        assert (await app.run(run).status(), RAN) == ("running", ["sent"])
        await app.cancel(run, by="mira")
        await finished(app.run(run))
        RAN.clear()
        other = (await app.start("teller", "go", by="mira")).id
        await suspended(app.run(other))
    await split.decide(other)
    await split.end(other)
    assert RAN == ["sent", "sent"]


async def test_a_desk_that_stays_open_signs_what_others_have_written_since(
    file_place: Place, key: DeskKey
):
    script = [call("pay", {"amount": 1}), call("pay", {"amount": 2}), say("ok")]
    split = Split(file_place, key, teller(script=script))
    async with split.desk() as desk, split.worker() as worker:
        run = await worker.start("teller", "go", by="mira")
        for end in (".1", ".2"):
            hold = await held_as(desk, run.id, end)
            await desk.decide(hold, approve(), by="mira")
        await finished(run)

    assert RAN == [1, 2]


async def test_a_desk_signs_every_kind_of_answer(place: Place, key: DeskKey, tmp_path: Path):
    (tmp_path / "a").write_text("a")

    @tool(durable=True, effect="once", approval=True)
    async def reader(ctx: Context, path: Annotated[str, Operand()]) -> Any:
        data = ctx.operand("path")
        RAN.append(await ctx.ask("How much?", kind="number"))
        return data.decode()

    @tool(blocking=True)
    def form(ctx: Context) -> Any:
        return ctx.suspend("Which?")

    script = [
        call("reader", {"path": str(tmp_path / "a")}),
        call("ask_user", {"question": "Why?"}),
        call("form", {}),
        say("ok"),
    ]
    split = Split(place, key, teller(reader, form, ask_user(), script=script))
    run = await split.start()
    for end, verdict in ((".1", approve()), (".2", answer(7)), (".3", answer("x"))):
        await split.hold(run, end=end)
        await split.decide(run, verdict)
    await split.hold(run, end=".4")
    await split.decide(run, answer("y"))
    view = await split.end(run)
    async with split.desk() as app:
        assert all(one.signature for one in await decisions(app, run))

    assert (view.status, RAN) == ("completed", [7])


async def test_one_process_can_sign_and_trust(key: DeskKey):
    async with Sayso("memory:", agents=[teller()], sign_with=key, trust=[key.public]) as app:
        run: RunHandle = await app.start("teller", "go", by="mira")
        view = await app.decide(await held(run), approve(), by="mira")
        await finished(run)

    assert RAN == [10]
    assert view.decision is not None
    assert view.decision.signature.startswith(f"{key.id}.")


async def test_real_processes_a_desk_a_thief_and_a_worker(file_place: Place, key: DeskKey):
    with Child(file_place, do="serve", trust=[key.public]) as child:
        await child.said("ready")
        async with Sayso(file_place.path, work=False, agents=[teller()]) as thief:
            run = await thief.start("teller", "go", by="mira")
            first = (await run.wait(timeout=PATIENCE_S)).holds[0]
            await thief.decide(first, approve(), by="mira")
            again = await held_as(thief, run.id, ".2")
            assert again.why == UNSIGNED
            assert file_place.world.effects() == []
        async with Sayso(file_place.path, work=False, sign_with=key) as desk:
            await desk.decide(again, approve(), by="mira")
            await finished(desk.run(run.id))
        assert len(file_place.world.effects()) == 1


def test_a_key_is_a_file_that_only_its_owner_reads(tmp_path: Path, key: DeskKey):
    path = tmp_path / "desk.key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert DeskKey.load(path).public == DeskKey.load(str(path)).public == key.public

    with pytest.raises(BadKeys, match="there already"):
        DeskKey.new(path)
    path.chmod(0o640)
    with pytest.raises(BadKeys, match="chmod 600"):
        DeskKey.load(path)
    with pytest.raises(BadKeys, match="desk-key new"):
        DeskKey.load(tmp_path / "none")


def test_a_key_can_come_from_the_environment(tmp_path: Path, key: DeskKey):
    text = (tmp_path / "desk.key").read_text()

    assert DeskKey.load("MY_KEY", {"MY_KEY": text}).public == key.public
    with pytest.raises(BadKeys, match="no variable MY_KEY"):
        DeskKey.load("MY_KEY", {})


def test_a_private_key_is_never_shown(tmp_path: Path, key: DeskKey):
    secret = (tmp_path / "desk.key").read_text().strip()

    assert secret not in f"{key!r} {key} {Trust([key.public])!r} {key.public}"
    with pytest.raises(BadKeys):
        pickle.dumps(key)
    with pytest.raises(BadKeys, match="private") as caught:
        Trust([secret])
    assert secret not in str(caught.value)
    with pytest.raises(BadKeys) as caught:
        DeskKey(secret[:-4])
    assert secret[:-4] not in str(caught.value)


@pytest.mark.parametrize(
    "trust", [[], "deskpub_x", ["x"], [b"x"], ["deskpub_AAAA"], [None], 7, ["deskpub_\N{SNOWMAN}"]]
)
def test_a_trust_that_could_not_work_is_refused(trust: Any):
    with pytest.raises(BadKeys):
        Sayso("memory:", trust=trust)


@pytest.mark.parametrize("key", ["desk.key", "deskkey_x", object()])
def test_only_a_key_signs(key: Any):
    with pytest.raises(BadKeys, match=r"DeskKey\.load"):
        Sayso("memory:", sign_with=key)


def test_signatures_without_the_package_are_an_error_at_once(
    key: DeskKey, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)

    with pytest.raises(BadKeys, match="pip install"):
        Sayso("memory:", trust=[key.public])
