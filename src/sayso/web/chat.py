"""A page where a person talks to an agent; what the agent asks appears in the conversation.

A conversation is a thread of runs: while a run goes on it is spoken to, and to a finished one the
next word starts its successor.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator
from typing import Annotated, Any, cast

import msgspec
from fastapi import APIRouter, Path, Query, Request, Response

from sayso.domain.call import Declined, Failed, Returned, Unknown
from sayso.domain.digest import decode_value
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.recorded import Recorded
from sayso.domain.rendering import Rendering
from sayso.domain.rendering import render as draw
from sayso.domain.secret import mask_args
from sayso.engine.window import Brief, Window
from sayso.errors import BadValue, SaysoError
from sayso.server.caller import App
from sayso.server.problem import describe
from sayso.server.runs import check_agent, key_of
from sayso.server.seat import Seats
from sayso.server.sse import alive, event
from sayso.server.wire import NAME_MAX
from sayso.store.views import moment
from sayso.web.page import PageRoute, aside, part_of, redirect, render
from sayso.web.session import Form, SignedIn, is_still_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)

RECENT = 30
RunId = Annotated[str, Path(max_length=NAME_MAX)]


class Called(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a model asked for, as it is shown."""

    tool: str
    shown: Rendering


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """A message, as it is shown."""

    who: str
    """`user`, `agent` or `tool`."""
    name: str
    text: str
    calls: tuple[Called, ...] = ()


@router.get("/chat")
async def choose_agent(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    agent: Annotated[str, Query(max_length=NAME_MAX)] = "",
) -> Response:
    """Show whom the visitor can talk to, and what they talked about last."""
    visitor.caller.need("read")
    found, _ = await visitor.caller.window(app).runs(limit=RECENT)
    mine = [one for one in found if one.by == visitor.caller.by and one.agent in app.agents]
    return render(
        request,
        "chat.html",
        visitor=visitor,
        view="chat",
        agents=sorted(app.agents),
        agent=agent,
        talks=_talks(mine),
        key=secrets.token_urlsafe(16),
        moment=moment,
    )


@router.post("/chat")
async def begin(*, request: Request, app: App, visitor: SignedIn, form: Form) -> Response:
    """Begin a conversation. A form that is sent twice begins one."""
    caller = visitor.caller
    caller.need("start")
    agent, text = str(form.get("agent", "")), str(form.get("text", "")).strip()
    check_agent(app, agent)
    if not text:
        raise BadValue("say something first")
    key = key_of(caller, f"chat/{str(form.get('key', ''))[:100]}")
    run = await app.start(agent, text, by=caller.by, project=caller.project, key=key)
    return redirect(request, f"/chat/{run.id}")


@router.get("/chat/{run_id}")
async def show_talk(*, request: Request, app: App, visitor: SignedIn, run_id: RunId) -> Response:
    """Show a conversation, with what it asks."""
    visitor.caller.need("read")
    window = visitor.caller.window(app)
    run = await window.run(run_id)
    holds = [(one, (await window.around(one)).asks) for one in run.holds]

    def page() -> Response:
        return render(
            request,
            "part/talk.html" if part_of(request) == "talk" else "talk.html",
            visitor=visitor,
            view="chat",
            run=run,
            turns=[_turn(one, run.agent) for one in run.messages],
            holds=[(one, one.show(window.schema(one)), mine) for one, mine in holds],
            key=secrets.token_urlsafe(16),
            now=app.store.now() / 1000,
        )

    return await aside(sum(_size(one) for one in run.messages), page)


@router.post("/chat/{run_id}")
async def say(
    *, request: Request, app: App, visitor: SignedIn, form: Form, run_id: RunId
) -> Response:
    """Say something more."""
    visitor.caller.need("start")
    await visitor.caller.window(app).reach(run_id)
    text = str(form.get("text", "")).strip()
    if not text:
        raise BadValue("say something first")
    supersede = form.get("supersede") == "yes"
    key = key_of(visitor.caller, f"chat/{str(form.get('key', ''))[:100]}")
    run = await app.say(run_id, text, by=visitor.caller.by, supersede=supersede, key=key)
    return redirect(request, f"/chat/{run.id}")


@router.get("/chat/{run_id}/events")
async def follow(
    *,
    request: Request,
    app: App,
    visitor: SignedIn,
    run_id: RunId,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Tell a page that there is more to show, and what the model says meanwhile."""
    visitor.caller.need("read")
    window = visitor.caller.window(app)
    await window.check_run(run_id)

    async def is_good() -> bool:
        try:
            await window.check_run(run_id)
        except SaysoError:
            return False  # It is no longer theirs to look into.
        return await is_still_in(request, visitor)

    last = request.headers.get("last-event-id", "")
    place = int(last) if last.isascii() and last.isdigit() and len(last) < 17 else after  # noqa: PLR2004
    frames = _frames(window, run_id, place)
    with cast("Seats", request.app.state.streams).take(visitor.caller) as seat:
        return seat.answer(alive(frames, request.app.state.closing, recheck=is_good))


async def _frames(window: Window, run_id: str, after: int) -> AsyncIterator[bytes]:
    try:
        async for found in await window.follow(run_id, after=after, deltas=True):
            if isinstance(found, Recorded):
                yield event(json.dumps(found.type), id=found.seq, name="changed")
            elif found.strand == "main":
                yield event(json.dumps({"text": found.text, "at": found.at}), name="delta")
        yield event('"over"', name="over")
    except SaysoError as error:
        yield event(json.dumps(describe(error).detail), name="over")


def _talks(found: list[Brief]) -> list[Brief]:
    """Give the newest run of each conversation."""
    seen: dict[str, Brief] = {}
    for one in found:
        seen.setdefault(one.thread or one.id, one)
    return list(seen.values())


def _size(message: Message) -> int:
    match message:
        case AssistantMessage():
            return len(message.text) + sum(len(bytes(call.args)) for call in message.calls)
        case ToolMessage(outcome=Returned(value=value)):
            return len(bytes(value))
        case ToolMessage():
            return 0
        case UserMessage():
            return len(message.text)


def _turn(message: Message, agent: str) -> Turn:
    match message:
        case UserMessage():
            return Turn(who="user", name=message.by or "You", text=message.text)
        case AssistantMessage():
            calls = [
                Called(tool=call.tool, shown=draw(mask_args(bytes(call.args))))
                for call in message.calls
            ]
            return Turn(who="agent", name=agent, text=message.text, calls=tuple(calls))
        case ToolMessage():
            return Turn(who="tool", name=message.tool, text=_outcome(message))


def _outcome(message: ToolMessage) -> str:
    match message.outcome:
        case Returned(value=value):
            found: Any = decode_value(bytes(value))
            said = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
        case Failed(message=why):
            said = f"Failed: {why}"
        case Declined(reason=why):
            said = f"Not done: {why}" if why else "Not done: somebody said no."
        case Unknown(reason=why):
            said = f"Nobody knows whether it was done: {why}"
    return said
