"""What is known of a call in doubt: all that a person needs to settle it, in one view.

It is read from the journal and from what the store knows of the worker, so it is the same for
every process that can open the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from sayso.domain import events as e
from sayso.domain.call import Outcome, call_id
from sayso.domain.hold import Decision, InDoubt, read_id
from sayso.domain.recorded import Recorded
from sayso.domain.value import Value
from sayso.errors import UnknownHold, WrongVerdict
from sayso.store.base import Store
from sayso.store.journal import read_journal, recorded
from sayso.store.views import HoldView, hold_view, moment

State = Literal["alive", "silent", "dead", "gone", "elsewhere"]


class Life(Value, frozen=True, kw_only=True):
    """What is known right now of the worker that made an attempt."""

    state: State
    """`alive`: it was heard of within its lease. `silent`: it was not, and may be slow, stopped or
    gone. `dead`: its process has ended. `gone`: it has left in good order, with nothing under way,
    or was dead and is forgotten. `elsewhere`: it worked on another store, and cannot be seen here.
    """
    host: str = ""
    """The machine it ran on, as that calls itself; empty: nobody knows."""
    seen_at: datetime | None = None
    """Its last sign of life; None: nobody knows."""

    @property
    def over(self) -> bool:
        """Tell whether nothing of its can be under way any more."""
        return self.state in ("dead", "gone")


class LateView(Value, frozen=True, kw_only=True):
    """A result that came after its attempt had been given up: the best evidence there is."""

    at: datetime
    outcome: Outcome


class Choice(Value, frozen=True, kw_only=True):
    """A verdict, and what it means here."""

    say: str
    """What to write."""
    means: str
    refused: str = ""
    """Why it is refused as things are, and what to say instead; empty: it is not."""


class DoubtView(Value, frozen=True, kw_only=True):
    """A call in doubt, as whoever settles it needs to see it."""

    hold: HoldView
    """What was shown and decided: the arguments as `hold.shown`, the digest and the version."""
    attempt: int
    why: str
    """Why nobody knows how it ended."""
    key: str
    """What the tool was given to be known by: look for it at the target."""
    decisions: tuple[Decision, ...]
    """Who allowed it, and when: every decision and vote on it before that was not taken back."""
    started_at: datetime | None
    """When the attempt began, in store time; None if that entry was erased."""
    timeout: timedelta | None
    worker: str
    life: Life
    proof: str
    """Why the worker was taken for gone when another one went on: `dead`, `lease`, or nobody did.
    """
    probe: str
    """What the tool's probe answered, if it was asked."""
    step: str
    """The step of its body that is in doubt, by name; empty: the call as a whole."""
    late: tuple[LateView, ...]
    may_live: bool
    """Whether the attempt may still be under way, as far as anybody can tell now."""

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be said, and what it means."""
        what = f"the step {self.step!r}" if self.step else "the call"
        refused = may_live_still(self.worker, self.life) if self.may_live else ""
        return (
            Choice(
                say="answer(value)",
                means=f"It happened, and this is its result: {what} is not run again. Without a "
                "result, answer(None) with note='how you know'.",
            ),
            Choice(
                say="approve()",
                means=f"It did not happen: run {what} again, with the same arguments and key. This "
                "is a decision like the first one.",
                refused=refused,
            ),
            Choice(
                say="reject('why')",
                means=f"It did not happen, and is not to: {what} is declined.",
            ),
            Choice(
                say="fail('why')",
                means="Nobody can tell: its outcome stays unknown, and whatever would repeat it "
                "asks first.",
            ),
        )


def may_live_still(worker: str, life: Life) -> str:
    """Say why an attempt cannot be run again as things are; empty if it can."""
    if life.over:
        return ""
    say_so = "to run it again all the same, say approve() with even_if_alive=True"
    if life.state == "elsewhere":
        return f"it was under way in another store, and may be there still: {say_so}"
    where = f" on {life.host}" if life.host else ""
    since = (
        "" if life.seen_at is None else f", last heard of at {life.seen_at:%Y-%m-%d %H:%M:%S} UTC"
    )
    return (
        f"its worker {worker}{where} is {life.state}{since}, and the attempt may still be under "
        f"way: end that process first, or {say_so}"
    )


async def life_of(store: Store, worker: str) -> Life:
    """Say what is known of a worker now; without a name, it worked on another store."""
    if not worker:
        return Life(state="elsewhere")
    sight = await store.sight(worker)
    if sight is None:
        return Life(state="gone")
    ago = sight.seen_ms_ago
    return Life(
        state=sight.alive,
        host=sight.host,
        seen_at=None if ago is None else moment(store.now() - ago),
    )


async def read_doubt(store: Store, hold: str) -> DoubtView:
    """Read what is known of a call in doubt. `UnknownHold` if there is no such hold, `WrongVerdict`
    if it asks something else.
    """
    place = read_id("hold", hold)
    found = None if place is None else await store.hold(*place)
    if found is None:
        raise UnknownHold(f"there is no hold {hold!r} in {store.name!r}")
    view = hold_view(found)
    if found.row.kind != "in_doubt":
        raise WrongVerdict(f"{hold!r} asks {found.row.kind!r}, and is not about a call in doubt")
    ask = view.ask
    if not isinstance(ask, InDoubt):
        # It was erased, with all that could be known.
        ask = InDoubt(attempt=0, worker="", why="what the entry says was erased", elsewhere=True)
    journal = [recorded(one) for one in await read_journal(store, found.row.run_id)]
    lore = _Lore(journal, found.row.call, ask, opened=found.row.entry)
    elsewhere = ask.elsewhere or lore.moved
    life = await life_of(store, "" if elsewhere else ask.worker)
    return DoubtView(
        hold=view,
        attempt=ask.attempt,
        why=ask.why,
        key=call_id(view.run_id, found.row.call),
        decisions=tuple(lore.decisions),
        started_at=lore.started_at,
        timeout=lore.timeout,
        worker=ask.worker,
        life=life,
        proof=lore.proof,
        probe=ask.probe,
        step=lore.steps.get(ask.step, "") if ask.step else "",
        late=tuple(lore.late),
        may_live=ask.may_live and not lore.late and not life.over,
    )


class _Lore:
    """What a journal says of one attempt of a call."""

    def __init__(
        self, journal: Iterable[Recorded], call: str, ask: InDoubt, *, opened: int
    ) -> None:
        self.started_at: datetime | None = None
        self.timeout: timedelta | None = None
        self.proof = ""
        self.steps: dict[int, str] = {}
        self.late: list[LateView] = []
        self.moved = False
        """Whether the run came from another store since it was asked."""
        self._call = call
        self._ask = ask
        self._said: dict[int, list[Decision]] = {}
        """By hold, what was said of what it asks now, and not taken back."""
        for one in journal:
            self._add(one, before=one.seq < opened)
        self.decisions = [one for said in self._said.values() for one in said]

    def _add(self, one: Recorded, *, before: bool) -> None:
        at = moment(one.at)
        match one.event:
            case e.HoldOpened(hold=n, call=self._call) if before:
                self._said[n] = []
            case e.VoteCast(hold=n, decision=decision) | e.HoldSettled(hold=n, decision=decision):
                if before and n in self._said:
                    self._said[n].append(decision)
            case e.VoteUndone(hold=n, person=person) if n in self._said:
                self._said[n] = [said for said in self._said[n] if said.by.id != person]
            case e.DecisionUndone(hold=n) if n in self._said:
                self._said[n] = self._said[n][:-1]
            case e.HoldRevised(hold=n) if n in self._said:
                # What was said was said of something else.
                self._said[n] = []
            case e.CallStarted() | e.CallContinued() as event:
                if (event.call, event.attempt) == (self._call, self._ask.attempt):
                    self.started_at = at
                    self.timeout = timedelta(milliseconds=event.timeout_ms)
            case e.StepStarted(call=self._call, step=step, name=name):
                self.steps[step] = name
            case e.RunTakenOver(before=self._ask.worker, proof=proof):
                self.proof = proof
            case e.LateResult(call=self._call, attempt=self._ask.attempt, outcome=outcome):
                self.late.append(LateView(at=at, outcome=outcome))
            case e.RunAdopted():
                self.moved = self.moved or not before
            case _:
                pass
