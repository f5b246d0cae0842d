"""Every state of every page: pictures of them, what axe says, and whether they fit a phone.

The pictures are in `build/screens/`. `make test` looks at a few states in each size and colour; the
soak at all of them in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.screens import FEW, GRACE_MS, ROOT, SCREENS, Gallery, gallery
from tests.browser.window import DESKTOP, PHONE, SMALL_PHONE, Windows

Axe = Callable[[Page], list[str]]
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"size": DESKTOP},
    "dark": {"size": DESKTOP, "color_scheme": "dark"},
    "phone": {"size": PHONE},
    "phone-dark": {"size": PHONE, "color_scheme": "dark"},
    "small": {"size": SMALL_PHONE},
    "forced": {"size": DESKTOP, "forced_colors": True},
}
TABS_MAX = 40
"""No way through a list of this length is longer."""
TALL = 3000
"""A window in which nothing is below the fold, or below a bar that stays."""
TARGET, MAIN_TARGET = 24, 44
"""How high something to press is at least, in pixels; and the buttons that decide, on a phone."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    with gallery(tmp_path_factory.mktemp("gallery")) as made:
        yield made


def look(page: Page, shown: Gallery, how: str, name: str, axe: Axe) -> list[str]:
    """Take a picture of a state; list what is wrong with it."""
    shown.show(page, name)
    folder = ROOT / "build" / "screens" / how
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": size["width"], "height": TALL})
    wrong = [*axe(page), *page.evaluate(WIDE), *page.evaluate(LOW, targets(how))]
    page.set_viewport_size(size)
    return [f"{name}: {one}" for one in wrong]


def targets(how: str) -> list[int]:
    return [TARGET, MAIN_TARGET if LOOKS[how]["size"][0] <= PHONE[0] else TARGET]


WIDE = """() => {
  // What reaches out of the window, and is in no part that can be scrolled by itself.
  const width = document.documentElement.clientWidth;
  const scrolls = el => {
    for (let up = el.parentElement; up && up !== document.body; up = up.parentElement) {
      if (up.matches('#list, #request')) continue;
      if (getComputedStyle(up).overflowX !== 'visible') return true;
    }
    return false;
  };
  return [...document.querySelectorAll('body *')]
    .filter(el => !el.closest('.visually-hidden, .skip, dialog:not([open])'))
    .filter(el => el.getBoundingClientRect().right > width + 1 && !scrolls(el))
    .map(el => `wider than the window: ${el.outerHTML.slice(0, 120)}`);
}"""
LOW = """([least, main]) =>
  // What is pressed and too low for a finger; links within a sentence are as high as it is.
  [...document.querySelectorAll(
    'button, .button, input, select, textarea, summary, nav a, .row > a')]
    .filter(el => el.checkVisibility() && el.getBoundingClientRect().height > 0)
    .filter(el => {
      const most = Math.max(el.getBoundingClientRect().height,
        el.closest('label')?.getBoundingClientRect().height ?? 0);
      return most < (el.matches('.bar .button') ? main : least) - 0.5;
    })
    .map(el => `lower than a target is: ${el.outerHTML.slice(0, 120)}`)
"""


@pytest.mark.parametrize("how", ["light", "dark", "phone"])
def test_a_few_states_are_good_in_this_look(
    shown: Gallery, windows: Windows, how: str, axe: Axe
) -> None:
    page = windows.page(**LOOKS[how])

    assert [one for name in FEW for one in look(page, shown, how, name, axe)] == []


@pytest.mark.soak
@pytest.mark.parametrize("how", LOOKS)
def test_every_state_is_good_in_this_look(
    shown: Gallery, windows: Windows, how: str, axe: Axe
) -> None:
    page = windows.page(**LOOKS[how])

    assert [one for name in SCREENS for one in look(page, shown, how, name, axe)] == []


def test_no_state_is_wider_than_the_smallest_phone(shown: Gallery, windows: Windows) -> None:
    page = windows.page(size=SMALL_PHONE)
    wide: list[str] = []
    for name in SCREENS:
        shown.show(page, name)
        wide += [f"{name}: {one}" for one in page.evaluate(WIDE)]

    assert wide == []


def at(page: Page) -> str:
    """Say what has the focus, by its role and name, as a screen reader would."""
    return page.evaluate("""() => {
      const el = document.activeElement;
      const role = el.getAttribute('role') ?? {A: 'link', BUTTON: 'button', SUMMARY: 'more',
        INPUT: el.type, TEXTAREA: 'textbox', H1: 'heading'}[el.tagName] ?? el.tagName;
      const words = el.getAttribute('aria-label') ?? el.labels?.[0]?.innerText ?? el.innerText;
      return `${role}: ${words.split('\\n')[0].trim()}`;
    }""")


def tab(page: Page, count: int) -> list[str]:
    found: list[str] = []
    for _ in range(count):
        page.keyboard.press("Tab")
        found.append(at(page))
    return found


def test_the_way_to_a_decision_by_keyboard_alone(shown: Gallery, windows: Windows) -> None:
    page = windows.page()
    shown.show(page, "list")
    page.locator("#live[data-state=on]").wait_for()

    # Past the head, to the list, and into the request.
    assert tab(page, 1) == ["link: Skip to content"]
    page.keyboard.press("Enter")
    assert any("Transfer" in one for _ in range(TABS_MAX) for one in tab(page, 1))
    assert at(page) == "checkbox: Select: Transfer €12,400.00 to Nordwind GmbH"
    assert tab(page, 1) == ["link: Transfer €12,400.00 to Nordwind GmbH"]
    page.keyboard.press("Enter")
    expect(page.locator("#approve")).to_be_visible()
    page.wait_for_timeout(GRACE_MS)

    # What is to be decided is said first, then what can be said.
    page.locator("#request .title").focus()
    assert at(page) == "heading: Transfer €12,400.00 to Nordwind GmbH"
    assert tab(page, 3) == ["button: Approve", "button: Reject", "link: Edit"]
    bar = page.get_by_role("group", name="Decision")
    assert bar.get_by_role("button").all_inner_texts() == ["Approve\nA", "Reject\nR"]

    # No goes by way of a reason, which has the focus, and whose label says who reads it.
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#reason")).to_be_focused()
    expect(page.locator("#reason")).to_have_accessible_name(
        "Reason, if you reject the agent reads it"
    )
    assert tab(page, 2) == ["button: Approve", "button: Reject"]


def test_critical_says_that_it_wants_a_second_step(shown: Gallery, windows: Windows) -> None:
    page = windows.page()
    shown.show(page, "critical")
    page.wait_for_timeout(GRACE_MS)
    page.locator("#approve").focus()
    page.keyboard.press("Enter")

    expect(page.locator("#approve")).to_have_accessible_name("Approve: critical. Confirm A")
    expect(page.locator("#approve")).to_be_focused()


def test_what_has_the_focus_is_seen(shown: Gallery, windows: Windows) -> None:
    page = windows.page()
    shown.show(page, "approval")
    for _ in range(12):
        page.keyboard.press("Tab")
        style = page.evaluate(
            "(s => [s.outlineStyle, s.outlineWidth])(getComputedStyle(document.activeElement))"
        )
        assert style == ["solid", "3px"], at(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_forced_colours_keep_what_colour_says(
    shown: Gallery, windows: Windows, scheme: Any
) -> None:
    page = windows.page(forced_colors=True, color_scheme=scheme)
    shown.show(page, "approval")

    expect(page.locator(".row[data-selected]")).to_have_css("outline-style", "solid")
    expect(page.locator("#request .risk")).to_have_css("border-top-style", "solid")
    expect(page.locator("#approve")).to_have_css("border-top-style", "solid")


def test_nothing_moves_for_whoever_wants_it_still(shown: Gallery, windows: Windows) -> None:
    moves = """() => [...document.querySelectorAll('body *')].filter(el => {
      const s = getComputedStyle(el);
      return parseFloat(s.transitionDuration) > 0 || s.animationName !== 'none';
    }).length"""
    still, moving = windows.page(reduced_motion="reduce"), windows.page()
    for page in (still, moving):
        shown.show(page, "approval")

    assert still.evaluate(moves) == 0
    assert moving.evaluate(moves) > 0


def test_what_comes_of_a_decision_can_be_read_by_everybody(
    shown: Gallery, windows: Windows, axe: Axe
) -> None:
    context = windows.context()
    shown.sign_in(context, "mira")
    mine, other = context.new_page(), context.new_page()
    path = f"{shown.url}/r/{shown.holds['support-bot']}"
    mine.goto(f"{path}?edit")
    mine.get_by_label("to", exact=True).fill("Ayo B.")
    other.goto(path)
    for page in (mine, other):
        page.locator("#live[data-state=on]").wait_for(state="attached")
    other.wait_for_timeout(GRACE_MS)
    other.keyboard.press("a")
    expect(other.get_by_role("button", name="Undo").first).to_be_visible()
    assert axe(other) == []

    # The one with something typed in is told, and what was typed is there to be copied.
    expect(mine.locator("#banner")).to_be_visible()
    assert axe(mine) == []
    assert mine.get_by_label("to", exact=True).input_value() == "Ayo B."
