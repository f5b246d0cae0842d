"""Runs over HTTP: start, look, follow, say, command, cancel."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from sayso.app import Sayso
from sayso.errors import NotAllowed, UnknownAgent, WaitTimeout
from sayso.server.caller import App, Caller, Reader, Starter
from sayso.server.json import StrictRoute
from sayso.server.problem import documented
from sayso.server.seat import Seat, seat_of
from sayso.server.stream import follow
from sayso.server.wire import (
    NAME_MAX,
    AcceptedOut,
    Answer,
    CancelIn,
    CommandIn,
    CommandOut,
    HoldsOut,
    MessageIn,
    RejectedOut,
    RunOut,
    RunsOut,
    StartIn,
    SuspendedOut,
    brief_out,
    decision_out,
    hold_out,
    is_ended_by,
    outcome_out,
    request_out,
    run_out,
)

WAIT_S = 30.0
"""How long a request waits for a run; proxies give up after a minute."""
PAGE_MAX = 200

router = APIRouter(prefix="/v1", route_class=StrictRoute)

RunId = Annotated[str, Path(max_length=NAME_MAX, examples=["run_01m7hq607ahdnnwh0m9399fc1x"])]
IdempotencyKey = Annotated[str | None, Header(min_length=1, max_length=200)]
After = Annotated[str | None, Query(max_length=NAME_MAX)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
Mode = Literal["async", "wait", "stream"]


def base_of(request: Request) -> str:
    """Give the address that callers reach the service by."""
    return str(request.app.state.public_url or request.base_url).rstrip("/")


@router.post(
    "/runs",
    response_model=Answer,
    responses={202: {"model": AcceptedOut}, **documented(404, 409, 413, 400)},
)
async def start_run(
    *,
    request: Request,
    app: App,
    caller: Starter,
    body: StartIn,
    idempotency_key: IdempotencyKey = None,
) -> Response | RunOut | SuspendedOut | RejectedOut:
    """Start a run. A retry with the same `Idempotency-Key` gives the same run."""
    with seat_of(request, caller, wanted=body.mode == "stream") as seat:
        check_agent(app, body.agent)
        run = await app.start(
            body.agent,
            body.input,
            by=caller.by,
            project=caller.project,
            thread=body.thread,
            key=key_of(caller, idempotency_key),
            metadata=body.metadata,
        )
        return await answer(request, app, caller, run.id, mode=body.mode, seat=seat)


@router.get("/runs", responses=documented(404))
async def list_runs(
    *,
    app: App,
    caller: Reader,
    status: Literal["running", "suspended", "completed", "failed", "cancelled"] | None = None,
    agent: Annotated[str | None, Query(max_length=NAME_MAX)] = None,
    thread: Annotated[str | None, Query(max_length=NAME_MAX)] = None,
    after: After = None,
    limit: Limit = 50,
) -> RunsOut:
    """List runs, newest first: one's own, or all for operators. A page may be short and the list
    go on all the same: it ends when `next` is null.
    """
    found, more = await caller.window(app).runs(
        status=status, agent=agent, thread=thread, before=after, limit=limit
    )
    return RunsOut(items=[brief_out(one) for one in found], next=more)


@router.get("/runs/{run_id}", response_model=Answer, responses=documented(404))
async def look_at_run(
    *,
    request: Request,
    app: App,
    caller: Reader,
    run_id: RunId,
    shown_as: Annotated[Literal["run"] | None, Query(alias="as")] = None,
) -> RunOut | SuspendedOut | RejectedOut:
    """Look at a run. One that waits for somebody, and one that a rejection has ended, answer with
    types of their own; `?as=run` gives the run in any case.
    """
    if shown_as == "run":
        return run_out(await caller.window(app).run(run_id))
    return await answer_of(app, caller, run_id, base_of(request))


@router.delete("/runs/{run_id}", status_code=202, responses=documented(404, 409))
async def cancel_run(
    *, request: Request, app: App, caller: Starter, run_id: RunId, body: CancelIn | None = None
) -> AcceptedOut:
    """Cancel a run: what it asks is withdrawn at once, calls under way are waited for."""
    await caller.window(app).reach(run_id)
    await app.cancel(run_id, by=caller.by, reason=body.reason if body else "")
    return await accepted(request, app, caller, run_id)


@router.get(
    "/runs/{run_id}/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The run's events", "content": {"text/event-stream": {}}},
        **documented(404),
    },
)
async def follow_run(
    *,
    request: Request,
    caller: Reader,
    run_id: RunId,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
    follow_on: Annotated[bool, Query(alias="follow")] = False,
    last_event_id: Annotated[int, Header(ge=0, le=2**53)] = 0,
) -> StreamingResponse:
    """Follow a run by server-sent events, from the one after `Last-Event-ID` on. It ends when the
    run is suspended or finished; with `follow=true`, only when it is finished.
    """
    # A browser that comes back asks for the same address, and says how far it has come by now.
    place = max(after, last_event_id)
    with request.app.state.streams.take(caller) as seat:
        return await follow(request, caller, run_id, seat, after=place, forever=follow_on)


@router.get("/runs/{run_id}/questions", responses=documented(404))
async def list_questions_of_run(app: App, caller: Reader, run_id: RunId) -> HoldsOut:
    """List the questions that a run asks right now."""
    view = await caller.window(app).run(run_id)
    asked = [hold for hold in view.holds if hold.kind == "question"]
    return HoldsOut(items=[hold_out(hold) for hold in asked], next=None)


@router.post("/runs/{run_id}/messages", status_code=202, responses=documented(404, 409, 413, 400))
async def say_to_run(
    *,
    request: Request,
    app: App,
    caller: Starter,
    run_id: RunId,
    body: MessageIn,
    idempotency_key: IdempotencyKey = None,
) -> AcceptedOut:
    """Say something to a run; to a finished one, this starts the next of its thread."""
    await caller.window(app).reach(run_id)
    key = key_of(caller, idempotency_key)
    run = await app.say(run_id, body.text, by=caller.by, supersede=body.supersede, key=key)
    return await accepted(request, app, caller, run.id)


@router.post(
    "/runs/{run_id}/commands/{name}",
    response_model=CommandOut,
    responses={202: {"model": AcceptedOut}, **documented(404, 409, 413, 400, 429)},
)
async def command_run(
    *,
    request: Request,
    app: App,
    caller: Starter,
    run_id: RunId,
    name: Annotated[str, Path(max_length=NAME_MAX)],
    body: CommandIn | None = None,
    idempotency_key: IdempotencyKey = None,
) -> Response | CommandOut:
    """Invoke a command on a run; answer once it has an outcome or asks somebody."""
    await caller.window(app).reach(run_id)
    given = body or CommandIn()
    try:
        found = await app.command(
            run_id,
            name,
            given.args,
            by=caller.by,
            strand=given.strand,
            key=key_of(caller, idempotency_key),
            timeout=WAIT_S,
        )
    except WaitTimeout:
        return _202(await accepted(request, app, caller, run_id))
    return CommandOut(
        call_id=found.call_id,
        status=found.status,  # pyright: ignore[reportArgumentType] - of two.
        outcome=None if found.outcome is None else outcome_out(found.outcome),
        holds=list(found.holds),
    )


def key_of(caller: Caller, key: str | None) -> str | None:
    """Make a caller's idempotency key one that nobody else of the project can come by."""
    if key is None:
        return None
    return "http:" + hashlib.sha256(f"{caller.by}\n{key}".encode()).hexdigest()


def check_agent(app: Sayso, name: str) -> None:
    """Raise `UnknownAgent` for what is no agent of the application's: those of our own, such as the
    one that makes a single call, would let a caller choose a tool and its arguments.
    """
    if name not in app.agents:
        raise UnknownAgent(f"there is no agent {name!r}")


async def answer(
    request: Request, app: Sayso, caller: Caller, run_id: str, *, mode: Mode, seat: Seat | None
) -> Response | RunOut | SuspendedOut | RejectedOut:
    """Answer for a run as was asked for. Whoever may not see it is told where it is."""
    # What was done is done: whoever may not see what becomes of it is told where it is.
    with suppress(WaitTimeout, NotAllowed):
        if mode != "async":
            caller.need("read")
            await caller.window(app).check_run(run_id)
        if seat is not None:
            return await follow(request, caller, run_id, seat, after=0, forever=False)
        if mode == "wait":
            await app.run(run_id).wait(timeout=WAIT_S)
            return await answer_of(app, caller, run_id, base_of(request))
    return _202(await accepted(request, app, caller, run_id))


async def answer_of(
    app: Sayso, caller: Caller, run_id: str, base: str
) -> RunOut | SuspendedOut | RejectedOut:
    """Show what became of a run so far."""
    window = caller.window(app)
    view = await window.run(run_id)
    if view.status == "suspended" and view.holds:
        names = dict.fromkeys(hold.request_id for hold in view.holds)
        first, *rest = [request_out(await window.request(name), base) for name in names]
        return SuspendedOut(**dict(first), run_id=run_id, more=rest)
    if view.status == "cancelled":
        ended = [hold for hold in await window.settled(run_id) if is_ended_by(hold)]
        if ended and ended[-1].decision is not None:
            said = decision_out(ended[-1].decision)
            return RejectedOut(
                run_id=run_id,
                message=f"{ended[-1].title} was rejected: {said.reason or 'no reason was given'}",
                hold_id=ended[-1].id,
                decision=said,
            )
    return run_out(view)


async def accepted(request: Request, app: Sayso, caller: Caller, run_id: str) -> AcceptedOut:
    """Say where a run is that goes on by itself."""
    _, status = await caller.window(app).stands(run_id)
    url = f"{base_of(request)}/v1/runs/{run_id}"
    return AcceptedOut(run_id=run_id, status=status, url=url)  # pyright: ignore[reportArgumentType]


def _202(body: AcceptedOut) -> JSONResponse:
    return JSONResponse(body.model_dump(mode="json"), 202)
