"""One event for every tag and every kind of value inside one, each field set to something.

Run this file to write the golden files that are missing. It never writes over one: a golden file
is somebody's journal, and code that can no longer read it is wrong, not the file.
"""

import hashlib
from pathlib import Path

import msgspec

from sayso.domain import events as e
from sayso.domain.call import Call, Declined, Failed, Returned, Unknown
from sayso.domain.codec import encode_event, event_tag
from sayso.domain.grant import Grant, Limit
from sayso.domain.hold import (
    Answered,
    Approval,
    Approved,
    Ask,
    Consent,
    Decision,
    Delegation,
    Errored,
    Expired,
    External,
    InDoubt,
    Rejected,
    SignIn,
    Then,
    Verdict,
    Withdrawn,
)
from sayso.domain.message import AssistantMessage, ToolMessage, UserMessage
from sayso.domain.operand import OperandPin
from sayso.domain.people import Basis
from sayso.domain.question import Option, Question
from sayso.domain.ruling import Escalation, Require
from sayso.domain.value import Principal

GOLDEN = Path(__file__).parent / "golden"
SUMS = GOLDEN / "SHA256SUMS"

WHO = Principal(kind="service", id="desk")
RULING = Require(
    approvers=("owner", "user:ann"),
    quorum=2,
    within_ms=14_400_000,
    on_silence="cancel",
    remind_every_ms=3_600_000,
    escalate_after_ms=7_200_000,
    escalate_to=("user:bob",),
    not_requester=True,
    risk="critical",
    title="Pay Jiro",
    why="More than 1000.",
    editable=False,
    schema='{"type":"object"}',
    undo_ms=5000,
    on_reject="cancel",
    rule="payments",
)
CALL = Call(
    ref="2.0",
    tool="process_payment",
    args=msgspec.Raw(b'{"amount":12400.0,"n":9007199254740993,"to":"Jir\xc3\xb4"}'),
    digest="d" * 64,
    tool_version="3",
    given="toolu_01",
    text='{"amount":',
)
PINS = (
    OperandPin(name="paths[0]", path="pay.sh", sha256="a" * 64, size=120),
    OperandPin(name="paths[1]", path="/srv/none"),
)
RETURNED = Returned(value=msgspec.Raw(b'{"paid":true}'))
FAILED = Failed(message="no such account", error="LookupError")
DECLINED = Declined(reason="too much", by="ann")
UNKNOWN = Unknown(reason="the bank does not answer")
BASIS = (
    Basis(person="bob", rev=4, until=1_700_000_900_000),
    Basis(person="ann", rev=7),
)
MANY = Require(
    approvers=("role:finance",),
    quorum=3,
    reject_quorum=2,
    start_by_ms=600_000,
    escalate_after_ms=7_200_000,
    escalate_to=("role:lead",),
    chain=(Escalation(after_ms=10_800_000, to=("user:cfo", "role:board")),),
)


def decision(verdict: Verdict) -> Decision:
    """A decision with everything an auditor asks about."""
    return Decision(
        verdict=verdict,
        by=WHO,
        at=1_700_000_000_000,
        effective_at=1_700_000_005_000,
        digest="d" * 64,
        channel="inbox",
        assurance="passkey",
        key="k1",
        note="Called him.",
    )


def voted(verdict: Verdict) -> Decision:
    """A decision of somebody who stands in for somebody else."""
    return Decision(
        verdict=verdict,
        by=Principal(id="bob"),
        at=1_700_000_000_000,
        effective_at=1_700_000_000_000,
        digest="d" * 64,
        assurance="slack:U1",
        right="role:finance",
        of="ann",
        basis=BASIS,
    )


def settled(verdict: Verdict) -> e.HoldSettled:
    """An entry that settles a hold."""
    return e.HoldSettled(hold=3, version=2, decision=decision(verdict))


def put(ask: Ask, then: Then, *, step: int = 0) -> e.HoldOpened:
    """An entry by which a call asks something."""
    return e.HoldOpened(
        hold=4,
        call="2.0",
        digest="a" * 64,
        ask=ask,
        ruling=Require(resolve="together", siblings="hold"),
        approvers=("user:mira", "service:desk"),
        suspension=3,
        at=1_700_000_000_000,
        then=then,
        together=True,
        step=step,
    )


QUESTION = Question(
    text="Which account?",
    kind="choice",
    options=(Option(value="a", label="Savings", description="The old one"),),
    schema='{"type":"object"}',
    sensitive=True,
    placeholder="savings",
    default=msgspec.Raw(b'"a"'),
    length_min=1,
    length_max=40,
    number_min=0.5,
    number_max=9.5,
    whole=True,
    pattern="[a-z]+",
    picks_min=1,
    picks_max=2,
)
"""No question has all of this; what it says is not looked at here."""

GRANT = Grant(
    id="grant_1",
    tool="pay",
    tool_version="2",
    by=WHO,
    at=1_700_000_000_000,
    until=1_700_000_900_000,
    hold="hold_1.3",
    args=msgspec.Raw(b'{"amount":20}'),
    limits=(Limit(arg="amount", kind="at_most", value=msgspec.Raw(b"100")),),
    run="run_1",
    agent="teller",
    uses_max=3,
    used=1,
    revoked=1_700_000_100_000,
    revoked_by=Principal(id="olga"),
    note="Small ones.",
)


SPECIMENS: tuple[e.AnyEvent, ...] = (
    e.RunStarted(
        run="run_1",
        project="acme",
        agent="teller",
        by=WHO,
        input="Pay Jiro 200 dollars \U0001f4b8",
        at=1_700_000_000_000,
        agent_version="7",
        policy_version="2",
        thread="thread_1",
        previous="run_0",
        root="run_r",
        parent="run_p",
        parent_call="run_p.1.0",
        history=(
            UserMessage(text="Hello", by="mira"),
            AssistantMessage(text="Hi", calls=(CALL,), raw=msgspec.Raw(b'{"id":1}'), model="m"),
            ToolMessage(call_id="run_0.1.0", tool="pay", outcome=RETURNED, given="g", note="n"),
            ToolMessage(call_id="run_0.1.1", tool="pay", outcome=FAILED, given="g", note="n"),
            ToolMessage(call_id="run_0.1.2", tool="pay", outcome=DECLINED, given="g", note="n"),
            ToolMessage(call_id="run_0.1.3", tool="pay", outcome=UNKNOWN, given="g", note="n"),
        ),
        metadata=msgspec.Raw(b'{"ticket":17}'),
        key="start-1",
        trace="00-trace",
    ),
    e.MessageReceived(by=WHO, text="Stop.", strand="side", key="say-1"),
    e.TurnTaken(
        turn=2,
        seen=9,
        strand="side",
        text="I will pay.",
        calls=(CALL,),
        raw=msgspec.Raw(b'{"role":"assistant"}'),
        model="openai:gpt-5",
        usage={"input": 120, "output": 40},
    ),
    e.HoldOpened(
        hold=3,
        call="2.0",
        digest="d" * 64,
        ask=InDoubt(attempt=1, worker="w1", why="its worker died", probe="no answer"),
        ruling=RULING,
        approvers=("user:mira", "user:ann"),
        suspension=2,
        at=1_700_000_000_000,
        version=2,
        deadline=1_700_014_400_000,
        policy_version="2",
        tool_version="4",
        duplicate_of="1.0",
        trace="00-trace",
    ),
    e.HoldRevised(
        hold=3,
        version=3,
        args=msgspec.Raw(b'{"amount":20}'),
        digest="e" * 64,
        by=WHO,
        ruling=RULING,
        approvers=("user:ann",),
        at=1_700_000_001_000,
        deadline=1_700_014_400_000,
    ),
    settled(Approved(args=msgspec.Raw(b'{"amount":20}'))),
    e.DecisionEffective(hold=3),
    e.DecisionUndone(hold=3, by=WHO, at=1_700_000_002_000),
    e.CallStarted(
        call="2.0",
        attempt=2,
        worker="w1",
        digest="d" * 64,
        tick=123_456,
        timeout_ms=30_000,
        tool_version="3",
        grant="grant_1",
    ),
    e.CallFinished(call="2.0", outcome=RETURNED, attempt=2, why="a probe found it"),
    e.AttemptVoided(call="2.0", attempt=2, why="it was not sent"),
    e.CallDoubted(call="2.0", attempt=2, why="its worker died"),
    e.LateResult(call="2.0", attempt=1, outcome=FAILED),
    e.CancelRequested(by=WHO, at=1_700_000_003_000, reason="enough", error="no turns left"),
    e.RunTakenOver(worker="w2", before="w1", proof="lease"),
    e.RunSuspended(),
    e.RunResumed(),
    e.RunCompleted(output=msgspec.Raw(b'"Paid."')),
    e.RunFailed(error="no turns left"),
    e.RunCancelled(reason="enough"),
    e.EntryRedacted(entry=4, by=WHO, at=1_700_000_004_000, reason="asked to"),
    e.CommandReceived(call=CALL, by=WHO, at=1_700_000_000_000, strand="item.2", key="command-1"),
    e.StrandOpened(
        strand="item.2", parent="plan.1", text="Find the invoice.", data=msgspec.Raw(b'{"n":1}')
    ),
    e.StrandChanged(strand="item.2", data=msgspec.Raw(b'{"n":2}')),
    e.StrandClosed(strand="item.2", result=msgspec.Raw(b'"found"'), error="not paid"),
    e.CallContinued(call="2.0", attempt=3, worker="w2", tick=123_456, timeout_ms=30_000),
    e.StepStarted(call="2.0", attempt=3, step=2, name="reserve", digest="b" * 64, effect="keyed"),
    e.StepFinished(call="2.0", attempt=3, step=2, outcome=RETURNED, why="ann looked into it"),
    e.StepVoided(call="2.0", attempt=3, step=2, why="it was not sent"),
    e.BodyParked(call="2.0", attempt=3, why="it waited too long"),
    e.RunAdopted(by=WHO, at=1_700_000_000_000, source="run_1 of acme, on Monday"),
    e.VoteCast(hold=3, version=2, decision=voted(Approved())),
    e.VoteUndone(hold=3, person="bob", by=WHO, at=1_700_000_000_000, why="no longer of finance"),
    e.GrantGiven(hold=3, grant=GRANT),
    e.HoldEscalated(hold=3, to=("role:lead", "user:cfo"), at=1_700_000_000_000),
    e.HoldReassigned(
        hold=3,
        by=Principal(id="bob"),
        instead_of="user:ann",
        to="user:cy",
        at=1_700_000_000_000,
        right="role:operator",
        of="ann",
        basis=BASIS,
        note="She is away.",
    ),
    e.RunErased(by=WHO, at=1_700_000_005_000, through=17, reason="older than 90d"),
)
"""The main specimen of every tag."""

VARIANTS: dict[str, e.AnyEvent] = {
    "hold.opened.1-approval": e.HoldOpened(
        hold=1,
        call="1.0",
        digest="d" * 64,
        ask=Approval(),
        ruling=Require(),
        approvers=("user:mira",),
        suspension=1,
        at=1_700_000_000_000,
    ),
    "hold.settled.1-rejected": settled(Rejected(reason="too much")),
    "hold.settled.1-answered": settled(Answered(value=msgspec.Raw(b'{"paid":true}'))),
    "hold.settled.1-errored": settled(Errored(message="nobody knows")),
    "hold.settled.1-expired": settled(Expired(silence="cancel")),
    "hold.settled.1-withdrawn": settled(Withdrawn(reason="superseded")),
    "call.finished.1-failed": e.CallFinished(call="2.0", outcome=FAILED, attempt=2, why="a probe"),
    "call.finished.1-declined": e.CallFinished(call="2.0", outcome=DECLINED),
    "call.finished.1-unknown": e.CallFinished(call="2.0", outcome=UNKNOWN, attempt=2, why="ann"),
    "run.started.1-child": e.RunStarted(
        run="run_c",
        project="acme",
        agent="clerk",
        by=WHO,
        input="Find the invoice.",
        at=1_700_000_000_000,
        parent="run_1",
        parent_call="2.0",
        parent_hold=4,
        lineage=("boss", "teller"),
        turns_max=12,
    ),
    "turn.taken.1-batch": e.TurnTaken(
        turn=2, seen=9, calls=(CALL,), resolve="together", siblings="hold"
    ),
    "hold.opened.1-question": put(QUESTION, "continue", step=2),
    "hold.opened.1-sign_in": put(SignIn(provider="mail", scopes=("read",)), "start"),
    "hold.opened.1-consent": put(Consent(provider="mail", scopes=("read", "send")), "start"),
    "hold.opened.1-external": put(
        External(reason="the bank calls back", metadata=msgspec.Raw(b'{"id":7}'), client=True),
        "outcome",
    ),
    "hold.opened.1-delegation": put(
        Delegation(run="run_c", agent="clerk", input="Find the invoice."), "continue", step=3
    ),
    "hold.opened.1-step": put(
        InDoubt(attempt=3, worker="w1", why="its worker died", step=2), "start"
    ),
    "hold.opened.1-may_live": put(
        InDoubt(attempt=1, worker="w1", why="not heard of", may_live=True, elsewhere=True), "start"
    ),
    "hold.settled.1-even_if_alive": e.HoldSettled(
        hold=3,
        version=2,
        decision=msgspec.structs.replace(decision(Approved()), even_if_alive=True),
    ),
    "hold.settled.1-child": e.HoldSettled(
        hold=4, version=1, decision=decision(Answered(value=msgspec.Raw(b'"found"'))), turns=7
    ),
    "hold.settled.1-sealed": settled(Answered(value=msgspec.Raw(b'"***"'), sealed="c2VhbGVk")),
    "hold.settled.1-signed": e.HoldSettled(
        hold=3,
        version=2,
        decision=msgspec.structs.replace(decision(Approved()), signature="desk_1.c2lnbmF0dXJl"),
    ),
    "run.adopted.1-times": e.RunAdopted(
        by=WHO,
        at=1_700_000_000_000,
        source="run_1 of acme, on Monday",
        head="f" * 64,
        times=(1_600_000_000_000, 1_600_000_000_001),
    ),
    "run.adopted.1-silenced": e.RunAdopted(
        by=WHO, at=1_700_000_000_000, source="run_1 of acme, on Monday", silenced=(2, 3)
    ),
    "run.adopted.1-undated": e.RunAdopted(
        by=WHO, at=1_700_000_000_000, source="run_1 of acme, on Monday", undated=(1, 3)
    ),
    "hold.opened.1-operands": msgspec.structs.replace(put(Approval(), "start"), operands=PINS),
    "hold.revised.1-operands": e.HoldRevised(
        hold=3,
        version=3,
        args=msgspec.Raw(b'{"paths":["pay.sh","/srv/none"]}'),
        digest="e" * 64,
        by=WHO,
        ruling=Require(),
        approvers=("user:ann",),
        at=1_700_000_001_000,
        operands=PINS,
    ),
    "turn.taken.1-operands": e.TurnTaken(
        turn=2, seen=9, calls=(msgspec.structs.replace(CALL, operands=PINS),)
    ),
    "step.finished.1-failed": e.StepFinished(call="2.0", attempt=3, step=2, outcome=FAILED),
    "vote.cast.1-rejected": e.VoteCast(hold=3, version=2, decision=voted(Rejected(reason="no"))),
    "hold.opened.1-quorum": e.HoldOpened(
        hold=1,
        call="1.0",
        digest="d" * 64,
        ask=Approval(),
        ruling=MANY,
        approvers=("role:finance",),
        suspension=1,
        at=1_700_000_000_000,
    ),
    "hold.revised.1-right": e.HoldRevised(
        hold=3,
        version=3,
        args=msgspec.Raw(b'{"amount":20}'),
        digest="e" * 64,
        by=Principal(id="bob"),
        ruling=MANY,
        approvers=("role:finance",),
        at=1_700_000_001_000,
        right="role:finance",
        of="ann",
        basis=BASIS,
        policy_version="3",
    ),
    "hold.settled.1-right": e.HoldSettled(hold=3, version=2, decision=voted(Approved())),
    "hold.settled.1-silent_answer": settled(
        Expired(silence="answer", answer=msgspec.Raw(b'{"amount":20}'))
    ),
    "call.started.1-basis": e.CallStarted(
        call="2.0",
        attempt=1,
        worker="w1",
        digest="d" * 64,
        tick=123_456,
        timeout_ms=30_000,
        basis=BASIS,
    ),
    "call.started.1-grant": e.CallStarted(
        call="2.0",
        attempt=1,
        worker="w1",
        digest="d" * 64,
        tick=123_456,
        timeout_ms=30_000,
        grant="grant_1",
        grant_until=1_700_000_900_000,
    ),
    "run.started.1-timeout": e.RunStarted(
        run="run_1",
        project="acme",
        agent="teller",
        by=WHO,
        input="Pay Jiro.",
        at=1_700_000_000_000,
        timeout_ms=600_000,
    ),
    "run.suspended.1-at": e.RunSuspended(at=1_700_000_001_000),
    "run.resumed.1-at": e.RunResumed(at=1_700_000_002_000),
    "hold.settled.1-worked": e.HoldSettled(
        hold=4,
        version=1,
        decision=decision(Answered(value=msgspec.Raw(b'"found"'))),
        turns=7,
        worked_ms=90_000,
    ),
    "hold.settled.1-trace": msgspec.structs.replace(settled(Approved()), trace="00-trace"),
}
"""The other kinds of value that an event of the same tag may carry."""

GOLDENS: dict[str, e.AnyEvent] = {event_tag(event): event for event in SPECIMENS} | VARIANTS


def write_missing() -> list[str]:
    """Write the golden files that are not there, and note their sums."""
    missing = [name for name in GOLDENS if not (GOLDEN / f"{name}.json").exists()]
    with SUMS.open("a", encoding="utf-8") as sums:
        for name in missing:
            data = encode_event(GOLDENS[name])
            (GOLDEN / f"{name}.json").write_bytes(data)
            sums.write(f"{hashlib.sha256(data).hexdigest()}  {name}.json\n")
    return missing


if __name__ == "__main__":
    print(*write_missing(), sep="\n")
