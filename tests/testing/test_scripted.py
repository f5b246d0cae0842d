import asyncio
from typing import Any

import pytest

from sayso.domain.message import AssistantMessage, Message, UserMessage
from sayso.engine.ports import Answer, AskedCall, Model, Prompt
from sayso.errors import ModelFailed
from sayso.testing import ScriptedModel, call, say

USER = UserMessage(text="Pay")
ASSISTANT = AssistantMessage(text="Well.")


def ask(model: Model, *messages: Message) -> tuple[Answer, list[str]]:
    emitted: list[str] = []
    answer = asyncio.run(model.answer(Prompt(messages=messages), emitted.append))
    return answer, emitted


def test_turns_are_given_by_the_answers_that_are_there_already() -> None:
    script = [call("pay", {"amount": 200}), say("Paid.")]

    first, _ = ask(ScriptedModel(script), USER)
    second, _ = ask(ScriptedModel(script), USER, ASSISTANT, USER)

    assert first.calls == (AskedCall(tool="pay", args='{"amount": 200}'),)
    assert second == Answer(text="Paid.")


def test_asking_again_gives_the_same_turn() -> None:
    model = ScriptedModel([say("one"), say("two")])

    assert ask(model, USER) == ask(model, USER)


def test_a_turn_may_be_several_things() -> None:
    model = ScriptedModel([[say("Two at once: "), call("a", id="x"), call("b"), say("there.")]])

    answer, _ = ask(model, USER)

    assert answer.text == "Two at once: there."
    assert [(asked.tool, asked.given) for asked in answer.calls] == [("a", "x"), ("b", "")]


def test_arguments_as_text_are_sent_as_they_are() -> None:
    assert call("pay", '{"amount": ').args == '{"amount": '
    assert call("pay").args == "{}"
    assert call("pay", {"amount": float("nan")}).args == '{"amount": NaN}'


@pytest.mark.parametrize("text", ["Paid 200 dollars.", "", " a\n\nb ", "one"])
def test_text_comes_word_by_word(text: str) -> None:
    answer, emitted = ask(ScriptedModel([say(text)]), USER)

    assert "".join(emitted) == answer.text == text
    assert len(emitted) == max(len(text.split()), 0) + text.startswith(" ")


def test_a_script_that_is_over_says_so_and_is_not_tried_again() -> None:
    with pytest.raises(ModelFailed, match="2 turns, and turn 3 is due") as caught:
        ask(ScriptedModel([say("one"), say("two")]), USER, ASSISTANT, ASSISTANT)

    assert caught.value.retryable is False


def test_an_error_in_a_script_is_raised_once_and_is_no_turn() -> None:
    model = ScriptedModel([say("one"), ModelFailed("busy", retryable=True), say("two")])

    assert ask(model, USER)[0].text == "one"
    with pytest.raises(ModelFailed, match="busy"):
        ask(model, USER, ASSISTANT)
    assert ask(model, USER, ASSISTANT)[0].text == "two"


def test_a_function_makes_turns_of_the_messages() -> None:
    def sync(messages: tuple[Message, ...]) -> Any:
        return say(f"{len(messages)} messages")

    async def later(messages: tuple[Message, ...]) -> Any:
        return [say(f"{len(messages)} messages")]

    for fn in (sync, later):
        assert ask(ScriptedModel(fn), USER, ASSISTANT)[0].text == "2 messages"


@pytest.mark.parametrize("turn", [["hello"], [None], "hello", None])
def test_what_is_not_a_turn_is_refused(turn: Any) -> None:
    with pytest.raises(ModelFailed, match="a turn is"):
        ask(ScriptedModel([turn]), USER)
    with pytest.raises(ModelFailed, match="a turn is"):
        ask(ScriptedModel(lambda _: turn), USER)
