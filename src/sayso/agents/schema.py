"""Schemas and validation: the one place that knows pydantic, and imports it when it is needed.

Rule 1: arguments are validated as JSON, dumped once, and those bytes are what counts from then on.
Rule 2: bytes that would not be read back as what was dumped are refused, because what a person is
shown must be what the tool is called with.
Rule 3: of a tool that takes secrets, no error quotes what it was given.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args, get_origin

from sayso.agents.signature import REQUIRED, Parameter, takes_secret
from sayso.agents.wrapping import is_secret, is_write_only, reveal, wrap
from sayso.domain.digest import decode_value, encode_value, same_but_for_order
from sayso.domain.secret import unwrap
from sayso.errors import BadAgent, BadTool, BadValue, describe

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

PROBLEMS_MAX = 10
"""A model that makes more mistakes than this in one call learns nothing from the rest."""
SCHEMA_BYTES_MAX = 1024 * 1024


class Arguments:
    """The arguments of one tool: their schema, and the way to bytes and back."""

    def __init__(self, tool: str, parameters: Sequence[Parameter], *, native: bool = False) -> None:
        self._tool = tool
        self._what = f"the arguments of {tool!r}"
        # Fields get names of our own, so that a parameter may be called `json` or `_x`.
        self._fields = {f"a{n}": parameter.name for n, parameter in enumerate(parameters)}
        self._model = _make_model(tool, self._fields, parameters)
        self.schema: dict[str, Any] = _make_schema(self._model, tool)
        # By now every type that a field names is there.
        hints = [parameter.hint for parameter in parameters]
        self.secret = is_write_only(self.schema) or any(map(takes_secret, hints))
        """Whether any of them is a secret, or may have one in it."""
        self._plain = native and not self.secret
        """Whether the tool is called with what its bytes parse to, and they are not read here."""

    def freeze(self, data: str | bytes) -> bytes:
        """Validate arguments, a JSON object that `decode_value` has accepted, and dump them, or
        raise `BadValue` saying what does not fit. Secrets are in the open, as `domain/secret.py`
        says.
        """
        return self._guard(
            lambda: self._freeze(data), f"the arguments of {self._tool!r} do not fit"
        )

    def parse(self, data: bytes) -> dict[str, Any]:
        """Make keyword arguments of frozen bytes."""
        model = self._guard(lambda: self._read(data), f"{self._what} do not fit it any more")
        again = self._guard(lambda: self._dump(model), f"{self._what} changed")
        if not same_but_for_order(again, data):
            raise BadValue(f"{self._tool!r} reads its arguments otherwise than they were shown")
        return {name: getattr(model, field) for field, name in self._fields.items()}

    def _freeze(self, data: str | bytes) -> bytes:
        first = self._model.model_validate_json(data)
        frozen = self._dump(first)
        if self._plain:
            return frozen
        second = self._guard(
            lambda: self._read(frozen), f"{self._tool!r} cannot read back its own arguments"
        )
        # Equal objects with unequal bytes are sets, which have no order of their own. Unequal
        # objects with equal bytes have a secret that hides from us as well.
        if second != first and (self.secret or self._dump(second) != frozen):
            raise BadValue(
                f"{self._what} change each time they are validated, so what "
                "is shown would not be what is executed"
            )
        return frozen

    def _read(self, data: bytes) -> BaseModel:
        return self._model.model_validate_json(unwrap(data) if self.secret else data)

    def _dump(self, model: BaseModel) -> bytes:
        plain = _dump(model, "json")
        return encode_value(wrap(plain, _dump(model, "python")) if self.secret else plain)

    def _guard(self, act: Any, what: str) -> Any:
        if not self.secret:
            return _guarded(act, what)
        try:
            return act()
        except BadValue:
            raise
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - as below.
            said = _discreet(error, set(self.schema.get("properties", ())))
        # Out here, so that nothing hangs on to what the error knows.
        raise BadValue(f"{what}: {said}")


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
        field: (_annotated(parameter), _default(parameter))
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


def _default(parameter: Parameter) -> Any:
    from pydantic import Field

    if parameter.default is REQUIRED:
        return ...
    if not is_secret(parameter.default):
        return parameter.default
    # Made when it is needed, so that no schema has it, and as JSON, as any other argument.
    return Field(default_factory=partial(reveal, parameter.default))


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


def _dump(model: BaseModel, mode: str) -> dict[str, Any]:
    return model.model_dump(mode=mode, by_alias=True, round_trip=True, warnings=False)


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


_HARMLESS = re.compile(
    "missing|extra_forbidden|[a-z]+_type|(string|too|bytes)_(short|long|too_short|too_long)"
    "|(greater|less)_than(_equal)?|multiple_of|finite_number"
)
"""Kinds of problems that pydantic describes by the schema alone."""


def _discreet(error: BaseException, names: set[str]) -> str:
    """Say what is wrong with arguments, and nothing of what is in them."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return f"a validator raised {type(error).__name__}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [_discreet_one(one["type"], one["loc"], one["msg"], names) for one in found]
    return "; ".join(list(dict.fromkeys(said))[:PROBLEMS_MAX])


def _discreet_one(kind: str, loc: tuple[int | str, ...], message: str, names: set[str]) -> str:
    if not loc or loc[0] not in names:
        # A name that is not ours may be anything, a secret included.
        return "there is an argument that it does not know"
    if kind == "missing" and len(loc) == 1:
        return f"{loc[0]!r} is missing"
    return f"{loc[0]}: {message if _HARMLESS.fullmatch(kind) else 'it does not fit'}"
