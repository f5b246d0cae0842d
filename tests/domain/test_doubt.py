"""What a run knows of an attempt in doubt: who made it, and whether it may still be under way."""

from typing import Any

import msgspec
import pytest

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.hold import Hold, answer, approve, fail, reject
from sayso.domain.lifecycle import apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.errors import WrongVerdict

from .build import ASK, DONE, MIRA, NOW, WORKER, call, commit, doubted, executing, held, stepping


def lost(**more: Any) -> Run:
    """A run with a call in doubt."""
    run = executing("d")
    made = {"attempt": 1, "why": "?", "ruling": ASK, "now": NOW, **more}
    return commit(run, *verbs.doubt_call(run, "1.0", **made))


def hold_of(run: Run) -> Hold:
    return run.holds[-1]


@pytest.mark.parametrize("may_live", [True, False])
def test_a_doubt_says_whose_attempt_it_is_and_whether_it_may_go_on(may_live: bool):
    found = hold_of(lost(may_live=may_live))

    assert (found.worker, found.attempt, found.may_live) == (WORKER, 1, may_live)


def test_a_doubt_about_a_step_says_so_too():
    run = stepping()
    made = {"why": "?", "ruling": ASK, "digest": "s", "now": NOW, "may_live": True}
    attempt = call(run, "1.0").attempt
    found = hold_of(commit(run, *bodies.doubt_step(run, "1.0", attempt=attempt, **made)))

    assert (found.worker, found.attempt, found.may_live) == (WORKER, 1, True)


def test_other_holds_are_about_no_attempt():
    found = hold_of(held("d"))

    assert (found.worker, found.attempt, found.may_live) == ("", 0, False)


def test_a_late_result_ends_the_attempt():
    run = lost(may_live=True)

    over = commit(run, *verbs.finish_call(run, "1.0", attempt=1, outcome=DONE))

    assert not hold_of(over).may_live
    assert over.holds[-1].worker == WORKER


@pytest.mark.parametrize("late", [("1.0", 2), ("1.1", 1)])
def test_a_late_result_of_something_else_does_not(late: tuple[str, int]):
    run = lost(may_live=True)

    after = commit(run, e.LateResult(call=late[0], attempt=late[1], outcome=DONE))

    assert hold_of(after).may_live


def test_who_made_an_attempt_elsewhere_cannot_be_seen_here():
    assert hold_of(lost(may_live=True, elsewhere=True)).worker == ""


def test_a_doubt_that_comes_from_elsewhere_loses_sight_of_its_worker():
    run = lost(may_live=True)

    adopted = e.RunAdopted(by=MIRA, at=NOW, source="elsewhere")
    found = hold_of(apply_all(run, [adopted]))

    assert (found.worker, found.may_live) == ("", True)


def test_to_have_happened_takes_a_result_or_a_note():
    run = doubted(executing("d"))

    for note in ("", " \n"):
        with pytest.raises(WrongVerdict, match="give its result"):
            settling.settle(run, 1, answer(None), by=MIRA, now=NOW, note=note)
    assert settling.settle(run, 1, answer(None), by=MIRA, now=NOW, note="I saw it")
    assert settling.settle(run, 1, answer(0), by=MIRA, now=NOW)


@pytest.mark.parametrize("verdict", [answer(1), reject("no"), fail("?")])
def test_only_to_run_it_again_can_be_meant_even_if_it_is_alive(verdict: Any):
    run = doubted(executing("d"))

    with pytest.raises(WrongVerdict, match="even_if_alive"):
        settling.settle(run, 1, verdict, by=MIRA, now=NOW, even_if_alive=True)


def test_only_a_call_in_doubt_can_be_run_even_if_it_is_alive():
    with pytest.raises(WrongVerdict, match="even_if_alive"):
        settling.settle(held("d"), 1, approve(), by=MIRA, now=NOW, even_if_alive=True)


def test_who_runs_it_again_even_if_it_is_alive_is_on_record():
    run = lost(may_live=True)

    said = settling.settle(run, 1, approve(), by=MIRA, now=NOW, even_if_alive=True)

    assert isinstance(said[0], e.HoldSettled)
    assert said[0].decision.even_if_alive


def test_a_vote_is_on_record_with_it_as_well():
    run = lost(may_live=True, ruling=msgspec.structs.replace(ASK, approvers=("anyone",), quorum=2))

    said = settling.settle(run, 1, approve(), by=MIRA, now=NOW, even_if_alive=True)

    assert isinstance(said[0], e.VoteCast)
    assert said[0].decision.even_if_alive


def test_a_hold_keeps_how_often_people_are_reminded_of_it():
    hourly = msgspec.structs.replace(ASK, remind_every_ms=3_600_000)

    assert hold_of(held("d", ruling=hourly)).remind_every_ms == 3_600_000
    assert hold_of(held("d", ruling=Require())).remind_every_ms is None
