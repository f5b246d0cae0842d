import json
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from sayso.agents.agent import Agent
from sayso.agents.tools import tool
from sayso.domain.message import UserMessage
from sayso.engine.ports import Answer, Driver, Reading
from sayso.errors import BadAgent, BadTool
from sayso.testing import ScriptedModel, say

MODEL = ScriptedModel([say("hello")])


@tool(approval=True)
def pay(amount: float) -> str:
    """Pay."""
    return "paid"


@tool
def look(at: str) -> str:
    """Look at something."""
    return at


class Invoice(BaseModel):
    number: int
    total: float = 0


@dataclass
class Point:
    x: float


def test_an_agent_is_what_the_engine_calls_a_driver() -> None:
    agent: Driver = Agent("teller", model=MODEL, tools=[pay])

    assert (agent.name, agent.version) == ("teller", "1")
    assert (agent.turns_max, agent.timeout_ms, agent.model_tries_max) == (50, 0, 4)
    assert agent.model is MODEL
    assert agent.tools == {"pay": pay}
    assert agent.check_for_intervention is None


def test_a_prompt_has_the_conversation_the_instructions_and_the_tools() -> None:
    agent = Agent("teller", model=MODEL, instructions="You pay.", tools=(pay, look))
    messages = (UserMessage(text="Pay Jiro"),)

    prompt = agent.prompt(messages)

    assert prompt.messages == messages
    assert prompt.instructions == "You pay."
    assert [spec.name for spec in prompt.tools] == ["pay", "look"]


@pytest.mark.parametrize("thing", [look.__wrapped__, lambda: 1, print, "pay", None, Point])
def test_what_is_no_tool_is_refused_with_what_to_do(thing: Any) -> None:
    with pytest.raises(BadTool, match="@tool"):
        Agent("teller", model=MODEL, tools=[thing])


def test_tools_cannot_be_changed_behind_the_agents_back() -> None:
    agent = Agent("teller", model=MODEL, tools=[pay])

    with pytest.raises(TypeError):
        agent.tools["other"] = pay


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä", "a" * 65, None, 3, "a\n"])
def test_a_name_that_providers_or_urls_would_not_take_is_refused(name: Any) -> None:
    with pytest.raises(BadAgent, match="cannot name an agent"):
        Agent(name, model=MODEL)


def missing(amount: "Amonut") -> None: ...  # noqa: F821


@pytest.mark.parametrize(
    "options, says",
    [
        ({"tools": [pay, pay]}, "two tools called 'pay'"),
        ({"tools": [look, tool(name="look")(pay.__wrapped__)]}, "two tools called 'look'"),
        ({"tools": "pay"}, "list of tools"),
        ({"tools": pay}, "list of tools"),
        ({"tools": None}, "list of tools"),
        ({"turns_max": 0}, "turns_max"),
        ({"turns_max": "many"}, "turns_max"),
        ({"timeout": "soon"}, "the timeout of the agent 'teller': 'soon' is not a duration"),
        ({"timeout": 0}, "the timeout of the agent 'teller'"),
        ({"timeout": True}, "the timeout of the agent 'teller'"),
        ({"model_tries_max": True}, "model_tries_max"),
        ({"instructions": None}, "instructions"),
        ({"version": 1}, "version"),
        ({"check_for_intervention": True}, "check_for_intervention"),
        ({"model": None}, "'openai:gpt-5'"),
        ({"model": "gpt-5"}, "'provider:name'"),
        ({"model": ":gpt-5"}, "'provider:name'"),
        ({"model": "openai:"}, "'provider:name'"),
    ],
)
def test_an_agent_that_could_not_work_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadAgent, match=says):
        Agent("teller", **{"model": MODEL} | options)


def test_a_tool_whose_types_never_came_is_refused() -> None:
    with pytest.raises(BadTool, match="Amonut"):
        Agent("teller", model=MODEL, tools=[tool(missing)])


def test_a_model_by_name_is_looked_up_once_and_late() -> None:
    agent = Agent("teller", model="nobody-knows:this")

    assert agent.model.name == "nobody-knows:this"
    assert agent.model is agent.model


@pytest.mark.parametrize("output", [None, str])
def test_without_a_type_the_text_is_the_result(output: Any) -> None:
    agent = Agent("teller", model=MODEL, output=output)

    assert agent.prompt(()).instructions == ""
    assert agent.conclude(Answer(text='{"a": 1}')) == Reading(output=b'"{\\"a\\": 1}"')
    assert agent.conclude(Answer()) == Reading(output=b'""')


@pytest.mark.parametrize("text", ["x" * 300_000, "\ud800"])
def test_text_that_cannot_be_kept_is_complained_about(text: str) -> None:
    reading = Agent("teller", model=MODEL).conclude(Answer(text=text))

    assert reading.output is None
    assert reading.complaint.startswith("Your answer cannot be used: ")


def test_the_type_of_the_result_is_part_of_the_instructions() -> None:
    agent = Agent("teller", model=MODEL, instructions="You pay.", output=Invoice)

    said = agent.prompt(()).instructions

    assert said.startswith("You pay.\n\n")
    assert "JSON only" in said
    assert json.loads(said.rpartition("\n")[2])["required"] == ["number"]


@pytest.mark.parametrize(
    "text",
    [
        '{"number": 7}',
        ' {"total": 0, "number": "7"}\n',
        '```json\n{"number": 7}\n```',
        '```\n{"number": 7}```',
        'Here it is:\n```json\n{"number": 7}\n```\nAnything else?',
    ],
)
def test_a_result_is_found_in_fences_and_made_canonical(text: str) -> None:
    reading = Agent("teller", model=MODEL, output=Invoice).conclude(Answer(text=text))

    assert reading == Reading(output=b'{"number":7,"total":0.0}')


@pytest.mark.parametrize(
    "text, says",
    [
        ("It is seven.", "not JSON"),
        ("", "not JSON"),
        ("{}", "'number' is missing"),
        ('{"number": "seven"}', "number: "),
        ('{"number": 7, "number": 8}', "same key twice"),
        ('{"number": 7, "total": NaN}', "NaN"),
        ("[" * 10_000, "not JSON"),
    ],
)
def test_a_result_that_does_not_fit_is_complained_about(text: str, says: str) -> None:
    reading = Agent("teller", model=MODEL, output=Invoice).conclude(Answer(text=text))

    assert reading.output is None
    assert says in reading.complaint


@pytest.mark.parametrize(
    "output, text, result",
    [(list[int], "[1, 2]", b"[1,2]"), (Point, '{"x": 1}', b'{"x":1.0}'), (bool, "true", b"true")],
)
def test_a_result_may_be_of_any_type(output: Any, text: str, result: bytes) -> None:
    agent = Agent("teller", model=MODEL, output=output)

    assert agent.conclude(Answer(text=text)) == Reading(output=result)


def test_a_type_without_a_schema_is_refused_when_it_is_needed() -> None:
    class Database: ...

    with pytest.raises(BadAgent, match="'teller'"):
        Agent("teller", model=MODEL, output=Database).prompt(())
