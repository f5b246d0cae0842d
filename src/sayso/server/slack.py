"""What people click on cards in Slack: `POST /v1/slack/actions`.

Rule 1: nothing is read before Slack's signature over the very bytes is found to be good.
Rule 2: a click is acknowledged, and then worked on: Slack waits for three seconds. It decides by
`app.decide` like everybody else, under a key, so that one that comes again decides nothing.
Rule 3: whatever is wrong is said to who clicked, and to nobody else; the request keeps waiting.
"""

from __future__ import annotations

import hashlib
import logging
from typing import Annotated, Any, cast
from urllib.parse import parse_qs

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.background import BackgroundTask

from sayso.app import Sayso
from sayso.domain.hold import Verdict, approve, reject
from sayso.domain.value import Principal
from sayso.errors import (
    AlreadyDecided,
    BadSetup,
    NotAllowed,
    NotWhatWasShown,
    Refused,
    SaysoError,
    Unauthenticated,
)
from sayso.notify.slack import Post, Slack
from sayso.notify.slack_card import actions_of, picks, reject_view
from sayso.server.json import StrictRequest
from sayso.server.problem import PRIVATE, Refusal
from sayso.store.views import HoldView, moment

log = logging.getLogger("sayso")

BODY_MAX = 500_000
"""A card comes back with each click, and is much smaller than this."""
CHANNEL = "slack"
Short = Annotated[str, msgspec.Meta(max_length=200)]


class _Named(msgspec.Struct, frozen=True):
    id: Short


class _User(msgspec.Struct, frozen=True):
    id: Short
    team_id: Short | None = None


class _Button(msgspec.Struct, frozen=True):
    action_id: Short
    action_ts: Short = ""
    value: Annotated[str, msgspec.Meta(max_length=2000)] = ""


class _Message(msgspec.Struct, frozen=True):
    ts: Short


class _View(msgspec.Struct, frozen=True):
    id: Short
    callback_id: Short = ""
    private_metadata: Annotated[str, msgspec.Meta(max_length=3000)] = ""
    state: Any = None


class _Payload(msgspec.Struct, frozen=True):
    """What Slack sends, as far as it is needed."""

    type: Short
    user: _User | None = None
    team: _Named | None = None
    channel: _Named | None = None
    message: _Message | None = None
    trigger_id: Short = ""
    actions: tuple[_Button, ...] = ()
    view: _View | None = None


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a button or a modal was made with."""

    hold: Short
    seen: Short
    pick: int | None = None
    channel: Short = ""


class Click(msgspec.Struct, frozen=True, kw_only=True):
    """Something that somebody wants to be done about a hold."""

    user: str
    team: str
    channel: str
    """Where to tell them what is wrong."""
    action: str
    """`approve`, `reject`, `pick:0`, or `reasoned`: a reject with its reason."""
    value: _Value
    key: str
    ts: str = ""
    trigger: str = ""
    reason: str = ""


def slack_of(sayso: Sayso) -> Slack:
    """Find the channel to Slack whose clicks are to be heard. `BadSetup` unless there is one: of
    several, nobody could say whose a click is.
    """
    channels = cast("tuple[object, ...]", getattr(sayso.notify, "channels", ()))
    found = [one for one in channels if isinstance(one, Slack) and one.hears]
    if len(found) != 1:
        raise BadSetup("one channel to Slack has a signing secret; channels= says what goes where")
    return found[0]


def slack_router(sayso: Sayso, slack: Slack) -> APIRouter:
    """Make the route that Slack posts to."""
    # Not a strict route: that asks for a credential first, and here the signature is one.
    router = APIRouter(prefix="/v1")

    @router.post("/slack/actions", include_in_schema=False)
    async def act(request: Request) -> Response:
        """Acknowledge a click, then do what it says."""
        body = await _Request(request.scope, request.receive).body()
        headers = request.headers
        stamp = headers.get("x-slack-request-timestamp", "")
        if not slack.is_ours(body, stamp, headers.get("x-slack-signature", "")):
            raise Unauthenticated("this is not signed by Slack, or is too old")
        click = read_click(body, slack.team)
        work = None if click is None else BackgroundTask(_work, sayso, slack, click)
        return Response(background=work, headers=PRIVATE)

    return router


def read_click(body: bytes, team: str) -> Click | None:
    """Read what was clicked; None if it is nothing that a card has a button for. `Refusal` if it is
    not what Slack sends, `Unauthenticated` if it is of another workspace.
    """
    try:
        form = parse_qs(body.decode(), strict_parsing=True, max_num_fields=10)
        (text,) = form["payload"]
        found = msgspec.json.decode(text, type=_Payload)
    except (ValueError, KeyError, RecursionError):
        raise Refusal(400, "NotSlack", "Not what Slack sends", "there is no payload") from None
    user = found.user
    if user is None or found.team is None or found.team.id != team:
        raise Unauthenticated("this is of another workspace, or of none")
    if user.team_id is not None and user.team_id != team:
        raise Unauthenticated("whoever clicked is of another workspace")
    if found.type == "view_submission" and found.view is not None:
        return _submitted(user.id, team, found.view)
    if found.type == "block_actions" and found.actions and found.channel is not None:
        return _clicked(user.id, team, found, found.channel.id)
    return None


def _clicked(user: str, team: str, found: _Payload, channel: str) -> Click | None:
    button = found.actions[0]
    prefix, _, action = button.action_id.partition(":")
    if prefix != "sayso" or action == "open":
        return None
    value = _value(button.value)
    return Click(
        user=user,
        team=team,
        channel=channel,
        action=action,
        value=value,
        key=_key("click", user, button.action_ts, button.value, action),
        ts="" if found.message is None else found.message.ts,
        trigger=found.trigger_id,
    )


def _submitted(user: str, team: str, view: _View) -> Click | None:
    if view.callback_id != "sayso:reject":
        return None
    value = _value(view.private_metadata)
    try:
        reason = view.state["values"]["reason"]["reason"]["value"]
    except (KeyError, TypeError):
        reason = ""
    return Click(
        user=user,
        team=team,
        channel=value.channel,
        action="reasoned",
        value=value,
        key=_key("view", user, view.id),
        reason=reason if isinstance(reason, str) else "",
    )


async def _work(sayso: Sayso, slack: Slack, click: Click) -> None:
    try:
        said = await _answer(sayso, slack, click)
    except Refused as error:
        said = _refusal(error)
    except SaysoError as error:
        log.error("a click in Slack came to nothing: %s: %s", type(error).__name__, error)  # noqa: TRY400
        said = "It could not be recorded just now. Try again."
    if said:
        await slack.note(click.channel, click.user, said)


async def _answer(sayso: Sayso, slack: Slack, click: Click) -> str:
    """Do what a click says; give what is wrong with it, if anything is."""
    hold = await sayso.hold(click.value.hold)
    by = await slack.person(click.user, click.team, hold.project)
    if by is None:
        return "Nobody here is linked to your account in Slack. Ask an operator; it keeps waiting."
    # Whoever may not see it is not told what it is by now, either.
    hold = await sayso.window(by=by, project=hold.project).hold(hold.id)
    if click.ts:
        post = Post(place="", channel=click.channel, ts=click.ts, seen=click.value.seen)
        await slack.keep(hold, post)
        await slack.catch_up(hold)
    if click.action == "reject":
        return await _ask_why(slack, click, hold)
    verdict = _verdict(click, hold)
    if verdict is None:
        return "This is decided on its page: open it."
    await _decide(sayso, click, hold, verdict, by)
    return ""


async def _decide(
    sayso: Sayso, click: Click, hold: HoldView, verdict: Verdict, by: Principal
) -> None:
    await sayso.decide(
        hold.id, verdict, by=by, digest=click.value.seen, key=click.key, channel=CHANNEL
    )


async def _ask_why(slack: Slack, click: Click, hold: HoldView) -> str:
    if "reject" not in actions_of(hold):
        return _stands(hold) or "This is decided on its page: open it."
    value = msgspec.structs.replace(click.value, channel=click.channel)
    view = reject_view(hold, metadata=msgspec.json.encode(value).decode())
    await slack.open_view(click.trigger, view)
    return ""


def _verdict(click: Click, hold: HoldView) -> Verdict | None:
    # What is settled by now has no actions, and is for `decide` to refuse, or to know again.
    can = actions_of(msgspec.structs.replace(hold, status="open"))
    match click.action.partition(":")[0]:
        case "approve" if "approve" in can:
            return approve()
        case "reasoned" if "reject" in can:
            return reject(click.reason)
        case "pick" if "pick" in can:
            found = picks(hold)
            n = click.value.pick
            return found[n][1] if n is not None and 0 <= n < len(found) else None
        case _:
            return None


def _refusal(error: Refused) -> str:
    match error:
        case AlreadyDecided(decision=decision):
            at = f"{moment(decision.at):%Y-%m-%d %H:%M} UTC"
            return f"It is decided already: {decision.word} by {decision.by.id}, {at}."
        case NotWhatWasShown():
            return "It has changed since this card was made. Look at the newer one, or open it."
        case NotAllowed():
            return "You are not asked to decide this. It keeps waiting for those who are."
        case _:
            return f"It was not done: {error}"


def _stands(hold: HoldView) -> str:
    if hold.decision is None:
        return ""
    return _refusal(AlreadyDecided("", decision=hold.decision))


def _value(text: str) -> _Value:
    try:
        return msgspec.json.decode(text, type=_Value)
    except (msgspec.MsgspecError, RecursionError):
        raise Refusal(400, "NotOurs", "Not a card of ours", "this button is not of ours") from None


def _key(*parts: str) -> str:
    return "slack:" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


class _Request(StrictRequest):
    body_max = BODY_MAX
