"""What every agent has in common with the simplest one: a single strand, in a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from sayso.domain import events as e
from sayso.domain.message import Message
from sayso.engine.ports import Change, Prompt, Scene, Tool
from sayso.errors import BadTool


class OneStrand:
    """An agent with one line of thought: it asks its model until there are no more calls."""

    commands: Mapping[str, Tool] = MappingProxyType({})
    batch: tuple[str, str] = ("each", "run")
    on_reject: str = "tell"
    listens = False

    def prompt(self, messages: tuple[Message, ...]) -> Prompt:
        """Say what to ask the model, given the conversation so far."""
        raise NotImplementedError

    def next(self, scene: Scene, strand: str) -> Prompt | Change:
        """Ask the model, whatever has happened."""
        return self.prompt(scene.transcript.messages(strand))

    def data_of(self, scene: Scene, strand: str) -> bytes | None:
        """Give what is kept of a strand."""
        log = scene.transcript.strands.get(strand)
        return None if log is None else log.data

    def commands_of(self, scene: Scene, strand: str) -> Mapping[str, Tool]:
        """Give all commands, whatever the strand."""
        del scene, strand
        return self.commands

    def moved(self, scene: Scene, strand: str, moves: Sequence[Any]) -> Sequence[e.Event]:
        """Refuse every move: there is nowhere to go."""
        del scene, strand
        raise BadTool(f"this agent has no place to move to: {moves[0]!r}")

    def lacks(self, scene: Scene) -> Sequence[str]:
        """Say what the run has that only a planner or a machine goes on with."""
        logs = scene.transcript.strands
        return [
            f"its strand {strand.name!r} is one that {type(self).__name__} cannot go on with"
            for strand in scene.run.strands
            if strand.name != e.MAIN or logs[strand.name].data is not None
        ]

    def failed(self, strand: str, error: str) -> Change | None:
        """Let the run fail with its only strand."""
        del strand, error
        return None
