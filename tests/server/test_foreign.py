"""What is of another project is, wherever it is named, what does not exist: the same status and the
same words, whether it waits, is finished or has left for an archive.

Method: each request is sent twice by an operator of `other`: once with a name that is of `default`,
once with one that was never anything. What differs by nature (new ids, times, the name itself) is
taken out, and what is left must be equal.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sayso import Always, Sayso, approve
from sayso.server.app import create_app
from sayso.store.query import RunQuery
from tests.engine.kit import PATIENCE_S, held

from .conftest import Service, teller
from .test_routes import PATHS, TABLE, url

SAID = [{"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}]
KINDS = ("waiting", "finished", "archived")
_NEW = re.compile(
    r"\b(run|hold|req|msg|said|chat|call)_[0-9a-z_.]+|\d{4}-\d\d-\d\dT[0-9:.]+(Z|\+00:00)"
)


@asynccontextmanager
async def place(root: Path) -> AsyncGenerator[tuple[Service, dict[str, dict[str, str]]]]:
    """Open a service, with something of every kind in `default`; give what it is called there."""
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(Sayso(root / "sayso.db", agents=[teller([])]))
        it = Service(sayso, create_app(sayso), [], stack)
        for project in ("default", "other"):
            await sayso.people.put("mira", roles=["operator"], project=project)
        await sayso.people.put("person-ann")
        named = {"archived": await _names(it, "pay 1", over=True)}
        await (await sayso.start("teller", "x", by="mira")).wait(final=True, timeout=PATIENCE_S)
        done = await sayso.audit.archive("1ms", root, by="mira")
        assert done.runs == 1
        named["finished"] = await _names(it, "pay 2", over=True)
        named["waiting"] = await _names(it, "pay 3", over=False)
        yield it, named


async def _names(it: Service, text: str, *, over: bool) -> dict[str, str]:
    run = await it.sayso.start("teller", text, by="mira", thread=f"talk {text}")
    hold = await held(run)
    if over:
        await it.sayso.decide(hold, approve(), by="mira", always=Always(scope="run"))
        await run.wait(final=True, timeout=PATIENCE_S)
    mira = await it.client()
    given = (await mira.get("/v1/grants")).json()["items"]
    mine = (await mira.get("/v1/tokens")).json()["items"]
    return {
        "run_id": run.id,
        "hold_id": hold.id,
        "request_id": hold.request_id,
        "grant_id": given[0]["id"],
        "token_id": mine[0]["id"],
        "person_id": "person-ann",
        "project": "default",
        "thread": f"talk {text}",
    }


def unknown(name: str, value: str) -> str:
    """Make a name of the same form that was never anything."""
    if name in ("person_id", "project", "thread"):
        return "nobody" if name != "thread" else "talk 9 9"
    return "z" * 16 if name == "token_id" else f"{value[:12]}{'zzzz'}{value[16:]}"


def requests(names: dict[str, str]) -> dict[str, tuple[str, str, Any]]:
    """List every request that names something: each route with a name in its path, and the rest."""
    path = {
        f"{method} {path}": (method, url(path, **{**PATHS, **names}), body)
        for (method, path), (_, body) in TABLE.items()
        if set(re.findall(r"\{(\w+)\}", path)) & set(names) and method != "PUT"
    }
    run, hold, thread = names["run_id"], names["hold_id"], names["thread"]
    decision = {"hold_id": hold, "action": "approve", "seen": "x"}
    answers = {"id": "c", "answers": {hold: "x"}, "messages": []}
    return {
        **path,
        "a page after it": ("GET", f"/v1/runs?after={run}", None),
        "holds after it": ("GET", f"/v1/holds?after={hold}", None),
        "notices after it": ("GET", f"/v1/notifications?after={hold}", None),
        "runs of its thread": ("GET", f"/v1/runs?thread={run}", None),
        "runs of its talk": ("GET", f"/v1/runs?thread={thread}", None),
        "a decision about it": ("POST", "/v1/decisions", {"decisions": [decision]}),
        "a start in its thread": ("POST", "/v1/runs", _start(run)),
        "a start in its talk": ("POST", "/v1/runs", _start(thread)),
        "a chat's page before it": ("GET", f"/v1/chat/c/messages?before={run}", None),
        "an answer to it": ("POST", "/v1/chat", answers),
        "a chat of its name": ("GET", f"/v1/chat/{run}/messages", None),
        "a chat's stream": ("GET", f"/v1/chat/{run}/stream?replay=true", None),
        "a chat in it": ("POST", "/v1/chat", {"id": run, "messages": SAID}),
        "a chat in its talk": ("POST", "/v1/chat", {"id": thread, "messages": SAID}),
    }


def _start(thread: str) -> dict[str, Any]:
    return {"agent": "teller", "input": "x", "thread": thread, "mode": "wait"}


def masked(answer: httpx2.Response, names: dict[str, str], others: dict[str, str]) -> str:
    text = answer.text
    for name, value in names.items():
        text = text.replace(value, others[name])
    return _NEW.sub("?", text)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_of_another_project_is_what_does_not_exist(tmp_path: Path, kind: str) -> None:
    async with place(tmp_path) as (it, named):
        there = named[kind]
        nothing = {name: unknown(name, value) for name, value in there.items()}
        other = await it.client(project="other")
        before = await _heads(it.sayso)
        found, missed = requests(there), requests(nothing)
        wrong: list[str] = []
        for name in found:
            one = await _send(other, *found[name])
            two = await _send(other, *missed[name])

            told = masked(one, there, nothing), masked(two, nothing, nothing)
            if one.status_code != two.status_code or told[0] != told[1]:
                wrong.append(
                    f"{name}: {one.status_code} {one.text}\n  not {two.status_code} {two.text}"
                )
        assert not wrong, "\n".join(wrong)
        assert await _heads(it.sayso) == before


async def _send(client: httpx2.AsyncClient, method: str, path: str, body: Any) -> httpx2.Response:
    return await client.request(method, path, json=body)


async def _heads(app: Sayso) -> list[tuple[str, int]]:
    """Say how far every run of `default` has come."""
    return [(row.id, row.seq) for row in await app.store.runs(RunQuery(project="default"))]


async def test_a_thread_of_an_archived_run_is_told_apart_only_in_its_own_project(
    tmp_path: Path,
) -> None:
    async with place(tmp_path) as (it, named):
        run = named["archived"]["run_id"]
        bodies = [_start(run), _start(named["archived"]["thread"])]
        mine, other = await it.client(), await it.client(project="other")

        assert [(await mine.post("/v1/runs", json=one)).status_code for one in bodies] == [410, 410]
        found = [await other.post("/v1/runs", json=one) for one in bodies]

        assert [one.status_code for one in found] == [200, 200]
        assert found[0].json()["thread"] == run
        third = await it.client(project="third")
        assert (await third.post("/v1/chat", json={"id": run, "messages": SAID})).status_code == 200
        # Under the very name, as of any other chat.
        assert await it.sayso.store.thread("third", run) is not None


def test_every_name_in_a_path_is_tried() -> None:
    names = {name for _, path in TABLE for name in re.findall(r"\{(\w+)\}", path)}

    # A command's name is of an agent, and a chat's of whoever chats: `a chat of its name`. Parcels
    # are tried in `test_outbox`.
    tried = {"run_id", "hold_id", "request_id", "grant_id", "token_id", "person_id", "project"}
    assert names == {*tried, "name", "chat_id", "parcel_id"}
