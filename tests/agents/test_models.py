"""Models by name, through the real `openai` client, against a provider on this machine."""

import asyncio
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from sayso.agents.agent import Agent
from sayso.agents.models import resolve
from sayso.agents.models.pydantic_ai import PydanticAIModel
from sayso.agents.tools import tool
from sayso.domain.call import Call, Declined, Failed, Outcome, Returned, Unknown, call_id
from sayso.domain.digest import encode_value
from sayso.domain.message import AssistantMessage, Message, ToolMessage, UserMessage
from sayso.engine.ports import Answer, AskedCall, Prompt
from sayso.errors import BadAgent, ModelFailed

from .openai_server import OpenAIServer, Reply, anthropic, chat, responses, serving

KEY = "sk-test-0123456789abcdef"
USER = UserMessage(text="Pay Jiro 200 dollars")
CHAT = "openai-chat:test-1"
RESPONSES = "openai:test-1"
ANTHROPIC = "anthropic:test-1"
NOT_ALLOWED = "This call is not allowed. Do not try again; find another way or explain."


@tool
def pay(amount: float, to: str = "Jiro") -> str:
    """Pay somebody."""
    return f"{amount} to {to}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        yield server


def ask(*messages: Message, name: str = CHAT) -> tuple[Answer, list[str]]:
    agent = Agent("teller", model=name, instructions="You pay.", tools=[pay])
    emitted: list[str] = []

    async def one_turn() -> Answer:
        try:
            return await agent.model.answer(agent.prompt(messages), emitted.append)
        finally:
            await agent.model.aclose()

    return asyncio.run(one_turn()), emitted


def fails(*messages: Message, name: str = CHAT) -> ModelFailed:
    with pytest.raises(ModelFailed) as caught:
        ask(*messages, name=name)
    return caught.value


def recorded(answer: Answer, turn: int = 0, *, raw: bool = True) -> AssistantMessage:
    """Make a message of an answer, as the journal does."""
    calls: list[Call] = []
    for index, asked in enumerate(answer.calls):
        try:
            args, text = encode_value(json.loads(asked.args)), ""
        except ValueError:
            args, text = b"{}", asked.args
        calls.append(
            Call(
                ref=f"{turn}.{index}",
                tool=asked.tool,
                args=msgspec.Raw(args),
                given=asked.given,
                text=text,
            )
        )
    return AssistantMessage(
        text=answer.text,
        calls=tuple(calls),
        raw=msgspec.Raw(answer.raw) if raw and answer.raw is not None else None,
        model=CHAT,
    )


def outcomes(message: AssistantMessage, *found: Outcome, note: str = "") -> list[ToolMessage]:
    return [
        ToolMessage(
            call_id=call_id("run_1", call.ref),
            tool=call.tool,
            outcome=outcome,
            given=call.given,
            note=note,
        )
        for call, outcome in zip(message.calls, found, strict=True)
    ]


def returned(value: Any) -> Returned:
    return Returned(value=msgspec.Raw(encode_value(value)))


def test_instructions_tools_and_conversation_are_sent(server: OpenAIServer) -> None:
    server.says(chat("Hello."))

    ask(USER)

    request = server.requests[0]
    assert server.paths == ["/v1/chat/completions"]
    assert request["model"] == "test-1"
    assert request["messages"] == [
        {"role": "system", "content": "You pay."},
        {"role": "user", "content": "Pay Jiro 200 dollars"},
    ]
    function = request["tools"][0]["function"]
    assert (function["name"], function["description"]) == ("pay", "Pay somebody.")
    assert function["parameters"]["required"] == ["amount"]


def test_text_is_handed_on_as_it_comes(server: OpenAIServer) -> None:
    server.says(chat("It ", "is ", "done."))

    answer, emitted = ask(USER)

    assert emitted == ["It ", "is ", "done."]
    assert answer.text == "It is done."
    assert answer.calls == ()
    assert answer.usage == {"input_tokens": 11, "output_tokens": 7}


def test_several_calls_of_one_turn_come_in_order(server: OpenAIServer) -> None:
    server.says(chat("Two.", ("a", "pay", '{"amount": 1}'), ("b", "pay", '{"amount": 2}')))

    answer, _ = ask(USER)

    assert answer.text == "Two."
    assert answer.calls == (
        AskedCall(tool="pay", args='{"amount": 1}', given="a"),
        AskedCall(tool="pay", args='{"amount": 2}', given="b"),
    )


@pytest.mark.parametrize("args", ['{"amount": ', "", "null", "[]", '{"amount": NaN}', "pay!"])
def test_arguments_come_as_they_were_written(server: OpenAIServer, args: str) -> None:
    server.says(chat(("a", "pay", args)))

    answer, _ = ask(USER)

    assert answer.calls == (AskedCall(tool="pay", args=args, given="a"),)


def test_what_the_provider_said_goes_back_to_it(server: OpenAIServer) -> None:
    server.says(chat("One moment.", ("call_9", "pay", '{"amount":200}')), chat("Paid."))
    first = recorded(ask(USER)[0])

    ask(USER, first, *outcomes(first, returned({"ok": True})))

    assert server.requests[1]["messages"][2:] == [
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [
                {
                    "id": "call_9",
                    "type": "function",
                    "function": {"name": "pay", "arguments": '{"amount":200}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_9", "content": '{"ok":true}'},
    ]


@pytest.mark.parametrize("raw", [None, b"{}", b'[{"kind":"from the future"}]', b"[]"])
def test_what_cannot_be_read_back_is_rebuilt_from_our_own_copy(
    server: OpenAIServer, raw: bytes | None
) -> None:
    server.says(chat("One moment.", ("call_9", "pay", '{"amount": 200}')), chat("Paid."))
    first = msgspec.structs.replace(
        recorded(ask(USER)[0]), raw=None if raw is None else msgspec.Raw(raw)
    )

    ask(USER, first, *outcomes(first, returned("ok")))

    assistant, result = server.requests[1]["messages"][2:]
    assert assistant["content"] == "One moment."
    assert [(call["id"], call["function"]["arguments"]) for call in assistant["tool_calls"]] == [
        ("call_9", '{"amount":200}')
    ]
    assert result == {"role": "tool", "tool_call_id": "call_9", "content": "ok"}


@pytest.mark.parametrize("others", [(), (("a", "pay", "{}"), ("b", "pay", "{}"))])
def test_what_does_not_match_our_own_copy_is_not_sent_back(
    server: OpenAIServer, others: tuple[tuple[str, str, str], ...]
) -> None:
    server.says(chat("Well.", *others), chat(("call_9", "pay", '{"amount": 200}')), chat("Paid."))
    other, _ = ask(USER)
    first = msgspec.structs.replace(recorded(ask(USER)[0]), raw=msgspec.Raw(other.raw))

    ask(USER, first, *outcomes(first, returned("ok")))

    calls = server.requests[2]["messages"][2]["tool_calls"]
    assert [call["id"] for call in calls] == ["call_9"]


@pytest.mark.parametrize("raw", [True, False], ids=["restored", "rebuilt"])
@pytest.mark.parametrize("given", ["call_0", "", None], ids=["repeated", "empty", "missing"])
def test_repeated_and_missing_ids_are_told_apart_on_both_sides(
    server: OpenAIServer, given: str | None, raw: bool
) -> None:
    two = chat((given, "pay", '{"amount": 1}'), (given, "pay", '{"amount": 2}'))
    server.says(two, two, chat("Paid."))
    first = recorded(ask(USER)[0], turn=0, raw=raw)
    after = (USER, first, *outcomes(first, returned("one"), returned("two")))
    second = recorded(ask(*after)[0], turn=1, raw=raw)
    # Outcomes may be recorded in any order.
    ask(*after, second, *reversed(outcomes(second, returned("three"), returned("four"))))

    for request in server.requests[1:]:
        calls = [
            (call["id"], call["function"]["arguments"])
            for message in request["messages"]
            for call in message.get("tool_calls", ())
        ]
        results = {
            message["tool_call_id"]: message["content"]
            for message in request["messages"]
            if message["role"] == "tool"
        }
        said = ["one", "two", "three", "four"][: len(calls)]
        assert [results[given] for given, _ in calls] == said
        assert len(results) == len(calls)
    assert server.requests[2]["messages"][:5] == server.requests[1]["messages"]


def test_ids_of_earlier_runs_of_the_thread_are_told_apart(server: OpenAIServer) -> None:
    server.says(chat(("call_0", "pay", '{"amount": 1}')), chat("Paid."))
    first = recorded(ask(USER)[0])
    again = (first, *outcomes(first, returned("ok")), USER)

    ask(USER, *again, *again)

    ids = [
        call["id"]
        for message in server.requests[1]["messages"]
        for call in message.get("tool_calls", ())
    ]
    assert ids == ["call_0", "call_0_2"]


@pytest.mark.parametrize(
    "outcome, sent",
    [
        (returned(None), None),
        (returned("ok"), "ok"),
        (returned([1, 2.0]), [1, 2.0]),
        (
            Failed(message="no such account", error="LookupError"),
            {"error": "LookupError: no such account"},
        ),
        (
            Declined(reason="too much", by="mira"),
            {
                "status": "declined",
                "reason": "too much",
                "by": "mira",
                "advice": "A person said no. Do not try again; find another way or explain.",
            },
        ),
        (
            Declined(reason="nobody decided in time", by="clock:clock"),
            {
                "status": "declined",
                "reason": "nobody decided in time",
                "by": "clock:clock",
                "advice": NOT_ALLOWED,
            },
        ),
        (
            Unknown(reason="the connection was lost"),
            {
                "status": "unknown_outcome",
                "reason": "the connection was lost",
                "advice": "Nobody knows whether this happened. Do not repeat this action.",
            },
        ),
    ],
    ids=["null", "text", "list", "failed", "declined", "late", "unknown"],
)
def test_every_outcome_is_told_in_words_a_model_can_act_on(
    server: OpenAIServer, outcome: Outcome, sent: Any
) -> None:
    server.says(chat(("a", "pay", '{"amount": 1}')), chat("I see."), chat("I see."))
    first = recorded(ask(USER)[0])

    ask(USER, first, *outcomes(first, outcome))
    ask(USER, first, *outcomes(first, outcome, note="A person edited the arguments."))

    plain, noted = (request["messages"][-1]["content"] for request in server.requests[1:])
    assert (plain if isinstance(sent, str) else json.loads(plain)) == sent
    assert "A person edited the arguments." in noted
    assert "result" not in noted or json.loads(noted)["result"] == sent


def test_a_call_whose_outcome_is_not_in_the_history_gets_one(server: OpenAIServer) -> None:
    server.says(chat(("a", "pay", '{"amount": 1}')), chat("I see."))
    first = recorded(ask(USER)[0])

    ask(USER, first, UserMessage(text="And?"))

    result, said = server.requests[1]["messages"][-2:]
    assert json.loads(result["content"])["status"] == "unknown_outcome"
    assert said == {"role": "user", "content": "And?"}


def test_an_outcome_whose_call_is_not_in_the_history_is_still_told(server: OpenAIServer) -> None:
    server.says(chat("I see."))

    ask(USER, ToolMessage(call_id="run_0.0.0", tool="pay", outcome=returned("ok")))

    assert server.requests[0]["messages"][-1]["content"] == "The tool pay gave: ok"


def test_invalid_arguments_go_back_marked_as_such(server: OpenAIServer) -> None:
    server.says(chat(("a", "pay", '{"amount": ')), chat("Sorry."))
    first = recorded(ask(USER)[0])

    ask(USER, first, *outcomes(first, Failed(message="this is not JSON")))

    call = server.requests[1]["messages"][2]["tool_calls"][0]
    assert json.loads(call["function"]["arguments"]) == {"INVALID_JSON": '{"amount": '}


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_passing_trouble_may_be_tried_again(server: OpenAIServer, status: int) -> None:
    server.says(Reply(status=status, body={"error": {"message": "busy"}}), chat("Hello."))

    error = fails(USER)

    assert error.retryable is True
    assert str(error) == f"{CHAT} answered HTTP {status}: busy"
    assert len(server.requests) == 1, "the client tried again by itself"
    assert ask(USER)[0].text == "Hello."


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_refusal_is_final(server: OpenAIServer, status: int) -> None:
    server.says(Reply(status=status, body={"error": {"message": "no"}}))

    error = fails(USER)

    assert error.retryable is False
    assert str(status) in str(error)


def test_the_provider_says_how_long_to_wait(server: OpenAIServer) -> None:
    server.says(Reply(status=429, body={"error": {}}, headers={"Retry-After": "3"}))

    assert fails(USER).retry_after_ms == 3000


def test_a_wait_without_end_is_a_day(server: OpenAIServer) -> None:
    endless = "1" + "0" * 306
    server.says(Reply(status=429, body={"error": {}}, headers={"Retry-After": endless}))

    error = fails(USER)

    assert (error.retryable, error.retry_after_ms) == (True, 86_400_000)


@pytest.mark.parametrize(
    "said", [f"Incorrect API key provided: {KEY}.", "Bearer abc.def.ghi", "sk-proj-abcdefghijkl"]
)
def test_no_key_gets_into_a_message(server: OpenAIServer, said: str) -> None:
    server.says(Reply(status=401, body={"error": {"message": said}}))

    error = fails(USER)

    assert said.rsplit(maxsplit=1)[-1].rstrip(".") not in str(error)
    assert "[key]" in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_a_server_that_is_not_there_may_be_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)

    assert fails(USER).retryable is True


@pytest.mark.parametrize("end", ["reset", "close"])
def test_an_answer_that_was_cut_off_is_no_answer(server: OpenAIServer, end: str) -> None:
    server.says(chat("You owe 1", finish=None, end=end))

    assert fails(USER).retryable is True


def test_a_call_that_was_cut_off_is_no_call(server: OpenAIServer) -> None:
    server.says(chat(("a", "pay", '{"amount": 1}'), finish=None, end="close"))

    assert fails(USER).retryable is True


def test_a_refusal_to_answer_is_no_answer(server: OpenAIServer) -> None:
    delta = {"role": "assistant", "content": None, "refusal": "I will not."}
    refusal = chat(finish="stop")
    refusal.events[0]["choices"][0]["delta"] = delta
    server.says(refusal)

    error = fails(USER)

    assert error.retryable is False
    assert "I will not." in str(error)


def test_settings_reach_the_provider(server: OpenAIServer) -> None:
    model = PydanticAIModel(CHAT, settings={"temperature": 0.5, "max_tokens": 100})
    server.says(Reply(status=503, body={}), chat("Hello."))

    async def turn() -> Answer:
        try:
            return await model.answer(Prompt(messages=(USER,)), lambda _: None)
        finally:
            await model.aclose()

    with pytest.raises(ModelFailed):
        asyncio.run(turn())
    asyncio.run(turn())

    request = server.requests[1]
    assert (request["temperature"], request["max_completion_tokens"]) == (0.5, 100)


def test_a_body_that_is_no_stream_is_no_answer(server: OpenAIServer) -> None:
    server.says(Reply([{"nonsense": True}]))

    assert fails(USER).retryable is True


def test_halves_of_characters_are_joined_and_lone_ones_replaced(server: OpenAIServer) -> None:
    server.says(chat("\ud83d", "\ude00 \ud800", ("a", "pay", '{"to": "\udc00"}')))

    answer, _ = ask(USER)

    assert answer.text == "\N{GRINNING FACE} \N{REPLACEMENT CHARACTER}"
    assert answer.calls[0].args == '{"to": "\N{REPLACEMENT CHARACTER}"}'
    assert msgspec.json.encode(answer)


def test_the_responses_wire_works_alike(server: OpenAIServer) -> None:
    server.says(
        responses("One moment", ("call_1", "pay", '{"amount": 1}'), ("call_1", "pay", "{}")),
        responses("Paid."),
    )
    answer, emitted = ask(USER, name=RESPONSES)
    first = recorded(answer)

    ask(USER, first, *outcomes(first, returned("ok"), Declined(reason="no")), name=RESPONSES)

    assert server.paths == ["/v1/responses"] * 2
    assert emitted == ["One ", "moment "]
    assert [asked.given for asked in answer.calls] == ["call_1", "call_1"]
    sent = server.requests[1]["input"]
    made = [item["call_id"] for item in sent if item.get("type") == "function_call"]
    told = {
        item["call_id"]: item["output"]
        for item in sent
        if item.get("type") == "function_call_output"
    }
    assert made == ["call_1", "call_1_2"]
    assert told["call_1"] == "ok"
    assert json.loads(told["call_1_2"])["status"] == "declined"


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_cut_on_the_responses_wire_is_no_answer(server: OpenAIServer, end: str) -> None:
    server.says(responses("You owe 1", end=end))

    assert fails(USER, name=RESPONSES).retryable is True


def test_the_wire_of_anthropic_works_alike(server: OpenAIServer) -> None:
    server.says(
        anthropic("One moment", ("toolu_1", "pay", '{"amount": 1}'), ("toolu_1", "pay", "{}")),
        anthropic("Paid."),
    )
    answer, emitted = ask(USER, name=ANTHROPIC)
    first = recorded(answer)

    told = outcomes(first, Failed(message="broken"), Declined(reason="no"))
    ask(USER, first, *told, name=ANTHROPIC)

    assert [path.partition("?")[0] for path in server.paths] == ["/v1/messages"] * 2
    assert emitted == ["One moment"]
    assert [asked.given for asked in answer.calls] == ["toolu_1", "toolu_1"]
    _, assistant, results = server.requests[1]["messages"]
    made = [part["id"] for part in assistant["content"] if part["type"] == "tool_use"]
    assert made == ["toolu_1", "toolu_1_2"]
    failed, declined = results["content"]
    assert (failed["tool_use_id"], failed["is_error"]) == ("toolu_1", True)
    assert (declined["tool_use_id"], declined["is_error"]) == ("toolu_1_2", False)


@pytest.mark.parametrize("end", ["reset", "close"])
def test_a_cut_on_the_wire_of_anthropic_is_no_answer(server: OpenAIServer, end: str) -> None:
    server.says(anthropic("You owe 1", end=end))

    assert fails(USER, name=ANTHROPIC).retryable is True


def test_an_overloaded_anthropic_is_asked_once(server: OpenAIServer) -> None:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    server.says(Reply(status=529, body=body))

    error = fails(USER, name=ANTHROPIC)

    assert error.retryable is True
    assert "Overloaded" in str(error)
    assert len(server.requests) == 1


async def test_many_turns_at_once_share_one_model(server: OpenAIServer) -> None:
    model = resolve(CHAT)
    server.says(*[chat("Hello.") for _ in range(20)])

    async with asyncio.TaskGroup() as group:
        turns = [
            group.create_task(model.answer(Prompt(messages=(USER,)), lambda _: None))
            for _ in range(20)
        ]
    await model.aclose()

    assert {turn.result().text for turn in turns} == {"Hello."}


def test_a_model_outlives_its_event_loop(server: OpenAIServer) -> None:
    model = resolve(CHAT)
    server.says(chat("one"), chat("two"))

    async def turn() -> str:
        answer = await model.answer(Prompt(messages=(USER,)), lambda _: None)
        await model.aclose()
        return answer.text

    assert [asyncio.run(turn()), asyncio.run(turn())] == ["one", "two"]


@pytest.mark.parametrize("name", ["", "gpt-5", ":gpt-5", "openai:"])
def test_what_is_no_name_of_a_model_is_refused(name: str) -> None:
    with pytest.raises(BadAgent, match="provider:name"):
        resolve(name)


@pytest.mark.parametrize(
    "name, says", [("nobody:gpt-5", "Unknown model"), ("groq:llama", "pip install")]
)
async def test_a_provider_that_is_not_there_is_a_bad_agent(name: str, says: str) -> None:
    with pytest.raises(BadAgent, match=says):
        await resolve(name).answer(Prompt(messages=(USER,)), lambda _: None)


def test_without_the_extra_the_message_says_what_to_install() -> None:
    program = """
        import sys
        sys.modules["pydantic_ai"] = None
        from sayso.agents.agent import Agent
        from sayso.errors import BadAgent
        try:
            Agent("teller", model="openai:gpt-5").model
        except BadAgent as error:
            print(error)
        """

    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True
    ).stdout

    assert b'pip install "sayso[models]"' in printed


def test_a_model_is_named_without_importing_anything() -> None:
    program = """
        import sys
        from sayso.agents.models import resolve
        print(resolve("openai:gpt-5").name)
        print(*{name.partition(".")[0] for name in sys.modules})
        """

    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True
    ).stdout.decode()

    assert printed.startswith("openai:gpt-5\n")
    assert {"pydantic", "pydantic_ai", "openai"}.isdisjoint(printed.split())
