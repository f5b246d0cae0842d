"""A request as lines: what is said of time, of changes, and to a program that reads Markdown."""

from datetime import UTC, datetime, timedelta

import click
import pytest

from sayso.cli.card import broken, changes, left, markdown, span
from sayso.domain.digest import encode_value
from sayso.domain.ruling import Require
from sayso.store.views import HoldView

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def request(args: object = None, **fields: object) -> HoldView:
    return HoldView(
        **{
            "id": "hold_x.1", "run_id": "run_x", "request_id": "req_x.1", "call_id": "run_x.1.0",
            "kind": "approval", "tool": "pay", "args": args, "title": "pay", "why": "",
            "risk": "high", "digest": "d" * 64, "version": 1, "deadline": None, "status": "open",
            "opened_at": NOW, "approvers": ("user:mira",), "agent": "teller", "project": "default",
            "args_json": encode_value(args or {}).decode(), **fields,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    "seconds, written",
    [(-1, "0:00"), (511, "8:31"), (660, "11 min"), (14_399, "3 h 59 min"), (187_200, "2 d 4 h")],
)
def test_a_time_is_written_as_people_say_it(seconds, written):
    assert span(timedelta(seconds=seconds)) == written


@pytest.mark.parametrize(
    "silence, said",
    [("reject", "rejects itself in 8:31"), ("cancel", "the run is cancelled in 8:31")],
)
def test_what_happens_in_the_end_is_always_said(silence, said):
    hold = request(deadline=NOW + timedelta(seconds=511), ruling=Require(on_silence=silence))

    assert click.unstyle(left(hold, NOW)) == said
    assert left(request(), NOW) == "waits for as long as it takes"


def test_changes_name_the_place_and_every_line():
    hold = request({"a": {"n": 1, "m": 1}, "b": {"n": 1}, "text": "one\ntwo"})
    now = encode_value({"a": {"n": 2, "m": 1}, "b": {"n": 1, "new": "\u202e"}, "text": "one"})

    assert [click.unstyle(line) for line in changes(hold, now)] == [
        "- a.n: 1",
        "+ a.n: 2",
        "- text: one",
        "-     two",
        "+ text: one",
        r"+ b.new: \u{202e}",
    ]


def test_a_number_that_only_looks_the_same_is_a_change():
    assert changes(request({"n": 1}), b'{"n":1.0}')
    assert changes(request({"n": 9007199254740993}), b'{"n":9007199254740992}')
    assert not changes(request({"n": 1}), b'{"n":1}')


def test_nothing_in_a_request_is_markup():
    text = markdown(request({"memo": "````\n# not a title"}, title="**bold** <b>"))

    assert text.startswith("# \\*\\*bold\\*\\* \\<b\\>\n\n`````text\n")
    assert text.endswith("\n`````")


def test_a_word_wider_than_the_terminal_is_broken(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")

    lines = list(broken("short " + "x" * 90 + " end", 4))

    assert max(map(len, lines)) == 40
    assert all(line.startswith("    ") for line in lines)
    assert "".join(line.strip() for line in lines) == "short" + "x" * 90 + " end"
