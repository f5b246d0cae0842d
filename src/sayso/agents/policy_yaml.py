"""YAML that is read without guessing.

Rule 1: nothing is built by the library. It says where things are; what they are is read here.
Rule 2: what two readers could take for two things is refused: `no`, `0600`, `1:30`, a date. It has
to be put in quotes.
Rule 3: everything is bounded: bytes, depth, and how often aliases are followed.
Rule 4: a refusal names the file, the line and the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from sayso.errors import BadPolicy

BYTES_MAX = 262_144
NODES_MAX = 20_000
"""How many nodes are looked at; aliases make few nodes into many."""
DEPTH_MAX = 32

_TAG = "tag:yaml.org,2002:"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]+)?")
_DURATION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
_WHOLE = re.compile(r"0|[1-9][0-9]{0,8}")
_INDICATOR = {"int": "a number", "float": "a number", "bool": "yes or no", "null": "nothing"}


class Source:
    """A YAML file. Its nodes are the library's; each is read as what it should be."""

    def __init__(self, name: str, data: bytes) -> None:
        self.name = name
        self._looked_at = 0
        if len(data) > BYTES_MAX:
            raise self.refusal(1, "", f"the file is larger than {BYTES_MAX // 1024} KiB")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise self.refusal(line, "", "the file is not UTF-8") from None
        self.root = self._compose(text)

    def _compose(self, text: str) -> Any:
        try:
            yaml: Any = import_module("yaml")
        except ImportError:
            raise BadPolicy('a policy file needs an extra: pip install "sayso[policy]"') from None
        try:
            root = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            said = error.problem or error.context
            raise self.refusal(mark.line + 1 if mark else 1, "", f"not YAML: {said}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self.refusal(line, "", f"not YAML: {error.reason}") from None
        except RecursionError:
            raise self.refusal(1, "", "the file is nested too deeply") from None
        except (ValueError, OverflowError) as error:  # An escape that is no character.
            raise self.refusal(1, "", f"not YAML: {error}") from None
        if root is None:
            raise self.refusal(1, "", "the file is empty")
        return root

    def refusal(self, at: Any, key: str, message: str) -> BadPolicy:
        """Make the error for what is wrong at a node, or at a line."""
        line = at if isinstance(at, int) else line_of(at)
        said = f"{self.name}:{line}: {f'{key}: ' if key else ''}{message}"
        return BadPolicy(said, line=line, key=key or None)

    def mapping(self, node: Any, key: str, known: Iterable[str]) -> dict[str, Any]:
        """Read a mapping with some of the known keys, each once."""
        found: dict[str, Any] = {}
        names = tuple(known)
        for name, under, value in self._pairs(node, key):
            if name not in names:
                raise self.refusal(under, name, f"unknown key; known are {', '.join(names)}")
            found[name] = value
        return found

    def _pairs(self, node: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
        self._look(node, key)
        if node.id != "mapping" or node.tag != f"{_TAG}map":
            raise self.refusal(node, key, f"this is no mapping of keys to values{_hint(node)}")
        seen: dict[str, int] = {}
        for under, value in node.value:
            if under.id != "scalar":
                raise self.refusal(under, key, "a key is a text, and not a collection")
            if under.tag == f"{_TAG}merge":
                raise self.refusal(under, key, "nothing can be merged in with <<")
            name = self.text(under, key or str(under.value))
            if name in seen:
                again = f"the key is there twice, first on line {seen[name]}"
                raise self.refusal(under, name, again)
            seen[name] = line_of(under)
            yield name, under, value

    def items(self, node: Any, key: str) -> list[Any]:
        """Read a list."""
        self._look(node, key)
        if node.id != "sequence" or node.tag != f"{_TAG}seq":
            raise self.refusal(node, key, f"this is no list{_hint(node)}")
        return list(node.value)

    def text(self, node: Any, key: str) -> str:
        """Read a text: one in quotes, or one that can be nothing else."""
        self._look(node, key)
        if node.id != "scalar":
            raise self.refusal(node, key, f"this is no text{_hint(node)}")
        text: str = node.value
        if node.tag != f"{_TAG}str":
            meant = _INDICATOR.get(node.tag.removeprefix(_TAG), "something else")
            said = f"{text!r} may be read as {meant}; put it in quotes if it is a text"
            raise self.refusal(node, key, said if text else "there is no value")
        if any("\ud800" <= char <= "\udfff" for char in text):
            raise self.refusal(node, key, "half of a surrogate pair is no character")
        return text

    def label(self, node: Any, key: str) -> str:
        """Read a text as it is written, even if it looks like a number or a date."""
        if node.tag in (f"{_TAG}int", f"{_TAG}float", f"{_TAG}timestamp"):
            return str(node.value)
        return self.text(node, key)

    def flag(self, node: Any, key: str) -> bool:
        """Read true or false, and none of the other spellings."""
        self._look(node, key)
        if node.tag != f"{_TAG}bool" or node.value not in ("true", "false"):
            raise self.refusal(node, key, "write true or false")
        return bool(node.value == "true")

    def whole(self, node: Any, key: str) -> int:
        """Read a whole number, written plainly."""
        self._look(node, key)
        if node.tag != f"{_TAG}int" or not _WHOLE.fullmatch(node.value):
            raise self.refusal(node, key, "write a whole number, such as 2")
        return int(node.value)

    def duration(self, node: Any, key: str) -> str | float:
        """Read a duration as a text, or a plain number of seconds."""
        if node.id == "scalar" and node.tag in (f"{_TAG}int", f"{_TAG}float"):
            self._look(node, key)
            if not _DURATION.fullmatch(node.value):
                said = f"{node.value!r} is not a duration: write '30s', '4h', '2d' or '1h30m'"
                raise self.refusal(node, key, said)
            return float(node.value)
        return self.text(node, key)

    def value(self, node: Any, key: str, depth: int = 0) -> Any:
        """Read a value as JSON has it."""
        if depth > DEPTH_MAX:
            raise self.refusal(node, key, f"this is nested deeper than {DEPTH_MAX}")
        if node.id == "mapping":
            pairs = list(self._pairs(node, key))
            return {name: self.value(one, name, depth + 1) for name, _, one in pairs}
        if node.id == "sequence":
            return [self.value(one, key, depth + 1) for one in self.items(node, key)]
        if node.tag in (f"{_TAG}bool", f"{_TAG}null") and node.value in ("true", "false", "null"):
            self._look(node, key)
            return {"true": True, "false": False, "null": None}[node.value]
        if node.tag in (f"{_TAG}int", f"{_TAG}float") and _NUMBER.fullmatch(node.value):
            self._look(node, key)
            return int(node.value) if node.value.lstrip("-").isdigit() else float(node.value)
        text = self.text(node, key)
        # `1e5` is a text here and a number to other readers.
        if node.style is None and _is_number(text):
            said = f"{text!r} may be read as a number; write it out, or put it in quotes"
            raise self.refusal(node, key, said)
        return text

    def _look(self, node: Any, key: str) -> None:
        self._looked_at += 1
        if self._looked_at > NODES_MAX:
            raise self.refusal(node, key, f"there are more than {NODES_MAX} values, with aliases")


def line_of(node: Any) -> int:
    """Give the line of a node, the first being 1."""
    line: int = node.start_mark.line
    return line + 1


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _hint(node: Any) -> str:
    # What people write who mean `user:ann`.
    kinds = {"user": "user:ann", "role": "role:finance"}
    if node.id == "mapping" and len(node.value) == 1 and node.value[0][0].value in kinds:
        return f": write {kinds[node.value[0][0].value]}, without a space"
    return ""
