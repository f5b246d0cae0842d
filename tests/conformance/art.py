"""ART's world in ours: a planner with a confirmation dialogue, and what its people can do with it.

ART (seed 1): an agent that plans, executes to-do items and synthesises; tools that block; one
suspension a thread. The setting that honours it is `Planner(siblings="halt")` with blocking tools;
where its people approve an action itself, a tool with `approval=True`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sayso import (
    AssistantMessage,
    Context,
    Message,
    Planner,
    RunHandle,
    RunView,
    Sayso,
    ToolMessage,
    UserMessage,
    question,
    tool,
)
from sayso.engine.ports import Answer, Prompt
from sayso.testing import ScriptedModel, call, say
from tests.engine.kit import Place

GOAL = "Clean up the records."
DECISION = question(
    "May this be done?",
    schema={
        "type": "object",
        "properties": {
            "approved": {"type": "boolean"},
            "reason": {"type": "string"},
            "modifiedArgs": {"type": "object"},
        },
        "required": ["approved"],
        "additionalProperties": False,
    },
)
"""The decision payload of ART's section 4.3, as a question whose answer is checked."""
CONFIRM = call("displayConfirmation", {"action": "Delete 500 records"})
DELETE = call("deleteRecords", {"count": 500})
LOOK = call("countRecords", {"table": "old"})


class _Watched(ScriptedModel):
    """A model that writes down what it is given."""

    def __init__(self, turn: Any, prompts: list[Prompt]) -> None:
        super().__init__(turn)
        self._prompts = prompts

    async def answer(self, prompt: Prompt, emit: Any) -> Answer:
        self._prompts.append(prompt)
        return await super().answer(prompt, emit)


class Art:
    """A planner whose items take the turns that a test gives them, on a place of its own.

    Each item is given as `name=[turns]` and worked on after the ones before it. What tools do and
    what models are shown is written down outside.
    """

    def __init__(
        self,
        place: Place,
        *,
        tools: Sequence[Any] = (),
        plan: Sequence[Mapping[str, Any]] | None = None,
        dialogue: Mapping[str, Any] | None = None,
        siblings: str = "halt",
        items: Mapping[str, Sequence[Any]],
        **options: Any,
    ) -> None:
        self.place = place
        self.items = items
        self.plan = plan or chain(items)
        self.shown: list[tuple[Message, ...]] = []
        """What the models of items were given, prompt by prompt."""
        self.prompts: list[Prompt] = []
        """The same, with instructions and tools; the main strand's as well."""
        words: dict[str, Any] = {"asks": DECISION, "effect": "none", **(dialogue or {})}

        @tool(name="displayConfirmation", blocking=True, **words)
        async def confirm(action: str) -> dict[str, Any]:
            """Ask the person in front of the screen."""
            place.world.write("dialogues", action)
            return {"action": action, "suspensionId": "made-by-the-tool"}

        @tool(name="deleteRecords", effect="once")
        async def delete(ctx: Context, count: int) -> str:
            place.world.write("effects", f"{ctx.key} deleted {count}")
            return f"deleted {count}"

        @tool(name="countRecords", effect="once")
        async def look(ctx: Context, table: str) -> int:
            place.world.write("effects", f"{ctx.key} looked at {table}")
            return 500

        self.planner = Planner(
            "clerk",
            model=_Watched(self._turn, self.prompts),
            instructions="You keep the records of the town hall.",
            tools=[confirm, delete, look, *tools],
            siblings=siblings,
            **options,
        )

    def _turn(self, messages: tuple[Message, ...]) -> Any:
        first = messages[0]
        assert isinstance(first, UserMessage)
        taken = sum(isinstance(message, AssistantMessage) for message in messages)
        if first.text == GOAL:
            return say(json.dumps({"items": self.plan})) if taken == 0 else say("All is clean.")
        self.shown.append(messages)
        turn = self.items[first.text.split()[1]][taken]
        return turn(messages) if callable(turn) else turn

    @property
    def dialogues(self) -> list[str]:
        return self.place.world.read("dialogues")

    @property
    def effects(self) -> list[str]:
        """What was done, without the keys of the calls that did it."""
        return [line.split(" ", 1)[1] for line in self.place.world.read("effects")]

    @property
    def told(self) -> list[ToolMessage]:
        """The outcomes in the last prompt that an item's model was given."""
        return [message for message in self.shown[-1] if isinstance(message, ToolMessage)]

    async def start(self, app: Sayso) -> RunHandle:
        return await app.start("clerk", GOAL, by="mira")


def chain(items: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Write a plan in which every item is after the one before it."""
    names = list(items)
    return [
        {"id": name, "task": f"do {name}", "after": names[at - 1 : at] if at else []}
        for at, name in enumerate(names)
    ]


def statuses(view: RunView) -> dict[str, str]:
    """Say how far each item has come."""
    return {item.id: item.status for item in view.plan}
