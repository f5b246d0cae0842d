"""Files that a call names: what was looked at is what is used, or somebody is asked again.

Method: real files that change while a call waits; what was used is written down by the tool.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from sayso import (
    Always,
    Context,
    Failed,
    HoldView,
    NotDone,
    Operand,
    OperandPin,
    Policy,
    Proceed,
    Require,
    Rule,
    RunView,
    Sayso,
    ToolMessage,
    approve,
    reject,
    render_text,
    tool,
)
from sayso.domain.call import Declined
from sayso.errors import BadTool, BadValue, NotAllowed
from sayso.testing import call, say

from .kit import PATIENCE_S, Place, agent, finished, held, suspended

GOOD, EVIL = b"echo pay 10\n", b"echo pay 99999\n"
RAN: list[bytes] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "pay.sh"
    path.write_bytes(GOOD)
    return path


@tool(approval=True, effect="once")
def run(ctx: Context, path: Annotated[str, Operand()]) -> str:
    RAN.append(ctx.operand("path"))
    return "ran"


@tool(approval=True, effect="once")
def run_all(ctx: Context, paths: Annotated[list[Path], Operand()]) -> int:
    RAN.extend(ctx.operand("paths", at) for at in range(len(paths)))
    return len(paths)


@tool(effect="once")
def run_free(ctx: Context, path: Annotated[Path, Operand()]) -> str:
    RAN.append(ctx.operand("path"))
    return "ran"


def pin(data: bytes | None, path: Path, name: str = "path") -> OperandPin:
    if data is None:
        return OperandPin(name=name, path=str(path))
    digest = hashlib.sha256(data).hexdigest()
    return OperandPin(name=name, path=str(path), sha256=digest, size=len(data))


def outcome(view: RunView) -> Any:
    return next(one.outcome for one in view.messages if isinstance(one, ToolMessage))


async def test_a_file_is_part_of_what_is_asked(place: Place, script: Path):
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        short = hashlib.sha256(GOOD).hexdigest()[:12]

        assert hold.operands == (pin(GOOD, script),)
        assert str(hold.shown.files[0]).endswith(f", 12 bytes, sha256 {short}")
        assert "Files: 1" in render_text(hold.shown)
        await app.decide(hold, approve(), by="mira")
        await finished(started)
    assert RAN == [GOOD]


CHANGES: dict[str, tuple[Callable[[Path], object], bytes | None, str]] = {
    "changed": (lambda path: path.write_bytes(EVIL), EVIL, "was changed"),
    "same size": (
        lambda path: path.write_bytes(GOOD.replace(b"10", b"20")),
        GOOD.replace(b"10", b"20"),
        "was changed",
    ),
    "vanished": (lambda path: path.unlink(), None, "has vanished"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_file_that_changed_after_it_was_allowed_is_asked_about_again(
    place: Place, script: Path, name: str
):
    change, now, said = CHANGES[name]
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
    async with place.app(teller, work=False) as app:
        await app.decide(first, approve(), by="mira")
        change(script)
    async with place.app(teller) as app:
        again = (await suspended(app.run(started.id))).holds[0]

        assert RAN == []
        assert again.why == f"Asked again: the file '{script}' {said} after it was allowed."
        assert again.operands == (pin(now, script),)
        assert (again.version, again.digest != first.digest) == (2, True)
        await app.decide(again, approve(), by="mira")
        await app.run(started.id).wait(final=True, timeout=PATIENCE_S)
    assert [data for data in RAN if data is not None] == ([] if now is None else [now])


async def test_a_file_that_appears_after_it_was_allowed_is_asked_about_again(
    place: Place, script: Path
):
    script.unlink()
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller, work=True) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
        assert first.operands == (pin(None, script),)
        script.write_bytes(EVIL)
        await app.decide(first, approve(), by="mira")
        again = (await suspended(started)).holds[0]

        assert "has appeared" in again.why
        assert RAN == []


async def test_a_changed_file_can_be_refused(place: Place, script: Path):
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
        script.write_bytes(EVIL)
        await app.decide(first, approve(), by="mira")
        again = (await suspended(started)).holds[0]
        await app.decide(again, reject("no"), by="mira")
        view = await finished(started)

    assert isinstance(outcome(view), Declined)
    assert RAN == []


async def test_every_file_of_a_list_is_pinned(place: Place, script: Path, tmp_path: Path):
    other = tmp_path / "more.sh"
    other.write_bytes(b"more")
    teller = agent([call("run_all", {"paths": [str(script), str(other)]}), say("ok")], run_all)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
        assert first.operands == (
            pin(GOOD, script, "paths[0]"),
            pin(b"more", other, "paths[1]"),
        )
        other.write_bytes(b"less")
        await app.decide(first, approve(), by="mira")
        again = (await suspended(started)).holds[0]
        assert again.why == f"Asked again: the file '{other}' was changed after it was allowed."
        await app.decide(again, approve(), by="mira")
        await finished(started)

    assert RAN == [GOOD, b"less"]


async def test_an_edit_to_another_path_pins_the_other_file(
    place: Place, script: Path, tmp_path: Path
):
    other = tmp_path / "other.sh"
    other.write_bytes(b"other")
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller, work=True) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        await app.decide(hold, approve(args={"path": str(other)}), by="mira", undo="10s")
        view = await app.hold(hold.id)
        assert view.operands == (pin(b"other", other),)

        other.write_bytes(EVIL)
        place.clock.advance(11_000)
        await app.sweep()
        again = await reasked(app, started.id, hold)
        assert "was changed" in again.why
        await app.decide(again, approve(), by="mira")
        await finished(started)
    assert RAN == [EVIL]


async def reasked(app: Sayso, run_id: str, before: HoldView) -> HoldView:
    view = await suspended(app.run(run_id))
    assert view.holds[0].id != before.id
    return view.holds[0]


async def test_an_edit_to_a_path_that_cannot_be_read_changes_nothing(
    place: Place, script: Path, tmp_path: Path
):
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        with pytest.raises(BadValue, match="is not a file"):
            await app.decide(hold, approve(args={"path": str(tmp_path)}), by="mira")

        assert (await app.hold(hold.id)) == hold


async def unreadable(path: Path) -> dict[str, str]:
    (path / "dir").mkdir()
    os.mkfifo(path / "pipe")
    (path / "loop").symlink_to(path / "loop")
    (path / "large").write_bytes(b"x" * 11)
    return {
        "dir": "is not a file that can be read",
        "pipe": "is not a file that can be read",
        "loop": "cannot be read: Too many levels of symbolic links",
        "large": "has more than 10 bytes",
        "large/inside": "cannot be read: Not a directory",
        "a\0b": "cannot be read",
    }


async def test_a_file_that_cannot_be_read_is_an_error_for_the_model(tmp_path: Path):
    @tool(approval=True)
    def small(path: Annotated[str, Operand(bytes_max=10)]) -> None:
        RAN.append(b"")

    for name, why in (await unreadable(tmp_path)).items():
        teller = agent([call("small", {"path": f"{tmp_path}/{name}"}), say("ok")], small)
        async with Sayso("memory:", agents=[teller]) as app:
            started = await app.start("teller", "go", by="mira")
            view = await started.wait(timeout=PATIENCE_S)
            assert view.status == "completed", name
            found = outcome(view)
            assert isinstance(found, Failed)
            assert (found.error, why in found.message) == ("BadArguments", True), name
            holds = await app.holds(status="any")
            assert len(holds) == 0
    assert RAN == []


async def test_a_file_that_cannot_be_read_any_more_does_not_start(place: Place, script: Path):
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        script.unlink()
        script.mkdir()
        await app.decide(hold, approve(), by="mira")
        view = await finished(started)

    found = outcome(view)
    assert isinstance(found, Failed)
    assert found.error == "BadArguments"
    assert RAN == []


async def test_too_many_files_are_refused(tmp_path: Path):
    teller = agent([call("run_all", {"paths": ["x"] * 65}), say("ok")], run_all)
    async with Sayso("memory:", agents=[teller]) as app:
        view = await (await app.start("teller", "go", by="mira")).wait(timeout=PATIENCE_S)

    assert view.status == "completed"
    assert "at most 64 files, not 65" in outcome(view).message


async def test_links_are_followed_and_the_content_counts(place: Place, script: Path):
    link = script.with_name("link.sh")
    link.symlink_to(script)
    same = script.with_name("same.sh")
    same.write_bytes(GOOD)
    teller = agent([call("run", {"path": str(link)}), say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        assert hold.operands == (pin(GOOD, link),)
        link.unlink()
        link.symlink_to(same)
        await app.decide(hold, approve(), by="mira")
        await finished(started)

    assert RAN == [GOOD]


async def test_a_relative_path_counts_from_the_working_directory(
    script: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(script.parent)
    teller = agent([call("run", {"path": "pay.sh"}), say("ok")], run)
    async with Sayso("memory:", agents=[teller]) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        assert hold.operands == (pin(GOOD, Path("pay.sh")),)
        await app.decide(hold, approve(), by="mira")
        await finished(started)

    assert RAN == [GOOD]


async def test_what_changes_between_the_check_and_the_use_is_not_used(place: Place, script: Path):
    tried: list[str] = []

    @tool(approval=True, effect="once")
    def sly(ctx: Context, path: Annotated[str, Operand()]) -> str:
        # The latest moment there is: the call has started.
        if not tried:
            script.write_bytes(EVIL)
        try:
            RAN.append(ctx.operand("path"))
        except NotDone as error:
            tried.append(str(error))
            raise
        return "ran"

    teller = agent([call("sly", {"path": str(script)}), say("ok")], sly)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira")
        again = (await suspended(started)).holds[0]

        assert tried == [f"the file '{script}' is not what it was when it was allowed"]
        assert (again.kind, RAN) == ("approval", [])
        assert again.operands == (pin(EVIL, script),)
        await app.decide(again, approve(), by="mira")
        await finished(started)
    assert RAN == [EVIL]


async def test_what_cannot_be_read_at_its_use_was_not_done(place: Place, script: Path):
    tried: list[type] = []

    @tool(approval=True, effect="once")
    def sly(ctx: Context, path: Annotated[str, Operand()]) -> str:
        script.unlink()
        script.mkdir()
        try:
            RAN.append(ctx.operand("path"))
        except Exception as error:
            tried.append(type(error))
            raise
        return "ran"

    teller = agent([call("sly", {"path": str(script)}), say("ok")], sly)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira")
        view = await finished(started)

    assert (tried, outcome(view).error, RAN) == ([NotDone], "BadArguments", [])


async def test_a_call_that_needs_nobody_is_not_pinned(place: Place, script: Path):
    teller = agent([call("run_free", {"path": str(script)}), say("ok")], run_free)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        view = await finished(started)

    assert RAN == [GOOD]
    assert view.messages[1].calls[0].operands == ()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_call_that_is_in_doubt_names_its_files_and_they_are_looked_at_again(
    place: Place, script: Path
):
    @tool(approval=True, effect="once")
    def lost(ctx: Context, path: Annotated[str, Operand()]) -> str:
        RAN.append(ctx.operand("path"))
        if len(RAN) == 1:
            raise TimeoutError
        return "ran"

    teller = agent([call("lost", {"path": str(script)}), say("ok")], lost)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira")
        doubt = (await suspended(started)).holds[0]
        assert (doubt.kind, doubt.operands) == ("in_doubt", (pin(GOOD, script),))
        script.write_bytes(EVIL)
        await app.decide(doubt, approve(), by="mira")
        again = (await suspended(started)).holds[0]

        assert (again.kind, again.operands) == ("approval", (pin(EVIL, script),))
        assert RAN == [GOOD]
        await app.decide(again, reject(), by="mira")
        await finished(started)


async def test_a_call_that_was_allowed_keeps_its_files_when_the_rules_are_gone(
    place: Place, script: Path
):
    teller = agent([call("run_free", {"path": str(script)}), say("ok")], run_free)
    strict = Policy(Rule("run_free", approvers=["user:ann"]))
    async with place.app(teller, policy=strict) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
    async with place.app(teller, policy=strict, work=False) as app:
        await app.decide(first, approve(), by="ann")
    script.write_bytes(EVIL)
    async with place.app(teller) as app:
        again = (await suspended(app.run(started.id))).holds[0]

        assert (again.approvers, RAN) == (("user:ann",), [])
        assert "was changed" in again.why


async def test_the_same_file_starts_when_nobody_has_to_be_asked_any_more(
    script: Path,
):
    rules = [True]

    def check(facts: Any) -> bool:
        return rules[0]

    teller = agent([call("run_free", {"path": str(script)}), say("ok")], run_free)
    async with Sayso("memory:", agents=[teller], check_for_intervention=check) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        rules[0] = False
        # Nobody has to be asked any more, but the file is the one that was shown.
        await app.decide(hold, approve(), by="mira")
        await finished(started)

    assert hold.operands == (pin(GOOD, script),)
    assert RAN == [GOOD]


async def test_calls_that_take_their_turn_are_pinned_when_it_comes(place: Place, script: Path):
    calls = [call("run", {"path": str(script)}), call("run", {"path": str(script) + "2"})]
    teller = agent([calls, say("ok")], run, resolve="each", siblings="in_order")
    second = Path(f"{script}2")
    second.write_bytes(b"old")
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
        second.write_bytes(b"new")
        await app.decide(first, approve(), by="mira")
        then = (await suspended(started)).holds[0]

        assert then.operands == (pin(b"new", second),)
        assert not then.why.startswith("Asked again")
        await app.decide(then, approve(), by="mira")
        await finished(started)
    assert RAN == [GOOD, b"new"]


async def test_a_call_that_was_refused_is_not_asked_again_with_the_same_file(
    place: Place, script: Path
):
    wanted = call("run", {"path": str(script)})
    teller = agent([wanted, wanted, say("ok")], run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), reject("no"), by="mira")
        await finished(started)
        assert len(await app.holds(status="any")) == 1


async def test_a_call_that_was_refused_is_asked_again_with_another_file(place: Place, script: Path):
    wanted = call("run", {"path": str(script)})

    def turns(messages: Any) -> Any:
        if len(messages) == 3:
            script.write_bytes(EVIL)
        return wanted if len(messages) < 4 else say("ok")

    teller = agent(turns, run)
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        first = await held(started)
        await app.decide(first, reject("no"), by="mira")
        again = await reasked(app, started.id, first)
        assert again.operands == (pin(EVIL, script),)


async def test_a_refusal_counts_also_when_nobody_would_be_asked_any_more(script: Path):
    asks = [True]
    wanted = call("run_free", {"path": str(script)})
    teller = agent([wanted, wanted, say("ok")], run_free)

    def check(facts: Any) -> Any:
        return Require() if asks[0] else Proceed()

    async with Sayso("memory:", agents=[teller], check_for_intervention=check) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        asks[0] = False
        await app.decide(hold, reject("no"), by="mira")
        await finished(started)

    assert RAN == []


async def test_no_grant_speaks_of_what_files_say(place: Place, script: Path):
    @tool(name="run", approval=True, effect="once")
    def by_path(path: str) -> str:
        return "ran"

    turns = [call("run", {"path": str(script)}), say("ok")]
    async with place.app(agent(turns, by_path)) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira", always=Always())
        await finished(started)
        await finished(await app.start("teller", "go", by="mira"))
    async with place.app(agent(turns, run)) as app:
        hold = await held(await app.start("teller", "go", by="mira"))
        with pytest.raises(NotAllowed, match="what files say"):
            await app.decide(hold, approve(), by="mira", always=Always())

        # It is asked about at once, and with its files.
        assert (hold.why, hold.operands) == ("", (pin(GOOD, script),))
        assert ((await app.hold(hold)).status, RAN) == ("open", [])


async def test_a_tool_without_files_reads_none(script: Path):
    @tool(approval=True)
    def plain(ctx: Context, path: str) -> str:
        RAN.append(ctx.operand("path"))
        return "ran"

    teller = agent([call("plain", {"path": str(script)}), say("ok")], plain)
    async with Sayso("memory:", agents=[teller]) as app:
        started = await app.start("teller", "go", by="mira")
        hold = await held(started)
        assert hold.operands == ()
        await app.decide(hold, approve(), by="mira")
        view = await finished(started)

    assert "names no file of this call" in outcome(view).message


async def test_a_file_that_was_allowed_as_absent_is_not_there(script: Path):
    script.unlink()
    teller = agent([call("run", {"path": str(script)}), say("ok")], run)
    async with Sayso("memory:", agents=[teller]) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira")
        view = await finished(started)

    assert outcome(view).error == "FileNotFoundError"


async def test_an_optional_file_may_be_left_out():
    @tool(approval=True)
    def maybe(path: Annotated[str, Operand()] | None = None) -> str:
        return "ran"

    teller = agent([call("maybe", {}), say("ok")], maybe)
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

    assert hold.operands == ()


def number(path: Annotated[int, Operand()]) -> None: ...
def either(path: Annotated[str | int, Operand()]) -> None: ...
def inside(paths: dict[str, Annotated[str, Operand()]]) -> None: ...
def bare(path: Annotated[str, Operand]) -> None: ...
def twice(path: Annotated[list[Annotated[str, Operand()]], Operand()]) -> None: ...
def none(path: Annotated[str, Operand(bytes_max=0)]) -> None: ...


@pytest.mark.parametrize(
    "fn, why",
    [
        (number, "is no path"),
        (either, "is no path"),
        (inside, "a part of it"),
        (twice, "a part of it"),
        (bare, "with the brackets"),
        (none, "a number from 1 on"),
    ],
)
def test_a_mark_that_could_not_work_is_refused(fn: Any, why: str):
    with pytest.raises(BadTool, match=why):
        tool(fn)


def inner(paths: list[Annotated[Path, Operand()]]) -> None: ...
def several(paths: Annotated[tuple[str, ...], Operand()]) -> None: ...


@pytest.mark.parametrize("fn", [inner, several])
def test_lists_of_paths_can_be_marked_inside_and_outside(fn: Any):
    files = tool(fn).operands(b'{"paths":["a","b"]}')

    assert [(file.name, file.path) for file in files] == [("paths[0]", "a"), ("paths[1]", "b")]


def test_an_argument_under_another_name_does_not_escape():
    from pydantic import Field

    @tool
    def renamed(path: Annotated[str, Operand(), Field(alias="file")]) -> None: ...

    with pytest.raises(BadValue, match="not among the arguments"):
        renamed.operands(renamed.freeze('{"file":"a"}'))


async def test_reading_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch):
    from sayso.engine import operand

    @tool(approval=True)
    def stuck(path: Annotated[str, Operand()]) -> None: ...

    monkeypatch.setattr(operand, "PATIENCE_S", 0.0)
    with pytest.raises(BadValue, match="within 0 seconds"):
        await operand.pin(stuck, b'{"path":"x"}')


async def test_what_names_no_files_is_not_looked_at(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []

    def never(*_: Any) -> Any:
        seen.append("files")

    monkeypatch.setattr("sayso.engine.operand._pin_all", never)

    @tool(approval=True)
    def plain(path: str) -> str:
        return path

    teller = agent([call("plain", {"path": "x"}), say("ok")], plain)
    async with Sayso("memory:", agents=[teller]) as app:
        started = await app.start("teller", "go", by="mira")
        await app.decide(await held(started), approve(), by="mira")
        await finished(started)

    assert seen == []


async def test_a_command_pins_its_files_too(place: Place, script: Path):
    from sayso import Agent
    from sayso.testing import ScriptedModel

    teller = Agent(
        "teller",
        model=ScriptedModel([call("ask", {}), say("ok")]),
        tools=[tool(approval=True, name="ask")(lambda: "x")],
        commands=[run],
    )
    async with place.app(teller) as app:
        started = await app.start("teller", "go", by="mira")
        await held(started)
        await app.command(started, "run", {"path": str(script)}, by="mira", timeout=PATIENCE_S)
        hold = next(one for one in await app.holds() if one.tool == "run")

        assert hold.operands == (pin(GOOD, script),)
        script.write_bytes(EVIL)
        await app.decide(hold, approve(), by="mira")
        await started.wait(held=True, timeout=PATIENCE_S)
    assert RAN == []
