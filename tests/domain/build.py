"""Runs to test with, brought about the way the ledger does it."""

import msgspec

from sayso.domain import bodies, settling, verbs
from sayso.domain import events as e
from sayso.domain.call import Call, CallState, Declined, Outcome, Returned
from sayso.domain.hold import Approved, Ask, Delegation, External, Verdict
from sayso.domain.lifecycle import apply_all, epilogue
from sayso.domain.question import Question
from sayso.domain.ruling import Require
from sayso.domain.run import CallRow, Run
from sayso.domain.value import Principal

MIRA = Principal(id="mira")
"""Who started the run, and so decides unless somebody else is named."""
ANN = Principal(id="ann")
AGENT = Principal(kind="agent", id="mira")
NOW = 1_000_000
WORKER = "w1"
DONE = Returned(value=msgspec.Raw(b'"done"'))
NO = Declined(reason="no")
APPROVE = Approved()
ASK = Require()
QUESTION = Question(text="How much?")
EXTERNAL = External(reason="the bank calls back")
CHILD = "run_c"
DELEGATION = Delegation(run=CHILD, agent="clerk", input="Find the invoice.")


def started(run: str = "run_1") -> Run:
    """A run whose model has not answered yet."""
    return commit(None, begun(run))


def begun(run: str = "run_1") -> e.RunStarted:
    """The first entry of a run."""
    return e.RunStarted(run=run, project="p", agent="teller", by=MIRA, input="Pay Jiro.", at=NOW)


def commit(run: Run | None, *events: e.Event, now: int = NOW) -> Run:
    """Append as the ledger does: the events, then what follows from them by itself."""
    after = apply_all(run, events)
    return apply_all(after, epilogue(after, now))


def calls(turn: int, *digests: str) -> tuple[Call, ...]:
    """The calls of a turn."""
    return tuple(
        Call(ref=f"{turn}.{index}", tool="pay", digest=digest)
        for index, digest in enumerate(digests)
    )


def answer(
    run: Run, *digests: str, strand: str = e.MAIN, resolve: str = "each", siblings: str = "run"
) -> e.TurnTaken:
    """The model's next answer, asking for these calls, having seen everything."""
    turn = run.turns + 1
    return e.TurnTaken(
        turn=turn,
        seen=run.seq,
        strand=strand,
        calls=calls(turn, *digests),
        resolve=resolve,
        siblings=siblings,
    )


def asked(*digests: str) -> Run:
    """A run whose model asked for calls that nobody need approve."""
    run = started()
    return commit(run, answer(run, *digests))


def held(*digests: str, ruling: Require = ASK, ready: tuple[str, ...] = ()) -> Run:
    """A run with one hold for each digest, and calls that need nobody beside them."""
    run = started()
    turn = answer(run, *digests, *ready)
    after = apply_all(run, [turn])
    requests = [
        verbs.HoldRequest(ref=f"{turn.turn}.{index}", ruling=ruling)
        for index in range(len(digests))
    ]
    return commit(run, turn, *verbs.open_holds(after, requests, now=NOW))


def decided(run: Run, n: int, verdict: Verdict, *, undo_ms: int = 0, now: int = NOW) -> Run:
    """The run after its owner decided."""
    return commit(run, *settling.settle(run, n, verdict, by=MIRA, now=now, undo_ms=undo_ms))


def executing(*digests: str) -> Run:
    """A run with calls that need nobody and have been started."""
    return begin(asked(*digests))


def begin(run: Run, worker: str = WORKER) -> Run:
    """The run after everything that could start has been started."""
    starts = [start(row, worker) for row in run.calls(CallState.READY, CallState.APPROVED)]
    return commit(run, *verbs.start_calls(run, starts))


def start(row: CallRow, worker: str = WORKER) -> verbs.Start:
    """A wish to start this call as it is."""
    return verbs.Start(ref=row.ref, digest=row.digest, worker=worker, tick=7, timeout_ms=30_000)


def finish(run: Run, ref: str = "1.0", outcome: Outcome = DONE) -> Run:
    """The run after the attempt of this call that is under way gave this outcome."""
    row = call(run, ref)
    return commit(run, *verbs.finish_call(run, ref, attempt=row.attempt, outcome=outcome))


def doubted(run: Run, ref: str = "1.0", ruling: Require = ASK) -> Run:
    """The run after somebody found that nobody knows what became of this call."""
    row = call(run, ref)
    events = verbs.doubt_call(
        run, ref, attempt=row.attempt, why="its worker died", ruling=ruling, now=NOW
    )
    return commit(run, *events)


def asking(*asks: Ask, ruling: Require = ASK, run: Run | None = None) -> Run:
    """A run whose only call has begun, and asks these things in its body."""
    return put(run or executing("d"), *asks, ruling=ruling)


def put(run: Run, *asks: Ask, ref: str = "1.0", ruling: Require = ASK) -> Run:
    """The run after the body of this call asked these things, all at once."""
    row = call(run, ref)
    requests = [
        verbs.HoldRequest(
            ref=ref, ruling=ruling, ask=ask, then="continue", step=row.step + 1, digest=f"q{n}"
        )
        for n, ask in enumerate(asks)
    ]
    return commit(run, *bodies.ask(run, ref, requests=requests, attempt=row.attempt, now=NOW))


def blocked(
    ask: Ask = QUESTION, *, ruling: Require = ASK, run: Run | None = None, ref: str = "1.0"
) -> Run:
    """A run with a call that has begun, and whose outcome is what somebody answers."""
    run = run or executing("d")
    request = verbs.HoldRequest(ref=ref, ruling=ruling, ask=ask, then="outcome", digest="q")
    return commit(
        run, *bodies.ask(run, ref, requests=[request], attempt=call(run, ref).attempt, now=NOW)
    )


def stepping(run: Run | None = None, ref: str = "1.0", effect: str = "once") -> Run:
    """A run with a body in the middle of its next step."""
    run = run or executing("d")
    row = call(run, ref)
    made = {"name": f"step {row.step + 1}", "digest": "s", "effect": effect}
    return commit(run, *bodies.start_step(run, ref, attempt=row.attempt, **made))


def stepped(run: Run | None = None, ref: str = "1.0", outcome: Outcome = DONE) -> Run:
    """A run with a body that has taken its next step."""
    run = stepping(run, ref)
    attempt = call(run, ref).attempt
    return commit(run, *bodies.finish_step(run, ref, attempt=attempt, outcome=outcome))


def step_doubted(run: Run | None = None, ref: str = "1.0", ruling: Require = ASK) -> Run:
    """A run with a step that may or may not have happened."""
    run = run or stepping()
    made = {"why": "its worker died", "ruling": ruling, "digest": "s", "now": NOW}
    return commit(run, *bodies.doubt_step(run, ref, attempt=call(run, ref).attempt, **made))


def parked(run: Run, ref: str = "1.0", *, again: bool = False) -> Run:
    """The run after nobody has this body in memory any more."""
    attempt = call(run, ref).attempt
    return commit(run, *bodies.park(run, ref, attempt=attempt, why="it waited", again=again))


def resumed(run: Run, ref: str = "1.0", worker: str = WORKER) -> Run:
    """The run after a worker took up this body."""
    return commit(run, *bodies.continue_call(run, start(call(run, ref), worker)))


def commanded(run: Run, digest: str = "c") -> Run:
    """The run after its owner invoked a command on it."""
    made = Call(ref="", tool="refund", digest=digest)
    return commit(run, *verbs.command(run, made, by=MIRA, now=NOW))


def opened_strand(run: Run, name: str = "item", parent: str = e.MAIN, text: str = "Go.") -> Run:
    """The run with one more line of thought."""
    name = f"{name}.{run.strands_opened + 1}"
    return commit(run, e.StrandOpened(strand=name, parent=parent, text=text))


def child_ended(run: Run, n: int, verdict: Verdict, turns: int = 3) -> Run:
    """The run after the one that it waits for has ended."""
    hold = run.hold(n)
    assert hold is not None
    return commit(
        run, *settling.settle_child(run, n, verdict, child=hold.child, now=NOW, turns=turns)
    )


def cancelled(run: Run) -> Run:
    """The run after its owner cancelled it."""
    return commit(run, *settling.cancel(run, by=MIRA, now=NOW, reason="enough"))


def call(run: Run, ref: str = "1.0") -> CallRow:
    """A call that is there."""
    row = run.call(ref)
    assert row is not None
    return row


def late(run: Run, by_ms: int = 1) -> int:
    """A time at which everything due in the run is over."""
    assert run.due_at is not None
    return run.due_at + by_ms
