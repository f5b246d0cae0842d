"""Keys of a terminal, at one: a pseudo-terminal in this process."""

import os
import pty
import sys
import termios

import pytest

from sayso.cli.keys import keyboard


@pytest.fixture
def typed(monkeypatch):
    """Type something."""
    master, slave = pty.openpty()
    with os.fdopen(slave) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield lambda text: os.write(master, text.encode())
    os.close(master)


async def test_keys_count_once_something_was_seen(typed):
    with keyboard() as keys:
        typed("a")
        await keys.settle()
        early = await keys.key(0.1)
        typed("B")
        late = await keys.key(60)

    assert (early, late) == ("", "b")


async def test_of_what_comes_at_once_only_the_first_counts(typed):
    with keyboard() as keys:
        typed("abc")
        first = await keys.key(60)
        second = await keys.key(0.1)

    assert (first, second) == ("a", "")


async def test_arrows_and_the_like_are_no_keys(typed):
    with keyboard() as keys:
        typed("\x1b[A")
        arrow = await keys.key(60)

    assert arrow == ""


async def test_a_line_is_asked_for_in_between_and_the_terminal_left_as_it_was(typed, capsys):
    before = termios.tcgetattr(sys.stdin.fileno())

    with keyboard() as keys:
        within = termios.tcgetattr(sys.stdin.fileno())
        typed("not now\n")
        line = await keys.line("Why? ")

    assert line == "not now"
    assert not within[3] & termios.ICANON
    assert termios.tcgetattr(sys.stdin.fileno())[3] == before[3]
    assert capsys.readouterr().err == "Why? "
