"""An event with its place in a journal."""

from __future__ import annotations

from sayso.domain.events import AnyEvent
from sayso.domain.value import Value


class Recorded(Value, frozen=True, kw_only=True):
    """An event with its place in a run's journal and the store time it was committed at."""

    run_id: str
    seq: int
    at: int
    event: AnyEvent | None
    """None if the entry was redacted."""
    position: int = 0
    """Its place in the order in which the whole store committed."""

    @property
    def type(self) -> str:
        """The event's tag without its version."""
        if self.event is None:
            return "redacted"
        return str(self.event.__struct_config__.tag).rpartition(".")[0]
