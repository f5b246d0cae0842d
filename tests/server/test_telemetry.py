"""Requests as spans, and a canary by every way in that is looked for in all that is told."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager

from sayso import Agent, Sayso, ask_user, tool
from sayso.cli.log import JsonLines, TextLines
from sayso.engine.courier import TRIES_MAX
from sayso.errors import ModelFailed
from sayso.server.app import create_app
from sayso.testing import FakeClock, ScriptedModel, call, say
from tests.telemetry import Heard, id_of, links_of, parent_of

from .conftest import Service, teller

CANARY = "hunter2"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@asynccontextmanager
async def watched(agent, heard, **options):
    async with AsyncExitStack() as stack:
        sayso = Sayso("memory:", agents=[agent], telemetry=heard.telemetry, **options)
        await stack.enter_async_context(sayso)
        yield Service(sayso, create_app(sayso), [], stack)


async def test_a_trace_leads_from_a_request_to_the_call_that_it_resumed():
    heard, paid = Heard(), []
    async with watched(teller(paid), heard) as service:
        client = await service.client()
        body = {"agent": "teller", "input": "pay 5", "mode": "wait"}
        trace = {"traceparent": TRACEPARENT}
        asked = (await client.post("/v1/runs", json=body, headers=trace)).json()
        body = {"action": "approve", "seen": asked["seen"], "mode": "wait"}
        await client.post(f"/v1/resume/{asked['request_id']}?x={CANARY}", json=body)
        await client.get("/nothing/here")

    begun, start = heard.one("POST /v1/runs"), heard.one("sayso.start")
    assert f"{begun.context.trace_id:032x}" == TRACEPARENT.split("-")[1]
    assert f"{parent_of(begun):016x}" == TRACEPARENT.split("-")[2]
    assert begun.kind.name == "SERVER"
    turn = heard.named("sayso.turn")[0]
    assert [parent_of(start), parent_of(turn)] == [id_of(begun), id_of(start)]
    resumed = heard.one("POST /v1/resume/{request_id}")
    decided, called = heard.one("sayso.decide"), heard.one("sayso.call")
    assert parent_of(resumed) is None
    assert [parent_of(decided), parent_of(called)] == [id_of(resumed), id_of(decided)]
    assert links_of(called) == [id_of(turn)]
    assert dict(resumed.attributes) == {
        "http.request.method": "POST",
        "http.route": "/v1/resume/{request_id}",
        "http.response.status_code": 200,
    }
    assert heard.one("GET").attributes["http.response.status_code"] == 404


async def test_a_method_that_is_none_is_not_named():
    heard = Heard()
    async with watched(teller([]), heard) as service:
        await (await service.client()).request(CANARY, "/v1/runs")

    assert [span.name for span in heard.spans] == ["_OTHER /v1/runs"]
    assert CANARY not in heard.text()


async def test_head_is_named_by_its_route():
    heard = Heard()
    async with watched(teller([]), heard) as service:
        await (await service.client()).head("/v1/runs/run_x")

    assert [span.name for span in heard.spans] == ["HEAD /v1/runs/{run_id}"]


def canary_agent():
    """An agent into which a canary comes by its input, its arguments and its answers."""

    @tool(approval=True, effect="once", risk="high")
    def pay(amount: int, to: str) -> str:
        if amount == 2:
            raise RuntimeError(f"no account of {to}")
        return f"paid {to}"

    failed = []

    def turns(messages):
        if not failed:
            failed.append(True)
            raise ModelFailed(f"it does not like {CANARY}", retryable=True)
        done = sum(hasattr(message, "outcome") for message in messages)
        if done == 0:
            return say_and(call("pay", {"amount": 1, "to": CANARY}))
        if done == 1:
            return call("pay", {"amount": 2, "to": CANARY})
        if done == 2:
            return call("pay", {"amount": 3, "to": CANARY})
        if done == 3:
            return call("ask_user", {"question": f"Is it {CANARY}?"})
        if done == 4:
            return call(f"no_such_{CANARY}", {"x": CANARY})
        return say(f"It was {CANARY}.")

    def say_and(one):
        return [say(f"I pay {CANARY}."), one]

    return Agent("teller", model=ScriptedModel(turns), tools=[pay, ask_user()])


async def test_nothing_that_anybody_said_is_told(caplog):
    heard, clock = Heard(), FakeClock()

    async def notify(notice):
        raise ConnectionError(f"cannot tell {notice.hold.args} to anybody")

    caplog.set_level(logging.DEBUG, logger="sayso")
    async with watched(canary_agent(), heard, notify=notify, clock=clock) as service:
        client = await service.client()
        body = {
            "agent": "teller",
            "input": f"Pay {CANARY}",
            "mode": "wait",
            "metadata": {"ticket": CANARY},
            "thread": CANARY,
        }
        headers = {"idempotency-key": f"key-{CANARY}", "x-more": CANARY, "user-agent": CANARY}
        view = (await client.post("/v1/runs", json=body, headers=headers)).json()
        said = [
            {"action": "approve", "note": CANARY},
            {"action": "approve"},
            {"action": "reject", "reason": CANARY},
            {"action": "answer", "value": CANARY},
        ]
        for _ in range(TRIES_MAX):
            clock.advance("1d")
            await service.sayso.notices.deliver()
        (dead,) = await service.sayso.notices.dead()
        assert CANARY in dead.error
        for one in said:
            assert view["type"] == "suspended", view
            url = f"/v1/resume/{view['request_id']}?{CANARY}={CANARY}"
            view = (
                await client.post(url, json={"seen": view["seen"], "mode": "wait", **one})
            ).json()
        assert view["status"] == "completed"
        assert CANARY in view["output"]
        await client.get(f"/v1/holds?search={CANARY}")
        await client.get(f"/v1/holds/hold_{CANARY}.1")
        await client.post(f"/v1/holds/hold_{CANARY}.1/decision", json={"action": CANARY})
        await client.post("/v1/runs", json={"agent": CANARY, "input": CANARY, CANARY: CANARY})
        await client.post("/v1/runs", json={"agent": CANARY, "input": CANARY})
        await client.get(f"/{CANARY}")
        await service.sayso.sweep()

    assert len(heard.named("sayso.deliver")) >= TRIES_MAX
    assert len(heard.named("sayso.call")) == 2
    outcomes = [span.attributes["sayso.outcome"] for span in heard.named("sayso.call")]
    assert outcomes == ["returned", "failed"]
    assert CANARY not in heard.text()
    for lines in (JsonLines(), TextLines()):
        assert not [line for one in caplog.records if CANARY in (line := lines.format(one))]
    assert "and is asked again" in caplog.text
    given_up = [one for one in caplog.records if "is given up" in one.getMessage()]
    assert [one.hold_id for one in given_up] == [dead.hold_id]


def test_fastapi_tells_nothing_by_itself():
    """It would, with queries and with values that do not fit, once a program has an SDK."""
    program = """
import asyncio, httpx2
from opentelemetry import trace, metrics, _logs
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sayso import Sayso
from sayso.server.app import create_app

found = InMemorySpanExporter()
trace.set_tracer_provider(TracerProvider(shutdown_on_exit=False))
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(found))

async def main():
    async with Sayso("memory:") as sayso:
        transport = httpx2.ASGITransport(app=create_app(sayso))
        async with httpx2.AsyncClient(transport=transport, base_url="http://t") as client:
            assert (await client.get("/v1/holds?search=canary")).status_code == 401

asyncio.run(main())
print(len(found.get_finished_spans()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert done.stdout.strip() == "0"
