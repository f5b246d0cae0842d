"""What is received about holds: decisions, hand-overs, answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AwareDatetime, BeforeValidator, Field, JsonValue

from sayso.domain.grant import USES_MAX
from sayso.engine.grants import NOTE_MAX, Always
from sayso.errors import BadValue
from sayso.server.wire import In, Name, Out, Reason, VerdictIn


def _whole(value: object) -> object:
    # To a JSON Schema, 1.0 is an integer.
    return int(value) if isinstance(value, float) and value.is_integer() else value


class AlwaysIn(In):
    """How far a yes goes beyond the call that it is for."""

    args: Literal["same", "any"] | dict[str, JsonValue] = "same"
    """What later calls may be called with; or limits, such as `{"amount": {"at_most": 100}}`."""
    scope: Literal["project", "run"] = "project"
    until_s: Annotated[float, Field(gt=0, le=366 * 86400)] = 30 * 86400
    """For how many seconds from now."""
    uses: Annotated[int, Field(ge=1, le=USES_MAX), BeforeValidator(_whole)] | None = None
    note: Annotated[str, Field(max_length=NOTE_MAX)] = ""

    def always(self) -> Always:
        """Make what a decision is given."""
        return Always(
            args=self.args, scope=self.scope, until=self.until_s, uses=self.uses, note=self.note
        )


class DecisionIn(VerdictIn):
    """A decision about one hold."""

    seen: Name
    """The digest of what was shown."""
    undo: Annotated[float, Field(ge=0.001, le=600)] | None = None
    """For how many seconds it can be taken back; it counts after that."""
    even_if_alive: bool = False
    always: AlwaysIn | None = None
    """With `approve`: yes to later calls like this one, too."""


class HeldDecisionIn(DecisionIn):
    """A decision about one of several holds."""

    hold_id: Name


class DecisionsIn(In):
    """Several decisions, each for itself."""

    decisions: Annotated[list[HeldDecisionIn], Field(min_length=1, max_length=100)]


class ReassignIn(In):
    """Whom to hand a hold over to."""

    to: Name
    note: Reason = ""


class RemindIn(In):
    """When to be told again: one of the two."""

    in_s: Annotated[float, Field(ge=60, le=31 * 86400)] | None = None
    """In how many seconds."""
    at: Annotated[AwareDatetime, Field(strict=False)] | None = None

    def when(self) -> datetime | float:
        """Give the time, or how long from now. `BadValue` unless one of the two is said."""
        when = self.in_s if self.at is None else self.at
        if when is None or (self.in_s is not None and self.at is not None):
            raise BadValue("say either `in_s` or `at`")
        return when


class RemindOut(Out):
    """When somebody is told again."""

    hold_id: str
    at: datetime


class RespondIn(In):
    """The answer to a question."""

    response: JsonValue
    seen: Name
    """The digest of what was shown."""


class SignInOut(Out):
    """Where to sign in."""

    url: str
