"""Pages: templates, headers, and what becomes of errors.

Rule 1: templates are the only place that makes HTML, and they escape everything.
Rule 2: nothing of a page comes from elsewhere, and nothing in it runs but our own script.
Rule 3: every action is a link or a form that works without a script. A script asks for the part
of a page that it puts in: `x-part: list`.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
from collections.abc import Callable, Coroutine
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.exceptions import HTTPException

from sayso.errors import SaysoError, Unauthenticated
from sayso.server.json import StrictRequest
from sayso.server.problem import FAULT, RETRY_AFTER_S, Problem, answer, describe, problem_of
from sayso.web import words
from sayso.web.asset import assets

if TYPE_CHECKING:
    from sayso.web.session import Visitor

log = logging.getLogger("sayso")
T = TypeVar("T")

ZIP_FROM = 600
"""Smaller answers are not worth packing."""
FORM_MAX = 2_000_000
ASIDE_MIN = 20_000
"""From so many characters on, something is drawn beside the event loop."""
THEMES = ("light", "dark")
THEME_COOKIE = "sayso_theme"
CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
RETRY = {"retry-after": str(RETRY_AFTER_S)}
HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


@cache
def environment() -> Environment:
    """Give what renders templates."""
    made = Environment(
        loader=PackageLoader("sayso.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    cast("dict[str, Any]", made.filters).update(words.FILTERS)  # pyright: ignore[reportUnknownMemberType]
    cast("dict[str, Any]", made.globals).update(words.GLOBALS)  # pyright: ignore[reportUnknownMemberType]
    return made


def base_of(request: Request) -> str:
    """Give the path that the application is mounted at, without a slash at its end."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def part_of(request: Request) -> str:
    """Say which part of a page a script asks for; empty: all of it."""
    return request.headers.get("x-part", "")


def render(
    request: Request,
    template: str,
    *,
    visitor: Visitor | None = None,
    status: int = 200,
    headers: dict[str, str] | None = None,
    **context: Any,
) -> Response:
    """Answer with a page, or a part of one."""
    theme = request.cookies.get(THEME_COOKIE, "")
    text = (
        environment()
        .get_template(template)
        .render(
            base=base_of(request),
            path=request.url.path.removeprefix(base_of(request)),
            assets=assets(),
            visitor=visitor,
            csrf="" if visitor is None else visitor.csrf(),
            theme=theme if theme in THEMES else "",
            **context,
        )
    )
    body = text.encode()
    more = {**HEADERS, "vary": "accept-encoding, x-part", **(headers or {})}
    if len(body) >= ZIP_FROM and "gzip" in request.headers.get("accept-encoding", ""):
        # What is secret in a page is said in other characters each time: see `Visitor.csrf`.
        body = gzip.compress(body, 6, mtime=0)
        more["content-encoding"] = "gzip"
    return HTMLResponse(body, status, more)


async def aside(size: int, make: Callable[[], T]) -> T:
    """Make something for people to look at, beside the event loop if much has to be shown: whoever
    has an agent ask for a lot would keep all others waiting.
    """
    return make() if size < ASIDE_MIN else await asyncio.to_thread(make)


def redirect(request: Request, path: str) -> Response:
    """Send a browser to another page of ours, to be looked at: after a form was carried out."""
    return RedirectResponse(base_of(request) + path, 303, {"cache-control": "no-store"})


class PageRequest(StrictRequest):
    """A request whose form is bounded."""

    body_max = FORM_MAX


class PageRoute(APIRoute):
    """A route that answers with pages: errors as well, and whoever is not signed in signs in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Hand the route a bounded request, and show what goes wrong."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            request = PageRequest(request.scope, request.receive)
            try:
                return await handle(request)
            except Unauthenticated as error:
                return _to_sign_in(request, error)
            except SaysoError as error:
                return problem_page(request, describe(error))
            except RequestValidationError:
                return problem_page(request, _UNREADABLE)
            except HTTPException as error:
                return problem_page(request, problem_of(error), dict(error.headers or {}))

        return shown


_UNREADABLE = Problem(
    type="about:blank",
    title="This address or form cannot be read.",
    status=422,
    detail="Go back, and try again from the page you came from.",
)


def problem_page(
    request: Request, problem: Problem, headers: dict[str, str] | None = None
) -> Response:
    """Show why something was not carried out."""
    if problem.status >= FAULT:
        log.error("a page failed: %s: %s", problem.title, problem.detail)
    visitor = getattr(request.state, "visitor", None)
    again = RETRY if problem.status in (429, 503) else {}
    return render(
        request,
        "problem.html",
        visitor=visitor,
        status=problem.status,
        headers={**again, **(headers or {})},
        problem=problem,
    )


def add_problem_pages(app: FastAPI) -> None:
    """Show a page to a browser that asks for what is not there, or meets a fault of ours."""

    async def shown(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            problem, headers = problem_of(error), dict(error.headers or {})
        else:
            log.error("a request failed", exc_info=error)
            problem, headers = describe(SaysoError()), {}
        if "text/html" in request.headers.get("accept", ""):
            return problem_page(request, problem, headers)
        return answer(problem, headers)

    app.add_exception_handler(HTTPException, shown)
    app.add_exception_handler(Exception, shown)


def _to_sign_in(request: Request, error: Unauthenticated) -> Response:
    if part_of(request) or request.method != "GET":
        # A script is told; it says so on the page, where nothing that was typed is lost.
        return problem_page(request, describe(error))
    there = request.url.path.removeprefix(base_of(request))
    if request.url.query:
        there += f"?{request.url.query}"
    return redirect(request, f"/sign-in?{urlencode({'next': there})}")
