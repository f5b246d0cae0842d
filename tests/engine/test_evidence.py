"""What auditors are given: every decision once, in order, and never a value."""

from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso import (
    Agent,
    Policy,
    Rule,
    answer,
    approve,
    ask_user,
    fail,
    reject,
    spawn,
    tool,
)
from sayso.domain.glyph import read_back
from sayso.engine.evidence import FIELDS, FORMULA, Line, cell, cells
from sayso.errors import UnknownRun
from sayso.testing import ScriptedModel, call, say

from .kit import Place, agent, completed, finished, held, suspended

CANARY = "canary-4111"


@tool(approval=True, effect="once")
def pay(amount: int, to: str) -> str:
    return f"paid {to}"


def teller(calls: int = 1) -> Agent:
    turn = [call("pay", {"amount": n, "to": CANARY}) for n in range(calls)]
    return agent([turn, say("Done.")], pay)


async def lines(app: Any, **asked: Any) -> list[Line]:
    return [line async for line in app.audit.export(**asked)]


async def test_every_kind_of_decision_is_one_line(place: Place):
    policy = Policy(Rule("pay", within="1h"))
    async with place.app(teller(calls=4), policy=policy) as app:
        run = await app.start("teller", CANARY, by="mira")
        one, two, three, _ = (await suspended(run)).holds
        await app.decide(one, approve(), by="mira", key="k1", note="as agreed", channel="inbox")
        await app.decide(two, reject("too much"), by="mira")
        await app.decide(three, approve(args={"amount": 7, "to": CANARY}), by="mira", undo="5m")
        await app.undo(three.id, by="mira")
        await app.decide(await app.hold(three.id), approve(), by="mira")
        place.clock.advance("2h")
        await app.sweep()
        await finished(run)

        found = await lines(app, names={"mira": "Mira Okoye"})

        assert [(line.what, line.hold[-1], line.version) for line in found] == [
            ("approved", "1", 1),
            ("rejected", "2", 1),
            ("edited", "3", 2),
            ("approved", "3", 2),
            ("undone", "3", 2),
            ("approved", "3", 2),
            ("expired", "4", 1),
        ]
        assert [line.meaning for line in found] == [
            "approved pay",
            "rejected pay: too much",
            "edited the arguments of pay; what is asked is version 2 now",
            "approved pay",
            "took back the decision on pay",
            "approved pay",
            "nobody decided on pay in time, which means: reject",
        ]
        first, edited, expired = found[0], found[2], found[-1]
        assert (first.by, first.name, first.channel, first.key, first.note) == (
            "mira",
            "Mira Okoye",
            "inbox",
            "k1",
            "as agreed",
        )
        assert first.args_digest == first.shown_digest == one.digest
        assert edited.args_digest == found[3].args_digest == found[3].shown_digest != three.digest
        assert (expired.by, expired.name) == ("clock:clock", "")
        assert (first.run, first.call, first.tool) == (run.id, f"{run.id}.1.0", "pay")
        assert first.policy_version
        journal = await app.store.journal(run.id)
        for line in found:
            entry = journal[line.entry - 1]
            assert line.hash == entry.hash.hex()
            assert datetime.fromisoformat(line.at).timestamp() * 1000 == entry.at
        assert CANARY not in str(found)


async def test_a_line_has_the_digest_of_what_was_on_offer_at_its_time(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", "Pay.", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira", undo="5m")
        await app.undo(hold, by="mira")
        await app.decide(hold, approve(args={"amount": 7, "to": CANARY}), by="mira")
        await completed(run)

        first, undone, edited, approved = await lines(app)

        assert first.args_digest == first.shown_digest == hold.digest
        assert edited.args_digest == approved.args_digest == approved.shown_digest
        assert approved.args_digest not in ("", hold.digest)
        assert (first.version, undone.what, edited.version) == (1, "undone", 2)


async def test_an_answer_is_told_of_and_never_told(place: Place):
    script = [call("ask_user", {"question": "Which card?"}), say("Thanks.")]
    async with place.app(agent(script, ask_user())) as app:
        for verdict in (answer(CANARY), fail("no card")):
            run = await app.start("teller", "Hi.", by="mira")
            await app.decide(await held(run), verdict, by="mira")
            await completed(run)

        found = await lines(app)

        assert [line.meaning for line in found] == [
            "answered ask_user",
            "gave no answer to ask_user: no card",
        ]
        assert CANARY not in str(found)


async def test_what_another_run_settles_nobody_has_decided(place: Place):
    child = Agent("clerk", model=ScriptedModel([say("Found.")]))
    script = [call("spawn", {"agent": "clerk", "input": "Look."}), say("Done.")]
    boss = agent(script, spawn("clerk"), name="boss")
    async with place.app(boss, child) as app:
        await completed(await app.start("boss", "Go.", by="mira"))

        assert await lines(app) == []


async def test_what_is_withdrawn_and_what_is_erased_is_there_too(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", "Pay.", by="mira")
        await held(run)
        await app.cancel(run, by="mira", reason="never mind")
        await finished(run)
        await app.redact(run, 1, by="mira", reason="she asked")
        place.clock.advance("91d")
        await app.audit.retain("90d", by="noor")

        found = await lines(app)

        assert [(line.what, line.by, line.meaning) for line in found] == [
            ("erased", "noor", "erased what entries 1 to 9 said: older than 90d")
        ]
        other = await app.start("teller", "Pay.", by="mira")
        await held(other)
        await app.cancel(other, by="mira", reason="never mind")
        await finished(other)
        await app.redact(other, 1, by="mira", reason="she asked")
        assert [(line.what, line.meaning) for line in await lines(app, run=other.id)] == [
            ("withdrawn", "pay no longer asks: never mind"),
            ("redacted", "erased what entry 1 said: she asked"),
        ]


async def test_only_what_is_asked_for_is_given(place: Place):
    async with place.app(teller()) as app:
        times = []
        for project in ("p", "q", "p"):
            run = await app.start("teller", "Pay.", by="mira", project=project)
            times.append(datetime.fromtimestamp(place.clock.now() / 1000, UTC))
            await app.decide(await held(run), approve(), by="mira")
            await completed(run)
            place.clock.advance("1h")

        everything = await lines(app)
        assert [line.project for line in everything] == ["p", "q", "p"]
        assert await lines(app, project="q") == [everything[1]]
        assert await lines(app, run=everything[1].run) == [everything[1]]
        assert await lines(app, run=everything[1].run, project="p") == []
        assert await lines(app, since=times[1]) == everything[1:]
        assert await lines(app, until=times[1]) == everything[:1]
        naive = times[1].replace(tzinfo=None)
        assert await lines(app, since=naive, until=naive + timedelta(minutes=1)) == [everything[1]]
        for name in ("nobody", "run_nobody"):
            with pytest.raises(UnknownRun):
                await lines(app, run=name)


async def test_progress_hears_of_every_page(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", "Pay.", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        view = await completed(run)
        heard: list[int] = []

        await lines(app, progress=heard.append)

        assert heard == [view.seq]


def a_line(**fields: Any) -> Line:
    return Line(at="2026", project="p", run="run_1", what="x", by="m", entry=1, hash="h", **fields)


NASTY = [
    "=HYPERLINK(1)",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "  =1",
    "\u00a0=1",
    "\uff1d1+1",
    "\u200b=1",
]


@pytest.mark.parametrize("text", NASTY)
def test_no_cell_starts_a_formula(text: str):
    written = io.StringIO()
    csv.writer(written).writerow(cells(a_line(meaning=text, note=text)))

    (row,) = csv.reader(io.StringIO(written.getvalue()))

    assert len(row) == len(FIELDS)
    for name in ("meaning", "note"):
        value = row[FIELDS.index(name)]
        assert not value.lstrip().startswith((*FORMULA, "\t", "\r"))
        assert value.isprintable()


@given(st.text(max_size=40))
def test_a_cell_is_one_line_of_visible_text_that_can_be_read_back(text: str):
    made = cell(text)

    assert not made.lstrip().startswith(FORMULA)
    assert made.isprintable()
    assert read_back(made) in (text, f"'{text}")


def test_a_plain_cell_stays_as_it_is():
    assert cell('approved pay: Jiro\'s, "quoted"') == 'approved pay: Jiro\'s, "quoted"'
    assert cell("2026-11-16T05:45:57.027+00:00") == "2026-11-16T05:45:57.027+00:00"


def test_the_fields_keep_their_order():
    assert list(msgspec.to_builtins(a_line(meaning="m"))) == list(FIELDS)
    assert FIELDS[:8] == ("at", "project", "run", "hold", "call", "tool", "what", "meaning")
