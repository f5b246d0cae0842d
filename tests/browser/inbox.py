"""The desk of `tests.web.desk` in a process of its own, and people who look at it in a browser."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, Page

from sayso import HoldView, Sayso, Verdict
from sayso.web.session import COOKIE
from sayso.wired import only_looking
from tests.browser.window import Windows
from tests.web.desk import make_app, say_calls

ROOT = Path(__file__).parents[2]
GRACE_MS = 400
"""A little more than keys and clicks are ignored for."""


class Inbox:
    """A server with pages, and what its people ask and decide."""

    def __init__(self, folder: Path) -> None:
        self._store = str(folder / "inbox.db")
        env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.web.desk", self._store],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server ended: {self._process.wait()}"
        told = json.loads(line)
        self.url = f"http://127.0.0.1:{told['port']}"
        self._cookies: dict[str, str] = told["cookies"]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def sign_in(self, context: BrowserContext, who: str = "mira") -> None:
        cookie = {"name": COOKIE, "value": self._cookies[who], "url": self.url}
        context.add_cookies([cookie])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]

    def open(self, windows: Windows, path: str = "/", *, who: str = "mira", **options: Any) -> Page:
        """Open a page as somebody, and wait until it hears what happens."""
        context = windows.context(**options)
        self.sign_in(context, who)
        return self.tab(context, path, live=options.get("js", True))

    def tab(self, context: BrowserContext, path: str = "/", *, live: bool = True) -> Page:
        page = context.new_page()
        page.goto(self.url + path)
        if live:
            page.locator("#live[data-state=on]").wait_for(state="attached")
            page.wait_for_timeout(GRACE_MS)
        return page

    def ask(self, *calls: Any, by: str = "mira") -> HoldView:
        """Have the agent ask for these calls in one turn; give the first hold."""
        return self.ask_all(*calls, by=by)[0]

    def ask_all(self, *calls: Any, by: str = "mira") -> tuple[HoldView, ...]:
        async def main(app: Sayso) -> tuple[HoldView, ...]:
            run = await app.start("teller", say_calls(*calls), by=by)
            return (await run.wait(timeout=60)).holds

        return self._with_app(main)

    def decide(self, hold: HoldView, verdict: Verdict, *, by: str = "jonas") -> None:
        """Decide elsewhere than in a browser."""
        self._with_app(lambda app: app.decide(hold, verdict, by=by))

    def look(self, hold: HoldView) -> HoldView:
        return self._with_app(lambda app: app.hold(hold.id))

    def _with_app(self, act: Any) -> Any:
        async def main() -> Any:
            async with only_looking(make_app(self._store)) as app:
                return await act(app)

        # Playwright keeps an event loop in this thread.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, main()).result()


def stop_clock(page: Page) -> None:
    """Have no time pass for a page but what a test lets pass, however slow this machine is."""
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(minutes=1))


def pay(**args: Any) -> list[Any]:
    return ["pay", {"amount": 12400.0, "to": "Nordwind", **args}]


def question(**fields: Any) -> list[Any]:
    return ["ask_user", {"question": "Well?", **fields}]
