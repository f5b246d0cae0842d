"""Every state that a page can be in: where it is, and what a person does there to come to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import BrowserContext, Page

from sayso.web.session import COOKIE

ROOT = Path(__file__).parents[2]
GRACE_MS = 400
"""A little more than keys and clicks are ignored for."""


CHOSEN = ".choice:nth-of-type({}) input:checked"


def _stay(page: Page) -> None:
    del page


def press(*keys: str, shows: str) -> Callable[[Page], None]:
    """Press keys, and wait for what the last of them shows: a key waits for nothing."""

    def act(page: Page) -> None:
        for key in keys:
            page.keyboard.press(key)
        page.locator(shows).wait_for(state="attached")

    return act


def _open(selector: str) -> Callable[[Page], None]:
    return lambda page: page.locator(f"{selector} > summary").first.click()


def _always(page: Page) -> None:
    page.locator(".always > summary").click()
    page.get_by_label("price").select_option("at_most")
    page.locator(".always").evaluate("el => el.scrollIntoView()")


def _edit(page: Page) -> None:
    page.get_by_label("amount").fill("11900.0")
    page.get_by_label("memo").fill("INV-2291, less the discount")


def _wrong(page: Page) -> None:
    page.get_by_label("At most, in euros").fill("20")
    page.get_by_role("button", name="Send answer").click()
    page.locator(".error").first.wait_for()


def _verify(page: Page) -> None:
    # A click does not wait for the page that its answer is.
    with page.expect_navigation(url="**/audit/verify"):
        page.get_by_role("button", name="Verify every entry").click()


class Screen(msgspec.Struct, frozen=True):
    """One state. A path is of the request or run that is named in it."""

    path: str
    act: Callable[[Page], None] = _stay
    who: str = "mira"


SCREENS: dict[str, Screen] = {
    "list": Screen("/"),
    "list-all": Screen("/?view=all"),
    "list-filter-wrong": Screen("/?q=nonsense:1"),
    "list-nothing-fits": Screen("/?q=agent:nobody"),
    "list-empty": Screen("/", who="sam"),
    "list-first-time": Screen("/", who="olga"),
    "list-selected": Screen("/r/{finance-bot}", press("x", shows=".pick:checked")),
    "approval": Screen("/r/{finance-bot}"),
    "approval-long": Screen("/r/{writer}"),
    "approval-edit": Screen("/r/{finance-bot}?edit", _edit),
    "approval-reject": Screen("/r/{finance-bot}", press("r", shows="#reason:focus")),
    "approval-always": Screen("/r/{office-bot}", _always),
    "approval-more": Screen("/r/{finance-bot}", _open(".more")),
    "approval-raw": Screen(
        "/r/{writer}", lambda page: page.get_by_text("Raw request", exact=True).click()
    ),
    "keys": Screen("/r/{finance-bot}", press("?", shows="dialog[open]")),
    "critical": Screen("/r/{janitor}"),
    "critical-armed": Screen("/r/{janitor}", press("a", shows="#approve.armed")),
    "question-choice": Screen("/r/{captain}", press("2", shows=CHOSEN.format(2))),
    "question-choices": Screen("/r/{scout}", press("1", "3", shows=CHOSEN.format(3))),
    "question-yes-no": Screen("/r/{herald}"),
    "question-text": Screen("/r/{clerk}"),
    "question-number": Screen("/r/{counter}"),
    "question-date": Screen("/r/{calendar}"),
    "question-call": Screen(
        "/r/{travel}", lambda page: page.get_by_text("The call that asks").click()
    ),
    "form": Screen("/r/{travel}"),
    "form-errors": Screen("/r/{travel}", _wrong),
    "sign-in-at-provider": Screen("/r/{planner-bot}"),
    "consent": Screen("/r/{secretary}"),
    "in-doubt": Screen("/r/{billing}"),
    "outside": Screen("/r/{legal}"),
    "sub-agent": Screen("/r/{manager}"),
    "quorum": Screen("/r/{payroll}"),
    "quorum-said": Screen("/r/{payroll}", who="jonas"),
    "not-asked": Screen("/r/{editor}"),
    "decided": Screen("/r/{host, decided}"),
    "decided-edited": Screen("/r/{finance-bot, decided}"),
    "rejected": Screen("/r/{editor, decided}"),
    "expired": Screen("/r/{agency, decided}"),
    "runs": Screen("/runs"),
    "runs-empty": Screen("/runs", who="olga"),
    "run-plan": Screen("/runs/{furnisher}"),
    "run-machine": Screen("/runs/{desk}"),
    "run-manager": Screen("/runs/{manager}"),
    "run-done": Screen("/runs/{finance-bot, decided}"),
    "decided-list": Screen("/decided"),
    "decided-empty": Screen("/decided", who="olga"),
    "audit": Screen("/audit"),
    "audit-empty": Screen("/audit?since=2020-01-01&until=2020-01-02"),
    "verified": Screen("/audit", _verify),
    "rules": Screen("/rules"),
    "rules-empty": Screen("/rules", who="olga"),
    "settings": Screen("/settings"),
    "chat": Screen("/chat"),
    "chat-hold": Screen("/chat/{finance-bot}"),
    "chat-question": Screen("/chat/{captain}"),
    "chat-done": Screen("/chat/{host, decided}"),
    "sign-in": Screen("/", who=""),
    "enter": Screen("/enter/{code}", who=""),
    "problem": Screen("/r/hold_01m7hq607ahdnnwh0m9399fc1x.1"),
}
FEW = ("approval-edit", "form-errors", "in-doubt", "consent", "run-plan", "audit", "chat-hold")
"""What a quick look has in every size and colour, beside the first view."""


class Gallery:
    """The server of `tests.browser.gallery`, and what is on its pages."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.url = f"http://127.0.0.1:{told['port']}"
        self.holds: dict[str, str] = told["holds"]
        self._runs: dict[str, str] = told["runs"]
        self._cookies: dict[str, str] = told["cookies"]
        self._code: str = told["code"]

    def path(self, screen: Screen) -> str:
        """Give the address of a state, below the server's own."""
        path = screen.path.replace("{code}", self._code)
        known = self._runs if path.startswith(("/runs", "/chat")) else self.holds
        for name, one in known.items():
            path = path.replace(f"{{{name}}}", one)
        assert "{" not in path, f"nothing is called so: {path}"
        return path

    def sign_in(self, context: BrowserContext, who: str) -> None:
        context.clear_cookies()
        if who:
            cookie = {"name": COOKIE, "value": self._cookies[who], "url": self.url}
            context.add_cookies([cookie])  # type: ignore[list-item] # pyright: ignore[reportArgumentType]

    def show(self, page: Page, name: str) -> None:
        """Bring a page into a state."""
        screen = SCREENS[name]
        self.sign_in(page.context, screen.who)
        page.goto(self.url + self.path(screen))
        if screen.act is not _stay:
            page.wait_for_timeout(GRACE_MS)
            screen.act(page)


@contextmanager
def gallery(folder: Path) -> Iterator[Gallery]:
    """Start it, and end it."""
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.browser.gallery", str(folder / "gallery.db")],
        cwd=ROOT,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, f"the server ended: {process.wait()}"
        yield Gallery(json.loads(line))
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()
