"""The instance tree, as it is told by strands and calls."""

import msgspec
import pytest

from sayso.domain import events as e
from sayso.domain import verbs
from sayso.domain.run import Run
from sayso.domain.transcript import Transcript
from sayso.domain.tree import Kept, Leaving, decode_kept, encode_kept, tree_of
from sayso.errors import NotUnderstood, RunWaiting

from .build import MIRA, NOW, cancelled, commanded, commit, executing, held, opened_strand, started

ROOT = Kept(node="desk", state=msgspec.Raw(b'{"total":1}'))
CLERK = Kept(node="clerk", state=msgspec.Raw(b"[]"))


def told(*events: e.Event) -> Transcript:
    found = Transcript("run_1")
    for seq, event in enumerate(events, start=1):
        found.add(seq, event)  # type: ignore[arg-type]
    return found


def rooted(*events: e.Event) -> Transcript:
    return told(e.StrandChanged(strand="main", data=encode_kept(ROOT)), *events)


def statuses(run: Run, transcript: Transcript) -> dict[str, str]:
    return {one.id: one.status for one in tree_of(run, transcript)}


def opened(name: str, kept: Kept) -> e.StrandOpened:
    return e.StrandOpened(strand=name, text="Go.", data=encode_kept(kept))


@pytest.mark.parametrize(
    "kept",
    [
        ROOT,
        Kept(node="n", state=msgspec.Raw(b"null"), leaving=Leaving(how="end")),
        Kept(
            node="n",
            state=msgspec.Raw(b"1"),
            leaving=Leaving(how="transition", to="m", value=msgspec.Raw(b"2")),
        ),
    ],
)
def test_what_is_kept_of_an_instance_comes_back(kept: Kept):
    again = decode_kept(bytes(encode_kept(kept)))

    assert again is not None
    assert bytes(encode_kept(again)) == bytes(encode_kept(kept))


@pytest.mark.parametrize("data", [None, b'{"is":"plan.1"}', b"[]"])
def test_what_another_agent_keeps_is_no_instance(data: bytes | None):
    assert decode_kept(data) is None


def test_an_instance_that_cannot_be_read_is_refused():
    with pytest.raises(NotUnderstood):
        decode_kept(b'{"is":"instance.1","room":"desk"}')


def test_a_run_without_instances_has_no_tree():
    assert tree_of(held("d"), told()) == ()


def test_an_instance_shows_where_it_is_and_what_it_knows():
    (root,) = tree_of(started(), rooted())

    assert (root.id, root.node, root.state, root.parent) == ("main", "desk", {"total": 1}, None)
    assert (root.status, root.holds) == ("active", ())


def test_an_instance_waits_if_nothing_of_it_goes_on():
    assert statuses(held("d"), rooted()) == {"main": "waiting"}
    assert statuses(held("d", ready=("e",)), rooted()) == {"main": "active"}
    assert statuses(executing("d"), rooted()) == {"main": "active"}


def test_an_instance_names_what_it_asks():
    run = held("d")
    assert [one.holds for one in tree_of(run, rooted())] == [("hold_1.1",)]

    run = commanded(opened_strand(run, "clerk"))
    ask = verbs.HoldRequest(ref="c1", ruling=verbs.Require())
    run = commit(run, *verbs.open_holds(run, [ask], now=NOW))
    transcript = rooted(opened("clerk.2", CLERK))
    transcript.commands["c1"] = (MIRA, "clerk.2")
    by_id = {one.id: one for one in tree_of(run, transcript)}

    assert by_id["main"].holds == ("hold_1.1",)
    assert by_id["clerk.2"].holds == ("hold_1.2",)
    assert by_id["clerk.2"].status == "active"


def test_an_instance_that_is_over_shows_what_it_left():
    closed = e.StrandClosed(strand="clerk.2", result=msgspec.Raw(b'"done"'), error="")
    transcript = rooted(opened("clerk.2", CLERK), closed)
    by_id = {one.id: one for one in tree_of(held("d"), transcript)}

    assert (by_id["clerk.2"].status, by_id["clerk.2"].result) == ("closed", "done")


def test_instances_of_a_run_that_is_over_are_closed():
    run = cancelled(held("d"))
    assert run.final

    assert statuses(run, rooted()) == {"main": "closed"}


def test_a_run_that_listens_hears_as_long_as_its_main_strand_does_not_wait():
    run = held("d")
    with pytest.raises(RunWaiting):
        verbs.say(run, "Hello?", by=MIRA, now=NOW, listens=True)

    idle = msgspec.structs.replace(
        run,
        strands=(
            msgspec.structs.replace(run.strands[0], calls=(), seen=run.strands[0].said),
            msgspec.structs.replace(run.strands[0], name="clerk.2", parent="main"),
        ),
    )
    with pytest.raises(RunWaiting):
        verbs.say(idle, "Hello?", by=MIRA, now=NOW)
    (heard,) = verbs.say(idle, "Hello?", by=MIRA, now=NOW, listens=True)
    assert isinstance(heard, e.MessageReceived)
