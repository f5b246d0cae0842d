"""An append that is ready to be made, and what must be run once it is."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.call import Call
from sayso.domain.run import CallRow, Run
from sayso.domain.verbs import Start
from sayso.engine.gate import Checked
from sayso.engine.ports import Driver
from sayso.engine.sent import Items, Verb


class Proposal:
    """A verb, and the arguments of the calls that it starts."""

    def __init__(
        self,
        given: Verb | None = None,
        *,
        args: dict[str, bytes],
        tick: int,
        items: Items | None = None,
    ) -> None:
        self._given = given
        """The verb, unless this is of a kind that has its own."""
        self.items = items
        """What it puts on the shelf: the uses of grants."""
        self.args = args
        """By ref; a verb that takes a turn fills this in, as it gives the turn its number."""
        self.tick = tick
        """When it was made, by the lease clock: a start must not be much older than this."""
        self.waits = False
        """Whether it could not be appended because a command is under way."""

    def verb(self, run: Run) -> Sequence[e.Event]:
        """Say what to append to a run."""
        assert self._given is not None, "a proposal without a verb"
        return self._given(run)


def start_of(
    driver: Driver,
    call: Call | CallRow,
    *,
    worker: str,
    tick: int,
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
    )


def allowed_by(start: Start, check: Checked) -> Start:
    """Say what allows a call to start: the records of people, or a grant."""
    grant = None if check.found is None else check.found.grant
    return replace(
        start,
        basis=check.basis,
        grant="" if grant is None else grant.id,
        grant_until=None if grant is None else grant.until,
    )
