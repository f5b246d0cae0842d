"""Signing in and out in a real browser: at a real provider, and by the link of this machine."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.browser.inbox import GRACE_MS
from tests.browser.window import PHONE, Windows
from tests.cli.serving import Served
from tests.oauth.conftest import site
from tests.web.issuer import HandMade

__all__ = ["site"]


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
    expect(page.get_by_text("this browser", exact=True)).to_be_visible()
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


CLERK = """
from sayso import Agent, Context, OAuthProvider, Sayso, SignIn, tool
from sayso.testing import ScriptedModel, call, say

@tool(sign_in=SignIn(provider="mail", scopes=("mail.send",)), effect="once")
def send_mail(ctx: Context, to: str) -> str:
    return f"sent with {ctx.tokens['mail']}"

mail = OAuthProvider(
    "mail",
    authorize_url="ISSUER/authorize",
    token_url="ISSUER/token",
    client_id="sayso",
    redirect_url="http://127.0.0.1:PORT/oauth/callback",
)
script = [call("send_mail", {"to": "jiro"}), say("Done.")]
clerk = Agent("clerk", model=ScriptedModel(script), tools=[send_mail])
app = Sayso("clerk.db", agents=[clerk], providers=[mail])
"""


def test_a_person_signs_in_for_a_tool_and_comes_back_to_the_request(
    windows: Windows, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    issuer = HandMade()
    request.addfinalizer(issuer.close)
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    text = CLERK.replace("ISSUER", issuer.url).replace("PORT", str(port))
    (tmp_path / "clerk.py").write_text(text)
    server = Served(tmp_path, "clerk:app", "--port", str(port))
    request.addfinalizer(server.stop)
    headers = {"authorization": f"Bearer {server.token}"}
    run = {"agent": "clerk", "input": "Tell Jiro.", "mode": "wait"}
    started = httpx2.post(
        f"{server.url}/v1/runs", json=run, headers=headers, trust_env=False, timeout=60
    ).json()
    page = windows.page(server.link)
    page.get_by_role("button", name="Continue as mira").click()

    page.get_by_role("link", name="Sign in at mail").click()
    expect(page.get_by_text("Send mail in your name")).to_be_visible()
    assert windows.axe(page) == []
    there = page.url
    page.wait_for_timeout(GRACE_MS)  # What is pressed before it could be seen is nobody's press.
    # It is the address that they are at already: only its coming again says that they are back.
    with page.expect_navigation(url=re.compile(re.escape(there.partition("?")[0]))):
        page.get_by_role("button", name="Continue to mail").click()

    expect(page.get_by_text("Approved").first).to_be_visible()
    assert [form["code"] for _, form in issuer.posted] == ["a-code"], started
