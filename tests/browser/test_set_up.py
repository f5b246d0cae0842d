"""The set-up itself: a browser that clicks and waits, an axe that finds, a failure that shows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.browser.window import DESKTOP, SMALL_PHONE

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
GOOD = """<!doctype html><html lang="en"><title>Try</title><meta name="viewport"
content="width=device-width"><link rel="icon" href="data:,"><main><h1>Try</h1><p id="wide">?</p>
<button>Press</button><noscript>Plain.</noscript></main><script src="/it.js"></script></html>"""
SCRIPT = """document.querySelector("#wide").textContent = innerWidth;
document.querySelector("button").onclick = async e => {
  e.target.textContent = await (await fetch("/word")).text();
};"""
FAULTY = GOOD.replace("<p id", "<p style='color: #ccc; background: #fff'>Faint</p><p id")
SITE = {
    "/": ("text/html", GOOD, "default-src 'self'; img-src data:"),
    "/faulty": ("text/html", FAULTY, ""),
    "/it.js": ("text/javascript", SCRIPT, ""),
    "/word": ("text/plain", "Pressed", ""),
    "/inline": ("text/html", GOOD + "<script>1</script>", "default-src 'self'; img-src data:"),
    "/throws": ("text/html", GOOD + "<script>undefined_name()</script>", ""),
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text, policy = SITE[self.path]
        self.send_response(200)
        self.send_header("content-type", kind)
        if policy:
            self.send_header("content-security-policy", policy)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_button_is_pressed_and_axe_finds_nothing_under_a_strict_policy(page, site, axe) -> None:
    page.goto(site)

    page.get_by_role("button").click()

    page.get_by_role("button", name="Pressed").wait_for()
    assert axe(page) == []


def test_axe_finds_what_is_faint(windows, site, axe) -> None:
    page = windows.page(f"{site}/faulty")

    (found,) = axe(page)

    assert found.startswith("color-contrast (serious)")


@pytest.mark.parametrize("size", [SMALL_PHONE, DESKTOP])
def test_a_page_is_as_wide_as_its_window(windows, site, size) -> None:
    page = windows.page(site, size=size)

    assert page.locator("#wide").inner_text() == str(size[0])


def test_colours_are_those_that_were_asked_for(windows, site) -> None:
    page = windows.page(site, color_scheme="dark", forced_colors=True)

    for query in ("(prefers-color-scheme: dark)", "(forced-colors: active)"):
        assert page.evaluate("q => matchMedia(q).matches", query)


def test_without_scripts_a_page_is_plain_and_axe_still_looks(windows, site, axe) -> None:
    page = windows.page(f"{site}/faulty", js=False)

    assert page.locator("#wide").inner_text() == "?"
    assert page.locator("noscript").inner_text() == "Plain."
    assert len(axe(page)) == 1


def test_latency_is_felt(windows, site) -> None:
    page = windows.page(site, latency_ms=300)

    began = time.monotonic()
    page.get_by_role("button").click()
    page.get_by_role("button", name="Pressed").wait_for()

    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("path, what", [("inline", "refused"), ("throws", "not caught")])
def test_what_goes_wrong_unnoticed_in_a_page_is_noticed(windows, site, path, what) -> None:
    windows.page(f"{site}/{path}")

    (fault,) = windows.faults
    assert fault.startswith(what)
    windows.faults.clear()


def test_contexts_do_not_share_cookies(windows, site) -> None:
    one, two = windows.context(), windows.context()

    one.add_cookies([{"name": "who", "value": "mira", "url": site}])

    assert [len(context.cookies(site)) for context in (one, two)] == [1, 0]


def test_the_server_under_test_is_reached_from_a_page(page, server, elsewhere) -> None:
    async def asked() -> int:
        async with server.client() as http:
            return (await http.get("/v1/runs")).status_code

    assert page.goto(f"{server.url}/health").json() == {"status": "ok"}
    assert elsewhere(asked()) == 200


def test_a_failure_leaves_pictures_and_a_loop_is_free_afterwards(
    pytester: pytest.Pytester, chromium, site, monkeypatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    for folder in ("near", "other"):
        pytester.mkpydir(folder)
    run = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    pytester.path.joinpath("conftest.py").write_text(run)
    pytester.path.joinpath("near", "conftest.py").write_text(
        "from tests.browser.conftest import *\n"
    )
    pytester.path.joinpath("near", "test_near.py").write_text(
        f"def test_it(windows): windows.page('{site}'); assert 0\n"
        f"def test_throws(windows): windows.page('{site}/throws')\n"
    )
    pytester.path.joinpath("other", "test_other.py").write_text("async def test_it(): pass\n")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist")

    result.assert_outcomes(passed=2, failed=1, errors=1)
    (shot,) = pytester.path.glob("build/browser/*.png")
    assert shot.name == "near-test_near.py-test_it-1.png"
    assert shot.read_bytes().startswith(b"\x89PNG")
