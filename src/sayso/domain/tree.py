"""The instance tree of a machine's run: what is kept of each instance, and how it looks.

Rule: an instance is a strand. Where it is and what it knows is kept as the strand's data; whether
it waits is told by its calls, and kept nowhere else.
"""

from typing import Any, Literal

import msgspec

from sayso.domain.call import CallState
from sayso.domain.digest import decode_value
from sayso.domain.hold import hold_id
from sayso.domain.run import Run, Strand
from sayso.domain.standing import startable
from sayso.domain.transcript import StrandLog, Transcript
from sayso.domain.value import RawOrNone, Tagged, Value
from sayso.errors import NotUnderstood

_GOING = (CallState.STARTED, CallState.ANSWERED)


class Leaving(Value, frozen=True, kw_only=True):
    """An instance is about to leave its node, once what it has started is over."""

    how: Literal["transition", "cede", "end"]
    to: str = ""
    """The node that it goes to."""
    value: RawOrNone = None
    """The state that it has there, or what it leaves to its parent."""
    error: str = ""
    """Why it could not go on."""


class Kept(Tagged, frozen=True, kw_only=True, tag="instance.1"):
    """What a machine keeps of an instance."""

    node: str
    state: msgspec.Raw
    leaving: Leaving | None = None


class InstanceView(Value, frozen=True, kw_only=True):
    """An instance, as of the run's last committed entry."""

    id: str
    """The name of its strand, such as `clerk.2`; the root is `main`."""
    node: str
    state: Any
    parent: str | None
    status: str
    """`active`; `waiting`: it goes on once somebody settles a hold of its own; `closed`."""
    holds: tuple[str, ...] = ()
    """The ids of what its calls, and the commands for it, ask."""
    result: Any = None
    """What it left to its parent."""
    error: str = ""
    """Why it could not go on."""


_MARK = b'{"is":"instance.1",'


def encode_kept(kept: Kept) -> msgspec.Raw:
    """Write down what is kept of an instance."""
    return msgspec.Raw(msgspec.json.encode(kept))


def decode_kept(data: bytes | None) -> Kept | None:
    """Read what is kept of an instance; None if this is something else."""
    if data is None or not data.startswith(_MARK):
        return None
    try:
        return msgspec.json.decode(data, type=Kept)
    except msgspec.MsgspecError as error:
        raise NotUnderstood(f"what is kept of an instance cannot be read: {error}") from error


def tree_of(run: Run, transcript: Transcript) -> tuple[InstanceView, ...]:
    """Show the instances of a machine's run, each after its parent; none if it is no machine's."""
    found: list[InstanceView] = []
    for name, log in transcript.strands.items():
        kept = decode_kept(log.data)
        if kept is not None:
            found.append(_view(run, transcript, name, log, kept))
    return tuple(found)


def _view(run: Run, transcript: Transcript, name: str, log: StrandLog, kept: Kept) -> InstanceView:
    strand = run.strand(name)
    refs = {ref for ref, (_, at) in transcript.commands.items() if at == name}
    refs |= set() if strand is None else {call.ref for call in strand.calls}
    return InstanceView(
        id=name,
        node=kept.node,
        state=decode_value(bytes(kept.state)),
        parent=log.parent or None,
        status=_status(run, strand),
        holds=tuple(hold_id(run.id, hold.n) for hold in run.holds if hold.call in refs),
        result=None if log.result is None else decode_value(log.result),
        error=log.error,
    )


def _status(run: Run, strand: Strand | None) -> str:
    if run.final or strand is None:
        return "closed"
    able = {call.ref for call in startable(run)}
    if any(call.state in _GOING or call.ref in able for call in strand.calls):
        return "active"
    return "waiting" if any(run.holds_of(call.ref) for call in strand.calls) else "active"
