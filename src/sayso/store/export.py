"""Runs as data: the format in which a run and all runs below it leave a store.

Rule 1: all of it is signed with the key ring, over canonical JSON: whatever was edited on the way,
or comes from a store with other keys, is refused before it is read.
Rule 2: what an entry says goes along as the text that was stored: to parse a number and write it
again might change it, and a person has decided on those very bytes.
Rule 3: a journal whose chain does not hold is not exported: a fresh signature must not clean it.
Rule 4: a refusal says which check failed, and nothing about what would have passed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast

import msgspec

from sayso.errors import BadExport, BrokenChain
from sayso.store import chain
from sayso.store.base import Entry, HoldRow, RunRow
from sayso.store.journal import recorded
from sayso.store.keyring import KeyRing

FORMAT = "sayso.export"
VERSION = 1
BYTES_MAX = 64 * 1024 * 1024
"""No export is larger, with all runs in it."""
_PURPOSE = "export"
_ENCODER = json.JSONEncoder(sort_keys=True, allow_nan=False, separators=(",", ":"))
_ODD = (ValueError, TypeError, OverflowError, RecursionError)
"""What comes of data that is no JSON: circles, other types, NaN, no end of nesting."""


class _Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    pass


class ExportedEntry(_Part, frozen=True, kw_only=True):
    """An entry, with all that its hash is made of; bytes are in hexadecimal."""

    seq: int
    at: int
    id: str
    type: str
    hash: str
    payload: str = ""
    """The event, as the text that was stored."""
    salt: str = ""
    erased: str = ""
    """Of a redacted entry: the hash that stands for its salt and payload."""


class ExportedRun(_Part, frozen=True, kw_only=True):
    """A run with its whole journal."""

    id: str
    agent: str
    status: str
    head: str
    """The hash of its last entry."""
    entries: tuple[ExportedEntry, ...]
    fold: int = 0
    state: str = ""
    """Of a run with redacted entries: its row's state, which cannot be folded any more."""
    holds: tuple[HoldRow, ...] = ()
    """And the rows of its holds."""


class Export(_Part, frozen=True, kw_only=True):
    """A run and the runs below it, as they were at one moment."""

    format: str
    version: int
    run: str
    project: str
    exported_at: int
    exported_from: str
    runs: tuple[ExportedRun, ...]
    """The run itself, then those below it."""
    signature: str = ""


def export_row(row: RunRow, journal: Sequence[Entry], holds: Sequence[HoldRow]) -> ExportedRun:
    """Make a run ready to leave. `BrokenChain` if its journal was changed after it was written."""
    erased = chain.verify(row.id, journal, seq=row.seq, head=row.hash)
    return ExportedRun(
        id=row.id,
        agent=row.agent,
        status=row.status,
        head=row.hash.hex(),
        entries=tuple(_exported(entry) for entry in journal),
        fold=row.fold if erased else 0,
        state=row.state.decode() if erased else "",
        holds=tuple(holds) if erased else (),
    )


def sign_export(ring: KeyRing, export: Export) -> dict[str, Any]:
    """Make an export JSON-safe and sign it."""
    data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(export))
    return {**data, "signature": ring.sign(_PURPOSE, _canonical(data))}


def read_export(ring: KeyRing, data: object) -> Export:
    """Read an export that one of these keys has signed; else `BadExport`."""
    found = dict(cast("dict[str, Any]", data)) if isinstance(data, dict) else {}
    version, signature = found.get("version"), found.pop("signature", None)
    if found.get("format") != FORMAT or type(version) is not int or version < 1:
        _refuse("format", "this is not an export of a run")
    if version > VERSION:
        _refuse("version", "this was exported by a newer version of Sayso: upgrade this one")
    signed = _canonical(found)
    if not isinstance(signature, str) or not ring.verify(_PURPOSE, signed, signature):
        _refuse("signature", "this was edited, or signed with other keys than those here")
    try:
        # From the very bytes that were signed, whatever becomes of the data meanwhile.
        export = msgspec.json.decode(signed, type=Export)
        for run in export.runs:
            journal = read_entries(run)
            chain.verify(run.id, journal, seq=len(journal), head=bytes.fromhex(run.head))
    except BrokenChain:
        _refuse("chain", "the chain of its entries does not hold")
    except _ODD:
        _refuse("format", "this is not an export of a run")
    return export


def read_entries(run: ExportedRun) -> list[Entry]:
    """Give the entries of an exported run as a store would."""
    return [
        Entry(
            run_id=run.id,
            seq=one.seq,
            position=0,
            id=bytes.fromhex(one.id),
            at=one.at,
            salt=bytes.fromhex(one.salt),
            payload=bytes.fromhex(one.erased) if one.erased else one.payload.encode(),
            hash=bytes.fromhex(one.hash),
            redacted=bool(one.erased),
        )
        for one in run.entries
    ]


def _exported(entry: Entry) -> ExportedEntry:
    return ExportedEntry(
        seq=entry.seq,
        at=entry.at,
        id=entry.id.hex(),
        type=recorded(entry).type,
        hash=entry.hash.hex(),
        payload="" if entry.redacted else entry.payload.decode(),
        salt=entry.salt.hex(),
        erased=entry.payload.hex() if entry.redacted else "",
    )


def _canonical(data: dict[str, Any]) -> bytes:
    parts: list[str] = []
    size = 0
    try:
        for part in _ENCODER.iterencode(data):
            parts.append(part)
            size += len(part)
            if size > BYTES_MAX:
                _refuse("size", f"an export has at most {BYTES_MAX:,} bytes")
    except _ODD:
        _refuse("format", "this is not an export of a run")
    return "".join(parts).encode("ascii")


def _refuse(reason: str, why: str) -> NoReturn:
    raise BadExport(why, reason=reason) from None
