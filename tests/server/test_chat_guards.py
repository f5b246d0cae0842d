"""What a chat does not do, whoever asks: for whom, on what, and how often."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from sayso import Agent, ask_user, tool
from sayso.agents.single import NAME, describe_call
from sayso.domain.value import Principal
from sayso.errors import StoreError
from sayso.server import chat
from sayso.server.chat_talk import _key
from sayso.server.door import Door, TokenWay
from sayso.server.seat import Seats
from sayso.server.token import Token, Tokens
from sayso.testing import ScriptedModel, call, say
from tests.server.test_chat import Desk, Json, answered, desk, kinds, read, said


async def test_a_chat_is_with_an_agent_and_with_none_of_our_own_parts(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effect="once")
    async def wipe(what: str) -> str:
        done.append(what)
        return what

    async with desk(tmp_path, tools=[wipe]) as here:
        body = {**said("c", describe_call("wipe", {"what": "disk"})), "agent": NAME}
        status, problem = await here.refused(body)

        assert (status, problem["type"]) == (404, "urn:sayso:problem:unknown-agent")
        assert (await here.page("c"))["messages"] == []
        assert done == []


def without(body: Json, *left_out: str) -> Json:
    """Leave the parts of these holds that say what was shown out of a message."""
    message = body["messages"][-1]
    message["parts"] = [
        part
        for part in message["parts"]
        if part["type"] != "data-suspension" or part["id"] not in left_out
    ]
    return body


def shown(page: Json) -> list[str]:
    parts = page["messages"][-1]["parts"]
    return [part["id"] for part in parts if part["type"] == "data-suspension"]


def refusals(chunks: list[Json]) -> list[str]:
    return [one["data"]["error"] for one in chunks if one["type"] == "data-refusal"]


@pytest.mark.parametrize("yes", [True, False], ids=["approve", "deny"])
async def test_an_answer_without_what_was_shown_decides_nothing(tmp_path: Path, yes: bool) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        bare = without(answered("c", page, yes), *shown(page))

        chunks = await here.post(bare)

        assert refusals(chunks) == ["NotWhatWasShown"]
        assert "tool-approval-request" in kinds(chunks)
        got = await here.http.post("/v1/chat", json=bare, params={"mode": "answer"})
        assert [one["error"] for one in got.json()["refusals"]] == ["NotWhatWasShown"]
        assert await here.page("c") == page
        assert here.paid() == []


@pytest.mark.parametrize("more", ["answers", "rejections"])
async def test_a_question_is_answered_by_who_was_shown_it(tmp_path: Path, more: str) -> None:
    script = [call("ask_user", {"question": "Which?"}), say("Well.")]
    asker = Agent("asker", model=ScriptedModel(script), tools=[ask_user()])
    async with desk(tmp_path, asker) as here:
        page = await here.held("c", "go")
        told: dict[str, Any] = {more: {shown(page)[0]: "that"}}

        assert refusals(await here.post({"id": "c", **told})) == ["NotWhatWasShown"]
        assert await here.page("c") == page
        chunks = await here.post({**answered("c", page), **told})

        assert refusals(chunks) == []
        assert chunks[-1]["finishReason"] == "stop"


async def test_what_is_decided_together_was_all_shown(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> int:
        paid.append(amount)
        return amount

    script = [[call("pay", {"amount": 1}), call("pay", {"amount": 9000})], say("Well.")]
    both = Agent("payer", model=ScriptedModel(script), tools=[pay], resolve="together")
    async with desk(tmp_path, both) as here:
        page = await here.held("c", "go")
        first, second = shown(page)
        forged = answered("c", page, True)
        for part in forged["messages"][-1]["parts"]:
            if part.get("id") == second:
                part["data"]["digest"] = "another"

        for body in (without(answered("c", page, True), second), forged):
            assert refusals(await here.post(body)) == ["NotWhatWasShown"]
            assert await here.page("c") == page
        assert refusals(await here.post(without(answered("c", page, True), first))) != []
        assert paid == []

        assert refusals(await here.post(answered("c", page, True))) == []
        assert sorted(paid) == [1, 9000]


async def test_nobody_takes_the_thread_of_anothers_chat(tmp_path: Path) -> None:
    """Whoever else uses the same id has a thread whose name can be worked out."""
    async with desk(tmp_path) as here, here.client("eve@default") as eve:
        await here.post(said("support", "first"), http=eve)
        name = _key("support", "mira")
        planted = await here.app.start("payer", "PLANTED", by="eve", thread=name)
        await planted.wait(final=True, timeout=10)

        assert (await here.page("support"))["messages"] == []
        await here.post(said("support", "hello"))
        mine = await here.page("support")
        assert [one["parts"][0]["text"] for one in mine["messages"][:1]] == ["hello"]
        assert len(mine["messages"]) == 2

        # Nor does anybody reach a chat of their own by such a name, or begin one with it.
        free = _key("other", "mira")
        await here.post(said(free, "hello"), http=eve)
        assert await here.app.store.thread("default", free) is None


async def test_a_page_ends_where_somebody_else_has_spoken(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, here.client("root@default") as root:
        await here.post(said("c", "my secret plan"))
        row = await here.app.store.thread("default", "c")
        assert row is not None
        await here.app.people.put("root", roles=["operator"])
        spoken = await here.app.say(row.id, "operator here", by="root")
        await spoken.wait(final=True, timeout=10)

        page = await here.page("c", root)

        assert [one["parts"][0]["text"] for one in page["messages"][:1]] == ["operator here"]
        assert "my secret plan" not in str(page)
        assert page["before"] is None


async def test_a_chat_that_was_archived_is_one_that_does_not_exist(tmp_path: Path) -> None:
    async with desk(tmp_path) as here, here.client("otto@other") as otto:
        for http in (here.http, otto):
            await here.post(said("c", "hello"), http=http)
        rows = [await here.app.store.thread(project, "c") for project in ("default", "other")]
        names = [row.id for row in rows if row is not None]
        assert len(names) == 2
        # The last entry of all stays: it is in this one.
        await (await here.app.start("payer", "hello", by="mira")).wait(final=True, timeout=10)
        done = await here.app.audit.archive("1ms", tmp_path, by="mira")
        assert done.runs == 2

        unknown = names[0][:-3] + "abc"
        for chat, name in [(unknown, unknown), ("c", names[0]), *zip(names, names, strict=True)]:
            assert await here.page(chat) == {"messages": [], "status": None, "before": None}
            for path in ("stream", "stream?replay=true"):
                assert (await here.http.get(f"/v1/chat/{chat}/{path}")).status_code == 204
            hold = f"hold_{name.removeprefix('run_')}.1"
            status, problem = await here.refused({"id": "x", "answers": {hold: "x"}})
            assert (status, problem["detail"]) == (404, f"there is no hold {hold!r}")
            wrong = await here.http.get("/v1/chat/c/messages", params={"before": name})
            assert wrong.status_code == 404
            chunks = await here.post(said(chat, "hello", id=f"again-{chat}"))
            assert chunks[-1]["finishReason"] == "stop"
            assert len((await here.page(chat))["messages"]) == 2


async def token(here: Desk) -> tuple[Token, str]:
    """Put the real door in, and give a token that it lets in."""
    here.state.state.door = Door([TokenWay(here.app)])
    return await Tokens(here.app.store).create(
        name="page", by=Principal(id="mira"), project="default"
    )


async def revoke(here: Desk, one: Token) -> None:
    await Tokens(here.app.store).revoke(one.id, project="default")


async def test_a_stream_ends_with_the_credential_that_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "ALIVE_S", 0.02)
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        mine, text = await token(here)
        chunks: list[Json] = []
        async with (
            asyncio.timeout(10),
            here.client(text) as http,
            http.stream("GET", "/v1/chat/c/stream?follow=true") as got,
        ):
            async for chunk in read(got):
                chunks.append(chunk)
                await revoke(here, mine)

        assert chunks[-1] == {"type": "error", "errorText": chat.ENDED}


async def test_nothing_is_done_for_one_reader_too_many(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        yes = answered("c", page, True)
        here.state.state.streams = Seats(0)

        for body in (said("d", "hello"), said("c", "stop", id="u2"), yes):
            assert (await here.refused(body))[0] == 503
        got = await here.http.get("/v1/chat/c/stream?replay=true")

        assert got.status_code == 503
        assert (await here.page("d"))["messages"] == []
        assert await here.page("c") == page
        # Whoever reads already may answer.
        got = await here.http.post("/v1/chat", json=yes, params={"mode": "answer"})
        assert got.json()["refusals"] == []


async def test_a_stream_does_not_say_where_the_store_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path) as here:
        await here.post(said("c", "hello"))

        async def journal(*_: Any, **__: Any) -> Any:
            raise StoreError("'postgresql://sayso@10.0.0.5/pay' cannot be reached")

        monkeypatch.setattr(here.app.store, "journal", journal)
        async with here.http.stream("GET", "/v1/chat/c/stream?replay=true") as got:
            (chunk,) = [one async for one in read(got)]

        assert chunk["type"] == "error"
        assert chunk["errorText"]
        assert "10.0.0.5" not in chunk["errorText"]
