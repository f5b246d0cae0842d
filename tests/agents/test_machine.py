"""Making machines: what is refused, what models are offered, and how states become bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, Field

from sayso import Agent, Context, Failed, Instance, Machine, Node, Sayso, tool
from sayso.agents.machine_tool import CedeTool, SpawnTool, TransitionTool
from sayso.domain.tree import Kept, encode_kept
from sayso.domain.value import Principal
from sayso.errors import BadAgent, BadMove, BadTool, BadValue
from sayso.testing import ScriptedModel, call, say

MODEL = ScriptedModel([say("hi")])


@tool
def look(what: str) -> str:
    return what


@dataclass
class Cart:
    total: int
    lines: list[str] = field(default_factory=list)


class Order(BaseModel):
    number: int = 1
    size: str = Field(default="m", pattern="^[sml]$")


def make(*nodes: Any, root: Any = "a", **options: Any) -> Machine:
    return Machine("m", model=MODEL, nodes=nodes, root=root, **options)


@pytest.mark.parametrize(
    "nodes, root, match",
    [
        ((), "a", "the root"),
        ((Node("a"),), "b", "the root"),
        ((Node("a"),), None, "the root"),
        ((Node("a"), Node("a")), "a", "two nodes called 'a'"),
        ((Node("a", transitions=["b"]),), "a", "leads to 'b'"),
        ((Node("a", spawns=["b"]),), "a", "leads to 'b'"),
        (("a",), "a", "is not a node"),
        ((Node("a", state=Cart),), "a", "cannot begin at 'a'"),
        ((Node("a" * 60, transitions=["a" * 60]),), "a" * 60, "too long"),
    ],
)
def test_a_machine_that_could_not_work_is_refused(nodes: Any, root: Any, match: str):
    with pytest.raises(BadAgent, match=match):
        make(*nodes, root=root)


def test_a_machine_has_the_bounds_of_an_agent():
    assert (make(Node("a")).turns_max, make(Node("a")).timeout_ms) == (100, 0)
    assert make(Node("a"), turns_max=7, timeout="10m").timeout_ms == 600_000


@pytest.mark.parametrize("nodes", ["ab", Node("a"), 3])
def test_nodes_are_a_list(nodes: Any):
    with pytest.raises(BadAgent, match="a list of nodes"):
        Machine("m", model=MODEL, nodes=nodes, root="a")


@pytest.mark.parametrize(
    "options, match",
    [
        ({"name": "a.b"}, "cannot name a node"),
        ({"name": ""}, "cannot name a node"),
        ({"instructions": 3}, "is a text"),
        ({"description": None}, "is a text"),
        ({"transitions": "b"}, "list of names"),
        ({"transitions": [3]}, "by their names"),
        ({"spawns": ["b", "b"]}, "twice"),
        ({"tools": "look"}, "list of tools"),
        ({"commands": 3}, "list of tools"),
        ({"state": int}, "pydantic model, a dataclass or a JSON value"),
        ({"state": object()}, "no JSON"),
    ],
)
def test_a_node_that_could_not_work_is_refused(options: dict[str, Any], match: str):
    with pytest.raises(BadAgent, match=match):
        Node(**{"name": "a", **options})


def test_a_plain_function_is_no_tool_of_a_node():
    with pytest.raises(BadTool, match="plain function"):
        make(Node("a", tools=[lambda: 1]))  # type: ignore[list-item]


def test_one_name_is_one_tool_in_the_whole_machine():
    @tool(name="look")
    def other() -> None: ...

    @tool(name="cede")
    def mine() -> None: ...

    assert set(make(Node("a", tools=[look]), Node("b", tools=[look], commands=[look])).tools) == {
        "look"
    }
    with pytest.raises(BadAgent, match="called 'look'"):
        make(Node("a", tools=[look]), Node("b", tools=[other]))
    with pytest.raises(BadAgent, match="called 'look'"):
        make(Node("a", tools=[look]), Node("b", commands=[other]))
    with pytest.raises(BadAgent, match="'cede'"):
        make(Node("a", tools=[mine], spawns=["b"]), Node("b"))


@pytest.mark.parametrize(
    "state, given, made",
    [
        (None, None, {}),
        (None, {"x": 1}, {"x": 1}),
        ({"x": 1, "y": 2}, {"y": 3}, {"x": 1, "y": 3}),
        ([1], None, [1]),
        ([1], [2], [2]),
        (Order, None, {"number": 1, "size": "m"}),
        (Order(number=7), {"size": "s"}, {"number": 7, "size": "s"}),
        (Cart, {"total": 3}, {"total": 3, "lines": []}),
        (Cart(total=1), {"lines": ["x"]}, {"total": 1, "lines": ["x"]}),
    ],
)
def test_what_an_instance_begins_with(state: Any, given: Any, made: Any):
    data = None if given is None else json.dumps(given).encode()

    assert json.loads(Node("a", state=state).begin(data)) == made


@pytest.mark.parametrize(
    "state, given, error",
    [
        (Order, {"size": "xl"}, BadValue),
        (Order, {"colour": "red"}, BadValue),
        (Order, [1], BadValue),
        (Cart(total=1), {"total": "many"}, BadValue),
        (Cart, None, BadMove),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: Any, given: Any, error: type[Exception]):
    data = None if given is None else json.dumps(given).encode()

    with pytest.raises(error):
        Node("a", state=state).begin(data)


def test_the_schema_of_a_tool_has_its_definitions_at_its_root():
    class Line(BaseModel):
        sku: str

    class Basket(BaseModel):
        lines: list[Line]

    node = Node("till", state=Basket, description="where one pays")

    spec = TransitionTool(node).spec()
    assert spec.description == "Go to 'till': where one pays"
    assert spec.parameters["required"] == ["state"]
    assert list(spec.parameters["$defs"]) == ["Line"]
    assert "$defs" not in spec.parameters["properties"]["state"]
    spec = SpawnTool([node, Node("b")]).spec()
    assert spec.parameters["properties"]["node"]["enum"] == ["till", "b"]
    assert list(spec.parameters["$defs"]) == ["Line"]


def test_models_that_send_nothing_mean_nothing():
    assert CedeTool().freeze("") == b"{}"
    with pytest.raises(BadValue, match="does not know"):
        CedeTool().freeze('{"pay": 1}')
    with pytest.raises(BadValue, match="no state to begin with"):
        TransitionTool(Node("a", state=Cart)).freeze("{}")


def context(state: bytes = b'{"total":1}', ref: str = "1.0", data: Any = 0) -> Context:
    kept = encode_kept(Kept(node="desk", state=msgspec.Raw(state)))
    return Context(
        run_id="run_1",
        call_id=f"run_1.{ref}",
        key="k",
        attempt=1,
        by=Principal(id="ann"),
        agent="m",
        project="p",
        data=bytes(kept) if data == 0 else data,
        moves=[],
    )


def test_an_instance_reads_its_state_as_the_type_that_is_asked_for():
    me: Instance[Cart] = Instance(context(), Cart)

    assert (me.id, me.node, me.state) == ("main", "desk", Cart(total=1))
    me.update_state(lines=["x"])
    assert me.state == Cart(total=1, lines=["x"])
    with pytest.raises(BadValue):
        me.update_state(total="many")
    assert me.state.total == 1
    me.replace_state(Cart(total=9))
    assert me.state == Cart(total=9)


def test_a_state_without_fields_is_replaced_as_a_whole():
    me: Instance[Any] = Instance(context(b"[1]"))

    with pytest.raises(BadValue, match="replace it whole"):
        me.update_state(x=1)
    with pytest.raises(BadValue):
        me.replace_state(object())
    me.replace_state([2])
    assert me.state == [2]


def test_leaving_is_the_last_that_a_call_does():
    for leave in (lambda me: me.cede(), lambda me: me.transition("b")):
        me: Instance[Any] = Instance(context())
        leave(me)
        for act in (
            lambda me=me: me.update_state(x=1),
            lambda me=me: me.replace_state(1),
            lambda me=me: me.transition("c"),
            lambda me=me: me.spawn("c", "x"),
            lambda me=me: me.cede(),
            lambda me=me: me.resume(1),
        ):
            with pytest.raises(BadMove, match="the last"):
                act()


def test_an_agent_that_is_no_machine_has_no_instances():
    with pytest.raises(BadMove, match="no machine"):
        Instance(context(data=None))


async def test_a_tool_for_machines_fails_in_an_agent():
    @tool
    def mark(me: Instance) -> None:
        me.update_state(x=1)

    model = ScriptedModel([call("mark"), say("done")])
    async with Sayso("memory:", agents=[Agent("a", model=model, tools=[mark])]) as app:
        run = await app.start("a", "go", by="ann")
        view = await run.wait(final=True, timeout=20)

    (outcome,) = [one.outcome for one in view.messages if hasattr(one, "outcome")]
    assert isinstance(outcome, Failed)
    assert outcome.error == "BadMove"


def test_no_model_sees_the_instance():
    @tool
    def mark(me: Instance[Cart], ctx: Context, n: int) -> None:
        del me, ctx, n

    assert list(mark.spec().parameters["properties"]) == ["n"]


async def test_a_model_is_told_where_it_is_and_offered_what_is_there():
    seen: list[Any] = []

    class Watching(ScriptedModel):
        async def answer(self, prompt: Any, emit: Any) -> Any:
            seen.append((prompt.instructions, sorted(tool.name for tool in prompt.tools)))
            return await super().answer(prompt, emit)

    def turn(messages: Any) -> Any:
        if messages[0].text == "task":
            return say("done")
        return [
            call("spawn", {"node": "b", "input": "task"}) if len(messages) == 1 else say("x"),
        ]

    machine = Machine(
        "m",
        model=Watching(turn),
        root="a",
        nodes=[
            Node("a", instructions="Sell.", tools=[look], transitions=["b"], spawns=["b"]),
            Node("b", state={"n": 1}, commands=[look]),
        ],
    )
    async with Sayso("memory:", agents=[machine]) as app:
        run = await app.start("m", "go", by="ann")
        await run.wait(final=True, timeout=20)

    assert seen[0] == (
        "Sell.\n\nYou are at 'a'. What you know here: {}",
        ["look", "spawn", "transition_to_b"],
    )
    assert ("You are at 'b'. What you know here: {\"n\":1}", ["cede"]) in seen
    assert repr(machine) == "<machine 'm'>"
    assert repr(machine.nodes["a"]) == "<node 'a'>"
