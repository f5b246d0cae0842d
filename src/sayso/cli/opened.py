"""Opening a store that is there already: looking at a store must never make one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import click

from sayso.errors import NotOurStore
from sayso.given import open_store
from sayso.store.base import Store

STORE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of an argument that names a store."""


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[Store]:
    """Open the store in a file, and close it again."""
    if path.stat().st_size == 0:  # noqa: ASYNC240 - a few microseconds.
        raise NotOurStore(f"{str(path)!r} is empty")
    store = await open_store(path)
    try:
        yield store
    finally:
        await store.close()
