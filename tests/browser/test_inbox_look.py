"""How the inbox looks to whoever cannot see it, has a small screen, or a screen of few colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sayso import HoldView, reject
from tests.browser.inbox import GRACE_MS, Inbox, pay, question
from tests.browser.screens import press
from tests.browser.window import PHONE, SMALL_PHONE, Windows

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
REQUESTS_MAX, BYTES_MAX = 5, 30 * 1024


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inbox]:
    made = Inbox(tmp_path_factory.mktemp("inbox"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def holds(inbox: Inbox) -> dict[str, HoldView]:
    odd = {"to": "Nord\u200bwind", "memo": "word " * 500, "address": {"street": "S", "number": 1}}
    made = {
        "pay": inbox.ask(pay(**odd)),
        "drop": inbox.ask(["drop", {"table": "x" * 90}]),
        "wire": inbox.ask(["wire", {"amount": 1}]),
        "half": inbox.ask(["half", {"of": "a"}], ["half", {"of": "b"}]),
        "outside": inbox.ask(["outside", {"what": "it"}]),
        "choice": inbox.ask(question(options=[{"value": "a", "description": "first"}, "b"])),
        "form": inbox.ask(question(schema=SCHEMA)),
        "decided": inbox.ask(pay()),
    }
    inbox.decide(made["decided"], reject("No, because"), by="mira")
    return made


def send_nothing(page: Page) -> None:
    page.get_by_role("button", name="Send answer").click()
    page.locator(".error").first.wait_for()


STATES: dict[str, tuple[str, Callable[[Page], Any]]] = {
    "list": ("", lambda _: None),
    "filter": ("?q=nonsense:1", lambda _: None),
    "empty": ("?q=agent:nobody", lambda _: None),
    "request": ("pay", lambda page: page.locator("details summary").first.click()),
    "more": ("pay", lambda page: page.locator(".more summary, .always summary").last.click()),
    "edit": ("pay?edit", lambda page: page.locator('[name="args/to"]').fill('"x"')),
    "reject": ("pay", press("r", shows="#reason:focus")),
    "selected": ("pay", press("x", shows=".pick:checked")),
    "keys": ("pay", press("?", shows="dialog[open]")),
    "armed": ("drop", press("a", shows="#approve.armed")),
    "votes": ("wire", lambda _: None),
    "together": ("half", lambda _: None),
    "outside": ("outside", lambda _: None),
    "choice": ("choice", press("1", shows=".choice input:checked")),
    "errors": ("form", send_nothing),
    "decided": ("decided", lambda _: None),
}


def path_of(state: str, holds: dict[str, HoldView]) -> str:
    where = STATES[state][0]
    if not where or where.startswith("?"):
        return f"/{where}"
    name, mark, query = where.partition("?")
    return f"/r/{holds[name].id}{mark}{query}"


COLOURED = ("request", "edit", "selected", "armed", "choice", "errors", "decided")
"""Where there are colours that are nowhere else; all that is dark is otherwise as it is light."""


@pytest.mark.parametrize("scheme, states", [("light", tuple(STATES)), ("dark", COLOURED)])
def test_axe_finds_nothing(
    inbox: Inbox,
    windows: Windows,
    holds: Any,
    scheme: Any,
    states: tuple[str, ...],
    axe: Callable[[Page], list[str]],
) -> None:
    context = windows.context(color_scheme=scheme)
    inbox.sign_in(context)
    page = inbox.tab(context)
    for state in states:
        act = STATES[state][1]
        page.goto(inbox.url + path_of(state, holds))
        page.wait_for_timeout(GRACE_MS)
        act(page)
        assert (state, axe(page)) == (state, [])


@pytest.mark.parametrize(
    "size, states", [(SMALL_PHONE, tuple(STATES)), (PHONE, ("list", "request", "edit"))]
)
def test_nothing_is_wider_than_a_phone(
    inbox: Inbox,
    windows: Windows,
    holds: Any,
    size: tuple[int, int],
    states: tuple[str, ...],
    axe: Callable[[Page], list[str]],
) -> None:
    context = windows.context(size=size)
    inbox.sign_in(context)
    page = inbox.tab(context)
    for state in states:
        page.goto(inbox.url + path_of(state, holds))
        width = page.evaluate("document.documentElement.scrollWidth")
        inner = page.evaluate("document.querySelector('#request')?.scrollWidth ?? 0")
        assert (state, max(width, inner)) <= (state, size[0])
    assert axe(page) == []


def test_the_way_to_a_decision_by_tab(inbox: Inbox, windows: Windows, holds: Any) -> None:
    page = inbox.open(windows, f"/r/{holds['pay'].id}")
    page.locator("#request .title").focus()
    names: list[str] = []
    for _ in range(4):
        page.keyboard.press("Tab")
        names.append(str(page.evaluate("document.activeElement.textContent")).strip())

    assert names[0].startswith("text, 2,500 characters")
    assert [name.split("\n")[0] for name in names[1:]] == ["ApproveA", "RejectR", "EditE"]
    expect(page.get_by_role("group", name="Decision")).to_be_visible()
    expect(page.get_by_role("button", name="Approve")).to_have_count(1)


def test_the_first_view_is_small(inbox: Inbox, windows: Windows, holds: Any) -> None:
    del holds
    context = windows.context()
    inbox.sign_in(context)
    page = context.new_page()
    sizes: list[int] = []
    page.on("requestfinished", lambda one: sizes.append(one.sizes()["responseBodySize"]))
    page.goto(inbox.url)
    page.locator("#live[data-state=on]").wait_for()
    page.wait_for_timeout(GRACE_MS)

    assert len(sizes) + 1 <= REQUESTS_MAX  # The stream does not end.
    assert sum(sizes) <= BYTES_MAX
