"""Signing in at a real provider, from the link to a token that works."""

import httpx2
import pytest

from sayso.agents.credential import CredentialShelf
from sayso.agents.oauth import STATE_AGE_MAX_MS, OAuthClient
from sayso.errors import BadState, SignInFailed, StaleItem
from sayso.store.keyring import KeyRing, new_key
from sayso.store.memory import MemoryStore
from sayso.testing.contract import refused
from tests.oauth.browser import BACK, NOW

# One worker, so that there is one provider.
pytestmark = pytest.mark.xdist_group("oauth")


@pytest.mark.parametrize("secret", ["s3cret-of-sayso", None])
async def test_a_person_signs_in_and_consents(site, secret):
    client = site.client(secret=secret)

    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    facts = client.read_state(back["state"], now=NOW)
    credential = await client.exchange(
        back["code"], back["state"], now=NOW + 1000, issuer=back["iss"]
    )

    assert (facts.hold_id, facts.person, facts.provider) == ("hold_1", "mira", "iam")
    assert (credential.provider, credential.person) == ("iam", "mira")
    assert credential.scopes == ("openid", "profile")
    assert credential.expires_at > NOW
    assert site.userinfo(credential).json()["sub"] == site.user.user_name


async def test_another_process_finishes_what_one_began_after_a_rotation(site):
    client = site.client()
    old, new = new_key(), new_key()
    began = OAuthClient(client.provider, KeyRing.load(env={"SAYSO_KEYS": old}))
    finishes = OAuthClient(client.provider, KeyRing.load(env={"SAYSO_KEYS": f"{new},{old}"}))

    back = site.sign_in(began.authorization_url("hold_1", "mira", now=NOW))
    credential = await finishes.exchange(back["code"], back["state"], now=NOW)

    assert site.userinfo(credential).status_code == 200


async def test_a_code_is_no_good_with_the_state_of_another_sign_in(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    other = client.authorization_url("hold_2", "eve", now=NOW)
    other_state = httpx2.URL(other).params["state"]

    error = await refused(SignInFailed, client.exchange(back["code"], other_state, now=NOW))

    assert error.code == "invalid_grant"
    assert "400" in str(error)
    assert not error.retryable
    assert back["code"] not in str(error)


async def test_the_provider_refuses_a_wrong_verifier(site):
    client = site.client(secret=None)
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))

    form = {
        "grant_type": "authorization_code",
        "client_id": client.provider.client_id,
        "code": back["code"],
        "redirect_uri": BACK,
        "code_verifier": "w" * 43,
    }
    answer = httpx2.post(client.provider.token_url, data=form, trust_env=False)

    # What the other tests rest on: this provider does look at the challenge.
    assert answer.status_code == 400


async def test_a_code_is_good_once(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    await client.exchange(back["code"], back["state"], now=NOW)

    error = await refused(SignInFailed, client.exchange(back["code"], back["state"], now=NOW))

    assert error.code == "invalid_grant"


async def test_a_forged_or_late_state_never_reaches_the_provider(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    state, late = back["state"], NOW + STATE_AGE_MAX_MS + 1
    forged = ("A" if state[0] != "A" else "B") + state[1:]

    assert (await refused(BadState, client.exchange(back["code"], forged, now=NOW))).reason == (
        "forged"
    )
    assert (await refused(BadState, client.exchange(back["code"], state, now=late))).reason == (
        "expired"
    )
    wrong = client.exchange(back["code"], state, now=NOW, issuer="https://evil.example")
    assert (await refused(BadState, wrong)).reason == "provider"
    # The code is still good, so nothing was sent.
    await client.exchange(back["code"], state, now=NOW)


async def test_the_scopes_of_one_request_are_asked_for_and_recorded(site):
    client = site.client()

    back = site.sign_in(client.authorization_url("hold_1", "mira", ["openid", "email"], now=NOW))
    credential = await client.exchange(back["code"], back["state"], now=NOW)

    assert credential.scopes == ("openid", "email")
    assert "email" in site.userinfo(credential).json()


async def test_a_person_who_denies_brings_no_code_back(site):
    client = site.client()

    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW), answer="deny")

    assert back["error"] == "access_denied"
    assert client.read_state(back["state"], now=NOW).hold_id == "hold_1"


async def test_a_wrong_secret_is_refused_and_never_shown(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    client.provider.client_secret = "not-the-s3cret"

    error = await refused(SignInFailed, client.exchange(back["code"], back["state"], now=NOW))

    assert error.code == "invalid_client"
    assert "s3cret" not in f"{error!r}{error.__dict__}"


async def test_a_refreshed_credential_works_and_only_one_refresh_is_kept(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    shelf = CredentialShelf(MemoryStore().shelf, site.keys)
    first = await client.exchange(back["code"], back["state"], now=NOW)
    kept = await shelf.put("p", first, rev=0)

    fresh = await client.refresh(kept.credential, now=NOW + 5000)
    await shelf.put("p", fresh, rev=kept.rev)

    assert fresh.access_token != first.access_token
    assert (fresh.person, fresh.provider, fresh.scopes) == ("mira", "iam", first.scopes)
    assert site.userinfo(fresh).status_code == 200
    await refused(StaleItem, shelf.put("p", first, rev=kept.rev))
    assert (await shelf.get("p", "mira", "iam")).credential == fresh


async def test_a_refresh_that_the_provider_does_not_know_is_refused(site):
    client = site.client()
    back = site.sign_in(client.authorization_url("hold_1", "mira", now=NOW))
    first = await client.exchange(back["code"], back["state"], now=NOW)
    stolen = type(first)(
        provider="iam", person="mira", scopes=(), access_token="x", refresh_token="made-up-token"
    )

    error = await refused(SignInFailed, client.refresh(stolen, now=NOW))

    assert error.code == "invalid_grant"
    assert "made-up-token" not in f"{error!r}{error.__dict__}"
