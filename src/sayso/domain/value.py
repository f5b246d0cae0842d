"""The base of every value in the domain, and the few that everything else speaks of.

Rule: a struct here is frozen, built by keyword, and refuses fields it does not know when it is
read back, because what is not understood must be refused rather than half understood. It is a tree,
never a circle, so the collector of circles need not look at the thousands of them.
"""

from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    RawOrNone = msgspec.Raw | None
else:
    # msgspec encodes `Raw | None` and then reads nothing but null for it (its issue 659). A plain
    # `Raw` whose default is None is left out when it is None, and comes back as None.
    RawOrNone = msgspec.Raw


class Value(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """An immutable value of the domain."""


class Tagged(Value, frozen=True, kw_only=True, tag_field="is"):
    """A member of a union of values, told apart by its tag."""


class Row(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    array_like=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
    gc=False,
):
    """A part of a run's state: kept without the names of its fields, so only its end may grow."""


class Principal(Value, frozen=True, kw_only=True):
    """Who acts: a person, an agent, a service or the clock."""

    id: str
    kind: Literal["person", "agent", "service", "clock"] = "person"

    def __str__(self) -> str:
        return self.id if self.kind == "person" else f"{self.kind}:{self.id}"


CLOCK = Principal(kind="clock", id="clock")
"""Nobody: what happens because time has passed."""


SAYSO = Principal(kind="service", id="sayso")
"""Who speaks when the engine itself has something to say."""


def person(by: str | Principal) -> Principal:
    """Read `by` as a principal: a bare id is a person's."""
    return Principal(id=by) if isinstance(by, str) else by
