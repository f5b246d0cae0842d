"""Whole runs whose model is a provider on this machine: what the port promises, seen from above."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from sayso import Agent, Bounds, Context, Delta, Sayso, approve, reject, tool

from .openai_server import OpenAIServer, Reply, chat, serving

BUSY = Reply(status=503, body={"error": {"message": "busy"}})
QUICK = Bounds(backoff_s=0.001)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
        yield server


@tool(approval=True)
async def pay(ctx: Context, amount: float, to: str = "Jiro") -> dict[str, object]:
    """Pay somebody."""
    return {"paid": amount, "to": to}


@tool(effect="none")
def balance() -> int:
    """Say how much is left."""
    return 1000


def app() -> Sayso:
    teller = Agent("teller", model="openai-chat:test-1", tools=[pay, balance])
    return Sayso("memory:", agents=[teller], bounds=QUICK)


async def test_repeated_ids_and_several_calls_end_in_one_answer_each(server: OpenAIServer) -> None:
    server.says(
        chat(("c", "pay", '{"amount": 1}'), ("c", "pay", '{"amount": 2}'), ("c", "balance", "")),
        chat("Paid one of two."),
    )

    async with app() as desk:
        run = await desk.start("teller", "Pay twice", by="mira")
        view = await run.wait()
        first, second = view.holds
        await desk.decide(second, approve(), by="mira")
        await desk.decide(first, reject("once is enough"), by="mira")
        view = await run.wait(final=True)

    assert (view.status, view.output) == ("completed", "Paid one of two.")
    told = [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert json.loads(told[0])["reason"] == "once is enough"
    assert [json.loads(told[1]), json.loads(told[2])] == [{"paid": 2.0, "to": "Jiro"}, 1000]


async def test_invalid_arguments_open_no_hold_and_the_model_is_told(server: OpenAIServer) -> None:
    server.says(
        chat(("a", "pay", '{"amount": '), ("b", "pay", '{"amount": 1, "memo": "x"}')),
        chat("Sorry."),
    )

    async with app() as desk:
        run = await desk.start("teller", "Pay", by="mira")
        view = await run.wait(final=True)

    assert (view.status, view.output) == ("completed", "Sorry.")
    told = [m["content"] for m in server.requests[1]["messages"] if m["role"] == "tool"]
    assert "not JSON" in told[0]
    assert "there is no argument 'memo'" in told[1]


async def test_a_provider_in_trouble_is_asked_again_up_to_a_bound(server: OpenAIServer) -> None:
    server.says(BUSY, BUSY, BUSY, chat("Hello."), BUSY, BUSY, BUSY, BUSY, chat("Too late."))

    async with app() as desk:
        lucky = await (await desk.start("teller", "Hello", by="mira")).wait(final=True)
        unlucky = await (await desk.start("teller", "Hello", by="mira")).wait(final=True)

    assert (lucky.status, lucky.output) == ("completed", "Hello.")
    assert unlucky.status == "failed"
    assert "503" in unlucky.error
    assert len(server.requests) == 8


async def test_a_refusal_is_not_tried_again(server: OpenAIServer) -> None:
    server.says(Reply(status=401, body={"error": {"message": "no sk-test-0123456789"}}))

    async with app() as desk:
        view = await (await desk.start("teller", "Hello", by="mira")).wait(final=True)

    assert view.status == "failed"
    assert "sk-test" not in view.error
    assert len(server.requests) == 1


async def test_text_reaches_the_feed_as_it_comes(server: OpenAIServer) -> None:
    reply = chat("It ", "is ", "done.")
    reply.ready.clear()
    server.says(reply)
    heard: list[str] = []

    async with app() as desk:
        run = await desk.start("teller", "Hello", by="mira")
        async with asyncio.timeout(30):
            async for event in desk.events(run.id, deltas=True):
                reply.ready.set()
                if isinstance(event, Delta):
                    heard.append(event.text)

    assert heard == ["It ", "is ", "done."]
