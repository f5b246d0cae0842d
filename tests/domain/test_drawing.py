"""What is drawn is read back to the arguments: then no two can be drawn alike."""

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sayso.domain.digest import encode_value
from sayso.domain.drawing import COLUMNS_MIN, HEAD, TAIL, draw, render_text
from sayso.domain.glyph import pieces, read_back
from sayso.domain.rendering import NAME_MAX, render
from tests.domain.test_glyph import assert_seen
from tests.domain.test_rendering import ARGS, shown

LABEL = re.compile(r'(?:\((\d+)\) )?("[^"]*"|[A-Za-z_][\w-]*|\[\d+\]): (.*)')
LONG = st.text("ab \n\\\u4e2d\u05d0\u202e:|-", min_size=50, max_size=400)
NAME = st.text("ab \\\u4e2d:|-", max_size=90)


def logical(lines: list[str]) -> list[tuple[int, str]]:
    """Put lines together that were broken; give each with its indentation."""
    found: list[tuple[int, str]] = []
    for line in lines:
        text = line.lstrip(" ")
        if text.startswith(":"):
            found[-1] = (found[-1][0], found[-1][1] + text[2:])
        else:
            found.append((len(line) - len(text), text))
    return [one for one in found if not one[1].startswith("- ")]


def parsed(lines: list[tuple[int, str]], depth: int) -> list[tuple[str, object]]:
    """Read the parts of one depth, and leave what comes after them."""
    found: list[tuple[str, object]] = []
    while lines:
        indent, text = lines[0]
        number, name, rest = LABEL.fullmatch(text).groups()
        if (int(number) if number else indent // 2 - 1) != depth:
            break
        lines.pop(0)
        name = read_back(name[1:-1]) if name[0] == '"' else name
        if rest.startswith("object"):
            value: object = dict(parsed(lines, depth + 1))
        elif rest.startswith("list"):
            value = [inner for _, inner in parsed(lines, depth + 1)]
        elif re.match("[a-z]+, [0-9,]+ line", rest):
            rows = []
            while lines and lines[0][1].startswith("|"):
                rows.append(lines.pop(0)[1][2:])
            whole = read_back("\n".join(rows))
            value = whole if rest.startswith("text") else json.loads(whole)
        elif rest.startswith('"'):
            value = read_back(rest.removeprefix('"').partition('"')[0])
        else:
            value = json.loads(rest.partition("  = ")[0])
        found.append((name, value))
    return found


@given(ARGS | st.dictionaries(NAME, LONG | st.lists(LONG), max_size=3), st.integers(0, 200))
def test_what_is_drawn_in_full_is_read_back_to_the_bytes(args, columns):
    # Names of more than a hundred characters are cut, and told apart by their digests.
    assume(all(len(line.part.name) <= NAME_MAX for line in shown(args).lines()))
    lines = list(draw(shown(args), columns=columns, full=True))

    assert lines[0].frame
    assert not any(line.frame for line in lines[1:])
    texts = logical([line.text for line in lines[1:]])
    assert encode_value(dict(parsed(texts, 0))) == encode_value(args)
    assert texts == []


@given(ARGS | st.dictionaries(LONG, LONG, max_size=3), st.integers(0, 200), st.booleans())
def test_no_line_of_an_argument_is_one_of_ours_or_too_wide(args, columns, full):
    rendering = shown(args, words=[("agent", "why", str(args)), ("tool", "title", str(args))])

    for line in draw(rendering, columns=columns, full=full):
        assert_seen(line.text)
        assert line.frame == (line.text[0] != " ")
        assert sum(width for _, width in pieces(line.text)) <= max(columns, COLUMNS_MIN)


@given(ARGS, ARGS)
def test_different_arguments_are_drawn_differently_even_when_folded(one, other):
    same = encode_value(one) == encode_value(other)
    drawn = [[line.text for line in draw(shown(args))][1:] for args in (one, other)]

    assert (drawn[0] == drawn[1]) == same


def test_a_frame_inside_of_an_argument_is_not_a_frame():
    words = [("agent", "why", "x"), ("tool", "why", "x")]
    frame = [line.text for line in draw(shown({"a": 1}, words=words)) if line.frame]
    evil = "\n".join([*frame, "  amount: 1", "", "... 5 are folded", " " * 200 + frame[0]])
    lines = render_text(shown({"a": evil, evil: 1, "b": [evil]}), columns=80).split("\n")

    assert [line for line in lines if line in frame] == []
    assert "  amount: 1" not in lines


def test_what_is_ours_and_what_is_not_stand_apart():
    rendering = render(
        encode_value({"amount": 12400.0, "memo": 'a\n\n"b"', "to": {"tags": [], "a b": ["x"]}}),
        {"properties": {"amount": {"title": "Amount", "description": "In all."}}},
        words=[("agent", "why", "to list files"), ("tool", "title", "Pay")],
    )

    assert render_text(rendering).split("\n") == [
        "Arguments: 3 (67 bytes)",
        "  amount: 12400.0  = 12,400.0",
        "    - its schema calls it: Amount",
        "    - its schema says: In all.",
        "  memo: text, 3 lines",
        "    | a",
        "    |",
        '    | "b"',
        "  to: object, 2 entries",
        '    "a b": list, 1 item',
        '      [0]: "x"',
        "    tags: list, empty",
        "The agent's own words, which nobody has checked:",
        '  why: "to list files"',
        "Words of the tool or a rule:",
        '  title: "Pay"',
    ]


def test_no_arguments_and_no_such_arguments_say_so():
    assert render_text(shown({})) == "Arguments: none (2 bytes)"
    assert render_text(render(b"{ }")).split("\n") == [
        "NOT ARGUMENTS, but 3 bytes that cannot be read as such",
        "  bytes: bytes, 1 line",
        "    | { }",
        "    - no call could be made with these bytes",
    ]


def test_a_long_text_is_folded_in_the_middle_and_says_so():
    text = "\n".join(["first", *["x"] * 98, "last"])
    rendering = shown({"a": text})

    lines = render_text(rendering).split("\n")
    assert len(lines) == 2 + HEAD + 2 + TAIL
    assert lines[2] == "    | first"
    assert lines[-1] == "    | last"
    fold = lines[2 + HEAD] + lines[3 + HEAD].partition(": ")[2]
    assert fold == f"    ... 84 lines are folded; the whole has {rendering.parts[0].fold}"
    assert len(render_text(rendering, full=True).split("\n")) == 102
    assert "folded" not in render_text(shown({"a": "x" * 1001}))


def test_a_long_list_is_folded_in_the_middle_and_says_so():
    rendering = shown({"a": list(range(100))})

    text = render_text(rendering, columns=200)
    assert f"    ... 84 are folded; the whole has {rendering.parts[0].fold}\n" in text
    assert [int(at) for at in re.findall(r"\[(\d+)\]", text)] == [*range(12), *range(96, 100)]
    assert render_text(rendering, full=True).count("\n") == 101


@pytest.mark.parametrize("depth", [9, 10, 11, 50])
def test_what_is_deep_says_so_and_leaves_room(depth):
    value: object = "x"
    for _ in range(depth):
        value = [value]
    lines = render_text(shown({"a": value}), columns=60).split("\n")

    deep = f"({depth}) " if depth > 10 else ""
    assert lines[-1].strip() == f'{deep}[0]: "x"'
    assert max(map(len, lines)) < 60
