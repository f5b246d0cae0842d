"""Every route: who gets in, with which scope, and what of another project can be told apart.

The table is written by hand. A route that is not in it fails the build.
"""

from __future__ import annotations

import re

import pytest

from sayso import Principal
from sayso.server.app import create_app
from sayso.server.caller import SCOPES
from sayso.server.door import LocalWay

from .conftest import service

RUN = "run_01m7hq607ahdnnwh0m9399fc1x"
PATHS = {
    "run_id": RUN,
    "hold_id": "hold_01m7hq607ahdnnwh0m9399fc1x.1",
    "request_id": "req_01m7hq607ahdnnwh0m9399fc1x.1",
    "project": "default",
    "name": "pause",
    "person_id": "ann",
    "grant_id": "grant_x",
    "token_id": "a" * 16,
    "chat_id": "c1",
    "parcel_id": "asked:hold_01m7hq607ahdnnwh0m9399fc1x.1",
}
CHAT = {"id": "c1", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}
DECISION = {"action": "approve", "seen": "x"}

TABLE: dict[tuple[str, str], tuple[str | None, object]] = {
    ("POST", "/v1/runs"): ("start", {"agent": "teller", "input": "x"}),
    ("GET", "/v1/runs"): ("read", None),
    ("GET", "/v1/runs/{run_id}"): ("read", None),
    ("DELETE", "/v1/runs/{run_id}"): ("start", None),
    ("GET", "/v1/runs/{run_id}/events"): ("read", None),
    ("GET", "/v1/runs/{run_id}/questions"): ("read", None),
    ("POST", "/v1/runs/{run_id}/messages"): ("start", {"text": "x"}),
    ("POST", "/v1/runs/{run_id}/commands/{name}"): ("start", {}),
    ("GET", "/v1/holds"): ("read", None),
    ("GET", "/v1/holds/events"): ("read", None),
    ("GET", "/v1/holds/{hold_id}"): ("read", None),
    ("POST", "/v1/holds/{hold_id}/decision"): ("decide", DECISION),
    ("POST", "/v1/holds/{hold_id}/undo"): ("decide", None),
    ("POST", "/v1/holds/{hold_id}/reassign"): ("decide", {"to": "ann"}),
    ("POST", "/v1/holds/{hold_id}/sign-in"): ("decide", None),
    ("POST", "/v1/holds/{hold_id}/remind"): ("decide", {"in_s": 60}),
    ("POST", "/v1/decisions"): ("decide", {"decisions": [{"hold_id": "x", **DECISION}]}),
    ("GET", "/v1/resume/{request_id}"): ("read", None),
    ("POST", "/v1/resume/{request_id}"): ("decide", DECISION),
    ("GET", "/v1/projects/{project}/questions"): ("read", None),
    ("POST", "/v1/projects/{project}/questions/{hold_id}/respond"): (
        "decide",
        {"response": 1, "seen": "x"},
    ),
    ("GET", "/v1/notifications"): ("read", None),
    ("POST", "/v1/notifications/{hold_id}/read"): ("read", None),
    ("POST", "/v1/chat"): ("start", CHAT),
    ("GET", "/v1/chat/{chat_id}/stream"): ("read", None),
    ("GET", "/v1/chat/{chat_id}/messages"): ("read", None),
    ("GET", "/v1/me"): (None, None),
    ("GET", "/v1/people"): ("admin", None),
    ("GET", "/v1/people/{person_id}"): ("admin", None),
    ("PUT", "/v1/people/{person_id}"): ("admin", {}),
    ("GET", "/v1/grants"): ("admin", None),
    ("DELETE", "/v1/grants/{grant_id}"): ("admin", None),
    ("GET", "/v1/tokens"): ("admin", None),
    ("POST", "/v1/tokens"): ("admin", {"name": "x", "by": "mira", "scopes": ["admin"]}),
    ("DELETE", "/v1/tokens/{token_id}"): ("admin", None),
    ("GET", "/v1/outbox"): ("admin", None),
    ("POST", "/v1/outbox/{parcel_id}/again"): ("admin", None),
    ("GET", "/v1/audit/refused"): ("admin", None),
}
OPEN = {"/health", "/ready", "/openapi.json"}
"""What anybody may ask: it says nothing of anybody's."""


def url(path: str, **names: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda found: {**PATHS, **names}[found[1]], path)


async def test_every_route_is_in_the_table():
    async with service() as it:
        listed = {
            (method.upper(), path)
            for path, methods in it.app.openapi()["paths"].items()
            for method in methods
        }

        assert listed == set(TABLE)
        client = await it.bearing(None)
        for path in OPEN:
            assert (await client.get(path)).status_code == 200


@pytest.mark.parametrize("route", TABLE)
async def test_a_route_is_for_those_who_are_let_in_with_its_scope(route):
    (method, path), (scope, body) = route, TABLE[route]
    async with service() as it:
        nobody = await it.bearing(None)
        assert (await nobody.request(method, url(path), json=body)).status_code == 401
        if scope is None:
            return
        await it.sayso.people.put("mira", roles=["operator"])
        poor = await it.client(scopes=SCOPES - {scope})
        # Whoever speaks in a chat reads it.
        rich = await it.client(scopes={scope, "read"} if "/chat" in path else {scope})

        refused = await poor.request(method, url(path), json=body)
        answered = await rich.request(method, url(path), json=body)

        assert (refused.status_code, scope in refused.json()["detail"]) == (403, True)
        assert answered.status_code not in (401, 403, 500), answered.text


async def test_what_is_of_another_project_answers_as_what_is_not_there():
    """Every route that takes an id, asked for one of another project and for one of nobody's."""
    async with service() as it:
        mira = await it.client()
        for project in ("default", "other"):
            await it.sayso.people.put("mira", roles=["operator"], project=project)
        begun = await mira.post(
            "/v1/runs", json={"agent": "teller", "input": "pay 1", "mode": "wait"}
        )
        body = begun.json()
        there = {
            "run_id": body["run_id"],
            "hold_id": body["calls"][0]["id"],
            "request_id": body["request_id"],
        }
        there["token_id"] = (await mira.get("/v1/tokens")).json()["items"][0]["id"]
        # The same person, with everything, in another project.
        other = await it.client(project="other")
        for (method, path), (_, sent) in TABLE.items():
            named = set(re.findall(r"\{(\w+)\}", path)) & set(there)
            if not named:
                continue
            foreign = {name: there[name] for name in named}
            unknown = {
                name: value[:-6] + "zzzz" + value[-2:] if name != "token_id" else "z" * 16
                for name, value in foreign.items()
            }

            found = await other.request(method, url(path, **foreign), json=sent)
            nothing = await other.request(method, url(path, **unknown), json=sent)

            told = found.text
            for name in named:
                told = told.replace(foreign[name], unknown[name])
            assert found.status_code == nothing.status_code == 404, (method, path, found.text)
            assert told == nothing.text
            assert found.headers.get("content-length") == nothing.headers.get("content-length")
        assert (await mira.get(f"/v1/holds/{there['hold_id']}")).json()["status"] == "open"


async def test_only_operators_govern_once_there_are_people():
    async with service() as it:
        mira, ann = await it.client(), await it.client("ann")
        robot = await it.client("robot", kind="service", scopes=SCOPES)
        for one in (mira, ann, robot):
            first = await one.put("/v1/people/eve", json={"roles": ["operator"]})
            assert first.status_code == 403, "whoever comes first would govern"
        await it.sayso.people.put("mira", roles=["operator"])

        refused = await ann.put("/v1/people/ann", json={"roles": ["operator"]})
        again = await mira.put("/v1/people/ann", json={"roles": ["finance"]})
        theirs = await mira.post("/v1/tokens", json={"name": "x", "by": "ann", "scopes": ["read"]})
        assert theirs.status_code == 403, "whoever has it would be taken for ann"
        made = await mira.post("/v1/tokens", json={"name": "x", "by": "mira", "scopes": ["read"]})
        theirs = await it.bearing(made.json()["token"])

        assert (refused.status_code, again.status_code, made.status_code) == (403, 200, 201)
        assert (await theirs.get("/v1/me")).json()["scopes"] == ["read"]
        ended = await mira.delete(f"/v1/tokens/{made.json()['id']}")
        assert ended.json()["revoked_at"] is not None
        assert (await theirs.get("/v1/me")).status_code == 401
        assert "token" not in (await mira.get("/v1/tokens")).json()["items"][0]


async def test_who_sits_at_the_machine_keeps_the_first_person():
    async with service() as it:
        way = LocalWay(Principal(id="mira"), "default")
        it.app = create_app(it.sayso, ways=[way])
        local = await it.bearing(way.text)

        first = await local.put("/v1/people/mira", json={"roles": ["operator"]})
        await it.sayso.people.put("mira", roles=[])
        second = await local.put("/v1/people/eve", json={"roles": ["operator"]})

        assert (first.status_code, second.status_code) == (200, 403)


async def test_a_token_is_good_for_no_more_than_its_maker():
    async with service() as it:
        await it.sayso.people.put("mira", roles=["operator"])
        poor = await it.client(scopes={"admin"})
        whole = await it.client()

        made = [
            await poor.post("/v1/tokens", json={"name": "x", "by": "mira", "scopes": ["decide"]}),
            await whole.post(
                "/v1/tokens",
                json={"name": "x", "by": "ci", "kind": "service", "scopes": ["admin"]},
            ),
        ]

        assert [one.status_code for one in made] == [403, 403]


async def test_an_agent_made_over_http_cannot_decide():
    async with service() as it:
        await it.sayso.people.put("mira", roles=["operator"])
        mira = await it.client()

        refused = await mira.post(
            "/v1/tokens", json={"name": "x", "by": "bot", "kind": "agent", "scopes": ["decide"]}
        )

        assert refused.status_code == 422
