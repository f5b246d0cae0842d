"""Pages of a service in this process, with browsers that are signed in without one."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from sayso import Principal
from sayso.server.caller import Caller
from sayso.web.app import add_pages
from sayso.web.session import COOKIE, Sessions
from tests.server.conftest import Service, service

__all__ = ["Pages", "open_pages", "service"]


class Pages:
    """A service with its pages."""

    def __init__(self, inner: Service) -> None:
        self.service = inner
        self.sayso = inner.sayso
        self.paid = inner.paid

    async def browser(self, who: str = "mira", *, project: str = "default") -> httpx2.AsyncClient:
        """Give a client that bears the cookie of a new session."""
        caller = Caller(by=Principal(id=who), project=project, via="session")
        _, text = await Sessions(self.sayso.store).create(caller, via="local")
        client = await self.service.bearing(None)
        client.cookies.set(COOKIE, text)
        return client


@pytest.fixture
def open_pages() -> Any:
    """Give what opens a service with pages."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened(**options: Any) -> Any:
        async with service(**options) as inner:
            add_pages(inner.app)
            yield Pages(inner)

    return opened
