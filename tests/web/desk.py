"""What the tests of pages ask for: an agent that does what it is told, in JSON.

What is said to it is a list of calls, `[["pay", {...}], ...]`, all asked for in one turn.
`python -m tests.web.desk STORE [PORT]` serves it with pages, and prints its port and a cookie for
each person.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from sayso import Agent, Context, Policy, Principal, Rule, Sayso, ask_user, role, tool
from sayso.domain.message import ToolMessage
from sayso.server.caller import SCOPES, Caller
from sayso.server.token import Tokens
from sayso.testing import ScriptedModel, call, say

PEOPLE = ("mira", "jonas", "olga")
Amount = Annotated[float, Field(json_schema_extra={"format": "money", "currency": "currency"})]


class Address(BaseModel):
    """Where something goes."""

    street: str
    number: int


@tool(approval=True, effect="once", risk="medium", title="Pay an invoice", why="Money leaves.")
def pay(
    amount: Amount,
    to: str,
    currency: Literal["EUR", "USD"] = "EUR",
    memo: str = "",
    reference: int = 0,
    address: Address | None = None,
    tags: list[str] = [],  # noqa: B006
) -> str:
    """Pay."""
    return f"paid {amount} to {to}"


@tool(approval=True, effect="once", risk="critical", title="Drop a table", why="It is gone then.")
def drop(table: str) -> str:
    """Drop."""
    return f"dropped {table}"


@tool(approval=True, effect="once", risk="low", within="2s", title="Soon over")
def hurry(what: str) -> str:
    """Hurry."""
    return what


@tool(approval=True, effect="once", risk="high", title="Wire it to the bank")
def wire(amount: int) -> str:
    """Wire, as two persons say."""
    return f"wired {amount}"


@tool(approval=True, effect="once", risk="low", title="Half of a pair")
def half(of: str) -> str:
    """Do what is decided with all others, or not at all."""
    return of


@tool(blocking=True)
def outside(ctx: Context, what: str) -> Any:
    """Wait for something outside."""
    return ctx.suspend(reason=f"Is {what} there?", metadata={"what": what})


@tool(durable=True)
async def unlock(ctx: Context, what: str) -> str:
    """Ask for a secret."""
    if what.startswith("like "):
        return str(await ctx.ask("Which?", default=what.removeprefix("like ")))
    if what == "form":
        pin = {"type": "object", "properties": {"pin": {"type": "string", "minLength": 30}}}
        await ctx.ask("Fill this in", schema=pin, sensitive=True)
    await ctx.ask(f"The key of {what}?", sensitive=True, length_min=30)
    return "unlocked"


@tool(effect="once", timeout="50ms")
async def send(parcel: str) -> str:
    """Send, and never say whether it was."""
    await asyncio.sleep(60)
    return parcel


def turns(messages: Any) -> Any:
    if isinstance(messages[-1], ToolMessage):
        return say("Done.")
    return [call(name, args) for name, args in json.loads(messages[-1].text)]


def make_app(store: str, **options: Any) -> Sayso:
    tools = [pay, drop, hurry, wire, half, outside, unlock, send, ask_user()]
    agent = Agent("teller", model=ScriptedModel(turns), tools=tools)
    policy = Policy(
        Rule("wire", approvers=[role("finance")], quorum=2),
        Rule("half", resolve="together"),
    )
    return Sayso(store, agents=[agent], policy=policy, **options)


def say_calls(*calls: Any) -> str:
    """Say to the agent what to ask for."""
    return json.dumps(calls)


async def put_people(app: Sayso) -> None:
    await app.people.put("mira", name="Mira Okafor", roles=["finance"])
    await app.people.put("jonas", name="Jonas Weber", roles=["finance", "operator"])
    await app.people.put("olga", name="Olga", roles=[])


async def sign_in(app: Sayso, who: str, scopes: Any = SCOPES, project: str = "default") -> str:
    """Sign somebody in; give what their cookie says."""
    from sayso.web.session import Sessions

    by = Principal(id=who)
    token, _ = await Tokens(app.store).create(name="test", by=by, project=project, scopes=scopes)
    caller = Caller(by=by, project=project, via="session", scopes=scopes)
    _, text = await Sessions(app.store).create(caller, via="token", ref=token.id)
    return text


async def people(store: str) -> dict[str, str]:
    """Make the people, and give a cookie of each."""
    async with Sayso(store, work=False) as app:
        await put_people(app)
        return {name: await sign_in(app, name) for name in PEOPLE}


def main(store: str, port: str = "0") -> None:
    from sayso.server.app import create_app
    from sayso.server.serve import bind, serve
    from sayso.web.app import add_pages

    cookies = asyncio.run(people(store))
    sock = bind("127.0.0.1", int(port))
    told = {"port": sock.getsockname()[1], "cookies": cookies}
    print(json.dumps(told), flush=True)
    serve(add_pages(create_app(make_app(store))), sock)


if __name__ == "__main__":
    main(*sys.argv[1:])
