"""What a planner's models are told, and how a plan is read from what they say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from sayso.agents.agent import unfenced
from sayso.domain.digest import decode_value
from sayso.domain.plan import OPEN, Item, Progress
from sayso.engine.ports import Tool
from sayso.errors import BadValue

ID_MAX = 64
TASK_MAX = 10_000
FAILED = "FAILED:"
"""How an item's answer begins if the item could not be done."""
_FIELDS = {"id", "task", "after"}
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "A short name of its own."},
                    "task": {
                        "type": "string",
                        "description": "What is to be done, for somebody who sees nothing else.",
                    },
                    "after": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "The ids of the items whose results it builds on.",
                    },
                },
                "required": ["id", "task"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["items"],
    "additionalProperties": False,
}


def ask_for_plan(instructions: str, tools: Iterable[Tool], items_max: int) -> str:
    """Tell a model to make a plan."""
    specs = [tool.spec() for tool in tools]
    offer = "\n".join(f"- {spec.name}: {spec.description}" for spec in specs) or "none"
    return (
        f"{instructions}\n\nMake a plan for what you are asked: at most {items_max} items, each "
        "for somebody who sees only its task and the results of the items that it is after. Items "
        f"that are not after one another are worked on at the same time.\n\nTheir tools:\n{offer}"
        f"\n\nAnswer with JSON only, and with JSON that fits this schema:\n{json.dumps(_SCHEMA)}"
    ).lstrip()


def ask_for_item(instructions: str, goal: str) -> str:
    """Tell a model to work on one item."""
    return (
        f"{instructions}\n\nYou work on one item of a plan. The whole request, of which others do "
        f"the rest:\n\n{goal}\n\nAnswer with the result of your item alone. If it cannot be done, "
        f"answer with {FAILED} and why."
    ).lstrip()


def ask_for_reply(instructions: str, states: Sequence[Progress], items_max: int) -> str:
    """Tell a model to answer what was said to it while the plan is worked on."""
    standing = "\n".join(f"- {one.item.id} ({one.status}): {one.item.task}" for one in states)
    return (
        f"{instructions}\n\nThis plan is being worked on:\n\n{standing}\n\nAnswer what was said. "
        "Only if the items that are pending have to change, answer instead with JSON alone: those "
        f"that are to take their place, of {items_max} items in all, fitting this schema:\n"
        f"{json.dumps(_SCHEMA)}"
    ).lstrip()


def tell_item(item: Item, states: Iterable[Progress]) -> str:
    """Put an item to whoever works on it, with what it builds on."""
    found = [one for one in states if one.item.id in item.after]
    if not found:
        return item.task
    return f"{item.task}\n\nWhat this builds on:\n\n{_results(found)}"


def tell_done(states: Iterable[Progress]) -> str:
    """Tell the main strand that every item is done."""
    return f"Every item of the plan is done.\n\n{_results(states)}\n\nNow answer the request."


def tell_failed(states: Sequence[Progress]) -> str:
    """Tell the main strand that the plan cannot go on."""
    done = [one for one in states if one.status == "done"]
    failed = "\n".join(f"- {one.item.id}: {one.error}" for one in states if one.error)
    left = ", ".join(one.item.id for one in states if one.status == "pending") or "none"
    return (
        f"The plan cannot go on. These items failed:\n{failed}\n\nThese were not begun: {left}\n\n"
        f"These are done:\n\n{_results(done) or 'none'}\n\nMake a plan for what is left. Items "
        "that are done stay done, and new ones can be after them."
    )


def _results(states: Iterable[Progress]) -> str:
    return "\n\n".join(
        f"[{one.item.id}] {one.item.task}\n{decode_value(one.result or b'null')}" for one in states
    )


def looks_like_plan(text: str) -> bool:
    """Tell a plan from a reply."""
    text = unfenced(text)
    return text.startswith("{") and '"items"' in text


def read_items(text: str, round: int) -> list[Item]:
    """Read the items of a plan, or say with `BadValue` what is wrong with it."""
    plan = decode_value(unfenced(text))
    if not isinstance(plan, dict) or plan.keys() != {"items"}:
        raise BadValue('a plan is an object with "items", and nothing else')
    items = cast("Any", plan)["items"]
    if not isinstance(items, list):
        raise BadValue('"items" is a list')
    return [_item(each, at, round) for at, each in enumerate(cast("list[Any]", items), start=1)]


def _item(given: Any, at: int, round: int) -> Item:
    if not isinstance(given, dict):
        raise BadValue(f'item {at} is no object with "id", "task" and "after"')
    item = cast("dict[str, Any]", given)
    if unknown := item.keys() - _FIELDS:
        raise BadValue(f"item {at} has {', '.join(sorted(unknown))}, which no item has")
    task = item.get("task")
    after: Any = item.get("after") or []
    if not isinstance(task, str) or not task.strip() or len(task) > TASK_MAX:
        raise BadValue(f'the "task" of item {at} is a text of 1 to {TASK_MAX:,} characters')
    if not isinstance(after, list):
        raise BadValue(f'"after" of item {at} is a list of ids')
    ids = tuple(dict.fromkeys(_id(each, at) for each in cast("list[Any]", after)))
    return Item(id=_id(item.get("id"), at), task=task.strip(), after=ids, round=round)


def _id(given: Any, at: int) -> str:
    # Many models number their items whatever the schema says.
    found = str(given) if type(given) is int else given
    if not isinstance(found, str) or not 0 < len(found.strip()) <= ID_MAX:
        raise BadValue(f"item {at} names an id that is not a text of 1 to {ID_MAX} characters")
    return found.strip()


def kept(states: Iterable[Progress], *, open_too: bool) -> list[Item]:
    """List the items that a new plan leaves as they are: those that are done, and `open_too` all
    that have begun.
    """
    stays = {"done", "failed", *OPEN} if open_too else {"done"}
    return [one.item for one in states if one.status in stays]
