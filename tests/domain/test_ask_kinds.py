"""Who settles what, and by which verdicts; and what came from elsewhere."""

from itertools import product

import pytest
from msgspec.structs import replace

from sayso.domain import events as e
from sayso.domain import settling, verbs
from sayso.domain.call import CallState, Declined, Failed
from sayso.domain.hold import (
    Approval,
    Approved,
    Ask,
    Consent,
    Expired,
    Rejected,
    SignIn,
    Verdict,
    Withdrawn,
    answer,
    approve,
    fail,
    may_decide,
)
from sayso.domain.lifecycle import apply
from sayso.domain.ruling import Require
from sayso.domain.run import Run
from sayso.domain.value import CLOCK, SAYSO, Principal
from sayso.errors import NotAllowed, WrongVerdict

from .build import (
    ANN,
    APPROVE,
    EXTERNAL,
    MIRA,
    NOW,
    QUESTION,
    asked,
    asking,
    blocked,
    call,
    commit,
    decided,
    doubted,
    executing,
    held,
    late,
)
from .forge import TIMED, illegal, opened, revised, settled, the_hold

BANK = Principal(kind="service", id="bank")
NAMED = Require(approvers=("service:bank",))
SIGN_IN = SignIn(provider="mail", scopes=("read",))
CONSENT = Consent(provider="mail", scopes=("read", "send"))


def test_a_service_reports_what_happens_outside_if_it_is_named():
    run = blocked(EXTERNAL, ruling=NAMED)

    events = settling.settle(run, 1, answer({"paid": True}), by=BANK, now=NOW)

    assert call(commit(run, *events)).state is CallState.DONE
    body = asking(EXTERNAL, ruling=NAMED)
    events = settling.settle(body, 1, fail("no such payment"), by=BANK, now=NOW)
    assert call(commit(body, *events)).state is CallState.ANSWERED


@pytest.mark.parametrize(
    "by",
    [
        Principal(kind="service", id="other"),
        Principal(kind="agent", id="bank"),
        Principal(id="bank"),
        CLOCK,
    ],
)
def test_nobody_else_reports_in_its_place(by: Principal):
    run = blocked(EXTERNAL, ruling=Require(approvers=("service:bank", "agent:bank", "clock:clock")))

    with pytest.raises(NotAllowed):
        settling.settle(run, 1, answer(1), by=by, now=NOW)
    illegal(run, settled(run, answer(1), by=by), match="may not decide")


@pytest.mark.parametrize(
    "run",
    [
        held("d", ruling=NAMED),
        blocked(QUESTION, ruling=NAMED),
        asking(QUESTION, ruling=NAMED),
        asking(Approval(), ruling=NAMED),
        asking(SIGN_IN, ruling=NAMED),
        asking(CONSENT, ruling=NAMED),
        doubted(executing("d"), ruling=NAMED),
    ],
)
def test_a_service_settles_nothing_else(run: Run):
    for verdict in (APPROVE, Rejected(), answer(1), fail("x")):
        with pytest.raises(NotAllowed):
            settling.settle(run, 1, verdict, by=BANK, now=NOW)
        illegal(run, settled(run, verdict, by=BANK), match="may not decide")


def test_anyone_means_any_person():
    assert may_decide(("anyone",), MIRA, "external")
    assert not may_decide(("anyone",), BANK, "external")


VERDICTS: dict[str, Verdict] = {
    "approved": Approved(),
    "rejected": Rejected(reason="no"),
    "answered": answer(1),
    "errored": fail("gone"),
    "withdrawn": Withdrawn(),
    "expired": Expired(silence="reject"),
    "edited": approve({"a": 1}),
}
FIT: dict[str, tuple[Ask, set[str]]] = {
    "approval": (Approval(), {"approved", "rejected"}),
    "question": (QUESTION, {"answered", "rejected", "errored"}),
    "sign_in": (SIGN_IN, {"approved", "rejected", "errored"}),
    "consent": (CONSENT, {"approved", "rejected", "errored"}),
    "external": (EXTERNAL, {"answered", "rejected", "errored"}),
}


@pytest.mark.parametrize("kind, word", list(product(FIT, VERDICTS)))
def test_an_ask_is_settled_by_what_answers_it(kind: str, word: str):
    ask, fits = FIT[kind]
    run = asking(ask)

    if word in fits:
        assert call(decided(run, 1, VERDICTS[word])).state is CallState.ANSWERED
    else:
        with pytest.raises(WrongVerdict):
            settling.settle(run, 1, VERDICTS[word], by=MIRA, now=NOW)


def gated(ask: Ask, run: Run, ruling: Require | None = None) -> Run:
    request = verbs.HoldRequest(ref="1.0", ruling=ruling or Require(), ask=ask)
    return commit(run, *verbs.open_holds(run, [request], now=NOW))


@pytest.mark.parametrize("ask", [SIGN_IN, CONSENT])
def test_whoever_signs_in_lets_the_call_start(ask: Ask):
    run = gated(ask, asked("d"))
    assert call(run).state is CallState.HELD

    assert call(decided(run, 1, APPROVE)).state is CallState.APPROVED
    no = settling.settle(run, 1, Rejected(reason="not mine"), by=MIRA, now=NOW)
    assert no[-1] == e.CallFinished(call="1.0", outcome=Declined(reason="not mine", by="mira"))
    gone = settling.settle(run, 1, fail("the provider is gone"), by=MIRA, now=NOW)
    failed = Failed(error="Errored", message="the provider is gone")
    assert gone[-1] == e.CallFinished(call="1.0", outcome=failed)


@pytest.mark.parametrize("ask", [SIGN_IN, CONSENT])
def test_who_does_not_sign_in_refuses_no_call(ask: Ask):
    run = gated(ask, asked("d"), TIMED)

    assert decided(run, 1, Rejected()).refusals == ()
    assert commit(run, *settling.sweep(run, now=late(run))).refusals == ()


@pytest.mark.parametrize("ask", [SIGN_IN, CONSENT])
def test_silence_never_signs_anybody_in(ask: Ask):
    run = asked("d")
    ruling = replace(TIMED, on_silence="approve")

    illegal(run, opened(run, ask=ask, ruling=ruling), match="nor signs anybody in")


@pytest.mark.parametrize("ask", [SIGN_IN, CONSENT])
def test_a_call_is_not_edited_while_somebody_signs_in(ask: Ask):
    run = gated(ask, asked("d"))

    assert not the_hold(run).editable
    illegal(run, revised(run), match="cannot become")
    with pytest.raises(WrongVerdict, match="may not be edited"):
        verbs.revise(run, 1, args=b"{}", digest="x", ruling=Require(), by=MIRA, now=NOW)


def test_a_call_that_was_approved_is_signed_in_for_and_still_may_start():
    run = gated(SIGN_IN, decided(held("d"), 1, APPROVE))
    assert not call(run).approved

    run = decided(run, 2, APPROVE)

    assert call(run).state is CallState.APPROVED
    assert call(run).digest == "d"


@pytest.mark.parametrize("run", [asked("d"), executing("d"), held("d"), asking(QUESTION)])
def test_a_run_that_came_from_elsewhere_says_so_and_is_as_it_was(run: Run):
    event = e.RunAdopted(by=MIRA, at=NOW, source="elsewhere")

    assert apply(run, event) == replace(run, seq=run.seq + 1)


def test_what_was_decided_elsewhere_and_did_not_count_there_is_undone_here():
    run = decided(held("d"), 1, APPROVE, undo_ms=5000)
    undone = e.DecisionUndone(hold=1, by=SAYSO, at=NOW + 9000)

    assert the_hold(apply(run, undone)).decision is None
    for by in (ANN, BANK, CLOCK, Principal(kind="agent", id="sayso"), Principal(id="sayso")):
        illegal(run, replace(undone, by=by), match="whoever made it")
