"""The machine: an agent whose instances are at nodes, each with its own tools, commands and state.

Rule: a machine decides nothing by itself. Given the run, it says what each instance asks its model,
and what its calls do to the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from sayso.agents.agent import Agent
from sayso.agents.machine_tool import CedeTool, SpawnTool, TransitionTool
from sayso.agents.node import Node
from sayso.agents.tools import NAME
from sayso.agents.tree import Tree
from sayso.domain import events as e
from sayso.domain.digest import encode_value
from sayso.domain.tree import Kept, decode_kept, encode_kept
from sayso.engine.ports import Answer, Change, Intervention, Model, Prompt, Reading, Scene, Tool
from sayso.errors import BadAgent, BadValue, ModelFailed

NO_COMMANDS: Mapping[str, Tool] = MappingProxyType({})


class Machine(Agent):
    """An agent made of nodes. Its run begins with one instance at the node `root`, which can go to
    other nodes, and let further instances begin below itself; each is a strand of the run.
    """

    listens = True

    def __init__(
        self,
        name: str,
        *,
        model: str | Model,
        nodes: Iterable[Node],
        root: str,
        turns_max: int = 100,
        timeout: str | float | None = None,
        model_tries_max: int = 4,
        version: str = "1",
        check_for_intervention: Intervention | None = None,
        resolve: str = "each",
        siblings: str = "run",
        on_reject: str = "tell",
    ) -> None:
        self.nodes: Mapping[str, Node] = MappingProxyType(_nodes(name, nodes))
        self.root = root
        _check_nodes(name, self.nodes, root)
        self._moves = _Moves(self.nodes)
        offered = [tool for node in self.nodes.values() for tool in node.tools]
        commands = [tool for node in self.nodes.values() for tool in node.commands]
        super().__init__(
            name,
            model=model,
            tools=_once(name, [*offered, *self._moves.tools.values()]),
            commands=_once(name, commands),
            turns_max=turns_max,
            timeout=timeout,
            model_tries_max=model_tries_max,
            version=version,
            check_for_intervention=check_for_intervention,
            resolve=resolve,
            siblings=siblings,
            on_reject=on_reject,
        )

    def __repr__(self) -> str:
        return f"<machine {self.name!r}>"

    def data_of(self, scene: Scene, strand: str) -> bytes | None:
        """Give what is kept of an instance; the root's is there before it is written down."""
        log = scene.transcript.strands.get(strand)
        if log is None or log.data is not None or strand != e.MAIN:
            return None if log is None else log.data
        return bytes(encode_kept(self._tree(scene).kept(strand)))

    def commands_of(self, scene: Scene, strand: str) -> Mapping[str, Tool]:
        """Give what people can invoke on an instance where it is now."""
        kept = decode_kept(self.data_of(scene, strand))
        node = None if kept is None else self.nodes.get(kept.node)
        return NO_COMMANDS if node is None else {tool.name: tool for tool in node.commands}

    def next(self, scene: Scene, strand: str) -> Prompt | Change:
        """Ask the model as the instance's node says, or let the instance leave."""
        if scene.transcript.strands[strand].data is None:
            return self._begin
        kept = self._tree(scene).kept(strand)
        if kept.leaving is not None:
            return partial(self._go_on, strand)
        node = self.nodes.get(kept.node)
        if node is None:
            raise ModelFailed(
                f"{strand!r} is at {kept.node!r}, which the machine does not have now"
            )
        return Prompt(
            messages=scene.transcript.messages(strand),
            instructions=_instructions(node, kept),
            tools=(*node.tools, *self._moves.of(node, root=strand == e.MAIN)),
        )

    def read(self, scene: Scene, strand: str, answer: Answer) -> Reading:
        """Take an answer without calls for the run's result, or for what is left to the parent. An
        instance with others below it rests until they are over.
        """
        if strand != e.MAIN:
            return Reading(change=partial(self._answered, strand, encode_value(answer.text)))
        if self._tree(scene).below(strand):
            return Reading(change=self._rest)
        return self.conclude(answer)

    def moved(self, scene: Scene, strand: str, moves: Sequence[Any]) -> Sequence[e.Event]:
        """Do to the tree what a call wants done."""
        tree = self._tree(scene)
        tree.move(strand, moves)
        return tree.events

    def lacks(self, scene: Scene) -> Sequence[str]:
        """Say which instances are, or are about to be, where there is no node now, and which know
        what does not fit their node.
        """
        logs = scene.transcript.strands
        found = [(strand.name, logs[strand.name].data) for strand in scene.run.strands]
        return [
            f"its instance {name!r} {why}"
            for name, data in found
            if data is not None and (why := self._lack(data))
        ]

    def _lack(self, data: bytes) -> str:
        kept = decode_kept(data)
        if kept is None:
            return "is none: what is kept of it is something else"
        leads = "" if kept.leaving is None else kept.leaving.to
        gone = next((name for name in (kept.node, leads) if name and name not in self.nodes), "")
        if gone:
            return f"is at, or goes to, {gone!r}, which {self.name!r} does not have now"
        try:
            self.nodes[kept.node].freeze(bytes(kept.state))
        except BadValue as error:
            return f"has a state that does not fit {kept.node!r} any more ({error})"
        return ""

    def failed(self, strand: str, error: str) -> Change | None:
        """End an instance whose model has failed, and tell its parent; with the root, the run."""
        return None if strand == e.MAIN else partial(self._failed, strand, error)

    def _tree(self, scene: Scene) -> Tree:
        return Tree(self.nodes, self.root, scene)

    def _rest(self, scene: Scene) -> Sequence[e.Event]:
        tree = self._tree(scene)
        tree.rest(e.MAIN)
        return tree.events

    def _begin(self, scene: Scene) -> Sequence[e.Event]:
        tree = self._tree(scene)
        if scene.transcript.strands[e.MAIN].data is None:
            tree.begin()
        return tree.events

    def _go_on(self, strand: str, scene: Scene) -> Sequence[e.Event]:
        tree = self._tree(scene)
        tree.go_on(strand)
        return tree.events

    def _answered(self, strand: str, text: bytes, scene: Scene) -> Sequence[e.Event]:
        tree = self._tree(scene)
        if tree.kept(strand).leaving is not None:
            tree.go_on(strand)
        elif not tree.below(strand):
            tree.give_up(strand, value=text)
        return tree.events

    def _failed(self, strand: str, error: str, scene: Scene) -> Sequence[e.Event]:
        tree = self._tree(scene)
        if tree.kept(strand).leaving is None:
            tree.give_up(strand, error=error)
        tree.go_on(strand)
        return tree.events


class _Moves:
    """The tools by which models move their instances."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._cede = CedeTool()
        reached = {name for node in nodes.values() for name in node.transitions}
        self._to = {name: TransitionTool(nodes[name]) for name in nodes if name in reached}
        below = {name for node in nodes.values() for name in node.spawns}
        self.tools: dict[str, Tool] = {tool.name: tool for tool in self._to.values()}
        if below:
            # Offered with the nodes that each node names; executed as one.
            spawn = SpawnTool([nodes[name] for name in nodes if name in below])
            self.tools |= {spawn.name: spawn, self._cede.name: self._cede}

    def of(self, node: Node, *, root: bool) -> list[Tool]:
        found: list[Tool] = [self._to[name] for name in node.transitions]
        if node.spawns:
            found.append(SpawnTool([self._nodes[name] for name in node.spawns]))
        return found if root else [*found, self._cede]


def _instructions(node: Node, kept: Kept) -> str:
    where = f"You are at {node.name!r}. What you know here: {bytes(kept.state).decode()}"
    return f"{node.instructions}\n\n{where}".lstrip()


def _nodes(machine: Any, nodes: Any) -> dict[str, Node]:
    if isinstance(nodes, str | Node) or not isinstance(nodes, Iterable):
        raise BadAgent(f"nodes of the machine {machine!r} is a list of nodes, not {nodes!r}")
    found: dict[str, Node] = {}
    for node in nodes:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(node, Node):
            raise BadAgent(f"{node!r} is not a node of the machine {machine!r}: use Node(...)")
        if node.name in found:
            raise BadAgent(f"the machine {machine!r} has two nodes called {node.name!r}")
        found[node.name] = node
    return found


def _check_nodes(machine: str, nodes: Mapping[str, Node], root: Any) -> None:
    known = ", ".join(nodes) or "none"
    if not isinstance(root, str) or root not in nodes:
        raise BadAgent(
            f"the root of the machine {machine!r} is one of its nodes ({known}), not {root!r}"
        )
    for node in nodes.values():
        for name in (*node.transitions, *node.spawns):
            if name not in nodes:
                raise BadAgent(
                    f"{node!r} leads to {name!r}; the nodes of the machine {machine!r} are: {known}"
                )
        for name in node.transitions:
            if not NAME.fullmatch(f"transition_to_{name}"):
                raise BadAgent(f"the name of the node {name!r} is too long to be gone to")
    if not nodes[root].has_default:
        raise BadAgent(
            f"the machine {machine!r} cannot begin at {root!r}: the state has fields without a "
            "default; give Node(state=...) an object to begin with"
        )


def _once(machine: str, tools: Iterable[Tool]) -> list[Tool]:
    """List the tools of all nodes, each once. One name cannot be two tools: a run that waits would
    not know which of them it waits for.
    """
    found: dict[int, Tool] = {}
    names: dict[str, Tool] = {}
    for tool in tools:
        found[id(tool)] = tool
        name = getattr(tool, "name", "")
        if name and names.setdefault(name, tool) is not tool:
            raise BadAgent(
                f"two different tools of the machine {machine!r} are called {name!r}; transitions, "
                "'spawn' and 'cede' are tools, too"
            )
    return list(found.values())
