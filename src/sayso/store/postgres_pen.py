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
from sayso.store.postgres_error import from_state
from sayso.store.shelf import check_name, check_put, check_rev

APPEND = "select * from append(%s::text[], %b::bytea[], %s::int[], %s::bigint, %s::text, %s::text)"
"""Appends, their bytes, where the bytes of each begin, store time if it is a test's, the sender and
the channel.
"""
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


class Doc(NamedTuple):
    """An append, written down."""

    writes: tuple[Write, ...]
    text: str
    blobs: list[bytes]


class _Blobs(list[bytes]):
    def place(self, data: bytes | None) -> int | None:
        if data is None:
            return None
        self.append(data)
        return len(self)


def write_down(writes: tuple[Write, ...]) -> Doc:
    """Write an append down. `BadValue` if something in it could not be kept."""
    blobs = _Blobs()
    for write in writes:
        _check_names(write)
    try:
        text = msgspec.json.encode([_write(write, blobs) for write in writes]).decode()
    except (TypeError, ValueError) as error:  # Half a character is a ValueError as well.
        raise BadValue(f"it cannot be kept: {error}") from None
    return Doc(writes, text, list(blobs))


def bind(docs: Sequence[Doc]) -> tuple[list[str], list[bytes], list[int]]:
    """Put the texts, the bytes, and where the bytes of each begin, into one row of parameters."""
    blobs: list[bytes] = []
    bases: list[int] = []
    for doc in docs:
        bases.append(len(blobs))
        blobs += doc.blobs
    return [doc.text for doc in docs], blobs, bases


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


def _write(write: Write, blobs: _Blobs) -> dict[str, Any]:
    salts = os.urandom(chain.SALT_BYTES * len(write.entries))
    entries = [
        (
            blobs.place(new.id),
            blobs.place(salts[n * chain.SALT_BYTES : (n + 1) * chain.SALT_BYTES]),
            blobs.place(new.payload),
        )
        for n, new in enumerate(write.entries)
    ]
    key = write.key
    return {
        "run": write.run,
        "after": write.after,
        "after_id": blobs.place(write.after_id),
        "entries": entries,
        "project": write.project,
        "agent": write.agent,
        "thread": write.thread,
        "status": write.status,
        "fold": write.fold,
        "state": blobs.place(write.state),
        "due_at": write.due_at,
        "owner": write.owner,
        "owner_was": write.owner_was,
        "key": None if key is None else (key.project, key.key, key.digest),
        "only_if": [_condition(one) for one in write.only_if],
        "holds": [_hold(one, blobs) for one in write.holds],
        "items": [_item(one, blobs) for one in write.items],
        "parcels": [_parcel(one, blobs) for one in write.parcels],
        "unparcels": write.unparcels,
        "redacts": write.redacts,
    }


def _condition(condition: Condition) -> tuple[Any, ...]:
    match condition:
        case Before(at=at):
            return ("before", at)
        case Since(at=at):
            return ("since", at)
        case ItemAt(kind=kind, id=id, rev=rev):
            return ("item", kind, id, rev)


def _hold(hold: HoldRow, blobs: _Blobs) -> dict[str, Any]:
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
        "decision": blobs.place(hold.decision),
        "votes": blobs.place(hold.votes),
        "escalates_at": hold.escalates_at,
        "words": blobs.place(None if hold.words is None else hold.words.encode()),
    }


def _item(item: ItemPut, blobs: _Blobs) -> dict[str, Any]:
    return {"kind": item.kind, "id": item.id, "rev": item.rev, "data": blobs.place(item.data)}


def _parcel(parcel: NewParcel, blobs: _Blobs) -> dict[str, Any]:
    return {
        "id": parcel.id,
        "kind": parcel.kind,
        "due_at": parcel.due_at,
        "data": blobs.place(parcel.data),
    }
