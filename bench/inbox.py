"""The inbox as somebody meets it: how soon the next request is there after a key, in a Chromium
whose way to the server takes 80 ms, and what a page costs when a hundred thousand wait.
"""

from __future__ import annotations

import asyncio
import html
import json
import os
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import msgspec

from bench import load, teller
from bench.measure import quantile, timed_ms
from bench.report import Report, number
from bench.size import Size
from sayso import Principal, Sayso
from sayso.server.caller import SCOPES, Caller
from sayso.store.sqlite import SqliteStore

LATENCY_MS = 80
PAUSE_MS = 500
"""Between two keys: nobody reads a request faster."""
MOST_MS = 100
WORD = "payment"
NEXT = re.compile(r'rel="next" href="([^"]+)"')
WATCH = """() => {
  const id = () => document.querySelector('#request article')?.dataset.id;
  const before = id();
  window.shown = new Promise(done => {
    let at = 0;
    addEventListener('keydown', () => { at = performance.now(); }, {once: true, capture: true});
    new MutationObserver((_, watcher) => {
      if (!id() || id() === before) return;
      watcher.disconnect();
      // Painted, and not only there.
      requestAnimationFrame(() => setTimeout(() => done(performance.now() - at)));
    }).observe(document.querySelector('#request'), {childList: true, subtree: true});
  });
}"""


class Place(msgspec.Struct, kw_only=True):
    """A server with so many requests in it, and somebody who is signed in there."""

    client: httpx2.AsyncClient
    url: str
    cookie: tuple[str, str]
    count: int
    rare: str
    """A word that one request has."""


async def measure(report: Report, folder: Path, size: Size) -> None:
    report.head(f"The inbox: {size.pending:,} pending, against {size.pending_few:,}")
    async with (
        _place(folder / "few.db", size.pending_few) as few,
        _place(folder / "many.db", size.pending) as many,
    ):
        await _pages(report, size, few, many)
        await _keys(report, size, many)


async def _pages(report: Report, size: Size, few: Place, many: Place) -> None:
    paths = {
        "first page": ("/", "/"),
        "next page": (await _next(few), await _next(many)),
        "search": (f"/?q={WORD}", f"/?q={WORD}"),
        "search, one hit": (f"/?q={few.rare}", f"/?q={many.rare}"),
    }
    took: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in paths}
    for _ in range(max(size.looks // 10, 2)):
        for name, path in paths.items():
            for place, where, found in zip((few, many), path, took[name], strict=True):
                found.append(await timed_ms(lambda p=place, w=where: _get(p, w)))
    for name, (one, other) in took.items():
        middle = quantile(other, 0.5)
        ratio = middle / quantile(one, 0.5)
        report.ratio(f"inbox: {name}", f"{number(middle)} ms", ratio, f"of {few.count:,}")


async def _get(place: Place, path: str) -> str:
    answer = await place.client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.text


async def _next(place: Place) -> str:
    found = NEXT.search(await _get(place, "/"))
    assert found is not None, "one page has them all"
    return html.unescape(found[1])


async def _keys(report: Report, size: Size, place: Place) -> None:
    from playwright.async_api import async_playwright

    from tests.browser.chromium import NONE, find

    if NONE:
        report.note("SAYSO_BROWSER=none: no key was pressed")
        return
    async with async_playwright() as playwright:
        found = await asyncio.to_thread(find, own=playwright.chromium.executable_path)
        browser = await playwright.chromium.launch(executable_path=found)
        context = await browser.new_context(viewport={"width": 1280, "height": 800})
        name, text = place.cookie
        await context.add_cookies([{"name": name, "value": text, "url": place.url}])
        page = await context.new_page()
        link = await context.new_cdp_session(page)
        slow: dict[str, Any] = {"offline": False, "latency": LATENCY_MS}
        slow |= {"downloadThroughput": -1, "uploadThroughput": -1}
        await link.send("Network.emulateNetworkConditions", slow)
        await page.goto(place.url)
        await page.locator("#live[data-state=on]").wait_for()
        took: list[float] = []
        for turn in range(size.keys + 1):
            await page.wait_for_timeout(PAUSE_MS)
            await page.evaluate(WATCH)
            await page.keyboard.press("j")
            ms = await page.evaluate("window.shown")
            if turn:  # Nothing could be fetched before the first one.
                took.append(ms)
        await browser.close()
    report.below(f"inbox: J at {LATENCY_MS} ms latency, p50", quantile(took, 0.5), "ms", MOST_MS)
    report.below(f"inbox: J at {LATENCY_MS} ms latency, p95", quantile(took, 0.95), "ms", MOST_MS)
    report.note(f"{len(took)} keys, {PAUSE_MS} ms apart, load {os.getloadavg()[0]:.1f}")


@asynccontextmanager
async def _place(path: Path, count: int) -> AsyncGenerator[Place]:
    rare = await _fill(path, count)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.inbox", str(path)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        told = json.loads(await process.stdout.readline())
        url = f"http://127.0.0.1:{told['port']}"
        name, text = told["cookie"]
        async with httpx2.AsyncClient(
            base_url=url, cookies={name: text}, trust_env=False, timeout=60
        ) as client:
            yield Place(client=client, url=url, cookie=(name, text), count=count, rare=rare)
    finally:
        process.terminate()
        await process.wait()


async def _fill(path: Path, count: int) -> str:
    """Fill a store with what waits for one person; give the id of one of the runs."""
    store = await SqliteStore.open(path)
    try:
        async with Sayso(store, agents=[teller.make_teller()]) as app:
            run_id = teller.run_of(await teller.ask(app))
        await load.load(store, await load.read_pattern(store, run_id), count - 1)
        return run_id
    finally:
        await store.close()


async def _sign_in(path: str) -> list[str]:
    from sayso.server.token import Tokens
    from sayso.web.session import COOKIE, Sessions

    by = Principal(id=teller.BY)
    async with Sayso(path, work=False) as app:
        token, _ = await Tokens(app.store).create(
            name="bench", by=by, project="default", scopes=SCOPES
        )
        caller = Caller(by=by, project="default", via="session", scopes=SCOPES)
        _, text = await Sessions(app.store).create(caller, via="token", ref=token.id)
        return [COOKIE, text]


def main(path: str) -> None:
    """Serve the pages of a store."""
    from sayso.server.app import create_app
    from sayso.server.serve import bind, serve
    from sayso.web.app import add_pages

    cookie = asyncio.run(_sign_in(path))
    sock = bind("127.0.0.1", 0)
    print(json.dumps({"port": sock.getsockname()[1], "cookie": cookie}), flush=True)
    serve(add_pages(create_app(Sayso(path, agents=[teller.make_teller()], work=False))), sock)


if __name__ == "__main__":
    main(sys.argv[1])
