import hashlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sayso.domain.digest import encode_value
from sayso.domain.drawing import render_text
from sayso.domain.glyph import read_back
from sayso.domain.rendering import CHARS_MAX, ITEMS_MAX, NAME_MAX, ROWS_MAX, Rendering, render
from sayso.domain.secret import mark_of
from tests.domain.nasty import REFUSED
from tests.domain.test_glyph import ODD

TEXT = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(ODD + '":|-.[](')))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(TEXT, inner, max_size=5)),
    max_leaves=20,
)
ARGS = st.dictionaries(TEXT, VALUES, max_size=5)


def shown(value, schema=None, **more) -> Rendering:
    return render(encode_value(value), schema, **more)


def leaves(value, path=()):
    if isinstance(value, dict | list):
        entries = sorted(value.items()) if isinstance(value, dict) else enumerate(value)
        for key, inner in entries:
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


@given(ARGS)
def test_every_leaf_is_there_with_its_value(args):
    lines = list(shown(args).lines())

    found = [line.part for line in lines if line.part.kind not in ("object", "list")]
    assert [json.loads(part.raw) for part in found] == [value for _, value in leaves(args)]
    for part, (_, value) in zip(found, leaves(args), strict=True):
        text = value if isinstance(value, str) else json.dumps(value)
        assert read_back("\n".join(part.rows)) == text
        assert part.raw.isascii()
    assert len({line.path for line in lines}) == len(lines)


@given(ARGS, ARGS)
def test_different_arguments_are_shown_differently(one, other):
    same = encode_value(one) == encode_value(other)

    assert (shown(one).parts == shown(other).parts) == same


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_different_bytes_are_shown_differently(one, other):
    assert (render(one).parts == render(other).parts) == (one == other)


@pytest.mark.parametrize("data", [*REFUSED.values(), b'{"a": 1}', b'{"b":1,"a":1}', b'{"a":1e2}'])
def test_bytes_that_are_no_arguments_are_shown_as_bytes(data):
    rendering = render(data)

    (part,) = rendering.parts
    assert not rendering.inspectable
    assert part.kind == "bytes"
    assert read_back("\n".join(part.rows)).encode("utf-8", "surrogateescape") == data
    assert "no call could be made with these bytes" in part.notes


def test_a_value_that_is_no_object_has_a_name_that_no_argument_has():
    assert [line.path for line in shown([5]).lines()] == ["(value)", "(value)[0]"]
    assert [line.path for line in shown({"(value)": 5}).lines()] == ['"(value)"']


def test_paths_lead_to_values():
    args = {"to": {"items": [{"odd name": 1}], 'a"b': 2}, "x-1_y": 3, "1": 4, "": 5}

    assert [line.path for line in shown(args).lines()] == [
        '""',
        '"1"',
        "to",
        r'to."a\u{22}b"',
        "to.items",
        "to.items[0]",
        'to.items[0]."odd name"',
        "x-1_y",
    ]


def test_kinds_are_told_apart():
    args = {"a": 1, "b": 1.0, "c": "1", "d": True, "e": None, "f": [], "g": {}}

    kinds = [part.kind for part in shown(args).parts]
    assert kinds == ["integer", "number", "text", "boolean", "null", "list", "object"]


def test_the_schema_is_a_hint_beside_the_value():
    schema = {
        "properties": {
            "amount": {"format": "money", "currency": "currency", "title": "Amount\u202e"},
            "fees": {"items": {"format": "money", "currency": "EUR", "description": "a fee"}},
            "limit": {"format": "money", "currency": "EUR"},
            "odd": {"format": "money"},
        }
    }
    args = {"amount": 5.0, "currency": "USD", "fees": [1], "limit": "1.5", "odd": "x"}

    parts = {line.path: line.part for line in shown(args, schema).lines()}

    assert (parts["amount"].rows, parts["amount"].formatted) == (("5.0",), "USD 5.00")
    assert parts["amount"].title == r"Amount\u{202e}"
    assert (parts["fees[0]"].formatted, parts["fees[0]"].description) == ("EUR 1.00", "a fee")
    assert (parts["limit"].rows, parts["limit"].formatted) == (("1.5",), "EUR 1.50")
    assert parts["odd"].notes == ("is to be money, and is no such number",)
    assert shown({"odd": 5}, schema).parts[0].notes == ("is money, and its currency is not known",)


def test_a_long_title_says_how_much_is_left_out():
    (part,) = shown({"a": 1}, {"properties": {"a": {"title": "t" * (CHARS_MAX + 5)}}}).parts

    assert part.title == "t" * CHARS_MAX + " [5 more characters]"


def test_a_long_text_says_how_large_it_is_and_is_there_in_full():
    text = "\u00e9" * (CHARS_MAX + 1)
    (part,) = shown({"a": text}).parts

    digest = hashlib.sha256(text.encode()).hexdigest()
    assert part.rows == (text,)
    assert str(part.fold) == f"1,001 characters, 2,002 bytes, sha256 {digest}"
    assert shown({"a": text}).folded
    assert not shown({"a": text[1:]}).folded
    assert shown({"a": "\n" * ROWS_MAX}).folded
    assert shown({"a": 10 ** (CHARS_MAX + 1)}).folded


def test_a_long_list_says_how_large_it_is_and_is_there_in_full():
    (part,) = shown({"a": [1] * (ITEMS_MAX + 1)}).parts
    (other,) = shown({"a": {str(n): n for n in range(ITEMS_MAX + 1)}}).parts

    data = encode_value([1] * (ITEMS_MAX + 1))
    assert len(part.parts) == ITEMS_MAX + 1
    assert str(part.fold) == f"51 items, 103 bytes, sha256 {hashlib.sha256(data).hexdigest()}"
    assert other.fold.unit == "entries"
    assert not shown({"a": [1] * ITEMS_MAX}).folded


def test_a_long_name_is_told_from_every_other():
    one, other = (shown({"n" * NAME_MAX + end: 1}).parts[0].name for end in ("abc", "abd"))

    assert one != other
    assert one.startswith('"' + "n" * NAME_MAX + '" and 3 more, sha256 ')


def test_nothing_after_a_name_changes_places_with_it():
    assert shown({"\u05d0": 1}).parts[0].name == r'"\u{5d0}"'


def test_words_stand_apart_from_the_arguments():
    rendering = shown(
        {"path": "/"}, words=[("agent", "why", "I list files\x1b"), ("tool", "title", "")]
    )

    (words,) = rendering.words
    assert [line.path for line in rendering.lines()] == ["path"]
    assert (words.by, words.part.rows) == ("agent", (r"I list files\u{1b}",))
    assert not rendering.folded
    assert shown({}, words=[("agent", "why", "x" * 2000)]).folded


@pytest.mark.search
def test_the_largest_arguments_are_rendered_in_time():
    deep = [1] * 60_000
    for _ in range(90):
        deep = {"k" * 100: deep}
    before = time.process_time()

    list(render(encode_value(deep)).lines())
    list(shown({"a": "\u05d0 \u0430b" * 40_000}).lines())

    assert time.process_time() - before < 20


TOKEN = "k1.c2VhbGVk"


def test_of_a_secret_only_its_mark_is_shown():
    mark = mark_of(TOKEN)

    sealed = shown({"user": "mira", "password": {"$sealed": TOKEN}})
    (password, _) = sealed.parts

    assert (password.kind, password.rows) == ("secret", (f"[secret {mark}]",))
    assert TOKEN not in repr(sealed)
    assert shown({"user": "mira", "password": {"$sealed": mark}}).parts == sealed.parts
    assert f"  password: [secret {mark}]" in render_text(sealed).splitlines()


@pytest.mark.parametrize("like", [f"[secret {mark_of(TOKEN)}]", [mark_of(TOKEN)], {"$sealed": 1}])
def test_nothing_else_is_shown_like_a_secret(like):
    mine, other = shown({"password": {"$sealed": TOKEN}}), shown({"password": like})

    assert mine.parts != other.parts
    assert render_text(mine).splitlines()[1:] != render_text(other).splitlines()[1:]
