"""The door: who was refused what is written down, and nobody can make that log spin.

Rule 1: it changes nothing about a refusal. Whatever becomes of the note, the error goes on.
Rule 2: so many notes a minute for one who tries one thing, and for all together; what is above that
is counted, and the count is written down once the minute is over.
Rule 3: who, what, on what, when, by which channel, and why not; never what was said or asked.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from sayso.domain.hold import read_id
from sayso.domain.value import Principal
from sayso.engine.ids import is_run_id
from sayso.errors import BadState, NotAllowed, NotUnderstood, NotWhatWasShown, SaysoError
from sayso.store.base import Store

if TYPE_CHECKING:
    from sayso.store.door import DoorEntry

log = logging.getLogger("sayso")

NOTED = (NotAllowed, NotWhatWasShown, BadState)
"""The refusals that say something about whoever asks."""
WINDOW_MS = 60_000
NOTES_MAX = 20
"""How many are written down in a minute, of one who tries one thing."""
NOTES_MAX_OF_ALL = 600
"""And of all together."""
TEXT_MAX = 300
"""How much is kept of any text."""
_ALL = ("", "")


class Attempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt that was refused."""

    verb: str
    """What was tried: decide, undo, say, cancel, command, redact, ..."""
    by: str = ""
    """Who tried, if that is known."""
    on: str = ""
    """The hold or run that it was tried on."""
    channel: str = ""
    error: str = ""
    """Why it was refused, in one word."""
    message: str = ""
    missed: int = 0
    """How many more were not written down; it is about those, then."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the door log, as people see it."""

    n: int
    project: str
    at: int
    """Store time, milliseconds since 1970."""
    attempt: Attempt
    hash: str


class _Window:
    """What one who tries one thing has tried in a minute."""

    def __init__(self, start: int, project: str) -> None:
        self.start = start
        self.project = project
        self.count = 0
        self.missed = 0


class DoorKeeper:
    """Writes refusals down."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._windows: dict[tuple[str, str], _Window] = {}

    async def refused(
        self,
        verb: str,
        error: SaysoError,
        *,
        by: Principal | None = None,
        on: str = "",
        channel: str = "",
    ) -> None:
        """Write a refusal down. Never raises: it is the refusal that has to be heard."""
        try:
            await self._note(verb, error, by=by, on=on, channel=channel)
        except Exception as fault:  # noqa: BLE001 - a refusal stays one, whatever fails here.
            log.warning("a refused attempt to %s was not written down: %s", verb, fault)

    async def flush(self, *, everything: bool = False) -> None:
        """Write down how many were not, in the minutes that are over; or in all of them."""
        now = self._store.now()
        for key, window in list(self._windows.items()):
            if not (everything or not 0 <= now - window.start < WINDOW_MS):
                continue
            if self._windows.get(key) is not window:
                continue  # While this waited for the store, somebody else has written it down.
            del self._windows[key]
            if window.missed:
                by, verb = key
                missed = Attempt(
                    verb=verb,
                    by=by,
                    missed=window.missed,
                    message=f"{window.missed} more were not written down",
                )
                await self._store.door.note(window.project, msgspec.json.encode(missed))

    async def close(self) -> None:
        """Write down how many were not, before the store is gone. Never raises."""
        try:
            await self.flush(everything=True)
        except SaysoError as error:
            log.warning("how many were refused was not written down: %s", error)

    async def _note(
        self, verb: str, error: SaysoError, *, by: Principal | None, on: str, channel: str
    ) -> None:
        await self.flush()
        who = "" if by is None else _brief(str(by))
        project = await self._project(on)
        if not self._admit((who, verb), project):
            return
        attempt = Attempt(
            verb=verb,
            by=who,
            on=_brief(on),
            channel=_brief(channel),
            error=type(error).__name__,
            message=_brief(str(error)),
        )
        await self._store.door.note(project, msgspec.json.encode(attempt))

    def _admit(self, key: tuple[str, str], project: str) -> bool:
        now = self._store.now()
        every = self._windows.setdefault(_ALL, _Window(now, ""))
        if every.count >= NOTES_MAX_OF_ALL and key not in self._windows:
            # Nor is there room to count each of them.
            every.missed += 1
            return False
        window = self._windows.setdefault(key, _Window(now, project))
        if window.count >= NOTES_MAX or every.count >= NOTES_MAX_OF_ALL:
            window.missed += 1
            return False
        window.count += 1
        every.count += 1
        return True

    async def _project(self, on: str) -> str:
        """Find the project that something is of; nothing if there is no such thing."""
        place = read_id("hold", on) or read_id("req", on)
        run_id = on if place is None else place[0]
        row = await self._store.load(run_id) if is_run_id(run_id) else None
        return "" if row is None else row.project


class _AtTheDoor(Protocol):
    @property
    def door(self) -> DoorKeeper: ...


S = TypeVar("S", bound=_AtTheDoor)
A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")
_Method = Callable[Concatenate[S, A, P], Awaitable[T]]
_Guarded = Callable[Concatenate[S, A, P], Coroutine[Any, Any, T]]


def guarded(
    verb: str, *, named: bool = True
) -> Callable[[_Method[S, A, P, T]], _Guarded[S, A, P, T]]:
    """Have the refusals of a verb written down. Its first argument names what it is tried on,
    unless it is not `named`; who tries is in `by`, or in the request.
    """

    def wrap(method: _Method[S, A, P, T]) -> _Guarded[S, A, P, T]:
        @functools.wraps(method)
        async def call(self: S, what: A, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await method(self, what, *args, **kwargs)
            except NOTED as error:
                if not error.__dict__.get("noted"):
                    # One verb may call another: it was one attempt all the same.
                    error.__dict__["noted"] = True
                    given: list[Any] = [what, *args]
                    by = kwargs.get("by") or _first(given, "by")
                    await self.door.refused(
                        verb,
                        error,
                        by=by if isinstance(by, Principal) else None,
                        on=what if named and isinstance(what, str) else "",
                        channel=str(_first(given, "channel") or ""),
                    )
                raise

        return call

    return wrap


def read_attempt(entry: DoorEntry) -> Refused:
    """Read an entry of the door log. `NotUnderstood` if another version wrote it."""
    try:
        attempt = msgspec.json.decode(entry.payload, type=Attempt)
    except msgspec.MsgspecError as error:
        raise NotUnderstood(f"entry {entry.n} of the door log is not understood: {error}") from None
    return Refused(
        n=entry.n,
        project=entry.project,
        at=entry.at,
        attempt=attempt,
        hash=entry.hash.hex(),
    )


def _first(given: list[Any], name: str) -> Any:
    return next((found for one in given if (found := getattr(one, name, None))), None)


def _brief(text: str) -> str:
    # An id that somebody made up may be anything.
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}... ({len(text)} characters)"
