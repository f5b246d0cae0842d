"""Signing in for a tool: what the page says, who is sent where, and what coming back settles."""

from __future__ import annotations

import html
import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from sayso import Agent, Context, OAuthProvider, Sayso, SignIn, tool
from sayso.server.app import create_app
from sayso.testing import ScriptedModel, call, say
from sayso.web.app import add_pages
from sayso.web.scope import scope_rows
from tests.server.conftest import Service
from tests.web.conftest import Pages
from tests.web.issuer import HandMade


@pytest.fixture
def issuer() -> Iterator[HandMade]:
    made = HandMade()
    yield made
    made.close()


@asynccontextmanager
async def office(issuer: HandMade) -> AsyncGenerator[tuple[Pages, Any, list[str]]]:
    """Open pages, and a run that asks Mira to sign in; what was sent is in the list."""
    sent: list[str] = []

    @tool(sign_in=SignIn(provider="mail", scopes=("mail.send",)), effect="once")
    def send_mail(ctx: Context, to: str) -> str:
        sent.append(ctx.tokens["mail"])
        return f"sent to {to}"

    mail = OAuthProvider(
        "mail",
        authorize_url=f"{issuer.url}/authorize",
        token_url=f"{issuer.url}/token",
        client_id="sayso",
        redirect_url="http://localhost/oauth/callback",
    )
    model = ScriptedModel([call("send_mail", {"to": "jiro"}), say("Done.")])
    agent = Agent("clerk", model=model, tools=[send_mail])
    async with AsyncExitStack() as stack:
        sayso = await stack.enter_async_context(Sayso("memory:", agents=[agent], providers=[mail]))
        run = await sayso.start("clerk", "Tell Jiro.", by="mira")
        hold = (await run.wait()).holds[0]
        app = add_pages(create_app(sayso))
        yield Pages(Service(sayso, app, [], stack)), hold, sent


async def go(client: Any, hold: Any, **form: str) -> Any:
    page = await client.get("/")
    word = page.text.split('data-csrf="')[1].split('"')[0]
    return await client.post(f"/r/{hold.id}/go", data={"csrf": word, **form})


def way_out(page: Any) -> str:
    assert page.status_code == 200, page.text
    return html.unescape(re.search(r"0; url=([^\"]+)", page.text)[1])  # type: ignore[index]


async def test_a_person_goes_to_the_provider_and_comes_back_to_the_request(
    issuer: HandMade,
) -> None:
    async with office(issuer) as (pages, hold, sent):
        mira = await pages.browser()
        leaving = await go(mira, hold)
        back = issuer.visit(way_out(leaving))

        answer = await mira.get("/oauth/callback", params=back)

        assert answer.status_code == 303
        assert answer.headers["location"] == f"/r/{hold.id}"
        settled = await pages.sayso.hold(hold.id)
        assert (settled.status, settled.decision.word) == ("settled", "approved")
        await pages.sayso.run(hold.run_id).wait(final=True)
        assert sent == ["x"]
        # Whoever presses the button of a page that is old sees what became of it.
        assert (await go(mira, hold)).headers["location"] == f"/r/{hold.id}"


async def test_who_says_no_at_the_provider_rejects_the_request(issuer: HandMade) -> None:
    async with office(issuer) as (pages, hold, sent):
        mira = await pages.browser()
        state = issuer.visit(way_out(await go(mira, hold)))["state"]

        await mira.get("/oauth/callback", params={"state": state, "error": "access_denied"})

        settled = await pages.sayso.hold(hold.id)
        assert (settled.status, settled.decision.word) == ("settled", "rejected")
        assert sent == []


async def test_only_who_is_asked_is_sent_and_only_by_a_form_of_theirs(issuer: HandMade) -> None:
    async with office(issuer) as (pages, hold, _):
        mira, eve = await pages.browser(), await pages.browser("eve")
        other = await pages.browser(project="other")

        assert (await go(eve, hold)).status_code == 403
        assert (await go(other, hold)).status_code == 404
        assert (await go(mira, hold, csrf="x")).status_code == 403
        # An address that somebody has copied leads to the request, and does nothing.
        assert (await mira.get(f"/r/{hold.id}/go")).headers["location"] == f"/r/{hold.id}"
        assert (await pages.sayso.hold(hold.id)).status == "open"


async def test_nobody_comes_back_for_somebody_else(issuer: HandMade) -> None:
    async with office(issuer) as (pages, hold, _):
        mira, eve = await pages.browser(), await pages.browser("eve")
        nobody = await pages.stranger()
        back = issuer.visit(way_out(await go(mira, hold)))

        assert (await eve.get("/oauth/callback", params=back)).status_code == 403
        assert (await nobody.get("/oauth/callback", params=back)).status_code == 303
        assert (await mira.get("/oauth/callback", params={"code": "x"})).status_code == 400
        forged = {**back, "state": back["state"][:-1] + "_"}
        assert (await mira.get("/oauth/callback", params=forged)).status_code == 400
        assert (await pages.sayso.hold(hold.id)).status == "open"
        assert issuer.posted == []


async def test_a_provider_that_gives_no_token_leaves_the_request_open(issuer: HandMade) -> None:
    issuer.status = 500
    async with office(issuer) as (pages, hold, _):
        mira = await pages.browser()
        back = issuer.visit(way_out(await go(mira, hold)))

        answer = await mira.get("/oauth/callback", params=back)

        assert answer.status_code == 502
        assert "The provider could not be asked" in answer.text
        assert (await pages.sayso.hold(hold.id)).status == "open"


async def test_a_credential_that_may_not_decide_is_not_sent(issuer: HandMade) -> None:
    async with office(issuer) as (pages, hold, _):
        from tests.web.test_sign_in import sign_in

        _, text = await pages.token(scopes=["read"])
        reader = await pages.stranger()
        await sign_in(reader, text)
        mira = await pages.browser()
        back = issuer.visit(way_out(await go(mira, hold)))

        assert (await go(reader, hold)).status_code == 403
        assert (await reader.get("/oauth/callback", params=back)).status_code == 403
        assert (await pages.sayso.hold(hold.id)).status == "open"


async def test_the_page_says_what_is_allowed_and_what_is_not(issuer: HandMade) -> None:
    async with office(issuer) as (pages, hold, _sent):
        text = (await (await pages.browser()).get(f"/r/{hold.id}")).text

        assert "Sign in at mail" in text
        assert "Send mail in your name" in text
        assert '<code class="muted small">mail.send</code>' in text
        assert f'formaction="/r/{hold.id}/go"' in text
        assert text.index("Allowed: ") < text.index("Not allowed: ")


@pytest.mark.parametrize(
    "scope, said",
    [
        ("openid", "Know that it is you"),
        ("mail.send", "Send mail in your name"),
        ("read:user", "Read user"),
        ("https://x.example/auth/calendar.readonly", "Read calendar"),
        ("Files.ReadWrite", "Read and change files"),
        ("mail.read.all", "What the provider calls by this name"),
        ("repo", "What the provider calls by this name"),
        ("read.write", "What the provider calls by this name"),
        ("readonly.send", "What the provider calls by this name"),
    ],
)
def test_a_scope_is_said_in_words_only_where_they_are_certain(scope: str, said: str) -> None:
    row = scope_rows(SignIn(provider="mail", scopes=(scope,)))[0]

    assert (row.allowed, row.text, row.scope) == (True, said, scope)


def test_what_is_only_read_is_not_changed() -> None:
    def refused(*scopes: str) -> list[str]:
        rows = scope_rows(SignIn(provider="mail", scopes=scopes))
        return [row.text for row in rows if not row.allowed]

    assert refused("calendar.read")[0] == "Change calendar"
    assert "Change calendar" not in refused("calendar.read", "calendar.write")
    assert refused()[-2] == "Your password: only mail sees it"
