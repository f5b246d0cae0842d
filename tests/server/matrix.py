"""The stage of the authority matrix over HTTP: who there is, what they ask about, and asking it."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from sayso import Agent, Always, Policy, Principal, Rule, Sayso, approve, ask_user, tool
from sayso.domain.digest import suspension_digest
from sayso.domain.message import ToolMessage
from sayso.errors import NotAllowed
from sayso.server.app import create_app
from sayso.server.caller import AGENT_SCOPES, SCOPES
from sayso.server.token import Tokens
from sayso.store.base import NewParcel
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import PATIENCE_S, held

PEOPLE: dict[str, dict[str, Any]] = {
    "mira": {"identities": ["mail:mira@example.com"]},
    "stella": {},
    "ann": {"roles": ["finance"]},
    "gil": {"roles": ["finance"]},
    "dan": {},
    "bob": {"roles": ["sales"]},
    "aud": {"roles": ["auditor"]},
    "olga": {"roles": ["operator"]},
    "ivan": {"roles": ["finance", "operator"], "active": False},
}
WHO: dict[str, tuple[str, str]] = {
    "owner": ("person", "mira"),
    "linked": ("person", "mail:mira@example.com"),
    "proxy": ("person", "stella"),
    "approver": ("person", "ann"),
    "delegate": ("person", "dan"),
    "other": ("person", "bob"),
    "auditor": ("person", "aud"),
    "operator": ("person", "olga"),
    "disabled": ("person", "ivan"),
    "stranger": ("person", "zoe"),
    "agent": ("agent", "mira"),
    "service": ("service", "ci"),
    "foreign": ("person", "eve"),
}


def read_matrix() -> dict[str, dict[str, str]]:
    """Read the table, as what each is answered with by route and by who asks."""
    lines = (Path(__file__).parent / "matrix.txt").read_text().splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    names = rows[0][1:]
    found: dict[str, dict[str, str]] = {}
    for method, path, *cells in rows[1:]:
        assert len(cells) == len(names), (method, path)
        assert f"{method} {path}" not in found
        found[f"{method} {path}"] = dict(zip(names, cells, strict=True))
    return found


class Scene:
    """A service with everybody in it, and new things to ask about."""

    def __init__(self, sayso: Sayso) -> None:
        self.sayso = sayso
        self.app = create_app(sayso)
        self._tokens: dict[tuple[str, str], str] = {}
        self._chats = 0
        self._at = 0

    async def token(self, who: str, without: str = "") -> str:
        """Give somebody's token, perhaps one that lacks a scope."""
        kind, name = WHO["operator" if who == "ended" else who]
        if (who, without) not in self._tokens:
            scopes = AGENT_SCOPES if kind == "agent" else SCOPES - {without}
            made, text = await Tokens(self.sayso.store).create(
                name="x",
                by=Principal(id=name, kind=kind),
                project="elsewhere" if who == "foreign" else "default",
                scopes=scopes,
            )
            if who == "ended":
                await Tokens(self.sayso.store).revoke(made.id, project="default")
            self._tokens[who, without] = text
        return self._tokens[who, without]

    async def news(self) -> int:
        """Say how many entries there are that nobody has looked at."""
        count = 0
        while page := await self.sayso.store.tail(after=self._at):
            count += len(page)
            self._at = page[-1].position
        return count

    async def case(self, route: str) -> dict[str, Any]:
        """Make what a route is asked about: names for its path, a body, and a mark to look for."""
        if "/chat" in route:
            return await self._chat(route)
        if "/questions" in route:
            hold = await self._held("ask")
            body = {"response": "red", "seen": hold.digest}
            named = {"hold_id": hold.id, "run_id": hold.run_id, "project": "default"}
            return {**named, "body": body, "mark": hold.id}
        if route.endswith(("/undo", "grant_id}", "/v1/grants")):
            return await self._decided(route)
        if "/outbox" in route:
            return await self._posted(route)
        if "/tokens" in route or "/people" in route or "/audit" in route:
            return await self._governed(route)
        hold = await self._held("pay")
        seen = suspension_digest(request_id=hold.request_id, members=[hold.digest])
        decision = {"action": "approve", "seen": hold.digest}
        bodies: dict[str, Any] = {
            "POST /v1/runs": {"agent": "teller", "input": "x"},
            "/messages": {"text": "x", "supersede": True},
            "/commands/{name}": {},
            "/decision": decision,
            "/reassign": {"to": "gil"},
            "/remind": {"in_s": 60},
            "/decisions": {"decisions": [{"hold_id": hold.id, **decision}]},
            "POST /v1/resume/{request_id}": {"action": "approve", "seen": seen, "mode": "async"},
        }
        body = next((one for end, one in bodies.items() if route.endswith(end)), None)
        mark = hold.run_id if "/runs" in route else hold.id
        named = {"run_id": hold.run_id, "hold_id": hold.id, "request_id": hold.request_id}
        return {**named, "name": "note", "body": body, "mark": mark}

    async def _posted(self, route: str) -> dict[str, Any]:
        hold = await self._held("pay")
        # A notice that nobody can be told: it waits, or was given up.
        new = NewParcel(id=f"asked:{hold.id}", kind="asked", due_at=0, data=b"")
        await self.sayso.store.outbox.put("default", hold.run_id, new)
        if route.endswith("/again"):
            (parcel,) = await self.sayso.store.outbox.take(lease_ms=1000)
            await self.sayso.store.outbox.dead(parcel, "x")
        return {"parcel_id": new.id, "mark": hold.id}

    async def _held(self, what: str) -> Any:
        return await held(await self.sayso.start("teller", what, by="mira"))

    async def _decided(self, route: str) -> dict[str, Any]:
        hold = await self._held("pay")
        if route.endswith("/undo"):
            await self.sayso.decide(hold, approve(), by="ann", undo="5m")
            return {"hold_id": hold.id, "mark": hold.id}
        await self.sayso.decide(hold, approve(), by="ann", always=Always(scope="run"))
        await self.sayso.run(hold.run_id).wait(timeout=PATIENCE_S)
        (grant,) = [one for one in await self.sayso.grants.list() if one.hold == hold.id]
        return {"grant_id": grant.id, "mark": grant.id}

    async def _governed(self, route: str) -> dict[str, Any]:
        made, _ = await Tokens(self.sayso.store).create(
            name="x", by=Principal(id="ann"), project="default"
        )
        if "/audit" in route:
            hold = await self._held("pay")
            with suppress(NotAllowed):
                await self.sayso.decide(hold, approve(), by="bob")
        mark = {"people": "ann", "tokens": made.id, "audit": "bob"}
        body = {"name": "x", "by": "@me", "scopes": ["read"]} if "POST" in route else {}
        named = {"person_id": "ann", "token_id": made.id}
        found = next(word for name, word in mark.items() if name in route)
        return {**named, "body": body if route[:3] in ("POS", "PUT") else None, "mark": found}

    async def _chat(self, route: str) -> dict[str, Any]:
        self._chats += 1
        chat = f"c{self._chats}"
        text = {"type": "text", "text": "ask"}
        message = {"id": "u1", "role": "user", "parts": [text]}
        sent = {"id": chat, "messages": [message]}
        told = await self.send("owner", "POST", "/v1/chat?mode=detached", sent)
        assert told.status_code == 200, told.text
        (hold,) = [one for one in await self.sayso.holds(by="mira") if one.id in told.text]
        if "answer" in route:
            shown = {"type": "data-suspension", "data": {"id": hold.id, "digest": hold.digest}}
            told_so = {"id": "a1", "role": "assistant", "parts": [shown]}
            sent = {"id": chat, "messages": [told_so], "answers": {hold.id: "red"}}
        elif "send" in route or route == "POST /v1/chat":
            text["text"] = "x"
            sent["messages"] = [{**message, "id": "u2"}]
        kind = "resume" if "resume" in route else "send"
        body = sent if "POST" in route or "WS" in route else None
        return {"chat_id": chat, "body": body, "mark": hold.id, "kind": kind}

    async def send(
        self, who: str, method: str, path: str, body: Any, without: str = ""
    ) -> httpx2.Response:
        """Send a request as somebody."""
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
        headers = {}
        if who != "nobody":
            headers["authorization"] = f"Bearer {await self.token(who, without)}"
        async with httpx2.AsyncClient(transport=transport, base_url="http://sayso.test") as client:
            return await client.request(method, path, json=body, headers=headers)

    async def ask(self, who: str, route: str, case: dict[str, Any], without: str = "") -> str:
        """Ask as somebody; say what came of it, in the words of the table."""
        method, path = route.split(" ")
        path = re.sub(r"\{(\w+)\}", lambda found: str(case[found[1]]), path)
        if method == "WS":
            return await self.talk(who, path, case, without)
        path = {"/v1/chat?answer": "/v1/chat"}.get(path, path)
        if path.endswith("/stream"):
            path += "?replay=true"
        body = case.get("body")
        if path == "/v1/tokens" and method == "POST":
            body = {**body, "by": WHO.get(who, WHO["operator"])[1]}
        answer = await self.send(who, method, path, body, without)
        if answer.status_code == 200 and path == "/v1/decisions":
            (one,) = answer.json()["items"]
            return str(one["problem"]["status"]) if one["problem"] else "200"
        lists = method == "GET" and "{" not in route.replace("{project}", "").replace(
            "{chat_id}", ""
        )
        if answer.status_code == 200 and lists and path not in NOTHING_OF_ANYBODY:
            return "200" if case["mark"] in answer.text else "-"
        return str(answer.status_code)

    async def talk(self, who: str, path: str, case: dict[str, Any], without: str) -> str:
        """Open a socket as somebody, and send a frame if there is one to send."""
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        outbox: asyncio.Queue[Any] = asyncio.Queue()
        headers = []
        if who != "nobody":
            headers = [(b"authorization", f"Bearer {await self.token(who, without)}".encode())]
        scope = {
            "type": "websocket",
            "path": "/v1/chat",
            "query_string": b"",
            "headers": headers,
            "subprotocols": [],
            "scheme": "ws",
            "server": ("sayso.test", 80),
            "client": ("127.0.0.1", 1234),
        }
        inbox.put_nowait({"type": "websocket.connect"})
        serving = asyncio.ensure_future(self.app(scope, inbox.get, outbox.put))
        first = await asyncio.wait_for(outbox.get(), PATIENCE_S)
        found = {"websocket.accept": "open", "websocket.close": "shut"}[first["type"]]
        if found == "open" and "?" in path:
            frame = {"type": case["kind"], "requestId": "r", "body": {"replay": True}}
            frame |= {"id": case["body"]["id"], "messages": case["body"]["messages"]}
            if "answers" in case["body"]:
                frame["body"] = {"answers": case["body"]["answers"]}
            inbox.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})
            found = ""
            while found not in ("end", "error", "no-active"):
                sent = await asyncio.wait_for(outbox.get(), PATIENCE_S)
                found = json.loads(sent["text"])["type"]
        inbox.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await asyncio.wait_for(serving, PATIENCE_S)
        return "none" if found == "no-active" else found


NOTHING_OF_ANYBODY = ("/v1/me", "/health", "/ready", "/openapi.json")


@asynccontextmanager
async def scene() -> AsyncGenerator[Scene]:
    """Open a service, and make everybody known."""

    @tool(effect="once")
    def pay(amount: int) -> str:
        return f"paid {amount}"

    @tool
    def note() -> str:
        return "noted"

    def turns(messages: Any) -> Any:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return say("Done.")
        asked = {
            "pay": call("pay", {"amount": 1}),
            "ask": call("ask_user", {"question": "Which colour?", "options": ["red", "blue"]}),
        }
        return asked.get(last.text, say("Nothing to do."))

    teller = Agent("teller", model=ScriptedModel(turns), tools=[pay, ask_user()], commands=[note])
    policy = Policy(Rule("pay", approvers=["role:finance"]))
    async with Sayso("memory:", agents=[teller], policy=policy) as sayso:
        for name, words in PEOPLE.items():
            await sayso.people.put(name, **words)
        await sayso.people.put("eve", roles=["operator", "finance"], project="elsewhere")
        await sayso.people.stand_in("stella", of="mira", until="1w")
        await sayso.people.stand_in("dan", of="ann", until="1w")
        yield Scene(sayso)
