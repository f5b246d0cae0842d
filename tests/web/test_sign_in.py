"""Signing in by a token, and what others could try with the page that it is done on."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sayso.web import before, session
from sayso.web.origin import own_path
from sayso.web.tries import ADDRESSES_MAX, FAILS_MAX, WINDOW_S, Tries
from tests.web.conftest import field


async def sign_in(client: Any, token: str, *, there: str = "/", **headers: str) -> Any:
    page = await client.get("/sign-in", params={"next": there})
    form = {"token": token, "next": there, "word": field(page.text, "word")}
    return await client.post("/sign-in", data=form, headers=headers)


async def test_a_token_signs_a_person_in_and_takes_them_back(open_pages: Any) -> None:
    async with open_pages() as pages:
        _, text = await pages.token()
        client = await pages.stranger()

        answer = await sign_in(client, text, there="/?risk=high")

        assert (answer.status_code, answer.headers["location"]) == (303, "/?risk=high")
        page = await client.get("/")
        assert page.status_code == 200
        assert ">mira</a>" in page.text
        cookie = next(c for c in answer.headers.get_list("set-cookie") if session.COOKIE in c)
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert text not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    "token, said",
    [
        ("", "not known"),
        ("sayso_" + "a" * 16 + "_" + "b" * 43, "not known"),
        ("local_x", "not known"),
        ("é", "no credential"),
        ("a.b.c", "not known"),
    ],
)
async def test_what_is_no_token_signs_nobody_in(open_pages: Any, token: str, said: str) -> None:
    async with open_pages() as pages:
        client = await pages.stranger()

        answer = await sign_in(client, token)

        assert answer.status_code == 401
        assert said in html.unescape(answer.text)
        assert session.COOKIE not in client.cookies


@pytest.mark.parametrize("options", [{"kind": "service"}, {"scopes": ["decide"]}])
async def test_only_a_person_who_may_look_signs_in(
    open_pages: Any, options: dict[str, Any]
) -> None:
    async with open_pages() as pages:
        _, text = await pages.token(**options)
        client = await pages.stranger()

        answer = await sign_in(client, text)

        assert answer.status_code == 401
        assert session.COOKIE not in client.cookies


async def test_a_session_can_do_no_more_than_its_token(open_pages: Any) -> None:
    async with open_pages() as pages:
        _, text = await pages.token(scopes=["read"])
        client = await pages.stranger()
        await sign_in(client, text)

        found = await session.Sessions(pages.sayso.store).find(client.cookies[session.COOKIE])

        assert found is not None
        assert found[0].scopes == ("read",)


async def test_the_session_is_new_at_every_sign_in_and_the_one_before_ends(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira = await pages.browser()
        first = mira.cookies[session.COOKIE]
        _, text = await pages.token("eve")

        # Signed in, the page is not shown: take the word of the browser that was never signed in.
        stranger = await pages.stranger()
        page = await stranger.get("/sign-in")
        mira.cookies.set(before.COOKIE, stranger.cookies[before.COOKIE])
        form = {"token": text, "word": field(page.text, "word")}
        answer = await mira.post("/sign-in", data=form)

        sessions = session.Sessions(pages.sayso.store)
        assert answer.status_code == 303
        assert session.COOKIE + "=" + first not in str(answer.headers)
        assert await sessions.find(first) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://sayso.test.evil.example"},
        {"origin": "http://sayso.test:81"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_no_other_site_signs_a_browser_in(open_pages: Any, headers: dict[str, str]) -> None:
    async with open_pages() as pages:
        _, text = await pages.token("eve")
        client = await pages.stranger()

        answer = await sign_in(client, text, **headers)

        assert answer.status_code == 403
        assert session.COOKIE not in client.cookies


async def test_the_form_of_another_browser_signs_nobody_in(open_pages: Any) -> None:
    async with open_pages() as pages:
        _, text = await pages.token("eve")
        eve, mira = await pages.stranger(), await pages.stranger()
        word = field((await eve.get("/sign-in")).text, "word")
        await mira.get("/sign-in")

        answer = await mira.post("/sign-in", data={"token": text, "word": word})
        without = await (await pages.stranger()).post(
            "/sign-in", data={"token": text, "word": word}
        )

        assert answer.status_code == 403
        assert session.COOKIE not in mira.cookies
        assert without.status_code == 200
        assert "no cookie" in without.text


async def test_a_form_in_an_encoding_of_its_own_is_refused(open_pages: Any) -> None:
    async with open_pages() as pages:
        client = await pages.stranger()
        body = b'--x\r\nContent-Disposition: form-data; name="word"\r\n\r\n\\ud800\r\n--x--\r\n'
        kind = "multipart/form-data; boundary=x; charset=unicode_escape"

        await client.get("/sign-in")
        answer = await client.post("/sign-in", content=body, headers={"content-type": kind})

        assert answer.status_code == 422


async def test_too_many_wrong_tokens_have_to_wait(open_pages: Any) -> None:
    async with open_pages() as pages:
        now = [0.0]
        pages.service.app.state.tries = Tries(clock=lambda: now[0])
        _, text = await pages.token()
        client = await pages.stranger(peer="10.0.0.7")
        other = await pages.stranger(peer="10.0.0.8")
        for _ in range(FAILS_MAX):
            assert (await sign_in(client, "x")).status_code == 401

        assert (await sign_in(client, text)).status_code == 429
        assert (await sign_in(other, text)).status_code == 303
        now[0] += WINDOW_S
        assert (await sign_in(client, text)).status_code == 303


async def test_behind_a_proxy_nobody_keeps_the_others_out(open_pages: Any) -> None:
    async with open_pages(public_url="https://pay.example.com") as pages:
        _, text = await pages.token()
        client = await pages.stranger()
        client.base_url = "https://inside.test"
        for _ in range(FAILS_MAX):
            assert (await sign_in(client, "x")).status_code == 401

        assert (await sign_in(client, text)).status_code == 303


def test_tries_are_counted_for_a_bounded_number_of_addresses() -> None:
    tries = Tries(clock=lambda: 0.0)
    for n in range(ADDRESSES_MAX + 10):
        tries.fail(f"host-{n}")
    for n in range(FAILS_MAX):
        tries.fail(f"2001:db8::{n:x}")

    assert len(tries) == ADDRESSES_MAX
    assert tries.is_over("2001:db8::ffff")
    assert not tries.is_over("2001:db8:0:1::1")


@given(st.text(alphabet=st.sampled_from("/\\:@?#.%\t\n\r\0 aehttpsvil"), max_size=12))
@example("//evil.example")
@example("/\\evil.example")
@example("/\t/evil.example")
@example("https://evil.example")
@example("javascript:alert(1)")
@example("\x01//evil.example")
@example("")
def test_nobody_is_sent_elsewhere(text: str) -> None:
    there = own_path(text)

    # As browsers read it: without tabs and line ends, and with slashes for backslashes.
    read = "".join(c for c in there.lstrip("\0\x01 ") if c not in "\t\r\n").replace("\\", "/")
    assert there.startswith("/")
    assert urlsplit(urljoin("http://sayso.test/sign-in", read)).netloc == "sayso.test"


@pytest.mark.parametrize("there", ["//evil.example", "/\\evil.example", "https://evil.example"])
async def test_signing_in_leads_to_a_page_of_ours(open_pages: Any, there: str) -> None:
    async with open_pages() as pages:
        _, text = await pages.token()
        client = await pages.stranger()

        assert (await sign_in(client, text, there=there)).headers["location"] == "/"
        assert (await client.get("/sign-in", params={"next": there})).headers["location"] == "/"


async def test_signing_out_ends_the_session_where_it_is_kept(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira = await pages.browser()
        text = mira.cookies[session.COOKIE]
        page = await mira.get("/")
        word = page.text.split('data-csrf="')[1].split('"')[0]

        assert (await mira.get("/sign-out")).status_code == 405
        assert (await mira.post("/sign-out", data={})).status_code == 403
        assert (await mira.get("/")).status_code == 200
        answer = await mira.post("/sign-out", data={"csrf": word})

        assert answer.headers["location"] == "/sign-in"
        assert f'{session.COOKIE}=""; ' in answer.headers["set-cookie"]
        again = await pages.stranger()
        again.cookies.set(session.COOKIE, text)
        assert (await again.get("/")).status_code == 303


async def test_by_tls_the_cookie_is_one_that_no_neighbour_can_set(open_pages: Any) -> None:
    async with open_pages(public_url="https://pay.example.com") as pages:
        _, text = await pages.token()
        client = await pages.stranger()
        client.base_url = "https://inside.test"

        answer = await sign_in(client, text, origin="https://pay.example.com")

        made = answer.headers.get_list("set-cookie")
        assert any(c.startswith("__Host-sayso_session=") and "Secure" in c for c in made)
        assert (await client.get("/")).status_code == 200
