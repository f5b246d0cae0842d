"""Files as part of what is asked: their pins, and what is said when they change."""

import msgspec
import pytest

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.adopting import Lore, adopt
from sayso.domain.call import CallState
from sayso.domain.digest import call_digest, encode_value
from sayso.domain.drawing import render_text
from sayso.domain.operand import OperandPin, encode_pins, what_changed
from sayso.domain.rendering import render
from sayso.domain.ruling import Require
from sayso.domain.transcript import Transcript

from .build import APPROVE, ASK, MIRA, NOW, answer, apply_all, begin, begun, commit, start

CALL = {
    "project": "p",
    "run": "run_1",
    "version": 1,
    "tool": "run",
    "tool_version": "1",
    "args": b'{"path":"pay.sh"}',
}
PIN = OperandPin(name="path", path="pay.sh", sha256="a" * 64, size=3)
OTHER = msgspec.structs.replace(PIN, sha256="b" * 64)
ABSENT = OperandPin(name="path", path="pay.sh")


def test_a_call_without_files_has_the_digest_that_it_always_had():
    assert encode_pins(()) == b""
    assert call_digest(**CALL) == call_digest(**CALL, operands=encode_pins(()))


@pytest.mark.parametrize(
    "field, other", [("name", "file"), ("path", "./pay.sh"), ("sha256", "c" * 64), ("size", 4)]
)
def test_a_change_of_anything_about_a_file_is_another_digest(field: str, other: object):
    changed = msgspec.structs.replace(PIN, **{field: other})

    found = {call_digest(**CALL, operands=encode_pins(pins)) for pins in ((), (PIN,), (changed,))}
    assert len(found) == 3


def test_that_a_file_is_not_there_is_part_of_what_is_asked():
    assert (ABSENT.absent, PIN.absent) == (True, False)
    assert encode_pins((ABSENT,)) not in (b"", encode_pins((PIN,)))


@pytest.mark.parametrize(
    "before, now, said",
    [
        ((PIN,), (PIN,), ""),
        ((), (), ""),
        ((PIN,), (OTHER,), "the file 'pay.sh' was changed"),
        ((PIN,), (ABSENT,), "the file 'pay.sh' has vanished"),
        ((ABSENT,), (PIN,), "the file 'pay.sh' has appeared"),
        ((), (PIN,), "the file 'pay.sh' had not been looked at"),
        ((PIN,), (), "the file 'pay.sh' is not one of its files any more"),
    ],
)
def test_what_has_changed_is_said_of_each_file(
    before: tuple[OperandPin, ...], now: tuple[OperandPin, ...], said: str
):
    assert what_changed(before, now) == said


def test_all_files_that_changed_are_named():
    more = OperandPin(name="log", path="out.log")

    said = what_changed((PIN, more), (OTHER, msgspec.structs.replace(more, sha256="c" * 64)))

    assert said == "the file 'pay.sh' was changed, the file 'out.log' has appeared"


def test_the_files_of_a_call_are_shown_below_its_arguments():
    gone = OperandPin(name="log", path='a"\x1b[2J\n')
    args = encode_value({"path": "pay.sh"})

    shown = render(args, operands=[PIN, gone], words=[("tool", "why", "so")])

    assert shown.files[0].raw == '"pay.sh"'
    assert render_text(shown).split("\n") == [
        f"Arguments: 1 ({len(args)} bytes)",
        '  path: "pay.sh"',
        "Files: 2, as they were when this was asked",
        '  path names the file "pay.sh", 3 bytes, sha256 aaaaaaaaaaaa',
        r'  log names the file "a\u{22}\u{1b}[2J\u{a}", which is not there',
        "Words of the tool or a rule:",
        '  why: "so"',
    ]


def test_files_are_shown_of_bytes_that_are_no_arguments_too():
    assert len(render(b"{ }", operands=[PIN]).files) == 1


class Story:
    """A run with one call of one file, its journal and its transcript."""

    def __init__(self, *, pinned: bool = True) -> None:
        first = begun()
        self.events: list[e.Event] = [first]
        self.run = commit(None, first)
        turn = answer(self.run, "d1")
        call = msgspec.structs.replace(turn.calls[0], operands=(PIN,) if pinned else ())
        self.go(msgspec.structs.replace(turn, calls=(call,)))

    def go(self, *events: e.Event) -> None:
        self.run = apply_all(self.run, events)
        self.events += events

    def hold(self, **more: object) -> None:
        request = verbs.HoldRequest(ref="1.0", ruling=ASK, **more)  # pyright: ignore[reportArgumentType]
        self.go(*verbs.open_holds(self.run, [request], now=NOW))

    def settle(self, n: int) -> None:
        self.go(*settling.settle(self.run, n, APPROVE, by=MIRA, now=NOW))

    def pins(self) -> tuple[OperandPin, ...]:
        transcript = Transcript(self.run.id)
        for seq, event in enumerate(self.events, start=1):
            transcript.add(seq, event)  # pyright: ignore[reportArgumentType]
        return transcript.operands.get("1.0", ())


def test_a_transcript_knows_the_files_that_were_last_asked_about():
    story = Story()
    assert story.pins() == (PIN,)

    story.hold(operands=(PIN,))
    story.settle(1)
    story.hold(operands=(OTHER,), digest="d2", tool_version="1")
    assert story.pins() == (OTHER,)

    revised = verbs.revise(
        story.run,
        2,
        args=b"{}",
        digest="d3",
        ruling=Require(),
        by=MIRA,
        now=NOW,
        operands=(ABSENT,),
    )
    story.go(*revised)
    assert story.pins() == (ABSENT,)


def test_a_tool_that_names_no_files_any_more_leaves_none():
    story = Story()
    story.hold(operands=(PIN,))
    story.settle(1)
    story.hold(digest="d2", tool_version="2")

    assert story.pins() == ()


def test_a_hold_about_something_else_leaves_the_files_as_they_are():
    story = Story()
    story.hold()

    assert story.pins() == (PIN,)


def test_a_call_in_doubt_is_asked_about_with_its_files():
    story = Story(pinned=False)
    row = story.run.call("1.0")
    assert row is not None
    story.go(*verbs.start_calls(story.run, [start(row)]))

    doubt = verbs.doubt_call(
        story.run, "1.0", attempt=1, why="?", ruling=ASK, now=NOW, operands=(PIN,)
    )

    assert isinstance(doubt[-1], e.HoldOpened)
    assert doubt[-1].operands == (PIN,)


def adopted(story: Story) -> e.HoldOpened:
    events = adopt(story.run, Lore(story.events), e.RunAdopted(by=MIRA, at=NOW, source="x"))
    return next(one for one in events if isinstance(one, e.HoldOpened))


def test_what_is_asked_again_after_an_adoption_names_its_files():
    story = Story()
    story.hold(operands=(PIN,))
    story.settle(1)
    assert adopted(story).operands == (PIN,)

    story.hold(operands=(OTHER,), digest="d2", tool_version="1")
    story.settle(2)
    assert adopted(story).operands == (OTHER,)


def test_what_was_under_way_at_an_adoption_names_its_files():
    story = Story()
    story.hold(operands=(PIN,))
    revised = verbs.revise(
        story.run,
        1,
        args=b"{}",
        digest="d3",
        ruling=Require(),
        by=MIRA,
        now=NOW,
        operands=(OTHER,),
    )
    story.go(*revised)
    story.settle(1)
    story.run = begin(story.run)

    assert story.run.calls(CallState.STARTED)
    assert adopted(story).operands == (OTHER,)
