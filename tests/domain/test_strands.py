"""Strands: lines of thought beside each other in one run."""

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import verbs
from sayso.domain.lifecycle import apply, apply_all, epilogue
from sayso.domain.run import Run, Status
from sayso.domain.standing import only_starts, startable, status_of, strand_due
from sayso.errors import IllegalEvent

from .build import (
    MIRA,
    NOW,
    asked,
    cancelled,
    commit,
    executing,
    finish,
    held,
    opened_strand,
    started,
)
from .build import answer as turn_of
from .forge import PAID, VALUE, attempt, completed, illegal


def due(run: Run) -> list[str]:
    return [strand.name for strand in run.strands if strand_due(run, strand)]


def test_a_strand_with_something_to_do_is_due_a_turn():
    run = opened_strand(held("d"))

    assert due(run) == ["item.2"]
    assert status_of(run) is Status.RUNNING
    strand = run.strand("item.2")
    assert strand is not None
    assert (strand.parent, strand.said) == ("main", run.seq - 1)


def test_a_strand_that_is_given_nothing_waits_until_it_is_spoken_to():
    run = opened_strand(held("d"), text="")
    assert due(run) == []
    assert status_of(run) is Status.SUSPENDED

    run = commit(run, e.MessageReceived(by=MIRA, text="Go.", strand="item.2"))

    assert due(run) == ["item.2"]


def test_strands_are_named_by_their_number():
    run = held("d")

    for name in ("item", "item.1", "item.3", "item.12", "item2", "main", ""):
        illegal(run, e.StrandOpened(strand=name), match="is not the name")
    run = opened_strand(opened_strand(run), "other")
    assert [strand.name for strand in run.strands] == ["main", "item.2", "other.3"]


def test_a_number_is_never_given_again():
    run = commit(opened_strand(held("d")), e.StrandClosed(strand="item.2"))

    illegal(run, e.StrandOpened(strand="item.2"), match="is not the name of strand 3")
    assert opened_strand(run).strand("item.3") is not None


def test_a_strand_belongs_to_one_that_is_there():
    run = opened_strand(held("d"))

    illegal(run, e.StrandOpened(strand="x.3", parent="side"), match="no strand")
    below = opened_strand(run, "x", parent="item.2")
    assert [strand.parent for strand in below.strands] == ["", "main", "item.2"]


def test_strands_take_turns_of_their_own():
    run = opened_strand(asked("d"))
    run = commit(run, turn_of(run, "e", strand="item.2"))

    assert run.turns == 2
    assert [row.ref for row in startable(run)] == ["1.0", "2.0"]
    illegal(run, turn_of(run, "f", strand="item.2"), match="not due")
    run = commit(run, attempt(run.strands[1].calls[0]))
    run = finish(run, "2.0")
    assert due(run) == ["item.2"]
    assert verbs.take_turn(run, turn_of(run, "g")) == []
    assert len(verbs.take_turn(run, turn_of(run, "g", strand="item.2"))) == 1


def test_calls_can_be_all_there_is_to_do_until_one_has_started_or_a_strand_is_due():
    run = asked("d", "e")

    assert only_starts(run)
    assert not only_starts(held("d"))
    assert not only_starts(opened_strand(run))
    assert not only_starts(commit(run, attempt(run.strands[0].calls[0])))


def test_each_strand_decides_its_turn_in_its_own_way():
    run = opened_strand(held("d", ready=("r",)))
    run = commit(run, turn_of(run, "e", "f", strand="item.2", siblings="in_order"))

    assert [row.ref for row in startable(run)] == ["1.1", "2.0"]


def test_a_strand_that_is_over_is_closed():
    run = opened_strand(held("d"))
    run = commit(run, turn_of(run, strand="item.2"), e.StrandClosed(strand="item.2", result=VALUE))

    assert run.strand("item.2") is None
    assert run.strands_opened == 2
    illegal(run, e.StrandClosed(strand="item.2"), match="no strand")
    illegal(run, e.MessageReceived(by=MIRA, text="x", strand="item.2"), match="no strand")


def test_the_strand_that_a_run_begins_with_ends_with_the_run():
    illegal(held("d"), e.StrandClosed(strand="main"), match="ends with the run")


def test_a_strand_with_a_call_that_has_no_outcome_is_not_closed():
    run = opened_strand(held("d"))
    run = commit(run, turn_of(run, "e", strand="item.2"))

    illegal(run, e.StrandClosed(strand="item.2"), match="without an outcome")
    run = finish(commit(run, attempt(run.strands[1].calls[0])), "2.0")
    assert apply(run, e.StrandClosed(strand="item.2")).strand("item.2") is None


def test_a_strand_with_strands_below_it_is_not_closed():
    run = opened_strand(opened_strand(held("d")), "x", parent="item.2")

    illegal(run, e.StrandClosed(strand="item.2"), match="below it")
    closed = [e.StrandClosed(strand="x.3"), e.StrandClosed(strand="item.2")]
    assert [strand.name for strand in commit(run, *closed).strands] == ["main"]


def test_what_an_agent_keeps_of_a_strand_is_not_in_the_row():
    run = opened_strand(held("d"))

    after = apply(run, e.StrandChanged(strand="item.2", data=VALUE))

    assert after == replace(run, seq=run.seq + 1)
    illegal(run, e.StrandChanged(strand="side", data=VALUE), match="no strand")


def test_no_strand_is_opened_in_a_run_that_is_to_end():
    run = cancelled(executing("d"))

    illegal(run, e.StrandOpened(strand="item.2"), match="to end")
    illegal(completed(), e.StrandOpened(strand="item.2"), match="not legal while")


def test_a_run_is_not_complete_while_a_strand_is_due_a_turn():
    run = opened_strand(started())
    after = apply(run, turn_of(run))

    illegal(after, PAID, match="something open")
    assert verbs.complete(after, b"1") == []
    over = apply_all(after, [e.StrandClosed(strand="item.2"), PAID])
    assert over.final == "completed"


def test_closing_the_last_strand_that_goes_on_needs_something_else_to_go_on():
    run = opened_strand(started())
    run = apply(run, turn_of(run))
    run = apply(run, e.StrandClosed(strand="item.2"))

    with pytest.raises(IllegalEvent, match="never go on"):
        epilogue(run)
    assert epilogue(apply(run, e.MessageReceived(by=MIRA, text="Done."))) == []


def test_cancelling_ends_every_strand():
    run = opened_strand(held("d"))
    run = commit(run, turn_of(run, "e", strand="item.2"))

    assert cancelled(run).final == "cancelled"
    assert NOW
