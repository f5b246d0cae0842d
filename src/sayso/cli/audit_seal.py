"""`sayso audit seal` and `sayso audit key`: signing what a store has in it."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain

if TYPE_CHECKING:
    from sayso.store.seal import Seal


@click.command("seal", short_help="Sign everything that is new.")
@store_argument()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Add all seals that this file does not have to it.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the seal as one JSON object.")
def seal_command(store: Place, out: Path | None, as_json: bool) -> None:  # noqa: FBT001
    """Seal every entry of the STORE that no seal covers: a signature over all of them.

    `sayso audit verify` then finds a run that was removed or hashed again, and an end that was cut
    off. Whoever can write the store can cut its seals as well: keep a copy with --out where they
    cannot write, and give it to `sayso audit verify --seals`.

    A process that works on the store seals every minute by itself once there is a key.

    \b
    Examples:
      sayso audit seal pay.db --out /mnt/elsewhere/pay.seals
      sayso audit verify pay.db --seals /mnt/elsewhere/pay.seals
    """  # noqa: D301
    made = asyncio.run(_seal(store, out))
    if as_json:
        click.echo(json.dumps(None if made is None else msgspec.to_builtins(made)))
    elif made is None:
        click.echo(f"{plain(store)}: nothing is new since the last seal.")
    else:
        when = datetime.fromtimestamp(made.at / 1000, UTC).isoformat(timespec="seconds")
        click.echo(
            f"{plain(store)}: seal {made.n} at {when} covers {made.count:,} entries, up to "
            f"position {made.last:,}."
        )


@click.command("key", short_help="Print the public key of seals.")
@store_argument()
def key_command(store: Place) -> None:
    """Print the public key that seals of the STORE are signed with, and make one if there is none.

    Whoever has it can check seals with `sayso audit verify --key`, and cannot make any.

    \b
    Examples:
      sayso audit key pay.db
    """  # noqa: D301
    click.echo(asyncio.run(_key(store)))


async def _seal(place: Place, out: Path | None) -> Seal | None:
    async with opened(place) as store, Sayso(store, work=False) as app:
        return await app.audit.seal(out=out)


async def _key(place: Place) -> str:
    async with opened(place) as store, Sayso(store, work=False) as app:
        return await app.audit.key()
