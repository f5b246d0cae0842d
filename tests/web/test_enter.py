"""The link that a server on this machine prints: what opens it, once, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from sayso import Principal
from sayso.server.door import LocalWay
from sayso.web import session


def way() -> LocalWay:
    return LocalWay(Principal(id="mira"), "default")


async def test_the_link_signs_one_browser_in_and_looking_uses_nothing_up(open_pages: Any) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        mira, eve = await pages.stranger("localhost"), await pages.stranger("localhost")
        for _ in range(3):
            page = await mira.get(f"/enter/{local.code}")
            assert "Continue as mira" in page.text
            assert "set-cookie" not in page.headers
        assert (await mira.head(f"/enter/{local.code}")).status_code == 200

        answer = await mira.post(f"/enter/{local.code}")
        late = await eve.post(f"/enter/{local.code}")

        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await mira.get("/")).status_code == 200
        assert late.status_code == 401
        assert "was used" in late.text
        assert (await eve.get(f"/enter/{local.code}")).status_code == 401
        assert session.COOKIE not in eve.cookies


@pytest.mark.parametrize("code", ["x", "é", "%ff", "a" * 43])
async def test_another_code_is_none(open_pages: Any, code: str) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        client = await pages.stranger("127.0.0.1:8722")

        assert (await client.post(f"/enter/{code}")).status_code == 401
        assert session.COOKIE not in client.cookies
        assert local.is_code(local.code)


@pytest.mark.parametrize(
    "host, peer",
    [
        ("evil.example", "127.0.0.1"),
        ("127.0.0.1.evil.example", "127.0.0.1"),
        ("localhost", "10.0.0.7"),
        ("sayso.test", "10.0.0.7"),
    ],
)
async def test_from_elsewhere_there_is_no_such_link(open_pages: Any, host: str, peer: str) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        client = await pages.stranger(host, peer)

        assert (await client.get(f"/enter/{local.code}")).status_code == 404
        assert (await client.post(f"/enter/{local.code}")).status_code == 404
        assert local.is_code(local.code)


async def test_what_a_proxy_of_this_machine_hands_on_is_from_elsewhere(open_pages: Any) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        client = await pages.stranger("127.0.0.1:8722")
        for name in ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"):
            answer = await client.post(f"/enter/{local.code}", headers={name: "127.0.0.1"})

            assert answer.status_code == 404
        assert local.is_code(local.code)


async def test_another_site_cannot_use_the_link(open_pages: Any) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        client = await pages.stranger("localhost")
        headers = {"origin": "https://evil.example"}

        assert (await client.post(f"/enter/{local.code}", headers=headers)).status_code == 403
        assert local.is_code(local.code)


async def test_a_session_of_this_machine_is_good_on_it_alone(open_pages: Any) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        mira = await pages.stranger("localhost:8722")
        await mira.post(f"/enter/{local.code}")
        cookie = mira.cookies[session.COOKIE]

        for host, peer in [("evil.example", "127.0.0.1"), ("localhost", "10.0.0.7")]:
            other = await pages.stranger(host, peer)
            other.cookies.set(session.COOKIE, cookie)
            assert (await other.get("/")).status_code == 303
        assert (await mira.get("/")).status_code == 200


async def test_a_session_of_this_machine_ends_with_the_server(open_pages: Any) -> None:
    first = way()
    async with open_pages(ways=[first]) as pages:
        mira = await pages.stranger("localhost")
        await mira.post(f"/enter/{first.code}")
        assert (await mira.get("/")).status_code == 200

        from sayso.server.app import create_app
        from sayso.web.app import add_pages

        pages.service.app = add_pages(create_app(pages.sayso, ways=[way()]))
        again = await pages.stranger("localhost")
        again.cookies.set(session.COOKIE, mira.cookies[session.COOKIE])

        assert (await again.get("/")).status_code == 303


async def test_the_local_token_signs_in_on_this_machine_alone(open_pages: Any) -> None:
    local = way()
    async with open_pages(ways=[local]) as pages:
        from tests.web.test_sign_in import sign_in

        near, rebound = await pages.stranger("[::1]:8722"), await pages.stranger("evil.example")

        assert (await sign_in(near, local.text)).status_code == 303
        assert (await sign_in(rebound, local.text)).status_code == 401
