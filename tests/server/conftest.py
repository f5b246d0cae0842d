"""A service in this process, spoken to over ASGI, with tokens for whoever a test needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest

from sayso import Agent, Principal, Sayso, ask_user, tool
from sayso.domain.message import ToolMessage
from sayso.server.app import create_app
from sayso.server.caller import AGENT_SCOPES, SCOPES
from sayso.server.token import Tokens
from sayso.testing import ScriptedModel, call, say


class Service:
    """An application, and clients that bear tokens."""

    def __init__(self, sayso: Sayso, app: Any, paid: list[int], stack: AsyncExitStack) -> None:
        self.sayso = sayso
        self.app = app
        self.paid = paid
        self._stack = stack

    async def client(
        self,
        who: str = "mira",
        *,
        kind: str = "person",
        project: str = "default",
        scopes: Any = None,
    ) -> httpx2.AsyncClient:
        """Give a client that bears a new token."""
        default = AGENT_SCOPES if kind == "agent" else SCOPES
        _, text = await Tokens(self.sayso.store).create(
            name="test",
            by=Principal(id=who, kind=kind),
            project=project,
            scopes=scopes or default,
        )
        return await self.bearing(text)

    async def bearing(self, credential: str | None, peer: str = "127.0.0.1") -> httpx2.AsyncClient:
        """Give a client that bears this."""
        transport = httpx2.ASGITransport(
            app=self.app, raise_app_exceptions=False, client=(peer, 1234)
        )
        client = httpx2.AsyncClient(transport=transport, base_url="http://sayso.test")
        if credential is not None:
            client.headers["authorization"] = f"Bearer {credential}"
        return await self._stack.enter_async_context(client)


def turns(messages: Any) -> Any:
    """Do what the last thing said asks for: `pay 200`, `ask`, or nothing."""
    last = messages[-1]
    if isinstance(last, ToolMessage):
        return say("Done.")
    words = last.text.split()
    if words[0] == "pay":
        return [call("pay", {"amount": int(word), "to": "Jiro"}) for word in words[1:]]
    if words[0] == "ask":
        return call("ask_user", {"question": "Which colour?", "options": ["red", "blue"]})
    return say("Nothing to do.")


def teller(paid: list[int], **options: Any) -> Agent:
    """Make the agent that all these tests talk to."""

    @tool(approval=True, effect="once", **options)
    def pay(amount: int, to: str) -> str:
        paid.append(amount)
        return f"paid {amount} to {to}"

    return Agent("teller", model=ScriptedModel(turns), tools=[pay, ask_user()])


@asynccontextmanager
async def service(**options: Any) -> AsyncGenerator[Service]:
    """Open a service over memory."""
    paid: list[int] = []
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(Sayso("memory:", agents=[teller(paid, **options)]))
        yield Service(sayso, create_app(sayso), paid, stack)


@pytest.fixture
def open_service() -> Any:
    """Give what opens a service."""
    return service
