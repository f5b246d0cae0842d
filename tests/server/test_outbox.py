"""The outbox over HTTP: what was given up is seen, says nothing secret, and is tried again."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager

from sayso import Bounds, Sayso
from sayso.server.app import create_app
from sayso.testing import FakeClock

from .conftest import Service, teller


class Told:
    """Fails for as long as it is to, with words that nobody should read."""

    def __init__(self):
        self.fails, self.notices = True, []

    async def __call__(self, notice):
        if self.fails:
            raise ConnectionError("https://hooks.test/?token=s3cr3t: 987654")
        self.notices.append(notice)


@asynccontextmanager
async def given_up():
    """A service with a notice that is dead and one that waits, of one hold."""
    clock, told = FakeClock(), Told()
    agents = [teller([])]
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(
            Sayso("memory:", agents=agents, notify=told, clock=clock, bounds=Bounds(look_s=60))
        )
        it = Service(sayso, create_app(sayso), [], stack)
        await sayso.people.put("mira", roles=["operator"])
        view = await (await sayso.start("teller", "pay 987654", by="mira")).wait(timeout=20)
        for _ in range(12):
            await sayso.sweep()
            clock.advance("1h")
        await sayso.remind(view.holds[0], "1h", by="mira")
        yield it, told, view.holds[0]


async def test_what_was_given_up_is_listed_and_tried_again():
    async with given_up() as (it, told, hold):
        mira = await it.client()
        (dead,) = (await mira.get("/v1/outbox?state=dead")).json()["items"]
        assert (dead["id"], dead["hold_id"]) == (f"asked:{hold.id}", hold.id)
        assert (dead["tries"], dead["error"], dead["state"]) == (10, "ConnectionError", "dead")
        (waits,) = (await mira.get("/v1/outbox")).json()["items"]
        assert (waits["kind"], waits["hold_id"], waits["error"]) == ("later", hold.id, None)

        told.fails = False
        again = await mira.post(f"/v1/outbox/{dead['id']}/again")
        twice = await mira.post(f"/v1/outbox/{dead['id']}/again")
        assert (again.status_code, twice.status_code) == (200, 404)
        await it.sayso.sweep()

        assert [one.kind for one in told.notices] == ["asked"]
        assert (await mira.get("/v1/outbox?state=dead")).json() == {"items": [], "next": None}


async def test_the_outbox_says_nothing_secret_and_nothing_of_arguments():
    async with given_up() as (it, _, _hold):
        mira = await it.client()
        for state in ("dead", "waiting"):
            said = (await mira.get(f"/v1/outbox?state={state}")).text
            assert "s3cr3t" not in said
            assert "987654" not in said


async def test_the_outbox_is_for_operators_of_its_project():
    async with given_up() as (it, _, hold):
        ann, theirs = await it.client("ann"), await it.client(project="other")
        await it.sayso.people.put("mira", roles=["operator"], project="other")

        assert (await ann.get("/v1/outbox?state=dead")).status_code == 403
        assert (await ann.post(f"/v1/outbox/asked:{hold.id}/again")).status_code == 403
        assert (await theirs.get("/v1/outbox?state=dead")).json()["items"] == []
        foreign = await theirs.post(f"/v1/outbox/asked:{hold.id}/again")
        assert foreign.status_code == 404
        assert len(await it.sayso.notices.dead()) == 1


async def test_the_outbox_comes_in_pages():
    async with given_up() as (it, _, _hold):
        mira = await it.client()
        for _ in range(3):
            await (await it.sayso.start("teller", "pay 1", by="mira")).wait(timeout=20)
        found, after = [], ""
        for _ in range(9):
            page = (await mira.get(f"/v1/outbox?limit=2&after={after}")).json()
            found += [one["id"] for one in page["items"]]
            after = page["next"]
            if after is None:
                break

        assert len(found) == len(set(found)) == 4
