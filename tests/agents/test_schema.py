"""From what a model wrote to the bytes that are shown, decided on and executed."""

import asyncio
import json
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, Json, PlainSerializer
from typing_extensions import TypedDict

from sayso.agents.tools import FunctionTool, tool
from sayso.domain.digest import BYTES_MAX, encode_value
from sayso.domain.value import Principal
from sayso.engine.ports import Context
from sayso.errors import BadTool, BadValue

CTX = Context(
    run_id="run_1",
    call_id="run_1.0.0",
    key="key_1",
    attempt=1,
    by=Principal(id="mira"),
    agent="teller",
    project="default",
)


class Colour(StrEnum):
    RED = "red"


class Size(Enum):
    BIG = 10


@dataclass
class Point:
    x: float
    y: float = 0


class Card(TypedDict, total=False):
    number: str


class Address(BaseModel):
    street: str
    post_code: str = Field(alias="postCode", default="")


class Payment(BaseModel):
    to: Address
    amount: Decimal


@tool
async def pay(amount: float, recipient: str, currency: str = "USD") -> str:
    return f"{amount} {currency} to {recipient}"


@tool
def nothing() -> str:
    return "done"


def taking(kind: Any, default: Any = ...) -> FunctionTool[..., Any]:
    """Make a tool with one parameter that remembers what it was called with."""

    seen: list[Any] = []

    def taken(value):
        seen.append(value)

    taken.__annotations__["value"] = kind
    taken.__defaults__ = None if default is ... else (default,)
    made = tool(taken)
    made.seen = seen
    return made


def freeze(made: FunctionTool[..., Any], value: Any) -> Any:
    return json.loads(made.freeze(json.dumps({"value": value})))["value"]


def test_defaults_are_filled_in_and_numbers_become_what_was_asked_for() -> None:
    frozen = pay.freeze('{"recipient": "Jiro", "amount": 200}')

    assert frozen == b'{"amount":200.0,"currency":"USD","recipient":"Jiro"}'


def test_frozen_bytes_are_frozen_for_good() -> None:
    frozen = pay.freeze('{"recipient": "Jiro", "amount": "200"}')

    assert pay.freeze(frozen) == frozen


@pytest.mark.parametrize(
    "kind, given, frozen, called",
    [
        (int, 10**30, 10**30, 10**30),
        (float, 5, 5.0, 5.0),
        (bool, True, True, True),
        (list[float], [1, 2], [1.0, 2.0], [1.0, 2.0]),
        (dict[str, int], {"b": 1, "a": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 1}),
        (int | None, None, None, None),
        (Optional[str], "x", "x", "x"),  # noqa: UP045
        (Any, {"a": [1, 2.0]}, {"a": [1, 2.0]}, {"a": [1, 2.0]}),
        (Literal["card", "cash"], "cash", "cash", "cash"),
        (tuple[int, str], [1, "a"], [1, "a"], (1, "a")),
        (bytes, "ab", "ab", b"ab"),
        (Colour, "red", "red", Colour.RED),
        (Size, 10, 10, Size.BIG),
        (Point, {"x": 1}, {"x": 1.0, "y": 0.0}, Point(1.0, 0.0)),
        (Card, {"number": "1"}, {"number": "1"}, {"number": "1"}),
        (datetime, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z", None),
        (date, "2026-01-02", "2026-01-02", date(2026, 1, 2)),
        (timedelta, 90, "PT1M30S", timedelta(seconds=90)),
        (Decimal, 12.50, "12.5", Decimal("12.5")),
        (Decimal, "12.50", "12.50", Decimal("12.50")),
        (
            UUID,
            "12345678123456781234567812345678",
            None,
            UUID(int=0x12345678123456781234567812345678),
        ),
        (Json[list[int]], "[1, 2]", "[1,2]", [1, 2]),
        (Address, {"street": "a", "postCode": "b"}, {"street": "a", "postCode": "b"}, None),
        (
            Payment,
            {"to": {"street": "a"}, "amount": 1},
            {"to": {"street": "a", "postCode": ""}, "amount": "1"},
            Payment(to=Address(street="a"), amount=Decimal(1)),
        ),
        (list[Payment], [], [], []),
    ],
    ids=str,
)
def test_every_kind_of_parameter_is_frozen_and_called_with(
    kind: Any, given: Any, frozen: Any, called: Any
) -> None:
    made = taking(kind)

    data = made.freeze(json.dumps({"value": given}))
    asyncio.run(made.call(CTX, data))

    assert frozen is None or json.loads(data)["value"] == frozen
    assert called is None or made.seen == [called]
    assert called is None or type(made.seen[0]) is type(called)
    assert made.freeze(data) == data


def test_a_set_survives_whatever_order_it_comes_in() -> None:
    made = taking(set[int])

    for start in range(64):
        asyncio.run(made.call(CTX, made.freeze(json.dumps({"value": [start, start + 64, 7]}))))

    assert made.seen[8] == {8, 72, 7}


@pytest.mark.parametrize("default", [None, 3])
def test_a_default_is_validated_and_none_needs_no_optional(default: Any) -> None:
    made = taking(float, default)

    assert json.loads(made.freeze("{}")) == {"value": default}
    assert freeze(made, None if default is None else 1) == (None if default is None else 1.0)


TAGS = Field(default_factory=list, description="Which.")


def test_a_field_may_stand_where_a_default_does() -> None:
    @tool
    def look(tags: list[str] = TAGS) -> list[str]:
        return tags

    assert look.freeze("{}") == b'{"tags":[]}'
    assert look.spec().parameters["properties"]["tags"]["description"] == "Which."


def test_parameters_may_be_called_anything() -> None:
    @tool
    def look(json: int, _x: int, model_config: int, schema: int, a1: int, self_: int) -> list[int]:
        return [json, _x, model_config, schema, a1, self_]

    names = ["json", "_x", "model_config", "schema", "a1", "self_"]
    frozen = look.freeze(json.dumps(dict.fromkeys(names, 1)))

    assert asyncio.run(look.call(CTX, frozen)) == b"[1,1,1,1,1,1]"
    assert list(look.spec().parameters["properties"]) == names


def test_an_alias_is_the_name_that_models_and_people_see() -> None:
    @tool
    def send(from_: Annotated[str, Field(alias="from")]) -> str:
        return from_

    frozen = send.freeze('{"from": "mira"}')

    assert frozen == b'{"from":"mira"}'
    assert asyncio.run(send.call(CTX, frozen)) == b'"mira"'


def test_the_schema_says_what_the_signature_says() -> None:
    @tool
    def send(
        to: Annotated[str, "Whom."],
        amount: Annotated[float, Field(gt=0, description="How much.")],
        how: Literal["card", "cash"] = "card",
        note: Annotated[str, "For the books."] = None,  # noqa: RUF013
    ) -> None:
        """Send money."""

    spec = send.spec()

    assert (spec.name, spec.description) == ("send", "Send money.")
    assert spec.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["to", "amount"],
        "properties": {
            "to": {"type": "string", "description": "Whom."},
            "amount": {"type": "number", "exclusiveMinimum": 0, "description": "How much."},
            "how": {"type": "string", "enum": ["card", "cash"], "default": "card"},
            "note": {
                "anyOf": [{"type": "string"}, {"type": "null"}],
                "default": None,
                "description": "For the books.",
            },
        },
    }


@pytest.mark.parametrize("made", [pay, nothing, taking(Payment), taking(list[Point], [])])
def test_a_schema_is_json(made: FunctionTool[..., Any]) -> None:
    assert encode_value(made.spec().parameters)


@pytest.mark.parametrize("raw", ["", " ", "null", "{}", b"", b"{}", " {} "])
def test_nothing_is_enough_for_a_tool_without_arguments(raw: str | bytes) -> None:
    assert nothing.freeze(raw) == b"{}"


@pytest.mark.parametrize("raw", ["[]", "0", '""', '{"a": 1}', "{", "nul"])
def test_a_tool_without_arguments_takes_no_others(raw: str) -> None:
    with pytest.raises(BadValue):
        nothing.freeze(raw)


@pytest.mark.parametrize("raw", ["", "null", "[]", '"x"', "3", "{", '{"amount": 1'])
def test_arguments_are_one_json_object(raw: str) -> None:
    with pytest.raises(BadValue):
        pay.freeze(raw)


@pytest.mark.parametrize(
    "raw, says",
    [
        ('{"recipient": "Jiro"}', "'amount' is missing"),
        ('{"recipient": "Jiro", "amount": "much"}', "amount: .*valid number"),
        ('{"recipient": "Jiro", "amount": 1, "memo": "x"}', "there is no argument 'memo'"),
        ('{"recipient": "Jiro", "amount": 1, "amount": 2}', "same key twice"),
    ],
)
def test_a_refusal_says_what_does_not_fit(raw: str, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        pay.freeze(raw)


def test_arguments_invented_inside_a_dataclass_are_refused_too() -> None:
    with pytest.raises(BadValue, match=r"there is no argument 'value\.z'"):
        freeze(taking(Point), {"x": 1, "z": 2})


def test_a_refusal_stays_short_however_much_is_wrong() -> None:
    with pytest.raises(BadValue, match="and 990 more") as caught:
        freeze(taking(list[int]), ["x"] * 1000)

    assert len(str(caught.value)) < 2000


DEEP = "[" * 10_000 + "]" * 10_000


@pytest.mark.parametrize(
    "value",
    [
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        '"\\ud800"',
        '"\ud800"',
        '{"\\udfff": 1}',
        DEEP,
        DEEP.replace("[", '{"a":').replace("]", "}").replace(":}", ":1}"),
        '"' + "x" * BYTES_MAX + '"',
        "9" * 5000,
        '{"a": 1, "a": 2}',
        "object()",
        "'x'",
        "",
    ],
    ids=lambda value: value[:12].encode("ascii", "replace").decode(),
)
@pytest.mark.parametrize("kind", [Any, float, str, Payment], ids=str)
def test_what_has_no_single_reading_is_a_bad_value(kind: Any, value: str) -> None:
    made = taking(kind)

    with pytest.raises(BadValue):
        made.freeze(f'{{"value": {value}}}')


@pytest.mark.parametrize("raw", [DEEP, "\ud800", b"\xff\xfe", "x" * (BYTES_MAX + 1), "\x00"])
def test_text_that_is_not_json_is_a_bad_value(raw: str | bytes) -> None:
    for made in (pay, nothing):
        with pytest.raises(BadValue):
            made.freeze(raw)


EVERYTHING = taking(dict[str, Any] | list[Point] | Payment | datetime | Decimal | None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.text() | st.binary())
def test_no_text_makes_freezing_raise_anything_but_bad_value(raw: str | bytes) -> None:
    for made in (pay, nothing, EVERYTHING):
        try:
            frozen = made.freeze(raw)
        except BadValue:
            continue
        assert made.freeze(frozen) == frozen


@given(JSON)
def test_no_json_makes_freezing_raise_anything_but_bad_value(value: Any) -> None:
    raw = json.dumps({"value": value})
    for kind in (EVERYTHING, taking(Any), taking(str)):
        try:
            frozen = kind.freeze(raw)
        except BadValue:
            continue
        asyncio.run(kind.call(CTX, frozen))
        assert kind.freeze(frozen) == frozen


NATIVE = [
    taking(kind)
    for kind in (
        int,
        float,
        bool | float,
        int | bool | None,
        float | int | str,
        list[float],
        dict[str, int | float],
        Literal["1", 1, True],
        Any,
    )
]


@given(JSON | st.sampled_from(["1", "-0", "1.0", "true", "yes", "1e400", "nan", "inf", 2**53 + 1]))
def test_what_parses_to_what_its_tool_wants_is_frozen_for_good(value: Any) -> None:
    for made in NATIVE:
        try:
            frozen = made.freeze(json.dumps({"value": value}))
        except BadValue:
            continue
        assert made.freeze(frozen) == frozen


def test_a_validator_that_changes_values_each_time_is_refused() -> None:
    made = taking(Annotated[int, AfterValidator(lambda number: number + 1)])

    with pytest.raises(BadValue, match="what is shown would not be what is executed"):
        freeze(made, 1)


def test_a_validator_that_only_tidies_up_is_fine() -> None:
    made = taking(Annotated[str, AfterValidator(str.strip)])

    assert freeze(made, "  x ") == "x"


def test_a_serialiser_that_cannot_be_read_back_is_refused() -> None:
    made = taking(Annotated[int, PlainSerializer(lambda number: f"{number} dollars")])

    with pytest.raises(BadValue, match="cannot read back its own arguments"):
        freeze(made, 1)


def test_whatever_a_validator_raises_is_a_bad_value() -> None:
    def look_up(value: str) -> str:
        return {}[value]

    with pytest.raises(BadValue, match="KeyError"):
        freeze(taking(Annotated[str, AfterValidator(look_up)]), "x")


def test_a_parameter_without_a_schema_is_a_bad_tool() -> None:
    class Database: ...

    with pytest.raises(BadTool, match="'taken'"):
        taking(Database).spec()


def test_a_default_that_is_not_json_is_a_bad_tool() -> None:
    with pytest.raises(BadTool, match="'taken'"):
        taking(float, float("nan")).spec()
