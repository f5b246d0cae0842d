"""Canaries: a secret by every way in, looked for in every way out.

Method: each way takes one secret into a run on a file and comes to an end. Then everything that is
kept, shown, sent, logged or raised is searched for it, in every form that it could have there; and
the body must have got it all the same. A way out that is new belongs into `Sinks`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import BaseModel, SecretStr, field_validator

from sayso import (
    Agent,
    Bounds,
    Context,
    Delta,
    Failed,
    Machine,
    Node,
    NotDone,
    Notice,
    Outcome,
    Policy,
    Returned,
    Rule,
    Sayso,
    Secret,
    ToolMessage,
    answer,
    approve,
    fail,
    question,
    reject,
    render_text,
    tool,
)
from sayso.agents.models.history import to_messages
from sayso.cli import main
from sayso.domain.recorded import Recorded
from sayso.engine.ports import Answer, Prompt
from sayso.errors import BadValue, KeyReused, SaysoError
from sayso.testing import ScriptedModel, call, say

from .kit import QUICK, Place, completed, entries, finished, held

CANARY = 'canary "4711" é\\hunter2'
MASKED = "[secret]"
COLD = Bounds(look_s=0.02, stay_hot_s=0)


def forms() -> Iterator[bytes]:
    for text in (
        CANARY,
        json.dumps(CANARY)[1:-1],
        json.dumps(CANARY, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(CANARY))[1:-1],
        json.dumps(json.dumps(CANARY, ensure_ascii=False), ensure_ascii=False)[1:-1],
        repr(CANARY)[1:-1],
        # What any of them would leave of it.
        "hunter2",
        'canary "',
    ):
        yield text.encode()
    for shift in range(3):
        # Of base64 the inside is the same wherever it stands, in one of three ways.
        yield base64.b64encode(b"\0" * shift + CANARY.encode())[4:-8]


class Recorder(ScriptedModel):
    """A scripted model that keeps its prompts, and sends a provider's own copy of its answers."""

    def __init__(self, turns: Any) -> None:
        super().__init__(turns)
        self.prompts: list[str] = []

    async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
        self.prompts += [repr(prompt), repr(to_messages(prompt))]
        found = await super().answer(prompt, emit)
        raw = json.dumps([{"text": found.text, "calls": [one.args for one in found.calls]}])
        return Answer(text=found.text, calls=found.calls, raw=raw.encode(), usage=found.usage)


class Sinks:
    """Everything that anybody can get to see."""

    def __init__(self, place: Place, model: Recorder, caplog: pytest.LogCaptureFixture) -> None:
        self.place = place
        self.model = model
        self.caplog = caplog
        self.got: list[Any] = []
        """What bodies were given."""
        self._seen: list[tuple[str, bytes]] = []

    def see(self, where: str, what: object) -> None:
        data = what if isinstance(what, bytes) else str(what).encode("utf-8", "replace")
        self._seen.append((where, data))

    def see_error(self, error: BaseException) -> None:
        self.see("error", repr(error) + str(error))
        self.see("traceback", "".join(traceback.format_exception(error)))
        chain: BaseException | None = error
        while chain is not None:
            self.see("chain", repr(chain) + str(chain))
            chain = chain.__cause__ or chain.__context__

    async def look(self, app: Sayso) -> None:
        """Look at all runs of a store, and at its files."""
        ids = {entry.run_id for entry in await entries(app.store)}
        for run_id in ids:
            run = app.run(run_id)
            view = await run.view()
            self.see("view", repr(view) + repr(view.messages) + repr(view.holds))
            async for one in app.events(run_id):
                self.see("event", repr(one))
                if view.status not in ("completed", "failed") and _seq(one) == view.seq:
                    break
            self.see("export", json.dumps(await app.export(run_id, by="mira")))
            self.see("row", repr(await app.store.load(run_id)))
        for hold in await app.holds(status="any", limit=500):
            self.see("hold", repr(hold) + repr(hold.args) + hold.args_json + repr(hold.shown))
            self.see("rendering", render_text(hold.shown, full=True))
            if hold.kind == "in_doubt":
                self.see("doubt", repr(await app.doubt(hold)))
            # Somebody without rights tries what they know, and is written down.
            edit = approve(args={"user": "mira", "password": CANARY})
            with pytest.raises(SaysoError) as refused:
                await app.decide(hold, edit, by="mallory", key="k3")
            self.see_error(refused.value)
        await app.notices.deliver()
        async for line in app.audit.export():
            self.see("evidence", repr(line))
        for note in await app.audit.refused():
            self.see("door", repr(note))
        self.see("doctor", repr(await app.doctor()))
        for entry in await entries(app.store):
            self.see("entry", bytes(entry.payload))
        for key in ("k", "k2"):
            self.see("key", repr(await app.store.key("default", key)))
        self.look_at_files()

    def look_at_files(self) -> None:
        found = [path for path in self.place.path.parent.rglob("*") if path.is_file()]
        assert found
        for path in found:
            self.see(f"file {path.name}", path.read_bytes())

    async def look_from_outside(self) -> None:
        """Look at what is left once everything is closed, and at what the command line prints."""
        self.look_at_files()
        listed = await self._cli("show", str(self.place.path), "--json")
        for line in listed.splitlines():
            run_id = json.loads(line)["id"]
            for more in ((), ("--full",), ("--json",)):
                self.see("show", await self._cli("show", str(self.place.path), run_id, *more))
        for words in (("export", "--format", "csv"), ("refused",)):
            self.see("audit", await self._cli("audit", words[0], str(self.place.path), *words[1:]))
        for prompt in self.model.prompts:
            self.see("prompt", prompt)
        formatter = logging.Formatter()
        for record in self.caplog.records:
            self.see("log", formatter.format(record) + repr(record.args))

    async def _cli(self, *args: str) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, main, args)
        assert result.exit_code == 0, result.output
        return result.output

    def check(self) -> None:
        kinds = {where.partition(" ")[0] for where, _ in self._seen}
        assert kinds >= {"view", "event", "export", "entry", "file", "show"}
        for where, data in self._seen:
            for form in forms():
                assert form not in data, f"{form!r} is in {where}: {data[:2000]!r}"


def _seq(one: Recorded | Delta) -> int:
    return one.seq if isinstance(one, Recorded) else 0


Way = Callable[[Sayso, Sinks], Awaitable[None]]
WAYS: dict[str, tuple[Callable[[Sinks], Any], list[Any], Way]] = {}


def way(tools: Callable[[Sinks], Any], *turns: Any) -> Callable[[Way], Way]:
    def add(fn: Way) -> Way:
        WAYS[fn.__name__] = (tools, [*turns, say("Done.")], fn)
        return fn

    return add


class Login(BaseModel):
    user: str
    password: SecretStr
    more: list[Secret] = []

    @field_validator("user")
    @classmethod
    def known(cls, user: str) -> str:
        if user != "mira":
            raise ValueError(f"nobody is called {user}")
        return user


def held_log_in(sinks: Sinks) -> Any:
    @tool(approval=True)
    async def log_in(user: str, password: Secret) -> str:
        sinks.got.append(password.reveal())
        return f"{user} is in with {password}"

    return log_in


def free_log_in(sinks: Sinks) -> Any:
    @tool
    def log_in(user: str, password: SecretStr) -> str:
        sinks.got.append(password.get_secret_value())
        return f"{user} is in with {password}"

    return log_in


def nested(sinks: Sinks) -> Any:
    @tool(approval=True)
    def log_in(login: Login, keys: list[Secret], by_name: dict[str, Secret]) -> str:
        sinks.got += [login.password.get_secret_value(), *(one.reveal() for one in login.more)]
        sinks.got += [one.reveal() for one in [*keys, *by_name.values()]]
        return f"in: {login!r} {keys} {by_name}"

    return log_in


ARGS = {"user": "mira", "password": CANARY}


async def outcome_of(run: Any) -> Outcome:
    messages = [one for one in (await finished(run)).messages if isinstance(one, ToolMessage)]
    return messages[-1].outcome


@way(held_log_in, call("log_in", ARGS))
async def by_a_model(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    hold = await held(run)
    await sinks.look(app)
    sinks.see("decided", await app.decide(hold, approve(), by="mira"))
    assert isinstance(await outcome_of(run), Returned)


@way(free_log_in, [say(f"With {CANARY}, then. "), call("log_in", ARGS)])
async def by_a_model_that_says_it_as_well(app: Sayso, sinks: Sinks) -> None:
    view = await completed(await app.start("teller", "go", by="mira"))
    assert view.messages[1].text == f"With {MASKED}, then. "
    assert view.messages[1].raw is None


@way(
    nested,
    call(
        "log_in",
        {
            "login": {"user": "mira", "password": CANARY, "more": [CANARY, CANARY]},
            "keys": [CANARY],
            "by_name": {"a": CANARY},
        },
    ),
)
async def nested_in_models_and_lists(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    await sinks.look(app)
    await app.decide(await held(run), approve(), by="mira")
    assert isinstance(await outcome_of(run), Returned)


@way(held_log_in, call("log_in", {"user": "mira", "password": "something else"}))
async def by_an_edit(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    hold = await held(run)
    for wrong in (
        {**ARGS, "user": 5},
        {**ARGS, CANARY: CANARY},
        {"user": {"$sealed": "0" * 16}, "password": CANARY},
        {"user": hold.args["password"], "password": CANARY},
        {"user": CANARY, "password": {"$secret": CANARY}},
    ):
        with pytest.raises(BadValue) as refused:
            await app.decide(hold, approve(args=wrong), by="mira", key="k")
        sinks.see_error(refused.value)
    sinks.see("decided", await app.decide(hold, approve(args=ARGS), by="mira", key="k"))
    sinks.see("decided", await app.decide(hold, approve(args=ARGS), by="mira", key="k"))
    with pytest.raises(KeyReused) as reused:
        await app.decide(hold, approve(args={**ARGS, "user": "x"}), by="mira", key="k")
    sinks.see_error(reused.value)
    assert isinstance(await outcome_of(run), Returned)


@way(held_log_in)
async def by_the_gate(app: Sayso, sinks: Sinks) -> None:
    asked = [
        asyncio.create_task(app.gate("log_in", ARGS, by="mira", key=key)) for key in ("k", "k")
    ]
    while not (holds := list(await app.holds())):
        await asyncio.sleep(0.002)
    await sinks.look(app)
    (hold,) = holds
    await app.decide(hold, approve(), by="mira")
    assert {type(one) for one in await asyncio.gather(*asked)} == {Returned}
    with pytest.raises(KeyReused) as reused:
        await app.gate("log_in", {**ARGS, "user": "x"}, by="mira", key="k")
    sinks.see_error(reused.value)
    for wrong in ({**ARGS, "user": 5}, {"user": CANARY}, {**ARGS, CANARY: 1}):
        failed = await app.gate("log_in", wrong, by="mira")
        assert isinstance(failed, Failed)
        assert failed.error == "BadArguments"


@way(held_log_in, call("wait"))
async def by_a_command(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    waiting = await held(run)
    for key in ("k", "k"):
        asked = await app.command(run, "log_in", ARGS, by="mira", key=key)
        sinks.see("command", repr(asked))
    with pytest.raises(KeyReused) as reused:
        await app.command(run, "log_in", {**ARGS, "user": "x"}, by="mira", key="k")
    sinks.see_error(reused.value)
    wrong = await app.command(run, "log_in", {"user": 5, CANARY: CANARY}, by="mira", key="k2")
    assert isinstance(wrong.outcome, Failed)
    sinks.see("command", repr(wrong))
    await app.decide(asked.holds[0], approve(), by="mira")
    while not sinks.got:
        await asyncio.sleep(0.002)
    await app.decide(waiting, reject("no"), by="mira")
    await completed(run)


BROKEN = json.dumps(ARGS)[:-1]


@way(
    nested,
    [
        call("log_in", BROKEN),
        call("log_in", {"login": {"user": CANARY, "password": CANARY}, "keys": CANARY}),
        call("log_in", {"login": {"user": "mira", "password": [CANARY]}, CANARY: CANARY}),
        call("log_in", {"login": CANARY, "keys": [], "by_name": {CANARY: [CANARY]}}),
        call("log_in", json.dumps(CANARY)),
        call("log_in", {"login": {"$sealed": CANARY}, "keys": [{"$secret": CANARY}]}),
        say(f"I tried {CANARY}."),
    ],
    call(
        "log_in",
        {"login": {"user": "mira", "password": CANARY}, "keys": [], "by_name": {}},
    ),
)
async def in_arguments_that_do_not_fit(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    view = await run.wait(held=True)
    failed = [one.outcome for one in view.messages if isinstance(one, ToolMessage)]
    assert {one.error for one in failed} == {"BadArguments"}  # type: ignore[union-attr]
    assert len(failed) == 6
    await app.decide(await held(run), approve(), by="mira")
    await completed(run)


def clumsy(sinks: Sinks) -> Any:
    @tool(effect="none")
    def log_in(user: str, password: Secret) -> Any:
        plain = password.reveal()
        sinks.got.append(plain)
        if user == "returns":
            return {plain: [f"it is {plain}", json.dumps(plain), base64_of(plain)]}
        if user == "not done":
            raise NotDone(f"not with {plain}")
        try:
            raise ValueError(f"inside: {plain!r}")
        except ValueError as error:
            raise RuntimeError("x" * 1990 + f" {plain} or {plain!r}") from error

    return log_in


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@way(
    clumsy,
    [call("log_in", {**ARGS, "user": "raises"}), call("log_in", {**ARGS, "user": "returns"})],
    call("log_in", {**ARGS, "user": "not done"}),
)
async def in_what_a_body_raises_and_returns(app: Sayso, sinks: Sinks) -> None:
    view = await completed(await app.start("teller", "go", by="mira"))
    raised, returned, not_done = [one.outcome for one in view.messages if _is_tool(one)]
    assert isinstance(raised, Failed)
    assert raised.error == "RuntimeError"
    assert raised.message.startswith("x" * 1990)
    assert isinstance(returned, Returned)
    assert set(returned.result()) == {MASKED}
    assert isinstance(not_done, Failed)
    assert not_done.error == "NotDone"


def _is_tool(message: Any) -> bool:
    return isinstance(message, ToolMessage)


def lossy(sinks: Sinks) -> Any:
    @tool(effect="once")
    async def log_in(user: str, password: Secret) -> Any:
        sinks.got.append(password.reveal())
        raise ConnectionResetError(f"the line went dead with {password.reveal()}")

    return log_in


@way(lossy, call("log_in", ARGS))
async def in_a_doubt(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    hold = await held(run)
    assert MASKED in hold.doubt
    await sinks.look(app)
    await app.decide(hold, fail("who knows"), by="mira")
    await completed(run)


def durable(sinks: Sinks) -> Any:
    def take(user: str, password: Any) -> Any:
        plain = password if isinstance(password, str) else password.reveal()
        sinks.got.append(plain)
        if user == "raises":
            raise RuntimeError(f"no {plain}")
        return {"with": plain}

    @tool(durable=True)
    async def log_in(ctx: Context, user: str, password: Secret) -> Any:
        first = await ctx.step("first", take, user, password)
        assert first == {"with": CANARY}  # Sealed in the journal, and not lost on the body.
        again = await ctx.ask(question("Password?", sensitive=True))
        sinks.got.append(again)
        await ctx.step("second", take, user, password.reveal())
        await ctx.ask(f"And then? {again}", title=f"After {again}", why=f"For {again}")
        with pytest.raises(BadValue, match="metadata"):
            await ctx.external("Wait", {again: [again]})
        with pytest.raises(BadValue, match="another agent"):
            await ctx.spawn("teller", f"Use {again}")
        await ctx.external(f"Wait for {again}", {"n": 1})
        try:
            await ctx.step("third", take, "raises", again)
        except Exception as error:
            raise RuntimeError(f"{error} and {again}") from error

    return log_in


def asking(sinks: Sinks) -> Any:
    @tool(effect="none")
    def log_in(ctx: Context, user: str, password: Secret) -> Any:
        sinks.got.append(password.reveal())
        return ctx.suspend(f"Is {password.reveal()} right?")

    return log_in


@way(asking, call("log_in", ARGS))
async def in_what_a_body_asks(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    hold = await held(run)
    assert hold.question is not None
    assert hold.question.text == f"Is {MASKED} right?"
    await app.decide(hold, answer("yes"), by="mira")
    await completed(run)


def giving_up(sinks: Sinks) -> Any:
    @tool(durable=True)
    async def log_in(ctx: Context, user: str, password: Secret) -> Any:
        sinks.got.append(password.reveal())
        if ctx.attempt > 1:
            await ctx.step("first", len, user)
        raise NotDone(f"nothing done with {password.reveal()}")

    return log_in


@way(giving_up, call("log_in", ARGS))
async def in_what_a_durable_body_has_not_done(app: Sayso, sinks: Sinks) -> None:
    found = await outcome_of(await app.start("teller", "go", by="mira"))
    assert isinstance(found, Failed)
    assert (found.error, found.message) == ("NotDone", f"nothing done with {MASKED}")


def returning(sinks: Sinks) -> Any:
    @tool(durable=True)
    async def log_in(ctx: Context, user: str, password: Secret) -> Any:
        plain = password.reveal()
        sinks.got.append(plain)
        return {plain: f"it is {plain}"}

    return log_in


@way(returning, call("log_in", ARGS))
async def in_what_a_durable_body_returns(app: Sayso, sinks: Sinks) -> None:
    found = await outcome_of(await app.start("teller", "go", by="mira"))
    assert isinstance(found, Returned)
    assert found.result() == {MASKED: f"it is {MASKED}"}


@way(durable, call("log_in", ARGS))
async def in_a_durable_body(app: Sayso, sinks: Sinks) -> None:
    run = await app.start("teller", "go", by="mira")
    hold = await held(run)
    sinks.see("decided", await app.decide(hold, answer(CANARY), by="mira", key="k"))
    hold = await held(run)
    assert (hold.title, hold.why) == (f"After {MASKED}", f"For {MASKED}")
    await app.decide(hold, answer("go on"), by="mira")
    hold = await held(run)
    assert hold.title == f"Wait for {MASKED}"
    await app.decide(hold, answer("go on"), by="mira")
    found = await outcome_of(run)
    assert isinstance(found, Failed)
    assert found.message.endswith(f"and {MASKED}")


@pytest.mark.parametrize("bounds", [QUICK, COLD], ids=["hot", "parked"])
@pytest.mark.parametrize("name", WAYS)
async def test_a_secret_is_in_no_way_out(
    name: str, bounds: Bounds, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make, turns, walk = WAYS[name]
    place = Place("sqlite", tmp_path)
    sinks = Sinks(place, Recorder(turns), caplog)
    made = make(sinks)

    @tool(approval=True)
    def wait() -> None: ...

    teller = Agent("teller", model=sinks.model, tools=[made, wait], commands=[made])
    seen: list[str] = []
    policy = Policy(Rule("log_in", when=lambda facts: bool(seen.append(repr(facts.args)))))

    def notify(notice: Notice) -> None:
        sinks.see("notice", repr(notice) + repr(notice.hold.shown))
        raise ValueError(repr(notice))

    async with place.app(teller, bounds=bounds, policy=policy, notify=notify) as app:
        await walk(app, sinks)
        await sinks.look(app)
    await sinks.look_from_outside()
    for facts in seen:
        sinks.see("policy", facts)

    assert set(sinks.got) == {CANARY}
    sinks.check()


async def test_a_secret_of_a_machine_is_in_no_way_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    place = Place("sqlite", tmp_path)
    sinks = Sinks(place, Recorder([call("log_in", ARGS), call("wait"), say("Done.")]), caplog)

    @tool(approval=True)
    def wait() -> None: ...

    node = Node("start", tools=[free_log_in(sinks), wait], commands=[tool(name="again")(_again)])
    desk = Machine("desk", model=sinks.model, root="start", nodes=[node])
    async with place.app(desk) as app:
        run = await app.start("desk", "go", by="mira")
        hold = await held(run)
        done = await app.command(run, "again", {"password": CANARY}, by="mira", key="k")
        assert isinstance(done.outcome, Returned)
        assert done.outcome.result() == MASKED
        await app.decide(hold, reject("no"), by="mira")
        await completed(run)
        await sinks.look(app)
    await sinks.look_from_outside()

    assert sinks.got == [CANARY]
    sinks.check()


def _again(password: Secret) -> str:
    return password.reveal()
