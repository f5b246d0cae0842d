"""Somebody's app, by the name of its module: `pay:app`."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

import click

from sayso import sync
from sayso.app import Sayso
from sayso.cli.plain import plain
from sayso.errors import contained, describe


class AppName(click.ParamType[Sayso]):
    """The type of an argument that names an app: a `Sayso`, or a function that makes one."""

    name = "module:app"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Sayso:
        """Import the module and find the app, or say what is in the way."""
        if isinstance(value, Sayso):
            return value
        module, colon, path = str(value).partition(":")
        if not module or not colon or not path:
            store = f"; it is a file: --store {value}" if Path(str(value)).is_file() else ""
            text = f"{value!r} does not name an app: write module:app, as in pay:app{store}"
            self.fail(text, param, ctx)
        here = str(Path.cwd())
        if here not in sys.path:
            # As `python -m` does: whoever stands beside the module means that one.
            sys.path.insert(0, here)
        try:
            with contained(module):
                found = _find(module, path)
        except ModuleNotFoundError as error:
            self.fail(f"there is no module {error.name!r} to find {value!r} in", param, ctx)
        except Exception as error:
            # Somebody else's code: whatever it raises is its own fault, and not one of ours.
            if os.environ.get("SAYSO_DEBUG") == "1":
                raise
            self.fail(f"{value!r} cannot be imported: {plain(describe(error))}", param, ctx)
        if isinstance(found, sync.Sayso):
            found = found._inner  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
        if not isinstance(found, Sayso):
            kind = "nothing" if found is None else type(found).__name__
            self.fail(f"{value!r} is {kind}, not a Sayso", param, ctx)
        return found


def _find(module: str, path: str) -> object:
    found: object = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found() if callable(found) else found


APP = AppName()
