"""`sayso audit export` and `sayso audit refused`: who decided what, and who was refused."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
from sayso.domain.glyph import brief
from sayso.engine.evidence import FIELDS, Line, cells, iso
from sayso.store.base import PAGE_MAX, Store

_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))
"""ASCII only: what is printed of it deceives no terminal, and reads back as it was."""


def _when(_: click.Context, param: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        said = f"{value!r} is not a date: write 2026-01-31 or 2026-01-31T12:00"
        raise click.BadParameter(said, param=param) from None
    return when if when.tzinfo else when.replace(tzinfo=UTC)


@click.command("export", short_help="Write who decided what.")
@store_argument()
@click.option("--format", "kind", type=click.Choice(["jsonl", "csv"]), default="jsonl")
@click.option("--since", metavar="DATE", callback=_when, help="From this time on, in UTC.")
@click.option("--until", metavar="DATE", callback=_when, help="Before this time, in UTC.")
@click.option("--run", help="Of one run.")
@click.option("--project", help="Of one project.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to make; without it, the lines are printed.",
)
def export_command(
    *,
    store: Place,
    kind: str,
    since: datetime | None,
    until: datetime | None,
    run: str | None,
    project: str | None,
    out: Path | None,
) -> None:
    """Write a line for all that people decided in the STORE, or time did, in the order of commits:
    verdicts, votes, edits, hand-overs, grants, what was taken back and what has expired.

    Each names who, when, on what, by which channel, the digest of what was shown, and the entry
    with its hash. No line has an argument or an answer in it. Cells of CSV start no formula.

    \b
    Examples:
      sayso audit export pay.db --format csv --since 2026-01-01 --out january.csv
      sayso audit export pay.db | jq 'select(.what == "rejected")'
    """  # noqa: D301

    async def work() -> int:
        async with opened(store) as found, Sayso(found, work=False) as app:
            with _written(out) as file, _progress(await _end(found), out) as progress:
                wanted = app.audit.export(
                    since=since, until=until, run=run, project=project, progress=progress
                )
                put = putter(kind, file)
                count = 0
                async for line in wanted:
                    put(line)
                    count += 1
                return count

    count = asyncio.run(work())
    if out is not None:
        click.echo(f"{plain(out)}: {count:,} line{'' if count == 1 else 's'}", err=True)


@click.command("refused", short_help="List who was refused what.")
@store_argument()
@click.option("--project", help="Of one project.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def refused_command(store: Place, project: str | None, as_json: bool) -> None:  # noqa: FBT001
    """List who was refused what in the STORE, oldest first: it has a log of its own.

    \b
    Examples:
      sayso audit refused pay.db
    """  # noqa: D301

    async def work() -> None:
        async with opened(store) as found, Sayso(found, work=False) as app:
            after = 0
            while page := await app.audit.refused(project=project, after=after, limit=PAGE_MAX):
                for one in page:
                    if as_json:
                        click.echo(_ENCODER.encode(msgspec.to_builtins(one)))
                        continue
                    tried = one.attempt
                    who, on = plain(tried.by or "somebody"), plain(tried.on or "-")
                    how = f" by {plain(tried.channel)}" if tried.channel else ""
                    why = brief(f"{tried.error}: {tried.message}" if tried.error else tried.message)
                    click.echo(f"{iso(one.at)}  {who}  {plain(tried.verb)}  {on}{how}  {why}")
                after = page[-1].n

    asyncio.run(work())


def putter(kind: str, file: TextIO) -> Callable[[Line], None]:
    """Give what writes lines to a file, as one of two kinds."""
    if kind == "csv":
        rows = csv.writer(file)
        rows.writerow(FIELDS)
        return lambda line: rows.writerow(cells(line))
    return lambda line: click.echo(_ENCODER.encode(msgspec.to_builtins(line)), file=file)


@contextmanager
def _written(out: Path | None) -> Generator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    try:
        # A file that is there is not ours to replace.
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.UsageError(f"{str(out)!r} is there already: name another file") from None
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        yield file
        file.flush()
        os.fsync(handle)


@contextmanager
def _progress(end: int, out: Path | None) -> Generator[Callable[[int], None] | None]:
    shown = sys.stderr.isatty() and out is not None
    label = "Reading the journal"
    with (
        click.progressbar(length=end, label=label, file=sys.stderr) if shown else nullcontext()
    ) as bar:
        yield None if bar is None else lambda position: bar.update(position - bar.pos)


async def _end(store: Store) -> int:
    seal = await store.seals.last()
    after = 0 if seal is None else seal.last
    while page := await store.seals.leaves(after=after, limit=PAGE_MAX):
        after = page[-1].position
    return after
