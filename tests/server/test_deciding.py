"""What a decision over HTTP can say beside yes and no, and what it is made on."""

import json

import httpx2

from tests.server.conftest import Service, service


async def held(it: Service, text: str = "pay 5") -> tuple[httpx2.AsyncClient, dict]:
    client = await it.client()
    body = {"agent": "teller", "input": text, "mode": "wait"}
    return client, (await client.post("/v1/runs", json=body)).json()["calls"][0]


async def test_a_hold_has_the_very_bytes_of_its_arguments():
    async with service() as it:
        _, hold = await held(it, "pay 9007199254740993")

    assert hold["args_json"] == '{"amount":9007199254740993,"to":"Jiro"}'
    assert (hold["operands"], hold["on_silence"]) == ([], "reject")


async def test_a_standing_yes_lets_the_next_call_pass():
    async with service() as it:
        client, hold = await held(it)
        always = {"args": {"amount": {"at_most": 10}}, "scope": "project", "until_s": 3600}
        body = {"action": "approve", "seen": hold["digest"], "always": always}
        given = await client.post(f"/v1/holds/{hold['id']}/decision", json=body)
        again = {"agent": "teller", "input": "pay 7", "mode": "wait"}
        passed = await client.post("/v1/runs", json=again)
        await it.sayso.run(hold["run_id"]).wait(final=True)

        assert given.status_code == 200, given.text
        assert passed.json()["status"] == "completed"
        assert sorted(it.paid) == [5, 7]


async def test_a_standing_yes_goes_with_a_yes_alone():
    async with service() as it:
        client, hold = await held(it)
        for more in ({"action": "reject"}, {"action": "approve", "undo": 5}):
            body = {"seen": hold["digest"], "always": {}, **more}
            refused = await client.post(f"/v1/holds/{hold['id']}/decision", json=body)
            assert (refused.status_code, it.paid) == (422, []), json.dumps(more)


async def test_what_asks_for_no_sign_in_has_no_address_for_one():
    async with service() as it:
        client, hold = await held(it)

        refused = await client.post(f"/v1/holds/{hold['id']}/sign-in")

    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:sayso:problem:wrong-verdict"
