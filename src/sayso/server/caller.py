"""Who sends a request, and what their credential lets them do.

Rule 1: the principal comes from the credential, never from what is in the request.
Rule 2: a credential can only take away. What a caller may do is what the engine lets its principal
do, within the scopes of the credential; no scope gives a right that the records do not.
Rule 3: an agent starts and looks. A credential of one that could decide or govern cannot be made.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast, get_args

import msgspec
from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from sayso.app import Sayso
from sayso.domain.value import Principal
from sayso.engine.window import Window
from sayso.errors import BadValue, NotAllowed, SaysoError

Scope = Literal["read", "start", "decide", "admin"]
"""`read`: look and follow. `start`: start, say, command, cancel. `decide`: whatever answers a hold.
`admin`: people, grants, tokens and the audit.
"""
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))
AGENT_SCOPES: frozenset[Scope] = frozenset({"read", "start"})
"""All that an agent can have, and all that a service has unless more is said."""


_CALLER = "sayso.caller"


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a request."""

    by: Principal
    project: str
    scopes: frozenset[Scope] = SCOPES
    via: str = "token"
    """What kind of credential it was: `token`, `jwt`, `local` or `session`."""

    def __post_init__(self) -> None:
        if self.by.kind == "clock":
            raise BadValue("nobody bears a credential of the clock: what it does is nobody's doing")
        if self.by.kind == "agent" and not self.scopes <= AGENT_SCOPES:
            raise BadValue(f"{self.by} is an agent: its credential can only start and read")

    def need(self, scope: Scope) -> None:
        """Raise `NotAllowed` unless the credential is good for this."""
        if scope not in self.scopes:
            raise NotAllowed(f"this credential is not good for it: it has no scope {scope!r}")

    def window(self, app: Sayso) -> Window:
        """Look with the caller's eyes."""
        return app.window(by=self.by, project=self.project)


def sayso_of(request: Request) -> Sayso:
    """Give the open `Sayso` that a request is for."""
    return cast("Sayso", request.app.state.sayso)


async def let_in(request: Request) -> None:
    """Find out who sends a request, or raise `Unauthenticated`."""
    request.scope[_CALLER] = await request.app.state.door.identify(request)


async def caller_of(request: Request) -> Caller:
    """Give who sends a request: whoever was let in with it."""
    if _CALLER not in request.scope:
        await let_in(request)
    return cast("Caller", request.scope[_CALLER])


async def is_still_in(link: HTTPConnection, caller: Caller) -> bool:
    """Tell whether the credential that came with a request is still good for the same, and whoever
    bears it is still active.
    """
    people = cast("Sayso", link.app.state.sayso).people
    try:
        same = await link.app.state.door.identify(link) == caller
        return same and (await people.authority(caller.project, caller.by)).active
    except SaysoError:
        return False


def _needs(scope: Scope) -> Any:
    async def dependency(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        caller.need(scope)
        return caller

    return Depends(dependency)


App = Annotated[Sayso, Depends(sayso_of)]
Reader = Annotated[Caller, _needs("read")]
Starter = Annotated[Caller, _needs("start")]
Decider = Annotated[Caller, _needs("decide")]
Admin = Annotated[Caller, _needs("admin")]
