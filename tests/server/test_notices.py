"""Notifications inside an application."""

from __future__ import annotations

from sayso import approve

from .conftest import service


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
