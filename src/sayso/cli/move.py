"""`sayso move`: a whole store into another one."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from sayso.cli.plain import plain
from sayso.errors import BadKeys
from sayso.given import open_transfer
from sayso.store.keyring import VARIABLE, KeyRing

if TYPE_CHECKING:
    from sayso.store.move import Moved, Step
    from sayso.store.transfer import Transfer


@click.command(short_help="Move a whole store into another one.")
@click.argument("source")
@click.argument("target")
@click.option("--undo", is_flag=True, help="Let SOURCE go on, if nobody worked on TARGET yet.")
@click.option(
    "--even-if-silent",
    is_flag=True,
    help="Go on although workers were not heard of for a while, and may come back.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was moved as one JSON object.")
def move(*, source: str, target: str, undo: bool, even_if_silent: bool, as_json: bool) -> None:
    """Move everything in SOURCE to TARGET: runs, journals, holds, people, grants, credentials,
    notices, seals. Each is a path or the address of a database; TARGET must be empty, or not there.

    Stop every process that works on SOURCE first. From the first step on SOURCE takes no writes any
    more, and stays as it is for reading. TARGET cannot be opened before all of it is there, was
    read again from both and found the same, and every chain and seal in it holds. It can be
    interrupted: the same command goes on where it was.

    TARGET needs the same keys: SAYSO_KEYS has to have those of the file ending in .keys beside
    SOURCE.

    Exits with 0 if all is moved, 2 if it could not be done.

    \b
    Examples:
      sayso move pay.db postgresql://sayso@db.internal/pay
      SAYSO_KEYS="$(cat pay.db.keys)" sayso move sqlite:///pay.db postgresql://db.internal/pay
      sayso move postgresql://sayso@db.internal/pay back.db
      sayso move --undo pay.db postgresql://sayso@db.internal/pay
    """  # noqa: D301
    if undo:
        asyncio.run(_undo(source, target))
        if as_json:
            click.echo(json.dumps({"undone": True}))
        else:
            click.echo("It was undone: the first store goes on, the other cannot be opened.")
        return
    moved = asyncio.run(_move(source, target, even_if_silent=even_if_silent))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(moved)))
        return
    rows = moved.rows
    click.echo(
        f"{plain(moved.source)}: {rows['runs']:,} runs with {rows['journal']:,} entries, "
        f"{rows['holds']:,} holds and {rows['shelf']:,} items are in {plain(moved.target)} now; "
        "all are the same there, and every chain holds."
    )


async def _move(source: str, target: str, *, even_if_silent: bool) -> Moved:
    from sayso.store.move import move

    async with _opened(source, make=False) as here:
        await here.check_rest(even_if_silent=even_if_silent)
        ring = _check_keys(here.name, target)
        async with _opened(target, make=True) as there:
            with _shown() as progress:
                return await move(
                    here,
                    there,
                    key_ids=() if ring is None else ring.ids,
                    even_if_silent=even_if_silent,
                    progress=progress,
                )


async def _undo(source: str, target: str) -> None:
    from sayso.store.move import undo

    async with _opened(source, make=False) as here, _opened(target, make=False) as there:
        with _shown() as progress:
            await undo(here, there, progress=progress)


@asynccontextmanager
async def _opened(where: str, *, make: bool) -> AsyncGenerator[Transfer]:
    store = await open_transfer(where, make=make)
    try:
        yield store
    finally:
        await store.close()


def _check_keys(source: str, target: str) -> KeyRing | None:
    """Give the keys that the target would be used with. `BadKeys` unless all of the source's are
    among them.
    """
    beside = Path(f"{source}.keys")
    shared = "://" in target.removeprefix("sqlite:///")
    mine = KeyRing.look(source, {}) if "://" not in source and beside.exists() else None
    theirs = KeyRing.look(None if shared else target.removeprefix("sqlite:///"))
    if mine is None or (theirs is not None and theirs.has_all_of(mine)):
        return theirs
    raise BadKeys(
        f"what is sealed or signed with the keys in {str(beside)!r} could not be opened there: "
        f'export {VARIABLE}="${VARIABLE} $(cat {shlex.quote(str(beside))})" first, here and on '
        "every machine that uses the new store"
    )


@contextmanager
def _shown() -> Generator[Callable[[Step], None]]:
    """Show how far it has come: a bar a table on a terminal, else a line a table."""
    with ExitStack() as stack:
        bars: dict[tuple[str, str], Any] = {}

        def show(step: Step) -> None:
            place = (step.doing, step.table)
            label = f"{step.table} {step.doing}"
            if not sys.stderr.isatty():
                if step.done == step.total:
                    click.echo(f"{label}: {step.total:,}", err=True)
                return
            if place not in bars:
                stack.close()
                bar = click.progressbar(length=step.total, label=f"{label:<20}", file=sys.stderr)
                bars[place] = stack.enter_context(bar)
            bars[place].update(step.done - bars[place].pos)

        yield show
