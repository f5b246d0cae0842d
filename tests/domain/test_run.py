from msgspec.structs import replace

from sayso.domain import verbs
from sayso.domain.call import CallState
from sayso.domain.hold import Rejected
from sayso.domain.ruling import Require
from sayso.domain.run import Strand, with_call, with_hold, with_strand

from .build import APPROVE, MIRA, NOW, call, commit, decided, held, started

HOUR = 3_600_000


def test_calls_are_found_by_ref_and_by_state():
    run = held("d", ready=("r",))

    assert [row.ref for row in run.calls(CallState.HELD)] == ["1.0"]
    assert [row.ref for row in run.calls(*CallState)] == ["1.0", "1.1"]
    assert run.call("1.2") is None
    assert run.hold(1) is not None
    assert run.hold(2) is None
    assert run.strand("main") is not None
    assert run.strand("side") is None


def test_nothing_is_due_while_nothing_is_asked():
    assert started().due_at is None


def test_nothing_is_due_while_people_have_all_the_time():
    assert held("d").due_at is None


def test_the_earliest_deadline_is_due():
    run = held("d", "e", ruling=Require(within_ms=HOUR))
    ruling = Require(within_ms=60_000)
    run = commit(
        run, *verbs.revise(run, 2, args=b"{}", digest="e2", ruling=ruling, by=MIRA, now=NOW)
    )

    assert run.due_at == NOW + 60_000


def test_a_decided_hold_is_due_when_its_decision_is_effective():
    run = held("d", ruling=Require(within_ms=HOUR))

    assert decided(run, 1, APPROVE, undo_ms=5000).due_at == NOW + 5000
    assert decided(run, 1, Rejected()).due_at is None


def test_a_change_touches_nothing_else():
    run = held("d", "e")
    side = Strand(name="side", said=3)
    both = replace(run, strands=(*run.strands, side))
    row = replace(call(run, "1.1"), tool="look")
    hold = replace(run.holds[1], deadline=5)

    assert with_call(both, row).strands[1] == side
    assert with_call(both, row).call("1.0") == call(run, "1.0")
    assert with_call(both, row).call("1.1") == row
    assert with_strand(both, replace(side, said=4)).strands[0] == run.strands[0]
    assert with_hold(run, hold).holds == (run.holds[0], hold)
