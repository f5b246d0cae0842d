"""Signing in and out: by the link that a server on this machine prints, by a token, by a provider.

Rule 1: looking at a page signs nobody in, and uses nothing up: programs look at links, too.
Rule 2: a credential is in a form, never in an address; the link that a server prints is good once.
"""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Path, Query, Request, Response

from sayso.errors import Unauthenticated, Unknown
from sayso.server.caller import Caller, sayso_of
from sayso.server.door import Door, LocalWay
from sayso.server.problem import describe
from sayso.web.before import before_of, forget_before, keep_before, new_before
from sayso.web.origin import check_origin, is_near, own_path
from sayso.web.page import PageRoute, problem_page, redirect, render
from sayso.web.session import (
    Form,
    Sessions,
    SignedIn,
    clear_cookie,
    read_form,
    signed_in,
    visitor_of,
)
from sayso.web.tries import Tries

router = APIRouter(route_class=PageRoute, include_in_schema=False)

TOO_MANY = 429
Code = Annotated[str, Path(max_length=100)]
Next = Annotated[str, Query(max_length=8000)]


@router.get("/sign-in")
async def show_sign_in(request: Request, next: Next = "/") -> Response:
    """Show the ways in; whoever is signed in goes on."""
    there = own_path(next)
    try:
        await visitor_of(request)
    except Unauthenticated:
        return sign_in_page(request, there)
    return redirect(request, there)


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Sign a browser in by a token."""
    form = await read_form(request)
    before = before_of(request)
    there = own_path(str(form.get("next", "/")))
    if before is None:
        return sign_in_page(request, there, said="Your browser has kept no cookie: try again.")
    before.check(str(form.get("word", "")))
    tries, peer = cast("Tries", request.app.state.tries), peer_of(request)
    if tries.is_over(peer):
        said = "Too many tokens that were not good came from your address: wait a minute."
        return sign_in_page(request, there, said=said, status=TOO_MANY)
    text = str(form.get("token", "")).strip()
    door = cast("Door", request.app.state.door)
    try:
        caller = await door.admit(text, request)
        ref = _ref(door, text, caller, request)
    except Unauthenticated as error:
        tries.fail(peer)
        return sign_in_page(request, there, said=f"{error}.", status=describe(error).status)
    answer = await signed_in(request, redirect(request, there), caller, via=caller.via, ref=ref)
    forget_before(request, answer)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request, visitor: SignedIn, form: Form) -> Response:
    """End the session, here and in the browser."""
    del form  # Its word has been checked, which is all that it is for.
    await Sessions(sayso_of(request).store).end(visitor.session.id)
    answer = redirect(request, "/sign-in")
    clear_cookie(request, answer)
    return answer


@router.get("/enter/{code}")
async def show_enter(request: Request, code: Code) -> Response:
    """Show who comes in by the link that the server has printed. It stays good."""
    local = _local(request)
    if not local.is_code(code):
        return _used(request)
    return render(request, "enter.html", code=code, name=str(local.caller.by))


@router.post("/enter/{code}")
async def enter(request: Request, code: Code) -> Response:
    """Sign a browser in by the link, once."""
    check_origin(request)
    local = _local(request)
    try:
        caller = local.use(code)
    except Unauthenticated:
        return _used(request)
    return await signed_in(request, redirect(request, "/"), caller, via="local", ref=local.id)


def sign_in_page(request: Request, there: str, *, said: str = "", status: int = 200) -> Response:
    """Show the ways in, and what went wrong with one of them."""
    before = before_of(request) or new_before()
    page = render(
        request,
        "sign_in.html",
        status=status,
        headers={"retry-after": "60"} if status == TOO_MANY else None,
        word=before.word(),
        there=there,
        said=said,
        local=_is_local(request),
        oidc=request.app.state.oidc,
    )
    return keep_before(request, page, before)


def _ref(door: Door, text: str, caller: Caller, request: Request) -> str:
    """Say what a session is made of, so that it ends with it."""
    if caller.by.kind != "person":
        raise Unauthenticated(f"this is the token of {caller.by}: only persons sign in to pages")
    if "read" not in caller.scopes:
        raise Unauthenticated("this token is not good for looking: it has no scope 'read'")
    if caller.via == "token":
        return text.split("_")[1]
    if caller.via == "local" and door.local is not None and is_near(request):
        return door.local.id
    raise Unauthenticated("this is no API token: sign in by one, or the way that it came from")


def _is_local(request: Request) -> bool:
    return cast("Door", request.app.state.door).local is not None and is_near(request)


def _local(request: Request) -> LocalWay:
    local = cast("Door", request.app.state.door).local
    # From elsewhere there is no such page.
    if local is None or not is_near(request):
        raise Unknown("there is no such page")
    return local


def _used(request: Request) -> Response:
    said = "this link was used, or is of an earlier start of the server: sign in by the token"
    return problem_page(request, describe(Unauthenticated(said)))


def peer_of(request: Request) -> str:
    """Give the address that a request is from; empty if that is only a proxy's."""
    if request.app.state.public_url:
        return ""
    return "" if request.client is None else request.client.host
