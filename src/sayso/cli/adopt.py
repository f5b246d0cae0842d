"""`sayso adopt`: take in a run that was exported from another store."""

from __future__ import annotations

import asyncio
import json
from typing import Any, BinaryIO

import click

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_option
from sayso.domain.value import Principal
from sayso.engine.adopt import adopt_run
from sayso.errors import BadExport
from sayso.store.export import BYTES_MAX

_WHO = Principal(kind="service", id="cli")
"""Whoever can write the store: the journal cannot know more than that."""
_INDENTED = 4
"""How much larger a file may be than what is in it."""


@click.command(short_help="Take in a run that was exported from another store.")
@click.argument("file", type=click.File("rb"))
@store_option("The store that takes it in.")
def adopt(file: BinaryIO, store: Place) -> None:
    """Take the run in FILE into a store, and print its id. FILE is what `sayso export` wrote, or -
    for standard input.

    What was approved elsewhere is asked again here, and what was under way there is in doubt. Data
    that was edited, or that is signed with other keys than the store's, is refused.

    \b
    Examples:
      sayso adopt run.json --store other.db
      sayso export run_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db | sayso adopt - --store other.db
    """  # noqa: D301
    click.echo(asyncio.run(_adopt(_read(file), store)))


def _read(file: BinaryIO) -> Any:
    text = file.read(_INDENTED * BYTES_MAX + 1)
    if len(text) > _INDENTED * BYTES_MAX:
        raise BadExport(f"an export has at most {BYTES_MAX:,} bytes", reason="size")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadExport("this is not an export of a run: it is not JSON", reason="format") from None


async def _adopt(data: Any, place: Place) -> str:
    async with opened(place) as store, Sayso(store, work=False) as app:
        parts = app._open_parts  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return await adopt_run(parts, data, by=_WHO, operator=True)
