"""Who is let in, and for what: tokens, the local token, tokens of an identity provider."""

from __future__ import annotations

import base64
import hmac
import time

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from sayso import Principal, Sayso
from sayso.errors import BadSetup, BadValue
from sayso.server.app import create_app
from sayso.server.caller import Caller
from sayso.server.door import LocalWay
from sayso.server.jwt import JwtWay
from sayso.server.token import Tokens
from sayso.testing import FakeClock

from .conftest import Service, service

ISSUER, AUDIENCE = "https://id.example.com", "sayso"


@pytest.mark.parametrize(
    "credential",
    [None, "", "x", "sayso_", "sayso_" + "a" * 16 + "_" + "b" * 43, "local_x", "a.b.c", "é"],
)
async def test_without_a_good_credential_nobody_is_let_in(credential):
    async with service() as it:
        client = await it.bearing(None)
        headers = (
            [] if credential is None else [(b"authorization", f"Bearer {credential}".encode())]
        )

        answer = await client.get("/v1/me", headers=headers)

        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_two_credentials_are_none():
    async with service() as it:
        client = await it.client()
        one = client.headers.pop("authorization")

        answer = await client.get("/v1/me", headers=[("authorization", one)] * 2)

        assert answer.status_code == 401


async def test_a_token_ends_when_it_is_revoked_or_its_time_is_over():
    clock = FakeClock()
    async with Sayso("memory:", clock=clock) as sayso:
        it = Service(sayso, create_app(sayso), [], None)
        tokens = Tokens(sayso.store)
        mira = Principal(id="mira")
        first, text = await tokens.create(name="a", by=mira, project="default")
        _, short = await tokens.create(name="b", by=mira, project="default", expires="1h")
        assert await tokens.find(text)
        assert await tokens.find(short)

        await tokens.revoke(first.id, project="default")
        clock.advance(3_600_000)

        assert await tokens.find(text) is None
        assert await tokens.find(short) is None
        assert it.app is not None


async def test_the_store_has_no_token_in_it():
    async with Sayso("memory:") as sayso:
        tokens = Tokens(sayso.store)
        _, text = await tokens.create(name="a", by=Principal(id="mira"), project="default")
        secret = text.rsplit("_", 1)[1]

        kept = [item.data for item in await sayso.store.shelf.list("sayso:tokens", "token")]

        assert len(kept) == 1
        assert secret.encode() not in kept[0]


async def test_a_changed_secret_is_not_good():
    async with Sayso("memory:") as sayso:
        tokens = Tokens(sayso.store)
        _, text = await tokens.create(name="a", by=Principal(id="mira"), project="default")
        other = text[:-1] + ("A" if text[-1] != "A" else "B")

        assert await tokens.find(text) is not None
        assert await tokens.find(other) is None
        assert await tokens.find(text + "A") is None


@pytest.mark.parametrize("scope", ["decide", "admin"])
async def test_an_agent_has_no_credential_that_decides(scope):
    agent = Principal(id="bot", kind="agent")
    with pytest.raises(BadValue):
        Caller(by=agent, project="default", scopes=frozenset({scope}))
    async with Sayso("memory:") as sayso:
        with pytest.raises(BadValue):
            await Tokens(sayso.store).create(
                name="x", by=agent, project="default", scopes=["read", scope]
            )
        assert await Tokens(sayso.store).list("default") == []


async def test_a_local_token_is_good_on_this_machine_alone():
    async with service() as it:
        way = LocalWay(Principal(id="mira"), "default")
        it.app = create_app(it.sayso, ways=[way])

        near = await it.bearing(way.text)
        far = await it.bearing(way.text, peer="10.0.0.7")

        assert (await near.get("/v1/me")).json()["via"] == "local"
        assert (await far.get("/v1/me")).status_code == 401


class Provider:
    """An issuer whose keys can be changed."""

    def __init__(self):
        self.keys = {"k1": RSAKey.generate_key(2048, {"kid": "k1"})}
        self.fetched = 0
        self.gone = False
        self.at = ISSUER

    async def fetch(self, url):
        if self.gone:
            raise ValueError("gone")
        if url.endswith("/.well-known/openid-configuration"):
            return {"issuer": ISSUER, "jwks_uri": f"{self.at}/keys"}
        self.fetched += 1
        return KeySet(list(self.keys.values())).as_dict(private=False)

    def token(self, kid="k1", alg="RS256", key=None, **claims):
        now = int(time.time())
        said = {"iss": ISSUER, "aud": AUDIENCE, "sub": "mira", "exp": now + 600, "iat": now}
        said = {name: value for name, value in {**said, **claims}.items() if value is not None}
        return jwt.encode({"alg": alg, "kid": kid}, said, key or self.keys[kid], algorithms=[alg])


async def jwt_service(it, provider, now, **options):
    way = JwtWay(
        it.sayso,
        issuer=ISSUER,
        audience=AUDIENCE,
        fetch=provider.fetch,
        clock=lambda: now[0],
        **options,
    )
    it.app = create_app(it.sayso, ways=[way])


async def test_a_token_of_the_issuer_lets_its_person_in():
    async with service() as it:
        provider = Provider()
        await jwt_service(it, provider, [0.0])

        answer = await (await it.bearing(provider.token())).get("/v1/me")

        assert answer.json()["by"] == {"id": "mira", "kind": "person"}
        assert answer.json()["via"] == "jwt"


def signed_with_the_public_key(provider):
    """What a verifier takes that lets the token choose how it is verified."""
    parts = [b64(b'{"alg":"HS256","kid":"k1"}'), provider.token().split(".")[1]]
    pem = provider.keys["k1"].as_pem(private=False)
    parts.append(b64(hmac.new(pem, ".".join(parts).encode(), "sha256").digest()))
    return ".".join(parts)


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


FORGED = {
    "another issuer": lambda p: p.token(iss="https://evil.example.com"),
    "no issuer": lambda p: p.token(iss=None),
    "another audience": lambda p: p.token(aud="other"),
    "no audience": lambda p: p.token(aud=None),
    "over": lambda p: p.token(exp=1),
    "without an end": lambda p: p.token(exp=None),
    "not yet": lambda p: p.token(nbf=int(time.time()) + 3600),
    "without a person": lambda p: p.token(sub=None),
    "for a number": lambda p: p.token(sub=7),
    "an unseen person": lambda p: p.token(sub="mi\u200bra"),
    "a person with a blank": lambda p: p.token(sub="mira "),
    "a person in two ways": lambda p: p.token(sub="e\u0301va"),
    "an account in Slack": lambda p: p.token(sub="slack:U0BOSS"),
    "a long person": lambda p: p.token(sub="m" * 300),
    "another key": lambda p: p.token(key=RSAKey.generate_key(2048, {"kid": "k1"})),
    "a key that is not known": lambda p: p.token(
        kid="k9", key=RSAKey.generate_key(2048, {"kid": "k9"})
    ),
    "signed with the public key": signed_with_the_public_key,
    "not signed": lambda p: "eyJhbGciOiJub25lIn0." + p.token().split(".")[1] + ".",
    "cut": lambda p: p.token()[:-4],
    "changed": lambda p: p.token().replace(".", ".e", 1),
}


@pytest.mark.parametrize("what", FORGED)
async def test_a_token_that_is_not_good_lets_nobody_in(what):
    async with service() as it:
        provider = Provider()
        await jwt_service(it, provider, [0.0])

        answer = await (await it.bearing(FORGED[what](provider))).get("/v1/me")

        assert answer.status_code == 401


async def test_keys_are_changed_without_a_break_and_forged_ids_fetch_nothing():
    async with service() as it:
        provider, now = Provider(), [0.0]
        await jwt_service(it, provider, now)
        assert (await (await it.bearing(provider.token())).get("/v1/me")).status_code == 200

        for _ in range(5):
            forged = provider.token(kid="k9", key=RSAKey.generate_key(2048, {"kid": "k9"}))
            assert (await (await it.bearing(forged)).get("/v1/me")).status_code == 401
        assert provider.fetched == 1

        provider.keys = {"k2": RSAKey.generate_key(2048, {"kid": "k2"})}
        now[0] += 61
        assert (await (await it.bearing(provider.token(kid="k2"))).get("/v1/me")).status_code == 200
        assert provider.fetched == 2

        provider.gone = True
        now[0] += 4000
        assert (await (await it.bearing(provider.token(kid="k2"))).get("/v1/me")).status_code == 200


async def test_roles_come_from_the_newest_token():
    async with service() as it:
        provider, now = Provider(), int(time.time())
        await jwt_service(it, provider, [0.0], roles_claim="groups")

        async def enter(groups, iat):
            client = await it.bearing(provider.token(groups=groups, iat=iat))
            assert (await client.get("/v1/me")).status_code == 200
            return (await it.sayso.people.get("mira")).roles

        assert await enter(["finance"], now - 50) == ("finance",)
        assert await enter([], now - 10) == ()
        assert await enter(["finance"], now - 50) == (), "an older token has brought a role back"
        assert await enter([], now - 5) == ()
        assert await enter(["finance"], now - 8) == (), "the newest says what it said before"
        assert await enter(["ops", "ops"], now) == ("ops",)


async def test_keys_that_others_could_change_on_the_way_are_not_fetched():
    async with service() as it:
        provider = Provider()
        provider.at = "http://id.example.com"
        await jwt_service(it, provider, [0.0])

        assert (await (await it.bearing(provider.token())).get("/v1/me")).status_code == 401
        assert provider.fetched == 0


def test_an_issuer_is_reached_by_https():
    for issuer in ("http://id.example.com", "ftp://x", "id.example.com"):
        with pytest.raises(BadSetup):
            JwtWay(Sayso("memory:"), issuer=issuer, audience=AUDIENCE)
    with pytest.raises(BadSetup):
        JwtWay(Sayso("memory:"), issuer=ISSUER, audience="")
