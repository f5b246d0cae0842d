"""`sayso export`: a whole run as signed JSON, to be adopted by another store."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import click

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_option
from sayso.engine.adopt import export_run


@click.command(short_help="Write a whole run as signed JSON.")
@click.argument("run")
@store_option("The store that the run is in.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to make; without it, the run is printed.",
)
def export(run: str, store: Place, output: Path | None) -> None:
    """Write RUN, with the runs below it and all that was said in them, as signed JSON.

    It is signed with the keys of the store: SAYSO_KEYS, or the file ending in .keys beside it. A
    store with the same keys can adopt it. The run itself stays as it is: cancel it once it is
    adopted, or both go on.

    \b
    Examples:
      sayso export run_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db -o run.json
      sayso export run_01m7gsgdyhk6a2nvs95zdh5eb6 --store pay.db | sayso adopt - --store other.db
    """  # noqa: D301
    text = asyncio.run(_export(run, store))
    if output is None:
        click.echo(text)
        return
    try:
        # A journal is nobody else's business, and a file that is there is not ours to replace.
        handle = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{str(output)!r} is there already: name another file") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{text}\n")


async def _export(run: str, place: Place) -> str:
    async with opened(place) as store, Sayso(store, work=False) as app:
        # Whoever may read the file may read the run.
        parts = app._open_parts  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        return json.dumps(await export_run(parts, run, by=None))
