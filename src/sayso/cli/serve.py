"""`sayso serve`: the inbox and the API, over HTTP."""

from __future__ import annotations

import getpass
import sys
import webbrowser
from socket import socket
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from sayso.app import Sayso
from sayso.cli.imported import APP
from sayso.cli.log import Form, log_option, log_to_stderr
from sayso.cli.oidc import oidc_options, read_oidc
from sayso.cli.opened import Place, default_store, store_option
from sayso.cli.turns import take_turns
from sayso.domain.value import Principal
from sayso.errors import BadSetup
from sayso.wired import only_looking

if TYPE_CHECKING:
    from sayso.server.door import LocalWay, Way

NOT_STARTED = 2
_NEAR = ("127.0.0.1", "::1", "localhost")


@click.command(short_help="Serve the inbox and the API.")
@click.argument("app", type=APP, required=False)
@store_option("The store of a server without APP.", of_app=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", default=8722, show_default=True, type=click.IntRange(0, 65535))
@click.option("--no-worker", is_flag=True, help="Leave the work to other processes.")
@click.option("--open", "opens", is_flag=True, help="Open the inbox in a browser.")
@click.option("--public-url", help="The address that people reach it by, behind a proxy.")
@click.option("--user", help="Who the local token is of; else who you are on this machine.")
@click.option("--project", default="default", show_default=True, help="Of whoever comes so.")
@oidc_options
@log_option
@click.pass_context
def serve(
    ctx: click.Context,
    *,
    app: Sayso | None,
    store: Place | None,
    host: str,
    port: int,
    no_worker: bool,
    opens: bool,
    public_url: str | None,
    user: str | None,
    project: str,
    form: Form,
    **oidc: Any,
) -> None:
    """Serve the inbox and the API, and work on the runs of the APP; without one, it only decides.

    On this machine alone, it prints a link that signs one browser in, and a token for one person,
    good for as long as it runs; not with --public-url, by which others reach it. For others make
    tokens with `sayso token create`, or take those of an OpenID Connect issuer.

    \b
    Examples:
      sayso serve pay:app --open
      sayso serve pay:app --port 80 --host 0.0.0.0 --public-url https://pay.example.com
      sayso serve pay:app --oidc-issuer https://id.example.com --oidc-audience sayso
      sayso serve pay:app --oidc-issuer https://id.example.com --oidc-client-id sayso-inbox
    """  # noqa: D301
    try:
        from sayso.server.app import create_app
        from sayso.server.door import LocalWay
        from sayso.server.serve import bind
        from sayso.server.serve import serve as run
        from sayso.web.app import add_pages
    except ModuleNotFoundError as error:
        raise BadSetup(f"{error.name} is missing: pip install 'sayso[server]'") from None
    if app is not None and store is not None:
        raise click.UsageError("an APP has its own store: leave --store out")
    named = store or default_store()
    sayso = app or Sayso("sayso.db" if named is None else named.where, work=False)
    if no_worker:
        sayso = only_looking(sayso, make=True)
    ways: list[Way] = []
    local = None
    if host in _NEAR and public_url is None:
        local = LocalWay(Principal(id=user or getpass.getuser()), project)
        ways.append(local)
    way, provider = read_oidc(sayso, project=project, **oidc)
    if way is not None:
        ways.append(way)
    log_to_stderr(form)
    take_turns()
    sock = bind(host, port)
    _say_where(sock, local, opens=opens)
    served = create_app(sayso, ways=ways, public_url=public_url)
    if not run(add_pages(served, at=provider), sock):
        ctx.exit(NOT_STARTED)


def _say_where(sock: socket, local: LocalWay | None, *, opens: bool) -> None:
    there = sock.getsockname()
    name = f"[{there[0]}]" if ":" in there[0] else there[0]
    page = f"http://{name}:{there[1]}"
    click.echo(page)
    if local is not None:
        click.echo(f"token: {local.text}")
        page = f"{page}/enter/{local.code}"
        click.echo(f"inbox: {page}")
    sys.stdout.flush()
    if opens:
        # What it opens is waited for by some browsers, and does not come before the server does.
        Thread(target=webbrowser.open, args=(page,), daemon=True).start()
