"""Seals: signed Merkle roots over the entries of a store, each naming the seal before.

A chain shows that nobody changed a run. It cannot show that nobody hashed a run again, removed one,
or cut the end off: whoever can write the file can do that. A seal can, because it takes a key to
make one, and a copy of it can be kept where the file is not.

Rule 1: a seal covers exactly the positions after the seal before it: nothing is left out, nothing
is covered twice.
Rule 2: leaves and nodes are hashed with different prefixes (RFC 6962), so that no node passes for a
leaf.
Rule 3: a seal says nothing about what entries say: what is erased later is still covered.
"""

from __future__ import annotations

import builtins
import hashlib
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from sayso.errors import BadValue, NotUnderstood, StaleItem

NOTHING = bytes(32)
"""What the first seal names as the one before it."""
LINE_BYTES_MAX = 4096
"""No seal is longer as JSON."""
_NUMBER_MAX = (1 << 63) - 1


class Tree:
    """A Merkle tree that takes its leaves one after another, and keeps a hash for each bit of their
    number rather than one for each leaf.
    """

    def __init__(self) -> None:
        self.count = 0
        self._peaks: list[bytes] = []
        """The roots of the perfect trees that it is made of so far, the largest first."""

    def add(self, leaf: bytes) -> None:
        """Take the next leaf."""
        self.count += 1
        node = hashlib.sha256(b"\x00" + leaf).digest()
        size = self.count
        while size % 2 == 0:
            node = _join(self._peaks.pop(), node)
            size //= 2
        self._peaks.append(node)

    def root(self) -> bytes:
        """Give the root over all leaves so far, as RFC 6962 has it."""
        if not self._peaks:
            return hashlib.sha256(b"").digest()
        node = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            node = _join(left, node)
        return node


def _join(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Leaf(NamedTuple):
    """What a seal covers of an entry."""

    position: int
    hash: bytes


class KeptSeal(NamedTuple):
    """What is kept in a seal's place, as the bytes that are there: they may say something else."""

    n: int
    data: bytes


class Seal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signed statement of what was in a store. Hashes and keys are in hexadecimal."""

    n: int
    """Its number, from 1."""
    first: int
    """The first position that it covers: the one after the last of the seal before."""
    last: int
    """The last one; one less than the first if it covers no entry."""
    count: int
    """How many entries there were: positions may have gaps."""
    root: str
    before: str
    """The hash of the seal before."""
    refused: int
    """How many entries the door log had."""
    door: str
    """The hash of its last one."""
    at: int
    """Store time, milliseconds since 1970."""
    key: str
    """The public key that it is signed with. It says which one to check with, and is no reason to
    trust it.
    """
    signature: str = ""

    def signed(self) -> bytes:
        """Give the bytes that are signed."""
        bare = replace(self, signature="")
        return b"sayso.seal.1\x00" + msgspec.json.encode(bare, order="sorted")

    def hash(self) -> bytes:
        """Give what the next seal names it by."""
        return hashlib.sha256(b"sayso.seal.hash.1\x00" + self.line()).digest()

    def line(self) -> bytes:
        """Write it as JSON, always the same."""
        return msgspec.json.encode(self, order="sorted")


def read_seal(line: bytes) -> Seal:
    """Read a seal. `NotUnderstood` if it is none; whether it holds is not looked at."""
    try:
        if len(line) > LINE_BYTES_MAX:
            raise NotUnderstood("it is too long to be a seal")
        seal = msgspec.json.decode(line, type=Seal)
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        raise NotUnderstood(f"it is no seal: {error}") from None
    numbers = (seal.n, seal.first, seal.last, seal.count, seal.refused, seal.at)
    if not all(0 <= number <= _NUMBER_MAX for number in numbers):
        raise NotUnderstood("it is no seal: a number in it is out of range")
    return seal


class Seals(Protocol):
    """Keeps the seals of a store, which are only ever added to. May be called from many tasks;
    raises only errors of `sayso.errors`.
    """

    async def put(self, seal: Seal) -> None:
        """Keep the next seal, durably before the answer. `StaleItem` if its number is not the one
        after the last: somebody else has sealed meanwhile. `CommitUnknown` if the store cannot
        tell; look again.
        """
        ...

    async def last(self) -> Seal | None:
        """Read the last seal; None if there is none."""
        ...

    async def list(self, *, after: int = 0, limit: int = 50) -> list[KeptSeal]:
        """List seals by their place, from the one after a number on. What somebody else has put
        there is to be seen as well. A page has at most `limit`, and never more than `PAGE_MAX`.
        """
        ...

    async def leaves(self, *, after: int = 0, limit: int = 500) -> builtins.list[Leaf]:
        """List what a seal covers, in commit order, from the entry after a position on. As with
        `Store.tail`, nothing is ever skipped.
        """
        ...


def check_next(seal: Seal, last: int) -> None:
    """Raise `StaleItem` unless a seal comes right after the one with this number."""
    if seal.n < 1 or len(seal.line()) > LINE_BYTES_MAX:
        raise BadValue(f"this is no seal that could be kept: {seal.n}")
    if seal.n != last + 1:
        raise StaleItem(f"seal {last} is the last one, so this cannot be seal {seal.n}", rev=last)
