"""Pages of a service in this process, with browsers that are signed in without one."""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from sayso import Principal
from sayso.server.caller import SCOPES, Caller
from sayso.server.token import Tokens
from sayso.web.app import add_pages
from sayso.web.session import COOKIE, Sessions
from tests.server.conftest import Service, service

__all__ = ["Pages", "field", "open_pages", "service"]


class Pages:
    """A service with its pages."""

    def __init__(self, inner: Service) -> None:
        self.service = inner
        self.sayso = inner.sayso
        self.paid = inner.paid

    async def token(self, who: str = "mira", **options: Any) -> tuple[str, str]:
        """Give the id and the text of a new token."""
        by = Principal(id=who, kind=options.pop("kind", "person"))
        options = {"project": "default", **options}
        token, text = await Tokens(self.sayso.store).create(name="test", by=by, **options)
        return token.id, text

    async def browser(
        self, who: str = "mira", *, project: str = "default", scopes: Any = SCOPES
    ) -> httpx2.AsyncClient:
        """Give a client that bears the cookie of a new session."""
        ref, _ = await self.token(who, project=project)
        caller = Caller(by=Principal(id=who), project=project, scopes=scopes, via="session")
        _, text = await Sessions(self.sayso.store).create(caller, via="token", ref=ref)
        client = await self.service.bearing(None)
        client.cookies.set(COOKIE, text)
        return client

    async def stranger(self, host: str = "sayso.test", peer: str = "127.0.0.1") -> Any:
        """Give a client that is not signed in."""
        client = await self.service.bearing(None, peer=peer)
        client.base_url = f"http://{host}"
        return client


def field(page: str, name: str) -> str:
    """Give the value of a hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found, f"the page has no field {name!r}"
    return found[1]


@pytest.fixture
def open_pages() -> Any:
    """Give what opens a service with pages."""
    from contextlib import asynccontextmanager

    from sayso.server.app import create_app

    @asynccontextmanager
    async def opened(
        *, ways: Any = (), public_url: Any = None, provider: Any = None, **options: Any
    ) -> Any:
        async with service(**options) as inner:
            if ways or public_url:
                inner.app = create_app(inner.sayso, ways=ways, public_url=public_url)
            add_pages(inner.app, at=provider and provider(inner.sayso))
            yield Pages(inner)

    return opened
