"""`sayso token`: the tokens by which programs and people call the API."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import click

from sayso.cli.opened import Place, opened, store_option
from sayso.cli.plain import plain
from sayso.domain.value import Principal
from sayso.errors import BadSetup
from sayso.store.views import moment

if TYPE_CHECKING:
    from sayso.server.caller import Scope
    from sayso.server.token import Token

_STORE = store_option("The store.")
_PROJECT = click.option("--project", default="default", show_default=True)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group(short_help="Make, list and revoke API tokens.")
def token() -> None:
    """Make, list and revoke the tokens by which programs and people call the API.

    \b
    Examples:
      sayso token create ci --by ci --kind service --scope start --scope read --store pay.db
      sayso token list --store pay.db
      sayso token revoke ID --store pay.db
    """  # noqa: D301


@token.command(short_help="Make a token.")
@click.argument("name")
@click.option("--by", required=True, help="Whose token it is: the id of a person, an agent, ...")
@click.option(
    "--kind", type=click.Choice(["person", "service", "agent"]), default="person", show_default=True
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(["read", "start", "decide", "admin"]),
    help="What it is good for; all for a person, read and start for others, if none is named.",
)
@click.option("--expires", help="When it ends, as in 90d; never, if it is not said.")
@_STORE
@_PROJECT
@_JSON
def create(
    *,
    name: str,
    by: str,
    kind: str,
    scopes: tuple[str, ...],
    expires: str | None,
    store: Place,
    project: str,
    as_json: bool,
) -> None:
    """Make a token and print it. It is not kept, and nobody can print it again.

    \b
    Examples:
      sayso token create phone --by mira --store pay.db
      sayso token create ci --by ci --kind service --scope start --expires 90d --store pay.db
    """  # noqa: D301
    who = Principal(id=by, kind=cast("Any", kind))
    given = cast("frozenset[Scope]", frozenset(scopes))
    made, text = asyncio.run(_create(store, name, who, given, expires=expires, project=project))
    if as_json:
        click.echo(json.dumps({**_shown(made), "token": text}))
    else:
        click.echo(text)


@token.command("list", short_help="List tokens.")
@_STORE
@_PROJECT
@_JSON
def list_tokens(*, store: Place, project: str, as_json: bool) -> None:
    """List the tokens of a project, those that have ended as well; never their secrets.

    \b
    Examples:
      sayso token list --store pay.db
    """  # noqa: D301
    for one in asyncio.run(_list(store, project)):
        if as_json:
            click.echo(json.dumps(_shown(one)))
            continue
        ended = "revoked" if one.revoked is not None else ""
        until = "" if one.until is None else f"until {moment(one.until):%Y-%m-%d}"
        words = [one.id, str(one.by), ",".join(one.scopes), one.name, until, ended]
        click.echo(plain("  ".join(word for word in words if word)))


@token.command(short_help="End a token for good.")
@click.argument("id")
@_STORE
@_PROJECT
def revoke(*, id: str, store: Place, project: str) -> None:
    """End a token for good: the next request with it is refused.

    \b
    Examples:
      sayso token revoke abcdefgh22334455 --store pay.db
    """  # noqa: D301
    asyncio.run(_revoke(store, id, project))
    click.echo(f"revoked {id}", err=True)


async def _create(
    store: Place,
    name: str,
    by: Principal,
    scopes: frozenset[Scope],
    *,
    expires: str | None,
    project: str,
) -> tuple[Token, str]:
    tokens, caller = _server()
    default = caller.SCOPES if by.kind == "person" else caller.AGENT_SCOPES
    async with opened(store) as found:
        return await tokens.Tokens(found).create(
            name=name, by=by, project=project, scopes=scopes or default, expires=expires
        )


async def _list(store: Place, project: str) -> list[Token]:
    async with opened(store) as found:
        return await _server()[0].Tokens(found).list(project)


async def _revoke(store: Place, id: str, project: str) -> None:
    async with opened(store) as found:
        await _server()[0].Tokens(found).revoke(id, project=project)


def _server() -> Any:
    try:
        from sayso.server import caller, token
    except ModuleNotFoundError as error:
        raise BadSetup(f"{error.name} is missing: pip install 'sayso[server]'") from None
    return token, caller


def _shown(one: Token) -> dict[str, object]:
    return {
        "id": one.id,
        "name": one.name,
        "by": one.by.id,
        "kind": one.by.kind,
        "project": one.project,
        "scopes": list(one.scopes),
        "created_at": moment(one.at).isoformat(),
        "expires_at": None if one.until is None else moment(one.until).isoformat(),
        "revoked_at": None if one.revoked is None else moment(one.revoked).isoformat(),
    }
