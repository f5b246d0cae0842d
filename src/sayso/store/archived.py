"""An archive held against what the store that its runs have left knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from sayso.errors import BadArchive
from sayso.store.archive import Archive, Leaving
from sayso.store.archive_file import digest_of, leaves_of, leaving, read_archive
from sayso.store.base import PAGE_MAX, Store


async def check_left(
    store: Store, archive: Archive, path: Path, tell: Callable[[str], None]
) -> int:
    """Check a file and what the store knows of it; give how many of its runs are as they were."""
    name = f"archive {archive.n}, {str(path)!r},"
    if not await asyncio.to_thread(path.is_file):
        tell(f"{name} is missing, with {archive.runs:,} runs in it")
        return 0
    if await asyncio.to_thread(digest_of, path) != archive.sha256:
        tell(f"{name} is not the file that the runs have left for")
    known = await _known(store, archive.n)
    whole = 0
    try:
        runs = read_archive(path)
        while (run := await asyncio.to_thread(next, runs, None)) is not None:
            if known.pop(run.row.id, None) != leaving(run):
                tell(f"{name} has {run.row.id!r} in it, which did not leave like that")
                continue
            leaves = sorted(leaves_of(run))
            if leaves == [
                leaf
                for start in range(0, len(leaves), PAGE_MAX)
                for leaf in await store.archives.leaves(
                    [one.position for one in leaves[start : start + PAGE_MAX]]
                )
            ]:
                whole += 1
            else:
                tell(f"{name} has other entries of {run.row.id!r} than were sealed")
    except BadArchive as error:
        tell(str(error))
        return whole
    for run_id in known:
        tell(f"{name} lacks {run_id!r}, which has left for it")
    return whole


async def _known(store: Store, n: int) -> dict[str, Leaving]:
    known: dict[str, Leaving] = {}
    after = ""
    while page := await store.archives.runs(n, after=after, limit=PAGE_MAX):
        known.update({one.id: one for one in page})
        after = page[-1].id
    return known
