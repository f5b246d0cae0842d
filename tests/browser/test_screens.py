"""Every state of every page: pictures of them, what axe says, and whether they fit a phone.

The pictures are in `build/screens/`. `make test` looks at each state once, and at a few in each
size and colour; the soak at all of them in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.screens import FEW, ROOT, SCREENS, Gallery, gallery
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


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gallery]:
    with gallery(tmp_path_factory.mktemp("gallery")) as made:
        yield made


def look(page: Page, shown: Gallery, look_name: str, name: str, axe: Axe) -> None:
    shown.show(page, name)
    folder = ROOT / "build" / "screens" / look_name
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")
    assert (name, axe(page)) == (name, [])
    assert (name, too_wide(page)) == (name, [])


def too_wide(page: Page) -> list[str]:
    """List what reaches out of the window, and cannot be scrolled to within a part of its own."""
    return page.evaluate(WIDE)


WIDE = """() => {
  const width = document.documentElement.clientWidth;
  const inside = el => {
    for (let up = el.parentElement; up; up = up.parentElement) {
      const flow = getComputedStyle(up).overflowX;
      if (flow !== 'visible' && !['request', 'list', ''].includes(up.id || up.className)) return true;
    }
    return false;
  };
  return [...document.querySelectorAll('body *')]
    .filter(el => !el.closest('.visually-hidden, .skip, dialog:not([open])'))
    .filter(el => el.getBoundingClientRect().right > width + 1 && !inside(el))
    .map(el => el.outerHTML.slice(0, 120));
}"""


@pytest.mark.soak
@pytest.mark.parametrize("how", LOOKS)
def test_every_state_in_every_look(shown: Gallery, windows: Windows, how: str, axe: Axe) -> None:
    page = windows.page(**LOOKS[how])
    for name in SCREENS:
        look(page, shown, how, name, axe)
