"""The Vercel AI SDK: a run's journal as the chunks of a UI message stream.

Rule 1: pure. The same entries give the same message, however they are cut into streams; text deltas
only bring forward what the turn says anyway.
Rule 2: a chunk is sent only for what is committed, and every id in it is ours: `messageId` is the
run with the number of the message in it, `toolCallId` the call's id, `approvalId` the hold's.
Rule 3: the minimal profile. One chunk or field that a release does not know breaks its whole
stream, so what is newer than 6.0 is sent only if the client has asked for it.

A run is one assistant message, or several if somebody spoke to it on the way: each begins with the
first turn that has heard them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sayso.domain import events as e
from sayso.domain.call import Call, Declined, Failed, Outcome, Returned, Unknown, call_id
from sayso.domain.hold import Delegation
from sayso.domain.people import Authority
from sayso.domain.recorded import Recorded
from sayso.domain.value import SAYSO, Principal
from sayso.engine.feed import DELTAS_MAX, Delta
from sayso.protocols.ai_sdk_part import (
    ASKED,
    FINAL,
    GOING,
    INPUT,
    RESPONDED,
    Part,
    input_chunk,
    message_id,
    output_chunk,
    standing_of,
)
from sayso.protocols.ai_sdk_suspension import Asked, Chunk, reason_of, suspension_chunk


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """How a client wants its chunks."""

    extras: bool = False
    """It knows what came with version 7, and has said so."""
    continuous: bool = False
    """It can answer while the stream is open."""


class Projection:
    """Folds a run's entries, and gives the chunks that each of them means."""

    def __init__(
        self, run_id: str, *, wire: Wire | None = None, who: Authority | None = None
    ) -> None:
        self.run_id = run_id
        self.message = 1
        """The number of the message that chunks are for."""
        self.status = "running"
        self.error = ""
        self.said: list[tuple[int, Principal, str]] = []
        """What was said to the run and no turn has heard yet: entry, by whom, text."""
        self._wire = wire or Wire()
        self._who = who
        self._owner = ""
        self._fresh = True
        self._parts: dict[str, Part] = {}
        self._holds: dict[int, tuple[Asked, Part]] = {}
        self._told: dict[int, Chunk] = {}
        """What the client was last told of each hold."""
        self._turn = 0
        self._alone = True
        """Whether the run has no strand but its main one: else nobody can tell whose text comes."""
        self._text = ""
        """What was sent of the text of the turn under way."""
        self._text_id = ""
        """By what it was sent; empty: none of it was."""
        self._torn = False
        self._ahead: list[Delta] = []
        """Text that came before it was told what it answers to."""
        self._going: set[str] = set()
        """The calls of the turn that have no outcome yet."""
        self._step = False
        self._quiet = False
        self._dirty: dict[str, None] = {}
        self._answered: frozenset[str] = frozenset()
        self._seen: frozenset[str] = frozenset()

    def ends_message(self, entry: Recorded | Delta) -> bool:
        """Tell whether this entry is the first of the next message."""
        event = entry.event if isinstance(entry, Recorded) else None
        return isinstance(event, e.TurnTaken) and not self._fresh and self._hears(event)

    @property
    def upcoming(self) -> int:
        """The number of the message that what was said last is answered with."""
        return self.message + (bool(self.said) and not self._fresh)

    def add(self, entry: Recorded | Delta) -> list[Chunk]:
        """Fold in an entry or a piece of text, and give the chunks that it means."""
        if isinstance(entry, Delta):
            return list(self._delta(entry))
        return list(self._entry(entry))

    def catch_up(self) -> None:
        """From here on tell only what is so in the end, until `live`."""
        self._quiet = True

    def live(self) -> list[Chunk]:
        """Tell what is so by now, and from here on everything as it happens."""
        self._quiet = False
        return list(self._flush())

    def go_on(self, answered: Iterable[str], seen: Iterable[str] = ()) -> None:
        """Go on in a new stream with a message whose client has all that was told so far, and the
        calls that were `seen`. It shows an answer of its own to the holds that were `answered`; of
        what else is asked it may show anything.
        """
        self._answered, self._seen = frozenset(answered), frozenset(seen)
        self._step, self._text, self._text_id = False, "", ""
        self.catch_up()

    def start(self, message: int | None = None) -> Chunk:
        """Begin a stream."""
        number = self.message if message is None else message
        return {"type": "start", "messageId": message_id(self.run_id, number)}

    def close(self) -> list[Chunk]:
        """End a stream: with the reason that the run's status gives, or with what went wrong."""
        chunks = [*self._flush(), *self._end_text(), *self._settle()]
        if self.status in ("failed", "cancelled"):
            told = {"run": self.run_id, "status": self.status, "reason": self.error}
            chunks.append({"type": "data-run", "id": self.run_id, "data": told})
        chunks += self._end_step()
        if self.status == "failed":
            return [*chunks, {"type": "error", "errorText": self.error}]
        return [*chunks, {"type": "finish", "finishReason": _REASONS.get(self.status, "other")}]

    @property
    def asks(self) -> bool:
        """Tell whether its client shows a request."""
        return any(part.state == ASKED for part in self._parts.values())

    @property
    def waits(self) -> bool:
        """Tell whether it can only go on once something is settled. One that has nothing left to be
        settled is about to go on, even if that is only said by the next entry.
        """
        left = any(not asked.effective for asked, _ in self._holds.values())
        return self.status == "suspended" and left

    @property
    def waits_for(self) -> list[str]:
        """The runs below whose ends it waits for."""
        asks = [asked.opened.ask for asked, _ in self._holds.values() if asked.open]
        return [ask.run for ask in asks if isinstance(ask, Delegation)]

    def _settle(self) -> Iterator[Chunk]:
        for part in self._parts.values():
            if part.state == RESPONDED and part.outcome is None:
                # A part that keeps its answer is sent again by its client at once, without end.
                yield output_chunk(part, {"status": standing_of(part)}, preliminary=True)
                part.state = GOING

    def _entry(self, entry: Recorded) -> Iterator[Chunk]:
        match entry.event:
            case e.RunStarted() as event:
                self._owner = event.by.id
                self.said.append((entry.seq, event.by, event.input))
            case e.MessageReceived() as event if event.strand == e.MAIN and event.by != SAYSO:
                self.said.append((entry.seq, event.by, event.text))
            case e.TurnTaken() as event:
                yield from self._take_turn(event)
            case e.CommandReceived() as event:
                part = self._ask_for(event.call, event.by.id)
                yield from self._tell(part)
            case e.StrandOpened():
                self._alone = False
            case e.CallFinished() as event:
                part = self._parts.get(call_id(self.run_id, event.call))
                if part is not None:
                    part.outcome = event.outcome
                    self._going.discard(part.id)
                    yield from self._tell(part)
                ahead, self._ahead = self._ahead, []
                for delta in ahead:
                    yield from self._delta(delta)
            case None:
                pass
            case event:
                yield from self._about_hold(event)
                yield from self._standing(event)

    def _take_turn(self, turn: e.TurnTaken) -> Iterator[Chunk]:
        yield from self._flush()
        if self._hears(turn):
            self.message += not self._fresh
            self._fresh = False
            self.said = [one for one in self.said if one[0] > turn.seen]
        self._turn = turn.turn
        self._ahead.clear()
        if not turn.text.startswith(self._text):
            # The model was asked again after it had begun to answer: this is what it said.
            yield from self._end_text()
            yield from self._write(turn.turn, turn.text)
        else:
            if not self._text_id:
                yield from self.begin_step()
            yield from self._write(turn.turn, turn.text[len(self._text) :])
        yield from self._end_text()
        for call in turn.calls:
            part = self._ask_for(call)
            self._going.add(part.id)
            yield from self._sync(part)

    def _hears(self, turn: e.TurnTaken) -> bool:
        heard = self.said and self.said[0][0] <= turn.seen
        return turn.strand == e.MAIN and bool(heard)

    def _ask_for(self, call: Call, by: str = "") -> Part:
        part = self._parts[call_id(self.run_id, call.ref)] = Part(self.run_id, call, by)
        if part.id in self._seen:
            part.shown, part.state = part.args, INPUT
        return part

    def _delta(self, delta: Delta) -> Iterator[Chunk]:
        if delta.turn != self._turn + 1 or not self._alone or self._torn or not delta.text:
            return
        if self.said and not self._fresh:
            return  # Nobody knows yet whose message it belongs to.
        if self._going:
            # It is written while the outcome that it speaks of is being committed.
            self._ahead = [*self._ahead, delta][:DELTAS_MAX]
            return
        if delta.at != len(self._text):
            # Some was lost, or the model is asked once more. The turn will have all of it.
            self._torn = bool(self._text_id)
            return
        yield from self._flush()
        if not self._text_id:
            yield from self.begin_step()
        yield from self._write(delta.turn, delta.text)

    def _write(self, turn: int, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if not self._text_id:
            self._text_id = f"text-{turn}"
            yield {"type": "text-start", "id": self._text_id}
        self._text += text
        yield {"type": "text-delta", "id": self._text_id, "delta": text}

    def _end_text(self) -> Iterator[Chunk]:
        if self._text_id:
            yield {"type": "text-end", "id": self._text_id}
        self._text, self._text_id, self._torn = "", "", False

    def _about_hold(self, event: e.AnyEvent) -> Iterator[Chunk]:
        if isinstance(event, e.HoldOpened):
            part = self._parts.get(call_id(self.run_id, event.call))
            if part is None:
                return  # The entry that asked for the call was redacted.
            asked = Asked(self.run_id, event, part.args)
            self._holds[event.hold] = asked, part
            part.holds.append(asked)
            if asked.is_approval and asked.id in self._answered:
                part.state, part.about = RESPONDED, asked.n
            yield from self._tell(part)
            return
        found = self._holds.get(getattr(event, "hold", 0))
        if found is None:
            return
        asked, part = found
        asked.add(event)
        if isinstance(event, e.HoldRevised):
            part.args, part.editor = asked.args, event.by.id
        yield from self._tell(part)

    def _standing(self, event: e.AnyEvent) -> Iterator[Chunk]:
        match event:
            case e.RunSuspended():
                self.status = "suspended"
            case e.RunResumed():
                self.status = "running"
            case e.RunCompleted():
                self.status = "completed"
            case e.RunFailed(error=error):
                self.status, self.error = "failed", error
            case e.RunCancelled(reason=reason):
                self.status, self.error = "cancelled", reason
            case _:
                return
        if self._wire.continuous:
            yield from self._end_step()

    def _tell(self, part: Part) -> Iterator[Chunk]:
        if self._quiet:
            self._dirty[part.id] = None
        else:
            yield from self._sync(part)

    def _flush(self) -> Iterator[Chunk]:
        dirty, self._dirty = self._dirty, {}
        for name in dirty:
            yield from self._sync(self._parts[name])

    def _sync(self, part: Part) -> Iterator[Chunk]:
        """Tell the client what it does not show of a call yet."""
        if part.shown is None:
            yield from self._input(part)
        elif part.shown != part.args and not self._wire.continuous:
            # In a stream whose steps are about requests, the part is not in this step: a client
            # would show it twice. What is decided on is in the suspension, too.
            yield input_chunk(part)
            part.shown, part.state = part.args, INPUT
        yield from self._request(part)
        for hold in part.holds:
            mine = hold.is_for(self._who, (self._owner, part.by, part.editor))
            told = suspension_chunk(hold, part.tool, mine=mine)
            if self._told.get(hold.n) != told:
                self._told[hold.n] = told
                yield told
        if part.outcome is not None and part.state != FINAL:
            yield from self._respond(part)
            yield from self._end_requests()
            yield self._final(part, part.outcome)
            part.state = FINAL
        elif part.state == ASKED and not self._wire.continuous:
            yield from self._go(part)

    def _input(self, part: Part) -> Iterator[Chunk]:
        if self._wire.continuous:
            named = {"toolCallId": part.id, "toolName": part.tool}
            yield {"type": "tool-input-start", **named}
        yield input_chunk(part)
        part.shown, part.state = part.args, INPUT

    def _request(self, part: Part) -> Iterator[Chunk]:
        hold = self._to_show(part)
        if hold is None or (part.state in (ASKED, FINAL) and part.about == hold.n):
            return
        if not hold.open and part.about == hold.n:
            return  # It was shown already, and is settled by now.
        if self._wire.continuous and not self._step:
            self._step = True
            yield {"type": "start-step"}
        chunk: Chunk = {
            "type": "tool-approval-request",
            "approvalId": hold.id,
            "toolCallId": part.id,
        }
        if self._wire.extras and hold.ruling.why:
            chunk["reason"] = hold.ruling.why
        yield chunk
        part.state, part.about = ASKED, hold.n

    def _to_show(self, part: Part) -> Asked | None:
        """Pick the request that a part shows: the first that waits for this person, else the last
        one that did. A part has room for one.
        """
        names = (self._owner, part.by, part.editor)
        mine = [one for one in part.holds if one.is_approval and one.is_for(self._who, names)]
        waiting = [one for one in mine if one.open]
        return waiting[0] if waiting else mine[-1] if mine else None

    def _go(self, part: Part) -> Iterator[Chunk]:
        """Take back a request that was granted elsewhere: its call goes on."""
        hold = self._holds[part.about][0]
        if not hold.allowed:
            return
        if self._wire.extras:
            yield from self._respond(part)
        else:
            yield input_chunk(part)
            part.state = GOING

    def _respond(self, part: Part) -> Iterator[Chunk]:
        hold = self._holds[part.about][0] if part.about else None
        if self._wire.extras and part.state == ASKED and hold and hold.decision is not None:
            yield {
                "type": "tool-approval-response",
                "approvalId": hold.id,
                "approved": hold.allowed,
                "reason": reason_of(hold.decision),
            }
            part.state = RESPONDED

    def _final(self, part: Part, outcome: Outcome) -> Chunk:
        match outcome:
            case Returned():
                return output_chunk(part, outcome.result())
            case Failed(message=text):
                pass
            case Declined(reason=reason):
                if part.about and not self._wire.continuous:
                    return {"type": "tool-output-denied", "toolCallId": part.id}
                text = reason
            case Unknown(reason=reason):
                text = f"Nobody can say whether this happened: {reason}"
        return {"type": "tool-output-error", "toolCallId": part.id, "errorText": text}

    def begin_step(self) -> Iterator[Chunk]:
        """Begin another step, unless something is asked in the one under way."""
        if self._wire.continuous:
            yield from self._end_step()
            return
        if self._step and self.asks:
            # A client sends its answers by itself only if they are all in the last step.
            return
        yield from self._end_step()
        self._step = True
        yield {"type": "start-step"}

    def _end_step(self) -> Iterator[Chunk]:
        if self._step:
            self._step = False
            yield {"type": "finish-step"}

    def _end_requests(self) -> Iterator[Chunk]:
        if self._wire.continuous:
            yield from self._end_step()


_REASONS = {"completed": "stop", "suspended": "tool-calls"}
