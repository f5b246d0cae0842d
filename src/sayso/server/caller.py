"""Who sends a request, and what their credential lets them do.

Rule 1: the principal comes from the credential, never from what is in the request.
Rule 2: a credential can only take away. What a caller may do is what the engine lets its principal
do, within the scopes of the credential; no scope gives a right that the records do not.
Rule 3: whoever is no person does not decide: no such credential can be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import msgspec
from fastapi import Depends, Request

from sayso.domain.value import Principal
from sayso.errors import BadValue, NotAllowed

if TYPE_CHECKING:
    from sayso.app import Sayso

Scope = Literal["read", "start", "decide", "admin"]
"""`read`: look and follow. `start`: start, say, command, cancel. `decide`: whatever answers a hold.
`admin`: people, grants, tokens and the audit.
"""
SCOPES: frozenset[Scope] = frozenset(get_args(Scope))


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sends a request."""

    by: Principal
    project: str
    scopes: frozenset[Scope] = SCOPES
    via: str = "token"
    """What kind of credential it was: `token`, `jwt`, `local` or `session`."""

    def __post_init__(self) -> None:
        if self.by.kind != "person" and not self.scopes.isdisjoint({"decide", "admin"}):
            raise BadValue(f"{self.by} is no person: such a credential cannot decide, nor govern")

    def need(self, scope: Scope) -> None:
        """Raise `NotAllowed` unless the credential is good for this."""
        if scope not in self.scopes:
            raise NotAllowed(f"this credential is not good for it: it has no scope {scope!r}")


def sayso_of(request: Request) -> Sayso:
    """Give the open `Sayso` that a request is for."""
    return cast("Sayso", request.app.state.sayso)


async def caller_of(request: Request) -> Caller:
    """Give who sends a request, or raise `Unauthenticated`."""
    return cast("Caller", await request.app.state.door.identify(request))


def _needs(scope: Scope) -> object:
    async def dependency(caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        caller.need(scope)
        return caller

    return Depends(dependency)


App = Annotated["Sayso", Depends(sayso_of)]
Reader = Annotated[Caller, _needs("read")]
Starter = Annotated[Caller, _needs("start")]
Decider = Annotated[Caller, _needs("decide")]
Admin = Annotated[Caller, _needs("admin")]
