import asyncio
import io

import msgspec
import pytest
from rich.console import Console
from rich.pretty import Pretty

from sayso.agents.credential import KIND, Credential, CredentialShelf, Kept
from sayso.errors import BadKeys, BadValue, NotUnderstood, StaleItem
from sayso.store.keyring import KeyRing, new_key
from sayso.store.memory import MemoryStore
from sayso.testing.contract import refused

ANN = Credential(
    provider="github",
    person="ann",
    scopes=("repo",),
    access_token="at-secret",
    refresh_token="rt-secret",
    expires_at=5000,
)
PLACE = {"project": "p", "person": "ann", "provider": "github"}


@pytest.fixture
def keys():
    return KeyRing.load(env={"SAYSO_KEYS": new_key()})


def test_tokens_are_never_shown():
    drawn = io.StringIO()
    Console(file=drawn).print(Pretty(ANN), ANN)

    for shown in (repr(ANN), str(ANN), f"{ANN}", repr(Kept(ANN, 1)), repr([ANN]), drawn.getvalue()):
        assert "ann" in shown
        assert "secret" not in shown


def test_a_credential_is_fresh_until_its_margin():
    assert ANN.is_fresh(4999)
    assert not ANN.is_fresh(5000)
    assert not ANN.is_fresh(4000, margin_ms=1000)
    assert msgspec.structs.replace(ANN, expires_at=None).is_fresh(10**15)


def test_what_is_sealed_comes_back_whole(keys):
    for credential in (ANN, msgspec.structs.replace(ANN, refresh_token=None, expires_at=None)):
        data = credential.seal(keys, "p")

        assert b"secret" not in data
        assert b"ann" not in data
        assert Credential.unseal(keys, data, **PLACE) == credential


@pytest.mark.parametrize("change", [{"project": "q"}, {"person": "bob"}, {"provider": "gitlab"}])
def test_a_sealed_credential_is_no_good_anywhere_else(keys, change):
    with pytest.raises(BadKeys):
        Credential.unseal(keys, ANN.seal(keys, "p"), **{**PLACE, **change})


def test_places_that_read_alike_when_joined_are_different(keys):
    tricky = msgspec.structs.replace(ANN, person='x","github')
    data = tricky.seal(keys, "p")

    with pytest.raises(BadKeys):
        Credential.unseal(keys, data, project='p","x', person="github", provider="github")


def test_sealed_nonsense_is_not_understood_and_not_quoted(keys):
    place = msgspec.json.encode(["p", "ann", "github"])
    for inside in (b"at-secret", b"{}", b'{"access_token": 7, "at-secret": 1}', b"\xff"):
        with pytest.raises(NotUnderstood) as caught:
            Credential.unseal(keys, keys.encrypt(KIND, inside, place), **PLACE)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None


async def test_a_credential_is_kept_for_its_project_person_and_provider(keys):
    shelf = CredentialShelf(MemoryStore().shelf, keys)
    kept = await shelf.put("p", ANN, rev=0)

    assert await shelf.get("p", "ann", "github") == kept == Kept(ANN, kept.rev)
    for place in (("q", "ann", "github"), ("p", "bob", "github"), ("p", "ann", "gitlab")):
        assert await shelf.get(*place) is None


async def test_what_is_on_the_shelf_is_sealed(keys):
    store = MemoryStore()
    await CredentialShelf(store.shelf, keys).put("p", ANN, rev=0)

    [item] = await store.shelf.list("p", KIND)

    assert b"secret" not in item.data
    with pytest.raises(BadKeys):
        await CredentialShelf(store.shelf, KeyRing.load(env={"SAYSO_KEYS": new_key()})).get(
            "p", "ann", "github"
        )


async def test_a_credential_moved_to_another_place_is_refused(keys):
    store = MemoryStore()
    await CredentialShelf(store.shelf, keys).put("p", ANN, rev=0)
    [item] = await store.shelf.list("p", KIND)
    await store.shelf.put("p", KIND, "github/eve", item.data, rev=0)

    await refused(BadKeys, CredentialShelf(store.shelf, keys).get("p", "eve", "github"))


async def test_of_two_refreshes_the_first_one_stands(keys):
    shelf = CredentialShelf(MemoryStore().shelf, keys)
    kept = await shelf.put("p", ANN, rev=0)
    fresh = [msgspec.structs.replace(ANN, access_token=f"at-{n}") for n in range(2)]

    told = await asyncio.gather(
        *(shelf.put("p", one, rev=kept.rev) for one in fresh), return_exceptions=True
    )

    assert [type(answer) for answer in told] == [Kept, StaleItem]
    assert await shelf.get("p", "ann", "github") == told[0]
    await refused(StaleItem, shelf.put("p", ANN, rev=0))


async def test_a_refresh_does_not_bring_back_what_was_dropped(keys):
    shelf = CredentialShelf(MemoryStore().shelf, keys)
    kept = await shelf.put("p", ANN, rev=0)

    await refused(StaleItem, shelf.drop("p", "ann", "github", rev=kept.rev + 1))
    await shelf.drop("p", "ann", "github")

    await refused(StaleItem, shelf.put("p", ANN, rev=kept.rev))
    assert await shelf.get("p", "ann", "github") is None
    await shelf.drop("p", "ann", "github")


async def test_a_person_who_cannot_be_named_is_refused(keys):
    shelf = CredentialShelf(MemoryStore().shelf, keys)
    for person in ("a\nb", "a" * 1000):
        await refused(BadValue, shelf.get("p", person, "github"))
        changed = msgspec.structs.replace(ANN, person=person)
        await refused(BadValue, shelf.put("p", changed, rev=0))
