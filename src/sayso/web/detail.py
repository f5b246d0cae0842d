"""All that the page of one request shows, gathered in one place. Looking decides nothing."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec

from sayso.app import Sayso
from sayso.domain.call import Declined, Failed, Returned
from sayso.domain.digest import decode_value
from sayso.domain.hint import resolve
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.domain.question import Question
from sayso.domain.rendering import Rendering
from sayso.engine.window import Around
from sayso.server.caller import Caller
from sayso.store.doubt import DoubtView
from sayso.store.views import HoldView
from sayso.web.form import Field, fill_in, make_fields
from sayso.web.page import aside

SAID_MAX = 6
"""How much of the conversation is shown."""
SAID_CHARS_MAX = 2000
ARGS, ANSWER = "args", "answer"
"""What the names of controls begin with."""
_TALK_KINDS = frozenset({"approval", "question", "in_doubt", "external", "sign_in", "consent"})


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said in the conversation."""

    who: str
    role: str
    text: str


class Typed(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody has typed, when it comes back to them."""

    values: Mapping[str, str] = {}
    several: Mapping[str, tuple[str, ...]] = {}
    problems: Mapping[str, str] = {}
    """By the name of the control."""
    problem: str = ""
    """What is wrong with all of it, or has come in between."""
    confirm: bool = False
    """It is to be said once more."""
    lost: bool = False
    """It cannot be sent any more: it is offered for copying."""

    def get(self, name: str, default: str = "") -> str:
        """Give what was typed into a control."""
        return self.values.get(name, default)


NOTHING = Typed()


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as its page shows it."""

    hold: HoldView
    around: Around
    shown: Rendering
    seen: str
    """What a decision carries: the digest of what is shown."""
    key: str
    """Names the one decision that this page makes, so that sending it twice makes no second."""
    can_decide: bool
    can_edit: bool = False
    can_stop: bool = False
    can_undo_s: float | None = None
    """For how long what they have said can be taken back: 0 for as long as it is a vote."""
    editing: bool = False
    fields: tuple[Field, ...] = ()
    """The controls of edited arguments, or of a question that is a form."""
    together: tuple[tuple[HoldView, Rendering], ...] = ()
    """What else is decided with it, or not at all."""
    doubt: DoubtView | None = None
    first: Rendering | None = None
    """What was asked at first, if it was edited since."""
    talk: tuple[Said, ...] | None = None
    """The last of the conversation; None for whoever does not see the run."""
    typed: Typed = NOTHING

    @property
    def two_steps(self) -> bool:
        """Tell whether a yes is said twice."""
        return needs_two_steps(self.hold, *[one for one, _ in self.together])

    @property
    def kept(self) -> tuple[str, ...]:
        """Give what they have typed and cannot send any more."""
        quiet = self.hold.question is not None and self.hold.question.sensitive
        if not self.typed.lost or quiet:
            return ()
        was = {one.name: one.was for one in _leaves(self.fields)}
        return tuple(
            text
            for name, text in self.typed.values.items()
            if text.strip()
            and (name in ("reason", "note", ANSWER) or name.startswith((f"{ARGS}/", f"{ANSWER}/")))
            and text.replace("\r\n", "\n") != was.get(name)
        )


def needs_two_steps(*holds: HoldView) -> bool:
    """Tell whether a yes to these is said twice: it is critical, or runs something again."""
    return any(one.risk == "critical" or one.kind == "in_doubt" for one in holds)


async def look(
    app: Sayso, caller: Caller, hold_id: str, *, editing: bool = False, typed: Typed = NOTHING
) -> Detail:
    """Gather what the page of a request shows, or refuse it to whoever may not see it."""
    window = caller.window(app)
    hold = await window.hold(hold_id)
    around = await window.around(hold)
    schema = window.schema(hold)
    seen, others = hold.digest, tuple[HoldView, ...]()
    if hold.together:
        request = await window.request(hold.request_id)
        seen = request.digest
        others = tuple(one for one in request.holds if one.together and one.id != hold.id)
    # Whoever has voted can take that back first.
    has_voted = any(vote.by == caller.by for vote in hold.votes)
    is_open = hold.status == "open" and hold.kind != "delegation"
    can_decide = around.asks and is_open and not has_voted
    shown = await aside(len(hold.args_json), partial(hold.show, schema))
    can_edit = (
        can_decide
        and hold.kind == "approval"
        and hold.editable
        and not hold.together
        and schema is not None
        and shown.inspectable
    )
    editing = editing and can_edit
    fields: tuple[Field, ...] = ()
    if editing or (typed.lost and hold.kind == "approval"):
        fields = make_fields(schema, hold.args, ARGS)
    elif hold.question is not None and hold.question.kind == "form":
        fields = form_fields(hold.question)
    first = None
    if hold.version > 1:
        first = (await window.first(hold)).show(schema)
    return Detail(
        hold=hold,
        around=around,
        shown=shown,
        seen=seen,
        key=secrets.token_urlsafe(12),
        can_decide=can_decide,
        can_edit=can_edit,
        can_stop=around.owns and "start" in caller.scopes and hold.status != "settled",
        can_undo_s=_undo_s(app, caller, hold),
        editing=editing,
        fields=_filled(fields, hold, typed),
        together=tuple((one, one.show(window.schema(one))) for one in others),
        doubt=await app.doubt(hold.id) if hold.kind == "in_doubt" else None,
        first=first,
        talk=await _talk(app, caller, hold, around),
        typed=typed,
    )


def _filled(fields: tuple[Field, ...], hold: HoldView, typed: Typed) -> tuple[Field, ...]:
    """Give controls with what was typed into them; what is sensitive is not sent back."""
    if not typed.values:
        return fields
    secret = hold.question is not None and hold.question.sensitive
    return fill_in(fields, {} if secret else typed.values, typed.problems)


def form_fields(question: Question) -> tuple[Field, ...]:
    """Make the controls of a question that is a form, with what it suggests filled in."""
    schema: dict[str, Any] = json.loads(question.schema)
    value: Any = {} if question.default is None else decode_value(bytes(question.default))
    entries = resolve(schema, schema).get("properties")
    if question.default is None and isinstance(entries, Mapping):
        for name, entry in cast("Mapping[str, Any]", entries).items():
            hints = resolve(entry, schema)
            if hints.get("default") is not None:
                value[name] = hints["default"]
    return make_fields(schema, value, ANSWER)


def _undo_s(app: Sayso, caller: Caller, hold: HoldView) -> float | None:
    if hold.status == "open":
        return 0 if any(vote.by == caller.by for vote in hold.votes) else None
    decision = hold.decision
    if hold.status != "decided" or decision is None or decision.by != caller.by:
        return None
    left = (decision.effective_at - app.store.now()) / 1000
    return left if left > 0 else None


async def _talk(
    app: Sayso, caller: Caller, hold: HoldView, around: Around
) -> tuple[Said, ...] | None:
    if not around.owns or hold.kind not in _TALK_KINDS:
        return None
    run = await caller.window(app).run(hold.run_id)
    said = [one for message in run.messages for one in _said(message, run.agent)]
    return tuple(said[-SAID_MAX:])


def _said(message: Message, agent: str) -> list[Said]:
    match message:
        case UserMessage(text=text, by=by):
            return [Said(who=by or "Person", role="user", text=_cut(text))]
        case AssistantMessage(text=text, calls=calls):
            asked = ", ".join(call.tool for call in calls)
            said = text or f"asks to use {asked}" if asked else text
            return [Said(who=agent, role="agent", text=_cut(said))] if said else []
        case ToolMessage(tool=tool, outcome=outcome):
            match outcome:
                case Returned(value=value):
                    text = bytes(value).decode(errors="replace")
                case Failed(message=text):
                    text = f"failed: {text}"
                case Declined(reason=text):
                    text = f"declined: {text}"
                case _:
                    text = f"unknown: {outcome.reason}"
            return [Said(who=tool, role="tool", text=_cut(text))]


def _cut(text: str) -> str:
    more = len(text) - SAID_CHARS_MAX
    return text if more <= 0 else f"{text[:SAID_CHARS_MAX]} [{more:,} more characters]"


def _leaves(fields: tuple[Field, ...]) -> list[Field]:
    return [leaf for one in fields for leaf in (_leaves(one.fields) if one.fields else [one])]
