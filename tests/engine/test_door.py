"""Whoever is refused is written down, a bounded number of times, and stays refused."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from sayso import Agent, OAuthProvider, Principal, approve, reject, tool
from sayso.engine import door
from sayso.errors import (
    AlreadyDecided,
    BadState,
    NotAllowed,
    NotUnderstood,
    NotWhatWasShown,
    StoreFull,
    UnknownHold,
    WrongVerdict,
)
from sayso.store import audit
from sayso.testing import call, say

from .kit import Delegate, Place, agent, completed, held

SECRET = "canary-4111-1111"


@tool(approval=True, effect="once")
def pay(amount: int, to: str) -> str:
    return "paid"


def teller() -> Agent:
    return agent([call("pay", {"amount": 1, "to": SECRET}), say("Paid.")], pay)


async def noted(app: Any) -> list[tuple[str, str, str, str]]:
    found = [one.attempt for one in await app.audit.refused(limit=500)]
    return [(one.verb, one.by, one.on, one.error) for one in found]


async def test_every_verb_that_is_refused_is_written_down(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", SECRET, by="mira", thread="t")
        hold = await held(run)
        for work in (
            app.decide(hold, approve(), by="eve"),
            app.resume(hold.request_id, approve(), by="eve"),
            app.say(run, SECRET, by="eve"),
            app.cancel(run, by="eve", reason=SECRET),
            app.command(run, "hurry", {"x": SECRET}, by="eve"),
            app.export(run, by="eve"),
            app.start("teller", SECRET, by="eve", thread="t"),
        ):
            with pytest.raises(NotAllowed):
                await work
        await app.decide(hold, approve(), by="mira", undo="5m")
        with pytest.raises(NotAllowed):
            await app.undo(hold, by="eve")
        await app.cancel(run, by="mira")
        with pytest.raises(NotAllowed):
            await app.redact(run, 1, by="eve")
        with pytest.raises(NotAllowed):
            await app.audit.retain("90d", by=Principal(kind="agent", id="teller"))

        assert await noted(app) == [
            ("decide", "eve", hold.id, "NotAllowed"),
            ("resume", "eve", hold.request_id, "NotAllowed"),
            ("say", "eve", run.id, "NotAllowed"),
            ("cancel", "eve", run.id, "NotAllowed"),
            ("command", "eve", run.id, "NotAllowed"),
            ("export", "eve", run.id, "NotAllowed"),
            ("start", "eve", "", "NotAllowed"),
            ("undo", "eve", hold.id, "NotAllowed"),
            ("redact", "eve", run.id, "NotAllowed"),
            ("retain", "agent:teller", "", "NotAllowed"),
        ]
        entries = await app.store.door.list()
        assert all(SECRET.encode() not in entry.payload for entry in entries)
        first = (await app.audit.refused(limit=1))[0]
        assert first.project == "default"
        assert first.at == place.clock.now()
        assert first.attempt.channel == "library"
        assert "eve may not decide" in first.attempt.message
        assert (await audit.verify(app.store)).refused == len(entries)


async def test_a_digest_of_something_else_is_written_down(place: Place):
    async with place.app(teller()) as app:
        hold = await held(await app.start("teller", "Pay.", by="mira"))

        with pytest.raises(NotWhatWasShown):
            await app.decide(hold.id, approve(), by="mira", digest="0" * 64)

        assert await noted(app) == [("decide", "mira", hold.id, "NotWhatWasShown")]


async def test_a_forged_sign_in_is_written_down_without_its_state(place: Place):
    mail = OAuthProvider(
        "mail",
        client_id="c",
        authorize_url="https://mail.example/authorize",
        token_url="https://mail.example/token",
        redirect_url="https://app.example/back",
    )
    async with place.app(teller(), providers=[mail]) as app:
        with pytest.raises(BadState):
            await app.oauth_callback(SECRET, "code", by="eve")

        assert await noted(app) == [("oauth_callback", "eve", "", "BadState")]
        assert SECRET.encode() not in (await app.store.door.list())[0].payload


async def test_what_says_nothing_about_who_asks_is_not_written_down(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", "Pay.", by="mira")
        hold = await held(run)
        with pytest.raises(WrongVerdict):
            await app.decide(hold, 7, by="mira")  # type: ignore[arg-type]
        with pytest.raises(UnknownHold):
            await app.decide("hold_nobody.1", approve(), by="mira")
        await app.decide(hold, approve(), by="mira")
        await completed(run)
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, reject(), by="mira")

        assert await noted(app) == []


async def test_who_tries_again_and_again_is_counted_and_not_written_down(place: Place):
    async with place.app(teller()) as app:
        run = await app.start("teller", "Pay.", by="mira")
        hold = await held(run)

        async def tries(count: int, by: str = "eve") -> None:
            for _ in range(count):
                with pytest.raises(NotAllowed):
                    await app.decide(hold, approve(), by=by)

        await tries(35)
        assert len(await noted(app)) == door.NOTES_MAX
        # Others, and other things, have their own.
        await tries(1, by="mallory")
        with pytest.raises(NotAllowed):
            await app.cancel(run, by="eve")
        assert len(await noted(app)) == door.NOTES_MAX + 2

        place.clock.advance("61s")
        await tries(1)

        last = [one.attempt for one in await app.audit.refused(limit=500)][-2:]
        assert last[0].missed == 15
        assert last[0].message == "15 more were not written down"
        assert (last[0].verb, last[0].by, last[1].verb) == ("decide", "eve", "decide")
        assert [one.status for one in await app.holds(by="mira")] == ["open"]


async def test_two_who_write_the_count_down_write_it_once(place: Place):
    async with place.app(teller(), work=False) as app:
        run = await app.start("teller", "Pay.", by="mira")
        keeper = door.DoorKeeper(app.store)
        for by in ("eve", "mallory"):
            for _ in range(door.NOTES_MAX + 3):
                who = Principal(id=by)
                await keeper.refused("cancel", NotAllowed("no"), by=who, on=run.id)
        place.clock.advance("61s")

        await asyncio.gather(keeper.flush(), keeper.flush())

        counts = [one.attempt.missed for one in await app.audit.refused(limit=500)]
        assert [count for count in counts if count] == [3, 3]


async def test_the_count_is_written_down_by_a_sweep_and_at_the_end(place: Place):
    async with place.app(teller(), work=False) as app:
        run = await app.start("teller", "Pay.", by="mira")
        for _ in range(22):
            with pytest.raises(NotAllowed):
                await app.cancel(run, by="eve")
        place.clock.advance("61s")
        await app.sweep()
        assert (await app.audit.refused(after=20))[0].attempt.missed == 2
        for _ in range(23):
            with pytest.raises(NotAllowed):
                await app.cancel(run, by="eve")
    async with place.app(teller(), work=False) as app:
        assert (await app.audit.refused(after=41))[0].attempt.missed == 3


async def test_all_together_are_bounded_as_well(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(door, "NOTES_MAX_OF_ALL", 30)
    async with place.app(teller(), work=False) as app:
        run = await app.start("teller", "Pay.", by="mira")
        for n in range(50):
            with pytest.raises(NotAllowed):
                await app.cancel(run, by=f"eve{n}")

        assert len(await noted(app)) == 30
        with pytest.raises(NotAllowed):
            await app.cancel(run, by="eve0")
        assert len(await noted(app)) == 30
        place.clock.advance("61s")
        await app.sweep()
        missed = {one.attempt.by: one.attempt.missed for one in await app.audit.refused(after=30)}
        assert missed == {"": 20, "eve0": 1}


async def test_a_clock_that_is_set_back_gives_nobody_a_longer_silence(place: Place):
    async with place.app(teller(), work=False) as app:
        run = await app.start("teller", "Pay.", by="mira")
        for _ in range(21):
            with pytest.raises(NotAllowed):
                await app.cancel(run, by="eve")
        place.clock.step_wall(-3_600_000)

        with pytest.raises(NotAllowed):
            await app.cancel(run, by="eve")

        assert len(await noted(app)) == 22


class BrokenDoor:
    async def note(self, project: str, payload: bytes) -> None:
        raise self.error

    def __init__(self, error: Exception) -> None:
        self.error = error


class BrokenStore(Delegate):
    error: Exception = StoreFull()

    @property
    def door(self) -> Any:
        return BrokenDoor(self.error)


@pytest.mark.parametrize("error", [StoreFull(), RuntimeError("what should not happen")])
async def test_a_log_that_fails_hides_no_refusal(
    place: Place, caplog: pytest.LogCaptureFixture, error: Exception
):
    def broken(store: Any) -> Any:
        wrapped = BrokenStore(store)
        wrapped.error = error
        return wrapped

    async with place.app(teller(), wrap=broken, work=False) as app:
        run = await app.start("teller", "Pay.", by="mira")

        with (
            caplog.at_level(logging.WARNING, "sayso"),
            pytest.raises(NotAllowed, match="only mira or an operator may"),
        ):
            await app.cancel(run, by="eve")

        assert "was not written down" in caplog.text
        assert (await run.view()).status == "running"


async def test_ids_that_somebody_made_up_are_kept_short(place: Place):
    store = await place.store()
    keeper = door.DoorKeeper(store)

    await keeper.refused("decide", NotAllowed("x" * 9000), on="\ud800" + "y" * 9000, channel="z")

    (entry,) = await store.door.list()
    await store.close()
    attempt = door.read_attempt(entry).attempt
    assert attempt.on == "?" + "y" * (door.TEXT_MAX - 1) + "... (9001 characters)"
    assert len(attempt.message) < 2 * door.TEXT_MAX
    assert attempt.by == ""


async def test_an_entry_of_another_version_is_not_half_understood(place: Place):
    async with place.app(work=False) as app:
        await app.store.door.note("p", b'{"verb":7}')

        with pytest.raises(NotUnderstood, match="entry 1 of the door log"):
            await app.audit.refused()


class Desk:
    """Two verbs, one of which does the other."""

    def __init__(self, keeper: door.DoorKeeper) -> None:
        self.door = keeper

    @door.guarded("outer")
    async def outer(self, on: str, *, by: Principal) -> None:
        await self.inner(on, by=by)

    @door.guarded("inner")
    async def inner(self, on: str, *, by: Principal) -> None:
        raise NotAllowed(f"{by} may not do this to {on}")


async def test_one_attempt_is_one_line(place: Place):
    store = await place.store()

    with pytest.raises(NotAllowed):
        await Desk(door.DoorKeeper(store)).outer("run_1", by=Principal(id="eve"))

    found = [door.read_attempt(entry).attempt.verb for entry in await store.door.list()]
    assert found == ["inner"]
    await store.close()
