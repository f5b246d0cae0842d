"""One contract for the two desks: a store that is opened, and a server that is asked."""

import asyncio
import json
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from sayso import Always, approve, reject
from sayso.cli.desk import find_desk
from sayso.cli.opened import STORE
from sayso.domain.hold import Approved, Rejected
from sayso.errors import (
    AlreadyDecided,
    BadValue,
    CannotUndo,
    NotAllowed,
    NotWhatWasShown,
    Unauthenticated,
    UnknownHold,
    UnknownRun,
    Unreachable,
    WrongVerdict,
)
from sayso.store.views import moment

from .stage import WAYS, staged


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def desk(stage, way, monkeypatch):
    @asynccontextmanager
    async def open_desk(who: str = "mira"):
        if way == "local":
            where = find_desk(store=STORE.convert(str(stage.store), None, None), who=who)
        else:
            monkeypatch.setenv("SAYSO_TOKEN", stage.tokens[who])
            where = find_desk(url=stage.url)
        async with where.open() as it:
            yield it

    return open_desk


async def test_a_desk_knows_who_one_is(desk):
    async with desk("ann") as it:
        assert await it.who() == "ann"


async def test_a_request_is_the_same_value_at_both(stage, desk):
    name = stage.ask("fund")

    async with desk("ann") as it:
        hold = await it.hold(name)

    assert hold.args_json == '{"amount":12400.0,"id":9007199254740993}'
    assert hold.args == {"amount": 12400.0, "id": 9007199254740993}
    assert (hold.risk, hold.kind, hold.tool, hold.status) == ("medium", "approval", "fund", "open")
    assert (hold.approvers, hold.quorum, hold.missing) == (("role:finance",), 2, 2)
    assert (hold.ruling.on_silence, hold.grantable) == ("reject", False)
    assert hold.deadline is not None
    assert 3500 < (hold.deadline - datetime.now(UTC)).total_seconds() < 3601
    assert hold.shown.parts[1].rows == ("9007199254740993",)


async def test_a_question_comes_with_its_choices(stage, desk):
    name = stage.ask("ask")

    async with desk() as it:
        question = (await it.hold(name)).question

    assert question is not None
    assert [one.shown for one in question.options] == ["red", "blue"]


async def test_what_asks_one_is_listed_and_found_by_words(stage, desk):
    mine, mine_too, theirs = stage.ask("pay 7"), stage.ask("pay 8"), stage.ask("fund")

    async with desk() as it:
        asked = [hold.id for hold in await it.page(limit=200)]
        everyone = [hold.id for hold in await it.page(everyone=True, limit=200)]
        found = [hold.id for hold in await it.page(search=mine)]
        first = await it.page(limit=1)
        second = await it.page(limit=1, after=first.next)

    assert {mine, mine_too} <= {*asked}
    assert theirs not in asked
    assert {mine, mine_too, theirs} <= {*everyone}
    assert found == [mine]
    assert first[0].id != second[0].id


async def test_a_decision_is_durable_and_the_first_one_stands(stage, desk):
    name = stage.ask()

    async with desk() as it:
        hold = await it.hold(name)
        decided = await it.decide(hold, reject("not now"), note="by hand")
        with pytest.raises(AlreadyDecided) as refused:
            await it.decide(hold, approve())

    said = refused.value.decision
    assert decided.status == "settled"
    assert stage.hold(name)["decision"]["reason"] == "not now"
    assert (said.word, said.by.id) == ("rejected", "mira")
    assert isinstance(said.verdict, Rejected)
    assert said.verdict.reason == "not now"
    assert abs((moment(said.at) - datetime.now(UTC)).total_seconds()) < 60


async def test_a_decision_is_taken_back_while_it_does_not_count(stage, desk):
    name = stage.ask()

    async with desk() as it:
        decided = await it.decide(await it.hold(name), approve(), undo_s=60)
        back = await it.undo(name)
        with pytest.raises(CannotUndo):
            await it.undo(name)

    assert decided.status == "decided"
    assert decided.decision is not None
    assert 59_000 < decided.decision.effective_at - decided.decision.at <= 60_000
    assert (back.status, back.decision) == ("open", None)


async def test_what_was_shown_is_what_is_decided(stage, desk, way):
    name = stage.ask()

    async with desk() as it:
        hold = await it.hold(name)
        body = {"action": "approve", "args": {"amount": 5.0, "to": "Ann"}, "seen": hold.digest}
        stage.post(f"/v1/holds/{name}/decision", {**body, "undo": 60})
        stage.post(f"/v1/holds/{name}/undo", None)

        with pytest.raises(NotWhatWasShown):
            await it.decide(hold, approve())
        now = await it.hold(name)

    assert (now.version, now.status, now.args["to"]) == (2, "open", "Ann")


async def test_one_vote_of_two_leaves_it_open(stage, desk):
    name = stage.ask("fund")

    async with desk("ann") as it:
        voted = await it.decide(await it.hold(name), approve())

    assert (voted.status, voted.missing, len(voted.votes)) == ("open", 1, 1)
    assert isinstance(voted.votes[0].verdict, Approved)


async def test_whoever_is_not_asked_decides_nothing(stage, desk):
    name = stage.ask()

    async with desk() as it:
        hold = await it.hold(name)
    async with desk("eve") as it:
        with pytest.raises(NotAllowed):
            await it.decide(hold, approve())

    assert stage.hold(name)["status"] == "open"


async def test_what_is_not_there_is_unknown(stage, desk):
    async with desk() as it:
        with pytest.raises(UnknownHold):
            await it.hold("hold_nobody.1")
        with pytest.raises(UnknownRun):
            await it.events("run_nobody")
        with pytest.raises(WrongVerdict):
            await it.sign_in_url(stage.ask())


async def test_a_request_is_handed_over(stage, desk):
    name = stage.ask()

    async with desk() as it:
        now = await it.reassign(name, to="ann", note="yours")

    assert now.approvers == ("user:ann",)


async def test_somebody_is_told_again_later(stage, desk):
    name = stage.ask()

    async with desk() as it:
        at = await it.remind(name, 3600)
        with pytest.raises(BadValue):
            await it.remind(name, 400 * 86400)
    async with desk("eve") as it:
        with pytest.raises(NotAllowed):
            await it.remind(name, 3600)

    assert 3500 < (at - datetime.now(UTC)).total_seconds() < 3601


async def test_a_run_is_told_alike(stage, desk):
    name = stage.ask()
    run = stage.hold(name)["run_id"]

    async with desk() as it:
        events = await it.events(run)

    assert [event["type"] for event in events] == [
        "run.started", "turn.taken", "hold.opened", "run.suspended",
    ]  # fmt: skip
    assert events[1]["data"]["calls"][0]["tool"] == "pay"
    assert json.dumps(events)


async def test_a_standing_yes_is_given_listed_and_revoked(stage, desk):
    name = stage.ask("pay 31")

    async with desk() as it:
        always = Always(args={"amount": {"at_most": 50}}, until="1h", uses=3, note="small ones")
        await it.decide(await it.hold(name), approve(), always=always)
        (grant,) = [one for one in await it.grants() if one.hold == name]
        ended = await it.revoke(grant.id)
        left = [one.id for one in await it.grants()]

    assert (grant.tool, grant.by.id, grant.uses_max, grant.note) == ("pay", "mira", 3, "small ones")
    assert ended.revoked is not None
    assert grant.id not in left


async def test_a_token_that_is_no_good_is_said_so(stage, monkeypatch):
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_nobody")

    async with find_desk(url=stage.url).open() as it:
        with pytest.raises(Unauthenticated):
            await it.who()


async def test_a_server_that_is_not_there_is_said_so(monkeypatch):
    monkeypatch.setenv("SAYSO_TOKEN", "sayso_secret")

    async with find_desk(url="http://127.0.0.1:1").open() as it:
        with pytest.raises(Unreachable) as refused:
            await it.who()

    assert "sayso_secret" not in str(refused.value)


@asynccontextmanager
async def losing_answers(url: str, *, lost: int):
    """Stand between, and lose the first answers: the server has done what it was asked, and nobody
    hears of it. Give the address, and the keys that requests come with.
    """
    port = int(url.rpartition(":")[2])
    keys: list[str] = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1])) if length else b""
        key = re.search(rb"idempotency-key: (\S+)", head, re.IGNORECASE)
        keys.append(key[1].decode() if key else "")
        there, to = await asyncio.open_connection("127.0.0.1", port)
        to.write(head.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + body)
        answer = await there.read()
        to.close()
        if len(keys) > lost:
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", keys


async def test_a_decision_whose_answer_is_lost_is_made_once(stage, monkeypatch):
    monkeypatch.setenv("SAYSO_TOKEN", stage.tokens["mira"])
    name = stage.ask()

    async with find_desk(url=stage.url).open() as it:
        hold = await it.hold(name)
    async with (
        losing_answers(stage.url, lost=2) as (url, keys),
        find_desk(url=url).open() as it,
    ):
        decided = await it.decide(hold, approve(), undo_s=60)

    assert (decided.status, len(keys), len(set(keys))) == ("decided", 3, 1)
    assert keys[0]


async def test_what_the_server_would_not_know_again_is_not_sent_again(stage, monkeypatch):
    monkeypatch.setenv("SAYSO_TOKEN", stage.tokens["mira"])
    name = stage.ask()

    async with (
        losing_answers(stage.url, lost=9) as (url, keys),
        find_desk(url=url).open() as it,
    ):
        with pytest.raises(Unreachable, match="whether it was done"):
            await it.reassign(name, to="ann")

    assert len(keys) == 1


@pytest.mark.parametrize(
    "sent", ["https://a.test/\x1b[2Jx", "file:///etc/passwd", "-x", "https://\u202eevil.test", ""]
)
async def test_an_address_that_is_none_of_a_web_page_is_neither_printed_nor_opened(
    monkeypatch, sent
):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"url": sent}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        await writer.drain()
        writer.close()

    monkeypatch.setenv("SAYSO_TOKEN", "x")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with find_desk(url=f"http://127.0.0.1:{port}").open() as desk:
            with pytest.raises(Unreachable, match="none of a web page"):
                await desk.sign_in_url("hold_x.1")
