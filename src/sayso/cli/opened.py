"""Naming a store on the command line, and opening one that is there already.

Rule 1: every command names its store the same way: `--store`, or an argument where the store is
what the command is about, or else the variable SAYSO_STORE.
Rule 2: looking at a store never makes one.
Rule 3: what is shown of an address has no password in it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import click

from sayso.errors import BadSetup
from sayso.given import is_shared, open_store, read_where
from sayso.store.base import Store

VARIABLE = "SAYSO_STORE"
_NAMED = "A path, sqlite:///path or postgresql://..."
_OR_ELSE = f"{_NAMED}; else {VARIABLE}."

F = TypeVar("F", bound=Callable[..., Any])


class Place(NamedTuple):
    """Where a store is: as `open_store` takes it, and as it may be shown."""

    where: str
    name: str

    @property
    def path(self) -> Path | None:
        """The file, if it is one."""
        return None if is_shared(self.where) else Path(self.where)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class StoreName(click.ParamType[Place]):
    """The type of whatever names a store: a file that is there, or the address of a database."""

    name = "store"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Place:
        """Read it, or say what is in the way."""
        if isinstance(value, Place):
            return value
        try:
            where, shown = read_where(str(value))
        except BadSetup as error:
            self.fail(str(error), param, ctx)
        if where == "memory:":
            self.fail("a store in memory is of one process, and cannot be named", param, ctx)
        if not is_shared(where) and not Path(where).is_file():
            kind = "is no file" if Path(where).exists() else "does not exist"
            self.fail(f"{shown!r} {kind}", param, ctx)
        return Place(where, shown)


STORE = StoreName()


def default_store() -> Place | None:
    """Give the store that the environment names."""
    value = os.environ.get(VARIABLE)
    try:
        return STORE.convert(value, None, None) if value else None
    except click.BadParameter as error:
        raise click.UsageError(f"{VARIABLE}: {error.message}") from None


def store_option(text: str, *, of_app: bool = False) -> Callable[[F], F]:
    """Give a command the option `--store`, as its parameter `store`; it is None if it is that
    `of_app`, and was not given.
    """
    text = f"{text} {_NAMED}" if of_app else f"{text} {_OR_ELSE}"

    def decorate(command: F) -> F:
        @wraps(command)
        def invoke(*args: Any, store: Place | None, db: Place | None, **rest: Any) -> Any:
            found = store or db or (None if of_app else default_store())
            if found is None and not of_app:
                raise click.UsageError(f"name the store: --store pay.db, or set {VARIABLE}")
            return command(*args, store=found, **rest)

        hidden = click.option("--db", type=STORE, hidden=True)(invoke)
        return cast("F", click.option("--store", type=STORE, help=text)(hidden))

    return decorate


def store_argument(*others: str) -> Callable[[F], F]:
    """Give a command the argument STORE, or `--store` in its place, as its parameter `store`, and
    the names of `others` that may come after it.
    """

    def decorate(command: F) -> F:
        @wraps(command)
        def invoke(
            *args: Any, names: tuple[str, ...], store: Place | None, db: Place | None, **rest: Any
        ) -> Any:
            place, left = split_place(store or db, list(names), len(others))
            given = {name: left.pop(0) if left else None for name in others}
            return command(*args, store=place, **given, **rest)

        text = f"In place of the argument. {_OR_ELSE}"
        meta = " ".join(f"[{name.upper()}]" for name in ("store", *others))
        for add in (
            click.option("--db", type=STORE, hidden=True),
            click.option("--store", type=STORE, help=text),
            click.argument("names", nargs=-1, metavar=meta),
        ):
            add(invoke)
        return cast("F", invoke)

    return decorate


def split_place(named: Place | None, names: list[str], others: int) -> tuple[Place, list[str]]:
    """Tell the store from what comes after it."""
    place = named
    # Whoever writes the name of a store means that one, whatever the environment says.
    if place is None and names and (len(names) > others or _may_be_store(names[0])):
        place = STORE.convert(names.pop(0), None, click.get_current_context())
    place = place or default_store()
    if place is None:
        raise click.UsageError(f"name the store: an argument, --store or {VARIABLE}")
    if len(names) > others:
        # What it is, is not repeated: it may be an address with a password in it.
        twice = ": the store is named already" if named else ""
        raise click.UsageError(f"one argument too many{twice}")
    return place, names


def _may_be_store(name: str) -> bool:
    return not os.environ.get(VARIABLE) or "://" in name or Path(name).exists()


@asynccontextmanager
async def opened(place: Place | Path) -> AsyncGenerator[Store]:
    """Open a store that is there, and close it again."""
    where = place if isinstance(place, Path) else place.where
    store = await open_store(where, make=False)
    try:
        yield store
    finally:
        await store.close()
