"""What becomes of a run that comes from another store: what could start anything is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sayso.domain import adopting, bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.adopting import ASKED_AGAIN, BEGUN, RESTORED, UNDER_WAY, Lore
from sayso.domain.call import CallState
from sayso.domain.hold import InDoubt, SignIn, reject
from sayso.domain.lifecycle import apply_all, epilogue
from sayso.domain.ruling import Require
from sayso.domain.run import Run, Status
from sayso.domain.standing import has_work, startable, status_of, stranded
from sayso.domain.value import SAYSO
from sayso.errors import IllegalEvent

from .build import (
    ANN,
    APPROVE,
    ASK,
    DELEGATION,
    DONE,
    MIRA,
    NOW,
    QUESTION,
    answer,
    asked,
    asking,
    begun,
    call,
    cancelled,
    commit,
    start,
    started,
)

LATER = NOW + 1_000_000
ADOPTED = e.RunAdopted(by=ANN, at=LATER, source="pay.db", head="f" * 64, times=(NOW,))
BOSS = Require(approvers=("user:boss",), risk="high", title="Pay?", why="It is much.")


class Told:
    """A run with the whole of its journal, appended to as the ledger does it."""

    def __init__(self) -> None:
        self.events: list[e.Event] = []
        self._run: Run | None = None
        self.go(begun())

    @property
    def run(self) -> Run:
        assert self._run is not None
        return self._run

    def go(self, *events: e.Event) -> "Told":
        after = apply_all(self._run, events)
        more = epilogue(after)
        self._run = apply_all(after, more)
        self.events += [*events, *more]
        return self

    def ask_for(self, *digests: str, **batch: str) -> "Told":
        return self.go(answer(self.run, *digests, **batch))

    def hold(self, *rulings: Require, first: int = 0, ask=None, resolve: str = "each") -> "Told":
        more = {} if ask is None else {"ask": ask}
        requests = [
            verbs.HoldRequest(ref=f"1.{first + n}", ruling=ruling, policy_version="7", **more)
            for n, ruling in enumerate(rulings)
        ]
        return self.go(*verbs.open_holds(self.run, requests, now=NOW, resolve=resolve))

    def hold_one(self, ref: str) -> "Told":
        ruling = Require(within_ms=6000, on_silence="approve")
        request = verbs.HoldRequest(ref=ref, ruling=ruling)
        return self.go(*verbs.open_holds(self.run, [request], now=NOW))

    def decide(self, n: int = 1, verdict=APPROVE, by=MIRA, **more) -> "Told":
        return self.go(*settling.settle(self.run, n, verdict, by=by, now=NOW, **more))

    def begin(self, ref: str = "1.0") -> "Told":
        return self.go(*verbs.start_calls(self.run, [start(call(self.run, ref))]))

    def step(self, effect: str, ref: str = "1.0") -> "Told":
        row = call(self.run, ref)
        made = {"call": ref, "attempt": row.attempt, "step": row.step + 1, "name": "reserve"}
        return self.go(e.StepStarted(digest="s", effect=effect, **made))

    def adopt(self, **more) -> list[e.Event]:
        """Adopt it, and give what follows from that."""
        events = adopting.adopt(self.run, Lore(self.events), ADOPTED, **more)
        assert replace(events[0], silenced=(), undated=()) == ADOPTED
        self.go(*events)
        return events[1:]


def one(events: list[e.Event], kind: type) -> e.Event:
    (found,) = [event for event in events if isinstance(event, kind)]
    return found


def test_a_call_that_was_approved_is_asked_about_again():
    told = Told().ask_for("d").hold(BOSS).decide(by=replace(MIRA, id="boss"))
    assert status_of(told.run) is Status.RUNNING

    (opened,) = told.adopt()

    assert isinstance(opened, e.HoldOpened)
    assert opened.ruling == replace(BOSS, why=ASKED_AGAIN)
    assert (opened.approvers, opened.policy_version) == (("user:boss",), "7")
    assert (opened.digest, opened.version, opened.at) == ("d", 1, LATER)
    assert call(told.run).state is CallState.HELD
    assert status_of(told.run) is told.run.told is Status.SUSPENDED


def test_silence_does_not_approve_a_second_time():
    silent = Require(within_ms=5000, on_silence="approve")
    told = Told().ask_for("d").hold(silent)
    told.go(*settling.sweep(told.run, now=NOW + 5000))
    assert call(told.run).state is CallState.APPROVED

    (opened,) = told.adopt()

    assert opened.ruling.on_silence == "reject"
    assert opened.deadline == LATER + 5000


def test_it_is_asked_again_of_whom_the_last_edit_named():
    told = Told().ask_for("d").hold(ASK)
    told.go(*verbs.revise(told.run, 1, args=b"{}", digest="d2", ruling=BOSS, by=MIRA, now=NOW))
    told.decide(by=replace(MIRA, id="boss"))

    (opened,) = told.adopt()

    assert (opened.approvers, opened.digest, opened.version) == (("user:boss",), "d2", 2)


def test_a_sign_in_does_not_hide_who_was_asked_about_the_call():
    signed_in = SignIn(provider="bank")
    told = Told().ask_for("d").hold(BOSS).decide(by=replace(MIRA, id="boss"))
    told.hold(ASK, ask=signed_in).decide(2)

    (opened,) = told.adopt()

    assert opened.approvers == ("user:boss",)


def test_a_call_that_only_took_a_sign_in_is_asked_about():
    told = Told().ask_for("d").hold(ASK, ask=SignIn(provider="bank")).decide()

    (opened,) = told.adopt()

    assert opened.approvers == ("user:mira",)


def test_a_call_that_was_to_be_done_again_is_asked_about_as_any_other():
    told = Told().ask_for("d").begin()
    doubt = verbs.doubt_call(told.run, "1.0", attempt=1, why="?", ruling=BOSS, now=NOW)
    told.go(*doubt).decide(by=replace(MIRA, id="boss"))

    (opened,) = told.adopt()

    assert opened.ruling == replace(BOSS, title="", why=ASKED_AGAIN)
    assert not isinstance(opened.ask, InDoubt)


@pytest.mark.parametrize("resolve, together", [("together", True), ("each", False)])
def test_what_was_decided_together_is_decided_together_again(resolve: str, together: bool):
    told = Told().ask_for("d", "e", resolve=resolve).hold(ASK, ASK, resolve=resolve)
    for n in (1, 2):
        told.decide(n, whole=together)

    opened = told.adopt()

    assert [event.together for event in opened] == [together] * 2
    assert {event.suspension for event in opened} == {2}


def test_a_question_that_withdraws_earlier_ones_withdraws_none_of_those_still_open():
    told = Told().ask_for("d", resolve="latest").hold(ASK).decide()
    made = replace(answer(told.run, "x").calls[0], ref="")
    told.go(*verbs.command(told.run, made, by=MIRA, now=NOW))
    told.go(*verbs.open_holds(told.run, [verbs.HoldRequest(ref="c1", ruling=ASK)], now=NOW))

    told.adopt()

    assert [hold.call for hold in told.run.holds] == ["c1", "1.0"]


def test_a_command_that_was_approved_is_asked_about_again():
    told = Told()
    made = replace(answer(told.run, "x").calls[0], ref="")
    told.go(*verbs.command(told.run, made, by=MIRA, now=NOW))
    told.go(*verbs.open_holds(told.run, [verbs.HoldRequest(ref="c1", ruling=ASK)], now=NOW))
    told.decide()

    (opened,) = told.adopt()

    assert (opened.call, call(told.run, "c1").state) == ("c1", CallState.HELD)


@pytest.mark.parametrize("ruling", [ASK, BOSS])
def test_a_call_under_way_is_in_doubt_and_those_who_allowed_it_are_asked(ruling: Require):
    told = Told().ask_for("d").hold(ruling)
    told.decide(by=replace(MIRA, id="boss") if ruling is BOSS else MIRA).begin()

    doubted, opened = told.adopt()

    assert doubted == e.CallDoubted(call="1.0", attempt=1, why=UNDER_WAY)
    assert opened.ask == InDoubt(
        attempt=1, worker="w1", why=UNDER_WAY, may_live=True, elsewhere=True
    )
    assert opened.ruling == Require(
        approvers=ruling.approvers, risk=ruling.risk, title="Did pay happen?", editable=False
    )
    assert call(told.run).state is CallState.DOUBTED


def test_whom_to_ask_about_a_call_in_doubt_may_be_said():
    told = Told().ask_for("d", "e").begin().begin("1.1")

    events = told.adopt(doubts={"1.1": BOSS})

    asked_of = [event.approvers for event in events if isinstance(event, e.HoldOpened)]
    assert asked_of == [("user:mira",), ("user:boss",)]


def test_a_step_that_acts_once_is_in_doubt():
    told = Told().ask_for("d").begin().step("once")

    _, opened = told.adopt()

    assert opened.ask == InDoubt(
        attempt=1, worker="w1", why=UNDER_WAY, step=1, may_live=True, elsewhere=True
    )


def go_on(told: Told, doubted: e.Event, opened: e.Event) -> None:
    """A body that has begun asks whether it goes on here, and does if a person says so."""
    assert doubted == e.CallDoubted(call="1.0", attempt=1, why=BEGUN)
    assert opened.ask == InDoubt(attempt=1, worker="w1", why=BEGUN, elsewhere=True)
    assert opened.ruling == Require(title="Go on with pay here?", editable=False)
    assert (call(told.run).state, status_of(told.run)) == (CallState.DOUBTED, Status.SUSPENDED)
    step = call(told.run).step

    told.go(*settling.settle(told.run, opened.hold, APPROVE, by=MIRA, now=LATER))
    told.begin()

    assert (call(told.run).state, call(told.run).step) == (CallState.STARTED, step)


@pytest.mark.parametrize("effect", ["none", "keyed"])
def test_a_step_that_may_be_repeated_is_once_a_person_lets_its_body_go_on(effect: str):
    told = Told().ask_for("d").begin().step(effect)

    voided, doubted, opened = told.adopt()

    assert voided == e.StepVoided(call="1.0", attempt=1, step=1, why=BEGUN)
    assert call(told.run).step == 0
    go_on(told, doubted, opened)


def test_a_body_between_its_steps_goes_on_once_a_person_lets_it():
    told = Told().ask_for("d").begin().step("once")
    told.go(e.StepFinished(call="1.0", attempt=1, step=1, outcome=verbs.Declined(reason="no")))

    go_on(told, *told.adopt())
    assert call(told.run).step == 1


def test_a_body_that_was_answered_goes_on_once_a_person_lets_it():
    told = Told().ask_for("d").begin()
    request = verbs.HoldRequest(ref="1.0", ruling=ASK, then="continue", step=1, digest="a")
    told.go(*bodies.ask(told.run, "1.0", requests=[request], attempt=1, now=NOW)).decide()
    assert call(told.run).state is CallState.ANSWERED

    go_on(told, *told.adopt())
    assert call(told.run).step == 1


def test_a_body_before_its_first_step_is_asked_about_as_one_if_it_is_known_to_be():
    told = Told().ask_for("d").begin()
    go_on(told, *told.adopt(durable={"1.0"}))

    _, opened = Told().ask_for("d").begin().adopt()
    assert opened.ruling.title == "Did pay happen?"


def test_whom_to_ask_whether_a_body_goes_on_may_be_said():
    _, opened = Told().ask_for("d").begin().adopt(durable={"1.0"}, doubts={"1.0": BOSS})

    assert opened.approvers == ("user:boss",)
    assert opened.ruling.title == "Go on with pay here?"


def test_a_body_does_not_go_on_by_a_no():
    told = Told().ask_for("d").begin()
    told.adopt(durable={"1.0"})

    told.go(*settling.settle(told.run, 1, reject("no"), by=MIRA, now=LATER))

    assert call(told.run).state is CallState.DONE


def test_a_body_of_a_run_that_is_to_end_is_cut_short():
    told = Told().ask_for("d").begin()
    told.go(*settling.cancel(told.run, by=MIRA, now=NOW))

    told.adopt(durable={"1.0"})

    assert told.run.final == Status.CANCELLED


@pytest.mark.parametrize("found", ["over", "another attempt", "waits"])
def test_only_a_body_that_has_begun_is_put_in_doubt(found: str):
    told = Told().ask_for("d")
    if found == "another attempt":
        told.begin()
    ref = "9.9" if found == "over" else "1.0"
    attempt = 2 if found == "another attempt" else 0

    more = {"attempt": attempt, "why": "?", "ruling": ASK, "now": NOW}
    assert bodies.doubt_body(told.run, ref, **more) == []


SILENT = Require(within_ms=5000, on_silence="approve")


def test_silence_does_not_approve_what_was_asked_elsewhere():
    told = Told().ask_for("d", "e", "f").hold(SILENT, ASK, SILENT)
    before = told.run.holds

    assert told.adopt() == []

    assert told.events[-1].silenced == (1, 3)
    assert told.run.holds == tuple(replace(hold, on_silence="reject") for hold in before)
    told.go(*settling.sweep(told.run, now=LATER))
    assert [call(told.run, f"1.{n}").state for n in (0, 2)] == [CallState.DONE] * 2


@pytest.mark.parametrize("silence", ["approve", "reject"])
def test_no_body_goes_on_by_silence(silence: str):
    told = Told().ask_for("d").begin()
    ruling = replace(SILENT, on_silence=silence)
    request = verbs.HoldRequest(ref="1.0", ruling=ruling, then="continue", step=1, digest="a")
    told.go(*bodies.ask(told.run, "1.0", requests=[request], attempt=1, now=NOW))

    told.adopt()

    assert told.events[-1].undated == (1,)
    assert settling.sweep(told.run, now=LATER) == []
    told.go(*settling.settle(told.run, 1, reject("no"), by=MIRA, now=LATER))
    assert call(told.run).state is CallState.ANSWERED


@pytest.mark.parametrize("n", [1, 2, 3])
def test_only_a_hold_by_which_silence_lets_a_body_go_on_loses_its_deadline(n: int):
    told = Told().ask_for("d", "e").begin().hold(SILENT, first=1)
    request = verbs.HoldRequest(ref="1.0", ruling=ASK, then="continue", step=1, digest="a")
    told.go(*bodies.ask(told.run, "1.0", requests=[request], attempt=1, now=NOW))

    with pytest.raises(IllegalEvent, match="silence lets no body go on"):
        told.go(replace(ADOPTED, undated=(n,)))


@pytest.mark.parametrize("n", [1, 2])
def test_only_a_hold_that_silence_approves_is_kept_from_it(n: int):
    told = Told().ask_for("d").hold(ASK)

    with pytest.raises(IllegalEvent, match="silence does not approve"):
        told.go(replace(ADOPTED, silenced=(n,)))


@pytest.mark.parametrize("now", [0, 9_000_000])
def test_a_decision_that_did_not_count_yet_is_dropped(now: int):
    told = Told().ask_for("d").hold(ASK).decide(undo_ms=5000)
    before = Told().ask_for("d").hold(ASK)

    events = adopting.adopt(told.run, Lore(told.events), replace(ADOPTED, at=now))
    told.go(*events)

    assert one(events, e.DecisionUndone) == e.DecisionUndone(hold=1, by=SAYSO, at=now)
    assert told.run.holds == before.run.holds
    assert call(told.run).state is CallState.HELD


def test_what_was_decided_together_and_did_not_count_yet_is_dropped_together():
    told = Told().ask_for("d", "e", resolve="together").hold(ASK, ASK, resolve="together")
    before = told.run.holds
    for n in (1, 2):
        told.decide(n, whole=True, undo_ms=5000)

    undone = told.adopt()

    assert [type(event) for event in undone] == [e.DecisionUndone] * 2
    assert told.run.holds == before


@pytest.mark.parametrize(
    "run",
    [
        started(),
        asked("d"),
        asking(QUESTION),
        asking(DELEGATION),
    ],
    ids=["a turn is due", "a call may start", "asks", "waits for a run"],
)
def test_everything_else_is_as_it_was(run: Run):
    events = adopting.adopt(run, Lore([]), ADOPTED)

    assert events == [ADOPTED]
    assert commit(run, *events) == replace(run, seq=run.seq + 1)


def test_a_finished_run_is_taken_in_as_it_is():
    run = cancelled(started())

    assert adopting.adopt(run, Lore([]), ADOPTED) == [ADOPTED]
    assert commit(run, ADOPTED).final == Status.CANCELLED


def test_a_run_that_is_to_end_is_in_doubt_about_what_it_has_started():
    told = Told().ask_for("d").begin()
    told.go(*settling.cancel(told.run, by=MIRA, now=NOW))

    told.adopt()

    assert told.run.ending
    assert [hold.kind for hold in told.run.holds] == ["in_doubt"]


def test_nothing_can_start_in_an_adopted_run_that_a_person_had_allowed():
    told = Told().ask_for("d", "e", "f").hold(ASK, ASK)
    told.decide(1).decide(2).begin("1.1").begin("1.2")

    told.adopt()

    assert told.run.calls(CallState.APPROVED, CallState.STARTED) == []
    assert [call(told.run, f"1.{n}").state for n in range(3)] == [
        CallState.HELD,
        CallState.DOUBTED,
        CallState.DOUBTED,
    ]


def moves_of(told: Told) -> list:
    """What could happen next to a run, in its own store."""
    run = told.run
    undecided = [hold.n for hold in run.holds if hold.decision is None]
    found = [lambda n=n, ms=ms: told.decide(n, undo_ms=ms) for n in undecided for ms in (0, 5000)]
    due = settling.sweep(run, now=NOW + 6000)
    found += [lambda: told.go(*due)] if due else []
    found += [lambda r=row.ref: told.begin(r) for row in startable(run)]
    for row in run.calls(*CallState):
        ref, attempt = row.ref, row.attempt
        match row.state:
            case CallState.READY:
                found += [lambda r=ref: told.hold_one(r)]
            case CallState.STARTED if row.stepping:
                end = {"attempt": attempt, "outcome": DONE}
                found += [lambda r=ref, e=end: told.go(*bodies.finish_step(told.run, r, **e))]
            case CallState.STARTED:
                doubt = {"attempt": attempt, "why": "?", "ruling": ASK, "now": NOW}
                found += [
                    lambda r=ref: told.step("once", r),
                    lambda r=ref: told.step("keyed", r),
                    lambda r=ref, d=doubt: told.go(*verbs.doubt_call(told.run, r, **d)),
                    lambda r=ref, a=attempt: told.go(*bodies.park(told.run, r, attempt=a, why="?")),
                ]
            case _:
                pass
    return found


@given(data=st.data(), siblings=st.sampled_from(["run", "halt", "hold", "in_order"]))
def test_whatever_a_run_was_in_the_middle_of_nothing_starts_unasked(data, siblings: str):
    told = Told().ask_for("d", "e", "f", siblings=siblings)
    for _ in range(data.draw(st.integers(0, 10))):
        if moves := moves_of(told):
            data.draw(st.sampled_from(moves))()
    before = told.run

    for _ in range(2):  # From there, it may be moved once more.
        told.adopt()

        run = told.run
        going = (CallState.APPROVED, CallState.STARTED, CallState.ANSWERED)
        assert run.calls(*going) == []
        assert all(hold.decision is None for hold in run.holds)
        # Nobody sees from here what became of a worker there.
        silent = {"decision": None, "on_silence": "reject", "worker": ""}
        open_before = [replace(hold, **silent) for hold in before.holds]
        assert list(run.holds[: len(open_before)]) == open_before
        assert has_work(run) or run.holds
        assert not stranded(run)


def test_a_call_that_needs_nobody_is_asked_about_where_it_must_not_be_made_twice():
    told = Told().ask_for("d", "d2")
    assert len(startable(told.run)) == 2

    (opened,) = told.adopt(unasked={"1.1": BOSS}, words=RESTORED)

    assert (opened.call, opened.approvers) == ("1.1", ("user:boss",))
    assert opened.ruling.why == RESTORED.unasked
    assert [row.ref for row in startable(told.run)] == ["1.0"]


def test_people_are_told_that_the_store_was_restored():
    told = Told().ask_for("d").hold(BOSS).decide(by=replace(MIRA, id="boss"))

    (opened,) = told.adopt(words=RESTORED)

    assert opened.ruling.why == RESTORED.asked_again
