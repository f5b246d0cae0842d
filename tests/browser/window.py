"""What a test opens in the browser: contexts and pages with options, and what axe says of them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Route, expect

from tests.npm import install

DESKTOP = (1280, 800)
PHONE = (390, 844)
SMALL_PHONE = (320, 568)
PATIENCE_MS = 15_000
"""Enough for a machine that is busy with other things; what is there is found at once."""
# What a context waits for is nothing to `expect`, which would be content with a third of it.
expect.set_options(timeout=PATIENCE_MS)
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


class Windows:
    """Opens contexts and pages for one test, and knows what went wrong in them unnoticed."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self._plain: list[BrowserContext] = []
        self.faults: list[str] = []
        """Exceptions that nobody caught, and what the page's own policy refused."""

    def context(
        self,
        *,
        size: tuple[int, int] = DESKTOP,
        js: bool = True,
        forced_colors: bool = False,
        color_scheme: Literal["light", "dark"] = "light",
        **options: Any,
    ) -> BrowserContext:
        """Open a browser of its own, as it were: cookies and storage are not shared.

        `options` are those of playwright's `new_context`. At most 500 px wide it is a phone.
        """
        phone = size[0] <= 500
        made = self._browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            is_mobile=phone,
            has_touch=phone,
            java_script_enabled=js,
            forced_colors="active" if forced_colors else "none",
            color_scheme=color_scheme,
            locale="en-GB",
            timezone_id="UTC",
            **options,
        )
        made.set_default_timeout(PATIENCE_MS)
        made.on("weberror", lambda error: self.faults.append(f"not caught: {error.error}"))
        made.on("console", self._heard)
        self._contexts.append(made)
        if not js:
            self._plain.append(made)
        return made

    def page(self, url: str = "", *, latency_ms: int = 0, **options: Any) -> Page:
        """Open a page in a context of its own; with `latency_ms` on the way to the server."""
        page = self.context(**options).new_page()
        if latency_ms:
            slow_down(page, latency_ms)
        if url:
            page.goto(url)
        return page

    @property
    def pages(self) -> list[Page]:
        return [page for context in self._contexts for page in context.pages]

    def axe(self, page: Page) -> list[str]:
        """List what axe finds wrong, a line for every place: WCAG 2.2 A and AA, best practice."""
        # The words of a page that a click led to are there before its style is.
        page.wait_for_load_state()
        if page.context in self._plain:
            page = self._with_scripts(page)
        # Evaluated and not added to the page as a script, which a strict policy refuses.
        page.evaluate(_axe())
        found = page.evaluate(
            "async rules => (await axe.run({runOnly: rules})).violations", list(RULES)
        )
        return [
            f"{one['id']} ({one['impact']}): {node['target']}: {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]

    def _with_scripts(self, page: Page) -> Page:
        """Copy a page without scripts to where axe can run, its timers too; theirs still do not."""
        text = page.content().replace("<noscript>", "<div>").replace("</noscript>", "</div>")
        size = page.viewport_size or dict(zip(("width", "height"), DESKTOP, strict=True))
        copy = self.context(
            size=(size["width"], size["height"]), storage_state=page.context.storage_state()
        ).new_page()

        def answer(route: Route) -> None:
            if route.request.resource_type == "script":
                route.abort()
            elif route.request.is_navigation_request():
                route.fulfill(body=text, content_type="text/html; charset=utf-8")
            else:
                route.continue_()

        copy.route("**/*", answer)
        copy.goto(page.url)
        return copy

    def shoot(self, folder: Path, name: str) -> list[Path]:
        """Write a picture of every page that is open."""
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for n, page in enumerate(self.pages, 1):
            written.append(folder / f"{name}-{n}.png")
            page.screenshot(path=written[-1], full_page=True)
        return written

    def close(self) -> None:
        while self._contexts:
            self._contexts.pop().close()

    def _heard(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text:
            self.faults.append(f"refused: {message.text}")


def slow_down(page: Page, latency_ms: int) -> None:
    """Let every answer take that much longer."""
    conditions = {"offline": False, "latency": latency_ms}
    conditions |= {"downloadThroughput": -1, "uploadThroughput": -1}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", conditions)


@cache
def _axe() -> str:
    packages = install(Path(__file__).parent / "axe-core")
    return (packages / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
