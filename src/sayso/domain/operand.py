"""Files that the arguments of a call name, and what they contained when a person was asked.

Rule: a path is not what is run or sent, its content is. So the content is part of what is asked.
"""

from collections.abc import Sequence

import msgspec

from sayso.domain.value import Value

BYTES_MAX = 64 * 1024 * 1024
"""No file that a person is to judge is larger, unless its tool says so."""
OPERANDS_MAX = 64
"""No call names more files."""


class Operand(Value, frozen=True, kw_only=True):
    """Marks a parameter of a tool that names a file, or several: `Annotated[str, Operand()]`."""

    bytes_max: int = BYTES_MAX
    """A larger file is not asked about, and not read."""


class OperandFile(Value, frozen=True, kw_only=True):
    """A file that arguments name."""

    name: str
    """The argument: `path`, or `paths[0]` in a list."""
    path: str
    """As it was given."""
    bytes_max: int = BYTES_MAX


class OperandPin(Value, frozen=True, kw_only=True):
    """A file, and what it contained when a person was asked."""

    name: str
    """The argument: `path`, or `paths[0]` in a list."""
    path: str
    """As it was given."""
    sha256: str = ""
    """Of its content; empty if there was no such file."""
    size: int = 0
    """In bytes."""

    @property
    def absent(self) -> bool:
        """Tell whether there was no such file."""
        return not self.sha256


_encoder = msgspec.json.Encoder()


def encode_pins(pins: Sequence[OperandPin]) -> bytes:
    """Encode pins for the digest of what is asked; nothing if there are none."""
    return _encoder.encode(list(pins)) if pins else b""


def what_changed(before: Sequence[OperandPin], now: Sequence[OperandPin]) -> str:
    """Say in words which files are not what they were; nothing if all are."""
    old, new = ({(pin.name, pin.path): pin for pin in pins} for pins in (before, now))
    said: list[str] = []
    for key in {**old, **new}:
        was, found = old.get(key), new.get(key)
        if was == found:
            continue
        if found is None:
            how = "is not one of its files any more"
        elif was is None:
            how = "had not been looked at"
        elif found.absent:
            how = "has vanished"
        elif was.absent:
            how = "has appeared"
        else:
            how = "was changed"
        said.append(f"the file {key[1]!r} {how}")
    return ", ".join(said)
