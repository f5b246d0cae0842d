"""What to do about an error, in one line."""

from __future__ import annotations

from sayso import errors
from sayso.cli.plain import plain

_ADVICE: dict[type[BaseException], str] = {
    errors.UnknownRun: "`sayso show STORE` lists the runs of a store",
    errors.UnknownHold: "hold_x.1 is the first of run_x; `sayso show STORE run_x` prints all",
    errors.WrongVerdict: "`sayso show STORE run_x` prints what each hold asks",
    errors.NotOurStore: "name the store that `Sayso(...)` was opened with",
    errors.StoreRestored: "docs/howto/backups.md says what to do before",
    errors.RunArchived: "`sayso audit verify FILE` checks it, `zcat FILE` prints it",
    errors.StoreMoved: "`sayso move --undo` takes it back, until the other one was worked on",
    errors.NotKeeper: "the keeper's role may do this",
    errors.StoreBusy: "try again in a moment",
    errors.StoreFull: "make room on the disk and try again",
    errors.WaitTimeout: "try again; SAYSO_DEBUG=1 shows where it waited",
    PermissionError: "ask for the right to read and write it",
}

_OF_FILES: dict[type[BaseException], str] = {
    errors.StoreDamaged: "restore a backup, or move the file back to where it was",
    errors.StoreReadOnly: "copy the file, and the one ending in -wal if there is one, to where "
    "you may write, and name the copy",
}
"""What is of no use to whoever has a database."""


def explain(error: Exception) -> str:
    """Say in one line what went wrong and what to do."""
    said = plain(error)
    if not isinstance(error, errors.SaysoError | OSError):
        return f"a fault in Sayso, {type(error).__name__}: {said}; SAYSO_DEBUG=1 shows where"
    known = _ADVICE if "://" in said else _ADVICE | _OF_FILES
    advice = next((known[kind] for kind in type(error).__mro__ if kind in known), "")
    return f"{said}; {advice}" if advice else said
