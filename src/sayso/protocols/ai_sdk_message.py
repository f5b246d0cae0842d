"""The AI SDK's messages: what its client makes of chunks, for pages that load a conversation.

A message is the fold of its chunks and nothing else, so that a page that was loaded and one that
was there all the time show the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.protocols.ai_sdk import Wire
from sayso.protocols.ai_sdk_family import Family
from sayso.protocols.ai_sdk_part import message_id
from sayso.protocols.ai_sdk_suspension import Chunk

_LOADED = Wire(extras=True)
"""Nothing is streamed here: a loaded part may say how its request was answered in any release."""


class UIMessage(msgspec.Struct, kw_only=True):
    """A message as the AI SDK keeps it."""

    id: str
    role: str
    parts: list[dict[str, Any]]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """What a client shows of a run."""

    messages: list[UIMessage]
    status: str
    upcoming: int
    """The number of the message that it is at, or is about to begin."""


def show_run(run_id: str, entries: Iterable[Recorded], who: Authority | None = None) -> Shown:
    """Give the messages of a run: what was said to it, and what it answered. The entries are its
    own, and those of the runs below it in between.
    """
    family = Family(run_id, wire=_LOADED, who=who)
    family.catch_up()
    root = family.root
    answer = UIMessage(id=message_id(run_id, 1), role="assistant", parts=[])
    answers, asked = [answer], [list[UIMessage]()]
    for entry in entries:
        if entry.run_id == run_id and root.ends_message(entry):
            fold(answer, family.close())
            answer = UIMessage(id=message_id(run_id, root.upcoming), role="assistant", parts=[])
            answers.append(answer)
        heard = len(root.said)
        chunks = family.add(entry)
        for seq, _, text in root.said[heard:]:
            asked += [[] for _ in range(root.upcoming - len(asked))]
            asked[root.upcoming - 1].append(_said(run_id, seq, text))
        fold(answer, chunks)
    fold(answer, family.live())
    goes_on = root.status in ("running", "suspended") and not family.rests
    if not goes_on:
        fold(answer, family.close())
    found: list[UIMessage] = []
    for number, said in enumerate(asked):
        found += said
        found += [one for one in answers[number : number + 1] if one.parts]
    # A run that waits for one below it goes on, as far as anybody can see.
    status = "running" if goes_on else root.status
    return Shown(messages=found, status=status, upcoming=root.upcoming)


def fold(message: UIMessage, chunks: Iterable[Chunk]) -> None:
    """Do to a message what the AI SDK's client does to it."""
    for chunk in chunks:
        kind = chunk["type"]
        if kind == "start":
            message.id = chunk["messageId"]
        elif kind == "start-step":
            message.parts.append({"type": "step-start"})
        elif kind.startswith("text-"):
            _text(message, kind, chunk)
        elif kind.startswith("tool-"):
            _tool(message, kind, chunk)
        elif kind.startswith("data-") and not chunk.get("transient"):
            _data(message, chunk)


def _text(message: UIMessage, kind: str, chunk: Chunk) -> None:
    if kind == "text-start":
        message.parts.append({"type": "text", "text": "", "state": "streaming"})
        return
    part = next(p for p in reversed(message.parts) if p.get("state") == "streaming")
    if kind == "text-delta":
        part["text"] += chunk["delta"]
    else:
        part["state"] = "done"


def _tool(message: UIMessage, kind: str, chunk: Chunk) -> None:
    if kind == "tool-approval-response":
        answered = ("id", chunk["approvalId"])
        part = next(p for p in _calls(message) if answered in p.get("approval", {}).items())
        said = {"approved": chunk["approved"], "reason": chunk["reason"]}
        part["state"] = "approval-responded"
        part["approval"] |= {name: value for name, value in said.items() if value != ""}
        return
    name = chunk["toolCallId"]
    part = next((p for p in reversed(_calls(message)) if p["toolCallId"] == name), None)
    if part is None:
        part = {"type": f"tool-{chunk['toolName']}", "toolCallId": name}
        message.parts.append(part)
    match kind:
        case "tool-input-start":
            part["state"] = "input-streaming"
        case "tool-input-available":
            part |= {"state": "input-available", "input": chunk["input"]}
        case "tool-approval-request":
            part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
        case "tool-output-available":
            part |= {"state": "output-available", "output": chunk["output"]}
            part.pop("preliminary", None)
            part |= {"preliminary": True} if chunk.get("preliminary") else {}
        case "tool-output-error":
            part |= {"state": "output-error", "errorText": chunk["errorText"]}
        case "tool-output-denied":
            part["state"] = "output-denied"
        case _:
            raise AssertionError(f"{kind!r} is not a chunk of ours")


def _data(message: UIMessage, chunk: Chunk) -> None:
    for part in message.parts:
        if part["type"] == chunk["type"] and part.get("id") == chunk["id"]:
            part["data"] = chunk["data"]
            return
    message.parts.append({"type": chunk["type"], "id": chunk["id"], "data": chunk["data"]})


def _calls(message: UIMessage) -> list[dict[str, Any]]:
    return [part for part in message.parts if "toolCallId" in part]


def _said(run_id: str, seq: int, text: str) -> UIMessage:
    name = f"said_{run_id.removeprefix('run_')}.{seq}"
    return UIMessage(id=name, role="user", parts=[{"type": "text", "text": text}])
