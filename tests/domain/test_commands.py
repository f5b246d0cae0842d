"""Commands: calls that people ask for, beside the turns of a model."""

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import Call, CallState, Declined, Failed
from sayso.domain.hold import Approved, Rejected, answer
from sayso.domain.lifecycle import apply, apply_all
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import concludes, startable, status_of, turn_due
from sayso.errors import IllegalEvent, RunFinished, RunWaiting

from .build import (
    APPROVE,
    DELEGATION,
    DONE,
    MIRA,
    NOW,
    QUESTION,
    asked,
    begin,
    blocked,
    call,
    cancelled,
    commanded,
    commit,
    decided,
    doubted,
    executing,
    finish,
    held,
    opened_strand,
    parked,
    put,
    resumed,
    start,
    started,
    stepped,
)
from .build import answer as turn_of
from .forge import PAID, attempt, completed, illegal, opened

REFUND = Call(ref="", tool="refund", digest="c")


def received(ref: str = "c1") -> e.CommandReceived:
    return e.CommandReceived(call=replace(REFUND, ref=ref), by=MIRA, at=NOW)


def launched(run: Run, ref: str = "c1") -> Run:
    return commit(run, *verbs.start_calls(run, [start(call(run, ref))]))


@pytest.mark.parametrize("run", [started(), asked("d"), executing("d")])
def test_a_command_is_a_call_that_may_start(run: Run):
    run = commanded(run)

    row = call(run, "c1")
    assert (row.tool, row.digest, row.state) == ("refund", "c", CallState.READY)
    assert row.entry == run.seq
    assert row in startable(run)
    assert run.strand_of("c1") is None


def test_a_command_wakes_a_run_that_waits():
    run = held("d")
    assert status_of(run) is Status.SUSPENDED

    run = commanded(run)

    assert status_of(run) is Status.RUNNING
    run = launched(run)
    assert status_of(run) is Status.RUNNING
    assert status_of(finish(run, "c1")) is Status.SUSPENDED


def test_a_command_that_is_over_leaves_the_row():
    run = finish(launched(commanded(held("d"))), "c1")

    assert run.commands == ()
    assert run.commanded == 1
    assert run.call("c1") is None
    late = verbs.finish_call(run, "c1", attempt=1, outcome=DONE)
    assert [type(event) for event in late] == [e.LateResult]
    illegal(run, e.CallFinished(call="c1", attempt=1, outcome=DONE), match="turn that is over")


def test_commands_are_numbered_one_after_another():
    run = finish(launched(commanded(held("d"))), "c1")

    for ref in ("c1", "c3", "1.0", ""):
        illegal(run, received(ref), match="not the next command")
    run = commanded(commanded(run))
    assert [row.ref for row in run.commands] == ["c2", "c3"]
    run = finish(launched(run, "c2"), "c2")
    assert [row.ref for row in run.commands] == ["c3"]


def test_a_command_is_for_a_strand_that_is_there():
    run = started()
    strange = replace(received(), strand="side")

    illegal(run, strange, match="no strand")
    assert apply(run, received()).commands


@pytest.mark.parametrize("run", [completed(), cancelled(started()), cancelled(executing("d"))])
def test_no_command_reaches_a_run_that_has_ended_or_is_to(run: Run):
    with pytest.raises(RunFinished):
        verbs.command(run, REFUND, by=MIRA, now=NOW)
    illegal(run, received(), match="to end|not legal while")


def test_a_command_says_who_when_and_where():
    events = verbs.command(started(), REFUND, by=MIRA, now=NOW, key="k")

    assert events == [replace(received(), key="k")]


def test_a_command_may_need_leave():
    run = commanded(held("d"))
    request = verbs.HoldRequest(ref="c1", ruling=Require())
    run = commit(run, *verbs.open_holds(run, [request], now=NOW))
    assert status_of(run) is Status.SUSPENDED
    assert call(run, "c1").state is CallState.HELD

    assert call(decided(run, 2, APPROVE), "c1").state is CallState.APPROVED
    assert decided(run, 2, Rejected()).commands == ()


def test_a_command_may_ask_in_its_body():
    run = put(launched(commanded(held("d"))), QUESTION, QUESTION, ref="c1")
    run = decided(decided(run, 2, answer(1)), 3, answer(2))

    assert call(run, "c1").state is CallState.ANSWERED
    assert status_of(run) is Status.RUNNING
    run = stepped(resumed(run, "c1"), "c1")
    assert call(run, "c1").step == 2
    assert finish(resumed(parked(run, "c1"), "c1"), "c1").commands == ()


def test_a_command_may_wait_for_its_answer():
    run = blocked(run=launched(commanded(held("d"))), ref="c1")
    assert status_of(run) is Status.SUSPENDED

    assert decided(run, 2, answer(1)).commands == ()


def test_a_command_may_come_in_doubt():
    run = doubted(launched(commanded(held("d"))), "c1")
    assert call(run, "c1").state is CallState.DOUBTED

    assert call(decided(run, 2, Approved()), "c1").state is CallState.APPROVED
    after = decided(run, 2, Rejected())
    assert after.commands == ()
    assert after.doubts == (("c", "c1"),)


def test_a_run_is_not_complete_while_a_command_is_open():
    turn = turn_of(commanded(started()))
    free = apply(commanded(started()), turn)
    busy = apply(free, attempt(call(free, "c1")))
    waiting = apply(free, opened(free, "c1"))

    for run in (free, busy):
        illegal(run, PAID, match="something open")
    illegal(waiting, PAID, match="not legal while suspended")
    over = apply_all(busy, [e.CallFinished(call="c1", attempt=1, outcome=DONE), PAID])
    assert over.final == "completed"


def test_a_turn_does_not_wait_for_a_command():
    run = launched(commanded(finish(executing("d"))))

    run = commit(run, turn_of(run, "e"))

    assert begin(run).turns == 2
    assert run.call("c1") is not None


def test_cancelling_declines_a_command_that_has_not_started_and_waits_for_one_that_has():
    fresh = commanded(started())
    begun = launched(commanded(held("d")))
    held_too = commit(commanded(started()), opened(commanded(started()), "c1"))
    answered = decided(put(begun, QUESTION, ref="c1"), 2, answer(1))

    assert cancelled(fresh).final == "cancelled"
    assert cancelled(held_too).final == "cancelled"
    assert cancelled(answered).final == "cancelled"
    waiting = cancelled(begun)
    assert status_of(waiting) is Status.RUNNING
    assert finish(waiting, "c1").final == "cancelled"
    assert settling.sweep(waiting, now=NOW) == []


def test_a_run_that_is_about_to_be_complete_gives_up_its_commands():
    run = commanded(commanded(commanded(started())))
    request = verbs.HoldRequest(ref="c2", ruling=Require())
    run = commit(run, *verbs.open_holds(run, [request], now=NOW))
    run = launched(run, "c3")

    events = verbs.drop_commands(run, now=NOW)

    reason = "the run is complete"
    assert [ev.outcome for ev in events if isinstance(ev, e.CallFinished)] == [
        Declined(reason=reason),
        Declined(reason=reason, by="service:sayso"),
    ]
    assert [row.ref for row in commit(run, *events).commands] == ["c3"]


def test_only_the_commands_are_given_up():
    run = held("d")

    assert verbs.drop_commands(run, now=NOW) == []
    mixed = commanded(run)
    after = commit(mixed, *verbs.drop_commands(mixed, now=NOW))
    assert [hold.call for hold in after.holds] == ["1.0"]
    both = commit(mixed, opened(mixed, "c1"))
    after = commit(both, *verbs.drop_commands(both, now=NOW))
    assert [hold.call for hold in after.holds] == ["1.0"]


def test_a_command_that_waits_for_its_answer_is_given_up_too():
    run = blocked(run=launched(commanded(started())), ref="c1")

    assert commit(run, *verbs.drop_commands(run, now=NOW)).commands == ()
    body = put(launched(commanded(started())), QUESTION, ref="c1")
    body = commit(body, *verbs.drop_commands(body, now=NOW))
    assert call(body, "c1").state is CallState.ANSWERED


def test_a_body_that_asks_again_after_it_was_told_ends():
    body = put(launched(commanded(started())), QUESTION, ref="c1")
    told = {"c1": call(body, "c1").attempt}
    # Run again because the append was stale, it is told and no more.
    assert verbs.drop_commands(body, now=NOW, told=told) == verbs.drop_commands(body, now=NOW)
    body = resumed(commit(body, *verbs.drop_commands(body, now=NOW)), "c1")
    assert verbs.drop_commands(body, now=NOW, told=told) == []

    body = put(body, QUESTION, ref="c1")
    events = verbs.drop_commands(body, now=NOW, told=told)

    outcome = Failed(error="Cancelled", message="the run is complete, and it asked again")
    assert events[-1] == e.CallFinished(call="c1", attempt=2, outcome=outcome)
    assert commit(body, *events).commands == ()


def test_a_command_that_waits_for_its_answer_after_it_was_told_has_one_outcome():
    run = blocked(run=launched(commanded(started())), ref="c1")

    events = verbs.drop_commands(run, now=NOW, told={"c1": 0})

    assert len([event for event in events if isinstance(event, e.CallFinished)]) == 1
    assert commit(run, *events).commands == ()


def test_a_body_that_waits_for_another_run_is_waited_for():
    run = put(launched(commanded(started())), DELEGATION, ref="c1")

    assert verbs.drop_commands(run, now=NOW, told={"c1": 0}) == []


def test_a_run_that_listens_hears_while_only_a_command_waits():
    held_command = commit(commanded(held("d")), opened(commanded(held("d")), "c1"))
    free = commanded(started())
    over = apply_all(free, [turn_of(free), opened(apply(free, turn_of(free)), "c1")])

    for run in (held_command, over):
        assert status_of(run) is Status.SUSPENDED
        with pytest.raises(RunWaiting):
            verbs.say(run, "Hm.", by=MIRA, now=NOW)
    with pytest.raises(RunWaiting):
        verbs.say(held_command, "Hm.", by=MIRA, now=NOW, listens=True)
    assert len(verbs.say(over, "Hm.", by=MIRA, now=NOW, listens=True)) == 1


def said_all(run: Run) -> Run:
    """The run after the last answer of its model, with a command in doubt."""
    run = doubted(launched(commanded(run)), "c1")
    return commit(run, turn_of(run))


def test_a_run_with_a_command_in_doubt_waits_with_its_last_answer():
    run = said_all(started())

    assert run.told is Status.SUSPENDED
    assert not concludes(run)
    run = decided(run, 1, answer("refunded"))
    assert run.told is Status.RUNNING
    assert turn_due(run, run.strands[0])
    assert not verbs.take_turn(run, turn_of(run))
    assert commit(run, *verbs.complete(run, b'"Done."')).final == "completed"


def test_a_run_is_not_to_be_concluded_over_anything_that_is_open():
    settled = decided(said_all(started()), 1, answer("refunded"))
    assert concludes(settled)

    others = [
        commanded(settled),
        opened_strand(settled),
        cancelled(settled),
        commit(settled, *verbs.say(settled, "Wait.", by=MIRA, now=NOW)),
        commit(settled, *verbs.complete(settled, b"1")),
    ]

    assert not [run for run in others if concludes(run)]
    # Without a command nobody could have kept it: an answer that leads nowhere is a mistake.
    with pytest.raises(IllegalEvent, match="never go on"):
        commit(started(), turn_of(started()))
