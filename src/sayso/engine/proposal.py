"""An append that is ready to be made, and what must be run once it is."""

from __future__ import annotations

from sayso.domain.call import Call
from sayso.domain.people import Basis
from sayso.domain.run import CallRow
from sayso.domain.verbs import Start
from sayso.engine.ledger import Verb
from sayso.engine.ports import Driver


class Proposal:
    """A verb, and the arguments of the calls that it starts."""

    def __init__(self, verb: Verb, *, args: dict[str, bytes], tick: int) -> None:
        self.verb = verb
        self.args = args
        """By ref; a verb that takes a turn fills this in, as it gives the turn its number."""
        self.tick = tick
        """When it was made, by the lease clock: a start must not be much older than this."""
        self.waits = False
        """Whether it could not be appended because a command is under way."""


def start_of(
    driver: Driver,
    call: Call | CallRow,
    *,
    worker: str,
    tick: int,
    basis: tuple[Basis, ...] = (),
) -> Start:
    """Say how a call is to be started."""
    found = driver.tools[call.tool]
    return Start(
        ref=call.ref,
        digest=call.digest,
        worker=worker,
        tick=tick,
        timeout_ms=found.timeout_ms,
        tool_version=found.version,
        basis=basis,
    )
