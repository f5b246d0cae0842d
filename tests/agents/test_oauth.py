"""What is sent to a provider, what comes back, and what is made of it."""

import asyncio
import base64
import gzip
import hashlib
import json
import socket
import subprocess
import sys
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import msgspec
import pytest

from sayso.agents import oauth_token
from sayso.agents.credential import Credential
from sayso.agents.oauth import STATE_AGE_MAX_MS, STATE_CHARS_MAX, OAuthClient, StateFacts
from sayso.agents.oauth_provider import OAuthProvider
from sayso.errors import BadProvider, BadState, BadValue, SignInFailed
from sayso.store.keyring import KeyRing, new_key
from sayso.testing.contract import refused
from tests.agents.token_server import token_server

NOW = 1_700_000_000_000
KEYS = KeyRing.load(env={"SAYSO_KEYS": new_key()})
TOKEN = {"access_token": "at-1", "token_type": "Bearer", "expires_in": 3600}


def client(name="github", keys=KEYS, **changes):
    fields = {
        "authorize_url": "https://id.example/authorize",
        "token_url": "https://id.example/token",
        "client_id": "sayso",
        "redirect_url": "https://agent.example/back",
        "scopes": ["repo", "gist"],
        **changes,
    }
    return OAuthClient(OAuthProvider(name, **fields), keys)


def parameters(url):
    found = parse_qsl(urlsplit(url).query)
    assert len(dict(found)) == len(found)
    return dict(found)


def state_of(one, **changes):
    return parameters(one.authorization_url("hold_1", "mira", **{"now": NOW, **changes}))["state"]


@pytest.fixture
def server():
    with token_server() as told:
        told.body = json.dumps(TOKEN).encode()
        yield told


def sealed(data, keys=KEYS):
    body = base64.urlsafe_b64encode(data).rstrip(b"=").decode()
    return f"{body}.{keys.sign('oauth.state', body.encode())}"


def test_the_link_says_all_that_a_provider_needs():
    url = client(extra={"prompt": "consent"}).authorization_url("hold_1", "mira", now=NOW)
    asked = parameters(url)

    assert url.startswith("https://id.example/authorize?")
    assert len(asked.pop("state")) < STATE_CHARS_MAX
    assert len(asked.pop("code_challenge")) == 43
    assert asked == {
        "response_type": "code",
        "client_id": "sayso",
        "redirect_uri": "https://agent.example/back",
        "scope": "repo gist",
        "code_challenge_method": "S256",
        "prompt": "consent",
    }


def test_a_link_keeps_the_query_of_the_address():
    one = client(authorize_url="https://id.example/authorize?tenant=7")

    assert parameters(one.authorization_url("hold_1", "mira", now=NOW))["tenant"] == "7"


def test_scopes_can_be_named_or_left_out():
    named = client().authorization_url("hold_1", "mira", ["user"], now=NOW)
    none = client(scopes=()).authorization_url("hold_1", "mira", now=NOW)

    assert parameters(named)["scope"] == "user"
    assert "scope" not in parameters(none)
    for bad in ("repo", ["re po"]):
        with pytest.raises(BadProvider, match="scope"):
            client().authorization_url("hold_1", "mira", bad, now=NOW)


def test_only_an_openid_request_has_a_nonce():
    one = client()
    asked = parameters(one.authorization_url("hold_1", "mira", ["openid"], now=NOW))

    assert asked["nonce"] == one.read_state(asked["state"], now=NOW).nonce
    assert "nonce" not in parameters(one.authorization_url("hold_1", "mira", now=NOW))


def test_no_two_sign_ins_look_alike():
    urls = [parameters(client().authorization_url("h", "mira", now=NOW)) for _ in range(5)]

    assert len({asked["state"] for asked in urls}) == 5
    assert len({asked["code_challenge"] for asked in urls}) == 5


def test_a_state_says_what_the_sign_in_is_for():
    facts = client().read_state(state_of(client()), now=NOW + 5)

    assert facts == StateFacts(
        hold_id="hold_1",
        provider="github",
        person="mira",
        scopes=("repo", "gist"),
        nonce=facts.nonce,
        issued_at=NOW,
    )


def test_a_state_that_would_be_too_long_is_refused_before_anybody_is_sent_away():
    with pytest.raises(BadValue, match="too long"):
        client().authorization_url("h" * STATE_CHARS_MAX, "mira", now=NOW)


@pytest.mark.parametrize(
    "state",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c.d",
        "a b.c.d",
        "ü.b.c",
        "a" * 10_000,
        "a.b.\n",
        None,
        7,
        b"a.b.c",
    ],
)
def test_a_malformed_state_is_refused(state):
    with pytest.raises(BadState) as caught:
        client().read_state(state, now=NOW)

    assert caught.value.reason == "malformed"


def test_a_state_without_end_is_refused_before_it_is_looked_at():
    facts = client().read_state(state_of(client()), now=NOW)
    long = msgspec.structs.replace(facts, hold_id="h" * STATE_CHARS_MAX)

    with pytest.raises(BadState) as caught:
        client().read_state(sealed(msgspec.json.encode(long)), now=NOW)

    assert caught.value.reason == "malformed"


def test_a_forged_state_is_refused():
    body, key_id, mac = state_of(client()).split(".")
    other = KeyRing.load(env={"SAYSO_KEYS": new_key()})
    raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    eve = base64.urlsafe_b64encode(raw.replace(b"mira", b"eve!")).rstrip(b"=").decode()
    for state in (
        f"{eve}.{key_id}.{mac}",
        f"{body}.{key_id}.{mac[:-2]}AA",
        f"{body}.nobody.{mac}",
        f"{body}.{KEYS.sign('other purpose', body.encode())}",
        state_of(client(keys=other)),
    ):
        with pytest.raises(BadState) as caught:
            client().read_state(state, now=NOW)
        assert caught.value.reason == "forged"
        assert state not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'["hold_1"]', b"\xff", b"[" * 2000])
def test_a_state_that_another_version_signed_is_refused(data):
    with pytest.raises(BadState) as caught:
        client().read_state(sealed(data) if data else sealed(b"null"), now=NOW)

    assert caught.value.reason == "malformed"


def test_a_state_of_another_provider_is_refused():
    with pytest.raises(BadState) as caught:
        client().read_state(state_of(client("gitlab")), now=NOW)

    assert caught.value.reason == "provider"


@pytest.mark.parametrize("age", [STATE_AGE_MAX_MS + 1, -60_001])
def test_a_state_that_is_too_old_or_from_the_future_is_refused(age):
    with pytest.raises(BadState) as caught:
        client().read_state(state_of(client()), now=NOW + age)

    assert caught.value.reason == "expired"


def test_the_age_of_a_state_is_checked_to_the_millisecond():
    state = state_of(client())

    for age in (0, 100, -60_000):
        client().read_state(state, now=NOW + age, max_age_ms=100)
    with pytest.raises(BadState):
        client().read_state(state, now=NOW + 101, max_age_ms=100)


async def test_a_public_client_proves_itself_with_its_verifier(server):
    one = client(token_url=server.url)
    asked = parameters(one.authorization_url("hold_1", "mira", now=NOW))

    credential = await one.exchange("code-1", asked["state"], now=NOW)

    [(form, headers)] = server.asked
    verifier = form.pop("code_verifier")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest())
    assert challenge.rstrip(b"=").decode() == asked["code_challenge"]
    assert verifier not in asked.values()
    assert form == {
        "grant_type": "authorization_code",
        "code": "code-1",
        "redirect_uri": "https://agent.example/back",
        "client_id": "sayso",
    }
    assert "Authorization" not in headers
    assert credential == Credential(
        provider="github",
        person="mira",
        scopes=("repo", "gist"),
        access_token="at-1",
        expires_at=NOW + 3_600_000,
    )


async def test_a_client_with_a_secret_sends_it_in_the_header_alone(server):
    one = client(token_url=server.url, client_id="say so", client_secret="a:b+c%d ü")

    await one.exchange("code-1", state_of(one), now=NOW)

    [(form, headers)] = server.asked
    scheme, _, sent = headers["Authorization"].partition(" ")
    name, _, secret = base64.b64decode(sent).decode().partition(":")
    assert scheme == "Basic"
    assert (unquote_plus(name), unquote_plus(secret)) == ("say so", "a:b+c%d ü")
    assert set(form) == {"grant_type", "code", "redirect_uri", "code_verifier"}


@pytest.mark.parametrize(
    "said,scopes,expires_at",
    [
        ({"scope": "repo"}, ("repo",), None),
        ({"scope": "  b a  b "}, ("b", "a"), None),
        ({"scope": ""}, (), None),
        ({"scope": None}, ("repo", "gist"), None),
        ({"expires_in": 0}, ("repo", "gist"), NOW),
        ({"expires_in": "60"}, ("repo", "gist"), NOW + 60_000),
        ({"expires_in": 60.9}, ("repo", "gist"), NOW + 60_000),
        ({"token_type": "bearer"}, ("repo", "gist"), None),
    ],
)
async def test_what_was_granted_is_recorded(server, said, scopes, expires_at):
    answer = {"access_token": "at", "token_type": "Bearer", **said}
    server.body = json.dumps(answer).encode()
    one = client(token_url=server.url)

    credential = await one.exchange("code-1", state_of(one), now=NOW)

    assert (credential.scopes, credential.expires_at) == (scopes, expires_at)


async def test_a_lifetime_is_bounded(server):
    server.body = json.dumps({**TOKEN, "expires_in": 10**17}).encode()
    one = client(token_url=server.url)

    credential = await one.exchange("code-1", state_of(one), now=NOW)

    assert credential.expires_at == NOW + oauth_token.LIFETIME_S_MAX * 1000


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"null",
        b"[]",
        b"<html>",
        b"\xff\xfe",
        b'{"a":' * 5000,
        gzip.compress(json.dumps(TOKEN).encode(), mtime=0),
        {**TOKEN, "token_type": "mac"},
        {**TOKEN, "token_type": None},
        {**TOKEN, "token_type": ["Bearer"]},
        {"token_type": "Bearer"},
        {**TOKEN, "access_token": ""},
        {**TOKEN, "access_token": 7},
        {**TOKEN, "access_token": "at-1\r\nX-Evil: 1"},
        {**TOKEN, "access_token": "at-1 ü"},
        {**TOKEN, "access_token": "at-1" * 10_000},
        {**TOKEN, "refresh_token": "at-1\n"},
        {**TOKEN, "refresh_token": ""},
        {**TOKEN, "scope": ["repo"]},
        {**TOKEN, "expires_in": -1},
        {**TOKEN, "expires_in": True},
        {**TOKEN, "expires_in": "soon"},
        {**TOKEN, "expires_in": {}},
    ],
)
async def test_an_odd_answer_is_refused_and_not_quoted(server, said):
    server.body = said if isinstance(said, bytes) else json.dumps(said).encode()
    one = client(token_url=server.url)

    error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    assert not error.retryable
    assert "at-1" not in f"{error!r}{error.__dict__}"
    assert error.__cause__ is None
    assert error.__context__ is None


@pytest.mark.parametrize(
    "status,said,code,retryable",
    [
        (
            400,
            {"error": "invalid_grant", "error_description": "code-1 is spent"},
            "invalid_grant",
            0,
        ),
        (401, {"error": "invalid_client"}, "invalid_client", 0),
        (400, {"error": "code-1 is spent"}, None, 0),
        (400, {"error": {"code": "code-1"}}, None, 0),
        (200, {"error": "bad_verification_code", **TOKEN}, None, 0),
        (302, {}, None, 0),
        (204, {}, None, 0),
        (429, {}, None, 1),
        (500, {}, None, 1),
        (503, {"error": "code-1"}, None, 1),
        (503, {"error": "invalid_grant"}, "invalid_grant", 0),
    ],
)
async def test_a_refusal_says_why_in_the_standards_words_only(
    server, status, said, code, retryable
):
    server.status, server.body = status, json.dumps(said).encode()
    server.headers = {"location": server.url} if status == 302 else {}
    if status == 204:
        server.body = b""
    one = client(token_url=server.url, client_secret="hunter2")
    state = state_of(one)

    error = await refused(SignInFailed, one.exchange("code-1", state, now=NOW))

    assert (error.code, error.retryable) == (code, bool(retryable))
    [(form, _)] = server.asked
    for secret in ("code-1", "hunter2", form["code_verifier"], state):
        assert secret not in f"{error!r}{error.__dict__}"


async def test_a_provider_that_is_down_is_no_surprise():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/token"
        one = client(token_url=url, client_secret="hunter2")

        error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    assert error.retryable
    assert "cannot be reached" in str(error)
    assert error.__context__ is None
    assert not {"code-1", "hunter2"} & set(str(error).split())


async def test_a_provider_that_never_answers_is_given_up(server, monkeypatch):
    monkeypatch.setattr(oauth_token, "TIMEOUT_S", 0.05)
    server.ready.clear()
    one = client(token_url=server.url)

    error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    assert error.retryable


async def test_a_provider_that_answers_in_drops_is_given_up(server, monkeypatch):
    monkeypatch.setattr(oauth_token, "TIMEOUT_S", 0.2)
    server.drips = True
    one = client(token_url=server.url)

    error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    # Each drop comes in time, and there are not yet too many of them.
    assert error.retryable


async def test_an_answer_that_is_no_json_is_called_that(server):
    server.body = b"<html>"
    one = client(token_url=server.url)

    error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    assert "JSON" in str(error)


async def test_an_answer_without_end_is_given_up(server):
    server.body = b'{"a": "' + b"x" * (oauth_token.ANSWER_BYTES_MAX + 1) + b'"}'
    one = client(token_url=server.url)

    error = await refused(SignInFailed, one.exchange("code-1", state_of(one), now=NOW))

    assert "too large" in str(error)
    assert not error.retryable


async def test_whoever_waits_can_still_be_cancelled(server):
    server.ready.clear()
    one = client(token_url=server.url)
    task = asyncio.create_task(one.exchange("code-1", state_of(one), now=NOW))
    while not server.asked:
        await asyncio.sleep(0)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("code", ["", "a" * 5000, "a\nb", "ü", None, 7])
async def test_what_is_no_code_is_not_sent(server, code):
    one = client(token_url=server.url)

    await refused(SignInFailed, one.exchange(code, state_of(one), now=NOW))

    assert server.asked == []


async def test_a_state_that_cannot_be_used_sends_nothing(server):
    one, other = client(token_url=server.url), client("gitlab")

    for state, age in ((state_of(one), STATE_AGE_MAX_MS + 1), (state_of(other), 0), ("x", 0)):
        await refused(BadState, one.exchange("code-1", state, now=NOW + age))
    await refused(BadState, one.exchange("code-1", state_of(one), now=NOW + 101, max_age_ms=100))

    assert server.asked == []


async def test_an_issuer_is_compared_where_both_sides_name_one(server):
    known = client(token_url=server.url, issuer="https://id.example")
    unknown = client(token_url=server.url)

    for one, issuer in (
        (known, "https://id.example"),
        (known, None),
        (unknown, "https://x.example"),
    ):
        await one.exchange("code-1", state_of(one), now=NOW, issuer=issuer)
    bad = known.exchange("code-1", state_of(known), now=NOW, issuer="https://id.example.evil")
    assert (await refused(BadState, bad)).reason == "provider"
    assert len(server.asked) == 3


def credential(**changes):
    fields = {
        "provider": "github",
        "person": "mira",
        "scopes": ("repo",),
        "access_token": "at-0",
        "refresh_token": "rt-0",
        "expires_at": NOW,
        **changes,
    }
    return Credential(**fields)


async def test_a_refresh_keeps_what_the_provider_does_not_repeat(server):
    one = client(token_url=server.url)

    fresh = await one.refresh(credential(), now=NOW + 5)

    [(form, _)] = server.asked
    assert form == {"grant_type": "refresh_token", "refresh_token": "rt-0", "client_id": "sayso"}
    assert fresh == credential(access_token="at-1", expires_at=NOW + 5 + 3_600_000)


async def test_a_refresh_takes_what_the_provider_replaces(server):
    server.body = json.dumps({**TOKEN, "refresh_token": "rt-1", "scope": "user"}).encode()
    one = client(token_url=server.url)

    fresh = await one.refresh(credential(), now=NOW)

    assert (fresh.refresh_token, fresh.scopes) == ("rt-1", ("user",))


async def test_what_cannot_be_refreshed_is_not_sent(server):
    one = client(token_url=server.url)
    for bad in (credential(refresh_token=None), credential(provider="gitlab")):
        error = await refused(SignInFailed, one.refresh(bad, now=NOW))

        assert not error.retryable
    assert server.asked == []


async def test_nothing_is_taken_from_the_environment(server, monkeypatch, tmp_path):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login eve password eve\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    one = client(token_url=server.url)

    await one.exchange("code-1", state_of(one), now=NOW)

    assert "Authorization" not in server.asked[0][1]


def test_the_client_shows_no_secret():
    assert "hunter2" not in repr(client(client_secret="hunter2"))


def test_without_its_package_it_says_what_to_install():
    program = f"""
import asyncio, sys
sys.modules["httpx2"] = None
from sayso.agents.oauth import OAuthClient
from sayso.agents.oauth_provider import OAuthProvider
from sayso.errors import BadProvider
from sayso.store.keyring import KeyRing
keys = KeyRing.load(env={{"SAYSO_KEYS": {new_key()!r}}})
url = "https://id.example/"
provider = OAuthProvider("a", authorize_url=url, token_url=url, client_id="b", redirect_url=url)
one = OAuthClient(provider, keys)
state = one.authorization_url("hold_1", "mira", now=0).partition("state=")[2].partition("&")[0]
try:
    asyncio.run(one.exchange("code", state, now=0))
except BadProvider as error:
    print(error)
"""

    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert 'pip install "sayso[oauth]"' in said.stdout, said.stderr


def test_a_state_is_compact():
    facts = client().read_state(state_of(client()), now=NOW)

    assert msgspec.json.encode(facts).startswith(b'["hold_1","github","mira",')
