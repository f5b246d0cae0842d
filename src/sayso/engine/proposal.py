"""An append that is ready to be made, and what must be run once it is."""

from __future__ import annotations

import msgspec

from sayso.domain.call import Call
from sayso.domain.run import CallRow
from sayso.domain.verbs import Start
from sayso.engine.ledger import Verb
from sayso.engine.ports import Driver


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A verb with the arguments of the calls that it may start."""

    verb: Verb
    args: dict[str, bytes]
    tick: int
    """When it was made, by the lease clock: a start must not be much older than this."""


def start_of(driver: Driver, call: Call | CallRow, *, worker: str, tick: int) -> Start:
    """Say how a call is to be started."""
    found = driver.tools[call.tool]
    return Start(
        ref=call.ref,
        digest=call.digest,
        worker=worker,
        tick=tick,
        timeout_ms=found.timeout_ms,
        tool_version=found.version,
    )
