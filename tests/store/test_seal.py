"""Seals by themselves: the tree, the signature, the bytes."""

import hashlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso.errors import BadKeys, NotUnderstood
from sayso.store.keyring import KeyRing
from sayso.store.seal import LINE_BYTES_MAX, Seal, Tree, read_seal
from sayso.store.seal_key import Signer, public_keys, read_key, signature_fault
from sayso.testing.contract.audit import a_seal

# The leaves and roots of the reference implementation of Certificate Transparency.
LEAVES = [
    "",
    "00",
    "10",
    "2021",
    "3031",
    "40414243",
    "5051525354555657",
    "606162636465666768696a6b6c6d6e6f",
]
ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
hashes = st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=70)


def root(leaves) -> bytes:
    tree = Tree()
    for leaf in leaves:
        tree.add(leaf)
    assert tree.count == len(leaves)
    return tree.root()


def by_the_book(leaves) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    n = len(leaves)
    if n == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < n:
        k *= 2
    both = by_the_book(leaves[:k]) + by_the_book(leaves[k:])
    return hashlib.sha256(b"\x01" + both).digest()


def ring(*ids: str) -> KeyRing:
    return KeyRing({one: hashlib.sha256(one.encode()).digest() for one in ids})


@pytest.mark.parametrize("count", range(len(ROOTS)))
def test_the_root_is_the_one_that_others_come_to(count: int):
    assert root([bytes.fromhex(leaf) for leaf in LEAVES[:count]]).hex() == ROOTS[count]


@given(hashes)
def test_leaves_that_come_one_by_one_make_the_tree_of_the_book(leaves):
    assert root(leaves) == by_the_book(leaves)


@given(hashes, st.data())
def test_any_bit_of_any_leaf_changes_the_root(leaves, data):
    at = data.draw(st.integers(0, len(leaves) - 1))
    bit = data.draw(st.integers(0, 255))
    number = int.from_bytes(leaves[at]) ^ (1 << bit)

    changed = [*leaves[:at], number.to_bytes(32), *leaves[at + 1 :]]

    assert root(changed) != root(leaves)


@given(hashes, st.data())
def test_leaving_a_leaf_out_or_saying_it_twice_changes_the_root(leaves, data):
    at = data.draw(st.integers(0, len(leaves) - 1))

    assert root([*leaves[:at], *leaves[at + 1 :]]) != root(leaves)
    assert root([*leaves[: at + 1], *leaves[at:]]) != root(leaves)


@given(hashes)
def test_a_node_never_passes_for_a_leaf(leaves):
    assert root([root(leaves)]) != root(leaves)


@given(st.integers(1, 1 << 62), st.integers(0, 1 << 62), st.binary(min_size=32, max_size=32))
def test_a_signed_seal_holds_and_one_that_says_anything_else_does_not(n, at, leaf):
    signer = Signer(ring("a"))
    seal = signer.sign(replace(a_seal(n), at=at, root=root([leaf]).hex()))

    assert signature_fault(seal, [signer.public]) == ""
    assert read_seal(seal.line()) == seal
    for name in Seal.__struct_fields__:
        was = getattr(seal, name)
        other = was ^ 1 if isinstance(was, int) else ("00" if was[:2] != "00" else "11") + was[2:]
        edited = replace(seal, **{name: other})
        assert signature_fault(edited, [signer.public])
        assert edited.hash() != seal.hash()


def test_a_seal_is_bound_to_its_key():
    ours, theirs = Signer(ring("a")), Signer(ring("b"))
    forged = theirs.sign(a_seal(1))

    assert "not trusted" in signature_fault(forged, [ours.public])
    assert "does not fit" in signature_fault(replace(forged, key=ours.public), [ours.public])
    assert "does not fit" in signature_fault(replace(forged, key="zz"), ["zz"])


def test_after_a_rotation_the_current_key_signs_and_all_are_trusted():
    old, new = ring("a"), ring("b", "a")
    seal = Signer(old).sign(a_seal(1))

    assert public_keys(new) == (Signer(ring("b")).public, Signer(old).public)
    assert Signer(new).public == Signer(ring("b")).public
    assert signature_fault(seal, public_keys(new)) == ""
    assert Signer(old).public not in repr(old)
    assert repr(Signer(old)) == f"Signer({Signer(old).public})"


def test_a_public_key_is_read_as_it_is_printed():
    key = Signer(ring("a")).public

    assert read_key(f" {key.upper()}\n") == key
    for bad in ("", "xx", key[:-2], key + "00"):
        with pytest.raises(BadKeys, match="64 hexadecimal"):
            read_key(bad)


@pytest.mark.parametrize(
    "change",
    [
        lambda line: line[:-1],
        lambda line: b"",
        lambda line: b"[]",
        lambda line: line.replace(b'"n":1', b'"n":"1"'),
        lambda line: line.replace(b'"n":1', b'"n":-1'),
        lambda line: line.replace(b'"n":1', b'"n":%d' % (1 << 63)),
        lambda line: line.replace(b'"n":1', b'"n":1,"more":2'),
        lambda line: line.replace(b'"n":1', b'"n":1' + b" " * LINE_BYTES_MAX),
        lambda line: line.replace(b"ab", b"\xff"),
        lambda line: line.replace(b"ab", b"\\ud800"),
    ],
)
def test_what_is_no_seal_is_refused(change):
    with pytest.raises(NotUnderstood):
        read_seal(change(a_seal(1).line()))


def test_a_line_is_json_with_its_fields_in_order():
    line = a_seal(7).line()

    assert list(msgspec.json.decode(line)) == sorted(Seal.__struct_fields__)
    assert b"\n" not in line
