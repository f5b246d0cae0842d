"""`sayso migrate`: bring the schema of a store up, and say which roles may use it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from sayso.cli.opened import Place, opened, store_argument
from sayso.cli.plain import plain
from sayso.given import is_shared
from sayso.store.sqlite_checkup import look_at_versions

if TYPE_CHECKING:
    from sayso.store.postgres_role import Kind

PENDING = 1
"""Exit code of --check: something is to be done."""


@click.command(short_help="Bring the schema of a store up.")
@store_argument()
@click.option("--check", is_flag=True, help="Only say what is pending.")
@click.option(
    "--app-role", metavar="NAME", help="A role for workers and desks: adds, erases nothing."
)
@click.option(
    "--keeper-role",
    metavar="NAME",
    help="A role that may also erase, archive, and accept a restored store.",
)
@click.pass_context
def migrate(
    ctx: click.Context,
    store: Place,
    check: bool,  # noqa: FBT001
    app_role: str | None,
    keeper_role: str | None,
) -> None:
    """Bring the schema of the STORE up to this version, and make it if the database has none.

    It goes on where it was interrupted, and others may use the store meanwhile, of an older Sayso
    too, unless a migration says otherwise. An app that owns the schema does the same when it opens
    the store; for one that does not, this has to be run first.

    The roles are of a database, and have to exist: both may do what an app needs, but only the
    keeper may change what is in the journal, which is for erasing. They get their rights to
    whatever later migrations make, too.

    Exits with 0 if nothing is left to do, 1 if --check finds something, 2 if it cannot be done.

    \b
    Examples:
      sayso migrate postgresql://owner@db.internal/pay
      sayso migrate postgresql://owner@db.internal/pay --check
      sayso migrate postgresql://owner@db.internal/pay --app-role pay_app --keeper-role pay_keeper
    """  # noqa: D301
    given: list[tuple[str, Kind]] = []
    if app_role:
        given.append((app_role, "app"))
    if keeper_role:
        given.append((keeper_role, "keeper"))
    if given and not is_shared(store.where):
        raise click.UsageError("a file has no roles: whoever may write it may do everything")
    if check and given:
        raise click.UsageError("--check only looks, and gives no rights")
    have, known = asyncio.run(_versions(store))
    name, left = plain(store), known - have
    if check:
        if left <= 0:
            click.echo(f"{name}: version {have}, nothing is pending.")
            return
        many = "1 migration is" if left == 1 else f"{left} migrations are"
        click.echo(f"{name}: version {have} of {known}, {many} pending.")
        ctx.exit(PENDING)
    if left > 0:
        click.echo(f"{left} migration{'' if left == 1 else 's'} to be done", err=True)
    asyncio.run(_migrate(store, given))
    brought = f"brought from version {have} to {known}" if left > 0 else f"version {have} already"
    rights = f"; {' and '.join(plain(name) for name, _ in given)} may use it" if given else ""
    click.echo(f"{name}: {brought}{rights}.")


async def _versions(place: Place) -> tuple[int, int]:
    if not is_shared(place.where):
        return look_at_versions(place.where)
    from sayso.store.postgres_upkeep import versions

    return await versions(place.where)


async def _migrate(place: Place, roles: list[tuple[str, Kind]]) -> None:
    if not is_shared(place.where):
        async with opened(place):
            return
    from sayso.store.postgres_upkeep import bring_up

    await bring_up(place.where, roles=roles, progress=lambda text: click.echo(text, err=True))
