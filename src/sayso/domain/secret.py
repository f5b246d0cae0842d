"""Secrets among the arguments of calls: how they stand in bytes, and what is seen of them.

Rule 1: in frozen arguments a secret stands as `{"$secret": value}`, only between a tool and the
vault; in what is kept, as `{"$sealed": token}`, which only the vault makes and opens; in what
anybody sees, as `{"$sealed": mark}`. Nobody else's argument may have an object with such a key.
Rule 2: `mask` is the one function that takes secrets out of arguments, before everything that shows
them: views, rules, prompts, notes, renderings.
Rule 3: a `Veil` knows what a body was given, and takes it out of what the body says.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, cast

from sayso.domain.digest import decode_value, encode_value
from sayso.errors import BadValue

OPEN = "$secret"
SEALED = "$sealed"
SHOWN = "[secret]"
"""What a secret says of itself, and what stands for it in text."""
CHARS_MIN = 4
"""A shorter secret is not looked for in text: it would be found everywhere."""
NOT_KEPT = "[unusable arguments, not kept: the tool takes secrets]"

_MARK = "[0-9a-f]{16}"
_TOKEN = r"[A-Za-z0-9_-]{1,32}\.[A-Za-z0-9_-]+"  # noqa: S105 - a pattern.

Path = tuple[str | int, ...]


class Secret:
    """A text that shows itself to nobody; `reveal()` gives it.

    As the annotation of a tool's parameter: the argument is encrypted before it is written, and
    the body alone is given it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadValue(f"a secret is a text, not of type {type(value).__name__}")
        self._value = value

    def reveal(self) -> str:
        """Give the text. Whoever has it keeps it from logs, results and messages."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret({SHOWN})"

    def __str__(self) -> str:
        return SHOWN

    def __format__(self, spec: str) -> str:
        return format(SHOWN, spec)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        from hmac import compare_digest

        return compare_digest(_utf8(self._value), _utf8(other._value))

    def __hash__(self) -> int:
        return hash(self._value)

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret is not to be copied anywhere")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_before_validator_function(
            _text_of,
            core_schema.no_info_after_validator_function(cls, core_schema.str_schema(strict=True)),
            serialization=core_schema.plain_serializer_function_ser_schema(_dumped, info_arg=True),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        return {"type": "string", "format": "password", "writeOnly": True}


def _dumped(value: Any, info: Any) -> Any:
    # Handed over in Python, never written down: as pydantic does it with its own.
    return str(value) if info.mode == "json" else value


def _text_of(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


def mask(value: Any) -> Any:
    """Give arguments as anybody may see them: for each secret there is its mark."""
    return _replace(value, _is_sealed, lambda one: {SEALED: mark_of(one[SEALED])})


def mask_args(args: bytes) -> bytes:
    """Give the bytes of arguments as anybody may see them."""
    return encode_value(mask(decode_value(args))) if is_sealed(args) else args


def mark_of(token: str) -> str:
    """Name a sealed secret: the same for the same one of a run, and telling nothing about it."""
    if re.fullmatch(_MARK, token):
        return token
    return hashlib.sha256(b"sayso.mark.1\0" + token.encode()).hexdigest()[:16]


def mark_in(value: Any) -> str | None:
    """Give the mark that a value shows, if it stands for a secret."""
    return mark_of(value[SEALED]) if _is_sealed(value) else None


def is_sealed(args: bytes) -> bool:
    """Tell whether anything in the bytes of arguments may be sealed."""
    return b'"$sealed"' in args


def blank(args: bytes) -> bytes:
    """Give arguments without their secrets, to compare calls that have them of different runs: the
    same secret is sealed otherwise there.
    """
    if not is_sealed(args):
        return args
    return encode_value(_replace(decode_value(args), _is_sealed, lambda _: {SEALED: ""}))


def check_plain(value: Any) -> None:
    """Refuse arguments from outside that look like a secret that Sayso has sealed."""
    if any(_find(value, lambda one: OPEN in one or SEALED in one)):
        raise BadValue(
            f"an argument has {SEALED!r} or {OPEN!r} in it, which only Sayso writes: give a secret "
            "as its plain value"
        )


def check_frozen(args: bytes, *, opens: bool) -> None:
    """Refuse frozen arguments that look sealed, as a default of the tool's own may; and, unless it
    `opens` secrets, those with anything open.
    """
    if b'"$se' not in args:
        return
    value = decode_value(args)
    check_plain(_replace(value, _is_open, lambda _: None) if opens else value)


def seal(args: bytes, close: Callable[[bytes], str]) -> bytes:
    """Replace what is open among arguments by what `close` makes of it."""
    value = decode_value(args)
    sealed = _replace(value, _is_open, lambda one: {SEALED: close(encode_value(one[OPEN]))})
    return encode_value(sealed)


def unseal(args: bytes, reveal: Callable[[str], bytes]) -> bytes:
    """Replace what is sealed among arguments by what `reveal` makes of it."""
    value = decode_value(args)
    return encode_value(
        _replace(value, _is_sealed, lambda one: {OPEN: decode_value(reveal(one[SEALED]))})
    )


def unwrap(args: bytes) -> bytes:
    """Give arguments as their tool reads them, with what is open in its place."""
    return encode_value(_replace(decode_value(args), _is_open, lambda one: one[OPEN]))


def opened(args: bytes) -> list[Any]:
    """List what is open among arguments."""
    return [one[OPEN] for _, one in _find(decode_value(args), _is_open)]


def tokens(args: bytes) -> list[str]:
    """List what is sealed among arguments."""
    return [one[SEALED] for _, one in _find(decode_value(args), _is_sealed)]


def fill_in(args: bytes, before: bytes) -> tuple[bytes, set[Path]]:
    """Put secrets in the place of their marks in edited arguments, and say where those were.

    `before` are the arguments that were edited, opened; each mark has to be of one of them.
    """
    value = decode_value(args)
    known = {one[SEALED]: one[OPEN] for _, one in _find(decode_value(before), _is_marked)}
    marked = list(_find(value, _is_sealed))
    if any(one[SEALED] not in known for _, one in marked):
        raise BadValue("a mark is of no secret of this call: give the secret itself")
    filled = _replace(value, _is_sealed, lambda one: known[one[SEALED]])
    check_plain(filled)
    return encode_value(filled), {path for path, _ in marked}


def with_marks(args: bytes, reveal: Callable[[str], bytes]) -> bytes:
    """Open what is sealed among arguments, each beside its mark, for `fill_in`."""
    value = decode_value(args)
    return encode_value(
        _replace(
            value,
            _is_sealed,
            lambda one: {
                SEALED: mark_of(one[SEALED]),
                OPEN: decode_value(reveal(one[SEALED])),
            },
        )
    )


def check_places(frozen: bytes, places: set[Path]) -> None:
    """Refuse edited arguments in which a secret stands where the tool takes none."""
    secret = {path for path, _ in _find(decode_value(frozen), _is_open)}
    if places - secret:
        raise BadValue("a secret was moved to where the tool takes none: leave it where it was")


class Veil:
    """What a body was given that nobody else may see; takes it out of what the body says."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self.lifted = False
        """Whether the body was given anything secret at all."""

    def add(self, value: Any) -> None:
        """Remember a secret, and all texts in it."""
        self.lifted = True
        for text in _texts(value):
            if len(text) >= CHARS_MIN:
                self._forms.update(_forms(text))

    def text(self, said: str) -> str:
        """Take what is secret out of a text."""
        # The longest first: one form may be a part of another.
        for form in sorted(self._forms, key=len, reverse=True):
            said = said.replace(form, SHOWN)
        return said

    def value(self, data: bytes) -> bytes:
        """Take what is secret out of every text in an encoded value."""
        if not self._forms:
            return data
        value = decode_value(data, bytes_max=len(data))
        return encode_value(self._clean(value), bytes_max=max(len(data) * 2, 1 << 20))

    def covers(self, data: bytes) -> bool:
        """Tell whether anything secret is in an encoded value."""
        return bool(self._forms) and decode_value(self.value(data)) != decode_value(data)

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._clean(one) for one in cast("list[Any]", value)]
        if isinstance(value, dict):
            entries = cast("dict[str, Any]", value).items()
            return {self.text(key): self._clean(one) for key, one in entries}
        return value


def _forms(text: str) -> Iterator[str]:
    """Give what a text looks like in messages and addresses."""
    from urllib.parse import quote, quote_plus

    yield text
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield quote(text, safe="")
    yield quote(text)
    yield quote_plus(text)
    yield base64.b64encode(_utf8(text)).decode().rstrip("=")
    yield base64.urlsafe_b64encode(_utf8(text)).decode().rstrip("=")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from _texts(one)
    elif isinstance(value, dict):
        for one in cast("dict[str, Any]", value).values():
            yield from _texts(one)


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_open(value: dict[str, Any]) -> bool:
    return len(value) == 1 and OPEN in value


def _is_sealed(value: Any) -> bool:
    if not isinstance(value, dict) or len(cast("dict[str, Any]", value)) != 1:
        return False
    token = cast("dict[str, Any]", value).get(SEALED)
    return isinstance(token, str) and bool(re.fullmatch(f"{_MARK}|{_TOKEN}", token))


def _is_marked(value: dict[str, Any]) -> bool:
    return value.keys() == {SEALED, OPEN}


def _replace(
    value: Any, which: Callable[[dict[str, Any]], bool], by: Callable[[dict[str, Any]], Any]
) -> Any:
    if isinstance(value, list):
        return [_replace(one, which, by) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    if which(found):
        return by(found)
    return {key: _replace(one, which, by) for key, one in found.items()}


def _find(
    value: Any, which: Callable[[dict[str, Any]], bool], path: Path = ()
) -> Iterator[tuple[Path, dict[str, Any]]]:
    if isinstance(value, list):
        for at, one in enumerate(cast("list[Any]", value)):
            yield from _find(one, which, (*path, at))
    elif isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        if which(found):
            yield path, found
            return
        for key, one in found.items():
            yield from _find(one, which, (*path, key))
