"""The instance tree, changed: what becomes of a machine's run by what its instances do.

Rule 1: one `Tree` makes the events of one append. If something in it is refused, none of it is.
Rule 2: an instance leaves its node when the calls of its own turn are over. What the instances
below it ask is withdrawn, and what they have not started is declined; what they have started, a
call in doubt and a run of another agent are waited for.
Rule 3: nothing is left behind: who ends tells its parent, and who has moved on is due a turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from sayso.agents.move import Cede, Move, Resume, Spawn, Transition, Update, merge
from sayso.agents.node import Node
from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Declined, Failed
from sayso.domain.hold import Answered, Errored, Hold
from sayso.domain.run import CallRow, Strand
from sayso.domain.settling import Draft
from sayso.domain.standing import MAY_START, strand_due
from sayso.domain.tree import Kept, Leaving, decode_kept, encode_kept
from sayso.domain.value import SAYSO, Principal
from sayso.engine.ports import Scene
from sayso.errors import BadMove

INSTANCES_MAX = 100
"""No machine has more instances at once."""


class Tree:
    """A machine's run in the making."""

    def __init__(self, nodes: Mapping[str, Node], root: str, scene: Scene) -> None:
        self._nodes = nodes
        self._root = root
        self._draft = Draft(scene.run)
        self._transcript = scene.transcript
        self._now = scene.now
        self._kept: dict[str, Kept] = {}

    @property
    def events(self) -> list[e.Event]:
        """What is to be appended."""
        return self._draft.events

    def kept(self, name: str) -> Kept:
        """Say where an instance is, and what it knows."""
        if name not in self._kept:
            log = self._transcript.strands.get(name)
            kept = None if log is None else decode_kept(log.data)
            if kept is None and name == e.MAIN:
                kept = Kept(node=self._root, state=msgspec.Raw(self._nodes[self._root].begin()))
            if kept is None:
                raise BadMove(f"{name!r} is no instance of this machine")
            self._kept[name] = kept
        return self._kept[name]

    def begin(self) -> None:
        """Write down where the root is."""
        self._change(e.MAIN, self.kept(e.MAIN))

    def below(self, name: str) -> list[str]:
        """List the instances below one, the lowest first."""
        found: list[str] = []
        for strand in self._draft.run.strands:
            if strand.parent == name:
                found = [*self.below(strand.name), strand.name, *found]
        return found

    def move(self, name: str, moves: Sequence[Move]) -> None:
        """Do what a call of an instance wants done."""
        if self._draft.run.strand(name) is None:
            raise BadMove(f"the instance {name!r} is over")
        for move in moves:
            kept = self.kept(name)
            if move.node != kept.node:
                raise BadMove(f"{name!r} is at {kept.node!r} by now, not at {move.node!r}")
            match move:
                case Update():
                    self._update(name, kept, move)
                case Spawn():
                    self._spawn(name, kept, move)
                case Resume():
                    self._resume(name, move)
                case Transition():
                    self._leave(name, kept, self._transition(kept, move), at_once=move.at_once)
                case Cede():
                    leaving = Leaving(how="cede", value=msgspec.Raw(move.value))
                    self._leave(name, kept, leaving, at_once=move.at_once)

    def give_up(self, name: str, *, value: bytes | None = None, error: str = "") -> None:
        """End an instance whose turn led nowhere else."""
        how = Leaving(how="cede", value=None if value is None else msgspec.Raw(value), error=error)
        self._leave(name, self.kept(name), how, at_once=True)

    def go_on(self, name: str) -> None:
        """Let an instance that is about to leave do so, or rest until what is below it is over."""
        self._finish(name)
        strand = self._draft.run.strand(name)
        if strand is not None and self.kept(name).leaving and strand_due(self._draft.run, strand):
            self._rest(strand)

    def rest(self, name: str) -> None:
        """Let an instance rest until those below it are over; if they are already, tell it."""
        strand = self._draft.run.strand(name)
        if strand is not None and not self.below(name) and self._rests(strand):
            # They ended while its model thought about one before them, and so said nothing.
            self._tell(name, "Everything below you is over.")

    def _update(self, name: str, kept: Kept, move: Update) -> None:
        state = move.value if move.whole else merge(bytes(kept.state), move.value)
        frozen = self._node(kept.node).freeze(state)
        self._change(name, replace(kept, state=msgspec.Raw(frozen)))

    def _spawn(self, name: str, kept: Kept, move: Spawn) -> None:
        _refuse_leaving(name, kept)
        run = self._draft.run
        if move.to not in self._node(kept.node).spawns:
            raise BadMove(f"no instance can begin at {move.to!r} from {kept.node!r}")
        if len(run.strands) >= INSTANCES_MAX:
            raise BadMove(f"a machine has at most {INSTANCES_MAX} instances at once")
        opened = Kept(node=move.to, state=msgspec.Raw(self._node(move.to).begin(move.state)))
        child = f"{move.to}.{run.strands_opened + 1}"
        self._kept[child] = opened
        self._draft.add(
            e.StrandOpened(strand=child, parent=name, text=move.input, data=encode_kept(opened))
        )

    def _transition(self, kept: Kept, move: Transition) -> Leaving:
        if move.to not in self._node(kept.node).transitions:
            raise BadMove(f"there is no transition from {kept.node!r} to {move.to!r}")
        state = self._node(move.to).begin(move.state)
        return Leaving(how="transition", to=move.to, value=msgspec.Raw(state))

    def _resume(self, name: str, move: Resume) -> None:
        waiting = [hold for hold in self._holds(name) if move.hold in (0, hold.n)]
        if not waiting:
            raise BadMove(f"{name!r} does not wait for this")
        for hold in waiting:
            if hold.kind != "external" or hold.child:
                raise BadMove(f"hold {hold.n} asks {hold.kind!r}: it has to be decided by itself")
            verdict = (
                Errored(message=move.error)
                if move.value is None
                else Answered(value=msgspec.Raw(move.value))
            )
            run = self._draft.run
            found = settling.settle(
                run, hold.n, verdict, by=move.by, now=self._now, channel="command"
            )
            self._draft.add(*found)

    def _leave(self, name: str, kept: Kept, leaving: Leaving, *, at_once: bool) -> None:
        if name == e.MAIN and leaving.how != "transition":
            raise BadMove("the root cannot cede: it has no parent to leave anything to")
        if not at_once or (kept.leaving is not None and kept.leaving.how == "end"):
            _refuse_leaving(name, kept)
        if at_once:
            self._drop(name, self._calls(name))
        for lower in self.below(name):
            self._drop(lower, self._calls(lower))
            self._change(lower, replace(self.kept(lower), leaving=Leaving(how="end")))
        self._change(name, replace(kept, leaving=leaving))
        for lower in self.below(name):
            self._finish(lower)
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Let an instance leave if it is about to and nothing keeps it."""
        strand = self._draft.run.strand(name)
        leaving = None if strand is None else self.kept(name).leaving
        if strand is None or leaving is None or not _is_over(strand):
            return
        if leaving.how == "transition":
            self._arrive(strand, leaving)
        elif not self.below(name):
            self._close(strand, leaving)

    def _arrive(self, strand: Strand, leaving: Leaving) -> None:
        assert leaving.value is not None, "a node has a state"
        self._drop_commands(strand.name)
        self._change(strand.name, Kept(node=leaving.to, state=leaving.value))
        if not strand_due(self._draft.run, strand):
            self._tell(strand.name, f"You are at {leaving.to!r} now. Go on from here.")

    def _close(self, strand: Strand, leaving: Leaving) -> None:
        name, parent = strand.name, strand.parent
        self._drop_commands(name)
        self._draft.add(e.StrandClosed(strand=name, result=leaving.value, error=leaving.error))
        if leaving.how == "cede":
            self._tell(parent, _farewell(name, leaving), by=Principal(kind="agent", id=name))
            return
        self._finish(parent)
        above = self._draft.run.strand(parent)
        if above is not None and self._rests(above):
            # It may have nothing else to go on for.
            self._tell(parent, f"{name} is over.")

    def _rests(self, strand: Strand) -> bool:
        leaves = self.kept(strand.name).leaving is not None
        return not leaves and _is_over(strand) and not strand_due(self._draft.run, strand)

    def _rest(self, strand: Strand) -> None:
        # It never asks its model again: the turn is empty, and only says that none is due.
        run = self._draft.run
        self._draft.add(e.TurnTaken(turn=run.turns + 1, seen=run.seq, strand=strand.name))

    def _change(self, name: str, kept: Kept) -> None:
        self._kept[name] = kept
        self._draft.add(e.StrandChanged(strand=name, data=encode_kept(kept)))

    def _tell(self, name: str, text: str, by: Principal = SAYSO) -> None:
        self._draft.add(e.MessageReceived(by=by, text=text, strand=name))

    def _drop_commands(self, name: str) -> None:
        self._drop(name, self._commands(name))

    def _drop(self, name: str, refs: Sequence[str]) -> None:
        """Give up calls of an instance, but for those that are under way or in doubt."""
        reason = f"{name} has moved on"
        for ref in refs:
            run = self._draft.run
            self._draft.add(
                *settling.withdraw(run, by=SAYSO, now=self._now, reason=reason, only=ref)
            )
            row = self._draft.run.call(ref)
            if row is not None and row.state in MAY_START:
                self._draft.add(*verbs.decline(self._draft.run, ref, Declined(reason=reason)))
            elif row is not None and row.state is CallState.ANSWERED:
                self._draft.add(_cut_short(row, reason))

    def _calls(self, name: str) -> list[str]:
        strand = self._draft.run.strand(name)
        own = [] if strand is None else [call.ref for call in strand.calls]
        return own + self._commands(name)

    def _commands(self, name: str) -> list[str]:
        of = self._transcript.commands
        return [c.ref for c in self._draft.run.commands if of.get(c.ref, ("", ""))[1] == name]

    def _holds(self, name: str) -> list[Hold]:
        strand = self._draft.run.strand(name)
        own = () if strand is None else strand.calls
        return [hold for call in own for hold in self._draft.run.holds_of(call.ref)]

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            raise BadMove(f"the machine has no node {name!r} now")
        return node


def _refuse_leaving(name: str, kept: Kept) -> None:
    if kept.leaving is not None:
        where = f"to {kept.leaving.to!r}" if kept.leaving.to else "to its end"
        raise BadMove(f"{name!r} is on its way {where} already")


def _is_over(strand: Strand) -> bool:
    return all(call.state is CallState.DONE for call in strand.calls)


def _cut_short(row: CallRow, reason: str) -> e.CallFinished:
    outcome = Failed(error="Cancelled", message=reason)
    return e.CallFinished(call=row.ref, attempt=row.attempt, outcome=outcome)


def _farewell(name: str, leaving: Leaving) -> str:
    if leaving.error:
        return f"{name} could not go on: {leaving.error}"
    value: Any = b"null" if leaving.value is None else bytes(leaving.value)
    return f"{name} has ceded: {value.decode()}"
