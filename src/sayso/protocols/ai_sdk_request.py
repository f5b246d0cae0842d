"""What a client of the AI SDK sends, read with mistrust.

Rule 1: the history that it posts is its own story. Taken are the new text, the ids of what it
answers, its verdicts, reasons and edited arguments; what a call is comes from our store alone.
Rule 2: what it shows on its screen only ever refuses: a yes to other arguments than it was shown is
no yes.
Rule 3: what is not understood is refused, and nothing of the request is done; what is not needed is
not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from sayso.errors import BadValue

ANSWERS_MAX = 100
"""No request answers more at once."""
PARTS_MAX = 10_000
ID_MAX = 300

Json = dict[str, Any]


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a client says to a hold."""

    hold: str
    approved: bool | None = None
    """Yes or no; None: `value` answers it."""
    reason: str = ""
    value: Any = None
    args: Json | None = None
    """Yes to these arguments instead."""
    shown: Json | None = None
    """The arguments on its screen."""


class ChatRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks of a chat."""

    chat: str
    text: str | None = None
    """What its person says."""
    text_id: str = ""
    again: bool = False
    """It wants the last answer once more."""
    answers: tuple[Answer, ...] = ()
    digests: dict[str, str] = {}
    """Of all that it was shown there, by hold."""
    message: str = ""
    """The message that it goes on with."""
    seen: frozenset[str] = frozenset()
    """The calls that it shows in it."""
    agent: str | None = None


def read_request(body: object) -> ChatRequest:
    """Read the body of a POST, or the frame of a socket. `BadValue` says what is wrong with it."""
    found = _object(body, "the body")
    chat = _id(found.get("id"), "id")
    if not chat:
        raise BadValue("a chat has an id: send it as 'id'")
    messages = _messages(found)
    last = messages[-1] if messages else {}
    again = found.get("trigger") == "regenerate-message"
    told = [*_explicit(found)]
    text = _text(last) if last.get("role") == "user" else ""
    request = ChatRequest(
        chat=chat, again=again, agent=None if found.get("agent") is None else _agent(found)
    )
    if told:
        return _with(request, _about(messages, found), told)
    if again:
        return request
    if text:
        return msgspec.structs.replace(
            request, text=text, text_id=_id(last.get("id"), "message id")
        )
    about = last if last.get("role") == "user" else _about(messages, found)
    answers = [*_responses(about, _named(found, "modifiedArgs"))]
    if last.get("role") == "user" and not answers:
        raise BadValue("the message has no text, and only text can be said to an agent")
    return _with(request, about, answers)


def _with(request: ChatRequest, about: Json, answers: list[Answer]) -> ChatRequest:
    if len(answers) > ANSWERS_MAX:
        raise BadValue(f"no request answers more than {ANSWERS_MAX} at once")
    names = [answer.hold for answer in answers]
    if len(set(names)) < len(names):
        raise BadValue("the request answers the same more than once")
    return msgspec.structs.replace(
        request,
        answers=tuple(answers),
        digests=_digests(about),
        message=_id(about.get("id"), "message id"),
        seen=frozenset(_id(part.get("toolCallId"), "toolCallId") for part in _calls(about)),
    )


def _messages(body: Json) -> list[Json]:
    given = body.get("messages")
    if given is None:
        one = body.get("message")
        given = [] if one is None else [one]
    if not isinstance(given, list):
        raise BadValue("'messages' is a list of messages")
    # Only the end is read: the rest is a story that our store tells better.
    ends = cast("list[object]", given)[-2:]
    found = [_object(one, "a message") for one in ends]
    named = body.get("messageId")
    if named is not None and not any(one.get("id") == named for one in found):
        everything = cast("list[object]", given)
        mine = [one for one in everything if isinstance(one, dict) and one.get("id") == named]  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        found = [*cast("list[Json]", mine[-1:]), *found]
    return found


def _about(messages: list[Json], body: Json) -> Json:
    """Find the message that the request goes on with: the one it names, or the last answer."""
    answers = [one for one in messages if one.get("role") == "assistant"]
    named = [one for one in answers if one.get("id") == body.get("messageId")]
    return (named or answers or [{}])[-1]


def _responses(message: Json, edits: Json) -> Iterator[Answer]:
    """Read the answers that a message's parts have."""
    for part in _calls(message):
        if part.get("state") != "approval-responded":
            continue
        approval = _object(part.get("approval"), "an approval")
        hold, approved = _id(approval.get("id"), "approval.id"), approval.get("approved")
        if not hold or not isinstance(approved, bool):
            raise BadValue("an approval has an id, and is approved: true or false")
        edit = edits.get(hold)
        yield Answer(
            hold=hold,
            approved=approved,
            reason=_reason(approval.get("reason")),
            args=_object(edit, "modified arguments") if edit is not None and approved else None,
            shown=_shown(part),
        )


def _explicit(body: Json) -> Iterator[Answer]:
    """Read answers that no part of a message can carry: `answers` and `rejections`, by hold."""
    for hold, value in _named(body, "answers").items():
        yield Answer(hold=_id(hold, "a hold's id"), value=value)
    for hold, reason in _named(body, "rejections").items():
        yield Answer(hold=_id(hold, "a hold's id"), approved=False, reason=_reason(reason))


def _digests(message: Json) -> dict[str, str]:
    """Find the digests of what a client was shown: it sends back what it was told."""
    found: dict[str, str] = {}
    for part in _parts(message):
        data = part.get("data")
        if part.get("type") == "data-suspension" and isinstance(data, dict):
            told = cast("Json", data)
            hold, digest = told.get("id"), told.get("digest")
            if isinstance(hold, str) and isinstance(digest, str):
                found[hold] = digest
    return found


def _calls(message: Json) -> Iterator[Json]:
    for part in _parts(message):
        kind = part.get("type")
        if isinstance(kind, str) and (kind.startswith("tool-") or kind == "dynamic-tool"):
            yield part


def _parts(message: Json) -> list[Json]:
    given = message.get("parts", [])
    if not isinstance(given, list):
        raise BadValue("the parts of a message are a list")
    parts = cast("list[object]", given)
    if len(parts) > PARTS_MAX:
        raise BadValue(f"no message has more than {PARTS_MAX:,} parts")
    return [_object(part, "a part of a message") for part in parts]


def _text(message: Json) -> str:
    texts = [part.get("text") for part in _parts(message) if part.get("type") == "text"]
    if not texts and isinstance(message.get("content"), str):
        texts = [message["content"]]
    if not all(isinstance(text, str) for text in texts):
        raise BadValue("a text is a string")
    return "\n".join(cast("list[str]", texts)).strip()


def _shown(part: Json) -> Json | None:
    given = part.get("input")
    return cast("Json", given) if isinstance(given, dict) else None


def _named(body: Json, name: str) -> Json:
    given = body.get(name)
    return {} if given is None else _object(given, repr(name))


def _object(given: object, what: str) -> Json:
    if not isinstance(given, dict):
        raise BadValue(f"{what} is an object, not {type(given).__name__}")
    return cast("Json", given)


def _reason(given: object) -> str:
    if given is None:
        return ""
    if not isinstance(given, str):
        raise BadValue("a reason is a string")
    return given


def _agent(body: Json) -> str:
    return _id(body.get("agent"), "agent")


def _id(given: object, what: str) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or len(given) > ID_MAX:
        raise BadValue(f"{what} is a string of at most {ID_MAX} characters")
    return given
