"""Telling what goes on to whoever watches the service: the port, and all that is ever told.

Rule 1: ids, names of tools and agents, kinds, statuses, risks and times. Never what somebody said,
asked for, decided with or was answered: the attributes that there are, are listed here.
Rule 2: nothing is decided by it, and nothing is different with it but the `trace` of an entry.
Rule 3: whoever does not ask for it does not pay for it; see `watched.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Literal, Protocol

import msgspec

Attributes = Mapping[str, str | int]
Kind = Literal["counter", "histogram", "gauge"]


class Metric(msgspec.Struct, frozen=True):
    """Something that is counted or measured."""

    kind: Kind
    unit: str
    means: str


SPANS = {
    "sayso.start": "a run is started",
    "sayso.turn": "a turn is taken: the model answers, and its calls pass the gate",
    "sayso.call": "a tool runs, or goes on after an answer",
    "sayso.look_into": "what became of a call is found out after its worker was lost",
    "sayso.decide": "somebody decides a hold, or all of a request",
    "sayso.deliver": "somebody is told of a hold",
}
"""By name; those of requests are named by method and route."""

METRICS = {
    "sayso.appends": Metric("counter", "{append}", "writes to journals"),
    "sayso.runs": Metric("counter", "{run}", "runs that came to a status"),
    "sayso.calls.doubted": Metric("counter", "{call}", "calls that came to be in doubt"),
    "sayso.decision.time": Metric("histogram", "s", "from asking to a decision"),
    "sayso.deliveries": Metric("counter", "{notice}", "notices that channels took, or did not"),
    "sayso.holds.open": Metric("gauge", "{hold}", "holds that wait"),
    "sayso.holds.oldest": Metric("gauge", "s", "how long the oldest one has waited"),
    "sayso.calls.in_doubt": Metric("gauge", "{call}", "calls in doubt"),
    "sayso.outbox.lag": Metric("gauge", "s", "for how long the next parcel has been due"),
}

ATTRIBUTES = frozenset(
    {
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "sayso.age",
        "sayso.agent",
        "sayso.attempt",
        "sayso.hold.id",
        "sayso.kind",
        "sayso.outcome",
        "sayso.request.id",
        "sayso.risk",
        "sayso.run.id",
        "sayso.status",
        "sayso.tool",
        "sayso.verdict",
    }
)
"""All that spans and metrics say, but for the type of an error."""


class Span(Protocol):
    """Something that takes its time."""

    def note(self, attributes: Attributes) -> None:
        """Say more about it."""
        ...

    def name(self, name: str) -> None:
        """Call it something else, once it is known what it is."""
        ...

    def link(self, trace: str) -> None:
        """Say where it has to do with; nothing if that was not traced."""
        ...

    def fail(self, error: str) -> None:
        """Say that it failed, by the type of the error."""
        ...


class Telemetry(Protocol):
    """Hears what goes on. Where something is traced goes by its W3C `traceparent`, or by nothing.

    Never raises, and never waits.
    """

    def span(
        self,
        name: str,
        attributes: Attributes | None = None,
        *,
        parent: str | None = None,
        links: Iterable[str] = (),
        serves: bool = False,
    ) -> AbstractContextManager[Span]:
        """Give a span that is the current one inside, below the current one, or below `parent`;
        below none if that is empty. It has failed if an error leaves it. One that `serves` answers
        somebody else's request.
        """
        ...

    def trace(self) -> str:
        """Say where the current span is; nothing if there is none."""
        ...

    def within(self, trace: str) -> AbstractContextManager[object]:
        """Let what is done inside be of a span of some other process, or of none."""
        ...

    def count(self, name: str, attributes: Attributes | None = None, *, by: int = 1) -> None:
        """Add to a counter."""
        ...

    def measure(self, name: str, value: float, attributes: Attributes) -> None:
        """Add a value to a histogram."""
        ...

    def show(self, gauges: Mapping[str, Sequence[tuple[float, Attributes]]]) -> None:
        """Replace what gauges are at: all of them."""
        ...
