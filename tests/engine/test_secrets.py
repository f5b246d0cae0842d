"""Secret arguments: sealed for their run, shown as marks, opened for the body alone."""

from __future__ import annotations

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pydantic import SecretStr

from sayso import (
    Agent,
    Always,
    AssistantMessage,
    Context,
    Declined,
    Failed,
    Happened,
    Policy,
    Principal,
    Returned,
    Rule,
    Sayso,
    Secret,
    ToolMessage,
    answer,
    approve,
    fail,
    reject,
    render_text,
    tool,
)
from sayso.domain import codec
from sayso.domain import events as e
from sayso.domain.digest import call_digest, decode_value, encode_value, request_digest
from sayso.domain.secret import NOT_KEPT, Veil, mask, tokens
from sayso.engine.attempt import look_into
from sayso.engine.ports import Answer
from sayso.engine.vault import Vault
from sayso.errors import BadKeys, BadValue, KeyReused, NotAllowed
from sayso.store.keyring import VARIABLE, KeyRing, new_key
from sayso.testing import ScriptedModel, call, say

from .kit import Delegate, Place, agent, completed, held, journal, outcomes, suspended, types, until

ARGS = {"user": "mira", "password": "hunter2"}


LIKE = {"$sealed": "k1.c2VhbGVk"}
PIN, KEY = SecretStr("0000"), Secret("1111")


class Door:
    """A tool that takes a secret, and remembers what it was given."""

    def __init__(self, **options: Any) -> None:
        self.got: list[tuple[str, ...]] = []

        async def log_in(user: str, password: Secret, keys: list[Secret] = []) -> str:  # noqa: B006
            self.got.append((password.reveal(), *(key.reveal() for key in keys)))
            return f"{user} is in"

        self.tool = tool(**{"approval": True, **options})(log_in)


async def sealed_args(app: Sayso, run: Any) -> list[bytes]:
    """Give what the journal has of each call's arguments."""
    events = [one.event for one in await journal(app.store, run.id)]
    taken = [one for one in events if isinstance(one, e.TurnTaken)]
    return [bytes(one.args) for turn in taken for one in turn.calls]


async def test_a_body_is_given_the_secret_and_the_journal_is_not(place: Place):
    door = Door()
    async with place.app(agent([call("log_in", ARGS), say("In.")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        (args,) = await sealed_args(app, run)

        assert hold.args == mask(decode_value(args))
        assert hold.args_json == encode_value(hold.args).decode()
        assert hold.args["user"] == "mira"
        (mark,) = hold.args["password"].values()
        assert f"  password: [secret {mark}]" in render_text(hold.shown).splitlines()
        # What is decided on is what is kept.
        assert hold.digest == call_digest(
            project="default",
            run=run.id,
            version=1,
            tool="log_in",
            tool_version="1",
            args=args,
        )
        await app.decide(hold, approve(), by="mira")
        view = await completed(run)

        (said,) = [one for one in view.messages if isinstance(one, AssistantMessage) and one.calls]
        assert decode_value(bytes(said.calls[0].args)) == hold.args
    assert door.got == [("hunter2",)]


async def test_a_secret_with_a_type_of_pydantic_is_handed_over_as_that(place: Place):
    got: list[Any] = []

    @tool
    def log_in(password: SecretStr, pin: SecretStr = PIN, key: Secret = KEY) -> None:
        got.append((password.get_secret_value(), pin.get_secret_value(), key.reveal()))

    assert "default" not in repr(log_in.spec())
    async with place.app(agent([call("log_in", {"password": "x"}), say("")], log_in)) as app:
        await completed(await app.start("teller", "go", by="mira"))

    assert got == [("x", "0000", "1111")]


async def test_the_same_call_is_known_again_in_its_run_and_in_no_other(place: Place):
    door = Door(asks_max=1)
    again = [call("log_in", ARGS), call("log_in", ARGS), say("")]
    async with place.app(agent(again, door.tool)) as app:
        runs = [await app.start("teller", "go", by="mira") for _ in range(2)]
        for run in runs:
            await app.decide(await held(run), reject("no"), by="mira")
        views = [await completed(run) for run in runs]
        args = [await sealed_args(app, run) for run in runs]

    for view in views:
        outcome = view.messages[-2].outcome  # type: ignore[union-attr]
        assert isinstance(outcome, Declined)
        assert outcome.reason == "this very call was refused before in this run"
    assert args[0][0] == args[0][1] != args[1][0] == args[1][1]
    assert door.got == []


async def test_the_length_of_a_secret_is_not_to_be_seen(place: Place):
    door = Door()
    turn = [call("log_in", {**ARGS, "password": "x" * n}) for n in (0, 1, 40)]
    async with place.app(agent([turn, say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        await suspended(run)
        sealed = await sealed_args(app, run)

    assert len({len(one) for one in sealed}) == 1
    assert len(set(sealed)) == 3


# What only looks like one


@pytest.mark.parametrize(
    "note",
    [
        '{"$sealed": "k1.c2VhbGVk"}',
        '{"$sealed": "0123456789abcdef"}',
        '{"\\u0024sealed": "k1.c2VhbGVk"}',
        '[{"deep": {"$secret": "x"}}]',
    ],
)
@pytest.mark.parametrize("name", ["log_in", "note"])
async def test_an_argument_that_looks_sealed_is_refused(place: Place, name: str, note: str):
    door = Door(approval=False)
    got: list[Any] = []

    @tool(name="note")
    def take(text: Any) -> None:
        got.append(text)

    args = {
        "log_in": f'{{"user": "mira", "password": {note}}}',
        "note": f'{{"text": {note}}}',
    }[name]
    async with place.app(agent([call(name, args), say("")], door.tool, take)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    outcome = view.messages[-2].outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Failed)
    assert outcome.error == "BadArguments"
    assert "only Sayso writes" in outcome.message
    assert door.got == got == []


async def test_what_is_no_secret_cannot_be_hidden_as_one(place: Place):
    got: list[Any] = []

    @tool
    def log_in(password: Secret, note: Any) -> None:
        got.append(note)

    # Where anything may be said, it would be shown to nobody.
    hidden = {"password": "hunter2", "note": {"$secret": "pay eve"}}
    async with place.app(agent([call("log_in", hidden), say("")], log_in)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    outcome = view.messages[-2].outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Failed)
    assert "only Sayso writes" in outcome.message
    assert got == []


@pytest.mark.parametrize("kind", [str, Secret])
async def test_a_default_that_looks_sealed_is_refused_as_well(place: Place, kind: Any):
    got: list[Any] = []

    def log_in(password: Any, more: Any = LIKE) -> None:
        got.append((password, more))

    log_in.__annotations__["password"] = kind
    made = agent([call("log_in", {"password": "hunter2"}), say("")], tool(log_in))
    async with place.app(made) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    outcome = view.messages[-2].outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Failed)
    assert outcome.error == "BadArguments"
    assert got == []


async def test_a_token_of_this_very_run_is_refused_as_well(place: Place):
    door = Door(approval=False)
    stolen: list[str] = []

    def turn(messages: Any) -> Any:
        at = sum(isinstance(message, AssistantMessage) for message in messages)
        if at == 0:
            return call("log_in", ARGS)
        return (
            call("log_in", {"user": {"$sealed": stolen[0]}, "password": "x"})
            if at == 1
            else say("")
        )

    async with place.app(agent(turn, door.tool)) as app:
        vault = app._open_parts.vault
        original = vault.seal_secret

        def seal(scope: str, data: bytes) -> str:
            stolen.append(original(scope, data))
            return stolen[-1]

        vault.seal_secret = seal  # type: ignore[method-assign]
        view = await completed(await app.start("teller", "go", by="mira"))

    assert outcomes(view) == ["Returned", "Failed"]
    assert door.got == [("hunter2",)]


async def test_what_does_not_fit_is_not_kept(place: Place):
    door = Door()
    wrong = call("log_in", {"user": 5, "password": "hunter2", "hunter3": 1})
    async with place.app(agent([wrong, say("")], door.tool)) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    (said,) = [one for one in view.messages if isinstance(one, AssistantMessage) and one.calls]
    (told,) = [one for one in view.messages if isinstance(one, ToolMessage)]
    assert said.calls[0].text == NOT_KEPT
    assert isinstance(told.outcome, Failed)
    assert told.outcome.message == (
        "the arguments of 'log_in' do not fit: user: Input should be a valid string; "
        "there is an argument that it does not know"
    )


# Editing


KEYS = {**ARGS, "keys": ["first", "second"]}


async def test_a_mark_that_is_sent_back_leaves_its_secret_as_it_is(place: Place):
    door = Door()
    async with place.app(agent([call("log_in", KEYS), say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        first, second = hold.args["keys"]
        assert first != second

        edited = {**hold.args, "user": "jiro", "keys": [second, "third"]}
        shown = await app.decide(hold, approve(args=edited), by="mira")
        view = await completed(run)

    assert door.got == [("hunter2", "second", "third")]
    assert shown.args["password"] == hold.args["password"]
    assert shown.args["keys"][0] == second
    assert "third" not in repr(shown) + repr(view)
    (told,) = [one for one in view.messages if isinstance(one, ToolMessage)]
    assert told.note == f"A person edited the arguments to {shown.args_json}"


@pytest.mark.parametrize(
    "edit",
    [
        lambda args: {**args, "user": args["password"]},
        lambda args: {**args, "password": {"$sealed": "0" * 16}},
        lambda args: {**args, "password": {"$secret": "x"}},
        lambda args: {**args, "password": [args["password"]]},
    ],
    ids=["moved", "unknown", "open", "wrapped"],
)
async def test_an_edit_cannot_bring_a_secret_to_light(place: Place, edit: Any):
    door = Door()
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)

        with pytest.raises(BadValue) as refused:
            await app.decide(hold, approve(args=edit(hold.args)), by="mira")

        assert "hunter2" not in str(refused.value)
        assert (await held(run)).version == 1


async def test_an_edit_is_ruled_on_without_its_secrets(place: Place):
    door = Door()
    seen: list[Any] = []
    policy = Policy(Rule("log_in", when=lambda facts: bool(seen.append(facts.args))))
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool), policy=policy) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(args={**hold.args, "password": "other"}), by="mira")
        await completed(run)

    assert hold.args in seen
    assert all(set(one["password"]) == {"$sealed"} for one in seen)
    assert len({json.dumps(one) for one in seen}) == 2
    assert door.got == [("other",)]


async def test_whoever_cannot_open_a_secret_cannot_edit_beside_it(
    file_place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, new_key())
    door = Door()
    async with file_place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    monkeypatch.setenv(VARIABLE, new_key())
    async with file_place.app(agent([], door.tool), work=False) as app:
        with pytest.raises(BadKeys):
            await app.decide(hold, approve(args={**hold.args, "user": "jiro"}), by="mira")

        assert (await app.hold(hold.id)).status == "open"


async def test_no_grant_keeps_a_secret(place: Place):
    door = Door()
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

        with pytest.raises(NotAllowed, match="with secrets among its arguments"):
            await app.decide(hold, approve(), by="mira", always=Always(args="any"))

        assert (await app.hold(hold.id)).status == "open"
        assert not await app.grants.list()


# Keys of requests


async def test_no_idempotency_key_tells_a_secret(place: Place):
    door = Door()
    teller = Agent(
        "teller",
        model=ScriptedModel([call("log_in", ARGS), say("")]),
        tools=[door.tool],
        commands=[door.tool],
    )
    async with place.app(teller) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        edit = approve(args={**ARGS, "password": "1234"})
        await app.command(run, "log_in", {**ARGS, "password": "1234"}, by="mira", key="command")
        await app.decide(hold, edit, by="mira", key="decide")
        gated = asyncio.create_task(app.gate("log_in", ARGS, by="mira", key="gate"))
        await until(lambda: app.store.key("default", "gate"))
        kept = [repr(await app.store.key("default", key)) for key in ("command", "decide", "gate")]
        gated.cancel()

    guesses = [
        request_digest(
            "command", run.id, "log_in", "mira", encode_value({**ARGS, "password": "1234"}), ""
        ),
        request_digest("decide", hold.id, "mira", hold.digest, codec.encode_verdict(edit)),
    ]
    assert not any(guess in one for guess in guesses for one in kept)


async def test_a_retried_edit_is_known_by_its_key(place: Place):
    door = Door()
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        for _ in range(2):
            await app.decide(hold, approve(args={**ARGS, "user": "jiro"}), by="mira", key="k")
        with pytest.raises(KeyReused):
            await app.decide(hold, approve(args=ARGS), by="mira", key="k")
        await completed(run)

    assert door.got == [("hunter2",)]


# Doubts


async def test_a_call_in_doubt_is_not_repeated_unasked_with_another_secret(place: Place):
    got: list[str] = []

    @tool(effect="once")
    async def log_in(user: str, password: Secret) -> None:
        got.append(password.reveal())
        raise ConnectionResetError("gone")

    other = {**ARGS, "password": "another"}
    script = [call("log_in", ARGS), say("?"), call("log_in", other), say("")]
    async with place.app(agent(script, log_in)) as app:
        run = await app.start("teller", "go", by="mira")
        doubt = await held(run)
        await app.decide(doubt, fail("who knows"), by="mira")
        await completed(run)
        later = await app.say(run, "again", by="mira")

        hold = await held(later)
        assert (hold.kind, hold.duplicate_of) == ("approval", doubt.call_id)

    assert got == ["hunter2"]


# Keys


def vault(*names: str) -> Vault:
    return Vault(lambda: KeyRing({name: name.encode() * 32 for name in names}))


FROZEN = encode_value({"password": {"$secret": "hunter2"}})


def test_a_secret_opens_for_its_run_and_tool_only():
    sealed = vault("a").seal_args("run_1", "log_in", FROZEN)
    (token,) = tokens(sealed)
    body = token.partition(".")[2]
    changed = sealed.replace(
        body.encode(), (body[:-2] + ("AA" if body[-2:] != "AA" else "BB")).encode()
    )
    empty = sealed.replace(body.encode(), b"AA")

    assert vault("b", "a").open_args("run_1", "log_in", sealed) == FROZEN
    assert vault("a").seal_args("run_1", "log_in", FROZEN) == sealed
    for opener, run, name, data in [
        (vault("a"), "run_2", "log_in", sealed),
        (vault("a"), "run_1", "pay", sealed),
        (vault("a"), "run_1", "log_in", changed),
        (vault("a"), "run_1", "log_in", empty),
        (vault("b"), "run_1", "log_in", sealed),
    ]:
        with pytest.raises(BadKeys) as found:
            opener.open_args(run, name, data)
        assert "hunter2" not in str(found.value)
        # What no key opens is not waited for.
        assert opener.opens_args(run, name, data) is (opener.keys().can_open(token))


class Forger(Delegate):
    """A store in which somebody has put a secret of one run into another one."""

    forged: tuple[bytes, bytes] = (b"", b"")

    async def journal(self, *args: Any, **options: Any) -> Any:
        entries = await self.inner.journal(*args, **options)
        return [replace(one, payload=one.payload.replace(*self.forged)) for one in entries]


async def test_a_token_of_another_run_in_the_journal_is_not_opened(place: Place):
    door = Door()
    made = agent([call("log_in", ARGS), say("")], door.tool)
    async with place.app(made) as app:
        one, other = [await app.start("teller", "go", by="mira") for _ in range(2)]
        hold = await held(one)
        await held(other)
        found = [tokens((await sealed_args(app, run))[0])[0].encode() for run in (one, other)]
        Forger.forged = (found[0], found[1])
    async with place.app(made, wrap=Forger) as app:
        await app.decide(hold, approve(), by="mira")

        view = await app.run(one.id).wait(final=True, timeout=20)
        assert view.status == "failed"
        assert "not what was decided on" in (view.error or "")
    assert door.got == []


async def test_a_secret_that_nobody_can_open_is_given_up(place: Place):
    # With the digest forged as well, only the secret itself tells.
    door = Door(approval=False)
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        app._open_parts.vault._ring = Flaky(at=2, lasts=100)
        view = await completed(await app.start("teller", "go", by="mira"))

    outcome = view.messages[-2].outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Failed)
    assert outcome.error == "NotDone"
    assert door.got == []


@pytest.mark.parametrize("durable", [False, True])
async def test_a_worker_without_the_key_leaves_the_call_to_one_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, durable: bool
):
    key = new_key()
    monkeypatch.setenv(VARIABLE, key)
    place = Place("sqlite", tmp_path)
    door = Door(durable=durable)
    made = agent([call("log_in", ARGS), say("")], door.tool)
    async with place.app(made) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    monkeypatch.setenv(VARIABLE, new_key())
    async with place.app(made) as app:
        await app.decide(hold, approve(), by="mira")
        await until(lambda: "waits for a worker with the key" in caplog.text)
        assert (await types(app, run))[-1] == "run.resumed"
    assert door.got == []

    monkeypatch.setenv(VARIABLE, f"{new_key()},{key}")
    async with place.app(made) as app:
        await completed(app.run(run.id))
        assert (await types(app, run)).count("call.started") == 1
    assert door.got == [("hunter2",)]
    assert caplog.text.count("waits for a worker with the key") == 1


class Flaky(KeyRing):
    """A key ring that cannot open anything for a while, from when a body is about to be called."""

    def __init__(self, at: int, lasts: int = 1) -> None:
        super().__init__({"a": bytes(32)})
        self.left, self.lasts = at, lasts

    def unseal(self, purpose: str, token: str, aad: bytes = b"") -> bytes:
        self.left -= 1
        if -self.lasts < self.left <= 0:
            raise BadKeys("gone")
        return super().unseal(purpose, token, aad)


@pytest.mark.parametrize("durable", [False, True])
async def test_a_call_whose_arguments_do_not_open_is_not_sent_and_not_in_doubt(
    place: Place, durable: bool
):
    door = Door(durable=durable, approval=False)
    async with place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        # The turn itself opens it once, to keep it out of what the model says.
        app._open_parts.vault._ring = Flaky(at=2)
        run = await app.start("teller", "go", by="mira")
        view = await completed(run)
        found = await types(app, run)

    assert outcomes(view) == ["Returned"]
    assert found.count("call.started") == 2
    assert "attempt.voided" in found
    assert not any("doubt" in one for one in found)
    assert door.got == [("hunter2",)]


async def test_without_keys_a_call_with_a_secret_is_not_made(
    file_place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, "broken")
    door = Door(approval=False)
    async with file_place.app(agent([call("log_in", ARGS), say("")], door.tool)) as app:
        run = await app.start("teller", "go", by="mira")
        view = await completed(run)
        (args,) = await sealed_args(app, run)

    outcome = view.messages[-2].outcome  # type: ignore[union-attr]
    assert isinstance(outcome, Failed)
    assert outcome.error == "BadKeys"
    assert args == b"{}"
    assert door.got == []


async def test_a_gated_call_waits_for_a_worker_with_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr("sayso.agents.single.LOOK_S", 0.01)
    key = new_key()
    monkeypatch.setenv(VARIABLE, key)
    place = Place("sqlite", tmp_path)
    door = Door(approval=False)
    async with place.app(tools=[door.tool], work=False) as app:
        asked = asyncio.create_task(app.gate("log_in", ARGS, by="mira", key="k"))
        await until(lambda: app.store.key("default", "k"))
        monkeypatch.setenv(VARIABLE, new_key())
        async with place.app(tools=[door.tool]):
            await until(lambda: "waits for a worker with the key" in caplog.text)
        assert door.got == []
        monkeypatch.setenv(VARIABLE, key)
        async with place.app(tools=[door.tool]):
            assert isinstance(await asked, Returned)
    assert door.got == [("hunter2",)]


async def test_a_secret_goes_along_with_an_exported_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(VARIABLE, new_key())
    door = Door()
    home, away = Place("sqlite", tmp_path / "home"), Place("sqlite", tmp_path / "away")
    made = agent([call("log_in", ARGS), say("")], door.tool)
    async with home.app(made) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        data = await app.export(run.id, by="mira")
    async with away.app(made) as app:
        moved = await app.adopt(data, by="mira")
        await app.decide(await held(moved), approve(), by="mira")
        await completed(moved)

    assert door.got == [("hunter2",)]


# What a provider and a body say


class Provider(ScriptedModel):
    async def answer(self, prompt: Any, emit: Any) -> Answer:
        found = await super().answer(prompt, emit)
        return Answer(text=found.text, calls=found.calls, raw=b'{"theirs": true}')


async def test_only_a_turn_with_a_secret_loses_the_copy_of_its_provider(place: Place):
    door = Door(approval=False)

    @tool
    def look(at: str) -> None: ...

    model = Provider(
        [call("look", {"at": "x"}), call("log_in", ARGS), call("log_in", "{"), say("")]
    )
    async with place.app(Agent("teller", model=model, tools=[door.tool, look])) as app:
        view = await completed(await app.start("teller", "go", by="mira"))

    raws = [one.raw is None for one in view.messages if isinstance(one, AssistantMessage)]
    assert raws == [False, True, True, False]


async def test_a_body_that_was_given_up_is_not_logged(
    place: Place, caplog: pytest.LogCaptureFixture
):
    release = asyncio.Event()

    @tool(timeout=0.05)
    async def log_in(password: Secret) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise RuntimeError(f"too late for {password.reveal()}")

    async with place.app(agent([call("log_in", {"password": "hunter2"}), say("")], log_in)) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        assert hold.kind == "in_doubt"
        release.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()

    assert "never retrieved" not in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("found", [Happened(result=["hunter2"]), OSError("no line for hunter2")])
async def test_what_a_probe_says_has_no_secret_in_it(found: Any):
    asked: list[str] = []

    def probe(password: Secret) -> Any:
        asked.append(password.reveal())
        if isinstance(found, Exception):
            raise found
        return found

    @tool(effect="once", probe=probe)
    async def log_in(password: Secret) -> None: ...

    mira = Principal(id="mira")
    ctx = Context(run_id="r", call_id="c", key="k", attempt=1, by=mira, agent="a", project="p")
    veil = Veil()
    veil.add("hunter2")

    result = await look_into(log_in, ctx, FROZEN, why="gone", veil=veil)

    assert asked == ["hunter2"]
    assert "hunter2" not in repr(result)
    assert "[secret]" in repr(result)


async def test_a_step_may_be_given_a_secret_and_is_not_taken_again(place: Place):
    took: list[str] = []

    def take(password: Any) -> str:
        took.append(password.reveal())
        return "ok"

    @tool(durable=True)
    async def log_in(ctx: Context, password: Secret) -> str:
        done = await ctx.step("take", take, password)
        await ctx.ask("Go on?")
        return done

    made = agent([call("log_in", {"password": "hunter2"}), say("")], log_in)
    async with place.app(made) as app:
        run = await app.start("teller", "go", by="mira")
        await held(run)
        events = [one.event for one in await journal(app.store, run.id)]
        (started,) = [one for one in events if isinstance(one, e.StepStarted)]
    for args in ([{"$secret": "hunter2"}], ["hunter2"]):
        assert started.digest != request_digest("take", encode_value(args))
    async with place.app(made) as app:
        again = app.run(run.id)
        await app.decide(await held(again), answer("yes"), by="mira")
        await completed(again)

    assert took == ["hunter2"]


@pytest.mark.parametrize(
    "gives", ["hunter2", {"$sealed": "k1.c2VhbGVk"}, {"deep": [{"$sealed": 1}]}]
)
async def test_what_a_step_gave_is_the_same_to_a_body_that_goes_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, gives: Any
):
    first, second = new_key(), new_key()
    got: list[Any] = []

    def take() -> Any:
        return gives

    @tool(durable=True, approval=True)
    async def log_in(ctx: Context, password: Secret) -> None:
        found = await ctx.step("take", take)
        await ctx.ask("Go on?")
        got.append(found)

    made = agent([call("log_in", {"password": "hunter2"}), say("")], log_in)
    place = Place("sqlite", tmp_path)
    monkeypatch.setenv(VARIABLE, first)
    async with place.app(made) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
    # What the step gives is sealed with another key than its arguments.
    monkeypatch.setenv(VARIABLE, f"{second},{first}")
    async with place.app(made) as app:
        await app.decide(hold, approve(), by="mira")
        await until(lambda: _asks(app, run.id))
        hold = await held(app.run(run.id))
        assert "hunter2" not in repr(await journal(app.store, run.id))
    monkeypatch.setenv(VARIABLE, first)
    async with place.app(made) as app:
        await app.decide(hold, answer("yes"), by="mira")
        await until(lambda: "the key of what a step gave" in caplog.text)
        assert (await types(app, run))[-1] == "run.resumed"
    monkeypatch.setenv(VARIABLE, f"{second},{first}")
    async with place.app(made) as app:
        await completed(app.run(run.id))

    assert got == [gives]


async def _asks(app: Sayso, run_id: str) -> bool:
    return "step.finished" in await types(app, run_id)
