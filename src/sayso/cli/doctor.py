"""`sayso doctor`: look a store and an app over, and say what to do."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import click
import msgspec

from sayso.app import Sayso
from sayso.cli.advice import explain
from sayso.cli.imported import APP
from sayso.cli.opened import Place, default_store, store_option
from sayso.cli.plain import plain
from sayso.engine.doctor import OPEN, Report
from sayso.errors import SaysoError, StoreOlder
from sayso.store.base import PAGE_MAX, Store
from sayso.store.checkup import LEVELS, Finding, Level
from sayso.store.query import RunQuery
from sayso.store.sqlite_checkup import look_at_age
from sayso.wired import only_looking, where_is

PROBLEMS_FOUND = 1
SHOWN_MAX = 20
"""How many findings of one check are printed; --json prints all that were kept."""
DEFAULT = "sayso.db"
"""The store of a `Sayso()` that was given none."""
_COLOURS: dict[Level, str] = {"note": "cyan", "warning": "yellow", "problem": "red"}


@click.command(short_help="Look a store and an app over.")
@click.argument("app", type=APP, required=False)
@store_option("The store; else that of the app, or SAYSO_STORE.", of_app=True)
@click.option("--upgrade", is_flag=True, help="Bring an older store up, rather than leave it be.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as one JSON object.")
@click.pass_context
def doctor(
    ctx: click.Context,
    app: Sayso | None,
    store: Place | None,
    upgrade: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Look a store over, and the APP that works on it: nothing is changed, run or asked.

    It checks what durability and privacy rest on, who works, the clock, what the tools declare, and
    whether the code of now can go on with every run that waits. Without APP the runs are not held
    against any code; with --store and APP, a copy of a store is held against it.

    A store of an older Sayso is not opened, because that would bring it up; --upgrade does.

    Exits with 0 if there are no problems, 1 if there are, 2 if the command line is wrong.

    \b
    Examples:
      sayso doctor pay:app                    the app of pay.py, and its store
      sayso doctor pay:app --store copy.db    the same over a copy
      sayso doctor --store pay.db             a store alone
    """  # noqa: D301
    if app is None and store is None:
        store = default_store()
    if app is None and store is None:
        if not Path(DEFAULT).exists():
            raise click.UsageError("name an app, as in pay:app, or a store with --store")
        store = Place(DEFAULT, DEFAULT)
    report = asyncio.run(_examine(app, store, upgrade=upgrade))
    if as_json:
        click.echo(json.dumps({"ok": report.ok, **msgspec.to_builtins(report)}))
    else:
        _print(report)
    if not report.ok:
        ctx.exit(PROBLEMS_FOUND)


async def _examine(app: Sayso | None, store: Place | None, *, upgrade: bool) -> Report:
    """Look over what there is. A store that cannot be opened is a problem, and hides no other."""
    named = None if store is None else store.where
    base = Sayso(work=False) if app is None else app
    looking = only_looking(base, named, make=upgrade)
    where = where_is(looking)
    if isinstance(where, str | Path) and _is_file(where):
        if not _is_there(where):
            text = f"there is no store at {str(where)!r} yet: it is made when the app opens it."
            return await _without_store(looking, Finding(name="store", level="note", text=text))
        if not upgrade and (older := look_at_age(_path(where))):
            return await _without_store(looking, older)
    try:
        await looking.open()
    except SaysoError as error:
        text = f"the store cannot be opened: {explain(error)}."
        level = "warning" if isinstance(error, StoreOlder) else "problem"
        return await _without_store(looking, Finding(name="store", level=level, text=text))
    try:
        if not sys.stderr.isatty():
            return await looking.doctor()
        length = await _count(looking.store)
        with click.progressbar(length=length, label="Looking at runs", file=sys.stderr) as bar:
            return await looking.doctor(lambda report: bar.update(report.runs - bar.pos))
    finally:
        await looking.close()


async def _without_store(app: Sayso, why: Finding) -> Report:
    """Look the agents over at least."""
    async with only_looking(app, "memory:") as looking:
        found = (await looking.doctor()).findings
    of_memory = {one.name for one in await _checkup_of_memory()}
    return Report(findings=[why, *(one for one in found if one.name not in of_memory)])


async def _checkup_of_memory() -> list[Finding]:
    from sayso.store.memory import MemoryStore

    return await MemoryStore().checkup()


def _is_file(where: str | Path) -> bool:
    return str(where) != "memory:" and "://" not in _path(where)


def _is_there(where: str | Path) -> bool:
    path = Path(_path(where))
    return path.exists() and path.stat().st_size > 0


def _path(where: str | Path) -> str:
    return str(where).removeprefix("sqlite:///")


async def _count(store: Store) -> int:
    count = 0
    for status in OPEN:
        before: str | None = None
        while page := await store.runs(RunQuery(status=status, before=before, limit=PAGE_MAX)):
            count += len(page)
            before = page[-1].id
    return count


def _print(report: Report) -> None:
    for level in reversed(LEVELS):
        shown: dict[str, int] = {}
        for one in report.findings:
            if one.level == level:
                shown[one.name] = shown.get(one.name, 0) + 1
                if shown[one.name] <= SHOWN_MAX:
                    click.echo(_line(one))
        for name, count in shown.items():
            if count > SHOWN_MAX:
                click.echo(f"{'':<8} {name}: {count - SHOWN_MAX:,} more; --json prints them")
    for name, count in report.left_out.items():
        click.echo(f"{'':<8} {name}: {count:,} more that were not kept")
    counts = [
        f"{count:,} {level if count == 1 or level == 'ok' else level + 's'}"
        for level in reversed(LEVELS)
        if (count := sum(one.level == level for one in report.findings))
    ]
    runs = f"{report.runs:,} open {'run' if report.runs == 1 else 'runs'}"
    click.echo(f"{', '.join(counts)}; {runs} looked at.")


def _line(one: Finding) -> str:
    colour = _COLOURS.get(one.level)
    word = click.style(f"{one.level:<8}", fg=colour) if colour else f"{one.level:<8}"
    about = f"{plain(one.run_id)}: " if one.run_id else ""
    return f"{word} {one.name}: {about}{plain(one.text)}"
