"""What becomes of errors over HTTP: problem documents (RFC 9457), by one table.

Rule: a problem says what a caller may know. What should not happen says nothing of itself.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as AnyHTTPException

from sayso import errors as x
from sayso.server.wire import DecisionOut, decision_out

log = logging.getLogger("sayso")

RETRY_AFTER_S = 2
PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""What every answer says of itself: nothing of it is for anybody else, or for a guess."""
UNAUTHENTICATED, TOO_SLOW, TOO_LARGE, FAULT = 401, 408, 413, 500

STATUS: dict[type[Exception], int] = {
    x.Unauthenticated: 401,
    x.NotAllowed: 403,
    x.Unknown: 404,
    x.BadState: 400,
    x.AlreadyDecided: 409,
    x.HoldExpired: 410,
    x.RunArchived: 410,
    x.NotWhatWasShown: 409,
    x.WorkerMayLive: 409,
    x.RunExists: 409,
    x.IdentityTaken: 409,
    x.RunFinished: 409,
    x.RunWaiting: 409,
    x.ThreadBusy: 409,
    x.CannotUndo: 409,
    x.BudgetSpent: 409,
    x.StaleItem: 409,
    x.TooManyCommands: 429,
    x.Refused: 422,
    x.SignInFailed: 502,
    x.StoreError: 503,
    x.SaysoError: 500,
}
"""The status of an error is that of the nearest class above it in here."""


class Problem(BaseModel):
    """Why a request was not carried out."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    type: str = Field(examples=["urn:sayso:problem:already-decided"])
    title: str
    status: int
    detail: str
    decision: DecisionOut | None = None
    """409 and 410: the decision that stands."""
    digest: str | None = None
    """409: what is on offer now has this digest."""
    run_id: str | None = None
    """409: the run that is in the way."""
    errors: list[dict[str, str]] | None = None
    """422: where the request does not fit, as JSON Pointers, and why."""


class Refusal(HTTPException):
    """A problem of HTTP's own, which no error of ours names."""

    def __init__(self, status: int, name: str, title: str, detail: str) -> None:
        super().__init__(status, detail)
        self.problem = Problem(type=_type(name), title=title, status=status, detail=detail)


_FAULT_SAID = "A fault of ours; the log of the server has it."
_SAID_BY_STATUS = {
    502: "The provider could not be asked.",
    503: "The store cannot be used just now; with an Idempotency-Key it is safe to try again.",
}


def status_of(error: Exception) -> int:
    """Give the status that an error is answered with."""
    return next(STATUS[cls] for cls in type(error).__mro__ if cls in STATUS)


def describe(error: x.SaysoError) -> Problem:
    """Make the problem document of an error."""
    status = status_of(error)
    decision = getattr(error, "decision", None)
    problems: list[tuple[str, str]] = getattr(error, "problems", None) or []
    # What a store says of itself names hosts and files.
    said = str(error) if status < FAULT else _SAID_BY_STATUS.get(status, _FAULT_SAID)
    if isinstance(error, x.RunArchived):
        said = "It has left for an archive."  # Where that is, is nobody's business out there.
    return Problem(
        type=_type(type(error).__name__),
        title=(type(error).__doc__ or "").split("\n", 1)[0],
        status=status,
        detail=said,
        decision=None if decision is None else decision_out(decision),
        digest=getattr(error, "digest", None),
        run_id=getattr(error, "run_id", None),
        errors=[{"pointer": at, "detail": why} for at, why in problems] or None,
    )


def problem_of(error: AnyHTTPException) -> Problem:
    """Make the problem document of an error of HTTP's own."""
    if isinstance(error, Refusal):
        return error.problem
    title = str(error.detail)
    return Problem(type="about:blank", title=title, status=error.status_code, detail=title)


def answer(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """Answer with a problem document."""
    more = dict(headers or {})
    if problem.status == UNAUTHENTICATED:
        more["www-authenticate"] = "Bearer"
    if problem.status in (429, 503):
        more["retry-after"] = str(RETRY_AFTER_S)
    return JSONResponse(
        problem.model_dump(mode="json", exclude_none=True),
        problem.status,
        {**PRIVATE, **more},
        media_type="application/problem+json",
    )


def add_handlers(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, x.SaysoError)
        if status_of(error) >= FAULT:
            log.error("a request failed: %s: %s", type(error).__name__, error)
        return answer(describe(error))

    async def http(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, AnyHTTPException)
        return answer(problem_of(error), dict(error.headers or {}))

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        # Never what was sent: there may be secrets in it.
        found = [{"pointer": _pointer(one["loc"]), "detail": one["msg"]} for one in error.errors()]
        return answer(
            Problem(
                type=_type("InvalidRequest"),
                title="The request does not fit what is asked for here.",
                status=422,
                detail="; ".join(f"{one['pointer']}: {one['detail']}" for one in found)[:1000],
                errors=found,
            )
        )

    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        log.error("a request failed", exc_info=error)
        return answer(describe(x.SaysoError()))

    app.add_exception_handler(x.SaysoError, ours)
    app.add_exception_handler(AnyHTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unexpected)


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Say in the OpenAPI which problems a route can answer with; some any route can."""
    with_body = {TOO_SLOW} if TOO_LARGE in statuses else set[int]()
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _TITLES[status], "content": content}
        for status in sorted({401, 403, 422, 500, 503, *statuses, *with_body})
    }


_TITLES = {
    400: "The request cannot be read",
    401: "No credential, or none that is good",
    403: "Not allowed",
    404: "No such thing",
    409: "In conflict with what stands",
    408: "Too slow",
    410: "Too late",
    413: "Too large",
    422: "Not valid",
    429: "Too many",
    500: "A fault of ours",
    502: "A provider gave no token",
    503: "Not now",
}


def _type(name: str) -> str:
    return "urn:sayso:problem:" + re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def _pointer(loc: tuple[int | str, ...]) -> str:
    return "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in loc)
