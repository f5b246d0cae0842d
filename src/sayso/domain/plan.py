"""The plan of a run: its items, what each of them waits for, and how far each has come.

Rule: a plan says what is to be done and in which order. How far an item has come is told by its
strand, and kept nowhere else.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain.run import Run, Strand
from sayso.domain.standing import ASKS, going_on
from sayso.domain.transcript import Transcript
from sayso.domain.value import Tagged, Value
from sayso.errors import BadValue

ItemStatus = Literal["pending", "in_progress", "waiting", "done", "failed"]
OPEN: frozenset[ItemStatus] = frozenset({"in_progress", "waiting"})
"""An item has a strand that is not over."""


class Item(Value, frozen=True, kw_only=True):
    """One thing to be done."""

    id: str
    task: str
    after: tuple[str, ...] = ()
    """The items whose results it builds on."""
    round: int = 1
    """Which plan of the run it was made in: a failed item and its successor may share an id."""


class Plan(Tagged, frozen=True, kw_only=True, tag="plan.1"):
    """What the agent keeps of the main strand."""

    items: tuple[Item, ...] = ()
    round: int = 0
    """How many plans were made."""
    replans: int = 0
    """How often a new plan was asked for because an item had failed."""
    tries: int = 0
    """How many plans in a row could not be used."""
    trouble: str = ""
    """What was wrong with the last of them."""


class Progress(Value, frozen=True, kw_only=True):
    """An item, and how far it has come."""

    item: Item
    status: ItemStatus = "pending"
    strand: str = ""
    """Where it is worked on; empty if it is pending."""
    result: bytes | None = None
    error: str = ""


def plan_of(transcript: Transcript) -> Plan | None:
    """Read what the main strand's agent keeps of it; None if that is no plan."""
    data = transcript.strands[e.MAIN].data
    try:
        return None if data is None else msgspec.json.decode(data, type=Plan)
    except msgspec.DecodeError:
        return None


def to_raw(value: Plan | Item) -> msgspec.Raw:
    """Encode what is kept of a strand."""
    return msgspec.Raw(msgspec.json.encode(value))


def progress(plan: Plan, run: Run, transcript: Transcript) -> list[Progress]:
    """Say how far each item of a plan has come."""
    strands: dict[tuple[str, int], str] = {}
    for name, log in transcript.strands.items():
        if name != e.MAIN and log.data is not None:
            item = msgspec.json.decode(log.data, type=Item)
            strands[item.id, item.round] = name
    return [
        _progress(item, strands.get((item.id, item.round), ""), run, transcript)
        for item in plan.items
    ]


def _progress(item: Item, name: str, run: Run, transcript: Transcript) -> Progress:
    if not name:
        return Progress(item=item)
    log = transcript.strands[name]
    strand = run.strand(name)
    found = Progress(item=item, status="in_progress", strand=name)
    if log.closed:
        return over(found, log.result, log.error)
    if run.final:
        # Nobody will go on with it.
        return over(found, None, f"the run is {run.final}")
    if strand is not None and _waits(run, strand):
        return replace(found, status="waiting")
    return found


def _waits(run: Run, strand: Strand) -> bool:
    return any(call.state in ASKS for call in strand.calls) and not going_on(run, strand)


def over(one: Progress, result: bytes | None, error: str) -> Progress:
    """Give an item as it is once its strand is closed."""
    status = "failed" if error else "done"
    return Progress(item=one.item, status=status, strand=one.strand, result=result, error=error)


def ready(states: Sequence[Progress]) -> list[Item]:
    """List the items that can begin: all that they build on is done."""
    done = {one.item.id for one in states if one.status == "done"}
    return [one.item for one in states if one.status == "pending" and done >= {*one.item.after}]


def check_order(items: Sequence[Item], known: Iterable[str] = ()) -> None:
    """Refuse items that no order could be found for, with `BadValue`. `known`: what is there."""
    ids = [item.id for item in items]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise BadValue(f"more than one item has the id {_names(twice)}")
    there = {*known}
    for item in items:
        unknown = {*item.after} - there - {*ids}
        if unknown:
            raise BadValue(f"the item {item.id!r} is after {_names(unknown)}, which is no item")
    left = list(items)
    while left:
        free = {item.id for item in left if there >= {*item.after}}
        if not free:
            raise BadValue(f"these items wait for one another: {_names(i.id for i in left)}")
        there |= free
        left = [item for item in left if item.id not in free]


def _names(ids: Iterable[str]) -> str:
    return ", ".join(repr(one) for one in sorted(ids))
