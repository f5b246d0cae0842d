"""Seed 4, Emergent, "ask_user": what the document decides and its risks, what the finished system
did, and what went wrong in it.

The setting that honours it: `Agent(tools=[ask_user(approvers=[anyone])], resolve="latest")`. Its
question is a hold of kind `question`; "pending" is open, "answered" settled by an answer,
"cancelled" settled as withdrawn, "expired" settled by the clock. It makes a new run of every
resume, and had to say which to follow; ours is one run with one id. It says of its own way to
resume that the agent remembers nothing; ours goes on with the whole conversation.

Kept by the server's and the notifiers' own tests: the endpoint's URL and status codes (202, 400,
401, 404, 409), notifications with their actions, the streamed events and their names.
"""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import Any

import pytest

from sayso import (
    Agent,
    AssistantMessage,
    Context,
    Declined,
    Failed,
    Policy,
    Principal,
    Returned,
    Rule,
    RunView,
    ToolMessage,
    UserMessage,
    answer,
    anyone,
    approve,
    ask_user,
    reject,
    spawn,
    tool,
)
from sayso.engine.ports import Prompt
from sayso.errors import (
    AlreadyDecided,
    BadAnswer,
    BudgetSpent,
    HoldExpired,
    NotAllowed,
    RunFinished,
    UnknownHold,
    WrongVerdict,
)
from sayso.testing import ScriptedModel, call, say
from tests.engine.judge import judge
from tests.engine.kit import (
    Delegate,
    Place,
    agent,
    completed,
    finished,
    held,
    suspended,
    tags,
    types,
    until,
)

MERCURY = {
    "question": "Which Mercury?",
    "options": [
        {"label": "Mercury (planet)", "value": "planet", "description": "the hot one"},
        {"label": "Mercury (element)", "value": "element"},
    ],
}
ASK = call("ask_user", MERCURY)
SCRIPT = [ASK, say("Thank you.")]


def asker(script: Any = SCRIPT, *tools: Any, **options: Any) -> Agent:
    """Their agent. The script may be a model."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    tools = (ask_user(approvers=[anyone]), *tools)
    return Agent("asker", model=model, tools=tools, **{"resolve": "latest", **options})


def outcomes(view: RunView) -> list[Any]:
    return [message.outcome for message in view.messages if isinstance(message, ToolMessage)]


class Watched(ScriptedModel):
    """A model that writes down what it is given."""

    def __init__(self, turns: Any) -> None:
        super().__init__(turns)
        self.prompts: list[Prompt] = []

    async def answer(self, prompt: Prompt, emit: Any) -> Any:
        self.prompts.append(prompt)
        return await super().answer(prompt, emit)


# Goals.


async def test_goal_an_agent_pauses_and_asks_with_choices(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "Tell me about Mercury", by="mira")
        hold = await held(run)

        assert (hold.kind, hold.title) == ("question", "Which Mercury?")
        assert hold.question is not None
        assert [(o.label, o.value, o.description) for o in hold.question.options] == [
            ("Mercury (planet)", "planet", "the hot one"),
            ("Mercury (element)", "element", ""),
        ]


async def test_goal_a_question_may_be_open(place: Place) -> None:
    async with place.app(asker([call("ask_user", {"question": "Why?"}), say("I see.")])) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        assert hold.question is not None
        assert (hold.question.kind, hold.question.options) == ("text", ())
        await app.decide(hold, answer("Because."), by="bob")

        assert outcomes(await completed(run))[0].result() == "Because."


async def test_goal_questions_and_responses_are_kept_for_audit(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira", project="default")
        hold = await held(run)
        place.clock.advance("2h")
        await app.decide(hold, answer("planet"), by="bob")
        await completed(run)
        kept = await app.hold(hold.id)

        assert (kept.run_id, kept.agent, kept.project) == (run.id, "asker", "default")
        assert (kept.status, kept.opened_at.tzinfo) == ("settled", UTC)
        assert kept.decision is not None
        assert (kept.decision.by.id, kept.decision.word) == ("bob", "answered")
        assert kept.decision.at - kept.opened_at.timestamp() * 1000 == 2 * 3600 * 1000
        assert [one.id for one in await app.holds(status="settled")] == [hold.id]
        await judge(app.store)


async def test_goal_an_answer_resumes_the_run_by_itself(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), answer("element"), by="mira")
        view = await completed(run)

        assert view.output == "Thank you."
        assert outcomes(view) == [Returned(value=answer("element").value)]


async def test_goal_only_agents_that_list_it_have_it(place: Place) -> None:
    model = Watched(SCRIPT)
    async with place.app(Agent("asker", model=model)) as app:
        (found,) = outcomes(await completed(await app.start("asker", "go", by="mira")))

        assert (type(found), found.error) == (Failed, "UnknownTool")
        assert model.prompts[0].tools == ()
        assert not list(await app.holds(status="any"))


# Decision 1: how a run is paused.


async def test_decision_1_a_paused_run_is_neither_failed_nor_asked_on(place: Place) -> None:
    model = Watched(SCRIPT)
    async with place.app(asker(model)) as app:
        run = await app.start("asker", "go", by="mira")
        view = await suspended(run)
        await app.sweep()

        assert (view.status, view.error, view.output) == ("suspended", None, None)
        assert len(model.prompts) == 1
        assert (await types(app, run))[-1] == "run.suspended"


# Decision 2: where questions are kept.


async def test_decision_2_pending_questions_are_found_by_run_user_and_status(place: Place) -> None:
    mine = agent(SCRIPT, ask_user(), name="mine")
    async with place.app(asker(), mine) as app:
        one = await app.start("asker", "go", by="mira")
        two = await app.start("mine", "go", by="bob")
        first, second = await held(one), await held(two)

        assert [hold.id for hold in await app.holds(by="mira")] == [first.id]
        assert [hold.id for hold in await app.holds(by="bob")] == [first.id, second.id]
        assert [hold.id for hold in (await one.view()).holds] == [first.id]
        await app.decide(first, answer("planet"), by="bob")
        assert [hold.id for hold in await app.holds(status="settled")] == [first.id]
        assert [hold.id for hold in await app.holds(status="open")] == [second.id]


# Decision 3: how the answer comes in.


async def test_decision_3_the_answer_is_what_the_call_gave_and_nothing_is_forgotten(
    place: Place,
) -> None:
    look = tool(_look)
    model = Watched([call("look"), ASK, say("Thank you.")])
    one = asker(model, look)
    async with place.app(one) as app:
        run = await app.start("asker", "Tell me about Mercury", by="mira")
        await held(run)
    async with place.app(one) as app:
        hold = await held(app.run(run.id))
        await app.decide(hold, answer("planet"), by="mira")
        await completed(app.run(run.id))
    *_, before, after = model.prompts

    assert after.messages[: len(before.messages)] == before.messages
    asked, told = after.messages[len(before.messages) :]
    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolMessage)
    assert told.call_id == f"{run.id}.{asked.calls[0].ref}" == hold.call_id
    assert told.outcome == Returned(value=answer("planet").value)


async def _look() -> str:
    return "there are two"


# Decision 5: the response.


async def test_decision_5_what_is_refused_is_told_apart(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        with pytest.raises(UnknownHold):
            await app.decide("hold_01kdvdna009fznp6ds4q8afwec.1", answer("planet"), by="mira")
        for empty in ("", None):
            with pytest.raises(BadAnswer):
                await app.decide(hold, answer(empty), by="mira")
        decided = await app.decide(hold, answer("planet"), by="mira")
        assert (decided.run_id, decided.status) == (run.id, "settled")
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(hold, answer("element"), by="bob")

        assert "answered by mira" in str(refused.value)


async def test_decision_5_responding_does_not_wait_for_the_agent(place: Place) -> None:
    go = asyncio.Event()

    async def script(messages: Any) -> Any:
        if len(messages) == 1:
            return ASK
        await go.wait()
        return say("Thank you.")

    async with place.app(asker(script)) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), answer("planet"), by="mira")
        assert await run.status() == "running"
        go.set()

        await completed(run)


# Risks.


async def test_risk_an_answer_while_the_run_is_still_pausing_counts(place: Place) -> None:
    go = asyncio.Event()

    @tool
    async def slow() -> str:
        await go.wait()
        return "slow"

    async with place.app(asker([[ASK, call("slow")], say("Thank you.")], slow)) as app:
        run = await app.start("asker", "go", by="mira")
        (hold,) = (await run.wait(held=True, timeout=20)).holds
        assert await run.status() == "running"
        await app.decide(hold, answer("planet"), by="mira")
        go.set()

        assert [one.result() for one in outcomes(await completed(run))] == ["planet", "slow"]


async def test_risk_a_question_is_kept_before_anybody_hears_of_it(place: Place) -> None:
    heard: list[str] = []
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira")
        async for entry in app.events(run):
            if entry.type == "hold.opened":
                heard.append((await app.hold(f"hold_{run.id[4:]}.{entry.event.hold}")).status)
                await app.decide(f"hold_{run.id[4:]}.1", answer("planet"), by="mira")

        assert heard == ["open"]


async def test_risk_only_the_last_question_is_asked_and_the_others_have_an_outcome(
    place: Place,
) -> None:
    turn = [call("ask_user", {"question": f"Question {n}?"}) for n in range(3)]
    async with place.app(asker([turn, say("Thank you.")])) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        assert hold.title == "Question 2?"
        await app.decide(hold, answer("yes"), by="mira")

        assert [type(one) for one in outcomes(await completed(run))] == [
            Declined,
            Declined,
            Returned,
        ]


async def test_risk_a_late_answer_to_a_superseded_question_is_told_so(place: Place) -> None:
    go = asyncio.Event()

    @tool
    async def ask_later(ctx: Context) -> Any:
        await go.wait()
        return ctx.suspend("And now?", approvers=[anyone])

    turn = [ASK, call("ask_later")]
    async with place.app(asker([turn, say("Thank you.")], ask_later)) as app:
        run = await app.start("asker", "go", by="mira")
        (first,) = (await run.wait(held=True, timeout=20)).holds
        go.set()
        second = await held(run)
        with pytest.raises(AlreadyDecided) as refused:
            await app.decide(first, answer("planet"), by="mira")
        assert refused.value.decision.word == "withdrawn"
        await app.decide(second, answer("now"), by="mira")

        assert [type(one) for one in outcomes(await completed(run))] == [Declined, Returned]


async def test_where_questions_do_not_supersede_each_other_all_are_asked(place: Place) -> None:
    turn = [call("ask_user", {"question": f"Question {n}?"}) for n in range(3)]
    async with place.app(asker([turn, say("Thank you.")], resolve="each")) as app:
        run = await app.start("asker", "go", by="mira")
        for hold in reversed((await suspended(run)).holds):
            await app.decide(hold, answer(hold.title), by="mira")

        found = [one.result() for one in outcomes(await completed(run))]
        assert found == ["Question 0?", "Question 1?", "Question 2?"]


# What the finished system did.


async def test_expiry_which_the_document_leaves_for_later(place: Place) -> None:
    waiting = agent(SCRIPT, ask_user(approvers=[anyone], within="1d"), name="asker")
    async with place.app(waiting) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        place.clock.advance("1d")
        await app.sweep()
        await completed(run)
        with pytest.raises(HoldExpired):
            await app.decide(hold, answer("planet"), by="mira")


async def test_steps_carry_over_and_a_spent_budget_refuses_the_resume(place: Place) -> None:
    script = [ASK, call("ask_user", {"question": "More?"}), say("Thank you.")]
    async with place.app(asker(script, turns_max=2)) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), answer("planet"), by="mira")
        second = await held(run)
        place.clock.advance("30d")
        with pytest.raises(BudgetSpent):
            await app.decide(second, answer("no"), by="mira")

        assert (await app.hold(second)).status == "open"
    async with place.app(asker(script, turns_max=3)) as app:
        run = await app.start("asker", "go", by="mira")
        for said in ("planet", "no"):
            place.clock.advance("30d")
            await app.decide(await held(run), answer(said), by="mira")

        assert (await completed(run)).output == "Thank you."


def deleting(done: list[str]) -> Any:
    @tool
    async def delete(name: str) -> dict[str, str]:
        done.append(name)
        return {"deleted": name}

    return delete


DELETE = [call("delete", {"name": "all"}), say("Thank you.")]


async def test_a_policy_that_confirms_runs_the_saved_call_itself(place: Place) -> None:
    done: list[str] = []
    policy = Policy(Rule("delete", title="May I delete?", approvers=[anyone]))
    async with place.app(asker(DELETE, deleting(done)), policy=policy) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        assert (hold.kind, hold.title, hold.args, done) == (
            "approval",
            "May I delete?",
            {"name": "all"},
            [],
        )
        await app.decide(hold, approve(), by="bob")

        assert outcomes(await completed(run))[0].result() == {"deleted": "all"}
        assert done == ["all"]


async def test_a_no_to_a_confirmation_is_told_and_the_run_goes_on(place: Place) -> None:
    done: list[str] = []
    policy = Policy(Rule("delete"))
    async with place.app(asker(DELETE, deleting(done)), policy=policy) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), reject("not all of them"), by="mira")
        view = await completed(run)

        assert outcomes(view) == [Declined(reason="not all of them", by="mira")]
        assert done == []


async def test_a_disabled_tool_is_an_error_and_never_runs(place: Place) -> None:
    done: list[str] = []
    policy = Policy(Rule("delete", forbid="delete is disabled"))
    async with place.app(asker(DELETE, deleting(done)), policy=policy) as app:
        view = await completed(await app.start("asker", "go", by="mira"))

        assert outcomes(view) == [Declined(reason="delete is disabled", by="policy")]
        assert done == []


async def test_a_tool_that_is_disabled_while_it_waits_does_not_run(place: Place) -> None:
    done: list[str] = []
    async with place.app(asker(DELETE, deleting(done)), policy=Policy(Rule("delete"))) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
    off = Policy(Rule("delete", forbid="delete is disabled"))
    async with place.app(asker(DELETE, deleting(done)), policy=off) as app:
        await app.decide(hold, approve(), by="mira")
        view = await completed(app.run(run.id))

        assert (outcomes(view)[0].reason, done) == ("delete is disabled", [])


def family(child_script: Any = None, **options: Any) -> list[Any]:
    child = agent(
        child_script or [ASK, say("child done")], ask_user(approvers=[anyone]), name="child"
    )
    middle = agent(
        [call("spawn", {"agent": "child", "input": "x"}), say("middle done")],
        spawn("child"),
        name="middle",
    )
    task = call("spawn", {"agent": options.get("below", "child"), "input": "x"})
    top = agent([task, say("top done")], spawn("child", "middle"), name="top")
    return [child, middle, top]


@pytest.mark.parametrize("below", ["child", "middle"])
async def test_a_paused_child_pauses_its_parent_and_wakes_it_once(place: Place, below: str) -> None:
    twice = [ASK, call("ask_user", {"question": "Sure?"}), say("child done")]
    async with place.app(*family(twice, below=below)) as app:
        run = await app.start("top", "go", by="mira")
        for said in ("planet", "yes"):
            view = await suspended(run)
            (hold,) = view.holds
            assert hold.lineage[0] == run.id
            await app.decide(hold, answer(said), by="mira")
        view = await completed(run)

        assert view.output == "top done"
        want = "child done" if below == "child" else "middle done"
        assert [one.result() for one in outcomes(view)] == [want]
        assert (await types(app, run)).count("hold.settled") == 1
        assert (await types(app, run)).count("turn.taken") == 2


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_a_child_that_comes_to_no_good_end_wakes_its_parent(place: Place, end: str) -> None:
    def script(messages: Any) -> Any:
        if len(messages) == 1:
            return ASK
        raise ValueError("no idea")

    async with place.app(*family(script)) as app:
        run = await app.start("top", "go", by="mira")
        hold = await held(run)
        if end == "failed":
            await app.decide(hold, answer("planet"), by="mira")
        else:
            await app.cancel(hold.run_id, by="mira")
        view = await completed(run)

        (found,) = outcomes(view)
        assert isinstance(found, Failed)
        assert end in found.message


async def test_client_tools_of_one_turn_are_all_handed_out(place: Place) -> None:
    @tool(client=True)
    async def show(what: str) -> None: ...

    turn = [call("show", {"what": "a"}), call("show", {"what": "b"})]
    async with place.app(asker([turn, say("Thank you.")], show, resolve="each")) as app:
        run = await app.start("asker", "go", by="mira")
        a, b = (await suspended(run)).holds
        await app.decide(b, answer("B"), by="mira")
        await app.decide(a, answer("A"), by="mira")

        assert [one.result() for one in outcomes(await completed(run))] == ["A", "B"]


async def test_cancelling_a_paused_run_and_a_finished_one(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        await app.cancel(run, by="mira")
        assert (await finished(run)).status == "cancelled"
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, answer("planet"), by="mira")
        other = await app.start("asker", "go", by="mira")
        await app.decide(await held(other), answer("planet"), by="mira")
        await completed(other)
        with pytest.raises(RunFinished):
            await app.cancel(other, by="mira")


# What went wrong.


async def test_a_final_answer_beside_a_question_does_not_complete_the_run(place: Place) -> None:
    async with place.app(asker([[say("I am done."), ASK], say("Thank you.")])) as app:
        run = await app.start("asker", "go", by="mira")
        assert (await suspended(run)).output is None
        await app.decide(await held(run), answer("planet"), by="mira")

        assert (await completed(run)).output == "Thank you."


@pytest.mark.parametrize("count", [2, 9])
async def test_of_many_answers_one_counts_and_the_run_goes_on_once(
    place: Place, count: int
) -> None:
    model = Watched(SCRIPT)
    async with place.app(asker(model)) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        found = await asyncio.gather(
            *[
                app.decide(hold, answer(["planet", "element"][n % 2]), by=f"p{n}")
                for n in range(count)
            ],
            return_exceptions=True,
        )
        view = await completed(run)

        won = [one for one in found if not isinstance(one, BaseException)]
        assert len(won) == 1
        assert {type(one) for one in found if isinstance(one, BaseException)} == {AlreadyDecided}
        assert won[0].decision is not None
        assert outcomes(view)[0].value == won[0].decision.verdict.value  # type: ignore[union-attr]
        assert len(model.prompts) == 2


async def test_the_run_that_was_started_is_the_run_that_ends(place: Place) -> None:
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by="mira")
        follower = asyncio.ensure_future(run.wait(final=True, timeout=20))
        hold = await held(run)
        assert hold.run_id == run.id
        await app.decide(hold, answer("planet"), by="mira")

        assert (await follower).id == run.id
        assert (await follower).output == "Thank you."


async def test_a_failure_after_the_answer_ends_the_run_visibly(place: Place) -> None:
    def script(messages: Any) -> Any:
        if len(messages) == 1:
            return ASK
        raise LookupError("no organisation")

    async with place.app(asker(script)) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), answer("planet"), by="mira")
        view = await finished(run)

        assert (view.status, "no organisation" in (view.error or "")) == ("failed", True)


async def test_answer_and_resumption_are_one_append(place: Place) -> None:
    appended: list[list[str]] = []

    class Counting(Delegate):
        def append(self, *writes: Any) -> Any:
            appended.append(tags(writes))
            return self.inner.append(*writes)

    async with place.app(asker(), wrap=Counting) as app:
        run = await app.start("asker", "go", by="mira")
        await app.decide(await held(run), answer("planet"), by="mira")
        await completed(run)

        (one,) = [names for names in appended if "hold.settled" in names]
        assert one == ["hold.settled", "call.finished", "run.resumed"]


async def test_a_resumed_run_has_the_same_tools_instructions_and_identity(place: Place) -> None:
    who: list[Any] = []

    @tool
    async def look(ctx: Context) -> str:
        who.append((ctx.by, ctx.project, ctx.thread, ctx.agent, ctx.run_id))
        return "ok"

    models = [Watched([call("look"), ASK, call("look"), say("Thank you.")]) for _ in range(2)]

    def made(model: Any) -> Any:
        return asker(model, look, instructions="Be brief.")

    async with place.app(made(models[0])) as app:
        run = await app.start("asker", "go", by="mira", thread="t", metadata={"org": 7})
        hold = await held(run)
    async with place.app(made(models[1])) as app:
        await app.decide(hold, answer("planet"), by="bob")
        await completed(app.run(run.id))
    before, after = models[0].prompts[-1], models[1].prompts[-1]

    assert (before.instructions, [t.name for t in before.tools]) == (
        after.instructions,
        [t.name for t in after.tools],
    )
    assert [t.spec() for t in before.tools] == [t.spec() for t in after.tools]
    assert len(who) == 2
    assert who[0] == who[1]


async def test_a_run_of_a_service_asks_people_like_any_other(place: Place) -> None:
    token = Principal(kind="service", id="api-token")
    async with place.app(asker()) as app:
        run = await app.start("asker", "go", by=token)
        hold = await held(run)
        assert [one.id for one in await app.holds(by="mira")] == [hold.id]
        with pytest.raises(NotAllowed):
            await app.decide(hold, answer("planet"), by=token)
        await app.decide(hold, answer("planet"), by="mira")

        await completed(run)


@pytest.mark.parametrize(
    "said", ["approve", "Approve", 'The user responded: "approve"', {"approved": True}, True]
)
async def test_a_decision_is_never_read_out_of_text(place: Place, said: Any) -> None:
    done: list[str] = []
    async with place.app(asker(DELETE, deleting(done)), policy=Policy(Rule("delete"))) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        with pytest.raises(WrongVerdict):
            await app.decide(hold, answer(said), by="mira")
        assert done == []
        await app.decide(hold, approve(), by="mira")
        await completed(run)

        assert done == ["all"]


class Refusing(Delegate):
    """A store that takes no questions."""

    def append(self, *writes: Any) -> Any:
        if "hold.opened" in tags(writes):
            raise OSError("no space for questions")
        return self.inner.append(*writes)


async def test_what_cannot_be_confirmed_does_not_run(place: Place) -> None:
    done: list[str] = []
    policy = Policy(Rule("delete"))
    async with place.app(asker(DELETE, deleting(done)), policy=policy, wrap=Refusing) as app:
        run = await app.start("asker", "go", by="mira")
        await run.wait(timeout=20)

        assert done == []


async def test_two_confirmations_and_a_question_in_one_turn_all_survive(place: Place) -> None:
    done: list[str] = []
    turn = [call("delete", {"name": "a"}), ASK, call("delete", {"name": "b"})]
    teller = asker([turn, say("Thank you.")], deleting(done), resolve="each")
    async with place.app(teller, policy=Policy(Rule("delete"))) as app:
        run = await app.start("asker", "go", by="mira")
        a, asked, b = (await suspended(run)).holds
        await app.decide(b, approve(), by="mira")
        await until(lambda: done == ["b"])
        await app.decide(asked, answer("planet"), by="mira")
        await app.decide(a, reject("keep a"), by="mira")
        view = await completed(run)

        assert done == ["b"]
        assert [type(one) for one in outcomes(view)] == [Declined, Returned, Returned]
        told = [m.call_id for m in view.messages if isinstance(m, ToolMessage)]
        assert told == [a.call_id, asked.call_id, b.call_id]


async def test_a_cancelled_run_stays_cancelled_though_a_question_was_on_its_way(
    place: Place,
) -> None:
    asked, go = asyncio.Event(), asyncio.Event()

    async def script(messages: Any) -> Any:
        asked.set()
        await go.wait()
        return ASK

    async with place.app(asker(script)) as app:
        run = await app.start("asker", "go", by="mira")
        await asyncio.wait_for(asked.wait(), 20)
        await app.cancel(run, by="mira")
        go.set()

        assert (await finished(run)).status == "cancelled"
        assert not list(await app.holds(status="any"))


async def test_only_whom_the_question_names_may_answer_where_it_names_somebody(
    place: Place,
) -> None:
    mine = agent(SCRIPT, ask_user(), name="asker")
    async with place.app(mine) as app:
        run = await app.start("asker", "go", by="mira")
        hold = await held(run)
        with pytest.raises(NotAllowed):
            await app.decide(hold, answer("planet"), by="bob")
        await app.decide(hold, answer("planet"), by="mira")
        view = await completed(run)

        assert isinstance(view.messages[0], UserMessage)
