from pathlib import Path

import pytest

from sayso.cli.timeline import Timeline
from sayso.domain import codec
from sayso.domain import events as e

GOLDEN = sorted((Path(__file__).parents[1] / "domain" / "golden").glob("*.json"))
KINDS = {kind.__name__ for kind in e.Event.__subclasses__()}


def entry(event: e.AnyEvent | None) -> e.Recorded:
    return e.Recorded(run_id="run_1", seq=1, at=1_700_000_000_000, event=event)


@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_every_event_there_ever_was_has_words_of_its_own(path):
    event = codec.decode_event(path.read_bytes())

    word, text = Timeline().describe(entry(event))

    assert word not in KINDS
    assert text
    assert (word + text).isprintable()


def test_an_erased_entry_is_shown_as_one():
    assert Timeline().describe(entry(None))[0] == "redacted"


def test_what_comes_from_outside_is_made_plain():
    event = codec.decode_event((GOLDEN[0].parent / "run.started.1.json").read_bytes())
    nasty = e.RunStarted(
        run=event.run, project="p", agent="\x1b", by=event.by, input="\x1b[2J\u202e", at=1
    )

    _, text = Timeline().describe(entry(nasty))

    assert text.isprintable()
    assert r"\u{1b}[2J\u{202e}" in text


def test_a_new_day_gets_a_line_of_its_own():
    started = entry(e.RunSuspended())
    later = e.Recorded(run_id="run_1", seq=2, at=started.at + 86_400_000, event=e.RunResumed())

    assert len(list(Timeline().lines([started, later]))) == 4
