"""The options of `sayso serve` for an OpenID Connect issuer: its tokens, and signing in there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sayso.app import Sayso
from sayso.domain.ruling import duration_ms
from sayso.errors import BadSetup

if TYPE_CHECKING:
    from sayso.server.jwt import JwtWay
    from sayso.web.oidc import Oidc

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--oidc-issuer", metavar="URL", help="Know people by this OpenID issuer."),
    click.option("--oidc-audience", help="Take its tokens that are made for this audience."),
    click.option("--oidc-client-id", help="Let people sign in to the inbox there, as this client."),
    click.option("--oidc-client-secret-file", type=_FILE, help="What the client shows there."),
    click.option("--oidc-scope", "oidc_scopes", multiple=True, help="Asked for when signing in."),
    click.option("--oidc-person", default="sub", show_default=True, help="The claim of their id."),
    click.option("--oidc-roles", metavar="CLAIM", help="The claim that has people's roles."),
    click.option("--oidc-session", default="7d", show_default=True, help="How long they stay in."),
)


def oidc_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_oidc(
    sayso: Sayso,
    *,
    project: str,
    oidc_issuer: str | None,
    oidc_audience: str | None,
    oidc_client_id: str | None,
    oidc_client_secret_file: Path | None,
    oidc_scopes: tuple[str, ...],
    oidc_person: str,
    oidc_roles: str | None,
    oidc_session: str,
) -> tuple[JwtWay | None, Oidc | None]:
    """Make what takes an issuer's tokens, and what people sign in by; either only if asked for."""
    wanted = oidc_audience or oidc_client_id
    if bool(oidc_issuer) != bool(wanted):
        raise click.UsageError("--oidc-issuer goes with --oidc-audience, --oidc-client-id, or both")
    if oidc_client_secret_file and not oidc_client_id:
        raise click.UsageError("--oidc-client-secret-file goes with --oidc-client-id")
    if not oidc_issuer:
        return None, None
    from sayso.server.issuer import Issuer
    from sayso.server.jwt import JwtWay
    from sayso.web.oidc import SCOPES, Oidc

    issuer, way, provider = Issuer(oidc_issuer), None, None
    told: dict[str, Any] = {
        "issuer": issuer,
        "project": project,
        "person_claim": oidc_person,
        "roles_claim": oidc_roles,
    }
    if oidc_audience:
        way = JwtWay(sayso, audience=oidc_audience, **told)
    if oidc_client_id:
        secret = None
        if oidc_client_secret_file is not None:
            secret = oidc_client_secret_file.read_text("utf-8").strip()
            if not secret:
                raise BadSetup(f"there is no secret in {oidc_client_secret_file}")
        provider = Oidc(
            sayso,
            client_id=oidc_client_id,
            client_secret=secret,
            scopes=oidc_scopes or SCOPES,
            lasts_ms=duration_ms(oidc_session),
            **told,
        )
    return way, provider
