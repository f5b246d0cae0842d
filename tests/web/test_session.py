"""Sessions end with what they were made of, and by whoever they are of."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sayso import Principal, Sayso
from sayso.errors import BadValue
from sayso.server.caller import Caller
from sayso.server.token import Tokens
from sayso.testing import FakeClock
from sayso.web import session
from sayso.web.page import environment
from sayso.web.session import LASTS_MS, MANY_MAX, Sessions
from sayso.web.session_list import own_sessions

MIRA = Caller(by=Principal(id="mira"), project="default")


async def csrf_of(client: Any) -> str:
    page = await client.get("/")
    return page.text.split('data-csrf="')[1].split('"')[0]


async def test_a_session_ends_when_its_token_is_revoked(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira = await pages.browser()
        assert (await mira.get("/")).status_code == 200
        tokens = Tokens(pages.sayso.store)
        (token,) = await tokens.list("default")

        await tokens.revoke(token.id, project="default")

        assert (await mira.get("/")).status_code == 303
        assert await Sessions(pages.sayso.store).find(mira.cookies[session.COOKIE]) is None


async def test_a_session_ends_when_its_person_is_put_out(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira = await pages.browser()
        people = pages.sayso.people
        await people.put("mira")
        assert (await mira.get("/")).status_code == 200

        await people.put("mira", active=False)
        assert (await mira.get("/")).status_code == 303

        # Whoever is let in again signs in again.
        await people.put("mira", active=True)
        assert (await mira.get("/")).status_code == 303


async def test_a_session_of_no_known_credential_is_none(open_pages: Any) -> None:
    async with open_pages() as pages:
        for via, ref in [("token", ""), ("token", "x"), ("local", ""), ("oidc", ""), ("else", "")]:
            client = await pages.stranger("localhost")
            _, text = await Sessions(pages.sayso.store).create(MIRA, via=via, ref=ref or "none")
            client.cookies.set(session.COOKIE, text)

            assert (await client.get("/")).status_code == 303


async def test_a_session_is_good_for_a_week_and_not_longer_than_its_credential() -> None:
    clock = FakeClock()
    async with Sayso("memory:", clock=clock) as sayso:
        sessions = Sessions(sayso.store)
        _, week = await sessions.create(MIRA, via="token", until=sayso.store.now() + 10 * LASTS_MS)
        _, hour = await sessions.create(MIRA, via="token", until=sayso.store.now() + 3_600_000)

        clock.advance(3_600_000)
        assert await sessions.find(hour) is None
        assert await sessions.find(week) is not None
        clock.advance(LASTS_MS)
        assert await sessions.find(week) is None
        assert await sessions.list(MIRA) == []


async def test_the_store_has_no_cookie_in_it() -> None:
    async with Sayso("memory:") as sayso:
        _, text = await Sessions(sayso.store).create(MIRA, via="token", agent="a\x1b[2Jb")
        name, _, secret = text.rpartition(".")

        (item,) = await sayso.store.shelf.list(session.SESSIONS, session.KIND)

        assert item.id == name
        assert secret.encode() not in item.data
        assert b"\\u001b" not in item.data


@pytest.mark.parametrize("text", ["", "x", "a" * 22 + "." + "b" * 22 + "." + "c" * 43, "é"])
async def test_what_is_no_cookie_of_ours_is_no_session(text: str) -> None:
    async with Sayso("memory:") as sayso:
        sessions = Sessions(sayso.store)
        _, good = await sessions.create(MIRA, via="token")

        assert await sessions.find(text) is None
        assert await sessions.find(good[:-1] + ("A" if good[-1] != "A" else "B")) is None
        assert await sessions.find(good) is not None


async def test_only_persons_have_sessions() -> None:
    async with Sayso("memory:") as sayso:
        bot = Caller(by=Principal(id="bot", kind="service"), project="default")
        with pytest.raises(BadValue):
            await Sessions(sayso.store).create(bot, via="token")


async def test_somebody_has_a_bounded_number_of_sessions() -> None:
    clock = FakeClock()
    async with Sayso("memory:", clock=clock) as sayso:
        sessions = Sessions(sayso.store)
        eve = Caller(by=Principal(id="eve"), project="default")
        _, hers = await sessions.create(eve, via="token")
        texts = []
        for _ in range(MANY_MAX + 3):
            clock.advance(1)
            texts.append((await sessions.create(MIRA, via="token"))[1])

        assert len(await sessions.list(MIRA)) == MANY_MAX
        assert [await sessions.find(one) is None for one in texts[:4]] == [True] * 3 + [False]
        assert await sessions.find(hers) is not None
        clock.advance(LASTS_MS)
        await sessions.create(MIRA, via="token")
        assert len(await sayso.store.shelf.list(session.SESSIONS, session.KIND)) == 2


async def test_the_list_of_sessions_shows_ones_own(open_pages: Any) -> None:
    async with open_pages() as pages:
        here, there = await pages.browser(), await pages.browser()
        await pages.browser("eve")
        sessions = Sessions(pages.sayso.store)
        found = await sessions.find(here.cookies[session.COOKIE])
        assert found is not None
        visitor = session.Visitor(caller=MIRA, session=found[0], secret=found[1])

        rows = await own_sessions(pages.sayso, visitor)
        part = environment().get_template("part/sessions.html")
        text = part.render(base="", csrf=visitor.csrf(), sessions=rows)

        assert len(rows) == 2
        assert sum(one.here for one in rows) == 1
        assert text.count("this browser") == 1
        assert re.findall(r'name="session" value="([^"]+)"', text) == [
            there.cookies[session.COOKIE].rpartition(".")[0]
        ]
        assert "End all others" in text


async def test_one_ends_ones_own_sessions_and_nobody_elses(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira, phone, eve = [await pages.browser(who) for who in ("mira", "mira", "eve")]
        names = [one.cookies[session.COOKIE].rpartition(".")[0] for one in (mira, phone, eve)]

        async def end(client: Any, name: str, **form: str) -> Any:
            form = {"csrf": await csrf_of(client), "session": name, **form}
            return await client.post("/settings/sessions/end", data=form)

        assert (await end(eve, names[0])).status_code == 404
        assert (await end(mira, names[1], csrf="x")).status_code == 403
        assert (await phone.get("/")).status_code == 200
        assert (await end(mira, names[1])).headers["location"] == "/settings"
        assert (await phone.get("/")).status_code == 303
        assert (await end(mira, names[0])).headers["location"] == "/sign-in"
        assert (await mira.get("/")).status_code == 303
        assert (await eve.get("/")).status_code == 200


async def test_one_ends_all_other_sessions(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira, phone, eve = [await pages.browser(who) for who in ("mira", "mira", "eve")]

        form = {"csrf": await csrf_of(mira)}
        await mira.post("/settings/sessions/end-others", data=form)

        assert [(await one.get("/")).status_code for one in (mira, phone, eve)] == [200, 303, 200]


async def test_a_cookie_is_no_credential_of_the_api(open_pages: Any) -> None:
    async with open_pages() as pages:
        mira = await pages.browser()

        assert (await mira.get("/v1/me")).status_code == 401


@pytest.mark.parametrize(
    "agent, said",
    [
        ("Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/131.0", "Firefox on Linux"),
        ("Mozilla/5.0 (iPhone; like Mac OS X) Version/18.0 Safari/604.1", "Safari on iPhone"),
        ("<script>curl/8", "scriptcurl/8"),
        ("", "Unknown browser"),
    ],
)
async def test_a_browser_is_named_as_far_as_it_says_so(agent: str, said: str) -> None:
    async with Sayso("memory:") as sayso:
        made, secret = await Sessions(sayso.store).create(MIRA, via="token", agent=agent)
        visitor = session.Visitor(caller=MIRA, session=made, secret=secret)

        assert [one.browser for one in await own_sessions(sayso, visitor)] == [said]
