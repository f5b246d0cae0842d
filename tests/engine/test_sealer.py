"""Seals are made by whoever sweeps: now and then, of what is new, and never in anybody's way."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import apsw
import pytest

from sayso import Bounds, approve, tool
from sayso.engine import sealer as module
from sayso.engine.sealer import Sealer
from sayso.engine.vault import Vault
from sayso.errors import BadKeys, BadValue, StoreFull
from sayso.given import load_keys
from sayso.store import audit
from sayso.store.keyring import KeyRing
from sayso.store.seal_key import public_keys
from sayso.testing import call, say
from sayso.testing.contract import write

from .kit import Delegate, Place, agent, completed, held, until

BY_HAND = Bounds(look_s=600.0)


@tool(approval=True, effect="once")
def pay(amount: int) -> str:
    return "paid"


def teller():
    return agent([call("pay", {"amount": 1}), say("Paid.")], pay)


async def pay_once(app: Any) -> None:
    run = await app.start("teller", "Pay.", by="mira")
    await app.decide(await held(run), approve(), by="mira")
    await completed(run)


async def seals(app: Any) -> int:
    return len(await app.store.seals.list())


async def test_a_sweep_seals_what_is_new_at_most_every_minute(place: Place):
    async with place.app(teller(), bounds=BY_HAND) as app, place.app(work=False) as other:
        await app.audit.key()
        await pay_once(app)

        await other.sweep()
        assert await seals(app) == 1
        await pay_once(app)
        await other.sweep()
        place.clock.advance("59s")
        await other.sweep()
        assert await seals(app) == 1
        place.clock.advance("1s")
        await other.sweep()
        assert await seals(app) == 2
        place.clock.advance("1h")
        await other.sweep()
        await other.sweep()

        assert await seals(app) == 2
        report = await app.audit.verify()
        assert report.ok, report.faults
        assert report.sealed == report.entries


async def test_the_sweeper_of_a_worker_seals_by_itself(place: Place):
    bounds = Bounds(look_s=0.01, seal_every_s=5.0)
    async with place.app(teller(), bounds=BY_HAND) as app:
        await app.audit.key()
        await pay_once(app)
    async with place.app(teller(), bounds=bounds) as app:
        # It has looked many times by then, and what somebody waits for comes first.
        await pay_once(app)
        assert await seals(app) == 0

        place.clock.advance("5s")

        await until(lambda: seals(app), "a seal")


async def test_a_refusal_alone_is_sealed_as_well(place: Place):
    async with place.app(work=False) as app:
        await app.audit.seal()
        await app.store.door.note("p", b"{}")

        seal = await app.audit.seal()

        assert seal is not None
        assert (seal.count, seal.first, seal.last, seal.refused) == (0, 1, 0, 1)
        assert (await app.audit.verify()).ok
        assert await app.audit.seal() is None


async def test_without_a_key_nothing_is_sealed_and_that_is_said_once(
    file_place: Place, caplog: pytest.LogCaptureFixture
):
    async with file_place.app(teller(), bounds=Bounds(look_s=0.005, seal_every_s=0.001)) as app:
        await pay_once(app)
        with caplog.at_level(logging.WARNING, "sayso"):
            for _ in range(5):
                file_place.clock.advance(10)
                await app.sweep()

        said = [record.message for record in caplog.records if "sealed" in record.message]
        assert len(said) == 1
        assert "SAYSO_KEYS" in said[0]
        assert "`sayso audit key STORE` makes a key" in said[0]
        assert not file_place.path.with_name("sayso.db.keys").exists()
        assert await seals(app) == 0

        await app.audit.key()
        file_place.clock.advance(10)
        await app.sweep()
        assert await seals(app) == 1


async def test_a_seal_that_cannot_be_read_stops_the_sealer_and_not_the_sweeper(
    file_place: Place, caplog: pytest.LogCaptureFixture
):
    async with file_place.app(teller(), bounds=BY_HAND) as app:
        await pay_once(app)
        await app.audit.seal()
        conn = apsw.Connection(str(file_place.path))
        conn.execute("drop trigger a_seal_is_never_changed; update seals set data = x'00'")
        conn.close()
        run = await app.start("teller", "Pay.", by="mira")
        await held(run)
        file_place.clock.advance("2m")

        with caplog.at_level(logging.WARNING, "sayso"):
            await app.sweep()

        assert "nothing is sealed" in caplog.text
        assert await seals(app) == 1
        assert "seal 1 cannot be read" in str((await app.audit.verify()).faults)


class FullSeals:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def put(self, seal: Any) -> None:
        raise StoreFull


class FullStore(Delegate):
    @property
    def seals(self) -> Any:
        return FullSeals(self.inner.seals)


async def test_a_store_that_takes_no_seal_does_not_fail_a_sweep(
    place: Place, caplog: pytest.LogCaptureFixture
):
    async with place.app(teller(), bounds=BY_HAND) as app:
        await app.audit.key()
        await pay_once(app)
    ring = KeyRing({"k": b"k" * 32})
    store = FullStore(await place.store())
    sealer = Sealer(store, Vault(lambda: ring), 60)  # type: ignore[arg-type]

    with caplog.at_level(logging.WARNING, "sayso"):
        assert await sealer.seal_if_due() is None

    assert "nothing is sealed" in caplog.text
    if place.kind == "sqlite":
        await store.inner.close()


async def test_a_long_journal_is_sealed_piece_by_piece(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "ENTRIES_MAX", 3)
    async with place.app(work=False) as app:
        await app.store.append(write("run_a", count=7))
        await app.audit.key()
        sealer = Sealer(app.store, Vault(lambda: load_keys(app.store)), 60)

        first = await sealer.seal_if_due()
        second = await sealer.seal_if_due()
        last = await app.audit.seal()

        assert first is not None
        assert second is not None
        assert last is not None
        assert (second.first, second.last, second.count) == (4, 6, 3)
        assert (first.first, first.last, first.count) == (1, 3, 3)
        assert (last.n, last.first, last.last, last.count) == (3, 7, 7, 1)
        report = await audit.verify(app.store, trusted=public_keys(load_keys(app.store)))
        assert (report.seals, report.sealed) == (3, 7)


async def test_several_who_seal_at_once_make_one_chain(file_place: Place):
    async with file_place.app(work=False) as one, file_place.app(work=False) as two:
        await one.audit.key()
        for after in range(5):
            await one.store.append(write("run_a", after=after))
            await asyncio.gather(*(app.audit.seal() for app in (one, two) for _ in range(3)))

        ring = load_keys(one.store)
        report = await audit.verify(two.store, trusted=public_keys(ring))
        assert (report.seals, report.sealed) == (5, 5)
        assert not [fault for fault in report.faults if not fault.run_id]


async def test_copies_are_added_to_and_checked(file_place: Place):
    out = file_place.path.with_name("copies")
    async with file_place.app(teller(), bounds=BY_HAND) as app:
        for _ in range(2):
            await pay_once(app)
            await app.audit.seal(out=out)
        await pay_once(app)
        await app.audit.seal()
        await app.audit.seal(out=out)

        assert len(out.read_bytes().splitlines()) == 3
        assert out.stat().st_mode & 0o777 == 0o600
        assert (await app.audit.verify(seals=out)).ok
        assert (await app.audit.verify(seals=str(out), keys=[await app.audit.key()])).ok
        distrusted = await app.audit.verify(seals=out, keys=["ab" * 32])
        assert len(distrusted.faults) == 3
        with pytest.raises(BadKeys, match="64 hexadecimal"):
            await app.audit.verify(keys=["ab"])


async def test_a_file_of_another_store_is_not_added_to(file_place: Place):
    out = file_place.path.with_name("copies")
    async with file_place.app(teller(), bounds=BY_HAND) as app:
        await pay_once(app)
        await app.audit.seal(out=out)
        whole = out.read_bytes()
        for content in (
            whole[:-1],
            whole[:-40] + b"\n",
            b"{}\n",
            whole.replace(b'"n":1', b'"n":9'),
        ):
            out.write_bytes(content)
            with pytest.raises(BadValue):
                await app.audit.seal(out=out)
            assert out.read_bytes() == content
        changed = whole.replace(b'"count":', b'"count":1')
        out.write_bytes(changed)
        with pytest.raises(BadValue, match="another seal 1 than the store"):
            await app.audit.seal(out=out)
        assert out.read_bytes() == changed


async def test_verifying_makes_no_key(file_place: Place):
    async with file_place.app(teller(), bounds=BY_HAND) as app:
        await pay_once(app)

        assert (await app.audit.verify()).ok

        assert not file_place.path.with_name("sayso.db.keys").exists()
        await app.audit.seal()
        file_place.path.with_name("sayso.db.keys").unlink()
    async with file_place.app(work=False) as app:
        report = await app.audit.verify()
        assert "no key to check them with" in str(report.faults)
