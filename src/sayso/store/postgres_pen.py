"""Appends to PostgreSQL: written down for one statement, and its answers read.

What the server finds otherwise than a write expects comes back as facts; which error they make is
decided where every store decides it, in `admit.py`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from sayso.domain.guard import Before, Condition, ItemAt, Since
from sayso.errors import BadValue, KeyReused, SaysoError, StoreError, ThreadBusy
from sayso.store import chain
from sayso.store.admit import check_conditions, check_guard, check_item
from sayso.store.archive import archived
from sayso.store.base import Appended, HoldRow, ItemPut, KeyRow, NewParcel, Write
from sayso.store.outbox import check_parcels
from sayso.store.postgres_array import Blobs, Cell, Numbers, Texts, number, text
from sayso.store.postgres_error import from_state
from sayso.store.shelf import check_name, check_put, check_rev

APPEND = f"select append({'%b, ' * 21}%s::bigint, %s::text, %s::text)"
"""The columns that `bind` gives, store time if it is a test's, the sender and the channel."""
_FINAL = ("completed", "failed", "cancelled")


class _Facts(msgspec.Struct, frozen=True):
    """What was found otherwise than the write with this number expects."""

    write: int
    seq: int = 0
    last: str = ""
    owner: str = ""
    at: int = 0
    which: int = 0
    found: int | None = None
    digest: str = ""
    run_id: str = ""
    file: str = ""

    def rev(self, *_: str) -> int:
        """Give the rev that was found, whoever asks."""
        return self.found or 0


class _Line(NamedTuple):
    """A write: a cell for each column."""

    run: Cell
    project: Cell
    agent: Cell
    thread: Cell
    status: Cell
    owner: Cell
    owner_was: Cell
    after: Cell
    after_id: Cell
    fold: Cell
    state: Cell
    due_at: Cell
    conditions: Cell
    rest: Cell


_COLUMNS = (*[Texts] * 7, Numbers, Blobs, Numbers, Blobs, Numbers, Texts, Texts)
"""What the cells of a line become, in their order."""


class Doc(NamedTuple):
    """An append, written down: its lines, and for each of them its entries and other bytes."""

    writes: tuple[Write, ...]
    lines: list[_Line]
    blobs: list[list[bytes]]
    size: int
    """About how many bytes it has."""


class _Places(list[bytes]):
    """Bytes that JSON names by their place."""

    def place(self, data: bytes | None) -> int | None:
        if data is None:
            return None
        self.append(data)
        return len(self)


def write_down(writes: tuple[Write, ...]) -> Doc:
    """Write an append down. `BadValue` if something in it could not be kept."""
    lines: list[_Line] = []
    blobs: list[list[bytes]] = []
    size = 0
    for write in writes:
        _check_names(write)
        places = _Places()
        lines.append(_line(write, places))
        blobs.append(places)
        size += len(write.state) + sum(map(len, places))
        size += sum(len(new.payload) for new in write.entries)
    return Doc(writes, lines, blobs, size)


def bind(docs: Sequence[Doc]) -> tuple[list[Cell], ...]:
    """Put appends into one row of parameters."""
    lasts, uptos, bases = Numbers(), Numbers(), Numbers()
    ids, payloads, blobs = Blobs(), Blobs(), Blobs()
    lines: list[_Line] = []
    for doc in docs:
        lines += doc.lines
        lasts.append(number(len(lines)))
        for write, own in zip(doc.writes, doc.blobs, strict=True):
            ids += [new.id for new in write.entries]
            payloads += [new.payload for new in write.entries]
            uptos.append(number(len(ids)))
            bases.append(number(len(blobs)))
            blobs += own
    width = chain.SALT_BYTES
    salt = os.urandom(width * len(ids))
    salts = Blobs(salt[at : at + width] for at in range(0, len(salt), width))
    cells = zip(*lines, strict=True) if lines else [()] * len(_COLUMNS)
    columns = [kind(column) for kind, column in zip(_COLUMNS, cells, strict=True)]
    return (lasts, *columns, uptos, ids, salts, payloads, bases, blobs)


def read_answer(doc: Doc, answer: dict[str, Any], name: str) -> Appended | SaysoError:
    """Read what became of an append."""
    if "position" in answer:
        return Appended(at=answer["at"], position=answer["position"])
    try:
        _refuse(doc, answer, name)
    except SaysoError as error:
        return error
    return StoreError(f"{name!r} refused a write and did not say why: {answer['said']}")


def _refuse(doc: Doc, answer: dict[str, Any], name: str) -> None:
    state: str = answer["state"]
    if not state.startswith("SY") or state in ("SY008", "SY010"):
        raise _from_server(doc, answer, name)
    if state == "SY006":
        raise StoreError(f"the write to {doc.writes[0].run!r} cannot be kept: {answer['said']}")
    facts = msgspec.json.decode(answer["why"], type=_Facts)
    write = doc.writes[facts.write]
    match state:
        case "SY001":
            last = bytes.fromhex(facts.last)
            check_guard(write, seq=facts.seq, last=last, owner=facts.owner)
        case "SY002":
            only = replace(write, only_if=(write.only_if[facts.which],))
            check_conditions(only, facts.at, facts.rev)
        case "SY003":
            assert write.key is not None
            raise KeyReused(
                f"the key {write.key.key!r} was used before",
                found=KeyRow(digest=facts.digest, run_id=facts.run_id, seq=facts.seq),
            )
        case "SY004":
            check_item(write, write.items[facts.which], facts.rev)
        case "SY009":
            archived(facts.run_id, facts.file, write.project)
        case _:
            return


def _from_server(doc: Doc, answer: dict[str, Any], name: str) -> SaysoError:
    state, said, which = answer["state"], answer["said"], answer["which"]
    if state == "23505" and which == "one_unfinished_run_a_thread":
        threads = [one.thread for one in doc.writes if one.thread and one.status not in _FINAL]
        return ThreadBusy(f"the thread {threads[0]!r} is busy with another run")
    if state[:2] == "23" or (state[:2] == "22" and state not in ("22P05", "22021")):
        return StoreError(f"the write to {doc.writes[0].run!r} cannot be kept: {said}")
    return from_state(state, said, name)


def _check_names(write: Write) -> None:
    """Raise `BadValue` for an item or a parcel that could not be kept."""
    for condition in write.only_if:
        if isinstance(condition, ItemAt):
            check_name(write.project, condition.kind, condition.id)
            check_rev(condition.rev, least=0)
    for item in write.items:
        if item.data is None:
            check_name(write.project, item.kind, item.id)
            check_rev(item.rev, least=1)
        else:
            check_put(write.project, item.kind, item.id, item.data, item.rev)
    check_parcels(write)


def _line(write: Write, places: _Places) -> _Line:
    return _Line(
        run=text(write.run),
        project=text(write.project),
        agent=text(write.agent),
        thread=text(write.thread or None),
        status=text(write.status),
        owner=text(write.owner),
        owner_was=text(write.owner_was),
        after=number(write.after),
        after_id=write.after_id,
        fold=number(write.fold),
        state=write.state,
        due_at=number(write.due_at),
        conditions=_json(_conditions(write)),
        rest=_json(_rest(write, places)),
    )


def _json(said: object) -> Cell:
    try:
        return msgspec.json.encode(said) if said else None
    except (TypeError, ValueError) as error:  # Half a character is a ValueError as well.
        raise BadValue(f"it cannot be kept: {error}") from None


def _conditions(write: Write) -> list[tuple[Any, ...]]:
    found = [_condition(one) for one in write.only_if]
    if write.key is not None:
        found.append(("key", write.key.project, write.key.key))
    return found


def _rest(write: Write, places: _Places) -> dict[str, Any]:
    """Give what not every write has."""
    rest: dict[str, Any] = {}
    if write.key is not None:
        rest["key"] = (write.key.project, write.key.key, write.key.digest)
    if write.holds:
        rest["holds"] = [_hold(one, places) for one in write.holds]
    if write.redacts:
        rest["redacts"] = write.redacts
    if write.items:
        rest["items"] = [_item(one, places) for one in write.items]
    if write.parcels or write.unparcels:
        rest["parcels"] = [_parcel(one, places) for one in write.parcels]
        rest["unparcels"] = write.unparcels
    return {"project": write.project, **rest} if rest else rest


def _condition(condition: Condition) -> tuple[Any, ...]:
    match condition:
        case Before(at=at):
            return ("before", at)
        case Since(at=at):
            return ("since", at)
        case ItemAt(kind=kind, id=id, rev=rev):
            return ("item", kind, id, rev)


def _hold(hold: HoldRow, places: _Places) -> dict[str, Any]:
    return {
        "n": hold.n,
        "status": hold.status,
        "call": hold.call,
        "kind": hold.kind,
        "tool": hold.tool,
        "version": hold.version,
        "digest": hold.digest,
        "suspension": hold.suspension,
        "entry": hold.entry,
        "revised": hold.revised,
        "args_entry": hold.args_entry,
        "opened_at": hold.opened_at,
        "deadline": hold.deadline,
        "who": hold.who,
        "decision": places.place(hold.decision),
        "votes": places.place(hold.votes),
        "escalates_at": hold.escalates_at,
        "words": places.place(None if hold.words is None else hold.words.encode()),
    }


def _item(item: ItemPut, places: _Places) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.id, "rev": item.rev, "data": places.place(item.data)}


def _parcel(parcel: NewParcel, places: _Places) -> dict[str, Any]:
    return {
        "id": parcel.id,
        "kind": parcel.kind,
        "due_at": parcel.due_at,
        "data": places.place(parcel.data),
    }
