"""What the doctor finds in runs that one version of the code left waiting, and another looks at.

Method: each fault is made as it comes about in life, by opening the same place with other agents.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from sayso import (
    Bounds,
    Context,
    Finding,
    Machine,
    Node,
    Planner,
    Policy,
    Report,
    Rule,
    answer,
    approve,
    role,
    tool,
    user,
)
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.transcript import Transcript
from sayso.domain.value import Principal
from sayso.engine import doctor
from sayso.engine.resumable import OpenRun, check_holds
from sayso.store.keyring import VARIABLE, new_key
from sayso.testing import ScriptedModel, call, say

from .kit import QUICK, Place, agent, entries, held, suspended, until

COLD = Bounds(look_s=0.02, stay_hot_s=0)


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def pay_tool(**options: Any) -> Any:
    @tool(**{"name": "pay", "approval": True, "effect": "once", **options})
    async def pay(amount: int, to: str = "Jiro") -> str:
        return f"paid {to} {amount}"

    return pay


PAYS = [call("pay", {"amount": 5}), say("Paid.")]


async def park(place: Place, *agents: Any, **options: Any) -> str:
    """Leave a run waiting."""
    async with place.app(*agents, **options) as app:
        run = await app.start("teller", "Pay", by="mira")
        await suspended(run)
        return run.id


async def look(place: Place, *agents: Any, **options: Any) -> Report:
    async with place.app(*agents, work=False, **options) as app:
        before = await entries(app.store)
        report = await app.doctor()
        assert await entries(app.store) == before
        return report


def of_runs(report: Report) -> list[tuple[str, str]]:
    return [(one.name, one.level) for one in report.findings if one.run_id]


def levels(report: Report, *names: str) -> dict[str, str]:
    return {one.name: one.level for one in report.findings if one.name in names}


async def test_a_run_that_can_go_on_is_no_finding(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    await park(place, teller)

    report = await look(place, teller)

    assert of_runs(report) == []
    assert report.runs == 1
    assert report.ok


async def test_a_finished_run_is_not_looked_at(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    async with place.app(teller) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await run.wait(final=True, timeout=20)

    report = await look(place, agent([say("x")], name="other"))

    assert (report.runs, of_runs(report)) == (0, [])


async def test_an_agent_that_is_gone_is_a_problem_of_each_run(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    ids = {await park(place, teller), await park(place, teller)}

    report = await look(place, agent([say("x")], name="other"))

    assert {one.run_id for one in report.findings if one.name == "agent"} == ids
    assert of_runs(report) == [("agent", "problem")] * 2
    assert not report.ok


async def test_where_no_agent_is_known_no_run_is_held_against_any(place: Place) -> None:
    await park(place, agent(PAYS, pay_tool()))

    report = await look(place)

    # Nothing is said of tools, either: there are none to say it of.
    assert levels(report, "agent", "effect", "risk", "probe") == {"agent": "note"}
    assert of_runs(report) == []
    assert report.ok


OTHER_TOOLS = {
    "gone": (None, [("tool", "problem")]),
    "newer": (pay_tool(version="2"), [("version", "note")]),
    "the same": (pay_tool(), []),
}


@pytest.mark.parametrize("case", OTHER_TOOLS)
async def test_a_call_is_held_against_the_tool_of_now(place: Place, case: str) -> None:
    other, found = OTHER_TOOLS[case]
    run_id = await park(place, agent(PAYS, pay_tool()))

    report = await look(place, agent(PAYS, *([] if other is None else [other])))

    assert of_runs(report) == found
    assert all(f"{run_id}.1.0" in one.text for one in report.findings if one.run_id)


async def test_arguments_that_do_not_fit_any_more_are_a_problem(place: Place) -> None:
    await park(place, agent(PAYS, pay_tool()))

    @tool(approval=True, effect="once")
    async def pay(amount: str, to: str) -> None: ...

    report = await look(place, agent(PAYS, pay))

    assert of_runs(report) == [("arguments", "problem")]


async def test_a_parameter_that_is_new_is_a_problem(place: Place) -> None:
    await park(place, agent(PAYS, pay_tool()))

    @tool(approval=True, effect="once")
    async def pay(amount: int, to: str = "Jiro", fee: int = 1) -> None: ...

    report = await look(place, agent(PAYS, pay))

    assert of_runs(report) == [("arguments", "problem")]
    assert "other arguments" in report.findings[-1].text


async def test_a_validator_that_raises_is_a_problem_and_hides_no_other_run(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    await park(place, teller)
    await park(place, teller)
    broken = pay_tool()

    def freeze(args: Any) -> bytes:
        raise SystemExit(1) if broken.calls else RuntimeError("no validator today")

    broken.calls, broken.freeze = 0, freeze

    report = await look(place, agent(PAYS, broken))

    assert of_runs(report) == [("arguments", "problem")] * 2
    broken.calls = 1
    assert of_runs(await look(place, agent(PAYS, broken))) == [("arguments", "problem")] * 2


async def test_an_edited_call_is_held_against_its_edit(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    rule = Policy(Rule("pay", when=lambda facts: facts.args["amount"] > 9, approvers=[user("ann")]))
    async with place.app(teller) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(args={"amount": 7, "to": "Bo"}), by="mira", undo="10m")

    @tool(approval=True, effect="once")
    async def pay(amount: int, to: str = "Bo") -> None:
        assert amount >= 7

    assert of_runs(await look(place, agent(PAYS, pay), policy=rule)) == []


async def test_a_call_whose_answer_is_its_outcome_needs_no_tool(place: Place) -> None:
    @tool(blocking=True, effect="once")
    async def wait_for_it() -> None: ...

    await park(place, agent([call("wait_for_it"), say("x")], wait_for_it))

    assert of_runs(await look(place, agent([say("x")]))) == []


def log_in(*, durable: bool = True) -> Any:
    if durable:

        @tool(durable=True, effect="once", name="log_in")
        async def body(ctx: Context) -> str:
            pin = await ctx.ask("PIN?", sensitive=True)
            await ctx.ask("Really?")
            return f"{len(pin)} digits"

        return body

    @tool(effect="once", name="log_in")
    async def plain(ctx: Context) -> str:
        return "in"

    return plain


LOGS_IN = [call("log_in"), say("In.")]


async def test_a_body_whose_tool_is_not_durable_any_more_is_a_problem(place: Place) -> None:
    await park(place, agent(LOGS_IN, log_in()))

    assert of_runs(await look(place, agent(LOGS_IN, log_in()))) == []
    report = await look(place, agent(LOGS_IN, log_in(durable=False)))

    assert of_runs(report) == [("body", "problem")]


async def test_a_sensitive_answer_whose_key_is_gone_is_a_problem(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = new_key()
    monkeypatch.setenv(VARIABLE, keys)
    teller = agent(LOGS_IN, log_in())
    async with place.app(teller, bounds=COLD) as app:
        run = await app.start("teller", "go", by="mira")
        pin = await held(run)
        await app.decide(pin, answer("1234"), by="mira")

        async def asks_again() -> bool:
            return any(hold.id != pin.id for hold in (await run.view()).holds)

        await until(asks_again, "the second question")

    assert of_runs(await look(place, teller)) == []
    monkeypatch.setenv(VARIABLE, new_key())
    assert of_runs(await look(place, teller)) == [("answer", "problem")]
    monkeypatch.delenv(VARIABLE)
    report = await look(place, teller)

    assert of_runs(report) == [("answer", "problem")]
    # Looking for a key must not make one.
    assert not place.path.with_name("sayso.db.keys").exists()
    monkeypatch.setenv(VARIABLE, f"{new_key()} {keys}")
    assert of_runs(await look(place, teller)) == []


async def test_a_hold_that_no_person_can_decide_is_found(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    hurried = agent(PAYS, pay_tool(within="1h"), name="hurried")
    robot = Principal(kind="service", id="robot")
    async with place.app(teller, hurried) as app:
        for name in ("teller", "hurried"):
            # A service owns the run, and no service approves anything.
            await suspended(await app.start(name, "Pay", by=robot))
        await suspended(await app.start("teller", "Pay", by="mira"))

    report = await look(place, teller, hurried)

    assert sorted(of_runs(report)) == [("hold", "problem"), ("hold", "warning")]
    assert all("service:robot" in one.text for one in report.findings if one.run_id)


@pytest.mark.parametrize(
    "approvers, kind, found",
    [
        ((), "approval", ["hold"]),
        (("user:",), "approval", ["hold"]),
        (("oracle:delphi", "service:robot"), "approval", ["hold"]),
        (("oracle:delphi", "user:ann"), "approval", []),
        (("anyone",), "question", []),
        (("service:robot",), "external", []),
        (("agent:clerk",), "external", ["hold"]),
    ],
)
async def test_who_can_decide_is_told_by_how_they_are_named(
    place: Place, approvers: tuple[str, ...], kind: str, found: list[str]
) -> None:
    teller = agent(PAYS, pay_tool())
    run_id = await park(place, teller)
    async with place.app(teller, work=False) as app:
        parts = app._open_parts
        run = await parts.ledger.load(run_id)
    (hold,) = run.holds
    run = replace(run, holds=(replace(hold, approvers=approvers, kind=kind),))
    one = OpenRun(parts=parts, run=run, transcript=Transcript(run_id), keys=None)

    assert [finding.name for finding in check_holds(one)] == found
    # Nobody has to decide what the end of another run, or a decision already made, settles.
    delegated = replace(run, holds=(replace(hold, approvers=(), child="run_2"),))
    assert list(check_holds(replace(one, run=delegated))) == []


async def test_a_set_in_another_order_is_the_same_set(place: Place) -> None:
    @tool(approval=True, effect="once")
    async def tag(tags: set[str]) -> None: ...

    await park(place, agent([call("tag", {"tags": ["a", "b", "c"]}), say("x")], tag))
    freeze = tag.freeze

    def elsewhere(args: str | bytes) -> bytes:
        return encode_value({"tags": decode_value(freeze(args))["tags"][::-1]})

    tag.freeze = elsewhere

    assert of_runs(await look(place, agent(PAYS, tag))) == []


async def test_what_a_service_reports_can_be_decided(place: Place) -> None:
    @tool(client=True, effect="once")
    async def fetch() -> None: ...

    teller = agent([call("fetch"), say("x")], fetch)
    async with place.app(teller) as app:
        robot = Principal(kind="service", id="robot")
        await suspended(await app.start("teller", "go", by=robot))

    assert of_runs(await look(place, teller)) == []


def machine(*nodes: Node, root: str = "desk") -> Machine:
    return Machine("teller", model=ScriptedModel(lambda m: say("x")), nodes=nodes, root=root)


def two_nodes(state: Any = None, *, clerk: bool = True) -> list[Node]:
    @tool(approval=True, effect="once", name="pay")
    async def pay(amount: int) -> None: ...

    desk = Node("desk", tools=[pay], spawns=["clerk"] if clerk else [], state={"seen": 1})
    return [desk, *([Node("clerk", tools=[pay], state=state)] if clerk else [])]


def spawning(nodes: list[Node]) -> Machine:
    def turn(messages: Any) -> Any:
        text = str(messages[0])
        if "look after it" in text:
            return call("pay", {"amount": 1})
        if len(messages) == 1:
            return call("spawn", {"node": "clerk", "input": "look after it", "state": {"n": 1}})
        return say("waiting")

    return Machine("teller", model=ScriptedModel(turn), nodes=nodes, root="desk")


async def test_a_node_that_is_gone_is_a_problem(place: Place) -> None:
    await park(place, spawning(two_nodes()))

    assert of_runs(await look(place, spawning(two_nodes()))) == []
    report = await look(place, spawning(two_nodes(clerk=False)))

    assert of_runs(report) == [("strand", "problem")]
    assert "'clerk'" in report.findings[-1].text


async def test_a_state_that_does_not_fit_its_node_any_more_is_a_problem(place: Place) -> None:
    from pydantic import BaseModel

    class Knows(BaseModel):
        name: str = "x"
        n: bool = False

        model_config = {"extra": "forbid", "strict": True}

    await park(place, spawning(two_nodes()))

    report = await look(place, spawning(two_nodes(Knows)))

    assert of_runs(report) == [("strand", "problem")]
    assert "does not fit 'clerk'" in report.findings[-1].text


async def test_a_machine_that_is_a_plain_agent_now_is_a_problem(place: Place) -> None:
    nodes = two_nodes()
    await park(place, spawning(nodes))

    plain = await look(place, agent([say("x")], *nodes[0].tools))
    planner = Planner("teller", model=ScriptedModel([say("x")]), tools=nodes[0].tools)
    planned = await look(place, planner)

    assert {name for name, _ in of_runs(plain)} == {"strand"}
    assert [name for name, _ in of_runs(planned)] == ["strand"]


async def test_a_plan_that_is_no_plan_now_is_a_problem(place: Place) -> None:
    plan = '{"items": [{"id": "a", "task": "pay it"}]}'

    def turn(messages: Any) -> Any:
        return say(plan) if "pay it" not in str(messages) else call("pay", {"amount": 1})

    def planner() -> Planner:
        return Planner("teller", model=ScriptedModel(turn), tools=[pay_tool()])

    await park(place, planner())

    assert of_runs(await look(place, planner())) == []
    assert {name for name, _ in of_runs(await look(place, agent(PAYS, pay_tool())))} == {"strand"}
    other = await look(place, machine(Node("desk", tools=[pay_tool()])))
    assert {name for name, _ in of_runs(other)} == {"strand"}


async def test_a_run_that_cannot_be_read_is_found_and_hides_no_other(file_place: Place) -> None:
    import apsw

    place = file_place
    teller = agent(PAYS, pay_tool())
    broken, other = await park(place, teller), await park(place, teller)
    conn = apsw.Connection(str(place.path))
    conn.execute("update runs set state = x'00' where id = ?", (broken,))
    conn.close()

    report = await look(place, agent(PAYS))

    assert {(one.run_id, one.name) for one in report.findings if one.run_id} == {
        (broken, "run"),
        (other, "tool"),
    }
    assert report.runs == 2


async def test_what_the_tools_declare_is_looked_at(place: Place) -> None:
    @tool
    async def look_up() -> None: ...

    @tool(approval=True)
    async def send() -> None: ...

    @tool(effect="keyed", risk="high")
    async def delete() -> None: ...

    teller = agent([say("x")], look_up, send, delete)

    found = {(one.name, one.level): one.text for one in (await look(place, teller)).findings}
    ruled = await look(place, teller, policy=Policy(Rule("del*")))
    checked = await look(place, teller, check_for_intervention=lambda _: False)
    well = await look(place, agent([say("x")], pay_tool(risk="high", probe=lambda: None)))

    assert found["effect", "warning"].startswith("send, which people are asked about")
    assert found["effect", "note"].startswith("look_up ")
    assert found["risk", "warning"].startswith("delete of high risk")
    assert found["probe", "note"].startswith("look_up, send act once")
    assert levels(ruled, "risk") == levels(checked, "risk") == {"risk": "ok"}
    assert levels(well, "effect", "risk", "probe") == {"effect": "ok", "risk": "ok"}


async def test_an_agents_own_check_counts_for_its_tools_alone(place: Place) -> None:
    @tool(effect="keyed", risk="high")
    async def delete() -> None: ...

    @tool(effect="keyed", risk="high")
    async def drop() -> None: ...

    checked = agent([say("x")], delete, name="a", check_for_intervention=lambda _: True)

    report = await look(place, checked, agent([say("x")], drop, name="b"))

    (risk,) = [one for one in report.findings if one.name == "risk"]
    assert risk.text.startswith("drop of high risk")


async def test_there_is_an_end_to_what_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "FINDINGS_MAX", 3)
    monkeypatch.setattr(doctor, "RUNS_PAGE", 2)
    teller = agent(PAYS, pay_tool())
    async with place.app(teller) as app:
        runs = [await app.start("teller", "Pay", by="mira") for _ in range(5)]
        for run in runs:
            await suspended(run)
    seen: list[int] = []

    async with place.app(agent([say("x")], name="other"), work=False) as app:
        report = await app.doctor(lambda report: seen.append(report.runs))

    assert len(of_runs(report)) == 3
    assert (report.runs, report.left_out) == (5, {"agent": 2})
    assert seen == [1, 2, 3, 4, 5]


async def test_a_store_that_cannot_be_looked_at_is_a_problem(place: Place) -> None:
    async with place.app(agent(PAYS, pay_tool()), work=False) as app:
        await app.store.close()

        report = await app.doctor()

    assert [(one.name, one.level) for one in report.findings] == [("store", "problem")]


async def test_a_working_app_can_look_itself_over(place: Place) -> None:
    async with place.app(agent(PAYS, pay_tool()), bounds=QUICK) as app:
        run = await app.start("teller", "Pay", by="mira")
        await suspended(run)

        report = await app.doctor()

    assert report.runs == 1
    assert levels(report, "workers") == {"workers": "ok"}
    assert of_runs(report) == []


def test_the_worst_finding_says_how_it_stands() -> None:
    def report(*found: str) -> Report:
        return Report(findings=[Finding(name="x", level=one, text="x") for one in found])

    assert [report().worst, report("ok").worst] == ["ok", "ok"]
    assert (report("note", "warning", "ok").worst, report("warning").ok) == ("warning", True)
    assert (report("problem", "note").worst, report("problem").ok) == ("problem", False)


async def test_a_role_that_too_few_people_have_is_a_warning(place: Place) -> None:
    teller = agent(PAYS, pay_tool())
    policy = Policy(Rule("pay", approvers=[role("finance")], quorum=2))
    await park(place, teller, policy=policy)

    async with place.app(work=False) as app:
        await app.people.put("ann", roles=["finance"])
        await app.people.put("bob", roles=["finance"], active=False)
    report = await look(place, teller, policy=policy)
    assert levels(report, "role") == {"role": "warning"}
    assert of_runs(report) == []

    async with place.app(work=False) as app:
        await app.people.put("bob", active=True)
    assert levels(await look(place, teller, policy=policy), "role") == {}

    anybody = Policy(Rule("pay", approvers=[role("nobody"), "user:ann"]))
    assert levels(await look(place, teller, policy=anybody), "role") == {}
