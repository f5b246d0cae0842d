"""A person at a browser without scripts: follows links, fills in forms, sends them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from html.parser import HTMLParser
from typing import Any

import httpx2

from sayso import HoldView, Sayso
from sayso.server.app import create_app
from sayso.server.caller import SCOPES
from sayso.web.app import add_pages
from sayso.web.session import COOKIE
from tests.web.desk import make_app, put_people, say_calls, sign_in


class Form(HTMLParser):
    """The controls of a form in a page, as a browser would send them."""

    def __init__(self, page: str, id: str) -> None:
        super().__init__()
        self.action = ""
        self.fields: dict[str, list[str]] = {}
        self.buttons: list[tuple[str, str]] = []
        self._id, self._inside = id, False
        self._area = ""
        self._text = ""
        self._select = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attrs}
        if tag == "form":
            self._inside = named.get("id") == self._id or self._id in named.get("action", "")
            if self._inside:
                self.action = named["action"]
        if not self._inside:
            return
        name = named.get("name", "")
        kind = named.get("type", "text")
        if tag == "input" and name and (kind not in ("radio", "checkbox") or "checked" in named):
            self.fields.setdefault(name, []).append(named.get("value", ""))
        elif tag == "button" and name:
            self.buttons.append((name, named.get("value", "")))
        elif tag == "textarea":
            self._area, self._text = name, ""
        elif tag == "select":
            self._select = name
            self.fields[name] = [""]
        elif tag == "option" and ("selected" in named or self.fields[self._select] == [""]):
            self.fields[self._select] = [named.get("value", "")]

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = False
        elif tag == "textarea" and self._area:
            text = self._text.removeprefix("\n").replace("\n", "\r\n")
            self.fields[self._area] = [text]
            self._area = ""


class Person:
    """Somebody at a browser."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, part: str = "") -> httpx2.Response:
        return await self.client.get(path, headers={"x-part": part} if part else {})

    async def send(
        self,
        page: str,
        *,
        form: str = "decision",
        part: str = "",
        leave_out: tuple[str, ...] = (),
        **typed: str | list[str],
    ) -> httpx2.Response:
        """Fill in a form of a page and send it; `__` in a name stands for a slash."""
        found = Form(page, form)
        assert found.action, f"there is no form {form!r}"
        values: dict[str, str | list[str]] = {**found.fields}
        values |= {name.replace("__", "/"): value for name, value in typed.items()}
        for name in leave_out:
            values.pop(name)
        headers = {"x-part": part} if part else {}
        return await self.client.post(found.action, data=values, headers=headers)

    async def decide(self, hold: HoldView, **typed: Any) -> httpx2.Response:
        """Open a request, fill in what it asks, and send it."""
        path = f"/r/{hold.id}" + ("?edit" if typed.get("edit") else "")
        return await self.send((await self.get(path)).text, **typed)


class Desk:
    """An app with pages, and people at them."""

    def __init__(self, sayso: Sayso, app: Any, stack: AsyncExitStack) -> None:
        self.sayso = sayso
        self.app = app
        self._stack = stack

    async def person(self, who: str = "mira", *, scopes: Any = SCOPES) -> Person:
        transport = httpx2.ASGITransport(app=self.app, raise_app_exceptions=False)
        client = httpx2.AsyncClient(transport=transport, base_url="http://sayso.test")
        client.cookies.set(COOKIE, await sign_in(self.sayso, who, scopes))
        return Person(await self._stack.enter_async_context(client))

    async def ask(self, *calls: Any, by: str = "mira") -> HoldView:
        """Have an agent ask for these calls; give the first hold of it."""
        run = await self.sayso.start("teller", say_calls(*calls), by=by)
        return (await run.wait(timeout=20)).holds[0]


@asynccontextmanager
async def desk() -> AsyncGenerator[Desk]:
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(make_app("memory:"))
        await put_people(sayso)
        yield Desk(sayso, add_pages(create_app(sayso)), stack)


def run(main: Any) -> None:
    """Run a test's own coroutine with a desk."""

    async def opened() -> None:
        async with desk() as made:
            await main(made)

    asyncio.run(opened())
