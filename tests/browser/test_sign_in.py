"""Signing in and out in a real browser: at a real provider, and by the link of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.window import PHONE, Windows
from tests.cli.serving import Served
from tests.oauth.conftest import iam_configuration, iam_server, iam_server_port, site

__all__ = ["iam_configuration", "iam_server", "iam_server_port", "site"]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of this machine. Its link is good once, and so for one test."""
    made = Served(tmp_path_factory.mktemp("local"))
    yield made
    assert made.stop() == 0


def test_a_person_signs_in_at_a_provider_and_out_again(
    windows: Windows, site: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    # A port is known once a server listens, and the provider wants to know it before: so the
    # redirect address is registered when the server is there, under the id that it was told.
    secret = tmp_path / "secret"
    secret.write_text("s3cret-of-sayso\n")
    server = Served(
        tmp_path,
        *("--oidc-issuer", site.server.url.rstrip("/")),
        *("--oidc-client-id", "sayso-inbox", "--oidc-client-secret-file", str(secret)),
    )
    request.addfinalizer(server.stop)
    site.register(f"{server.url}/sign-in/callback", client_id="sayso-inbox")
    page = windows.page(f"{server.url}/settings")
    host = site.server.url.removeprefix("http://").rstrip("/")

    assert windows.axe(page) == []
    page.get_by_role("button", name=f"Sign in at {host}").click()
    page.locator("button[name=answer][value=accept]").click()

    # Back where they wanted to go, signed in.
    page.wait_for_url(f"{server.url}/settings")
    expect(page.get_by_role("link", name=site.user.user_name, exact=True)).to_be_visible()
    expect(page.get_by_text("this browser")).to_be_visible()
    cookies = {one["name"]: one for one in page.context.cookies(server.url)}
    assert cookies["sayso_session"]["httpOnly"]
    assert cookies["sayso_session"]["sameSite"] == "Lax"
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{server.url}/sign-in")
    page.goto(server.url)
    expect(page.get_by_role("heading", name="Sign in to Sayso")).to_be_visible()


def test_the_link_of_this_machine_leads_in_once_and_needs_no_script(
    windows: Windows, local: Served
) -> None:
    page = windows.page(local.link, js=False, size=PHONE)

    assert windows.axe(page) == []
    page.get_by_role("button", name="Continue as mira").click()

    page.wait_for_url(f"{local.url}/")
    expect(page.get_by_role("link", name="mira", exact=True)).to_be_visible()
    other = windows.page(local.link)
    expect(other.get_by_text("this link was used")).to_be_visible()
    assert windows.axe(other) == []


def test_a_token_is_pasted(windows: Windows, local: Served) -> None:
    page = windows.page(f"{local.url}/runs", color_scheme="dark")

    page.get_by_label("Token").fill("sayso_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This token is not known")
    assert windows.axe(page) == []
    page.get_by_label("Token").fill(local.token)
    page.get_by_role("button", name="Sign in with the token").click()

    page.wait_for_url(f"{local.url}/runs")
    assert local.token not in page.content()
