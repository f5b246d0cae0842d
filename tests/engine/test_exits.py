"""Code of an agent that would end the process: it ends its call or its run, and the worker lives.

Method: raise `SystemExit` and `KeyboardInterrupt` wherever somebody else's code is called. Raised
through the event loop either would end this test, too. A second run shows that the worker lives.
"""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from sayso import Context, Failed, Policy, Principal, Rule, tool
from sayso.engine.attempt import Doubt, look_into
from sayso.testing import call, say

from .kit import Place, agent, completed, finished, outcomes, suspended, types

EXITS = [SystemExit(3), KeyboardInterrupt()]


@pytest.fixture(params=EXITS, ids=lambda error: type(error).__name__)
def error(request: Any) -> BaseException:
    return request.param


def leaving(error: BaseException) -> Any:
    def leave(*args: Any) -> Any:
        raise error

    return leave


async def lives(app: Any) -> None:
    run = await app.start("clerk", "go", by="mira")
    assert (await completed(run)).output == "Alive."


CLERK = agent([say("Alive.")], name="clerk")


async def test_a_model_that_exits_fails_its_run(place: Place, error: BaseException) -> None:
    async with place.app(agent(leaving(error)), CLERK) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

        assert view.status == "failed"
        assert f"the model raised {type(error).__name__}" in (view.error or "")
        await lives(app)


async def test_a_validator_of_an_argument_that_exits_refuses_it(
    place: Place, error: BaseException
) -> None:
    def check(n: int) -> int:
        raise error

    @tool
    async def pay(n: Annotated[int, AfterValidator(check)]) -> int:
        return n

    async with place.app(agent([call("pay", {"n": 1}), say("Done.")], pay), CLERK) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

        (outcome,) = [m.outcome for m in view.messages if hasattr(m, "outcome")]
        assert isinstance(outcome, Failed)
        assert outcome.error == "BadArguments"
        await lives(app)


async def test_a_validator_of_the_output_that_exits_is_a_complaint(
    place: Place, error: BaseException
) -> None:
    picky = Annotated[int, AfterValidator(lambda n: leaving(error)() if n == 1 else n)]
    async with place.app(agent([say("1"), say("2")], output=picky), CLERK) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

        assert view.output == 2
        await lives(app)


async def _work() -> str:
    return "worked"


@pytest.mark.parametrize("where", ["freeze", "ask"])
async def test_a_tool_that_exits_before_it_starts_fails_its_run(
    place: Place, error: BaseException, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tool(_work)
    monkeypatch.setattr(work, where, leaving(error))
    async with place.app(agent([call("_work"), say("Done.")], work), CLERK) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

        assert view.status == "failed"
        assert "call.started" not in await types(app, view.id)
        await lives(app)


@pytest.mark.parametrize("effect", ["once", "none"])
@pytest.mark.parametrize("durable", [False, True])
async def test_a_tool_that_is_interrupted_ends_its_call(
    place: Place, effect: str, durable: bool
) -> None:
    @tool(effect=effect, durable=durable)
    async def leave(ctx: Context) -> str:
        raise KeyboardInterrupt

    async with place.app(agent([call("leave"), say("Done.")], leave), CLERK) as app:
        run = await app.start("teller", "go", by="mira")
        if effect == "once" and not durable:
            # It may have been a person at the keyboard, in the middle of the effect.
            (hold,) = (await suspended(run)).holds
            assert hold.kind == "in_doubt"
        else:
            assert outcomes(await completed(run)) == ["Failed"]
        await lives(app)


async def test_a_tool_in_a_thread_that_is_interrupted_ends_its_call(place: Place) -> None:
    @tool(effect="none")
    def leave() -> str:
        raise KeyboardInterrupt

    async with place.app(agent([call("leave"), say("Done.")], leave), CLERK) as app:
        run = await app.start("teller", "go", by="mira")

        assert outcomes(await completed(run)) == ["Failed"]
        await lives(app)


async def test_a_check_that_exits_asks_a_person(place: Place, error: BaseException) -> None:
    async def check(facts: Any) -> bool:
        raise error

    teller = agent([call("_work"), say("Done.")], tool(_work), check_for_intervention=check)
    async with place.app(teller, CLERK) as app:
        (hold,) = (await suspended(await app.start("teller", "go", by="mira"))).holds

        assert "check failed" in hold.why
        await lives(app)


async def test_a_rule_that_is_interrupted_fails_its_run(place: Place) -> None:
    policy = Policy(Rule("_work", when=leaving(KeyboardInterrupt())))
    async with place.app(
        agent([call("_work"), say("Done.")], tool(_work)), CLERK, policy=policy
    ) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

        assert view.status == "failed"
        assert "call.started" not in await types(app, view.id)
        await lives(app)


@pytest.mark.parametrize("where", ["next", "read", "failed"])
async def test_an_agent_that_exits_fails_its_run(
    place: Place, error: BaseException, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller = agent([] if where == "failed" else [say("Done.")])
    monkeypatch.setattr(teller, where, leaving(error))
    async with place.app(teller, CLERK) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

        assert view.status == "failed"
        await lives(app)


async def test_code_that_exits_where_nothing_else_catches_it_fails_its_run(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    teller = agent([call("_work"), say("Done.")], tool(_work))
    monkeypatch.setattr(type(teller), "batch", property(leaving(SystemExit(3))))
    async with place.app(teller) as app:
        view = await finished(await app.start("teller", "go", by="mira"))

        assert view.status == "failed"


async def test_a_probe_that_exits_does_not_know(error: BaseException) -> None:
    async def probe(ctx: Context) -> None:
        raise error

    @tool(effect="once", probe=probe)
    async def pay() -> None: ...

    mira = Principal(id="mira")
    ctx = Context(run_id="r", call_id="c", key="k", attempt=1, by=mira, agent="a", project="p")
    found = await look_into(pay, ctx, b"{}", why="gone")

    assert isinstance(found, Doubt)
    assert "failed with" in found.probe
