"""Schemas and validation: the one place that knows pydantic, and imports it when it is needed.

Rule 1: arguments are validated as JSON, dumped once, and those bytes are what counts from then on.
Rule 2: bytes that would not be read back as what was dumped are refused, because what a person is
shown must be what the tool is called with.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from sayso.agents.signature import REQUIRED, Parameter, check_open
from sayso.domain.digest import decode_value, encode_value, same_but_for_order
from sayso.errors import BadAgent, BadTool, BadValue, describe

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

PROBLEMS_MAX = 10
"""A model that makes more mistakes than this in one call learns nothing from the rest."""
SCHEMA_BYTES_MAX = 1024 * 1024


class Arguments:
    """The arguments of one tool: their schema, and the way to bytes and back."""

    def __init__(self, tool: str, parameters: Sequence[Parameter]) -> None:
        self._tool = tool
        # Fields get names of our own, so that a parameter may be called `json` or `_x`.
        self._fields = {f"a{n}": parameter.name for n, parameter in enumerate(parameters)}
        self._model = _make_model(tool, self._fields, parameters)
        self.schema: dict[str, Any] = _make_schema(self._model, tool)
        for parameter in parameters:
            # Once more: by now every type that a field names is there.
            check_open(parameter.hint, parameter.name, tool)

    def freeze(self, value: dict[str, Any]) -> bytes:
        """Validate arguments and dump them, or raise `BadValue` saying what does not fit."""
        data = encode_value(value)
        return _guarded(lambda: self._freeze(data), f"the arguments of {self._tool!r} do not fit")

    def parse(self, data: bytes) -> dict[str, Any]:
        """Make keyword arguments of frozen bytes."""
        model = _guarded(
            lambda: self._model.model_validate_json(data),
            f"the arguments of {self._tool!r} do not fit it any more",
        )
        again = _guarded(lambda: _dump(model), f"the arguments of {self._tool!r} changed")
        if not same_but_for_order(again, data):
            raise BadValue(f"{self._tool!r} reads its arguments otherwise than they were shown")
        return {name: getattr(model, field) for field, name in self._fields.items()}

    def _freeze(self, data: bytes) -> bytes:
        first = self._model.model_validate_json(data)
        frozen = _dump(first)
        second = _guarded(
            lambda: self._model.model_validate_json(frozen),
            f"{self._tool!r} cannot read back its own arguments",
        )
        # Equal objects with unequal bytes are sets, which have no order of their own.
        if _dump(second) != frozen and second != first:
            raise BadValue(
                f"the arguments of {self._tool!r} change each time they are validated, so what "
                "is shown would not be what is executed"
            )
        return frozen


class Output:
    """The type of an agent's result."""

    def __init__(self, agent: str, kind: Any) -> None:
        from pydantic import TypeAdapter

        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            self.schema: dict[str, Any] = self._adapter.json_schema(schema_generator=_generator())
        except Exception as error:
            raise BadAgent(f"the output of the agent {agent!r} has no schema: {error}") from error

    def freeze(self, text: str) -> bytes:
        """Read an answer as the result, or raise `BadValue` saying what does not fit."""
        return _guarded(lambda: self._freeze(text), "it does not fit the schema")

    def _freeze(self, text: str) -> bytes:
        from sayso.domain.digest import canonical

        value = self._adapter.validate_json(canonical(text))
        plain = self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        return encode_value(plain)


class State:
    """The type of the state of a machine's node."""

    def __init__(self, node: str, kind: Any) -> None:
        from pydantic import TypeAdapter

        self._node = node
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(kind)
            self.schema: dict[str, Any] = self._adapter.json_schema(schema_generator=_generator())
        except Exception as error:
            raise BadAgent(f"the state of the node {node!r} has no schema: {error}") from error

    def parse(self, data: bytes) -> Any:
        """Make a state of its bytes, or raise `BadValue` saying what does not fit."""
        what = f"the state of {self._node!r} does not fit"
        return _guarded(lambda: self._adapter.validate_json(data), what)

    def dump(self, state: Any) -> bytes:
        """Make bytes of a state."""
        what = f"the state of {self._node!r} cannot be kept"
        return _guarded(lambda: self._dump(state), what)

    def freeze(self, data: bytes) -> bytes:
        """Validate a state, fill in what it leaves out, and encode it."""
        frozen = self.dump(self.parse(data))
        # Types that ignore what they do not know would lose it without a word.
        unknown = _keys(data) - _keys(frozen)
        if unknown:
            names = ", ".join(sorted(unknown))
            raise BadValue(f"the state of {self._node!r} has no field {names}")
        return frozen

    def _dump(self, state: Any) -> bytes:
        plain = self._adapter.dump_python(
            state, mode="json", by_alias=True, round_trip=True, warnings=False
        )
        return encode_value(plain)


@functools.lru_cache(maxsize=256)
def read_state(node: str, kind: Any) -> State:
    """Give the type of a node's state, made once."""
    return State(node, kind)


def _keys(data: bytes) -> set[str]:
    value = decode_value(data)
    return set(cast("dict[str, Any]", value)) if type(value) is dict else set()


def _make_model(
    tool: str, fields: dict[str, str], parameters: Sequence[Parameter]
) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    # Dataclasses and typed dictionaries inside inherit this, so that invented arguments are an
    # error there, too.
    config = ConfigDict(extra="forbid", validate_default=True)
    definitions: dict[str, Any] = {
        field: (
            _annotated(parameter),
            ... if parameter.default is REQUIRED else parameter.default,
        )
        for field, parameter in zip(fields, parameters, strict=True)
    }
    try:
        return create_model("Arguments", __config__=config, **definitions)
    except Exception as error:
        raise BadTool(f"the tool {tool!r} has a parameter without a schema: {error}") from error


def _annotated(parameter: Parameter) -> Any:
    from pydantic import Field

    hint = parameter.hint
    kind, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    # A plain string beside a type is its description.
    notes = [Field(description=note) if isinstance(note, str) else note for note in notes]
    # The first alias is the weakest: one that the user gave in the notes wins.
    return Annotated[(kind, Field(alias=parameter.name), *notes)]  # pyright: ignore  # noqa: PGH003


def _make_schema(model: type[BaseModel], tool: str) -> dict[str, Any]:
    try:
        schema = model.model_json_schema(schema_generator=_generator())
        encode_value(schema, bytes_max=SCHEMA_BYTES_MAX)
    except Exception as error:
        raise BadTool(f"the tool {tool!r} has no JSON Schema: {error}") from error
    schema.pop("title", None)
    return schema


def _generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        """Without a title for every field, which only repeats its name."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            del schema
            return False

        def emit_warning(self, kind: Any, detail: str) -> None:
            """Say nothing: a default that has no JSON is refused when it is used."""

    return Plain


def _dump(model: BaseModel) -> bytes:
    return encode_value(
        model.model_dump(mode="json", by_alias=True, round_trip=True, warnings=False)
    )


def _guarded(act: Any, what: str) -> Any:
    from pydantic import ValidationError

    try:
        return act()
    except BadValue:
        raise
    except ValidationError as error:
        raise BadValue(f"{what}: {_problems(error)}") from None
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # Validators are the tool's own code and may raise anything.
        raise BadValue(f"{what}: {describe(error)}") from error


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [_problem(one["type"], one["loc"], one["msg"]) for one in found[:PROBLEMS_MAX]]
    if len(found) > PROBLEMS_MAX:
        said.append(f"and {len(found) - PROBLEMS_MAX} more")
    return "; ".join(said)


def _problem(kind: str, loc: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in loc)
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"there is no argument {where!r}"
    if kind == "missing":
        return f"{where!r} is missing"
    return f"{where}: {message}" if where else message
