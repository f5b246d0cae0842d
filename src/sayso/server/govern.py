"""Governing over HTTP: people, grants, tokens and the audit. For credentials with the scope `admin`
whose bearer is an operator of the project.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field, JsonValue

from sayso.domain.grant import Grant
from sayso.domain.people import PERSON, Person
from sayso.domain.value import Principal
from sayso.errors import NotAllowed, UnknownPerson
from sayso.server.caller import Admin, App, Caller, Scope, caller_of
from sayso.server.json import StrictRoute
from sayso.server.problem import documented
from sayso.server.runs import After, Limit
from sayso.server.token import Token, Tokens
from sayso.server.wire import NAME_MAX, In, Name, Out, PrincipalOut, principal_out
from sayso.store.views import moment

router = APIRouter(prefix="/v1", route_class=StrictRoute)

Names = Annotated[list[Name], Field(max_length=100)]
Id = Annotated[str, Path(min_length=1, max_length=NAME_MAX)]


async def _govern(app: App, caller: Admin) -> Caller:
    if not await caller.window(app).is_operator():
        raise NotAllowed("only an operator governs a project")
    return caller


async def _found(app: App, caller: Admin) -> Caller:
    """Let whoever sits at the machine keep the first person of a project, who then governs it."""
    first = not await app.store.shelf.list(caller.project, PERSON, limit=1)
    return caller if first and caller.via == "local" else await _govern(app, caller)


Governor = Annotated[Caller, Depends(_govern)]
Founder = Annotated[Caller, Depends(_found)]


class PersonIn(In):
    """What is known of a person; what is left out stays as it was."""

    name: Annotated[str, Field(max_length=200)] | None = None
    roles: Names | None = None
    identities: Names | None = None
    active: bool | None = None


class PersonOut(Out):
    """A person."""

    id: str
    name: str
    roles: list[str]
    identities: list[str]
    active: bool


class PeopleOut(Out):
    """A page of people."""

    items: list[PersonOut]
    next: str | None


class GrantOut(Out):
    """A standing permission."""

    id: str
    tool: str
    by: PrincipalOut
    at: datetime
    until: datetime
    hold_id: str
    run: str | None
    agent: str | None
    uses_max: int | None
    used: int
    revoked_at: datetime | None
    note: str


class GrantsOut(Out):
    """Standing permissions."""

    items: list[GrantOut]


class TokenIn(In):
    """A token to make."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    by: Name
    kind: Annotated[str, Field(pattern="^(person|agent|service)$")] = "person"
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=4)]
    expires_s: Annotated[float, Field(gt=0, le=10 * 366 * 86400)] | None = None


class TokenOut(Out):
    """A token, without its secret."""

    id: str
    name: str
    by: PrincipalOut
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


class NewTokenOut(TokenOut):
    """A token that was just made."""

    token: str
    """Its text. Nobody can give it again."""


class TokensOut(Out):
    """The tokens of a project."""

    items: list[TokenOut]


class WhoOut(Out):
    """Who the caller is."""

    by: PrincipalOut
    project: str
    scopes: list[Scope]
    via: str


class RefusedOut(Out):
    """An attempt that was refused."""

    n: int
    at: datetime
    attempt: dict[str, JsonValue]


class RefusedsOut(Out):
    """A page of attempts that were refused."""

    items: list[RefusedOut]
    next: int | None


@router.get("/me", responses=documented())
async def who_am_i(caller: Annotated[Caller, Depends(caller_of)]) -> WhoOut:
    """Say whose credential this is, and what it is good for."""
    return WhoOut(
        by=principal_out(caller.by),
        project=caller.project,
        scopes=sorted(caller.scopes),
        via=caller.via,
    )


@router.get("/people", responses=documented())
async def list_people(
    *, app: App, caller: Governor, after: After = None, limit: Limit = 50
) -> PeopleOut:
    """List people by id."""
    found = await app.people.list(project=caller.project, after=after or None, limit=limit)
    more = found[-1].id if len(found) >= limit else None
    return PeopleOut(items=[_person(one) for one in found], next=more)


@router.get("/people/{person_id}", responses=documented(404))
async def look_at_person(*, app: App, caller: Governor, person_id: Id) -> PersonOut:
    """Look a person up by their id, or by an identity of theirs."""
    found = await app.people.get(person_id, project=caller.project)
    if found is None:
        raise UnknownPerson(f"there is no person {person_id!r}")
    return _person(found)


@router.put("/people/{person_id}", responses=documented(409, 413, 400))
async def keep_person(*, app: App, caller: Founder, person_id: Id, body: PersonIn) -> PersonOut:
    """Keep a person. The first of a project should be an operator: nobody else governs it then."""
    return _person(await app.people.put(person_id, **dict(body), project=caller.project))


@router.get("/grants", responses=documented())
async def list_grants(*, app: App, caller: Governor) -> GrantsOut:
    """List what is always allowed."""
    found = await app.grants.list(project=caller.project)
    return GrantsOut(items=[_grant(one) for one in found])


@router.delete("/grants/{grant_id}", responses=documented(404))
async def revoke_grant(*, app: App, caller: Governor, grant_id: Id) -> GrantOut:
    """Revoke what was always allowed."""
    return _grant(await app.grants.revoke(grant_id, by=caller.by, project=caller.project))


@router.get("/tokens", responses=documented())
async def list_tokens(*, app: App, caller: Governor) -> TokensOut:
    """List the tokens of the project, without their secrets."""
    found = await Tokens(app.store).list(caller.project)
    return TokensOut(items=[TokenOut(**_token(one)) for one in found])


@router.post("/tokens", status_code=201, responses=documented(413, 400))
async def make_token(*, app: App, caller: Governor, body: TokenIn) -> NewTokenOut:
    """Make a token for this project: one's own, or that of an agent or a service, and good for no
    more than the one that asks. Its text is in this answer, and nowhere else.
    """
    if not set(body.scopes) <= caller.scopes:
        raise NotAllowed("a token is good for no more than the one that it is made with")
    if body.kind == "person" and body.by != caller.by.id:
        raise NotAllowed("nobody makes a token of another person's: its bearer decides as them")
    if body.kind == "service" and "admin" in body.scopes:
        raise NotAllowed("a service does not govern")
    by = Principal(id=body.by, kind=body.kind)  # pyright: ignore[reportArgumentType] - of three.
    token, text = await Tokens(app.store).create(
        name=body.name,
        by=by,
        project=caller.project,
        scopes=body.scopes,
        expires=body.expires_s,
        made_by=caller.by,
    )
    return NewTokenOut(**_token(token), token=text)


@router.delete("/tokens/{token_id}", responses=documented(404))
async def revoke_token(*, app: App, caller: Governor, token_id: Id) -> TokenOut:
    """End a token for good."""
    return TokenOut(**_token(await Tokens(app.store).revoke(token_id, project=caller.project)))


@router.get("/audit/refused", responses=documented())
async def list_refused(
    *,
    app: App,
    caller: Governor,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    limit: Limit = 50,
) -> RefusedsOut:
    """List who was refused what, oldest first."""
    found = await app.audit.refused(project=caller.project, after=after, limit=limit)
    items = [
        RefusedOut(n=one.n, at=moment(one.at), attempt=msgspec.to_builtins(one.attempt))
        for one in found
    ]
    return RefusedsOut(items=items, next=found[-1].n if len(found) >= limit else None)


def _person(one: Person) -> PersonOut:
    return PersonOut(
        id=one.id,
        name=one.name,
        roles=list(one.roles),
        identities=list(one.identities),
        active=one.active,
    )


def _grant(one: Grant) -> GrantOut:
    return GrantOut(
        id=one.id,
        tool=one.tool,
        by=principal_out(one.by),
        at=moment(one.at),
        until=moment(one.until),
        hold_id=one.hold,
        run=one.run or None,
        agent=one.agent or None,
        uses_max=one.uses_max,
        used=one.used,
        revoked_at=None if one.revoked is None else moment(one.revoked),
        note=one.note,
    )


def _token(one: Token) -> dict[str, Any]:
    return {
        "id": one.id,
        "name": one.name,
        "by": principal_out(one.by),
        "scopes": list(one.scopes),
        "created_at": moment(one.at),
        "expires_at": one.expires_at,
        "revoked_at": None if one.revoked is None else moment(one.revoked),
    }
