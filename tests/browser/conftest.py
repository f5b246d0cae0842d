"""A Chromium for the tests of this folder, one for each test process, and what they open in it.

Playwright's synchronous interface keeps an event loop running while it is there, so that it goes
with the last test of this folder: `async def` tests elsewhere need a loop of their own. In here,
`elsewhere(...)` awaits something.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.chromium import NONE, NoChromium, find
from tests.browser.window import Windows
from tests.server.process import Server

T = TypeVar("T")
HERE = Path(__file__).parent
FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
)
GROUPS = 2
"""At most so many test processes have a browser."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if HERE in item.path.parents]
    files = sorted({item.path for item in here})
    for item in here:
        group = f"browser-{files.index(item.path) % GROUPS}"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    if NONE:
        pytest.skip("SAYSO_BROWSER=none")
    with sync_playwright() as playwright:
        try:
            found = find(own=playwright.chromium.executable_path)
        except NoChromium as error:
            pytest.fail(str(error), pytrace=False)
        with playwright.chromium.launch(executable_path=found, args=FLAGS) as browser:
            yield browser


@pytest.fixture
def windows(chromium: Browser) -> Iterator[Windows]:
    """Open contexts and pages, with options; no page may have had an exception of its own."""
    made = Windows(chromium)
    yield made
    made.close()
    assert not made.faults


@pytest.fixture
def page(windows: Windows) -> Page:
    """A page on a desk, in light colours."""
    return windows.page()


@pytest.fixture
def axe(windows: Windows) -> Callable[[Page], list[str]]:
    """List what is wrong with a page for people who cannot see, point or tell colours apart."""
    if os.environ.get("SAYSO_NPM") == "none":
        pytest.skip("SAYSO_NPM=none")
    return windows.axe


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the tests of a file, in a process of its own, on a SQLite file."""
    folder = tmp_path_factory.mktemp("server")
    made = Server(folder / "sayso.db", folder / "paid")
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def elsewhere() -> Callable[[Coroutine[Any, Any, T]], T]:
    """Await something in a thread that has an event loop of its own."""

    def await_it(what: Coroutine[Any, Any, T]) -> T:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, what).result()

    return await_it


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep a picture of what a test that failed had open."""
    report = yield
    windows = getattr(item, "funcargs", {}).get("windows")
    if report.when == "call" and report.failed and windows is not None:
        name = re.sub(r"[^\w.]+", "-", item.nodeid).strip("-")
        try:
            shots = windows.shoot(item.config.rootpath / "build" / "browser", name)
        except Exception as error:
            shots = [error]  # A page that is gone must not hide what the test said.
        report.sections.append(("pictures", "\n".join(map(str, shots))))
    return report
