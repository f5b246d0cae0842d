"""The file that finished runs leave a store for: compressed lines of JSON, whole or not there.

A line with what the file is, then for every run a line with its row, its holds and its keys, and a
line an entry, with all that its hash is made of; at last a line that says how many there were.

Rule 1: a file gets its name when it is complete and synced, and no file is ever replaced.
Rule 2: what an entry says is in it as the text that was stored, so that it hashes the same.
Rule 3: whoever reads one checks every chain in it; what does not hold is refused, with the place.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NoReturn

import msgspec

from sayso.errors import BadArchive, BrokenChain
from sayso.store import chain
from sayso.store.archive import Leaving, UsedKey
from sayso.store.base import Entry, HoldRow, RunRow
from sayso.store.seal import Leaf
from sayso.store.sqlite_file import sync_dir

FORMAT = "sayso.archive"
VERSION = 1
MAGIC = b"\x1f\x8b"
"""How every compressed file begins."""
LINE_BYTES_MAX = 64 << 20


class _Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Head(_Line, frozen=True, kw_only=True, tag="archive"):
    """What a file is."""

    format: str
    version: int
    store: str
    """The name of the store that the runs were in."""
    at: int
    """Store time, milliseconds since 1970."""


class ArchivedRun(_Line, frozen=True, kw_only=True, tag="run"):
    """A run, without its entries."""

    row: RunRow
    holds: tuple[HoldRow, ...]
    keys: tuple[UsedKey, ...]


class ArchivedEntry(_Line, frozen=True, kw_only=True, tag="entry", omit_defaults=True):
    """An entry; bytes are in hexadecimal."""

    position: int
    seq: int
    id: str
    at: int
    hash: str
    salt: str = ""
    payload: str = ""
    """The event, as the text that was stored."""
    erased: str = ""
    """Of a redacted entry: the hash that stands for its salt and payload."""


class End(_Line, frozen=True, kw_only=True, tag="end"):
    """That nothing is missing."""

    runs: int
    entries: int


class WholeRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with all that is kept of it."""

    row: RunRow
    holds: tuple[HoldRow, ...]
    keys: tuple[UsedKey, ...]
    journal: tuple[Entry, ...]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a file has in it."""

    sha256: str
    head: Head
    runs: int
    entries: int


def write_archive(path: Path, head: Head, runs: Iterable[WholeRun]) -> Found:
    """Write a file, sync it, read it back and give what is in it. `BadArchive` if that is not what
    was written; `FileExistsError` if there is a file of that name.
    """
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    count = entries = 0
    try:
        with os.fdopen(handle, "wb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as file:
                file.write(_line(head))
                for run in runs:
                    file.write(_line(ArchivedRun(row=run.row, holds=run.holds, keys=run.keys)))
                    file.writelines(_line(_archived(entry)) for entry in run.journal)
                    count, entries = count + 1, entries + len(run.journal)
                file.write(_line(End(runs=count, entries=entries)))
            raw.flush()
            os.fsync(raw.fileno())
        found = check_archive(part)
        if (found.runs, found.entries) != (count, entries):
            raise BadArchive(f"{str(part)!r} does not have in it what was written")
        os.link(part, path)
    finally:
        part.unlink(missing_ok=True)
    sync_dir(str(path.parent))
    return found


def check_archive(path: Path) -> Found:
    """Read a whole file, and check every chain in it. `BadArchive` says what is wrong."""
    runs = entries = 0
    for run in read_archive(path):
        runs, entries = runs + 1, entries + len(run.journal)
    return Found(sha256=digest_of(path), head=_head(path), runs=runs, entries=entries)


def read_archive(path: Path) -> Iterator[WholeRun]:
    """Read the runs of a file one after another, each with its chain checked. `BadArchive` if
    something was changed, or is missing.
    """
    lines = _lines(path)
    _check_head(path, next(lines, None))
    run: ArchivedRun | None = None
    journal: list[Entry] = []
    runs = entries = 0
    for line in lines:
        match line:
            case ArchivedEntry():
                if run is None:
                    _refuse(path, "there is an entry of no run")
                journal.append(_entry(path, run.row.id, line))
                entries += 1
                continue
            case Head():
                _refuse(path, "it begins twice")
            case ArchivedRun() | End():
                if run is not None:
                    yield _whole(path, run, journal)
        if isinstance(line, End):
            if (line.runs, line.entries) != (runs, entries):
                _refuse(path, "runs or entries are missing")
            if next(lines, None) is not None:
                _refuse(path, "something was added after its end")
            return
        run, journal, runs = line, [], runs + 1
    _refuse(path, "it was cut off")


def digest_of(path: Path) -> str:
    """Give the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def leaving(run: WholeRun) -> Leaving:
    """Give what a store has to find of a run to let it go."""
    return Leaving(id=run.row.id, seq=run.row.seq, hash=run.row.hash)


def leaves_of(run: WholeRun) -> list[Leaf]:
    """Give what seals cover of a run."""
    return [Leaf(entry.position, entry.hash) for entry in run.journal]


def _whole(path: Path, run: ArchivedRun, journal: list[Entry]) -> WholeRun:
    try:
        chain.verify(run.row.id, journal, seq=run.row.seq, head=run.row.hash)
    except BrokenChain as error:
        _refuse(path, str(error))
    return WholeRun(row=run.row, holds=run.holds, keys=run.keys, journal=tuple(journal))


def _head(path: Path) -> Head:
    return _check_head(path, next(_lines(path), None))


def _check_head(path: Path, line: object) -> Head:
    if not isinstance(line, Head) or line.format != FORMAT:
        _refuse(path, "it is no archive of Sayso")
    if line.version > VERSION:
        _refuse(path, "it was written by a newer Sayso: upgrade this one")
    return line


def _lines(path: Path) -> Iterator[Head | ArchivedRun | ArchivedEntry | End]:
    decoder = msgspec.json.Decoder(Head | ArchivedRun | ArchivedEntry | End)
    try:
        with gzip.open(path, "rb") as file:
            while text := file.readline(LINE_BYTES_MAX + 1):
                if len(text) > LINE_BYTES_MAX:
                    _refuse(path, "a line is too long")
                yield decoder.decode(text)
    except FileNotFoundError:
        raise BadArchive(f"the archive {str(path)!r} is missing") from None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        _refuse(path, str(error))


def _line(what: _Line) -> bytes:
    return msgspec.json.encode(what) + b"\n"


def _archived(entry: Entry) -> ArchivedEntry:
    return ArchivedEntry(
        position=entry.position,
        seq=entry.seq,
        id=entry.id.hex(),
        at=entry.at,
        hash=entry.hash.hex(),
        salt=entry.salt.hex(),
        payload="" if entry.redacted else entry.payload.decode(),
        erased=entry.payload.hex() if entry.redacted else "",
    )


def _entry(path: Path, run_id: str, line: ArchivedEntry) -> Entry:
    try:
        return Entry(
            run_id=run_id,
            seq=line.seq,
            position=line.position,
            id=bytes.fromhex(line.id),
            at=line.at,
            salt=bytes.fromhex(line.salt),
            payload=bytes.fromhex(line.erased) if line.erased else line.payload.encode(),
            hash=bytes.fromhex(line.hash),
            redacted=bool(line.erased),
        )
    except ValueError as error:
        _refuse(path, f"entry {line.seq} of {run_id!r} cannot be read: {error}")


def _refuse(path: Path, why: str) -> NoReturn:
    raise BadArchive(f"the archive {str(path)!r} is not as it was written: {why}") from None
