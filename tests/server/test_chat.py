"""Chats over HTTP, on a real server and a real socket: what is taken from a client, what is told,
and when a stream ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sayso import Agent, Context, Policy, Rule, Sayso, approve, ask_user, reject, spawn, tool
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import QUICK, World, until
from tests.server.chat_app import payer, served

Json = dict[str, Any]


class Desk:
    """A server, its app, and a client that speaks for mira."""

    def __init__(self, app: Sayso, url: str, world: World, state: Any) -> None:
        self.app = app
        self.url = url
        self.world = world
        self.state = state
        self.http = self.client("mira@default")

    def client(self, token: str) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, verify=False)

    async def post(self, body: Json, *, http: Any = None, **query: Any) -> list[Json]:
        """Post, read the stream to its end, and give its chunks."""
        chunks: list[Json] = []
        async with (http or self.http).stream("POST", "/v1/chat", json=body, params=query) as got:
            assert got.status_code == 200, await got.aread()
            async for chunk in read(got):
                chunks.append(chunk)
        return chunks

    async def refused(self, body: Any, *, http: Any = None, **query: Any) -> tuple[int, Json]:
        got = await (http or self.http).post("/v1/chat", json=body, params=query)
        assert got.headers["content-type"] == "application/problem+json"
        return got.status_code, got.json()

    async def page(self, chat: str, http: Any = None) -> Json:
        got = await (http or self.http).get(f"/v1/chat/{chat}/messages")
        assert got.status_code == 200
        return got.json()

    async def held(self, chat: str, text: str) -> Json:
        """Say something that is held; give the page that shows it."""
        await self.post(said(chat, text))
        return await self.page(chat)

    def paid(self) -> list[float]:
        return [json.loads(line)["amount"] for line in self.world.read("payments")]


async def read(got: Any) -> AsyncIterator[Json]:
    """Read a stream's chunks, and hold it to exactly one end."""
    ends = 0
    async for line in got.aiter_lines():
        if not line or line.startswith(":"):
            continue
        assert ends == 0, "something came after the end"
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            ends += 1
        else:
            yield json.loads(data)
    assert ends == 1


def said(chat: str, text: str, **more: Any) -> Json:
    message = {
        "id": more.pop("id", "u1"),
        "role": "user",
        "parts": [{"type": "text", "text": text}],
    }
    return {"id": chat, "messages": [message], "trigger": "submit-message", **more}


def answered(chat: str, page: Json, *verdicts: bool, **more: Any) -> Json:
    """Make what a page sends that answers what its last message asks, in order."""
    page = json.loads(json.dumps(page))
    message, left = page["messages"][-1], list(verdicts)
    for part in message["parts"]:
        if part.get("state") == "approval-requested" and left:
            part["state"] = "approval-responded"
            part["approval"]["approved"] = left.pop(0)
    body = {"id": chat, "messages": page["messages"], "messageId": message["id"]}
    return {**body, "trigger": "submit-message", **more}


def holds(page: Json) -> list[str]:
    parts = page["messages"][-1]["parts"]
    return [part["approval"]["id"] for part in parts if part.get("state") == "approval-requested"]


def kinds(chunks: list[Json]) -> list[str]:
    return [one["type"] for one in chunks if not one["type"].startswith("data-")]


@asynccontextmanager
async def desk(root: Path, *agents: Agent, **options: Any) -> AsyncIterator[Desk]:
    world = World(root / "world")
    mine = agents or (payer(world),)
    options.setdefault("bounds", QUICK)
    async with (
        Sayso(root / "sayso.db", agents=mine, drain_s=1, **options) as app,
        served(app) as (url, state),
    ):
        made = Desk(app, url, world, state)
        async with made.http:
            yield made


async def test_two_requests_each_with_their_end(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        first = await here.post(said("c", "pay 200 jiro pay 300 ann"))
        page = await here.page("c")
        second = await here.post(answered("c", page, True, False))

        assert kinds(first)[-2:] == ["finish-step", "finish"]
        assert kinds(first).count("tool-approval-request") == 2
        assert first[-1]["finishReason"] == "tool-calls"
        assert second[0] == first[0]
        assert sorted(kinds(second)[1:3]) == ["tool-output-available", "tool-output-denied"]
        assert kinds(second)[3] == "start-step"
        assert here.paid() == [200.0]


async def test_headers_are_those_that_clients_and_proxies_expect(tmp_path: Path) -> None:
    async with (
        desk(tmp_path) as here,
        here.http.stream("POST", "/v1/chat", json=said("c", "hello")) as got,
    ):
        assert got.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert got.headers["content-type"].startswith("text/event-stream")
        assert got.headers["x-accel-buffering"] == "no"
        assert [chunk["type"] async for chunk in read(got)][-1] == "finish"


@pytest.mark.parametrize("yes", [True, False], ids=["approve", "deny"])
async def test_a_continuous_stream_ends_once(tmp_path: Path, yes: bool) -> None:
    async with desk(tmp_path) as here:
        stream = asyncio.ensure_future(here.post(said("c", "pay 200 jiro"), mode="continuous"))
        await until(lambda: _is_held(here, "c"))
        got = await here.http.post(
            "/v1/chat", json=answered("c", await here.page("c"), yes), params={"mode": "answer"}
        )
        chunks = await stream

        assert got.json()["refusals"] == []
        # A text comes in as many pieces as there was time for.
        assert [kind for kind, _ in groupby(kinds(chunks))] == [
            "start",
            "text-start",
            "text-delta",
            "text-end",
            "tool-input-start",
            "tool-input-available",
            "start-step",
            "tool-approval-request",
            "finish-step",
            "tool-output-available" if yes else "tool-output-error",
            "text-start",
            "text-delta",
            "text-end",
            "finish",
        ]
        assert chunks[-1]["finishReason"] == "stop"
        assert here.paid() == ([200.0] if yes else [])


async def test_a_continuous_stream_waits_for_time_to_decide(tmp_path: Path) -> None:
    @tool(approval=True, within="300ms")
    async def pay(amount: int) -> int:
        return amount

    model = ScriptedModel([call("pay", {"amount": 1}), say("Nobody came.")])
    async with desk(tmp_path, Agent("payer", model=model, tools=[pay])) as here:
        chunks = await here.post(said("c", "go"), mode="continuous")

        found = kinds(chunks)
        assert found.index("finish-step") < found.index("tool-output-error")
        assert found.index("tool-output-error") < found.index("text-delta")
        assert found[-1] == "finish"
        (error,) = [one for one in chunks if one["type"] == "tool-output-error"]
        assert error["errorText"]
        assert chunks[-1]["finishReason"] == "stop"


async def test_a_continuous_stream_that_nobody_answers_ends_like_a_detached_one(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as here:
        chunks = await here.post(said("c", "pay 200 jiro"), mode="continuous", wait_s="0.1")
        assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls"}

        chunks = await here.post(answered("c", await here.page("c"), True))
        assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
        assert here.paid() == [200.0]


async def test_an_answer_given_twice_pays_once_and_is_told_what_stands(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        body = answered("c", await here.held("c", "pay 200 jiro"), True)

        streams = await asyncio.gather(*(here.post(body) for _ in range(8)))

        for chunks in streams:
            assert chunks[-1]["finishReason"] == "stop"
            assert "tool-output-available" in kinds(chunks)
        refusals = [one for chunks in streams for one in chunks if one["type"] == "data-refusal"]
        assert len(refusals) == 7
        assert all(one["transient"] for one in refusals)
        assert here.paid() == [200.0]


async def test_a_text_sent_again_to_a_chat_that_waited_is_said_once(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        again = said("c", "never mind", id="u2")

        for _ in range(3):
            await here.post(again)

        told = [one for one in (await here.page("c"))["messages"] if one["role"] == "user"]
        assert [one["parts"][0]["text"] for one in told] == ["pay 200 jiro", "never mind"]
        assert here.paid() == []


async def test_a_text_sent_again_starts_nothing_new(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        first = await here.post(said("c", "pay 200 jiro"))
        second = await here.post(said("c", "pay 200 jiro"))

        assert second == first
        assert len((await here.page("c"))["messages"]) == 2


async def test_what_a_client_says_about_calls_is_not_believed(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        body = answered("c", await here.held("c", "pay 200 jiro"), True)
        for part in body["messages"][-1]["parts"]:
            if "toolCallId" in part:
                part |= {"type": "tool-rate", "toolName": "rate", "output": {"paid": 1}}
                part.pop("input")

        chunks = await here.post(body)

        (output,) = [one for one in chunks if one["type"] == "tool-output-available"]
        assert output["output"] == {"paid": 200.0, "to": "jiro"}
        assert here.paid() == [200.0]


async def test_a_yes_to_other_arguments_than_were_asked_about_is_no_yes(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        body = answered("c", await here.held("c", "pay 200 jiro"), True)
        for part in body["messages"][-1]["parts"]:
            if "toolCallId" in part:
                part["input"] = {"amount": 2, "to": "jiro"}

        chunks = await here.post(body)

        (refusal,) = [one["data"] for one in chunks if one["type"] == "data-refusal"]
        assert refusal["error"] == "NotWhatWasShown"
        assert "tool-approval-request" in kinds(chunks)
        assert here.paid() == []


async def test_a_yes_is_bound_to_the_version_that_was_shown(tmp_path: Path) -> None:
    """Another person edits while the page is open: what it says is about the old arguments."""
    rule = Rule("pay", approvers=["user:mira", "user:bob"], quorum=2)
    async with desk(tmp_path, policy=Policy(rule)) as here:
        page = await here.held("c", "pay 200 jiro")
        (hold,) = holds(page)
        edit = approve({"amount": 20000.0, "to": "jiro"})
        await here.app.decide(await here.app.hold(hold), edit, by="bob")

        stale = answered("c", page, True)
        chunks = await here.post(stale)
        (refusal,) = [one["data"] for one in chunks if one["type"] == "data-refusal"]
        assert refusal["error"] == "NotWhatWasShown"

        bare = answered("c", page, True)
        message = bare["messages"][-1]
        for part in message["parts"]:
            part.pop("input", None)  # Then only the digest tells.
        chunks = await here.post(bare)
        (refusal,) = [one["data"] for one in chunks if one["type"] == "data-refusal"]
        assert refusal["error"] == "NotWhatWasShown"
        assert here.paid() == []

        fresh = await here.page("c")
        chunks = await here.post(answered("c", fresh, True))
        assert "tool-output-available" in kinds(chunks)
        assert here.paid() == [20000.0]


async def test_a_text_never_takes_an_answer_along(tmp_path: Path) -> None:
    """Whoever says "stop" after they have clicked yes, before it was sent, means stop."""
    async with desk(tmp_path) as here:
        body = answered("c", await here.held("c", "pay 200 jiro"), True)
        body["messages"] += said("c", "no, stop", id="u2")["messages"]
        del body["messageId"]

        chunks = await here.post(body)

        assert chunks[-1]["finishReason"] == "stop"
        assert here.paid() == []


async def test_a_client_may_mind_that_what_waits_is_withdrawn(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")

        status, problem = await here.refused(said("c", "well?", id="u2"), supersede="false")

        assert (status, problem["type"]) == (409, "urn:sayso:problem:run-waiting")
        assert await here.page("c") == page


async def test_questions_are_answered_by_hold(tmp_path: Path) -> None:
    script = [call("ask_user", {"question": "Which?", "options": ["a", "b"]}), say("Well.")]
    asker = Agent("asker", model=ScriptedModel(script), tools=[ask_user()])
    async with desk(tmp_path, asker) as here:
        page = await here.held("c", "go")
        (told,) = [p for p in page["messages"][-1]["parts"] if p["type"] == "data-suspension"]

        wrong = await here.post({**answered("c", page), "answers": {told["id"]: "c"}})
        assert [c["data"]["error"] for c in wrong if c["type"] == "data-refusal"] == ["BadAnswer"]
        right = await here.post({**answered("c", page), "answers": {told["id"]: "b"}})

        (output,) = [one for one in right if one["type"] == "tool-output-available"]
        assert output["output"] == "b"
        assert right[-1]["finishReason"] == "stop"


async def test_a_question_can_be_declined(tmp_path: Path) -> None:
    script = [call("ask_user", {"question": "Which?"}), say("Well.")]
    asker = Agent("asker", model=ScriptedModel(script), tools=[ask_user()])
    async with desk(tmp_path, asker) as here:
        page = await here.held("c", "go")
        (told,) = [p for p in page["messages"][-1]["parts"] if p["type"] == "data-suspension"]

        chunks = await here.post({**answered("c", page), "rejections": {told["id"]: "no idea"}})

        assert "tool-output-error" in kinds(chunks)
        assert chunks[-1]["finishReason"] == "stop"


async def test_a_call_in_doubt_is_not_run_again_by_a_click(tmp_path: Path) -> None:
    """Its page shows what is known; a request would look like any other one."""
    paid: list[int] = []

    @tool(effect="once", timeout="50ms")
    async def pay(amount: int) -> int:
        paid.append(amount)
        await asyncio.sleep(60)
        return amount

    model = ScriptedModel([call("pay", {"amount": 1}), say("Well.")])
    async with desk(tmp_path, Agent("payer", model=model, tools=[pay])) as here:
        page = await here.held("c", "go")
        message = page["messages"][-1]
        (told,) = [p["data"] for p in message["parts"] if p["type"] == "data-suspension"]
        assert (told["kind"], holds(page)) == ("in_doubt", [])

        (part,) = [p for p in message["parts"] if p["type"] == "tool-pay"]
        forged = {"state": "approval-responded", "approval": {"id": told["id"], "approved": True}}
        part |= forged
        chunks = await here.post({"id": "c", "messages": page["messages"]})
        (refusal,) = [one["data"] for one in chunks if one["type"] == "data-refusal"]
        assert refusal["error"] == "WrongVerdict"

        chunks = await here.post({**answered("c", page), "answers": {told["id"]: 1}})
        assert chunks[-1]["finishReason"] == "stop"
        assert paid == [1]


async def test_calls_that_are_decided_together_are(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> int:
        paid.append(amount)
        return amount

    script = [[call("pay", {"amount": 1}), call("pay", {"amount": 2})], say("Well.")]
    model = ScriptedModel(script)
    both = Agent("payer", model=model, tools=[pay], resolve="together")
    async with desk(tmp_path, both) as here:
        await here.post(answered("c", await here.held("c", "go"), True, True))
        assert sorted(paid) == [1, 2]

        chunks = await here.post(answered("d", await here.held("d", "go"), True, False))
        assert kinds(chunks).count("tool-output-denied") == 2
        assert sorted(paid) == [1, 2]


async def test_a_chat_of_somebody_else_is_one_that_does_not_exist(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("theirs", "pay 200 jiro")
        theirs = answered("theirs", page, True)
        nowhere = json.loads(json.dumps(theirs).replace("theirs", "nowhere"))
        for token in ("bob@default", "mira@other", "bob@other"):
            async with here.client(token) as http:
                assert await here.page("theirs", http) == await here.page("nowhere", http)
                for path in ("stream", "stream?replay=true", "stream?follow=true"):
                    mine, none = [
                        await http.get(f"/v1/chat/{chat}/{path}") for chat in ("theirs", "nowhere")
                    ]
                    assert (mine.status_code, mine.content) == (none.status_code, none.content)
                for body in ({"id": "theirs"}, theirs):
                    other = {**body, "id": "nowhere"} if body is not theirs else nowhere
                    got, none = (
                        await here.refused(body, http=http),
                        await here.refused(other, http=http),
                    )
                    assert got == none
                    assert got[0] == 404
                # Whoever uses the same id has another chat.
                own = await here.post(said("theirs", "hello"), http=http)
                assert own[-1]["finishReason"] == "stop"
                shown = await here.page("theirs", http)
                assert len(shown["messages"]) == 2
        assert await here.page("theirs") == page
        assert here.paid() == []


async def test_a_hold_of_another_chat_is_unknown_in_this_one(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        await here.held("d", "hello")

        status, problem = await here.refused(answered("d", page, True))
        assert (status, problem["detail"]) == (404, f"there is no hold {holds(page)[0]!r}")
        body = answered("c", page, True)
        body["messages"][-1]["parts"].append(
            {
                "type": "tool-pay",
                "toolCallId": "x",
                "state": "approval-responded",
                "approval": {"id": "hold_0.1", "approved": True},
            }
        )
        assert (await here.refused(body))[0] == 404
        # One that is not known keeps the others from being decided.
        assert await here.page("c") == page
        assert here.paid() == []


async def test_a_credential_is_good_for_its_scopes_only(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        text, yes = said("c", "hello", id="u2"), answered("c", page, True)
        for scopes, body in (
            ("read", text),
            ("read,decide", text),
            ("read,start", yes),
            ("start,decide", {"id": "c"}),
            ("start,decide", text),
            ("start,decide", yes),
        ):
            async with here.client(f"mira@default/{scopes}") as http:
                assert (await here.refused(body, http=http))[0] == 403, (scopes, body)
        async with here.client("mira@default/start,decide") as http:
            for path in ("messages", "stream?replay=true"):
                assert (await http.get(f"/v1/chat/c/{path}")).status_code == 403

        assert await here.page("c") == page


BAD_BODIES: list[Any] = [
    [],
    {},
    {"id": ""},
    {"id": 1},
    {"id": "c", "messages": {}},
    {"id": "c", "messages": ["hello"]},
    {"id": "c", "messages": [{"role": "user", "parts": []}]},
    {"id": "c", "messages": [{"role": "user", "parts": {"type": "text"}}]},
    {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": 1}]}]},
    {"id": "c\ud800", "messages": []},
    {"id": "c" * 301, "messages": []},
    {"id": "c", "answers": ["x"]},
    {"id": "c", "agent": "nobody", "messages": [{"role": "user", "content": "hi"}]},
]
BAD_MANNERS: list[Json] = [
    {"mode": "x"},
    {"profile": "8"},
    {"wait_s": "nan"},
    {"wait_s": "0"},
    {"follow": "x"},
    {"supersede": "x"},
]


async def test_a_body_that_is_none_is_refused_and_starts_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        headers = {"content-type": "application/json"}
        for body in BAD_BODIES:
            got = await here.http.post("/v1/chat", content=json.dumps(body), headers=headers)
            assert got.status_code in (400, 404, 422), body
        for query in BAD_MANNERS:
            assert (await here.refused(said("c", "hello"), **query))[0] == 422, query
            assert (await here.refused({**said("c", "hello"), **query}))[0] == 422, query

        assert (await here.page("c"))["messages"] == []


async def test_only_true_is_a_yes(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        page = await here.held("c", "pay 200 jiro")
        for approved in ("true", 1, None, "yes"):
            body = answered("c", page, True)
            for part in body["messages"][-1]["parts"]:
                if "approval" in part:
                    part["approval"]["approved"] = approved

            assert (await here.refused(body))[0] == 422
        assert await here.page("c") == page


async def test_what_is_no_json_is_not_read(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        text = json.dumps(said("c", "hello"))
        form = await here.http.post(
            "/v1/chat", content=text, headers={"content-type": "text/plain"}
        )
        assert form.status_code == 422
        large = b'{"id": "' + b"x" * 9_000_000
        headers = {"content-type": "application/json"}
        assert (await here.http.post("/v1/chat", content=large, headers=headers)).status_code == 413


async def test_a_run_that_failed_is_told_and_can_be_tried_again(tmp_path: Path) -> None:
    tried: list[int] = []

    def script(messages: Any) -> Any:
        tried.append(len(messages))
        if len(tried) == 1:
            raise ValueError("broken")
        return say("Well.")

    async with desk(tmp_path, Agent("one", model=ScriptedModel(script))) as here:
        chunks = await here.post(said("c", "go"))
        assert chunks[-1]["type"] == "error"
        loaded = (await here.page("c"))["messages"][-1]["parts"][-1]
        assert (loaded["type"], loaded["data"]["status"]) == ("data-run", "failed")

        again = {
            "id": "c",
            "messages": said("c", "go")["messages"],
            "trigger": "regenerate-message",
        }
        chunks = await here.post(again)
        assert chunks[-1]["finishReason"] == "stop"
        # What did not fail has been done: it is told once more, and not done once more.
        assert await here.post(again) == chunks
        assert len(tried) == 2


async def test_a_stream_that_is_left_lets_go_of_everything(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        tasks = len(asyncio.all_tasks())
        for _ in range(3):
            async with here.http.stream("GET", "/v1/chat/c/stream?follow=true") as got:
                await anext(got.aiter_lines())

        await until(lambda: len(asyncio.all_tasks()) <= tasks, "every reader's end")
        assert here.app._parts is not None
        assert here.app._parts.feed._readers == {}


async def test_a_page_that_only_watches_is_told_what_others_decide(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        (hold,) = holds(await here.held("c", "pay 200 jiro"))
        chunks: list[Json] = []
        async with here.http.stream("GET", "/v1/chat/c/stream?follow=true") as got:
            async for chunk in read(got):
                chunks.append(chunk)
                if chunk["type"] == "tool-approval-request":
                    await here.app.decide(await here.app.hold(hold), reject("no"), by="mira")

        assert "tool-output-denied" in kinds(chunks)
        assert chunks[-1]["finishReason"] == "stop"


async def test_a_server_that_ends_says_so_in_the_stream(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.held("c", "pay 200 jiro")
        async with here.http.stream("GET", "/v1/chat/c/stream?follow=true") as got:
            chunks: list[Json] = []
            async for chunk in read(got):
                chunks.append(chunk)
                here.state.state.closing.set()

        assert chunks[-1]["type"] == "error"


async def test_what_is_under_way_is_left_to_the_stream(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool(effect="none")
    async def wait(ctx: Context) -> str:
        await gate.wait()
        return "over"

    model = ScriptedModel([say("Well."), call("wait", {}), say("Over.")])
    async with desk(tmp_path, Agent("one", model=model, tools=[wait])) as here:
        await here.post(said("c", "first"))
        stream = asyncio.ensure_future(here.post(said("c", "second", id="u2")))
        await until(lambda: _is(here, "c", "running"))

        page = await here.page("c")
        assert [one["role"] for one in page["messages"]] == ["user", "assistant", "user"]
        async with here.http.stream("GET", "/v1/chat/c/stream") as got:
            assert got.status_code == 200
            again: list[Json] = []
            async for chunk in read(got):
                again.append(chunk)
                gate.set()

        live = await stream
        assert (live[0], live[-1]) == (again[0], again[-1])
        assert [p["type"] for p in (await here.page("c"))["messages"][-1]["parts"]] == [
            "step-start",
            "tool-wait",
            "step-start",
            "text",
        ]


async def test_what_a_sub_agent_asks_is_asked_in_its_parents_chat(tmp_path: Path) -> None:
    paid: list[int] = []

    @tool(approval=True)
    async def pay(amount: int) -> int:
        paid.append(amount)
        return amount

    below = Agent(
        "below",
        model=ScriptedModel([call("pay", {"amount": 1}), call("pay", {"amount": 2}), say("Paid.")]),
        tools=[pay],
    )
    script = [say("I ask."), call("spawn", {"agent": "below", "input": "pay"})]
    above = Agent("above", model=ScriptedModel([script, say("All done.")]), tools=[spawn("below")])
    async with desk(tmp_path, above, below) as here:
        chunks = await here.post({**said("c", "go"), "agent": "above"})
        assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls"}
        page = await here.page("c")
        assert page["status"] == "suspended"
        (hold,) = holds(page)
        assert not hold.startswith("hold_" + page["messages"][-1]["id"][4:-2])
        # Its step has nothing else in it that is open, or no client would send the answer.
        parts = page["messages"][-1]["parts"]
        step = parts[len(parts) - [p["type"] for p in parts][::-1].index("step-start") :]
        assert [p["state"] for p in step if "toolCallId" in p] == ["approval-requested"]

        chunks = await here.post(answered("c", page, True))
        assert chunks[-1] == {"type": "finish", "finishReason": "tool-calls"}
        assert kinds(chunks)[1:3] == ["tool-output-available", "start-step"]
        page = await here.page("c")
        assert holds(page) != [hold]
        chunks = await here.post(answered("c", page, False))

        assert chunks[-1] == {"type": "finish", "finishReason": "stop"}
        assert paid == [1]
        parts = (await here.page("c"))["messages"][-1]["parts"]
        states = {p["toolCallId"]: p["state"] for p in parts if "toolCallId" in p}
        assert sorted(states.values()) == ["output-available", "output-available", "output-denied"]
        assert [p["text"] for p in parts if p["type"] == "text"] == ["I ask.", "All done."]


async def test_a_page_follows_while_only_a_sub_agent_is_at_work(tmp_path: Path) -> None:
    gate = asyncio.Event()

    @tool(effect="none")
    async def wait(ctx: Context) -> str:
        await gate.wait()
        return "over"

    below = Agent("below", model=ScriptedModel([call("wait", {}), say("Well.")]), tools=[wait])
    script = [call("spawn", {"agent": "below", "input": "wait"}), say("All done.")]
    above = Agent("above", model=ScriptedModel(script), tools=[spawn("below")])
    async with desk(tmp_path, above, below) as here:
        first = asyncio.ensure_future(here.post({**said("c", "go"), "agent": "above"}))
        await until(lambda: _is_held(here, "c"))

        page = await here.page("c")
        assert (page["status"], len(page["messages"])) == ("running", 1)
        async with here.http.stream("GET", "/v1/chat/c/stream") as got:
            assert got.status_code == 200
            async for chunk in read(got):
                gate.set()
                last = chunk

        assert last == (await first)[-1] == {"type": "finish", "finishReason": "stop"}
        assert len((await here.page("c"))["messages"]) == 2


async def test_long_chats_are_loaded_page_by_page(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        for number in range(5):
            await here.post(said("c", f"number {number}", id=f"u{number}"))

        last = (await here.http.get("/v1/chat/c/messages", params={"limit": 2})).json()
        before = {"limit": 3, "before": last["before"]}
        rest = (await here.http.get("/v1/chat/c/messages", params=before)).json()

        assert rest["messages"] + last["messages"] == (await here.page("c"))["messages"]
        assert rest["before"] is None
        wrong = await here.http.get("/v1/chat/c/messages", params={"before": "run_0"})
        assert wrong.status_code == 404


async def _is(here: Desk, chat: str, status: str) -> bool:
    row = await here.app.store.thread("default", chat)
    return row is not None and row.status == status


async def _is_held(here: Desk, chat: str) -> bool:
    return await _is(here, chat, "suspended")
