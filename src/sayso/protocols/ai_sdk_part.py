"""The parts of an AI SDK message that are about calls, and the ids of messages."""

from __future__ import annotations

import re

from sayso.domain.call import Call, Outcome, call_id
from sayso.protocols.ai_sdk_suspension import Asked, Chunk, shown_args

INPUT, ASKED, RESPONDED, GOING, FINAL = "input", "asked", "responded", "going", "final"
"""What a tool part shows: its input, a request, an answer, that it goes on, or its outcome."""


class Part:
    """A call with its holds, and what the client shows of it."""

    def __init__(self, run_id: str, call: Call, by: str = "") -> None:
        self.id = call_id(run_id, call.ref)
        self.tool = call.tool
        self.args = bytes(call.args)
        self.text = call.text
        self.by = by
        """Who invoked it, if it is a command."""
        self.editor = ""
        self.shown: bytes | None = None
        """The arguments that the client has."""
        self.state = ""
        self.about = 0
        """The hold that the client shows the request or the answer of."""
        self.holds: list[Asked] = []
        self.outcome: Outcome | None = None


def message_id(run_id: str, number: int) -> str:
    """Make the id of an assistant message."""
    return f"msg_{run_id.removeprefix('run_')}.{number}"


def read_message_id(text: str) -> tuple[str, int] | None:
    """Read the run and the number out of a message's id; None if it is none of ours."""
    found = re.fullmatch(r"msg_(.+)\.([1-9][0-9]{0,9})", text, re.DOTALL)
    return None if found is None else (f"run_{found[1]}", int(found[2]))


def input_chunk(part: Part) -> Chunk:
    """Tell what a call would be, or is, executed with."""
    return {
        "type": "tool-input-available",
        "toolCallId": part.id,
        "toolName": part.tool,
        "input": part.text or shown_args(part.args),
    }


def output_chunk(part: Part, output: object, *, preliminary: bool = False) -> Chunk:
    """Tell what a call has given, or how it stands so far."""
    chunk = {"type": "tool-output-available", "toolCallId": part.id, "output": output}
    return {**chunk, "preliminary": True} if preliminary else chunk


def standing_of(part: Part) -> str:
    """Say in a word how a call stands that is not over."""
    waiting = [one for one in part.holds if one.open]
    if waiting:
        return "waiting"
    return part.holds[-1].decision.word if part.holds and part.holds[-1].decision else "going on"
