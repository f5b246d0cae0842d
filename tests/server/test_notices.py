"""Notifications inside an application."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import datetime

from sayso import Sayso, approve
from sayso.server.app import create_app
from sayso.store.views import moment
from sayso.testing import FakeClock

from .conftest import Service, service, teller


async def test_what_is_read_and_what_is_answered_anywhere_shows():
    async with service(approvers=["user:ann", "user:bob"]) as it:
        mira, ann, bob = [await it.client(name) for name in ("mira", "ann", "bob")]
        body = {"agent": "teller", "input": "pay 7", "mode": "wait"}
        hold = (await mira.post("/v1/runs", json=body)).json()["calls"][0]

        (found,) = (await ann.get("/v1/notifications")).json()["items"]
        assert (found["id"], found["read"], found["answered"]) == (hold["id"], False, None)
        assert [one["action"] for one in found["actions"]] == ["approve", "reject"]
        for _ in range(2):
            again = await ann.post(f"/v1/notifications/{hold['id']}/read")
            assert again.json()["read"] is True
        assert (await ann.get("/v1/notifications")).json()["unread"] == 0
        assert (await bob.get("/v1/notifications")).json()["unread"] == 1
        assert (await mira.get("/v1/notifications")).json()["items"] == []

        await it.sayso.decide(await it.sayso.hold(hold["id"]), approve(), by="ann")

        assert (await bob.get("/v1/notifications")).json()["items"] == []
        (told,) = (await bob.get("/v1/notifications?status=any")).json()["items"]
        assert (told["answered"]["by"]["id"], told["actions"]) == ("ann", [])


async def test_an_action_of_a_notification_works_as_given():
    async with service() as it:
        mira = await it.client()
        await mira.post("/v1/runs", json={"agent": "teller", "input": "pay 7", "mode": "wait"})
        (found,) = (await mira.get("/v1/notifications")).json()["items"]
        act = found["actions"][0]

        answer = await mira.request(
            act["method"], act["url"], json={"action": act["action"], "seen": found["seen"]}
        )

        assert answer.status_code == 200


async def test_what_is_put_off_is_new_again_when_its_time_has_come():
    clock = FakeClock()
    agents = [teller([], approvers=["user:ann"], within="1d")]
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(Sayso("memory:", agents=agents, clock=clock))
        it = Service(sayso, create_app(sayso), [], stack)
        ann, bob = await it.client("ann"), await it.client("bob")
        view = await (await sayso.start("teller", "pay 7", by="mira")).wait(timeout=20)
        url = f"/v1/holds/{view.holds[0].id}/remind"

        async def unread():
            return (await ann.get("/v1/notifications")).json()["unread"]

        put_off = await ann.post(url, json={"in_s": 3600})
        assert put_off.status_code == 200
        told = datetime.fromisoformat(put_off.json()["at"])
        assert told == moment(clock.now() + 3_600_000)
        assert await unread() == 0
        read = await ann.post(f"/v1/notifications/{view.holds[0].id}/read")
        assert read.json()["read"] is True
        clock.advance("1h")
        assert await unread() == 1, "whoever has read it meanwhile is told all the same"
        await ann.post(f"/v1/notifications/{view.holds[0].id}/read")
        assert await unread() == 0
        at = moment(clock.now() + 60_000).isoformat()
        assert (await ann.post(url, json={"at": at})).json()["at"].startswith(at[:19])

        wrong = [
            {},
            {"in_s": 60, "at": at},
            {"in_s": 5},
            {"at": "2027-01-01T00:00:00"},
            {"in_s": "1h"},
        ]
        for body in [*wrong, {"in_s": 86400}, {"at": "1999-01-01T00:00:00Z"}]:
            assert (await ann.post(url, json=body)).status_code == 422, body
        assert (await bob.post(url, json={"in_s": 60})).status_code == 403
        await sayso.decide(view.holds[0], approve(), by="ann")
        late = await ann.post(url, json={"in_s": 60})
        assert (late.status_code, late.json()["decision"]["verdict"]) == (409, "approved")
