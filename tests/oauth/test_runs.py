"""Runs whose tools act for a person, at a real provider: asked, sent there, taken back, resumed."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from sayso import (
    Agent,
    AssistantMessage,
    Context,
    Sayso,
    SignIn,
    approve,
    reject,
    tool,
)
from sayso.domain.value import Principal
from sayso.errors import (
    AlreadyDecided,
    BadState,
    NotAllowed,
    SignInFailed,
    UnknownHold,
    WrongVerdict,
)
from sayso.store.keyring import KeyRing, new_key
from sayso.testing import ScriptedModel, call, say
from sayso.testing.contract import refused

# One worker, so that there is one provider.
pytestmark = pytest.mark.xdist_group("oauth")
WAIT_S = 20
PROVIDERS_OWN = ("authlib", "canaille", "joserfc")
"""The logs of the provider, which runs in this process."""


def pieces(data, size=24):
    return [data[at : at + size] for at in range(0, len(data) - size + 1, size)]


class Office:
    """An agent with two tools that act for a person, and what they saw."""

    def __init__(self, site):
        self.site = site
        self.provider = site.client().provider
        self.tokens = []
        self.shown = []

        @tool(sign_in="iam", effect="none")
        def who_am_i(ctx: Context) -> str:
            self._use(ctx)
            return site.who(ctx.tokens["iam"]).json()["sub"]

        @tool(sign_in=SignIn(provider="iam", scopes=("email",)), effect="none")
        def my_address(ctx: Context) -> str:
            self._use(ctx)
            return site.who(ctx.tokens["iam"]).json()["email"]

        self.tools = {"who_am_i": who_am_i, "my_address": my_address}

    def _use(self, ctx):
        self.tokens.append(ctx.tokens["iam"])
        self.shown.append(f"{ctx!r} {ctx.tokens!r} {ctx.tokens}")

    def app(self, store, **options):
        agent = Agent("clerk", model=ScriptedModel(next_tool), tools=list(self.tools.values()))
        return Sayso(store, agents=[agent], providers=[self.provider], **options)

    async def sign_in(self, url, answer="accept"):
        return await asyncio.to_thread(self.site.sign_in, url, answer=answer)


def next_tool(messages):
    """Call the tools that the input names, one after another."""
    done = sum(isinstance(message, AssistantMessage) for message in messages)
    names = messages[0].text.split()
    return call(names[done], {}) if done < len(names) else say("Done.")


@pytest.fixture
def office(site):
    return Office(site)


@pytest.fixture(params=["memory:", "file"])
def store(request, tmp_path):
    return "memory:" if request.param == "memory:" else str(tmp_path / "office.db")


async def begin(app, names="who_am_i", by="mira", **options):
    run = await app.start("clerk", names, by=by, **options)
    return run, (await run.wait(timeout=WAIT_S)).holds[0]


async def test_a_run_goes_on_once_its_person_has_signed_in(office, store):
    async with office.app(store) as app:
        run, hold = await begin(app)
        assert (hold.kind, hold.tool, hold.approvers) == ("sign_in", "who_am_i", ("user:mira",))
        assert hold.ask == SignIn(provider="iam", scopes=("openid", "profile"))
        assert office.tokens == []

        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        settled = await app.oauth_callback(back["state"], back["code"], by="mira", iss=back["iss"])
        view = await run.wait(final=True, timeout=WAIT_S)

        assert view.status == "completed"
        assert view.messages[2].outcome.result() == office.site.user.user_name
        assert (settled.status, settled.decision.word) == ("settled", "approved")
        assert (settled.decision.by.id, settled.decision.channel) == ("mira", "oauth")
        assert settled.decision.note == "granted at iam: openid profile"


async def test_nobody_is_asked_twice(office):
    async with office.app("memory:") as app:
        _, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")

        again = await app.start("clerk", "who_am_i", by="mira")
        view = await again.wait(timeout=WAIT_S)

        assert view.status == "completed"
        # What one person allowed is no other person's.
        _, hers = await begin(app, by="ann")
        assert (hers.kind, hers.approvers) == ("sign_in", ("user:ann",))
        # Nor does it count in another project.
        _, there = await begin(app, project="elsewhere")
        assert there.kind == "sign_in"


async def test_no_token_is_found_anywhere(office, tmp_path, caplog):
    caplog.set_level("DEBUG")
    path = tmp_path / "office.db"
    async with office.app(path) as app:
        run, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        caplog.clear()  # What the person's browser said about its own doings.
        await app.oauth_callback(back["state"], back["code"], by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)
        journal = [entry async for entry in app.events(run)]
        item = await app.store.shelf.get("default", "credential", "iam/mira")

    (token,) = office.tokens
    # Read only once the store is closed.
    kept = b"".join(file.read_bytes() for file in Path(tmp_path).iterdir() if file.is_file())
    said = [r.getMessage() for r in caplog.records if not r.name.startswith(PROVIDERS_OWN)]
    seen = f"{view!r}{journal!r}{hold!r}{said}{office.shown}"
    # Piece by piece, because what is long is kept in several places of a file.
    assert any(piece in kept for piece in pieces(item.data))
    for secret in (token, back["code"]):
        assert not any(piece in kept for piece in pieces(secret.encode()))
        assert not any(piece.decode() in seen for piece in pieces(secret.encode()))


async def test_more_scopes_take_a_consent_to_all_of_them(office, store):
    async with office.app(store) as app:
        run, hold = await begin(app, "who_am_i my_address")
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")
        view = await run.wait(timeout=WAIT_S)
        (asked,) = view.holds

        assert (asked.kind, asked.tool) == ("consent", "my_address")
        assert (asked.ask.provider, asked.ask.scopes) == ("iam", ("openid", "profile", "email"))
        back = await office.sign_in(await app.sign_in_url(asked, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)

        assert view.messages[4].outcome.result() == office.site.user.emails[0]
        assert office.tokens[0] != office.tokens[1]


async def test_a_tool_that_names_scopes_asks_for_them_at_once(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app, "my_address")
        assert (hold.kind, hold.ask.scopes) == ("sign_in", ("openid", "profile", "email"))

        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")

        assert (await run.wait(timeout=WAIT_S)).status == "completed"


async def test_another_process_takes_the_person_back(office, tmp_path):
    path = tmp_path / "office.db"
    async with office.app(path) as app:
        run, hold = await begin(app)
        url = await app.sign_in_url(hold, by="mira")

    async with office.app(path) as app:
        back = await office.sign_in(url)
        await app.oauth_callback(back["state"], back["code"], by="mira")
        view = await app.run(run.id).wait(final=True, timeout=WAIT_S)

    assert view.messages[2].outcome.result() == office.site.user.user_name


async def test_a_state_counts_once(office, store):
    async with office.app(store) as app:
        run, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")
        before = await run.wait(final=True, timeout=WAIT_S)
        item = await app.store.shelf.get("default", "credential", "iam/mira")

        error = await refused(
            AlreadyDecided, app.oauth_callback(back["state"], back["code"], by="mira")
        )
        await refused(
            AlreadyDecided, app.oauth_callback(back["state"], error="access_denied", by="mira")
        )
        await refused(AlreadyDecided, app.sign_in_url(hold, by="mira"))

        assert error.decision.channel == "oauth"
        assert await run.view() == before
        assert await app.store.shelf.get("default", "credential", "iam/mira") == item


@pytest.mark.parametrize("spoil", ["forged", "malformed", "none", "other ring", "issuer", "late"])
async def test_a_wrong_state_changes_nothing(office, spoil):
    async with office.app("memory:") as app:
        run, hold = await begin(app)
        before = await run.view()
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        state, more = back["state"], {}
        match spoil:
            case "forged":
                state = ("A" if state[0] != "A" else "B") + state[1:]
            case "malformed":
                state = "a.b"
            case "none":
                state = None
            case "other ring":
                ring = KeyRing.load(env={"SAYSO_KEYS": new_key()})
                other = type(app._sign_ins._signed_in.clients["iam"])(office.provider, ring)
                url = other.authorization_url(hold.id, "mira", now=app.store.now())
                state = httpx2.URL(url).params["state"]
            case "issuer":
                more = {"iss": "https://evil.example"}
            case _:
                client = app._sign_ins._signed_in.clients["iam"]
                url = client.authorization_url(hold.id, "mira", now=app.store.now() - 3_600_000)
                state = httpx2.URL(url).params["state"]

        await refused(BadState, app.oauth_callback(state, back["code"], **more))
        await refused(BadState, app.oauth_callback(state, error="access_denied", **more))

        assert await run.view() == before
        assert await app.store.shelf.get("default", "credential", "iam/mira") is None
        # The code was never sent.
        await app.oauth_callback(back["state"], back["code"], by="mira")
        assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"


async def test_a_sign_in_is_for_the_person_it_asks(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app)
        _, hers = await begin(app, by="eve")

        await refused(NotAllowed, app.sign_in_url(hold, by="eve"))
        await refused(NotAllowed, app.sign_in_url(hold, by=Principal(kind="service", id="mira")))
        await refused(UnknownHold, app.sign_in_url("hold_nothing.1", by="mira"))
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await refused(NotAllowed, app.oauth_callback(back["state"], back["code"], by="eve"))
        denied = app.oauth_callback(back["state"], error="access_denied", by="eve")
        await refused(NotAllowed, denied)

        assert await app.store.shelf.list("default", "credential") == []
        await app.oauth_callback(back["state"], back["code"], by="mira")
        assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"
        # Eve has Mira sign in for her, with a link that was meant for Eve.
        lure = await office.sign_in(await app.sign_in_url(hers, by="eve"))
        await refused(NotAllowed, app.oauth_callback(lure["state"], lure["code"], by="mira"))
        assert (await app.hold(hers)).status == "open"
        assert await app.store.shelf.get("default", "credential", "iam/eve") is None


async def test_a_code_of_another_sign_in_leaves_the_hold_open(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app)
        first = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        other = httpx2.URL(await app.sign_in_url(hold, by="mira")).params["state"]

        mixed = app.oauth_callback(other, first["code"], by="mira")
        assert (await refused(SignInFailed, mixed)).code == "invalid_grant"
        await refused(SignInFailed, app.oauth_callback(first["state"], by="mira"))

        assert (await app.hold(hold)).status == "open"
        assert await run.status() == "suspended"
        await app.oauth_callback(first["state"], first["code"], by="mira")
        assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"


async def test_a_provider_that_is_down_leaves_the_hold_open(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        there, office.provider.token_url = office.provider.token_url, "http://127.0.0.1:1/token"

        error = await refused(SignInFailed, app.oauth_callback(back["state"], back["code"]))

        assert error.retryable
        assert (await app.hold(hold)).status == "open"
        office.provider.token_url = there
        await app.oauth_callback(back["state"], back["code"])
        assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"


async def test_who_does_not_consent_rejects_the_hold(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"), answer="deny")

        settled = await app.oauth_callback(back["state"], error=back["error"], by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)

        assert (settled.decision.word, settled.decision.channel) == ("rejected", "oauth")
        assert view.messages[2].outcome.reason == "mira did not sign in at iam"
        assert office.tokens == []


@pytest.mark.parametrize("code, retryable", [("temporarily_unavailable", True), ("s3cret", False)])
async def test_another_error_of_the_provider_leaves_the_hold_open(office, code, retryable):
    async with office.app("memory:") as app:
        _, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))

        error = await refused(SignInFailed, app.oauth_callback(back["state"], error=code))

        assert error.retryable is retryable
        assert "s3cret" not in str(error)
        assert (await app.hold(hold)).status == "open"


async def test_nobody_says_yes_to_a_sign_in_by_hand(office):
    async with office.app("memory:") as app:
        run, hold = await begin(app)

        error = await refused(WrongVerdict, app.decide(hold, approve(), by="mira"))
        await refused(WrongVerdict, app.decide(hold, approve(), by="mira", channel="oauth"))
        await refused(WrongVerdict, app.resume(hold.request_id, approve(), by="mira"))

        assert "app.sign_in_url" in str(error)
        assert (await app.hold(hold)).status == "open"
        await app.decide(hold, reject("not now"), by="mira")
        assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"
        assert office.tokens == []


async def test_one_sign_in_is_enough_for_all_that_wait_for_it(office, store):
    async with office.app(store) as app:
        one, hold = await begin(app)
        two, other = await begin(app)
        _, hers = await begin(app, by="ann")

        link = await app.sign_in_url(other, by="mira")
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")

        for run in (one, two):
            assert (await run.wait(final=True, timeout=WAIT_S)).status == "completed"
        assert (await app.hold(other)).decision.channel == "oauth"
        assert (await app.hold(hers)).status == "open"
        late = await office.sign_in(link)
        await refused(AlreadyDecided, app.oauth_callback(late["state"], late["code"], by="mira"))


async def test_a_sign_in_that_allows_less_leaves_the_others_waiting(office):
    async with office.app("memory:") as app:
        one, hold = await begin(app)
        two, wide = await begin(app, "my_address")

        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")

        assert (await one.wait(final=True, timeout=WAIT_S)).status == "completed"
        assert (await app.hold(wide)).status == "open"
        back = await office.sign_in(await app.sign_in_url(wide, by="mira"))
        await app.oauth_callback(back["state"], back["code"], by="mira")
        assert (await two.wait(final=True, timeout=WAIT_S)).status == "completed"


async def test_a_narrow_sign_in_takes_nothing_away_from_a_wide_one(office):
    async with office.app("memory:") as app:
        _, narrow = await begin(app, project="default")
        two, wide = await begin(app, "my_address my_address")
        shelf = app._sign_ins._signed_in

        back = await office.sign_in(await app.sign_in_url(wide, by="mira"))
        credential = await shelf.client("iam").exchange(
            back["code"], back["state"], now=app.store.now()
        )
        await shelf.keep("default", credential)
        url = await app.sign_in_url(narrow, by="mira")

        assert httpx2.URL(url).params["scope"] == "openid profile email"
        await app.oauth_callback(httpx2.URL(url).params["state"], "unused", by="mira")
        # The one sign-in is enough for both.
        assert (await two.wait(final=True, timeout=WAIT_S)).status == "completed"


async def test_a_crash_before_the_hold_was_settled_is_made_up_for(office, tmp_path):
    path = tmp_path / "office.db"
    async with office.app(path) as app:
        run, hold = await begin(app)
        back = await office.sign_in(await app.sign_in_url(hold, by="mira"))
        # What a process does before it dies: the code is used, the credential is kept.
        half = app._sign_ins._signed_in
        credential = await half.client("iam").exchange(
            back["code"], back["state"], now=app.store.now()
        )
        await half.keep("default", credential)
        item = await app.store.shelf.get("default", "credential", "iam/mira")
        assert (await app.hold(hold)).status == "open"

    async with office.app(path) as app:
        # The same code: it was used, so it must not be sent a second time.
        await app.oauth_callback(back["state"], back["code"], by="mira")
        view = await app.run(run.id).wait(final=True, timeout=WAIT_S)

        assert view.messages[2].outcome.result() == office.site.user.user_name
        assert await app.store.shelf.get("default", "credential", "iam/mira") == item
