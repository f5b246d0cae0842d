"""Every error of Sayso's own, in one tree.

    SaysoError
    +-- Refused                 the request was understood and not carried out; nothing changed
    |   +-- Unknown             no such thing, or none that you may know of
    |   |   +-- UnknownRun
    |   |   +-- UnknownHold
    |   |   +-- UnknownAgent
    |   |   +-- UnknownTool
    |   |   +-- UnknownPerson
    |   |   +-- UnknownGrant
    |   +-- AlreadyDecided      the first decision stands; it is attached
    |   |   +-- HoldExpired     nobody decided in time; late is late
    |   +-- Unauthenticated     no credential, or none that is good
    |   +-- NotAllowed          this person may not do this
    |   +-- NotWhatWasShown     the digest is not that of what is on offer now, or was seen
    |   +-- WrongVerdict        this verdict does not answer this ask
    |   +-- WorkerMayLive       a call in doubt may still be under way: it cannot be run again yet
    |   +-- BadAnswer           this answer does not fit the question; its problems are attached
    |   +-- BadValue            arguments, answers or messages that cannot be kept as bytes
    |   |   +-- BadQuestion     a question that nobody could answer as it is put
    |   |   +-- BadFilter       a filter of requests that cannot be read
    |   +-- BadMove             a machine's instance cannot go there, or not now
    |   +-- KeyReused           the same idempotency key with another request
    |   +-- RunExists           the run id is taken
    |   +-- RunArchived         the run has left the store for a file
    |   +-- IdentityTaken       the identity is somebody else's
    |   +-- TooManyCommands     the run has as many open commands as it may have
    |   +-- RunFinished         nothing can be done with a finished run
    |   +-- RunWaiting          a message to a run that waits for a person
    |   +-- ThreadBusy          the thread's latest run is not finished
    |   +-- CannotUndo          the decision is effective, or there is none
    |   +-- BudgetSpent         a yes to a run that has no turn, or no time, left to go on with
    |   +-- BadExport           an exported run that is edited, foreign or not whole; says which
    |   +-- CannotMove          a store that is worked on, or one that cannot take another one in
    |   +-- BadArchive          a file of archived runs that was changed, is not whole or not there
    |   +-- BadState            a sign-in comes back with a state that is forged, too old or odd
    +-- BadSetup                a program or a configuration that could not work
    |   +-- BadTool
    |   +-- BadAgent
    |   +-- BadPolicy
    |   +-- BadProvider         where people should sign in cannot be used as it is declared
    |   +-- BadKeys             a key ring or a desk's key that cannot be read, or lacks the key
    +-- StoreError
    |   +-- StaleRun            somebody else appended first; look again
    |   +-- StaleItem           somebody else changed the item first; look again
    |   +-- CommitUnknown       the store did not say whether it committed
    |   +-- ConditionFailed     a condition of the append no longer held at its commit
    |   +-- StoreBusy           others kept the store for too long
    |   +-- StoreFull
    |   +-- StoreReadOnly
    |   |   +-- NotKeeper       this role of the database may only add to the journal
    |   +-- StoreClosed
    |   +-- StoreMoved          all of it was moved to another store; it can only be read
    |   +-- StoreUnfinished     a move into it is not finished
    |   +-- StoreForked         the store was opened before a fork
    |   +-- StoreDamaged        not readable as what it claims to be
    |   +-- NotOurStore         a file of another program
    |   +-- StoreNewer          written by a newer Sayso
    |   +-- StoreOlder          a database to be brought up by `sayso migrate` first
    |   +-- StoreRestored       a backup or a copy, which nobody has looked into yet
    |   +-- BrokenChain         the journal was changed after it was written
    +-- IllegalEvent            an event that the state machine does not allow
    +-- NotUnderstood           stored or received data this version cannot read
    +-- NotDone                 raised by a tool: certainly no effect, it may be started again
    +-- InBody                  raised inside the body of a durable tool
    |   +-- NotAnswered         what it asked was declined, expired or withdrawn
    |   +-- StepFailed          a step ended in an error
    |   +-- BadAwait            it waited where a body cannot wait
    |   +-- BodyGone            the body does not count any more: it goes on elsewhere, or never
    +-- ModelFailed             the model gave no usable answer
    +-- CannotGoOn              the run has used up what it may: turns, time, plans
    +-- SignInFailed            a provider gave no token, or none that can be used
    +-- AddressRefused          an address that must not be reached from here
    +-- Unreachable             a server did not answer, or not as one of ours does
    +-- WaitTimeout             the wait is over, the run is not

Leaf names state facts. A docstring is the default message; data travels as attributes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sayso.domain.hold import Decision


class SaysoError(Exception):
    """Something went wrong in Sayso."""

    def __init__(self, message: str | None = None, **data: Any) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])
        self.__dict__.update(data)


class Refused(SaysoError):
    """The request was refused and nothing changed."""


class Unknown(Refused):
    """No such thing."""


class UnknownRun(Unknown):
    """No such run."""


class UnknownHold(Unknown):
    """No such hold."""


class UnknownAgent(Unknown):
    """No such agent."""


class UnknownTool(Unknown):
    """No such tool."""


class UnknownPerson(Unknown):
    """No such person."""


class UnknownGrant(Unknown):
    """No such grant."""


class AlreadyDecided(Refused):
    """The hold is decided already; the first decision stands."""

    decision: Decision
    """The decision that stands."""


class HoldExpired(AlreadyDecided):
    """Nobody decided in time; the hold has expired."""


class Unauthenticated(Refused):
    """Say who you are: this needs a credential that is good."""


class NotAllowed(Refused):
    """You may not do this."""


class NotWhatWasShown(Refused):
    """The request has changed since it was shown; look at it again before deciding."""


class WrongVerdict(Refused):
    """This verdict does not answer this ask."""


class WorkerMayLive(Refused):
    """The attempt before may still be under way: it cannot be run again yet."""

    worker: str
    """Who made it; empty if that was in another store."""


class BadAnswer(Refused):
    """The answer does not fit the question, which still waits for one."""

    problems: list[tuple[str, str]]
    """Where it does not fit, as a JSON Pointer into the answer, and why. Never the answer."""


class BadValue(Refused):
    """The value cannot be kept as JSON bytes."""


class BadQuestion(BadValue):
    """The question cannot be asked like this."""


class BadFilter(BadValue):
    """The filter cannot be read."""


class BadMove(Refused):
    """The instance cannot move like this."""


class KeyReused(Refused):
    """This idempotency key was used for another request."""


class IdentityTaken(Refused):
    """The identity is somebody else's."""


class RunExists(Refused):
    """A run with this id exists already."""


class RunArchived(Refused):
    """The run has left the store for an archive."""

    run_id: str
    file: str
    """The path of the archive."""
    project: str
    """Whose it was: to any other project it is no run at all."""


class TooManyCommands(Refused):
    """The run has too many open commands: decide or wait for those first."""


class RunFinished(Refused):
    """The run is finished."""


class RunWaiting(Refused):
    """The run waits for a person: decide its holds first, or use say(..., supersede=True)."""


class ThreadBusy(Refused):
    """The thread's latest run is not finished."""


class CannotUndo(Refused):
    """There is no decision that could still be undone."""


class BudgetSpent(Refused):
    """The run has no turn, or no time, left to go on with: reject what it asks, or cancel it."""


class BadExport(Refused):
    """The exported run cannot be taken."""

    reason: Literal["format", "version", "signature", "size", "chain", "part"]
    """Which check it did not pass; `part`: it is not a whole run."""


class CannotMove(Refused):
    """The store cannot be moved like this."""

    workers: tuple[str, ...] = ()
    """Who still works on it, if that is why."""


class BadArchive(Refused):
    """The archive is not as it was written."""


class BadState(Refused):
    """The state of the sign-in cannot be used; start the sign-in again."""

    reason: Literal["malformed", "forged", "expired", "provider"]


class BadSetup(SaysoError):
    """The program or its configuration cannot work."""


class BadTool(BadSetup):
    """The tool cannot be used as it is declared."""


class BadAgent(BadSetup):
    """The agent cannot be used as it is declared."""


class BadPolicy(BadSetup):
    """The policy cannot be used as it is declared."""

    line: int | None = None
    """Of a policy file: where it is wrong."""
    key: str | None = None
    """Of a policy file: what is wrong there."""


class BadProvider(BadSetup):
    """The provider cannot be used as it is declared."""


class BadKeys(BadSetup):
    """The key ring, or the key of a desk, cannot be read."""


class StoreError(SaysoError):
    """The store could not do what was asked."""


class StaleRun(StoreError):
    """Somebody else wrote to the run first."""


class StaleItem(StoreError):
    """Somebody else changed the item first; look at it again."""

    rev: int
    """The rev that it has now, or 0 if it is not there."""


class CommitUnknown(StoreError):
    """The store did not say whether the write was committed."""


class ConditionFailed(StoreError):
    """A condition of the write did not hold when it was to be committed."""

    condition: object
    """Which one."""


class StoreBusy(StoreError):
    """Others kept the store busy for too long; nothing was written."""


class StoreFull(StoreError):
    """The disk is full; nothing was written."""


class StoreReadOnly(StoreError):
    """The store cannot be written to."""


class NotKeeper(StoreReadOnly):
    """This role of the database may only add to the journal: erasing is for the keeper's."""


class StoreClosed(StoreError):
    """The store is closed."""


class StoreMoved(StoreError):
    """The store was moved to another one; what is here can only be read."""


class StoreUnfinished(StoreError):
    """The store is being filled by a move that is not finished."""


class StoreForked(StoreError):
    """The store was opened before this process was forked; open it again in the child."""


class StoreDamaged(StoreError):
    """The store is damaged."""


class NotOurStore(StoreError):
    """This is not a Sayso store."""


class StoreNewer(StoreError):
    """The store was written by a newer version of Sayso; upgrade this one."""


class StoreOlder(StoreError):
    """The store was written by an older version of Sayso: run `sayso migrate` first."""


class StoreRestored(StoreError):
    """The store was restored or copied: run `sayso restored` on it before anything is written."""


class BrokenChain(StoreError):
    """The journal was changed after it was written."""


class IllegalEvent(SaysoError):
    """The state machine does not allow this event here."""


class NotUnderstood(SaysoError):
    """This data was written by another version of Sayso, or is damaged."""


class NotDone(SaysoError):
    """Raised by a tool that certainly had no effect: the call may be started again."""


class InBody(SaysoError):
    """The body of a durable tool cannot simply go on."""


class NotAnswered(InBody):
    """What was asked has no answer."""

    decision: Decision
    """What was decided instead."""


class StepFailed(InBody):
    """A step ended in an error."""

    kind: str
    """The error's class name."""


class BadAwait(InBody):
    """A body waits from its own task, for one thing at a time, and never inside a step."""


class BodyGone(InBody):
    """This body does not count any more; whatever it still does is ignored."""


class ModelFailed(SaysoError):
    """The model gave no usable answer."""

    retryable: bool = False
    retry_after_ms: int | None = None
    """How long its provider asks to be left alone."""


class CannotGoOn(SaysoError):
    """The run has used up what it may, and fails."""


class SignInFailed(SaysoError):
    """The provider gave no token that can be used."""

    code: str | None = None
    """The provider's error code, if it is one of the standard's; `invalid_grant`: sign in again."""
    retryable: bool = False


class AddressRefused(SaysoError):
    """This address is not one that may be reached from here."""


class Unreachable(SaysoError):
    """The server did not answer."""


class WaitTimeout(SaysoError):
    """The wait is over, the run is not where it was waited for."""


class contained:  # noqa: N801 - it is used like a function.
    """Run somebody else's code. What would end the process is an error of that code: a run that is
    taken up again after every restart would end it every time.
    """

    __slots__ = ("_what",)

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None and isinstance(error, SystemExit | KeyboardInterrupt):
            raise RuntimeError(f"{self._what} raised {describe(error)}") from error


def describe(error: BaseException) -> str:
    """Say what an exception of somebody else's code says, even if it cannot say it itself."""
    try:
        text = str(error)
    except BaseException as worse:  # noqa: BLE001 - it has nothing to say.
        text = f"(no message: {type(worse).__name__})"
    return f"{type(error).__name__}: {text}"
