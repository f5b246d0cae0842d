"""Who is signed in where, and what becomes of calls that need it; the provider says what it is told
to.
"""

import asyncio
import json
from urllib.parse import parse_qs, urlsplit

import pytest

from sayso import Agent, Context, OAuthProvider, Principal, Sayso, SignIn, approve, tool
from sayso.agents.credential import Credential, CredentialShelf
from sayso.agents.signed_in import MARGIN_MS
from sayso.engine.context import Tokens, Wanted
from sayso.engine.parts import Bounds
from sayso.errors import BadProvider, BadSetup, BadState, BadTool, SignInFailed, WrongVerdict
from sayso.store.keyring import KeyRing, new_key
from sayso.testing import FakeClock, ScriptedModel, call, say
from sayso.testing.contract import refused
from tests.agents.token_server import token_server

WAIT_S = 10
HOUR_MS = 3_600_000


def granted(token, **more):
    return json.dumps(
        {"token_type": "Bearer", "access_token": token, "expires_in": 3600, **more}
    ).encode()


@pytest.fixture
def server():
    with token_server() as told:
        yield told


@pytest.fixture
def provider(server):
    return OAuthProvider(
        "mail",
        authorize_url="https://mail.example/authorize",
        token_url=server.url,
        client_id="sayso",
        redirect_url="https://agent.example/back",
        scopes=["read"],
    )


@pytest.fixture
def clock():
    return FakeClock()


class Desk:
    """An agent with one tool that signs in, and the tokens that the tool was given."""

    def __init__(self, provider, clock, **options):
        self.tokens = []
        self.provider = provider
        self.clock = clock

        @tool(sign_in="mail", effect="once", **options)
        def send(ctx: Context) -> str:
            self.tokens.append(ctx.tokens["mail"])
            return "sent"

        self.send = send

    def app(self, *tools, turns=None, store="memory:", **options):
        turns = turns or [call("send", {}), say("Sent.")]
        agent = Agent("clerk", model=ScriptedModel(turns), tools=tools or [self.send])
        return Sayso(store, agents=[agent], providers=[self.provider], clock=self.clock, **options)


@pytest.fixture
def desk(provider, clock):
    return Desk(provider, clock)


async def have(app, **changes):
    """Let Mira be signed in."""
    facts = {
        "provider": "mail",
        "person": "mira",
        "scopes": ("read",),
        "access_token": "token-1",
        "refresh_token": "refresh-1",
        "expires_at": app.store.now() + HOUR_MS,
    }
    await app._sign_ins._signed_in.keep("default", Credential(**{**facts, **changes}))


async def kept(app):
    return (await app._sign_ins._signed_in._shelf.get("default", "mira", "mail")).credential


async def start(app, by="mira"):
    run = await app.start("clerk", "Send it.", by=by)
    return run, await run.wait(timeout=WAIT_S)


def state_of(url):
    return parse_qs(urlsplit(url).query)["state"][0]


async def test_who_is_signed_in_is_not_asked(desk, server):
    async with desk.app() as app:
        await have(app)
        _, view = await start(app)

    assert (view.status, desk.tokens, server.asked) == ("completed", ["token-1"], [])


async def test_a_credential_that_has_expired_is_refreshed(desk, server):
    server.body = granted("token-2", refresh_token="refresh-2")
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() + MARGIN_MS)
        _, view = await start(app)
        fresh = await kept(app)

    assert (view.status, desk.tokens) == ("completed", ["token-2"])
    assert (fresh.access_token, fresh.refresh_token) == ("token-2", "refresh-2")
    assert [form["refresh_token"] for form, _ in server.asked] == ["refresh-1"]


async def test_what_cannot_be_refreshed_is_used_to_its_end(desk, clock):
    async with desk.app() as app:
        await have(app, refresh_token=None, expires_at=app.store.now() + 1000)
        _, view = await start(app)
        assert view.status == "completed"

        clock.advance(1000)
        _, view = await start(app)

        assert (view.status, view.holds[0].kind) == ("suspended", "sign_in")


async def test_a_refresh_that_is_refused_asks_the_person(desk, server):
    server.status, server.body = 400, b'{"error": "invalid_grant"}'
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() - 1)
        run, view = await start(app)
        assert view.holds[0].kind == "sign_in"

        server.status, server.body = 200, granted("token-2")
        state = state_of(await app.sign_in_url(view.holds[0], by="mira"))
        await app.oauth_callback(state, "code-1", by="mira")

        assert (await run.wait(timeout=WAIT_S)).status == "completed"
        assert desk.tokens == ["token-2"]


async def test_a_provider_that_is_down_fails_the_call_and_asks_nobody(desk, provider):
    provider.token_url = "http://127.0.0.1:1/token"
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() - 1)
        _, view = await start(app)

    outcome = view.messages[2].outcome
    assert (view.status, outcome.error, desk.tokens) == ("completed", "SignInFailed", [])
    assert "cannot be reached" in outcome.message


async def test_a_provider_that_is_down_does_not_spoil_what_is_still_good(desk, provider):
    provider.token_url = "http://127.0.0.1:1/token"
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() + MARGIN_MS - 1000)
        _, view = await start(app)

    assert (view.status, desk.tokens) == ("completed", ["token-1"])


async def test_a_refresh_that_allows_less_takes_a_consent(provider, clock, server):
    desk = Desk(provider, clock)

    @tool(sign_in=SignIn(provider="mail", scopes=("send",)), effect="none")
    def post() -> str:
        return "posted"

    server.body = granted("token-2", scope="read")
    async with desk.app(post, turns=[call("post", {}), say("Posted.")]) as app:
        await have(app, scopes=("read", "send"), expires_at=app.store.now() - 1)
        _, view = await start(app)

    assert (view.holds[0].kind, view.holds[0].ask.scopes) == ("consent", ("read", "send"))


async def test_two_runs_refresh_once(desk, server):
    server.body = granted("token-2")
    server.ready.clear()
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() - 1)
        runs = [await app.start("clerk", "Send it.", by="mira") for _ in range(3)]
        while not server.asked:
            await asyncio.sleep(0.01)
        server.ready.set()
        views = [await run.wait(timeout=WAIT_S) for run in runs]

    assert [view.status for view in views] == ["completed"] * 3
    assert desk.tokens == ["token-2"] * 3
    assert len(server.asked) == 1


@pytest.mark.parametrize("status, body", [(200, granted("mine")), (400, b"{}")])
async def test_a_refresh_that_comes_second_gives_way(desk, server, status, body):
    server.status, server.body = status, body
    server.ready.clear()
    async with desk.app() as app:
        await have(app, expires_at=app.store.now() - 1)
        run = await app.start("clerk", "Send it.", by="mira")
        while not server.asked:
            await asyncio.sleep(0.01)
        # Another process was faster, and this one's token may be used up by that.
        await have(app, access_token="theirs", refresh_token="refresh-2")
        server.ready.set()
        view = await run.wait(timeout=WAIT_S)
        stands = await kept(app)

    assert (view.status, desk.tokens) == ("completed", ["theirs"])
    assert (stands.access_token, stands.refresh_token) == ("theirs", "refresh-2")


async def test_a_state_for_one_provider_is_none_for_another(desk, provider, server):
    other = OAuthProvider(
        "files",
        authorize_url="https://files.example/authorize",
        token_url=server.url,
        client_id="sayso",
        redirect_url="https://agent.example/back",
    )
    agent = Agent("clerk", model=ScriptedModel([call("send", {})]), tools=[desk.send])
    async with Sayso("memory:", agents=[agent], providers=[other, provider]) as app:
        _, view = await start(app)
        client = app._sign_ins._signed_in.client("files")
        url = client.authorization_url(view.holds[0].id, "mira", now=app.store.now())

        error = await refused(BadState, app.oauth_callback(state_of(url), "code-1", by="mira"))

        assert (error.reason, server.asked) == ("provider", [])
        assert (await app.hold(view.holds[0])).status == "open"


async def test_a_service_cannot_sign_in(desk):
    async with desk.app() as app:
        _, view = await start(app, by=Principal(kind="service", id="cron"))

    assert view.messages[2].outcome.error == "SignInFailed"
    assert "service:cron started the run" in view.messages[2].outcome.message


async def test_a_credential_whose_key_is_gone_is_replaced(desk, server, tmp_path):
    async with desk.app(store=tmp_path / "a.db") as app:
        ring = KeyRing.load(env={"SAYSO_KEYS": new_key()})
        old = Credential(provider="mail", person="mira", scopes=(), access_token="token-0")
        await CredentialShelf(app.store.shelf, ring).put("default", old, rev=0)
        run, view = await start(app)
        assert view.holds[0].kind == "sign_in"

        server.body = granted("token-1")
        state = state_of(await app.sign_in_url(view.holds[0], by="mira"))
        await app.oauth_callback(state, "code-1", by="mira")

        assert (await run.wait(timeout=WAIT_S)).status == "completed"
    assert desk.tokens == ["token-1"]


async def test_a_yes_to_the_call_does_not_stand_for_the_sign_in(provider, clock, server):
    desk = Desk(provider, clock, approval=True)
    server.body = granted("token-1")
    async with desk.app() as app:
        run, view = await start(app)
        assert view.holds[0].kind == "approval"
        await app.decide(view.holds[0], approve(), by="mira")

        view = await run.wait(timeout=WAIT_S)
        assert (view.holds[0].kind, desk.tokens) == ("sign_in", [])
        state = state_of(await app.sign_in_url(view.holds[0], by="mira"))
        await app.oauth_callback(state, "code-1", by="mira")
        view = await run.wait(timeout=WAIT_S)

    # The yes still counts: nobody is asked a second time.
    assert (view.status, desk.tokens) == ("completed", ["token-1"])


async def test_a_call_that_was_edited_can_be_signed_in_for(provider, clock, server):
    seen = []

    @tool(sign_in="mail", effect="once", approval=True)
    def send(ctx: Context, text: str) -> str:
        seen.append((text, ctx.tokens["mail"]))
        return "sent"

    desk = Desk(provider, clock)
    server.body = granted("token-1")
    async with desk.app(send, turns=[call("send", {"text": "a"}), say("Sent.")]) as app:
        run, view = await start(app)
        await app.decide(view.holds[0], approve(args={"text": "b"}), by="mira")
        view = await run.wait(timeout=WAIT_S)
        await refused(
            WrongVerdict, app.decide(view.holds[0], approve(args={"text": "c"}), by="mira")
        )
        state = state_of(await app.sign_in_url(view.holds[0], by="mira"))
        await app.oauth_callback(state, "code-1", by="mira")
        await run.wait(final=True, timeout=WAIT_S)

    assert seen == [("b", "token-1")]


async def test_a_sign_in_is_not_decided_together_with_others(desk, server):
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    server.body = granted("token-1")
    turns = [[call("send", {}), call("pay", {}), call("pay", {})], say("Done.")]
    agent = Agent("clerk", model=ScriptedModel(turns), tools=[desk.send, pay], resolve="together")
    async with Sayso("memory:", agents=[agent], providers=[desk.provider]) as app:
        run, view = await start(app)
        sign_in, *others = sorted(view.holds, key=lambda hold: hold.kind != "sign_in")
        assert (sign_in.kind, sign_in.together) == ("sign_in", False)
        assert all(hold.together for hold in others)

        state = state_of(await app.sign_in_url(sign_in, by="mira"))
        await app.oauth_callback(state, "code-1", by="mira")
        await app.resume(sign_in.request_id, approve(), by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)

    assert (view.status, desk.tokens) == ("completed", ["token-1"])


@pytest.mark.parametrize("stay_hot_s", [30.0, 0.0])
async def test_a_body_that_waited_goes_on_with_the_token_of_now(
    provider, clock, server, stay_hot_s
):
    seen = []

    @tool(sign_in="mail", durable=True)
    async def send(ctx: Context) -> str:
        seen.append(ctx.tokens["mail"])
        await ctx.approval("Send it?")
        seen.append(ctx.tokens["mail"])
        return "sent"

    server.body = granted("token-2")
    desk, bounds = Desk(provider, clock), Bounds(stay_hot_s=stay_hot_s)
    async with desk.app(send, bounds=bounds) as app:
        await have(app)
        run, view = await start(app)
        clock.advance(HOUR_MS)
        await app.decide(view.holds[0], approve(), by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)

    assert (view.status, seen[0], seen[-1]) == ("completed", "token-1", "token-2")


async def test_a_body_whose_person_is_gone_is_told_so_where_it_needs_them(provider, clock):
    @tool(sign_in="mail", durable=True)
    async def send(ctx: Context) -> str:
        await ctx.approval("Send it?")
        return ctx.tokens["mail"]

    desk = Desk(provider, clock)
    async with desk.app(send) as app:
        await have(app, refresh_token=None)
        run, view = await start(app)
        clock.advance(HOUR_MS)
        await app.decide(view.holds[0], approve(), by="mira")
        view = await run.wait(final=True, timeout=WAIT_S)

    assert view.messages[2].outcome.error == "SignInFailed"


class Fickle:
    """Says that somebody is signed in, and has no token of theirs when it comes to it."""

    def __init__(self):
        self.looks = 0

    async def missing(self, run, needed):
        self.looks += 1
        return None if self.looks == 1 else Wanted(ask=needed)

    async def token(self, run, needed):
        return None


async def test_a_call_without_its_token_is_not_sent_and_asks_again(desk):
    async with desk.app() as app:
        app._gate.sign_ins = Fickle()
        _, view = await start(app)
        journal = [entry.type for entry in await _journal(app, view.id)]

    assert (desk.tokens, view.holds[0].kind) == ([], "sign_in")
    assert "attempt.voided" in journal
    assert "call.doubted" not in journal


async def _journal(app, run_id):
    found = []
    async for entry in app.events(run_id):
        found.append(entry)
        if entry.type == "run.suspended":
            break
    return found


def test_a_tool_needs_a_provider_that_is_known(desk, provider):
    agent = Agent("clerk", model=ScriptedModel([say("Hi.")]), tools=[desk.send])

    with pytest.raises(BadTool, match=r"'send' needs a sign-in at 'mail'.*providers="):
        Sayso("memory:", agents=[agent])
    with pytest.raises(BadTool, match="'send' needs a sign-in"):
        Sayso("memory:", tools=[desk.send])
    with pytest.raises(BadProvider, match="two providers"):
        Sayso("memory:", providers=[provider, provider])
    with pytest.raises(BadProvider, match="is not a provider"):
        Sayso("memory:", providers=["mail"])
    with pytest.raises(BadProvider, match="a list of providers"):
        Sayso("memory:", providers=provider)


async def test_without_providers_nobody_signs_in(desk):
    async with Sayso("memory:") as app:
        await refused(BadSetup, app.sign_in_url("hold_1.1", by="mira"))
        await refused(BadSetup, app.oauth_callback("state", "code"))
        await refused(BadTool, app.gate(desk.send, {}, by="mira"))


async def test_only_a_sign_in_has_a_link(desk):
    @tool(approval=True)
    def pay() -> str:
        return "paid"

    async with desk.app(pay, turns=[call("pay", {}), say("Paid.")]) as app:
        _, view = await start(app)
        error = await refused(WrongVerdict, app.sign_in_url(view.holds[0], by="mira"))

    assert "asks 'approval'" in str(error)


@pytest.mark.parametrize(
    "sign_in", [1, SignIn(provider="mail", scopes="send"), SignIn(provider="mail", scopes=["a b"])]
)
def test_a_tool_says_in_words_that_can_be_where_it_signs_in(sign_in):
    with pytest.raises(BadTool, match="sign_in of the tool 'send'"):

        @tool(sign_in=sign_in)
        def send() -> str:
            return "sent"


def test_tokens_are_not_shown():
    tokens = Tokens({"mail": "s3cret"})

    assert f"{tokens} {tokens!r}" == "Tokens(mail) Tokens(mail)"
    with pytest.raises(SignInFailed, match="no token of 'other'"):
        tokens["other"]
