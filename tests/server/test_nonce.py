"""Links and nonces of pages: what is fetched decides nothing, what is sent back decides once."""

from __future__ import annotations

import asyncio

import pytest

from sayso import Principal, Sayso
from sayso.errors import BadNonce
from sayso.server.nonce import GOOD_MS, KIND, NONCES, Nonces
from sayso.testing import FakeClock

from .conftest import service, teller
from .test_routes import TABLE, url

ANN, BOB = Principal(id="ann"), Principal(id="bob")


async def asked(app):
    view = await (await app.start("teller", "pay 5", by="ann")).wait(timeout=20)
    return view.holds[0]


def of(hold, /, **changed):
    return {"project": hold.project, "hold": hold.id, "seen": hold.digest, "by": ANN, **changed}


async def test_a_nonce_is_spent_once(tmp_path):
    async with Sayso(tmp_path / "pay.db", agents=[teller([])]) as app:
        hold = await asked(app)
        text = Nonces(app.store).make(hold, by=ANN)

        async def spend():
            try:
                await Nonces(app.store).spend(text, **of(hold))
            except BadNonce:
                return 0
            return 1

        assert sum(await asyncio.gather(*[spend() for _ in range(50)])) == 1
        assert await spend() == 0
    async with Sayso(tmp_path / "pay.db", work=False) as app:
        assert await spend() == 0


@pytest.mark.parametrize(
    "changed",
    [
        {"by": BOB},
        {"by": Principal(id="ann", kind="service")},
        {"hold": "hold_x.1"},
        {"seen": "another"},
        {"project": "other"},
    ],
)
async def test_a_nonce_is_of_one_person_and_of_what_they_were_shown(changed):
    async with Sayso("memory:", agents=[teller([])]) as app:
        hold, nonces = await asked(app), Nonces(app.store)
        text = nonces.make(hold, by=ANN)
        with pytest.raises(BadNonce):
            await nonces.spend(text, **of(hold, **changed))

        await nonces.spend(text, **of(hold))


async def test_what_was_changed_in_a_nonce_is_found():
    async with Sayso("memory:", agents=[teller([])]) as app:
        hold, nonces = await asked(app), Nonces(app.store)
        text = nonces.make(hold, by=ANN)
        wrong = ["", text[:-1], f"{text}x", f" {text}", f"9{text[1:]}", text.replace(".", "", 1)]
        wrong += [text[:20] + ("A" if text[20] != "A" else "B") + text[21:], "x" * 10_000]
        for one in wrong:
            with pytest.raises(BadNonce):
                await nonces.spend(one, **of(hold))


async def test_a_nonce_ends_and_takes_no_room_afterwards():
    clock = FakeClock()
    async with Sayso("memory:", agents=[teller([])], clock=clock) as app:
        hold, nonces = await asked(app), Nonces(app.store)
        old = [nonces.make(hold, by=ANN) for _ in range(5)]
        for text in old[1:]:
            await nonces.spend(text, **of(hold))
        clock.advance(GOOD_MS - 1)
        late = nonces.make(hold, by=ANN)
        await nonces.spend(old[0], **of(hold))
        assert len(await app.store.shelf.list(NONCES, KIND)) == 5
        clock.advance(1)
        with pytest.raises(BadNonce):
            await nonces.spend(old[1], **of(hold))
        await nonces.spend(late, **of(hold))

        assert len(await app.store.shelf.list(NONCES, KIND)) == 1


async def test_making_a_nonce_writes_nothing():
    async with Sayso("memory:", agents=[teller([])]) as app:
        hold = await asked(app)
        Nonces(app.store).make(hold, by=ANN)

        assert await app.store.shelf.list(NONCES, KIND) == []


async def test_no_get_decides_whatever_its_query_says():
    """Every route that can be fetched, with all that a link could carry."""
    async with service() as it:
        await it.sayso.people.put("mira", roles=["operator"])
        mira = await it.client()
        start = {"agent": "teller", "input": "pay 1", "mode": "wait"}
        body = (await mira.post("/v1/runs", json=start)).json()
        names = {
            "run_id": body["run_id"],
            "hold_id": body["calls"][0]["id"],
            "request_id": body["request_id"],
        }
        before = [entry.hash for entry in await it.sayso.store.tail(limit=500)]
        query = {"action": "approve", "seen": body["seen"], "decision": "approve", "d": "approve"}
        fetched = [path for method, path in TABLE if method == "GET" and "events" not in path]
        for path in fetched:
            for method in ("GET", "HEAD"):
                await mira.request(method, url(path, **names), params=query)
        for address in (body["approval_url"], body["rejection_url"]):
            for method in ("GET", "HEAD", "OPTIONS"):
                await mira.request(method, address)

        assert [entry.hash for entry in await it.sayso.store.tail(limit=500)] == before
        assert (await it.sayso.hold(names["hold_id"])).status == "open"
        assert it.paid == []
