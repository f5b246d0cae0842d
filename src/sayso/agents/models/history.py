"""Our messages as pydantic-ai's.

Rule 1: what a provider sent goes back to it as it was stored. Only if this version cannot read it
any more is it rebuilt from our own copy of its text and calls.
Rule 2: a call and its outcome carry one id on the wire, and no two calls of a conversation have the
same: some providers repeat ids, or give none. The ids depend on the conversation alone, so that the
same history is always the same bytes to a provider that caches.
Rule 3: every call has an outcome on the wire, because providers refuse a history that lacks one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from sayso.domain.call import Call, Declined, Failed, Outcome, Returned, Unknown
from sayso.domain.message import AssistantMessage, ToolMessage, UserMessage
from sayso.engine.ports import Prompt

_Channel = Literal["success", "failed", "denied", "interrupted"]
"""How pydantic-ai tells outcomes apart; only `failed` is marked as an error to a provider."""
LOST = Unknown(reason="the outcome of this call was not recorded")


class _Open(NamedTuple):
    """A call that has no outcome yet, and its id on the wire."""

    call: Call
    wire_id: str


class _Writer:
    """Collects messages; what comes between two answers of the model is one request."""

    def __init__(self, instructions: str) -> None:
        self.messages: list[ModelMessage] = []
        self._instructions = instructions or None
        self._taken: set[str] = set()
        self._open: list[_Open] = []
        self._returns: list[ToolReturnPart] = []
        self._said: list[UserPromptPart] = []

    def user(self, message: UserMessage) -> None:
        self._said.append(UserPromptPart(content=message.text))

    def assistant(self, message: AssistantMessage) -> None:
        self.end_request()
        ids = [self._wire_id(call) for call in message.calls]
        self._open = [_Open(*pair) for pair in zip(message.calls, ids, strict=True)]
        response = _restored(message, ids) or _rebuilt(message, ids)
        if response.parts:
            self.messages.append(response)

    def tool(self, message: ToolMessage) -> None:
        found = self._find(message)
        content, outcome = _envelope(message.outcome, message.note)
        if found is None:
            # A history that was given to us may hold an outcome without its call.
            self._said.append(UserPromptPart(content=f"The tool {message.tool} gave: {content}"))
            return
        self._open.remove(found)
        self._returns.append(
            ToolReturnPart(
                tool_name=message.tool,
                content=content,
                tool_call_id=found.wire_id,
                outcome=outcome,
            )
        )

    def end_request(self) -> None:
        for call, wire_id in self._open:
            content, outcome = _envelope(LOST, "")
            self._returns.append(
                ToolReturnPart(
                    tool_name=call.tool, content=content, tool_call_id=wire_id, outcome=outcome
                )
            )
        parts = [*self._returns, *self._said]
        if parts:
            self.messages.append(ModelRequest(parts=parts, instructions=self._instructions))
        self._open, self._returns, self._said = [], [], []

    def _wire_id(self, call: Call) -> str:
        base = call.given or f"call_{call.ref.replace('.', '_')}"
        wire_id, n = base, 1
        while wire_id in self._taken:
            n += 1
            wire_id = f"{base}_{n}"
        self._taken.add(wire_id)
        return wire_id

    def _find(self, message: ToolMessage) -> _Open | None:
        ours = (one for one in self._open if message.call_id.endswith(f".{one.call.ref}"))
        theirs = (one for one in self._open if message.given and one.call.given == message.given)
        alike = (one for one in self._open if one.call.tool == message.tool)
        return next(ours, None) or next(theirs, None) or next(alike, None)


def to_messages(prompt: Prompt) -> list[ModelMessage]:
    """Translate a prompt's conversation."""
    writer = _Writer(prompt.instructions)
    for message in prompt.messages:
        match message:
            case UserMessage():
                writer.user(message)
            case AssistantMessage():
                writer.assistant(message)
            case ToolMessage():
                writer.tool(message)
    writer.end_request()
    return writer.messages


def _restored(message: AssistantMessage, ids: Sequence[str]) -> ModelResponse | None:
    if message.raw is None:
        return None
    try:
        stored = ModelMessagesTypeAdapter.validate_json(bytes(message.raw))
    except ValidationError:
        return None
    match stored:
        case [ModelResponse() as response]:
            pass
        case _:
            return None
    wire_ids = iter(ids)
    parts: list[ModelResponsePart] = []
    for part in response.parts:
        if isinstance(part, ToolCallPart):
            wire_id = next(wire_ids, None)
            if wire_id is None:
                return None
            parts.append(
                part if part.tool_call_id == wire_id else replace(part, tool_call_id=wire_id)
            )
        else:
            parts.append(part)
    if next(wire_ids, None) is not None:
        return None
    return replace(response, parts=parts)


def _rebuilt(message: AssistantMessage, ids: Sequence[str]) -> ModelResponse:
    parts: list[ModelResponsePart] = [TextPart(content=message.text)] if message.text else []
    parts.extend(
        ToolCallPart(
            tool_name=call.tool,
            args=call.text or bytes(call.args).decode(),
            tool_call_id=wire_id,
        )
        for call, wire_id in zip(message.calls, ids, strict=True)
    )
    return ModelResponse(parts=parts, model_name=message.model or None)


def _envelope(outcome: Outcome, note: str) -> tuple[Any, _Channel]:
    match outcome:
        case Returned():
            # None would go out as no text at all, which some providers refuse.
            result = outcome.result()
            plain = "null" if result is None else result
            return ({"result": result, "note": note} if note else plain), "success"
        case Failed():
            # As text: providers wrap an error themselves, each in its own way.
            said = ": ".join(part for part in (outcome.error, outcome.message) if part)
            return (f"{said}\n{note}" if note else said), "failed"
        case Declined():
            said = {
                "status": "declined",
                "reason": outcome.reason,
                "by": outcome.by,
                "advice": f"{_who(outcome.by)} Do not try again; find another way or explain.",
            }
            return _with_note(said, note), "denied"
        case Unknown():
            said = {
                "status": "unknown_outcome",
                "reason": outcome.reason,
                "advice": "Nobody knows whether this happened. Do not repeat this action.",
            }
            return _with_note(said, note), "interrupted"


def _who(by: str) -> str:
    # Only people go by a bare name: the clock and services have a prefix.
    person = by not in ("", "policy") and ":" not in by
    return "A person said no." if person else "This call is not allowed."


def _with_note(said: dict[str, str], note: str) -> dict[str, str]:
    said = {key: value for key, value in said.items() if value}
    return said | {"note": note} if note else said
