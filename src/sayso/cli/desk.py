"""Where the command line decides: one port, with a store or a server behind it.

Rule 1: who decides is the server's to say by the credential; at a store, whoever has the file may
say who they are, as a program does that opens it.
Rule 2: what comes back is the same values, whichever of the two it is, and what is refused the same
errors.
Rule 3: a decision carries the digest of the very hold that was shown.
Rule 4: no credential is an argument, where every list of processes shows it, or in anything that is
printed.
"""

from __future__ import annotations

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import click

from sayso.cli.ending import ended_by
from sayso.cli.opened import STORE, VARIABLE, Place, default_store

if TYPE_CHECKING:
    from sayso.app import Sayso
    from sayso.domain.grant import Grant
    from sayso.domain.hold import Verdict
    from sayso.engine.grants import Always
    from sayso.store.views import HoldView, Page

URL, TOKEN, USER = "SAYSO_URL", "SAYSO_TOKEN", "SAYSO_USER"
UNDO_S = 5.0
"""For how long a decision made in a terminal can be taken back."""
TOKEN_MAX = 16_384


class Desk(Protocol):
    """What somebody can do about requests, wherever those are."""

    name: str
    """What it is called, without any password."""
    web: str
    """Where people reach it in a browser; empty if that is not known."""

    async def who(self) -> str:
        """Say as whom all of this is done."""
        ...

    async def page(
        self,
        *,
        search: str | None = None,
        status: str = "open",
        everyone: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        """List requests, oldest first: those that ask one, or with `everyone` all there are."""
        ...

    async def hold(self, hold: str) -> HoldView:
        """Look at a request, or raise `UnknownHold`, or `NotAllowed`."""
        ...

    async def decide(
        self,
        hold: HoldView,
        verdict: Verdict,
        *,
        note: str = "",
        undo_s: float | None = None,
        always: Always | None = None,
        even_if_alive: bool = False,
    ) -> HoldView:
        """Decide what was shown. Durable when this returns; asking again does it once."""
        ...

    async def undo(self, hold: str) -> HoldView: ...

    async def reassign(self, hold: str, *, to: str, note: str = "") -> HoldView: ...

    async def remind(self, hold: str, in_s: float) -> datetime:
        """Have oneself told again after so long, and say when that is."""
        ...

    async def sign_in_url(self, hold: str) -> str: ...

    async def events(self, run: str) -> list[dict[str, Any]]:
        """Give what happened in a run so far, as the HTTP API tells it."""
        ...

    async def grants(self) -> Sequence[Grant]: ...

    async def revoke(self, grant: str) -> Grant: ...

    async def changed(self, within_s: float) -> frozenset[str]:
        """Wait until something may have happened, or so long; give the ids of requests that
        something has happened to since this was first asked, each at least once. The first time
        it waits only until it is able to tell.
        """
        ...


class Where(NamedTuple):
    """Which desk is meant, as the command line and the environment say."""

    place: Place | None = None
    app: Sayso | None = None
    url: str | None = None
    token: str | None = None
    plain_http: bool = False
    who: str | None = None
    project: str = "default"

    def open(self, patience_s: float | None = None) -> AbstractAsyncContextManager[Desk]:
        """Go there; a server that does not answer is waited for so long."""
        if self.url is not None:
            from sayso.cli.desk_remote import open_remote

            return open_remote(
                self.url, self.token, plain_http=self.plain_http, patience_s=patience_s
            )
        from sayso.cli.desk_local import open_local

        return open_local(self.app, self.place, who=self.who or _myself(), project=self.project)


def find_desk(
    *,
    store: Place | None = None,
    app: Sayso | None = None,
    url: str | None = None,
    token_file: str | None = None,
    token: str | None = None,
    plain_http: bool = False,
    who: str | None = None,
    project: str | None = None,
    **_: object,
) -> Where:
    """Find out which desk is meant. What is said on the command line comes before the environment,
    and there a server before a store.
    """
    if token is not None:
        raise click.UsageError(
            f"a token on the command line is in every list of processes: set {TOKEN}, or write it "
            "to a file and say --token-file"
        )
    if url is not None and (store is not None or app is not None):
        raise click.UsageError("either a server or a store: --url, or --store or --app")
    if store is None and app is None:
        url = url or os.environ.get(URL) or None
    if url is not None:
        if who is not None:
            raise click.UsageError("a server knows who you are by your token: leave --as out")
        if project is not None:
            raise click.UsageError("a token is of one project: leave --project out")
        return Where(url=url, token=_token(token_file), plain_http=plain_http)
    place = store or (None if app is not None else default_store())
    if place is None and app is None:
        raise click.UsageError(
            f"name a store or a server: --store pay.db, --url https://..., {VARIABLE} or {URL}"
        )
    who = who or os.environ.get(USER) or None
    return Where(place=place, app=app, who=who, project=project or "default")


def _token(file: str | None) -> str:
    if file is None:
        text = os.environ.get(TOKEN, "")
        hint = f"a server wants a token: set {TOKEN}, or say --token-file"
    else:
        with click.open_file(file) as read:
            text = read.read(TOKEN_MAX + 1)
        hint = f"there is no token in {file!r}"
    text = text.strip()
    if not text or len(text) > TOKEN_MAX or not text.isascii() or not text.isprintable():
        raise click.UsageError(hint)
    return text


def _myself() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise click.UsageError(f"nobody knows who you are: --as WHO, or {USER}") from None


class _AppParam(click.ParamType["Sayso"]):
    """An app, imported only if one is named."""

    name = "module:app"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Sayso:
        """Import it."""
        from sayso.cli.imported import APP

        return APP.convert(value, param, ctx)


_OPTIONS = (
    click.option("--store", type=STORE, help=f"Where the requests are; else {VARIABLE}."),
    click.option(
        "--app", type=_AppParam(), metavar="MODULE:APP", help="An app with its store and its code."
    ),
    click.option("--url", metavar="URL", help=f"A server in place of a store; else {URL}."),
    click.option(
        "--token-file",
        type=click.Path(exists=True, dir_okay=False, allow_dash=True),
        help=f"Where the token for it is, - for standard input; else {TOKEN}.",
    ),
    click.option("--token", hidden=True),
    click.option("--plain-http", is_flag=True, help="Send it over http:// to another machine."),
    click.option(
        "--as", "who", metavar="WHO", help=f"Who you are at a store; else {USER}, else your login."
    ),
    click.option("--project", help="Of which project; else default."),
)
_NAMES = ("store", "app", "url", "token_file", "token", "plain_http", "who", "project")


def desk_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a desk."""
    for add in reversed(_OPTIONS):
        command = add(command)
    return command


def at_desk(command: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """Give a command the options that name a desk, and the desk as its first argument."""

    @wraps(command)
    def invoke(*args: Any, **given: Any) -> Any:
        named = {name: given.pop(name) for name in _NAMES}
        return with_desk(command, named)(*args, **given)

    return desk_options(invoke)


def with_desk(command: Callable[..., Awaitable[Any]], named: dict[str, Any]) -> Callable[..., Any]:
    """Run a command at the desk that is named so. What it is refused ends it with the code of
    that.
    """

    def invoke(*args: Any, **given: Any) -> Any:
        where = find_desk(**named)

        async def work() -> Any:
            async with where.open() as desk:
                return await command(desk, *args, **given)

        with ended_by():
            return asyncio.run(work())

    return invoke


def is_remote(named: dict[str, Any], names: Sequence[str] = ()) -> bool:
    """Tell whether a server is meant rather than a store, which `names` may begin with."""
    if named["url"] is not None or named["store"] is not None or named["app"] is not None:
        return named["url"] is not None
    stored = bool(names) and ("://" in names[0] or Path(names[0]).is_file())
    return bool(os.environ.get(URL)) and not stored


@asynccontextmanager
async def desk_of(ctx: click.Context, patience_s: float) -> AsyncGenerator[Desk]:
    """Open the desk that a command line names that is not finished yet."""
    given = {name: ctx.params.get(name) for name in _NAMES if name != "token"}
    if given["token_file"] == "-":  # noqa: S105 - the name of standard input.
        raise click.UsageError("what is typed into a line that is not finished is no token")
    if isinstance(given["store"], str):
        given["store"] = STORE.convert(given["store"], None, ctx)
    async with find_desk(**cast("Any", given)).open(patience_s) as desk:
        yield desk
