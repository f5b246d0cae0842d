"""Runs that a newer Sayso has written to: this one leaves them alone, and works on the others.

A newer Sayso is this one with a higher fold number, or an event that this one does not know.
"""

import asyncio
import logging
import os

import pytest
from msgspec.structs import replace

from sayso import Agent, Policy, Rule, Sayso, approve, tool
from sayso.domain import codec
from sayso.domain.run import FOLD
from sayso.engine import ledger
from sayso.engine import write as write_module
from sayso.errors import NotUnderstood
from sayso.store.base import NewEntry, Write
from sayso.testing import FakeClock, ScriptedModel, call, say
from tests.engine.kit import until

PATIENCE_S = 30


def teller(began: list[str] | None = None) -> Agent:
    @tool(approval=True, effect="once")
    async def pay() -> str:
        return "paid"

    def turn(messages):
        if began is not None:
            began.append(messages[0].text)
        return call("pay") if len(messages) == 1 else say("Paid.")

    return Agent("teller", model=ScriptedModel(turn), tools=[pay])


@pytest.fixture(params=["file", "database"])
def where(request, tmp_path) -> str:
    if request.param == "file":
        return str(tmp_path / "pay.db")
    return request.getfixturevalue("postgres").database()


@pytest.fixture
def newer(monkeypatch):
    """Be a newer Sayso for a while."""

    def begin() -> None:
        for module in (ledger, write_module):
            monkeypatch.setattr(module, "FOLD", FOLD + 1)

    return begin, monkeypatch.undo


async def test_a_run_of_a_newer_sayso_is_not_worked_on(where, newer):
    begin, end = newer
    began: list[str] = []
    begin()
    async with Sayso(where, agents=[teller()], work=False) as desk:
        await desk.start("teller", "newer", by="mira", id="run_1")
    end()

    async with Sayso(where, agents=[teller(began)]) as app:
        # It is the oldest: if it could be claimed, it would be the first.
        run = await app.start("teller", "of now", by="mira")
        (hold,) = (await run.wait(timeout=PATIENCE_S)).holds
        await app.decide(hold, approve(), by="mira")
        assert (await run.wait(final=True, timeout=PATIENCE_S)).status == "completed"
        row = await app.store.load("run_1")
        with pytest.raises(NotUnderstood, match="upgrade"):
            await app.cancel("run_1", by="mira")

    assert "newer" not in began
    assert (row.owner, row.seq, row.fold) == ("", 1, FOLD + 1)


async def test_what_is_due_in_a_run_of_a_newer_sayso_is_left_to_it(tmp_path, newer, caplog):
    begin, end = newer
    clock, where = FakeClock(), tmp_path / "pay.db"
    policy = Policy(Rule("pay", within="1m"))
    begin()
    async with Sayso(where, agents=[teller()], policy=policy, clock=clock) as app:
        run = await app.start("teller", "newer", by="mira", id="run_1")
        assert (await run.wait(timeout=PATIENCE_S)).holds
        before = await app.store.load("run_1")
    end()
    clock.advance(120_000)

    async with Sayso(where, agents=[teller()], clock=clock, work=False) as app:
        touched = await app.sweep()
        after = await app.store.load("run_1")

    assert touched == 0
    assert after == before
    assert "run_1 is left alone: 'run_1' was written to by a newer Sayso" in caplog.text


async def test_a_run_with_an_unknown_event_is_left_alone(where, caplog):
    caplog.set_level(logging.WARNING)
    async with Sayso(where, agents=[teller()], work=False) as desk:
        await desk.start("teller", "x", by="mira", id="run_1")
        await desk.store.append(await _unknown(desk))

    async with Sayso(where, agents=[teller()]) as app:
        await until(lambda: "run_1 is left alone" in caplog.text)
        run = await app.start("teller", "of now", by="mira")
        assert (await run.wait(timeout=PATIENCE_S)).holds

    async with Sayso(where, work=False) as desk:
        row = await desk.store.load("run_1")
    assert (row.status, row.seq, row.owner) == ("running", 2, "")
    assert "Traceback" not in caplog.text


async def test_a_decision_about_a_run_with_an_unknown_event_is_told_to_whoever_made_it(
    where, caplog
):
    caplog.set_level(logging.WARNING)
    async with Sayso(where, agents=[teller()]) as app:
        run = await app.start("teller", "x", by="mira", id="run_1")
        (hold,) = (await run.wait(timeout=PATIENCE_S)).holds
    async with Sayso(where, work=False) as desk:
        await desk.store.append(await _unknown(desk))

    # Who could go on with it has its journal read along, where that saves a round trip.
    async with Sayso(where, agents=[teller()]) as app:
        decided = await app.decide(hold, approve(), by="mira")
        await until(lambda: "run_1 is left alone" in caplog.text)
        row = await app.store.load("run_1")

    assert (decided.status, row.status) == ("settled", "running")


async def test_a_call_under_way_is_not_cut_off_by_what_newer_code_writes(where, caplog):
    caplog.set_level(logging.WARNING)
    go, done = asyncio.Event(), list[str]()

    @tool(effect="once")
    async def pay() -> str:
        done.append("begun")
        await go.wait()
        done.append("ended")
        return "paid"

    agent = Agent("teller", model=ScriptedModel([call("pay"), say("Paid.")]), tools=[pay])
    async with Sayso(where, work=False) as newer, Sayso(where, agents=[agent]) as app:
        await app.start("teller", "x", by="mira", id="run_1")
        await until(lambda: done)
        await newer.store.append(await _unknown(newer, fold=FOLD + 1))
        await until(lambda: "run_1 is left alone" in caplog.text)
        assert done == ["begun"]
        go.set()
        await until(lambda: done == ["begun", "ended"])
        seen = await newer.store.load("run_1")

    async with Sayso(where, work=False) as desk:
        row = await desk.store.load("run_1")
    # Nothing more was written, and once this worker was gone nobody has it: newer code asks.
    assert (row.seq, row.last, row.status, row.owner) == (seen.seq, seen.last, "running", "")
    assert caplog.text.count("run_1 is left alone") == 1


async def _unknown(desk: Sayso, fold: int = FOLD) -> Write:
    row = await desk.store.load("run_1")
    state = codec.encode_run(replace(codec.decode_run(row.state), seq=row.seq + 1))
    return Write(
        run=row.id,
        after=row.seq,
        after_id=row.last,
        entries=(NewEntry(id=os.urandom(8), payload=b'{"type":"run.sang.1"}'),),
        project=row.project,
        agent=row.agent,
        thread=row.thread,
        status=row.status,
        fold=fold,
        state=state,
        due_at=row.due_at,
        owner_was=row.owner,
    )
