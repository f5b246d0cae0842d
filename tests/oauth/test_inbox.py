"""Signing in to the inbox at a real provider."""

import asyncio
import html
import re

import httpx2
import pytest

from sayso import Sayso
from sayso.server.app import create_app
from sayso.web.app import add_pages
from sayso.web.oidc import Oidc

HERE = "http://localhost:8722"
BACK = f"{HERE}/sign-in/callback"


def press(page, where, client):
    """Send the form of a page that leads somewhere, with what it has in it."""
    form = re.search(rf'<form[^>]*action="{where}".*?</form>', page.text, re.DOTALL)[0]
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))
    return client.post(where, data={name: html.unescape(text) for name, text in fields.items()})


def at_provider(url, answer):
    """Do in a browser what a person does at the provider; give where they are sent back to."""
    with httpx2.Client(trust_env=False) as browser:
        gone = browser.get(url)
        if gone.status_code != 302:
            gone = browser.post(url, data={"answer": answer})
    return gone.headers["location"]


@pytest.mark.parametrize("answer, status", [("accept", 303), ("deny", 400)])
async def test_a_person_signs_in_at_a_real_provider(site, answer, status):
    client_id, secret = site.register(BACK)
    async with Sayso("memory:") as sayso:
        provider = Oidc(
            sayso,
            issuer=site.server.url.rstrip("/"),
            client_id=client_id,
            client_secret=secret,
        )
        app = add_pages(create_app(sayso), at=provider)
        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=app), base_url=HERE
        ) as client:
            page = await client.get("/sign-in")
            leaving = await press(page, "/sign-in/provider", client)
            url = html.unescape(re.search(r"0; url=([^\"]+)", leaving.text)[1])

            back = await asyncio.to_thread(at_provider, url, answer)
            assert back.startswith(BACK)
            come = await client.get(back)

            assert come.status_code == status, come.text
            inbox = await client.get("/")
            signed = status == 303
            assert inbox.status_code == (200 if signed else 303)
            assert not signed or f">{site.user.user_name}</a>" in inbox.text
