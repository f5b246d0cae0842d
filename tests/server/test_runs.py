"""Runs and holds over HTTP, through an application in this process."""

from __future__ import annotations

import asyncio
import json

import pytest

from sayso import UserMessage, approve, tool
from sayso.errors import StoreError
from sayso.server.problem import describe

from .conftest import service


async def started(client, text="pay 200", mode="wait", **headers):
    answer = await client.post(
        "/v1/runs", json={"agent": "teller", "input": text, "mode": mode}, headers=headers
    )
    return answer.status_code, answer.json()


async def test_a_suspended_run_answers_with_what_it_asks():
    async with service() as it:
        client = await it.client()
        status, body = await started(client)

        assert (status, body["type"], len(body["calls"])) == (200, "suspended", 1)
        hold = body["calls"][0]
        assert hold["args"] == {"amount": 200, "to": "Jiro"}
        assert hold["digest"]
        assert "amount: 200" in hold["shown"]
        assert body["approval_url"].startswith("http://sayso.test/v1/resume/req_")
        run = (await client.get(f"/v1/runs/{body['run_id']}", params={"as": "run"})).json()
        assert (run["type"], run["status"], run["holds"][0]["id"]) == (
            "run",
            "suspended",
            hold["id"],
        )
        assert it.paid == []


async def test_the_approval_address_works_as_given_once():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)

        first = await client.post(body["approval_url"])
        second = await client.post(body["approval_url"])
        other = await client.post(body["rejection_url"])

        assert first.json()["status"] == "completed"
        for late in (second, other):
            assert late.status_code == 409
            assert late.headers["content-type"] == "application/problem+json"
            assert late.json()["decision"]["by"] == {"id": "mira", "kind": "person"}
        assert it.paid == [200]


async def test_looking_decides_nothing():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)

        for method in ("GET", "HEAD", "OPTIONS"):
            await client.request(method, body["approval_url"])

        assert (await client.get(body["approval_url"])).json()["calls"][0]["status"] == "open"
        assert it.paid == []


async def test_a_rejection_that_ends_the_run_answers_as_such():
    async with service(on_reject="cancel") as it:
        client = await it.client()
        _, body = await started(client)

        said = {"action": "reject", "reason": "too much", "seen": body["seen"]}
        answer = (await client.post(f"/v1/resume/{body['request_id']}", json=said)).json()

        assert (answer["type"], answer["decision"]["reason"]) == ("rejected", "too much")
        assert (await client.get(f"/v1/runs/{body['run_id']}")).json()["type"] == "rejected"
        assert it.paid == []


async def test_a_decision_needs_the_digest_of_what_was_shown():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        hold = body["calls"][0]
        url = f"/v1/holds/{hold['id']}/decision"

        without = await client.post(url, json={"action": "approve"})
        wrong = await client.post(url, json={"action": "approve", "seen": "0" * 64})
        resumed = await client.post(f"/v1/resume/{body['request_id']}", json={"action": "approve"})
        right = await client.post(url, json={"action": "approve", "seen": hold["digest"]})

        assert [one.status_code for one in (without, wrong, resumed, right)] == [422, 409, 422, 200]
        assert right.json()["decision"]["channel"] == "http"


async def test_an_edit_is_shown_and_executed():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        hold = body["calls"][0]
        said = {"action": "approve", "args": {"amount": 150, "to": "Jiro"}, "seen": hold["digest"]}

        answer = await client.post(f"/v1/holds/{hold['id']}/decision", json=said)
        await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)

        assert answer.status_code == 200
        assert it.paid == [150]


@pytest.mark.parametrize(
    "said",
    [
        {"action": "approve", "reason": "x"},
        {"action": "reject", "args": {}},
        {"action": "approve", "value": 1},
        {"action": "shrug"},
        {"action": "approve", "by": "ann"},
        {"action": "answer", "value": 1},
        {},
    ],
)
async def test_what_is_no_decision_changes_nothing(said):
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        hold = body["calls"][0]

        answer = await client.post(
            f"/v1/holds/{hold['id']}/decision", json={"seen": hold["digest"], **said}
        )

        assert answer.status_code == 422
        assert (await client.get(f"/v1/holds/{hold['id']}")).json()["status"] == "open"


async def test_a_retry_with_the_same_key_gives_the_same_answer():
    async with service() as it:
        client = await it.client()
        headers = {"idempotency-key": "k1"}
        _, first = await started(client, **headers)
        _, again = await started(client, **headers)
        _, other = await started(client, text="pay 300", **headers)
        hold = first["calls"][0]
        url = f"/v1/holds/{hold['id']}/decision"
        said = {"action": "approve", "seen": hold["digest"]}

        decided = [
            await client.post(url, json=said, headers={"idempotency-key": "k2"}) for _ in range(2)
        ]
        changed = await client.post(
            url,
            json={"action": "reject", "seen": hold["digest"]},
            headers={"idempotency-key": "k2"},
        )

        assert first["run_id"] == again["run_id"]
        assert other["type"] == "urn:sayso:problem:key-reused"
        assert [one.status_code for one in decided] == [200, 200]
        assert decided[0].json()["decision"] == decided[1].json()["decision"]
        assert changed.status_code == 422


async def test_several_decisions_each_have_their_own_outcome():
    async with service() as it:
        client = await it.client()
        _, body = await started(client, text="pay 1 2")
        first, second = body["calls"]
        said = [
            {"hold_id": first["id"], "action": "approve", "seen": first["digest"]},
            {"hold_id": second["id"], "action": "approve", "seen": "wrong"},
            {"hold_id": "hold_x.1", "action": "approve", "seen": "x"},
        ]

        items = (await client.post("/v1/decisions", json={"decisions": said})).json()["items"]

        assert items[0]["hold"]["status"] == "settled"
        assert [one["problem"]["status"] for one in items[1:]] == [409, 404]


async def test_a_double_click_pays_once():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)

        answers = await asyncio.gather(*[client.post(body["approval_url"]) for _ in range(8)])
        await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)

        assert sorted(one.status_code for one in answers) == [200] + [409] * 7
        assert it.paid == [200]


async def test_questions_are_listed_and_answered():
    async with service() as it:
        client = await it.client()
        _, body = await started(client, text="ask")
        run = body["run_id"]
        asked = (await client.get("/v1/projects/default/questions")).json()["items"]
        url = f"/v1/projects/default/questions/{asked[0]['id']}/respond"

        seen = asked[0]["digest"]
        blind = await client.post(url, json={"response": "red"})
        odd = await client.post(url, json={"response": "green", "seen": seen})
        right = await client.post(url, json={"response": "red", "seen": seen})
        late = await client.post(url, json={"response": "blue", "seen": seen})

        assert asked[0]["ask"]["text"] == "Which colour?"
        assert (await client.get(f"/v1/runs/{run}/questions")).status_code == 200
        assert blind.status_code == 422
        assert (odd.status_code, right.status_code, late.status_code) == (400, 202, 409)
        assert right.json()["run_id"] == run
        assert (await client.get("/v1/projects/other/questions")).status_code == 404


async def test_approvers_see_the_request_and_not_the_conversation():
    async with service(approvers=["user:ann"]) as it:
        mira, ann, bob = [await it.client(name) for name in ("mira", "ann", "bob")]
        _, body = await started(mira)
        hold, run = body["calls"][0]["id"], body["run_id"]

        assert (await ann.get(f"/v1/holds/{hold}")).status_code == 200
        assert (await ann.get(f"/v1/runs/{run}")).status_code == 403
        assert (await ann.get(f"/v1/runs/{run}/events")).status_code == 403
        assert (await bob.get(f"/v1/holds/{hold}")).status_code == 403
        assert (await mira.post(body["approval_url"])).status_code == 403
        assert [one["id"] for one in (await ann.get("/v1/holds")).json()["items"]] == [hold]
        assert (await bob.get("/v1/holds")).json()["items"] == []
        assert (await bob.get("/v1/runs")).json()["items"] == []
        assert (await bob.get("/v1/holds?mine=false")).status_code == 403
        answer = await ann.post(body["approval_url"])
        # It goes on, and where is all that ann is told.
        assert (answer.status_code, answer.json()["run_id"]) == (202, run)


async def test_lists_go_on_by_key():
    async with service() as it:
        client = await it.client()
        runs = [(await started(client))[1]["run_id"] for _ in range(5)]
        seen, after = [], None
        for _ in range(4):
            page = (
                await client.get(
                    "/v1/runs", params={"limit": 2, **({"after": after} if after else {})}
                )
            ).json()
            seen += [one["id"] for one in page["items"]]
            after = page["next"]
            if after is None:
                break

        assert seen == runs[::-1]
        assert (await client.get("/v1/runs?limit=0")).status_code == 422
        assert (await client.get("/v1/runs?limit=100000")).status_code == 422


async def test_a_run_is_spoken_to_and_cancelled():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        url = f"/v1/runs/{body['run_id']}"

        waits = await client.post(f"{url}/messages", json={"text": "pay 3"})
        over = await client.post(f"{url}/messages", json={"text": "thanks", "supersede": True})
        await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)
        gone = await client.request("DELETE", url)

        assert (waits.status_code, over.status_code) == (409, 202)
        assert gone.status_code == 409
        assert it.paid == []


async def test_bodies_are_bounded_and_read_strictly():
    async with service() as it:
        client = await it.client()
        json_type = {"content-type": "application/json"}
        good = b'{"agent": "teller", "input": "x"%s}'

        answers = {
            what: await client.post("/v1/runs", content=content, headers=json_type)
            for what, content in {
                "twice": good % b', "input": "y"',
                "nan": good % b', "metadata": {"x": NaN}',
                "half": good % b', "thread": "\\ud800"',
                "large": b'"' + b"x" * 3_000_000 + b'"',
                "cut": b'{"agent"',
                "deep": b"[" * 100_000,
                "list": b"[]",
                "bytes": b"\xff\xfe",
            }.items()
        }

        codes = {what: one.status_code for what, one in answers.items()}
        assert codes == {
            "twice": 400,
            "nan": 400,
            "half": 400,
            "large": 413,
            "cut": 400,
            "deep": 400,
            "list": 422,
            "bytes": 400,
        }
        assert all(
            one.headers["content-type"] == "application/problem+json" for one in answers.values()
        )
        assert (await client.get("/v1/runs")).json()["items"] == []


async def test_what_was_sent_is_not_in_a_problem():
    async with service() as it:
        client = await it.client()

        answer = await client.post(
            "/v1/runs", json={"agent": 7, "input": ["s3cr3t"], "password": "s3cr3t"}
        )

        assert answer.status_code == 422
        assert "s3cr3t" not in answer.text


async def test_a_decision_made_elsewhere_is_what_stands():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        hold = await it.sayso.hold(body["calls"][0]["id"])
        await it.sayso.decide(hold, approve(), by="mira")

        answer = await client.post(
            f"/v1/holds/{hold.id}/decision", json={"action": "reject", "seen": hold.digest}
        )

        assert answer.status_code == 409
        assert answer.json()["decision"]["verdict"] == "approved"
        assert answer.json()["decision"]["channel"] == "library"


async def test_only_agents_of_the_application_are_started():
    """The one that makes a single call would let a caller choose the tool and its arguments."""
    wiped = []

    @tool(effect="once")
    def wipe(what: str) -> str:
        wiped.append(what)
        return "gone"

    async with service() as it:
        await it.sayso.close()
        it.sayso._single.tools["wipe"] = wipe
        await it.sayso.open()
        agent = await it.client("bot", kind="agent")
        said = json.dumps({"tool": "wipe", "args": {"what": "disk"}})

        answer = await agent.post("/v1/runs", json={"agent": "sayso.single", "input": said})

        assert answer.status_code == 404
        assert wiped == []


async def test_what_was_done_is_not_refused_for_what_cannot_be_seen():
    async with service(approvers=["user:ann"]) as it:
        mira, ann = await it.client(), await it.client("ann")
        _, body = await started(mira)
        said = {"action": "approve", "seen": body["seen"], "mode": "stream"}

        answer = await ann.post(f"/v1/resume/{body['request_id']}", json=said)

        assert answer.status_code == 202
        await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)
        assert it.paid == [200]


async def test_nothing_is_done_if_it_could_not_be_followed():
    async with service() as it:
        client = await it.client()
        _, body = await started(client)
        it.app.state.streams._most = 0
        said = {"action": "approve", "seen": body["seen"], "mode": "stream"}

        refused = await client.post(f"/v1/resume/{body['request_id']}", json=said)
        begun = await client.post(
            "/v1/runs", json={"agent": "teller", "input": "pay 1", "mode": "stream"}
        )

        assert (refused.status_code, begun.status_code) == (503, 503)
        assert len((await client.get("/v1/runs")).json()["items"]) == 1
        assert it.paid == []


async def test_without_the_scope_to_read_nothing_is_read():
    async with service() as it:
        whole, starts = await it.client(), await it.client(scopes={"start"})
        decides = await it.client(scopes={"decide"})
        body = {"agent": "teller", "input": "pay 7", "mode": "wait"}

        begun = await starts.post("/v1/runs", json=body)
        held = (await whole.get(f"/v1/runs/{begun.json()['run_id']}")).json()
        decided = await decides.post(held["approval_url"])

        assert (begun.status_code, decided.status_code) == (202, 202)
        assert "Jiro" not in begun.text + decided.text


async def test_a_key_is_of_one_person():
    async with service() as it:
        mira, ann = await it.client(), await it.client("ann")
        key = {"idempotency-key": "k"}

        answers = [await started(one, text="hello", **key) for one in (mira, ann)]

        assert [status for status, _ in answers] == [200, 200]
        assert answers[0][1]["id"] != answers[1][1]["id"]


async def test_who_may_not_see_a_hold_is_not_told_its_digest():
    async with service() as it:
        mira, bob = await it.client(), await it.client("bob")
        _, body = await started(mira)
        hold = body["calls"][0]

        answers = [
            await bob.post(
                f"/v1/holds/{hold['id']}/decision", json={"action": "approve", "seen": "x"}
            ),
            await bob.post(
                f"/v1/resume/{body['request_id']}", json={"action": "approve", "seen": "x"}
            ),
        ]

        assert [one.status_code for one in answers] == [403, 403]
        assert all(hold["digest"] not in one.text for one in answers)


async def test_what_a_store_says_of_itself_stays_inside():
    problem = describe(StoreError("'postgresql://sayso@db.internal/pay' cannot be reached"))

    assert (problem.status, "internal" in problem.detail) == (503, False)


async def test_a_message_sent_again_is_said_once():
    async with service() as it:
        client, ann = await it.client(), await it.client("ann")
        _, body = await started(client)
        path = f"/v1/runs/{body['run_id']}/messages"
        said = {"text": "never mind", "supersede": True}
        head = {"Idempotency-Key": "k"}

        answers = [await client.post(path, json=said, headers=head) for _ in range(3)]
        other = await client.post(path, json={"text": "or do"}, headers=head)

        assert [one.status_code for one in answers] == [202, 202, 202]
        assert {one.json()["run_id"] for one in answers} == {body["run_id"]}
        assert (other.status_code, other.json()["type"]) == (422, "urn:sayso:problem:key-reused")
        # Whoever may not speak to it does not get at what a key has done, either.
        assert (await ann.post(path, json=said, headers=head)).status_code == 403
        view = await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)
        assert [one.text for one in view.messages if one.__class__ is UserMessage][1:] == [
            "never mind"
        ]


async def test_a_yes_goes_for_later_calls_as_far_as_it_says():
    async with service() as it:
        await it.sayso.people.put("mira", roles=["operator"])
        client = await it.client()
        _, body = await started(client, "pay 5")
        path = f"/v1/holds/{body['calls'][0]['id']}/decision"
        said = {"action": "approve", "seen": body["calls"][0]["digest"]}
        limits = {
            "args": {"amount": {"at_most": 9}},
            "uses": 1,
            "until_s": 60.0,
            "note": "petty cash",
        }

        no = await client.post(path, json={**said, "action": "reject", "always": limits})
        yes = await client.post(path, json={**said, "always": limits})
        await it.sayso.run(body["run_id"]).wait(final=True, timeout=20)
        (grant,) = (await client.get("/v1/grants")).json()["items"]
        later = [(await started(client, text))[1] for text in ("pay 8", "pay 8")]
        over = (await started(client, "pay 10"))[1]

        assert (no.status_code, yes.status_code) == (422, 200)
        assert (grant["uses_max"], grant["note"]) == (1, "petty cash")
        assert [one.get("status") for one in later] == ["completed", None]
        assert over["type"] == "suspended"
