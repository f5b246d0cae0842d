"""A disk that remembers in which order it was told what, and what it would be without power.

`Disk` is a layer between SQLite and a real folder that notes every write, truncation, sync,
creation and deletion. An image is what could be found after a power cut at some point of that log:

- what a file was told before its last sync is there;
- of what it was told after, any part may be there: all, nothing, the first few, or any sectors;
- a name that was made or removed since the folder's last sync may be there or not.

SQLite syncs the folder itself when it first syncs a journal or a log; a `strict` disk does not
count that, so that what the store does about its folder is tested alone.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512


class Disk(apsw.VFS):
    """Notes what SQLite does to its files, and passes it on."""

    def __init__(
        self, name: str, *, strict: bool = False, image: dict[str, bytes] | None = None
    ) -> None:
        self.name = name
        self.strict = strict
        self.image = image or {}
        """What is on it from the beginning."""
        self.log: list[tuple[Any, ...]] = []
        self._inodes = {base: -n for n, base in enumerate(self.image, 1)}
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if hasattr(name, "filename") else name
        base = Path(path).name if path else ""
        if base and (base not in self._inodes or not Path(path).exists()):
            self._inodes[base] = len(self.log) + 1
            self.log.append(("link", base, self._inodes[base]))
        return DiskFile(self, name, flags, base)

    def xDelete(self, path: str, sync_dir: bool) -> None:
        super().xDelete(path, sync_dir)
        self.log.append(("unlink", Path(path).name))
        if sync_dir and not self.strict:
            self.log.append(("sync dir",))

    def sync_dir(self, path: str) -> None:
        """What the store calls in place of fsync on its folder."""
        self.log.append(("sync dir",))

    def inode(self, base: str) -> int:
        return self._inodes.get(base, 0)

    def note(self, *what: Any) -> None:
        """Note something that the test knows, in its place among what the disk was told."""
        self.log.append(("note", *what))


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int], base: str) -> None:
        self.disk = disk
        self.inode = disk.inode(base)
        self.syncs_dir = base.endswith(("-journal", "-wal")) and not disk.strict
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self.disk.log.append(("write", self.inode, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self.disk.log.append(("truncate", self.inode, size))
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        self.disk.log.append(("sync", self.inode))
        if self.syncs_dir:
            self.syncs_dir = False
            self.disk.log.append(("sync dir",))


class Platter:
    """What is certainly on the disk at a point of the log, and what may be."""

    def __init__(self, image: dict[str, bytes]) -> None:
        self.files = {-n: bytearray(content) for n, content in enumerate(image.values(), 1)}
        self.names = {name: -n for n, name in enumerate(image, 1)}
        self.pending: dict[int, list[tuple[Any, ...]]] = {}
        self.renaming: list[tuple[Any, ...]] = []
        self.notes: list[tuple[Any, ...]] = []

    def take(self, entry: tuple[Any, ...]) -> None:
        """Go on by one entry of the log."""
        match entry:
            case ("write" | "truncate", inode, *_):
                self.pending.setdefault(inode, []).append(entry)
            case ("sync", inode):
                content = self.files.setdefault(inode, bytearray())
                for told in self.pending.pop(inode, []):
                    _apply(content, told)
            case ("link" | "unlink", *_):
                self.renaming.append(entry)
            case ("sync dir",):
                for told in self.renaming:
                    _rename(self.names, told)
                self.renaming.clear()
            case ("note", *what):
                self.notes.append(tuple(what))
            case _:
                raise AssertionError(entry)

    def image(self, chance: random.Random) -> dict[str, bytes]:
        """One of the things that could be found after a power cut here: contents by name."""
        names = dict(self.names)
        for told in self.renaming:
            if chance.random() < 0.5:
                _rename(names, told)
        found: dict[str, bytes] = {}
        for name, inode in names.items():
            content = bytearray(self.files.get(inode, b""))
            for told in _kept(self.pending.get(inode, []), chance):
                _apply(content, told)
            found[name] = bytes(content)
        return found


def replay(disk: Disk) -> Iterator[Platter]:
    """The same platter at every point of a disk's log, one after another."""
    platter = Platter(disk.image)
    for entry in disk.log:
        platter.take(entry)
        yield platter


def _rename(names: dict[str, int], told: tuple[Any, ...]) -> None:
    if told[0] == "link":
        names[told[1]] = told[2]
    else:
        names.pop(told[1], None)


def _apply(content: bytearray, told: tuple[Any, ...]) -> None:
    if told[0] == "truncate":
        size = told[2]
        content[size:] = b"" if size <= len(content) else bytes(size - len(content))
        return
    _, _, offset, data = told
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _kept(pending: list[tuple[Any, ...]], chance: random.Random) -> list[tuple[Any, ...]]:
    """What of the unsynced has reached the disk all the same."""
    how = chance.choice(("nothing", "all", "first", "some", "sectors"))
    if how == "nothing" or not pending:
        return []
    if how == "all":
        return pending
    if how == "first":
        return pending[: chance.randrange(len(pending) + 1)]
    if how == "some":
        return [told for told in pending if chance.random() < 0.5]
    return [part for told in pending for part in _torn(told, chance)]


def _torn(told: tuple[Any, ...], chance: random.Random) -> Iterator[tuple[Any, ...]]:
    if told[0] == "truncate":
        yield from [told] if chance.random() < 0.5 else []
        return
    kind, inode, offset, data = told
    start = 0
    while start < len(data):
        end = min(len(data), (offset + start) // SECTOR * SECTOR + SECTOR - offset)
        if chance.random() < 0.5:
            yield kind, inode, offset + start, data[start:end]
        start = end
