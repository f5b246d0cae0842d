"""Signing in at a provider: what a hostile one, or somebody in between, could try."""

from __future__ import annotations

import base64
import hashlib
import html
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from joserfc.jwk import RSAKey

from sayso.errors import BadSetup
from sayso.web import before, session
from sayso.web.oidc import AGE_MAX_S, Oidc, begin, come_back
from sayso.web.tries import FAILS_MAX, Tries
from tests.web.conftest import field
from tests.web.issuer import CLIENT, KEY, HandMade, unsigned

OTHER = RSAKey.generate_key(2048, {"kid": "k1"})


@pytest.fixture
def issuer() -> Iterator[HandMade]:
    made = HandMade()
    yield made
    made.close()


def at(issuer: HandMade, **options: Any) -> Any:
    """Give what makes the client of an issuer, for `open_pages`."""
    return lambda sayso: Oidc(sayso, issuer=issuer.url, client_id=CLIENT, **options)


async def leave(client: Any, there: str = "/") -> str:
    """Press the button; give where the browser is sent."""
    page = await client.get("/sign-in", params={"next": there})
    form = {"next": there, "word": field(page.text, "word")}
    answer = await client.post("/sign-in/provider", data=form)
    assert answer.status_code == 200, answer.text
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', answer.text)
    assert found
    url = html.unescape(found[1])
    assert f'href="{found[1]}"' in answer.text
    return url


async def come(client: Any, back: dict[str, str]) -> Any:
    return await client.get("/sign-in/callback", params=back)


async def test_a_person_signs_in_and_comes_back_to_where_they_were(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer, client_secret="s3cret")) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client, "/?risk=high"))

        answer = await come(client, back)

        assert (answer.status_code, answer.headers["location"]) == (303, "/?risk=high")
        assert ">mira</a>" in (await client.get("/")).text
        assert issuer.asked["scope"].split()[0] == "openid"
        assert issuer.asked["redirect_uri"] == "http://localhost/sign-in/callback"
        ((auth, form),) = issuer.posted
        assert auth is not None
        assert base64.b64decode(auth.removeprefix("Basic ")) == b"sayso-pages:s3cret"
        hashed = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()
        assert issuer.asked["code_challenge"] == challenge
        assert issuer.asked["code_challenge_method"] == "S256"

        # What has been finished cannot be finished again.
        assert (await come(client, back)).status_code == 400
        assert len(issuer.posted) == 1


def soon() -> int:
    return int(time.time()) + 600


FORGED: dict[str, Any] = {
    "another issuer": lambda i: i.claims.update(iss="https://evil.example"),
    "another client's": lambda i: i.claims.update(aud="other"),
    "several clients', no party": lambda i: i.claims.update(aud=[CLIENT, "other"]),
    "several clients', another party": lambda i: i.claims.update(
        aud=[CLIENT, "other"], azp="other"
    ),
    "another party": lambda i: i.claims.update(azp="other"),
    "over": lambda i: i.claims.update(exp=1),
    "without an end": lambda i: i.claims.update(exp=None),
    "without a beginning": lambda i: i.claims.update(iat=None),
    "not yet": lambda i: i.claims.update(nbf=soon()),
    "another sign-in": lambda i: i.claims.update(nonce="x"),
    "a nonce that is none": lambda i: i.claims.update(nonce=7),
    "without a person": lambda i: i.claims.update(sub=None),
    "an unseen person": lambda i: i.claims.update(sub="mi\u200bra"),
    "another key": lambda i: setattr(i, "key", OTHER),
    "not signed": lambda i: setattr(
        i,
        "id_token",
        unsigned({"iss": i.url, "aud": CLIENT, "sub": "mira", "exp": soon(), "iat": soon() - 600}),
    ),
    "no token": lambda i: setattr(i, "id_token", "x"),
}


async def test_a_token_that_is_not_good_signs_nobody_in(open_pages: Any, issuer: HandMade) -> None:
    good: list[str] = []
    async with open_pages(provider=at(issuer)) as pages:
        for what, forge in FORGED.items():
            pages.service.app.state.tries = Tries()
            client = await pages.stranger("localhost")
            back = issuer.visit(await leave(client))
            issuer.claims, issuer.key, issuer.id_token = {}, KEY, None
            forge(issuer)

            answer = await come(client, back)

            assert issuer.posted.pop()
            if answer.status_code != 401 or session.COOKIE in client.cookies:
                good.append(what)
            assert "You are not signed in at" in answer.text, what
    assert good == []


async def test_a_token_without_the_nonce_of_this_sign_in_is_none(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client))
        issuer.asked.pop("nonce")

        assert (await come(client, back)).status_code == 401


async def test_what_one_browser_has_begun_no_other_can_finish(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        eve, mira, nobody = [await pages.stranger("localhost") for _ in range(3)]
        back = issuer.visit(await leave(eve))
        await mira.get("/sign-in")

        assert (await come(mira, back)).status_code == 400
        assert (await come(nobody, back)).status_code == 400
        assert session.COOKIE not in mira.cookies
        assert issuer.posted == []


async def test_no_other_site_begins_a_sign_in(open_pages: Any, issuer: HandMade) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        word = {"word": field((await client.get("/sign-in")).text, "word")}
        there = "/sign-in/provider"

        for headers in [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}]:
            assert (await client.post(there, data=word, headers=headers)).status_code == 403
        assert (await client.post(there, data={"word": "x"})).status_code == 403
        assert (await client.get(there)).status_code == 405


async def test_an_answer_of_another_issuer_is_refused(open_pages: Any, issuer: HandMade) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client))

        mixed = await come(client, {**back, "iss": "https://evil.example"})

        assert mixed.status_code == 401
        assert issuer.posted == []
        assert (await come(client, {**back, "iss": issuer.url})).status_code == 303


async def test_an_issuer_that_names_itself_has_to(open_pages: Any, issuer: HandMade) -> None:
    issuer.about = {"authorization_response_iss_parameter_supported": True}
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client))

        assert (await come(client, back)).status_code == 401
        assert issuer.posted == []


async def test_who_is_refused_is_told_kindly(open_pages: Any, issuer: HandMade) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client, "/?risk=high"))
        for error, said in [
            ("access_denied", "you said no"),
            ("login_required", "it says login_required"),
            ("<b>code=secret", "it refuses"),
        ]:
            answer = await come(client, {"state": back["state"], "error": error})

            assert answer.status_code == 400
            assert said in answer.text
            assert "secret" not in answer.text
            assert field(answer.text, "next") == "/?risk=high"


async def test_a_provider_that_fails_signs_nobody_in_and_is_not_asked_for_ever(
    open_pages: Any, issuer: HandMade
) -> None:
    issuer.status = 500
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        back = issuer.visit(await leave(client))
        statuses = [(await come(client, back)).status_code for _ in range(FAILS_MAX + 1)]

        assert statuses == [502] * FAILS_MAX + [429]
        assert len(issuer.posted) == FAILS_MAX
        assert session.COOKIE not in client.cookies


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://evil.example"},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"token_endpoint": "javascript:alert(1)"},
        {"token_endpoint": 7},
    ],
)
async def test_an_issuer_that_says_odd_things_of_itself_is_not_used(
    open_pages: Any, issuer: HandMade, about: dict[str, Any]
) -> None:
    issuer.about = about
    async with open_pages(provider=at(issuer)) as pages:
        client = await pages.stranger("localhost")
        page = await client.get("/sign-in")

        answer = await client.post(
            "/sign-in/provider", data={"word": field(page.text, "word"), "next": "/"}
        )

        assert answer.status_code == 502
        assert "http-equiv" not in answer.text


async def test_roles_are_records_that_a_sign_in_brings_up_to_date(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer, roles_claim="groups")) as pages:
        issuer.claims["groups"] = ["finance"]
        client = await pages.stranger("localhost")
        await come(client, issuer.visit(await leave(client)))

        person = await pages.sayso.people.get("mira")

        assert person is not None
        assert person.roles == ("finance",)


async def test_an_address_names_somebody_only_if_it_is_verified(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer, person_claim="email")) as pages:
        for verified, status in [(None, 401), ("true", 401), (True, 303)]:
            issuer.claims = {"email": "mira@example.com", "email_verified": verified}
            client = await pages.stranger("localhost")

            answer = await come(client, issuer.visit(await leave(client)))

            assert answer.status_code == status


async def test_who_was_put_out_does_not_come_in(open_pages: Any, issuer: HandMade) -> None:
    async with open_pages(provider=at(issuer)) as pages:
        await pages.sayso.people.put("mira", active=False)
        client = await pages.stranger("localhost")

        answer = await come(client, issuer.visit(await leave(client)))

        assert answer.status_code == 403
        assert session.COOKIE not in client.cookies


async def test_a_session_ends_in_its_time_and_with_the_client_that_it_is_of(
    open_pages: Any, issuer: HandMade
) -> None:
    async with open_pages(provider=at(issuer, lasts_ms=3_600_000)) as pages:
        client = await pages.stranger("localhost")
        answer = await come(client, issuer.visit(await leave(client)))
        kept = re.search(r"Max-Age=(\d+);", answer.headers.get_list("set-cookie")[0])
        assert kept is not None
        assert 0 < int(kept[1]) <= 3600
        found = await session.Sessions(pages.sayso.store).find(client.cookies[session.COOKIE])
        assert found is not None
        assert found[0].until - found[0].at <= 3_600_000

        other = Oidc(pages.sayso, issuer=issuer.url, client_id="another")
        for now, status in [(other, 303), (None, 303), (at(issuer)(pages.sayso), 200)]:
            pages.service.app.state.oidc = now
            assert (await client.get("/")).status_code == status


async def test_without_a_provider_there_are_no_such_pages(open_pages: Any) -> None:
    async with open_pages() as pages:
        client = await pages.stranger("localhost")

        assert (await client.post("/sign-in/provider")).status_code == 404
        assert (await client.get("/sign-in/callback")).status_code == 404


def test_a_state_is_good_for_ten_minutes_in_its_own_browser() -> None:
    now = 1_700_000_000
    mine, other = before.new_before(), before.new_before()
    begun = begin(mine, "/r/x", now_s=now)

    assert come_back(mine, begun.state, now_s=now + AGE_MAX_S) == begun
    assert come_back(mine, begun.state, now_s=now + AGE_MAX_S + 1) is None
    assert come_back(mine, begun.state, now_s=now - 61) is None
    assert come_back(other, begun.state, now_s=now) is None
    assert begin(mine, "/r/x", now_s=now).nonce != begun.nonce
    for n, letter in enumerate(begun.state):
        changed = begun.state[:n] + ("0" if letter != "0" else "1") + begun.state[n + 1 :]
        assert come_back(mine, changed, now_s=now) is None


@pytest.mark.parametrize("url", ["http://id.example.com", "ftp://id.example.com", ""])
def test_an_issuer_is_reached_by_tls(url: str) -> None:
    with pytest.raises(BadSetup):
        Oidc(None, issuer=url, client_id="x")  # type: ignore[arg-type]
