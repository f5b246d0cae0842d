"""Seals in a file outside of the store, a line of JSON each: the copy that nobody who has only the
store can change.

Rule: a file is only added to, and only if it is of this store so far.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager

from sayso.errors import BadValue, NotUnderstood
from sayso.store.base import PAGE_MAX, Store
from sayso.store.origin import restored
from sayso.store.seal import LINE_BYTES_MAX, Seal, read_seal

Path = str | os.PathLike[str]


@contextmanager
def open_lines(path: Path) -> Generator[Iterator[bytes]]:
    """Read a file line by line, none of them longer than a seal can be by much."""
    with open(path, "rb") as file:
        yield iter(lambda: file.readline(LINE_BYTES_MAX + 2), b"")


async def keep_outside(store: Store, path: Path) -> int:
    """Add to a file the seals that it does not have; say how many. It is made if there is none.

    `BadValue` and `StoreRestored` as of `check_outside`: nothing is written then.
    """
    after, count = await check_outside(store, path), 0
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "ab") as file:
        while page := await store.seals.list(after=after, limit=PAGE_MAX):
            file.writelines(one.data + b"\n" for one in page)
            count += len(page)
            after = page[-1].n
        file.flush()
        os.fsync(handle)
    return count


async def check_outside(store: Store, path: Path) -> int:
    """Hold a file against the store's own seals; give the number of its last one, 0 if it has none.

    `StoreRestored` if the file has begun with this store, and the store does not have its last
    seal: it was put back since, and from now on nobody who opens it may write. `BadValue` if the
    file is of another store, or damaged.
    """
    first, last = _ends(path) if os.path.exists(path) else (b"", None)  # noqa: ASYNC240
    if last is None:
        return 0
    kept = await store.seals.list(after=last.n - 1, limit=1)
    if kept and kept[0].n == last.n and kept[0].data == last.line():
        return last.n
    ours = await store.seals.list(limit=1)
    if ours and ours[0].data == first:
        why = f"{str(path)!r} has a seal {last.n} that it does not have"
        await store.doubt_origin(why)
        raise restored(store.name, why)
    raise BadValue(
        f"{str(path)!r} has another seal {last.n} than the store: it is of another store, "
        "or one of them was changed; `sayso audit verify --seals` says more"
    )


def _ends(path: Path) -> tuple[bytes, Seal | None]:
    """Read the first line of a file and its last seal."""
    first, line = b"", b""
    with open_lines(path) as found:
        for line in found:
            first = first or line.rstrip(b"\n")
    return first, _read_last(path, line)


def _read_last(path: Path, line: bytes) -> Seal | None:
    if not line:
        return None
    try:
        if not line.endswith(b"\n"):
            raise NotUnderstood("it was cut off")
        return read_seal(line.rstrip(b"\n"))
    except NotUnderstood as error:
        raise BadValue(
            f"the last line of {str(path)!r} is no seal: {error}; remove that line, or name "
            "another file"
        ) from None
