from pathlib import Path

import msgspec
import pytest

from sayso.cli.timeline import Timeline
from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.call import Call
from sayso.domain.recorded import Recorded
from sayso.engine.story import Story

GOLDEN = sorted((Path(__file__).parents[1] / "domain" / "golden").glob("*.json"))
KINDS = {kind.__name__ for kind in e.Event.__subclasses__()}


def entry(event: e.AnyEvent | None) -> Recorded:
    return Recorded(run_id="run_1", seq=1, at=1_700_000_000_000, event=event)


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_every_event_there_ever_was_has_words_of_its_own(path):
    event = codec.decode_event(path.read_bytes())

    word, text = Story().describe(entry(event))

    assert word not in KINDS
    assert text
    assert (word + text).isprintable()


def test_an_erased_entry_is_shown_as_one():
    assert Story().describe(entry(None))[0] == "redacted"


def test_what_comes_from_outside_is_made_plain():
    event = codec.decode_event((GOLDEN[0].parent / "run.started.1.json").read_bytes())
    nasty = e.RunStarted(
        run=event.run, project="p", agent="\x1b", by=event.by, input="\x1b[2J\u202e", at=1
    )

    _, text = Story().describe(entry(nasty))

    assert text.isprintable()
    assert r"\u{1b}[2J\u{202e}" in text


LONG = Call(ref="1.0", tool="pay", args=msgspec.Raw(b'{"a":"' + b"z" * 5000 + b'"}'))
ODD = Call(ref="1.1", tool="pay", text="amount=5\x1b", digest="d")
BROKEN = Call(ref="1.0", tool="pay", args=msgspec.Raw(b"{ }"))


def test_what_is_long_is_folded_unless_all_of_it_is_asked_for():
    turn = entry(e.TurnTaken(turn=1, seen=0, calls=(LONG,)))

    folded = "\n".join(Timeline().lines([turn]))
    full = "\n".join(Timeline(full=True).lines([turn]))

    assert "lines are folded; the whole has 5,000 characters" in folded
    assert "folded" not in full
    assert full.count("z") == 5000


def test_each_of_several_calls_has_its_own_arguments():
    lines = list(Timeline().lines([entry(e.TurnTaken(turn=1, seen=0, calls=(LONG, ODD)))]))

    assert "      1.0, pay" in lines
    assert lines[-5:-1] == [
        "      1.1, pay",
        "      Arguments: none (2 bytes)",
        "      The agent's own words, which nobody has checked:",
        r'        wrote instead: "amount=5\u{1b}"',
    ]


def test_an_edit_and_a_command_show_their_arguments():
    revised = codec.decode_event((GOLDEN[0].parent / "hold.revised.1.json").read_bytes())
    command = codec.decode_event((GOLDEN[0].parent / "command.received.1.json").read_bytes())

    assert list(Timeline().lines([entry(revised)]))[2] == "        amount: 20"
    assert len(list(Timeline().lines([entry(command)]))) > 2


def test_bytes_that_are_no_arguments_are_called_so():
    lines = list(Timeline().lines([entry(e.TurnTaken(turn=1, seen=0, calls=(BROKEN,)))]))

    assert "      NOT ARGUMENTS, but 3 bytes that cannot be read as such" in lines


def test_a_new_day_gets_a_line_of_its_own():
    started = entry(e.RunSuspended())
    later = Recorded(run_id="run_1", seq=2, at=started.at + 86_400_000, event=e.RunResumed())

    assert len(list(Timeline().lines([started, later]))) == 4


def test_the_files_of_a_call_are_listed_where_somebody_is_asked_about_them():
    events = {path.stem: codec.decode_event(path.read_bytes()) for path in GOLDEN}
    line = 'names the file "pay.sh", 120 bytes, sha256 aaaaaaaaaaaa'
    none = 'paths[1] names the file "/srv/none", which is not there'

    for name in ("hold.opened.1-operands", "hold.revised.1-operands"):
        shown = "\n".join(Timeline().lines([entry(events[name])]))
        assert line in shown
        assert none in shown
    turn = "\n".join(Timeline().lines([entry(events["turn.taken.1-operands"])]))
    assert "names the file" not in turn
