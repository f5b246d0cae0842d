"""What a function's signature says about a tool, read without pydantic.

Rule: a signature is refused when the tool is made, not when a model first calls it. Only names
that do not exist yet are looked up again later.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    Optional,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec

from sayso.agents.move import Instance
from sayso.agents.operand import operand_of
from sayso.domain.operand import Operand
from sayso.domain.secret import Secret
from sayso.engine.ports import Context
from sayso.errors import BadTool

REQUIRED: Any = inspect.Parameter.empty
_NATIVE: tuple[Any, ...] = (str, int, float, bool, type(None), Any, list, dict)
_LITERALS = (str, int, bool, type(None))


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool."""

    name: str
    hint: Any
    default: Any = REQUIRED


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool takes."""

    parameters: tuple[Parameter, ...]
    contexts: tuple[str, ...]
    """The parameters that are filled in by Sayso, and that no model or person sees."""
    instances: tuple[tuple[str, Any], ...]
    """Those that are given the instance of a machine, and the type of its state."""
    operands: tuple[tuple[str, Operand], ...]
    """Those that name files."""
    native: bool
    """Every argument is what its JSON parses to, so that calling needs no validation."""


def check_kinds(fn: Callable[..., Any], name: str) -> None:
    """Refuse parameters that cannot be given by name."""
    for at, parameter in enumerate(read_parameters(fn, name)):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise BadTool(
                f"the tool {name!r} takes {parameter}: name every argument, because a person "
                "has to see what is asked for"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise BadTool(
                f"the tool {name!r} has the positional-only parameter {parameter.name!r}: "
                "arguments are given by name"
            )
        if at == 0 and parameter.name in ("self", "cls") and parameter.annotation is REQUIRED:
            raise BadTool(f"the tool {name!r} is a method: make the tool of a bound one")


def read_signature(
    fn: Callable[..., Any], name: str, scope: Mapping[str, Any] | None = None
) -> Signature:
    """Resolve a signature; `NameError` if an annotation names something that is not there yet."""
    names = {"Context": Context, "Instance": Instance, "Secret": Secret, **_globals(fn)}
    arguments: list[Parameter] = []
    contexts: list[str] = []
    instances: list[tuple[str, Any]] = []
    operands: list[tuple[str, Operand]] = []
    for parameter in read_parameters(fn, name):
        hint = _resolve(parameter, names, scope, name)
        if is_context(hint):
            contexts.append(parameter.name)
            continue
        if Instance in (hint, get_origin(hint)):
            instances.append((parameter.name, _state_kind(hint)))
            continue
        if (operand := operand_of(hint, parameter.name, name)) is not None:
            operands.append((parameter.name, operand))
        if parameter.default is None:
            hint = _optional(hint)
        arguments.append(Parameter(name=parameter.name, hint=hint, default=parameter.default))
    return Signature(
        parameters=tuple(arguments),
        contexts=tuple(contexts),
        instances=tuple(instances),
        operands=tuple(operands),
        native=all(is_native(argument.hint) for argument in arguments),
    )


def is_context(hint: Any) -> bool:
    """Tell whether a parameter with this annotation is given the context of the call."""
    if get_origin(hint) in (Annotated, Union, types.UnionType):
        return any(is_context(part) for part in get_args(hint))
    return hint is Context


def _state_kind(hint: Any) -> Any:
    """Give the type that an instance's state is read as; None if it stays what its JSON is."""
    parts = get_args(hint)
    plain = not parts or isinstance(parts[0], TypeVar) or is_native(parts[0])
    return None if plain else parts[0]


def takes_secret(hint: Any) -> bool:
    """Tell whether a value of this type is a secret, or has one in it, as far as can be seen
    without pydantic: `Secret`, and pydantic's own types that hide their value.
    """
    return _hides(hint, set())


def _hides(hint: Any, seen: set[int]) -> bool:
    # By name, because pydantic must not be imported for this; it is if anything of it is there.
    if id(hint) in seen:
        return False
    seen.add(id(hint))
    if isinstance(hint, type) and any(
        base is Secret or (base.__module__, base.__name__) == ("pydantic.types", "_SecretBase")
        for base in hint.__mro__
    ):
        return True
    named = [getattr(hint, name, None) for name in ("__value__", "__supertype__")]
    parts = [*get_args(hint), get_origin(hint), *named, *_fields(hint)]
    return any(_hides(part, seen) for part in parts if part is not None)


def _fields(hint: Any) -> list[Any]:
    """List the types of the fields of a model, a dataclass or a typed dictionary."""
    if not isinstance(hint, type):
        return []
    fields = getattr(hint, "model_fields", None)
    if isinstance(fields, dict):
        return [field.annotation for field in cast("dict[str, Any]", fields).values()]
    if not (hasattr(hint, "__dataclass_fields__") or hasattr(hint, "__total__")):
        return []
    try:
        return list(get_type_hints(hint, include_extras=True).values())
    except NameError:
        return []  # Not there yet: looked at again once the schema is made.


def is_native(hint: Any) -> bool:
    """Tell whether validated JSON parses to exactly what this annotation wants."""
    if any(hint is native for native in _NATIVE):
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return is_native(parts[0]) and all(isinstance(part, str | Operand) for part in parts[1:])
    if origin is Literal:
        return all(type(part) in _LITERALS for part in parts)
    if origin in (Union, types.UnionType, list):
        return all(is_native(part) for part in parts)
    return origin is dict and parts[0] is str and is_native(parts[1])


def read_parameters(fn: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    """Read a signature as it is written, without resolving its annotations."""
    try:
        if sys.version_info >= (3, 14):
            # Annotations are evaluated on demand there; names that are missing stay references.
            import annotationlib

            form = annotationlib.Format.FORWARDREF
            return list(inspect.signature(fn, annotation_format=form).parameters.values())
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise BadTool(f"the tool {name!r} has no signature to read: {error}") from None


def _resolve(
    parameter: inspect.Parameter,
    names: dict[str, Any],
    scope: Mapping[str, Any] | None,
    tool: str,
) -> Any:
    if parameter.annotation is REQUIRED:
        raise BadTool(
            f"{parameter.name!r} of the tool {tool!r} has no annotation: give it a type, `Context` "
            "if Sayso is to fill it in, or `Any` if anything will do"
        )
    holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
    try:
        local = None if scope is None else dict(scope)
        return get_type_hints(holder, names, local, include_extras=True)["it"]
    except NameError:
        raise
    except Exception as error:
        raise BadTool(
            f"the annotation of {parameter.name!r} of the tool {tool!r} cannot be read: {error}"
        ) from error


def _optional(hint: Any) -> Any:
    # `x: str = None` is common, and means what it says.
    if hint is Any:
        return hint
    if get_origin(hint) is Annotated:
        inner, *notes = get_args(hint)
        return Annotated[(Optional[inner], *notes)]  # pyright: ignore  # noqa: PGH003, UP045
    return Optional[hint]  # noqa: UP045 - `|` does not work on every annotation.


def _globals(fn: Any) -> Mapping[str, Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    fn = inspect.unwrap(fn)  # pyright: ignore[reportUnknownArgumentType]
    found = getattr(fn, "__globals__", None)
    return getattr(type(fn).__call__, "__globals__", {}) if found is None else found
