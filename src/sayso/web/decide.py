"""Deciding on a page: one function behind every button, in one way or many at once.

Rule 1: looking decides nothing. A decision is a form that only our own pages can send, and who
decides is whoever's session it is.
Rule 2: a yes to what is critical is said twice, and never with others at once.
Rule 3: what somebody typed is never lost: what does not fit comes back with it, and what came too
late offers it for copying.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import JSONResponse
from msgspec.structs import replace
from starlette.datastructures import FormData

from sayso.app import Sayso
from sayso.errors import (
    AlreadyDecided,
    BadAnswer,
    BadValue,
    CannotUndo,
    HoldExpired,
    KeyReused,
    NotWhatWasShown,
    Refused,
    RunFinished,
    SaysoError,
    WorkerMayLive,
    WrongVerdict,
)
from sayso.server.caller import App, Caller
from sayso.server.problem import describe, status_of
from sayso.server.runs import key_of
from sayso.server.wire import NAME_MAX
from sayso.store.views import HoldView
from sayso.web.detail import Typed, look, needs_two_steps
from sayso.web.inbox import show_detail
from sayso.web.page import PageRoute, part_of, redirect, render
from sayso.web.session import Form, SignedIn, Visitor
from sayso.web.verdict import YES, Saying, Unfit, read_saying, unfit_answer
from sayso.web.words import LATER, clock, outcome_words, too_late

router = APIRouter(route_class=PageRoute, include_in_schema=False)

CHANNEL = "web"
UNDO_S = 5
UNDO_CRITICAL_S = 10
PICKS_MAX = 100
HoldId = Annotated[str, Path(max_length=NAME_MAX)]
_LATE = (AlreadyDecided, HoldExpired, KeyReused, NotWhatWasShown, RunFinished)
_AGAIN = (BadAnswer, BadValue, WrongVerdict, WorkerMayLive)


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one of several decisions."""

    id: str
    title: str
    said: str = ""
    problem: str = ""
    undo_s: float = 0


class _NotTwice(Exception):
    """It is to be said once more."""


@router.post("/r/{hold_id}/decision")
async def decide(
    *, request: Request, app: App, visitor: SignedIn, form: Form, hold_id: HoldId
) -> Response:
    """Decide a request, and go back to it; or show what is in the way, with what was typed."""
    caller = visitor.caller
    caller.need("decide")
    typed = _typed(form)
    hold = await caller.window(app).hold(hold_id)
    try:
        saying = read_saying(hold, caller.window(app).schema(hold), typed)
        decided = await settle(app, caller, hold, saying)
    except _NotTwice:
        return await _back(request, app, visitor, hold_id, replace(typed, confirm=True), status=200)
    except Unfit as error:
        typed = replace(typed, problem=str(error), problems=error.problems)
        return await _back(request, app, visitor, hold_id, typed, status=422)
    except _LATE as error:
        typed = replace(typed, problem=too_late(error, caller.by), lost=True)
        return await _back(request, app, visitor, hold_id, typed, status=status_of(error))
    except _AGAIN as error:
        typed = replace(typed, problem=describe(error).detail)
        return await _back(request, app, visitor, hold_id, typed, status=status_of(error))
    return _done(request, app, decided, hold)


async def settle(app: Sayso, caller: Caller, hold: HoldView, saying: Saying) -> HoldView:
    """Decide. The one way from a page to a decision; `_NotTwice` if a yes is to be said again."""
    others: list[HoldView] = []
    if hold.together:
        request = await caller.window(app).request(hold.request_id)
        others = [one for one in request.holds if one.together]
    yes = saying.say in YES
    if yes and needs_two_steps(hold, *others) and not saying.confirmed:
        raise _NotTwice
    key = key_of(caller, f"web/{hold.id}/{saying.key}") if saying.key else None
    if hold.together:
        held = await app.resume(
            hold.request_id,
            saying.verdict,
            by=caller.by,
            digest=saying.seen,
            key=key,
            note=saying.note,
            channel=CHANNEL,
        )
        return next(one for one in held if one.id == hold.id)
    undo = UNDO_CRITICAL_S if hold.risk == "critical" else UNDO_S
    try:
        return await app.decide(
            hold.id,
            saying.verdict,
            by=caller.by,
            digest=saying.seen,
            key=key,
            # What is allowed always counts at once.
            undo=None if saying.always is not None else undo,
            note=saying.note,
            channel=CHANNEL,
            always=saying.always,
            even_if_alive=saying.even_if_alive,
        )
    except BadAnswer as error:
        raise unfit_answer(hold, error) from None


@router.post("/decisions")
async def decide_several(*, request: Request, app: App, visitor: SignedIn, form: Form) -> Response:
    """Decide several requests, each for itself: one that cannot be decided leaves the others be."""
    caller = visitor.caller
    caller.need("decide")
    typed, found = _typed(form), list[Outcome]()
    picks = [pick.partition(" ") for pick in typed.several.get("pick", ())]
    if len(picks) > PICKS_MAX:
        raise BadValue(f"at most {PICKS_MAX} requests are decided at once")
    for hold_id, _, seen in picks:
        values = {"say": typed.get("say"), "reason": typed.get("reason"), "seen": seen}
        found.append(await _one_of_several(app, caller, hold_id, Typed(values=values)))
    if part_of(request):
        return JSONResponse(msgspec.to_builtins(found), headers={"cache-control": "no-store"})
    return render(request, "outcome.html", visitor=visitor, outcomes=found, say=typed.get("say"))


async def _one_of_several(app: Sayso, caller: Caller, hold_id: str, typed: Typed) -> Outcome:
    title = hold_id
    try:
        hold = await caller.window(app).hold(hold_id)
        title = hold.title
        if hold.kind != "approval":
            raise WrongVerdict("this asks for more than a yes or a no: open it")
        if hold.together:
            raise WrongVerdict("this is decided with others, or not at all: open it")
        if typed.get("say") not in ("approve", "reject"):
            raise WrongVerdict("several are approved or rejected at once, and no more than that")
        if hold.duplicate_of and typed.get("say") in YES:
            raise WrongVerdict("this repeats a call that may have happened: open it")
        saying = read_saying(hold, None, typed)
        decided = await settle(app, caller, hold, saying)
    except _NotTwice:
        problem = "this is critical: it is approved on its own page"
        return Outcome(id=hold_id, title=title, problem=problem)
    except _LATE as error:
        return Outcome(id=hold_id, title=title, problem=too_late(error, caller.by))
    except SaysoError as error:
        return Outcome(id=hold_id, title=title, problem=describe(error).detail)
    return Outcome(
        id=hold_id,
        title=title,
        said=outcome_words(decided, hold),
        undo_s=_undo_left(app, decided),
    )


@router.post("/r/{hold_id}/undo")
async def undo(
    *, request: Request, app: App, visitor: SignedIn, _form: Form, hold_id: HoldId
) -> Response:
    """Take back one's own decision while that is possible, or one's own vote."""
    visitor.caller.need("decide")
    await visitor.caller.window(app).hold(hold_id)
    try:
        hold = await app.undo(hold_id, by=visitor.caller.by)
    except CannotUndo as error:
        if part_of(request):
            return JSONResponse({"problem": "Too late: it counts already."}, status_of(error))
        raise
    return _done(request, app, hold, hold, said="Taken back.")


@router.post("/r/{hold_id}/hand-over")
async def hand_over(
    *, request: Request, app: App, visitor: SignedIn, form: Form, hold_id: HoldId
) -> Response:
    """Let somebody else decide in one's place."""
    caller = visitor.caller
    caller.need("decide")
    typed = _typed(form)
    hold = await caller.window(app).hold(hold_id)
    to = typed.get("to").strip()
    try:
        if not to:
            raise BadValue("say who is to decide: the name that they sign in with")
        await app.reassign(hold_id, to=to, by=caller.by, note=typed.get("note"))
    except Refused as error:
        return await _refused(request, app, visitor, hold_id, typed, error=error)
    return _away(request, hold, f"Handed over to {to}.", "handed-over")


@router.post("/r/{hold_id}/remind")
async def remind(
    *, request: Request, app: App, visitor: SignedIn, form: Form, hold_id: HoldId
) -> Response:
    """Be told again later. The time to decide keeps running."""
    caller = visitor.caller
    caller.need("decide")
    typed = _typed(form)
    hold = await caller.window(app).hold(hold_id)
    try:
        if typed.get("when") not in LATER:
            raise BadValue("choose when you are to be reminded")
        at = await app.remind(hold_id, typed.get("when"), by=caller.by)
    except Refused as error:
        return await _refused(request, app, visitor, hold_id, typed, error=error)
    return _away(request, hold, f"You are reminded at {clock(at)}.", "reminded", is_open=True)


@router.post("/r/{hold_id}/stop")
async def stop(
    *, request: Request, app: App, visitor: SignedIn, form: Form, hold_id: HoldId
) -> Response:
    """Stop the run that asks: all that it asks is withdrawn."""
    caller = visitor.caller
    caller.need("start")
    hold = await caller.window(app).hold(hold_id)
    await app.cancel(hold.run_id, by=caller.by, reason=_typed(form).get("reason"))
    return _away(request, hold, "The run is stopped.", "stopped")


def _typed(form: FormData) -> Typed:
    several: dict[str, tuple[str, ...]] = {}
    for sent, value in form.multi_items():
        # Browsers make two characters of the end of a line, in names as in values.
        name = sent.replace("\r\n", "\n")
        several[name] = (*several.get(name, ()), str(value))
    values = {name: found[-1] for name, found in several.items() if name != "csrf"}
    return Typed(values=values, several=several)


async def _refused(
    request: Request, app: Sayso, visitor: Visitor, hold_id: str, typed: Typed, *, error: Refused
) -> Response:
    """Show the request again, with why nothing was done, and with what was typed."""
    late = isinstance(error, _LATE)
    said = too_late(error, visitor.caller.by) if late else describe(error).detail
    typed = replace(typed, problem=said, lost=late)
    return await _back(request, app, visitor, hold_id, typed, status=status_of(error))


async def _back(
    request: Request, app: Sayso, visitor: Visitor, hold_id: str, typed: Typed, *, status: int
) -> Response:
    """Show the request again, with what was typed."""
    editing = bool(typed.get("edit"))
    detail = await look(app, visitor.caller, hold_id, editing=editing, typed=typed)
    return await show_detail(request, app, visitor, detail, status)


def _done(
    request: Request, app: Sayso, hold: HoldView, before: HoldView, said: str = ""
) -> Response:
    """Go to the request as it is now; tell a script."""
    if part_of(request):
        told = {
            "id": hold.id,
            "said": said or outcome_words(hold, before),
            "undo_s": _undo_left(app, hold),
            "open": hold.status == "open",
        }
        return JSONResponse(told, headers={"cache-control": "no-store"})
    return redirect(request, f"/r/{hold.id}?{request.url.query}".rstrip("?"))


def _away(
    request: Request, hold: HoldView, said: str, word: str, *, is_open: bool = False
) -> Response:
    """Go back to the list: they may not see the request any more."""
    if part_of(request):
        told = {"id": hold.id, "said": said, "undo_s": 0, "open": is_open}
        return JSONResponse(told, headers={"cache-control": "no-store"})
    return redirect(request, f"/?said={word}")


def _undo_left(app: Sayso, hold: HoldView) -> float:
    if hold.status != "decided" or hold.decision is None:
        return 0
    return max(0, (hold.decision.effective_at - app.store.now()) / 1000)
