"""Whether a hold is what its digest says: checked by a desk before it signs.

A desk shows people what the store has, and signs the digest that the store has beside it. Whoever
can write the store could let one say something harmless and the other something else; so the desk
makes the digest again from what there is to see.
"""

from __future__ import annotations

import msgspec

from sayso.domain import codec
from sayso.domain.digest import ask_digest, call_digest
from sayso.domain.hold import Hold, hold_id
from sayso.domain.operand import OperandPin, encode_pins
from sayso.domain.run import CallRow, Run
from sayso.domain.secret import mask_args
from sayso.domain.transcript import Transcript
from sayso.errors import NotWhatWasShown


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a person was shown of a call."""

    tool: str
    args: bytes
    operands: tuple[OperandPin, ...]


def check_genuine(run: Run, n: int, transcript: Transcript, shown: Shown | None) -> None:
    """Refuse to sign a decision on a hold whose digest is not of what there is to see of it, or
    was seen of it.
    """
    hold = run.hold(n)
    row = None if hold is None else run.call(hold.call)
    if hold is None or row is None:
        return  # It is not open, as will be said.
    if transcript.seq < max(hold.entry, hold.revised):
        # It was asked, or asked otherwise, after it was looked at.
        raise NotWhatWasShown(digest=hold.digest, version=hold.version)
    pins = transcript.operands.get(row.ref, ())
    seen = Shown(tool=row.tool, args=transcript.args.get(row.ref, b""), operands=pins)
    if not _is_genuine(run, hold, row, transcript, seen):
        raise NotWhatWasShown(
            f"what is stored of {hold_id(run.id, n)!r} is not what its digest names, so it is not "
            "signed: check the store with 'sayso audit verify'",
            digest=hold.digest,
            version=hold.version,
        )
    if shown is None:
        return
    if hold.kind != "approval" or hold.then != "start":
        # What its call asks besides is shown without the files.
        seen = msgspec.structs.replace(seen, operands=shown.operands)
    # People see marks where the call has secrets.
    if shown != msgspec.structs.replace(seen, args=mask_args(seen.args)):
        raise NotWhatWasShown(digest=hold.digest, version=hold.version)


def _is_genuine(run: Run, hold: Hold, row: CallRow, transcript: Transcript, seen: Shown) -> bool:
    named = call_digest(
        project=run.project,
        run=run.id,
        version=row.version,
        tool=seen.tool,
        tool_version=transcript.tool_versions.get(row.ref, ""),
        args=seen.args,
        operands=encode_pins(seen.operands),
    )
    if named != row.digest:
        return False
    if hold.then == "start":
        return hold.digest == named
    ask = transcript.ask_of(hold.n)
    if ask is None:
        return False
    # What a call asks instead of having a body is named by the call, all else by its place.
    return hold.digest in {
        ask_digest(
            project=run.project, run=run.id, call=of, step=hold.step, ask=codec.encode_ask(ask)
        )
        for of in (row.ref, named)
    }
