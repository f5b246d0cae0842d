"""One judge for every test: reads the journals and the ledger outside, and says what was broken.

It knows the promises (reliability.md, I1 to I17) and nothing of how the engine keeps them: it reads
events one after another and remembers what each call and each hold has been through. Of people it
knows what the journal says: who has which role is for the test to know.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Any

from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.call import Call
from sayso.domain.hold import Approved, Expired, Rejected, Withdrawn
from sayso.domain.recorded import Recorded
from sayso.domain.value import SAYSO
from sayso.store.audit import verify
from sayso.store.base import Store
from sayso.store.journal import read_journal, recorded, replay
from sayso.store.query import RunQuery

from .kit import World


async def judge(store: Store, world: World | None = None, gated: tuple[str, ...] = ()) -> None:
    """Assert every promise on everything that a store keeps.

    `gated` names the tools that must never run without a person's yes.
    """
    report = await verify(store)
    assert report.ok, report.faults
    effects = [line.split(" ") for line in world.read("effects")] if world else []
    seen: set[str] = set()
    before: str | None = None
    while page := await store.runs(RunQuery(before=before, limit=500)):
        for row in page:
            assert await replay(store, row.id) == codec.decode_run(row.state), row.id
            entries = [recorded(one) for one in await read_journal(store, row.id)]
            _Run(row.id, gated).read(entries, effects)
            seen.add(row.id)
        before = page[-1].id
    strangers = {key.rsplit(".", 2)[0] for key, *_ in effects} - seen
    assert not strangers, f"effects of runs that nobody started: {strangers}"


class _Run:
    """What one run's journal says, call by call and hold by hold."""

    def __init__(self, run_id: str, gated: tuple[str, ...]) -> None:
        self.id = run_id
        self.gated = gated
        self.calls: dict[str, dict[str, Any]] = {}
        self.holds: dict[int, dict[str, Any]] = {}
        self.turns = 0
        self.over = False
        self.seq = 0
        self.adopted = False
        self.by = ""

    def read(self, entries: list[Recorded], effects: list[list[str]]) -> None:
        for one in entries:
            assert one.seq == self.seq + 1, "the journal has a gap"
            self.seq = one.seq
            assert one.event is not None
            assert not self.over or isinstance(one.event, e.LateResult | e.RunAdopted), (
                f"{one.type} after the end of {self.id}"
            )
            getattr(self, f"_{type(one.event).__name__}", _nothing)(one.event, one.at)
        self._check_effects(effects)

    def _TurnTaken(self, event: e.TurnTaken, at: int) -> None:
        open_calls = [
            ref
            for ref, call in self.calls.items()
            if call["outcomes"] != 1 and not ref.startswith("c")
        ]
        assert not open_calls, f"a turn before the outcome of {open_calls} (law 6)"
        assert event.turn == self.turns + 1, "a turn was repeated or skipped (I14)"
        self.turns = event.turn
        for call in event.calls:
            self._ask_for(call)

    def _CommandReceived(self, event: e.CommandReceived, at: int) -> None:
        self._ask_for(event.call, event.by.id)

    def _RunStarted(self, event: e.RunStarted, at: int) -> None:
        self.by = event.by.id

    def _ask_for(self, call: Call, by: str = "") -> None:
        assert call.ref not in self.calls
        self.calls[call.ref] = {
            "tool": call.tool,
            "args": bytes(call.args),
            "digest": call.digest,
            "outcomes": 0,
            "attempt": 0,
            "under_way": False,
            "yes": None,
            "no": False,
            "started": [],
            "again": 0,
            "by": by,
            "editors": set(),
        }

    def _HoldOpened(self, event: e.HoldOpened, at: int) -> None:
        call = self.calls[event.call]
        assert not any(h["open"] and h["call"] == event.call for h in self.holds.values())
        call["digest"], call["yes"] = event.digest, None
        self.holds[event.hold] = {
            "call": event.call,
            "open": True,
            "version": event.version,
            "digest": event.digest,
            "deadline": event.deadline,
            "who": event.approvers,
            "pending": None,
            "doubt": type(event.ask).__name__ == "InDoubt",
            "inside": event.then == "continue",
            "quorum": (event.ruling.quorum, event.ruling.reject_quorum),
            "not": {self.by, call["by"], *call["editors"]} if event.ruling.not_requester else set(),
            "votes": {},
        }

    def _HoldRevised(self, event: e.HoldRevised, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["open"]
        assert hold["pending"] is None, "an edit of what is decided (I8)"
        assert event.version == hold["version"] + 1, "an edit is the next version (I8)"
        assert hold["deadline"] is None or at < hold["deadline"], "an edit too late (I11)"
        assert _may(hold["who"], event), "an edit by somebody who may not decide (I9)"
        call = self.calls[hold["call"]]
        call.update(args=bytes(event.args), digest=event.digest, editors={event.by.id})
        kept_out = {self.by, call["by"], event.by.id}
        hold.update(
            version=event.version,
            digest=event.digest,
            deadline=event.deadline,
            who=event.approvers,
            quorum=(event.ruling.quorum, event.ruling.reject_quorum),
            votes={},
        )
        hold["not"] = kept_out if event.ruling.not_requester else set()

    def _VoteCast(self, event: e.VoteCast, at: int) -> None:
        hold, decision = self.holds[event.hold], event.decision
        self._check_said(hold, event, at)
        persons = {who for vote in hold["votes"].values() for who in vote.persons}
        assert persons.isdisjoint(decision.persons), "somebody has voted twice (I10)"
        hold["votes"][decision.by.id] = decision

    def _VoteUndone(self, event: e.VoteUndone, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["open"]
        assert event.by == SAYSO or event.by.id == event.person, "somebody else's vote (I9)"
        del hold["votes"][event.person]

    def _HoldEscalated(self, event: e.HoldEscalated, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["open"]
        assert at >= event.at, "asked too early (I11)"
        hold["who"] = tuple(dict.fromkeys((*hold["who"], *event.to)))

    def _HoldReassigned(self, event: e.HoldReassigned, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["open"]
        assert hold["pending"] is None
        assert hold["deadline"] is None or at < hold["deadline"], "handed over too late (I11)"
        assert event.right == "role:operator" or _may(hold["who"], event), "I9"
        assert event.instead_of in hold["who"]
        hold["who"] = tuple(event.to if who == event.instead_of else who for who in hold["who"])

    def _check_said(self, hold: dict[str, Any], event: e.HoldSettled | e.VoteCast, at: int) -> None:
        decision = event.decision
        assert hold["open"], "a hold was settled twice (I2)"
        assert hold["pending"] is None, "a second decision stands (I2)"
        assert (decision.digest, event.version) == (hold["digest"], hold["version"]), "I7"
        assert hold["deadline"] is None or at < hold["deadline"], "too late (I11)"
        assert _may(hold["who"], decision), "somebody decided who may not (I9)"
        assert hold["not"].isdisjoint(decision.persons), "who asked for it decided (I10)"

    def _HoldSettled(self, event: e.HoldSettled, at: int) -> None:
        hold, decision = self.holds[event.hold], event.decision
        assert hold["open"], "a hold was settled twice (I2)"
        assert (decision.digest, event.version) == (hold["digest"], hold["version"]), "I7"
        match decision.verdict:
            case Withdrawn():
                pass
            case Expired():
                assert decision.by.kind == "clock"
                assert at >= hold["deadline"], "expired too early (I11)"
            case _:
                self._check_said(hold, event, at)
                self._check_quorum(hold, decision)
        if decision.effective_at > decision.at:
            hold["pending"] = decision
        else:
            self._effective(hold, decision)

    def _check_quorum(self, hold: dict[str, Any], decision: Any) -> None:
        yes, no = hold["quorum"]
        needed = {Approved: yes, Rejected: no}.get(type(decision.verdict), 1)
        same = [v for v in hold["votes"].values() if type(v.verdict) is type(decision.verdict)]
        others = {v.by.id for v in same if set(v.persons).isdisjoint(decision.persons)}
        assert len(others) + 1 >= needed, "settled by too few persons (I10)"

    def _DecisionEffective(self, event: e.DecisionEffective, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["pending"] is not None
        assert at >= hold["pending"].effective_at
        self._effective(hold, hold["pending"])

    def _RunAdopted(self, event: e.RunAdopted, at: int) -> None:
        self.adopted = True

    def _DecisionUndone(self, event: e.DecisionUndone, at: int) -> None:
        hold = self.holds[event.hold]
        assert hold["open"]
        if event.by == SAYSO:
            assert self.adopted, "only what was decided elsewhere is undone by nobody"
        else:
            assert hold["pending"].by == event.by
            assert at < hold["pending"].effective_at
        hold["pending"] = None

    def _effective(self, hold: dict[str, Any], decision: Any) -> None:
        hold.update(open=False, pending=None)
        call = self.calls[hold["call"]]
        yes = isinstance(decision.verdict, Approved) or (
            isinstance(decision.verdict, Expired) and decision.verdict.silence == "approve"
        )
        if yes:
            call["yes"] = hold["digest"]
            if hold["doubt"]:
                assert decision.by.kind == "person", "nobody said to run it again (I5)"
                call["again"] += 1
                call["under_way"] = False
        elif not hold["doubt"] and not hold["inside"]:
            call["no"] = True

    def _CallStarted(self, event: e.CallStarted, at: int) -> None:
        call = self.calls[event.call]
        asked = any(hold["call"] == event.call for hold in self.holds.values())
        assert not any(h["open"] and h["call"] == event.call for h in self.holds.values()), "I1"
        assert not call["under_way"], "two attempts at a time (I16)"
        assert call["outcomes"] == 0
        assert not call["no"], "a refused call started (I12)"
        assert event.attempt == call["attempt"] + 1
        assert event.digest == call["digest"], "not what was decided on (I7)"
        if event.grant and not asked:
            assert event.grant_until is not None
            assert at < event.grant_until, "a grant that is over (I1)"
        elif asked or call["tool"] in self.gated:
            assert call["yes"] == event.digest, f"{event.call} started without a yes (I1)"
        call.update(attempt=event.attempt, under_way=True)
        call["started"].append(event.attempt)

    def _AttemptVoided(self, event: e.AttemptVoided, at: int) -> None:
        self.calls[event.call]["under_way"] = False

    def _CallDoubted(self, event: e.CallDoubted, at: int) -> None:
        assert self.calls[event.call]["under_way"]

    def _CallFinished(self, event: e.CallFinished, at: int) -> None:
        call = self.calls[event.call]
        call["outcomes"] += 1
        assert call["outcomes"] == 1, f"{event.call} has two outcomes (law 6)"
        assert not any(h["open"] and h["call"] == event.call for h in self.holds.values())
        call["under_way"] = False

    def _end(self, event: e.Event, at: int) -> None:
        self.over = True
        for ref, call in self.calls.items():
            assert call["outcomes"] == 1, f"{ref} has no outcome at the end"
        assert not any(hold["open"] for hold in self.holds.values()), "open holds at the end"

    _RunCompleted = _RunFailed = _RunCancelled = _end

    def _check_effects(self, effects: list[list[str]]) -> None:
        mine: Counter[str] = Counter()
        attempts: Counter[tuple[str, str]] = Counter()
        for key, attempt, digest in effects:
            ref = key.removeprefix(f"{self.id}.")
            if ref == key or ref not in self.calls:
                continue
            call = self.calls[ref]
            mine[ref] += 1
            attempts[ref, attempt] += 1
            assert int(attempt) in call["started"], f"an effect of {ref} that nobody started (I1)"
            assert digest == hashlib.sha256(call["args"]).hexdigest(), "not what was shown (I7)"
        for ref, count in mine.items():
            assert count <= 1 + self.calls[ref]["again"], f"{ref} happened {count} times (I5)"
        assert all(count == 1 for count in attempts.values()), "one attempt, two effects (I5)"


def _may(who: tuple[str, ...], said: Any) -> bool:
    if said.by.kind != "person":
        return False
    if said.right:
        # By another name than their own only where a record says so.
        return said.right in who and bool(said.basis)
    return "anyone" in who or f"user:{said.by.id}" in who


def _nothing(event: e.Event, at: int) -> None:
    pass
