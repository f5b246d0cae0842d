"""Holds over HTTP: list, look, decide, take back, hand over, and resume by request."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from sayso.app import Sayso
from sayso.domain.hold import SIGN_INS
from sayso.domain.hold import answer as answered
from sayso.errors import BadAnswer, NotAllowed, SaysoError, UnknownHold, WrongVerdict
from sayso.server.caller import App, Caller, Decider, Reader, is_still_in
from sayso.server.deciding import (
    DecisionIn,
    DecisionsIn,
    ReassignIn,
    RemindIn,
    RemindOut,
    RespondIn,
    SignInOut,
)
from sayso.server.json import StrictRoute
from sayso.server.live import hold_frames, live_of
from sayso.server.problem import Problem, Refusal, describe, documented
from sayso.server.runs import (
    After,
    IdempotencyKey,
    Limit,
    accepted,
    answer,
    base_of,
    key_of,
)
from sayso.server.seat import seat_of
from sayso.server.sse import alive
from sayso.server.wire import (
    NAME_MAX,
    AcceptedOut,
    Action,
    Answer,
    HoldOut,
    HoldsOut,
    Out,
    RejectedOut,
    RequestOut,
    ResumeIn,
    RunOut,
    SuspendedOut,
    hold_out,
    request_out,
)
from sayso.store.views import HoldView

router = APIRouter(prefix="/v1", route_class=StrictRoute)

HoldId = Annotated[str, Path(max_length=NAME_MAX, examples=["hold_01m7hq607ahdnnwh0m9399fc1x.1"])]
RequestId = Annotated[str, Path(max_length=NAME_MAX, examples=["req_01m7hq607ahdnnwh0m9399fc1x.1"])]
Project = Annotated[str, Path(max_length=NAME_MAX)]
CHANNEL = "http"
NOW = -1
"""The place of whoever has none yet."""


class OneOut(Out):
    """What became of one of several decisions."""

    hold_id: str
    hold: HoldOut | None = None
    """As it is now, if it was decided."""
    problem: Problem | None = None
    """Why not, if it was not."""


class DecisionsOut(Out):
    """What became of several decisions, in their order."""

    items: list[OneOut]


@router.get("/holds", responses=documented())
async def list_holds(
    *,
    app: App,
    caller: Reader,
    status: Literal["open", "settled", "any"] = "open",
    mine: bool = True,
    risk: Annotated[str | None, Query(max_length=20)] = None,
    search: Annotated[str | None, Query(max_length=200)] = None,
    after: After = None,
    limit: Limit = 50,
) -> HoldsOut:
    """List holds, oldest first: those that ask the caller; with `mine=false` all of the project,
    for operators. A page may be short and the list go on: it ends when `next` is null.
    """
    if not mine and not await caller.window(app).is_operator():
        raise NotAllowed("only an operator sees all holds of the project")
    page = await app.holds(
        by=caller.by if mine else None,
        status=status,
        search=search,
        limit=limit,
        after=after,
        project=caller.project,
    )
    found = [hold for hold in page if risk is None or hold.risk == risk]
    return HoldsOut(items=[hold_out(hold) for hold in found], next=page.next)


@router.get(
    "/holds/events",
    response_class=StreamingResponse,
    responses={
        200: {"description": "What happens to holds", "content": {"text/event-stream": {}}},
        **documented(),
    },
)
async def follow_holds(
    *,
    request: Request,
    app: App,
    caller: Reader,
    after: Annotated[int, Query(ge=NOW, le=2**53)] = NOW,
    follow_on: Annotated[bool, Query(alias="follow")] = False,
    last_event_id: Annotated[int, Header(ge=NOW, le=2**53)] = NOW,
) -> StreamingResponse:
    """Tell by server-sent events which holds that the caller may see something has happened to:
    since `Last-Event-ID`, or since `after`; without either, from now on. `ready` comes first, then
    `hold` with an id and a status, or `list` if it is too much to be told one by one. It ends when
    all is told; with `follow=true` it goes on.
    """
    place = max(after, last_event_id)
    frames = hold_frames(
        live_of(request, app),
        app.store,
        caller.window(app),
        after=place if place > NOW else None,
        forever=follow_on,
    )
    with request.app.state.streams.take(caller) as seat:
        still = partial(is_still_in, request, caller)
        return seat.answer(alive(frames, request.app.state.closing, recheck=still))


@router.get("/holds/{hold_id}", responses=documented(404))
async def look_at_hold(app: App, caller: Reader, hold_id: HoldId) -> HoldOut:
    """Look at a hold: exactly what would be executed, and what a decision must carry."""
    return hold_out(await caller.window(app).hold(hold_id))


@router.post("/holds/{hold_id}/decision", responses=documented(404, 409, 410, 413, 400))
async def decide_hold(
    *,
    app: App,
    caller: Decider,
    hold_id: HoldId,
    body: DecisionIn,
    idempotency_key: IdempotencyKey = None,
) -> HoldOut:
    """Decide a hold. Durable when this answers; the first decision stands."""
    return hold_out(await _decide(app, caller, hold_id, body, key_of(caller, idempotency_key)))


@router.post("/decisions", responses=documented(413, 400))
async def decide_several(
    *, app: App, caller: Decider, body: DecisionsIn, idempotency_key: IdempotencyKey = None
) -> DecisionsOut:
    """Decide several holds, each for itself: one that cannot be decided leaves the others be."""
    found: list[OneOut] = []
    for n, one in enumerate(body.decisions):
        key = None if idempotency_key is None else key_of(caller, f"{idempotency_key}/{n}")
        try:
            hold = await _decide(app, caller, one.hold_id, one, key)
            found.append(OneOut(hold_id=one.hold_id, hold=hold_out(hold)))
        except SaysoError as error:
            found.append(OneOut(hold_id=one.hold_id, problem=describe(error)))
    return DecisionsOut(items=found)


@router.post("/holds/{hold_id}/undo", responses=documented(404, 409))
async def undo_decision(app: App, caller: Decider, hold_id: HoldId) -> HoldOut:
    """Take back one's own decision before it is effective, or one's own vote."""
    await caller.window(app).reach(hold_id)
    return hold_out(await app.undo(hold_id, by=caller.by))


@router.post("/holds/{hold_id}/reassign", responses=documented(404, 409, 410, 413, 400))
async def reassign_hold(app: App, caller: Decider, hold_id: HoldId, body: ReassignIn) -> HoldOut:
    """Hand over what one is asked to somebody else."""
    await caller.window(app).reach(hold_id)
    return hold_out(await app.reassign(hold_id, to=body.to, by=caller.by, note=body.note))


@router.post("/holds/{hold_id}/sign-in", responses=documented(404, 409, 410))
async def sign_in_for_hold(app: App, caller: Decider, hold_id: HoldId) -> SignInOut:
    """Say where the caller signs in or consents, for a hold that asks them to. It decides nothing;
    the address is theirs alone, and good for 15 minutes.
    """
    hold = await caller.window(app).hold(hold_id)
    if hold.kind not in SIGN_INS:
        raise WrongVerdict(f"{hold_id!r} asks for no sign-in: it is a {hold.kind}")
    return SignInOut(url=await app.sign_in_url(hold_id, by=caller.by))


@router.post("/holds/{hold_id}/remind", responses=documented(404, 409, 410, 413, 400))
async def remind_of_hold(app: App, caller: Decider, hold_id: HoldId, body: RemindIn) -> RemindOut:
    """Have the caller told again of what they are asked, at a time or in a while. The deadline
    keeps running.
    """
    await caller.window(app).reach(hold_id)
    return RemindOut(hold_id=hold_id, at=await app.remind(hold_id, body.when(), by=caller.by))


@router.get("/resume/{request_id}", responses=documented(404))
async def look_at_request(
    *, request: Request, app: App, caller: Reader, request_id: RequestId
) -> RequestOut:
    """Look at all that one request asks. Looking decides nothing."""
    return request_out(await caller.window(app).request(request_id), base_of(request))


@router.post(
    "/resume/{request_id}",
    response_model=Answer,
    responses={202: {"model": AcceptedOut}, **documented(404, 409, 410, 413, 400)},
)
async def resume(
    *,
    request: Request,
    app: App,
    caller: Decider,
    request_id: RequestId,
    body: ResumeIn | None = None,
    action: Action | None = None,
    seen: Annotated[str | None, Query(min_length=1, max_length=NAME_MAX)] = None,
    idempotency_key: IdempotencyKey = None,
) -> Response | RunOut | SuspendedOut | RejectedOut:
    """Say one thing to all that a request still asks, all or nothing; then go on with the run. What
    the query says stands in for a body.
    """
    if body is None and action is None:
        raise Refusal(422, "NothingSaid", "Nothing is said", "say an action: approve, reject, …")
    if body is not None and (action or seen):
        raise Refusal(422, "SaidTwice", "Said twice", "say it in the body or in the query")
    given = body or ResumeIn(action=action or "reject", seen=seen)
    if given.seen is None:
        raise Refusal(422, "NotSeen", "Not seen", "`seen` is the digest of what was shown")
    with seat_of(request, caller, wanted=given.mode == "stream") as seat:
        await caller.window(app).request(request_id)
        holds = await app.resume(
            request_id,
            given.verdict(),
            by=caller.by,
            digest=given.seen,
            key=key_of(caller, idempotency_key),
            note=given.note,
            channel=CHANNEL,
        )
        return await answer(request, app, caller, holds[0].run_id, mode=given.mode, seat=seat)


@router.get("/projects/{project}/questions", responses=documented(404))
async def list_questions(
    *, app: App, caller: Reader, project: Project, after: After = None, limit: Limit = 50
) -> HoldsOut:
    """List the questions that ask the caller, oldest first."""
    _check_project(caller, project)
    page = await app.holds(by=caller.by, project=project, after=after, limit=limit)
    asked = [hold for hold in page if hold.kind == "question"]
    return HoldsOut(items=[hold_out(hold) for hold in asked], next=page.next)


@router.post(
    "/projects/{project}/questions/{hold_id}/respond",
    status_code=202,
    responses=documented(404, 409, 410, 413, 400),
)
async def respond(
    *,
    request: Request,
    app: App,
    caller: Decider,
    project: Project,
    hold_id: HoldId,
    body: RespondIn,
    idempotency_key: IdempotencyKey = None,
) -> AcceptedOut:
    """Answer a question; the run goes on by itself."""
    _check_project(caller, project)
    window = caller.window(app)
    hold = await window.hold(hold_id)
    if hold.kind != "question":
        raise UnknownHold(f"there is no question {hold_id!r}")
    try:
        await app.decide(
            hold.id,
            answered(body.response),
            by=caller.by,
            digest=body.seen,
            key=key_of(caller, idempotency_key),
            channel=CHANNEL,
        )
    except BadAnswer as error:
        raise Refusal(400, "BadAnswer", "The answer does not fit", str(error)) from None
    return await accepted(request, app, caller, hold.run_id)


async def _decide(
    app: Sayso, caller: Caller, hold_id: str, body: DecisionIn, key: str | None
) -> HoldView:
    # Whoever may not see it is not told what it is by now, either.
    await caller.window(app).hold(hold_id)
    return await app.decide(
        hold_id,
        body.verdict(),
        by=caller.by,
        digest=body.seen,
        key=key,
        undo=body.undo,
        note=body.note,
        channel=CHANNEL,
        always=None if body.always is None else body.always.always(),
        even_if_alive=body.even_if_alive,
    )


def _check_project(caller: Caller, project: str) -> None:
    if project != caller.project:
        raise Refusal(404, "Unknown", "No such thing.", f"there is no project {project!r}")
