"""Checking a store in PostgreSQL finds what somebody with every right has changed in it."""

import asyncio

import pytest

from sayso import Agent, Sayso, approve, tool
from sayso.store.audit import verify
from sayso.testing import ScriptedModel, call, say

_BEHIND = "set session_replication_role = replica; "
"""No trigger and no reference is in the way of a superuser."""


@pytest.fixture(scope="module")
def template(postgres) -> str:
    """The name of a database with a finished run and one that waits."""

    @tool(approval=True, effect="once")
    def pay() -> str:
        return "paid"

    model = ScriptedModel(lambda messages: call("pay") if len(messages) == 1 else say("Paid."))
    url = postgres.database()

    async def fill() -> None:
        async with Sayso(url, agents=[Agent("teller", model=model, tools=[pay])]) as app:
            for name in ("run_1", "run_2"):
                run = await app.start("teller", "Pay", by="mira", id=name)
                (hold,) = (await run.wait(timeout=60)).holds
                if name == "run_1":
                    await app.decide(hold, approve(), by="mira")
                    await run.wait(final=True, timeout=60)

    asyncio.run(fill())
    return url.partition("///")[2].partition("?")[0]


_CHANGES = {
    "update journal set payload = payload || ' ' where position = 3": "run_1",
    "update journal set at = at + 1 where position = 2": "run_1",
    "delete from journal where position = 3": "run_1",
    "delete from journal where position = (select max(position) from journal)": "run_2",
    "update journal set position = 900 where position = 1": "out of order",
    "update journal set run = 99 where position = 4": "belongs to no run",
    "update journal set salt = null, payload = sha256(salt || payload) where position = 2": "whom",
    "update runs set status = 'completed', owner = '' where id = 'run_2'": "status",
    "update runs set state = convert_to('{}', 'UTF8') where id = 'run_2'": "run_2",
    "update runs set hash = sha256('x') where id = 'run_1'": "run_1",
    "update holds set digest = 'x' where run = 2": "hold 1",
    "update holds set who = '{anyone}' where run = 2": "hold 1",
    "delete from holds where run = 2": "hold 1",
    "update holds set opened = opened + 1 where run = 2": "hold 1 in another place",
    "delete from waiting": "user:mira may decide hold 1, and no list says so",
    "update waiting set n = 2": "user:mira may decide hold 1, and no list says so",
    "insert into waiting select audience, 1, 1, 1 from waiting": "lists say that user:mira may",
    "update waiting set run = 99": "the store lists say that user:mira may decide hold 1",
    "update waiting set audience = 99": "lists say that nobody may decide hold 1",
    "update audiences set who = 'user:eve'": "lists say that user:eve may decide hold 1",
    "update audiences set project = 'other'": "user:mira may decide hold 1, and no list says so",
    "with other as (insert into audiences (project, who) values ('q', 'user:mira') returning k) "
    "insert into waiting select k, opened, n, run from other, holds where run = 2": "not so",
}


@pytest.mark.parametrize("change, fault", _CHANGES.items(), ids=range(len(_CHANGES)))
async def test_what_was_changed_is_found(postgres, template, change, fault):
    name = postgres.schema()
    postgres.execute(f"create database {name} template {template}")
    async with Sayso(postgres.url(name), work=False) as app:
        assert (await verify(app.store)).ok
        postgres.execute(f"{_BEHIND} set search_path = sayso; {change}", name)

        report = await verify(app.store)

    assert report.faults
    assert fault in "\n".join(f"{one.run_id or 'the store'} {one.what}" for one in report.faults)
