"""Take the pictures of the tour in `docs/inbox/`: `python -m docs.screens` in a checkout.

They are of the states that `tests/browser/screens.py` has. What they show has ids and times in it,
so nobody compares them byte by byte; take them again when a page has changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent / "inbox"
DESK, PHONE = (1024, 660), (390, 780)
PICTURES: dict[str, tuple[str, tuple[int, int], str]] = {
    "request.png": ("approval", DESK, "light"),
    "edit.png": ("approval-edit", DESK, "light"),
    "reject.png": ("approval-reject", DESK, "light"),
    "critical.png": ("critical-armed", DESK, "dark"),
    "question.png": ("question-choice", DESK, "light"),
    "form.png": ("form-errors", DESK, "light"),
    "always.png": ("approval-always", DESK, "light"),
    "quorum.png": ("quorum", DESK, "light"),
    "consent.png": ("consent", DESK, "light"),
    "doubt.png": ("in-doubt", DESK, "light"),
    "phone-list.png": ("list", PHONE, "light"),
    "phone-request.png": ("approval", PHONE, "light"),
}
"""By file: the state, the size of the window, and the colours."""


def main() -> None:
    """Take all of them."""
    from playwright.sync_api import sync_playwright

    from tests.browser.chromium import find
    from tests.browser.screens import gallery
    from tests.browser.window import Windows

    with (
        tempfile.TemporaryDirectory() as folder,
        gallery(Path(folder)) as shown,
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=find(own=playwright.chromium.executable_path)
        ) as browser,
    ):
        windows = Windows(browser)
        for name, (state, size, scheme) in PICTURES.items():
            page = windows.page(size=size, color_scheme=scheme)
            shown.show(page, state)
            page.locator("#live[data-state=on]").wait_for(state="attached")
            page.screenshot(path=FOLDER / name)
            print(f"{name}: {(FOLDER / name).stat().st_size:,} bytes")
        windows.close()


if __name__ == "__main__":
    main()
