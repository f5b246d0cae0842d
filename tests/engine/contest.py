"""Races for one hold between people, the clock and whoever keeps their records.

Each race has people of its own, so that many can be run at once on one store. What everybody was
told is kept, and held against the journal afterwards: `Race.check` says what would have been a lie.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

from sayso import Agent, Always, Context, Policy, Rule, Sayso, approve, errors, reject, role, tool
from sayso.domain import codec
from sayso.domain.people import PERSON
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    HoldExpired,
    NotAllowed,
    NotWhatWasShown,
    Refused,
    RunFinished,
    WrongVerdict,
)
from sayso.testing import ScriptedModel, call, say

from .kit import Place, World, finished, held, journal

ACTS = (
    "approve_a",
    "approve_b",
    "vote",
    "lead",
    "reject",
    "cancel",
    "edit",
    "undo",
    "revoke_role",
    "deactivate",
    "reassign",
)
GRANT_ACTS = ("use", "use", "use", "revoke_grant", "revoke_role", "deactivate")
QUORUMS = {"one": 1, "two": 2, "eyes": 1}
USES = 2
LATE, OVER = "20m", "1h"


def policy() -> Policy:
    """One rule an agent: one person, two persons, others than who asked for it; and grants."""
    words: dict[str, Any] = {"approvers": [role("finance")], "within": OVER}
    later: dict[str, Any] = {"escalate_after": LATE, "escalate_to": [role("lead")]}

    def rule(name: str, **more: Any) -> Rule:
        return Rule("pay", when=lambda c: c.agent == name, **words, **more)

    return Policy(
        rule("one", **later),
        rule("two", quorum=2, **later),
        rule("eyes", not_requester=True, **later),
        rule("granted"),
    )


def agents(world: World) -> list[Agent]:
    """Agents that pay what their input says, and no more."""

    @tool(effect="once")
    async def pay(ctx: Context, n: int) -> str:
        world.act(ctx, {"n": n})
        return "paid"

    def script(messages: Any) -> Any:
        return call("pay", {"n": int(messages[0].text)}) if len(messages) == 1 else say("Done.")

    names = (*QUORUMS, "granted")
    return [Agent(name, model=ScriptedModel(script), tools=[pay]) for name in names]


class Records:
    """Changes people's records, and remembers what each version of them said."""

    def __init__(self, app: Sayso) -> None:
        self.app = app
        self.versions: dict[tuple[str, int], tuple[tuple[str, ...], bool]] = {}

    async def put(self, name: str, **words: Any) -> None:
        person = await self.app.people.put(name, **words)
        item = await self.app.store.shelf.get("default", PERSON, name)
        # Nobody else changes this person: what is there is what was just put.
        assert item is not None
        self.versions[name, item.rev] = (person.roles, person.active)

    def check(self, event: Any, *, at_least: int) -> None:
        """Assert that a call started on the records of as many as it takes, who all may."""
        persons = {one.person for one in event.basis}
        assert len(persons) >= at_least, f"{event.call} started on {persons}, not {at_least}"
        for one in event.basis:
            roles, active = self.versions[one.person, one.rev]
            assert active, f"{one.person} was shut out at {one.rev}"
            assert {"finance", "lead"} & set(roles), f"{one.person} had no role at {one.rev}"


class Race:
    """One hold, and all who want something of it."""

    def __init__(self, app: Sayso, records: Records, n: int, chance: random.Random) -> None:
        self.app, self.records, self.n = app, records, n
        self.flavour = chance.choice(list(QUORUMS))
        self.acts = chance.sample(ACTS, chance.randint(2, 6))
        self.told: dict[str, Any] = {}
        self.hold: Any = None
        self.run: Any = None

    def who(self, name: str) -> str:
        return "lea" if name == "lea" else f"{name}{self.n}"

    async def begin(self) -> None:
        for name in ("ann", "bob", "cleo", "dora"):
            await self.records.put(self.who(name), roles=["finance"])
        self.run = await self.app.start(self.flavour, str(self.n), by="mira")
        self.hold = await held(self.run)

    async def do(self, act: str) -> None:
        """Do one thing, and keep what was said to it."""
        deeds: dict[str, Callable[[], Awaitable[Any]]] = {
            "approve_a": lambda: self._decide(approve(), "ann"),
            "approve_b": lambda: self._decide(approve(), "bob"),
            "vote": lambda: self._decide(approve(), "cleo"),
            "lead": lambda: self._decide(approve(), "lea"),
            "reject": lambda: self._decide(reject("no"), "dora"),
            "edit": lambda: self._decide(approve(args={"n": self.n + 1}), "cleo"),
            "cancel": lambda: self.app.cancel(self.run, by="mira"),
            "undo": lambda: self.app.undo(self.hold, by=self.who("ann")),
            "revoke_role": lambda: self.records.put(self.who("ann"), roles=[]),
            "deactivate": lambda: self.records.put(self.who("bob"), active=False),
            "reassign": lambda: self.app.reassign(
                self.hold, to=self.who("dora"), by=self.who("cleo")
            ),
        }
        try:
            self.told[act] = await deeds[act]()
        except Refused as error:
            self.told[act] = error

    async def _decide(self, verdict: Any, name: str) -> Any:
        return await self.app.decide(self.hold, verdict, by=self.who(name))

    async def end(self) -> None:
        """Bring the run to its end, whatever is left of it."""
        while not (view := await self.run.wait(timeout=20)).status.startswith(("c", "f")):
            for hold in view.holds:
                try:
                    by = hold.approvers[0].removeprefix("user:")
                    last = "zed" if by.startswith("role:") else by
                    await self.app.decide(hold, reject("enough"), by=last)
                except AlreadyDecided:
                    continue
        await finished(self.run)

    async def check(self, world: World, now: int) -> Counter[str]:
        """Hold what everybody was told against what happened; say what did happen."""
        self.events = await journal(self.app.store, self.run.id)
        self.stands = (await self.app.hold(self.hold.id)).decision
        assert self.stands is not None
        for act, told in self.told.items():
            self._check_told(act, told, now)
        starts = [one.event for one in self.events if one.type == "call.started"]
        # One that the clock has overtaken is not sent, and starts again; the judge sees to that.
        void = len([one for one in self.events if one.type == "attempt.voided"])
        assert len(starts) - void in (0, 1), [one.type for one in self.events]
        for start in starts:
            self.records.check(start, at_least=QUORUMS[self.flavour])
        paid = len(world.effects(self.hold.call_id))
        assert paid == len(starts) - void, "an effect without a start, or a start without one"
        return self._reached(bool(starts))

    def _check_told(self, act: str, told: Any, now: int) -> None:
        name = f"{act} of {self.run.id} ({self.flavour}: {', '.join(self.acts)}): {told!r}"
        deadline_ms = int(self.hold.deadline.timestamp() * 1000)
        said = [one.event.decision for one in self._of("vote.cast", "hold.settled")]
        match told:
            case HoldExpired():
                assert now >= deadline_ms, name
                assert self.stands.word == "expired", name
            case AlreadyDecided():
                # The decision that stands, or a vote of the same person.
                mine = told.decision in said and told.decision.by.id == self._actor(act)
                same = (told.decision.verdict, told.decision.by)
                assert mine or same == (self.stands.verdict, self.stands.by), name
            case NotWhatWasShown():
                assert self._of("hold.revised"), name
            case NotAllowed():
                assert self._may_be_kept_out(act), name
            case CannotUndo():
                assert act == "undo", name
            case RunFinished():
                assert act == "cancel", name
            case WrongVerdict():
                assert act == "reassign", name
            case Refused():
                raise AssertionError(f"nobody should be told that: {name}")
            case _ if act in ("approve_a", "approve_b", "vote", "lead", "reject", "edit"):
                # Who was told that it is done has left a word in the journal.
                by = self._actor(act)
                left = by in [one.by.id for one in said]
                edited = [one.event.by.id for one in self._of("hold.revised")]
                assert left or (act == "edit" and by in edited), name
                if told.decision is not None:
                    assert told.decision.verdict == self.stands.verdict, name
                    assert told.decision.by == self.stands.by, name
            case _:
                pass

    def _may_be_kept_out(self, act: str) -> bool:
        """Tell whether there is a reason why somebody may not do what they wanted to."""
        handed = bool(self._of("hold.reassigned"))
        match act:
            case "approve_a":
                return handed or "revoke_role" in self.told
            case "approve_b":
                return handed or "deactivate" in self.told
            case "lead":
                # Who is asked later is not asked before, nor of what was asked anew by an edit.
                return True
            case "vote" | "edit" | "reassign":
                edits = self.flavour == "eyes" and bool(self._of("hold.revised"))
                return handed or edits
            case "undo":
                return self.stands.by.id != self._actor(act)
            case _:
                return False

    def _actor(self, act: str) -> str:
        names = {
            "approve_a": "ann",
            "undo": "ann",
            "approve_b": "bob",
            "vote": "cleo",
            "edit": "cleo",
            "reassign": "cleo",
            "lead": "lea",
            "reject": "dora",
        }
        return self.who(names[act]) if act in names else "mira"

    def _of(self, *types: str) -> list[Any]:
        mine = int(self.hold.id.rpartition(".")[2])
        return [one for one in self.events if one.type in types and one.event.hold == mine]

    def _reached(self, started: bool) -> Counter[str]:
        """Say of everything that took part whether it came to anything."""
        assert self.stands is not None
        word, by = self.stands.word, self.stands.by.id
        yes = {"approve_a": "ann", "approve_b": "bob", "vote": "cleo", "lead": "lea"}
        voters = {one.event.decision.by.id for one in self._of("vote.cast")}
        undone = [one.event for one in self._of("vote.undone")]
        lapsed = any(one.by.kind != "person" for one in undone)
        asked_again = len([one for one in self.events if one.type == "hold.opened"]) > 1
        refused = isinstance(self.told.get("approve_a"), NotAllowed)
        gone = isinstance(self.told.get("approve_b"), NotAllowed)
        won = {act: self.who(name) in ({by} | voters) for act, name in yes.items()}
        won |= {
            "reject": (word, by) == ("rejected", self.who("dora")),
            "cancel": word == "withdrawn",
            "edit": bool(self._of("hold.revised")),
            "undo": self.who("ann") in [one.by.id for one in undone],
            "revoke_role": refused or asked_again or lapsed,
            "deactivate": gone or asked_again or lapsed,
            "reassign": bool(self._of("hold.reassigned")),
        }
        found = Counter({f"{act} won": int(won[act]) for act in self.acts})
        found.update({f"{act} took part": 1 for act in self.acts})
        if self.flavour != "two" or "approve_a" not in self.acts:
            found.pop("undo took part", None)  # There was no vote to take back.
        if {"approve_a", "approve_b"} <= set(self.acts):
            found.update({"start took part": 1, "start won": int(started)})
        found["expired"] = int(word == "expired")
        found["asked again"] = int(asked_again)
        return found


async def take_part(app: Sayso, jobs: list[list[Any]], chance: random.Random) -> dict[str, Any]:
    """Do some things of some races in a process of its own; give all that was said, as JSON."""
    records = Records(app)
    races: dict[int, Race] = {}
    for n, run, hold, _ in jobs:
        races[n] = race = races.get(n) or Race(app, records, n, chance)
        race.run, race.hold = app.run(run), await app.hold(hold)

    async def release(n: int, act: str) -> None:
        await asyncio.sleep(chance.random() / 20)
        await races[n].do(act)

    def say_of(told: Any) -> list[Any]:
        decision = getattr(told, "decision", None)
        word = type(told).__name__ if isinstance(told, Refused) else ""
        return [word, None if decision is None else codec.encode_decision(decision).decode()]

    await asyncio.gather(*(release(n, act) for n, _, _, act in jobs))
    return {
        "told": [
            [n, act, *say_of(told)] for n, one in races.items() for act, told in one.told.items()
        ],
        "versions": [[*key, *value] for key, value in records.versions.items()],
    }


def heard(word: str, decision: str | None) -> Any:
    """Read what was said to somebody in another process."""
    found = None if decision is None else codec.decode_decision(decision.encode())
    if word:
        return getattr(errors, word)(**({} if found is None else {"decision": found}))
    return SimpleNamespace(decision=found)


class GrantRace:
    """One grant with a few uses, all who want one, and who would end it."""

    def __init__(self, app: Sayso, records: Records, n: int, chance: random.Random) -> None:
        self.app, self.records, self.n = app, records, n
        self.acts = chance.sample(GRANT_ACTS, chance.randint(3, 6))
        self.giver = f"gwen{n}"
        self.patient = chance.random() < 0.5
        """Whether who ends the grant waits for the first use: or its end would always be first."""
        self.runs: list[Any] = []
        self._used = asyncio.Event()

    async def begin(self) -> None:
        await self.records.put(self.giver, roles=["finance"])
        run = await self.app.start("granted", str(self.n), by="mira")
        hold = await held(run)
        await self.app.decide(hold, approve(), by=self.giver, always=Always(uses=USES, until=OVER))
        await finished(run)
        self.grant = next(one for one in await self.app.grants.list() if one.hold == hold.id)

    async def do(self, act: str) -> None:
        if act != "use" and self.patient and "use" in self.acts:
            await self._used.wait()
            await self.runs[0].wait(timeout=20)
        if act == "use":
            self.runs.append(await self.app.start("granted", str(self.n), by="mira"))
            self._used.set()
        elif act == "revoke_grant":
            try:
                await self.app.grants.revoke(self.grant, by=self.giver)
            except NotAllowed:
                assert "deactivate" in self.acts
        elif act == "revoke_role":
            await self.records.put(self.giver, roles=[])
        else:
            await self.records.put(f"gwen{self.n}", active=False)

    async def end(self) -> None:
        for run in self.runs:
            if (await run.wait(timeout=20)).status == "suspended":
                await self.app.cancel(run, by="mira")
            await finished(run)

    async def check(self, world: World, now: int) -> Counter[str]:
        """Count the uses: as many starts as the grant says, and no more than it allows."""
        del now
        starts = 0
        for run in self.runs:
            mine = await journal(self.app.store, run.id)
            begun = [one.event for one in mine if one.type == "call.started"]
            for event in begun:
                assert event.grant == self.grant.id
                self.records.check(event, at_least=1)
            void = len([one for one in mine if one.type == "attempt.voided"])
            effects = [key for key in world.effects() if key.startswith(f"{run.id}.")]
            assert len(effects) == len(begun) - void <= 1
            starts += len(begun)
        kept = await self.app.grants.list(good=False)
        now_is = next(one for one in kept if one.id == self.grant.id)
        assert starts == now_is.used <= USES, f"{starts} starts, {now_is.used} uses of {USES}"
        wanted, ends = self.acts.count("use"), [a for a in self.acts if a != "use"]
        found = Counter({"use took part": int(wanted > 0), "use won": int(starts > 0)})
        for act in ends:
            found.update({f"{act} of a grant took part": int(wanted > 0)})
            found.update({f"{act} of a grant won": int(starts < min(wanted, USES))})
        found.update({"last use took part": int(wanted > USES)})
        found.update({"last use won": int(starts == USES < wanted)})
        return found


async def contest(
    place: Place, app: Sayso, records: Records, chance: random.Random, ns: Sequence[int]
) -> Counter[str]:
    """Run some races at once, with one clock for all of them."""
    kinds = [GrantRace if chance.random() < 0.25 else Race for _ in ns]
    races = [kind(app, records, n, chance) for kind, n in zip(kinds, ns, strict=True)]
    await asyncio.gather(*(race.begin() for race in races))
    clock = chance.choice(["still", "still", LATE, LATE, OVER])

    async def release(race: Race | GrantRace, act: str, steps: int) -> None:
        await _wait(place, steps)
        await race.do(act)

    async def tick(steps: int) -> None:
        await _wait(place, steps)
        if clock != "still":
            place.clock.advance(clock)
            await app.sweep()

    deeds = [(race, act, chance.randrange(30)) for race in races for act in race.acts]
    chance.shuffle(deeds)
    await asyncio.gather(*(release(*deed) for deed in deeds), tick(chance.randrange(20)))
    await asyncio.gather(*(race.end() for race in races))
    found: Counter[str] = Counter()
    for race in races:
        reached = await race.check(place.world, app.store.now())
        if isinstance(race, Race):
            expired = reached.pop("expired", 0)
            if clock == OVER:
                found.update({"expire took part": 1, "expire won": expired})
            else:
                assert not expired, "expired before its time"
            if clock != LATE:
                reached.pop("lead took part", 0)
                reached.pop("lead won", 0)
        found.update(reached)
    return found


async def _wait(place: Place, steps: int) -> None:
    if place.kind == "memory":
        for _ in range(steps):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(steps / 5000)
