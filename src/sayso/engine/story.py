"""What each entry of a journal means, for people: one word and one sentence.

Both are safe to show anywhere: what could deceive is written as its number. Arguments are not in
it; `sayso.domain.rendering` shows those.
"""

from __future__ import annotations

from datetime import datetime

from sayso.domain import events as e
from sayso.domain.call import Declined, Failed, Outcome, Returned, Unknown
from sayso.domain.glyph import brief, inline
from sayso.domain.hold import (
    Consent,
    Decision,
    Delegation,
    Errored,
    Expired,
    External,
    InDoubt,
    Rejected,
    SignIn,
    Withdrawn,
)
from sayso.domain.question import Question
from sayso.domain.recorded import Recorded
from sayso.store.views import moment

_DIGEST_CHARS = 12


class Story:
    """Says what each entry of one run means. It remembers which call was of which tool."""

    def __init__(self) -> None:
        self._tools: dict[str, str] = {}

    def describe(self, entry: Recorded) -> tuple[str, str]:
        """Say what an entry is, in one word and in one sentence; both are safe to print."""
        match entry.event:
            case e.RunStarted() as event:
                said = f"{event.by} asks {event.agent}: {event.input}"
                return "started", brief(said)
            case e.MessageReceived(by=by, text=text):
                return "message", brief(f"{by}: {text}")
            case e.TurnTaken() as event:
                return f"turn {event.turn}", self._turn(event)
            case e.HoldOpened() | e.HoldRevised() | e.HoldSettled() as event:
                return self._hold(event)
            case e.DecisionEffective(hold=hold):
                return "effective", f"the decision on hold {hold} can no longer be undone"
            case e.DecisionUndone(hold=hold, by=by):
                return "undone", f"hold {hold} is open again, says {inline(str(by))}"
            case None:
                return "redacted", "what was here has been erased"
            case event:
                found = self._call(event) or self._body(event) or _vote(event) or _strand(event)
                return found or _run(event)

    def _turn(self, event: e.TurnTaken) -> str:
        self._tools.update({call.ref: call.tool for call in event.calls})
        asked = [f"call {call.ref}, {call.tool}" for call in event.calls]
        said = [f'"{event.text}"'] if event.text else []
        return brief("; ".join(said + asked) or "nothing", 400)

    def _hold(self, event: e.HoldOpened | e.HoldRevised | e.HoldSettled) -> tuple[str, str]:
        match event:
            case e.HoldOpened(ask=InDoubt(why=why)):
                return "in doubt", f"{self._asks(event)}: {brief(why)}"
            case e.HoldOpened(ask=Delegation(run=run, agent=agent)):
                return "delegated", brief(f"hold {event.hold} waits for {agent}, {run}")
            case e.HoldOpened():
                return "held", self._asks(event)
            case e.HoldRevised(by=by, version=version):
                said = f"hold {event.hold} by {inline(str(by))}, version {version}"
                return "edited", f"{said}, digest {short(event.digest)}"
            case e.HoldSettled(decision=decision):
                return decision.word, f"hold {event.hold} {_decided(decision)}"

    def _asks(self, event: e.HoldOpened) -> str:
        who = " or ".join(inline(one.removeprefix("user:")) for one in event.approvers)
        until = "" if event.deadline is None else f" until {here(event.deadline):%Y-%m-%d %H:%M}"
        tool = inline(self._tools.get(event.call, event.call))
        what = f"{tool}, digest {short(event.digest)}"
        match event.ask:
            case Question(text=text):
                what = f"{tool} asks {brief(text)}"
            case SignIn(provider=provider) | Consent(provider=provider):
                what = f"{tool} needs a sign-in at {inline(provider)}"
            case External(reason=reason):
                what = f"{tool} waits for something outside{_because(reason)}"
            case _:
                pass
        return f"hold {event.hold} asks {who}{until}: {what}"

    def _call(self, event: e.AnyEvent) -> tuple[str, str] | None:
        match event:
            case e.CallStarted(call=ref, attempt=attempt, worker=worker):
                return "call", f"{self.named(ref)} started, attempt {attempt} by {inline(worker)}"
            case e.CallFinished(call=ref, outcome=outcome, why=why):
                return "call", f"{self.named(ref)} {_outcome(outcome)}{_because(why)}"
            case e.AttemptVoided(call=ref, attempt=attempt, why=why):
                return "voided", f"{self.named(ref)}, attempt {attempt} of it{_because(why)}"
            case e.CallDoubted(call=ref, attempt=attempt, why=why):
                return "doubted", f"{self.named(ref)}, attempt {attempt} of it{_because(why)}"
            case e.LateResult(call=ref, attempt=attempt, outcome=outcome):
                return "late", f"{self.named(ref)}, attempt {attempt} {_outcome(outcome)}"
            case _:
                return None

    def _body(self, event: e.AnyEvent) -> tuple[str, str] | None:
        match event:
            case e.CommandReceived(call=call, by=by):
                self._tools[call.ref] = call.tool
                return "command", brief(f"{by} invokes {call.tool}")
            case e.CallContinued(call=ref, attempt=attempt, worker=worker):
                return "goes on", f"{self.named(ref)}, attempt {attempt} by {inline(worker)}"
            case e.StepStarted(call=ref, step=step, name=name):
                return "step", f"{self.named(ref)}: step {step}, {inline(name)}, started"
            case e.StepFinished(call=ref, step=step, outcome=outcome, why=why):
                said = f"{self.named(ref)}: step {step} {_outcome(outcome)}"
                return "step", f"{said}{_because(why)}"
            case e.StepVoided(call=ref, step=step, why=why):
                return "step", f"{self.named(ref)}: step {step} may be taken again{_because(why)}"
            case e.BodyParked(call=ref, why=why):
                return "parked", f"{self.named(ref)}{_because(why)}"
            case _:
                return None

    def named(self, ref: str) -> str:
        """Name a call by its tool."""
        return inline(f"{ref}, {self._tools[ref]}" if ref in self._tools else ref)


def here(ms: int) -> datetime:
    """Turn store time into local time."""
    return moment(ms).astimezone()


def clock(ms: int) -> str:
    """Write store time as the time of day here."""
    return here(ms).strftime("%H:%M:%S.%f")[:-3]


def short(digest: str) -> str:
    """Write enough of a digest to compare it by eye."""
    return inline(digest[:_DIGEST_CHARS])


def _vote(event: e.AnyEvent) -> tuple[str, str] | None:
    match event:
        case e.VoteCast(hold=hold, decision=decision):
            return "vote", f"hold {hold} {decision.word} {_decided(decision)}"
        case e.VoteUndone(hold=hold, person=person, why=why):
            return "vote", f"hold {hold}: {inline(person)}'s counts no more{_because(why)}"
        case e.GrantGiven(hold=hold, grant=grant):
            said = f"{grant.by} allows calls of {grant.tool} like that of hold {hold}: {grant.id}"
            return "granted", inline(said)
        case e.HoldEscalated(hold=hold, to=to):
            return "escalated", f"hold {hold} asks {inline(' or '.join(to))} as well"
        case e.HoldReassigned(hold=hold, by=by, to=to, instead_of=instead_of, note=note):
            said = f"hold {hold} by {by} to {to.removeprefix('user:')} instead of {instead_of}"
            return "handed on", f"{inline(said)}{_because(note)}"
        case _:
            return None


def _strand(event: e.AnyEvent) -> tuple[str, str] | None:
    match event:
        case e.StrandOpened(strand=strand, parent=parent, text=text):
            return "strand", brief(f"{strand} begins below {parent}: {text}")
        case e.StrandChanged(strand=strand, data=data):
            return "strand", brief(f"{strand} is now {bytes(data).decode()}")
        case e.StrandClosed(strand=strand, error=error):
            return "strand", f"{inline(strand)} is over{_because(error)}"
        case _:
            return None


def _run(event: e.AnyEvent) -> tuple[str, str]:
    match event:
        case e.CancelRequested(by=by, reason=reason, error=error):
            return "cancel", f"asked for by {inline(str(by))}{_because(error or reason)}"
        case e.RunAdopted(by=by, source=source):
            return "adopted", brief(f"by {by} from {source}")
        case e.RunTakenOver(worker=worker, before=before, proof=proof):
            return "taken over", inline(f"by {worker} from {before} ({proof})")
        case e.RunSuspended():
            return "suspended", "nothing goes on until somebody decides"
        case e.RunResumed():
            return "resumed", "something can go on"
        case e.RunCompleted(output=output):
            return "completed", brief(bytes(output).decode())
        case e.RunFailed(error=error):
            return "failed", brief(error)
        case e.RunCancelled(reason=reason):
            return "cancelled", brief(reason)
        case e.EntryRedacted(entry=entry, by=by, reason=reason):
            return "erased", f"entry {entry} by {inline(str(by))}{_because(reason)}"
        case e.RunErased(through=through, by=by, reason=reason):
            return "erased", f"entries 1 to {through} by {inline(str(by))}{_because(reason)}"
        case _:
            return inline(type(event).__name__), ""


def _decided(decision: Decision) -> str:
    match decision.verdict:
        case Expired(silence=silence):
            return f"by nobody in time, which means: {inline(silence)}"
        case Rejected(reason=why) | Withdrawn(reason=why) | Errored(message=why):
            pass
        case _:
            why = decision.note
    later = decision.effective_at > decision.at
    effective = f", effective at {clock(decision.effective_at)}" if later else ""
    as_who = f" as {decision.right}" if decision.right else ""
    for_whom = f" for {decision.of}" if decision.of else ""
    effective += ", even if its worker is alive" if decision.even_if_alive else ""
    who = inline(f"{decision.by}{as_who}{for_whom}")
    how = f"by {who}, {inline(decision.channel)}, digest {short(decision.digest)}"
    return f"{how}{effective}{_because(why)}"


def _outcome(outcome: Outcome) -> str:
    match outcome:
        case Returned(value=value):
            return f"returned {brief(bytes(value).decode())}"
        case Failed(error=error, message=message):
            return f"failed with {brief(f'{error}: {message}')}"
        case Declined(reason=reason):
            return f"was declined{_because(reason)}"
        case Unknown(reason=reason):
            return f"is unknown{_because(reason)}"


def _because(why: str) -> str:
    return f": {brief(why)}" if why else ""
