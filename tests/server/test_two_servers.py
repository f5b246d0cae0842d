"""Two servers and two workers on one PostgreSQL, each a process, as people start them."""

from __future__ import annotations

import asyncio
import base64
import os
import subprocess
from contextlib import ExitStack, contextmanager

import httpx2
import pytest

from tests.cli.conftest import SAYSO

from .process import ROOT
from .test_streams import events, read, start

PATIENCE_S = 60.0
RUNS = 8
APP = r"""
import os
from pathlib import Path

from sayso import Agent, Context, Sayso, tool
from sayso.testing import ScriptedModel, call, say


@tool(approval=True, effect="once")
async def pay(ctx: Context, amount: int) -> str:
    with Path(os.environ["LEDGER"]).open("a") as file:
        file.write(f"{ctx.run_id} {os.getpid()}\n")
    return f"paid {amount}"


def turns(messages):
    return call("pay", {"amount": int(messages[0].text)}) if len(messages) == 1 else say("Done.")


app = Sayso(os.environ["URL"], agents=[Agent("teller", model=ScriptedModel(turns), tools=[pay])])
"""


@contextmanager
def running(place, env, *args):
    """Run `sayso` until the end of the test; it must end well then."""
    process = subprocess.Popen(
        [SAYSO, *args], cwd=place, env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def client(server):
    """Give a client of a server, by what it printed."""
    url, token = (server.stdout.readline().split()[-1] for _ in range(2))
    headers = {"authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S)


@pytest.fixture
def service(tmp_path, postgres):
    """Two servers that do no work, two workers, and the books outside."""
    (tmp_path / "pay.py").write_text(APP, encoding="utf-8")
    ledger = tmp_path / "ledger"
    env = {
        **os.environ,
        "URL": postgres.database(),
        "LEDGER": str(ledger),
        "SAYSO_KEYS": f"k1:{base64.b64encode(bytes(32)).decode()}",
        "PYTHONPATH": f"{ROOT / 'src'}",
    }
    serve = ("serve", "pay:app", "--no-worker", "--port", "0", "--user", "mira")
    with ExitStack() as stack:
        # All at once: they make the schema together.
        servers = [stack.enter_context(running(tmp_path, env, *serve)) for _ in range(2)]
        work = ("worker", "pay:app")
        workers = [stack.enter_context(running(tmp_path, env, *work)) for _ in range(2)]
        assert all("works on" in worker.stdout.readline() for worker in workers)
        yield servers, workers, ledger


async def test_a_run_is_started_on_one_followed_on_the_other_and_paid_once(service):
    servers, workers, ledger = service
    async with client(servers[0]) as one, client(servers[1]) as two:
        run = (await start(one, 7, mode="wait"))["run_id"]
        async with two.stream("GET", f"/v1/runs/{run}/events?follow=true") as answer:
            stream = events(answer)
            seen = [await anext(stream)]
            while seen[-1][1] != "run.suspended":
                seen.append(await anext(stream))
            held = (await one.get(f"/v1/runs/{run}")).json()
            body = {"action": "approve", "seen": held["seen"], "mode": "async"}
            resume = f"/v1/resume/{held['request_id']}"
            decided = await one.post(resume, json=body)
            seen += [one async for one in stream]
        late = await two.post(resume, json={**body, "action": "reject", "reason": "no"})

        assert decided.status_code == 202
        assert seen[-1][1:] == ("end", {"status": "completed"})
        assert [int(one[0]) for one in seen[:-1]] == list(range(1, len(seen)))
        assert seen[:-1] == (await read(one, f"/v1/runs/{run}/events?follow=true"))[:-1]
        assert (late.status_code, late.json()["decision"]["verdict"]) == (409, "approved")

        # Many at once, started and decided on either, by whoever works.
        async def pay(n):
            first, second = (one, two) if n % 2 else (two, one)
            held = await start(first, n, mode="wait")
            said = {"action": "approve", "seen": held["seen"], "mode": "wait"}
            ended = await second.post(f"/v1/resume/{held['request_id']}", json=said)
            assert ended.json()["status"] == "completed", ended.text

        await asyncio.gather(*[pay(n) for n in range(RUNS)])

    paid = [line.split() for line in ledger.read_text().splitlines()]
    assert len(paid) == len({run_id for run_id, _ in paid}) == RUNS + 1
    assert {int(pid) for _, pid in paid} <= {worker.pid for worker in workers}
