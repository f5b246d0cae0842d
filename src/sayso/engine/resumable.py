"""Whether the code of now can go on with a run that is open, and people can settle what it asks.

Rule: all of it is told from the run, its journal and the agents; no tool is called and no model
asked. Each function says what is wrong, one finding a fault, and nothing if nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from sayso.domain.call import CallState, call_id
from sayso.domain.digest import same_but_for_order
from sayso.domain.hold import Answered, Hold, hold_id
from sayso.domain.ruling import anyone
from sayso.domain.run import CallRow, Run
from sayso.domain.secret import is_sealed
from sayso.domain.transcript import Transcript
from sayso.engine.calls import tools_of
from sayso.engine.parts import Parts
from sayso.engine.ports import Scene, Tool
from sayso.engine.vault import opens_with
from sayso.errors import SaysoError, contained, describe
from sayso.store.checkup import Finding, Level
from sayso.store.keyring import KeyRing

_OPEN = tuple(state for state in CallState if state is not CallState.DONE)
_NOT_STARTED = (CallState.READY, CallState.HELD, CallState.APPROVED)
APPROVER_KINDS: dict[str, tuple[str, ...]] = {"external": ("user:", "role:", "service:")}
"""How those are named who can settle a kind of ask, if it is not only people."""
PEOPLE = ("user:", "role:")
"""How people are named where they can settle it. What else stands for people is added here."""


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is not over, with what is needed to judge it."""

    parts: Parts
    run: Run
    transcript: Transcript
    keys: KeyRing | None
    """What there is to open sealed answers with."""

    @property
    def scene(self) -> Scene:
        """The run as its agent sees it."""
        return Scene(self.run, self.transcript)

    def found(self, name: str, level: Level, text: str) -> Finding:
        """Make a finding about this run."""
        return Finding(name=name, level=level, text=text, run_id=self.run.id)


def check_agent(one: OpenRun) -> Iterator[Finding]:
    """Look for the agents of a run, its own and those above it."""
    if one.run.agent not in one.parts.drivers:
        yield one.found(
            "agent",
            "problem",
            f"its agent {one.run.agent!r} is not known here, so nobody here goes on with it: add "
            "the agent to agents=[...], or cancel the run.",
        )
    missing = [name for name in one.run.lineage if name not in one.parts.drivers]
    if missing:
        yield one.found(
            "agent",
            "note",
            f"{', '.join(map(repr, missing))} above it is not known here, and so its rules are "
            "not: a person is asked about every call.",
        )


def check_calls(one: OpenRun) -> Iterator[Finding]:
    """Look whether the tools of a run's open calls are there, and take the arguments as kept."""
    driver = one.parts.drivers.get(one.run.agent)
    if driver is None:
        return
    for row in one.run.calls(*_OPEN):
        holds = one.run.holds_of(row.ref)
        if holds and all(hold.then == "outcome" for hold in holds):
            continue  # Its body does not run any more: what is answered is its outcome.
        tool = tools_of(driver, one.scene, row).get(row.tool)
        if tool is None:
            yield one.found("tool", "problem", _no_tool(one.run, row))
            continue
        yield from _check_version(one, row, tool)
        yield from _check_args(one, row, tool)
        yield from _check_body(one, row, tool, holds)


def check_strands(one: OpenRun) -> Iterator[Finding]:
    """Ask the agent whether it still has all that the run's strands are about."""
    driver = one.parts.drivers.get(one.run.agent)
    if driver is None:
        return
    for lack in driver.lacks(one.scene):
        yield one.found("strand", "problem", f"{lack}: put it back, or cancel the run.")


def check_answers(one: OpenRun) -> Iterator[Finding]:
    """Look whether the sealed answers that open calls go on with can be read here."""
    for row in one.run.calls(*_OPEN):
        places = one.transcript.places.get(row.ref, ())
        verdicts = [each.verdict for place in places for each in place.decisions.values()]
        sealed = [each.sealed for each in verdicts if isinstance(each, Answered) and each.sealed]
        if not all(opens_with(one.keys, one.run.id, each) for each in sealed):
            yield one.found(
                "answer",
                "problem",
                f"{call_id(one.run.id, row.ref)} goes on with a sensitive answer whose key is not "
                "in the key ring here: put the key back, as an older one of the ring.",
            )


def check_holds(one: OpenRun) -> Iterator[Finding]:
    """Look for holds that nobody can ever decide."""
    for hold in one.run.holds:
        if hold.decision is not None or hold.child or _can_be_decided(hold):
            continue
        asked = ", ".join(hold.approvers) or "nobody"
        later = "" if hold.deadline is None else " Silence settles it when its time is up."
        yield one.found(
            "hold",
            "problem" if hold.deadline is None else "warning",
            f"{hold_id(one.run.id, hold.n)} asks {asked}, and no person goes by that: cancel the "
            f"run, and name people as approvers.{later}",
        )


RunCheck = Callable[[OpenRun], Iterable[Finding]]
RUN_CHECKS: tuple[RunCheck, ...] = (check_answers, check_holds)
"""What is looked at in every open run, whatever is known of its agent's code."""
CODE_CHECKS: tuple[RunCheck, ...] = (check_agent, check_calls, check_strands)
"""What the code of now is held against."""


def _check_version(one: OpenRun, row: CallRow, tool: Tool) -> Iterator[Finding]:
    asked_with = one.transcript.tool_versions.get(row.ref, tool.version)
    if asked_with != tool.version and row.state in _NOT_STARTED:
        yield one.found(
            "version",
            "note",
            f"{call_id(one.run.id, row.ref)} was asked for with version {asked_with!r} of "
            f"{row.tool!r}, which is {tool.version!r} now: a yes to the old one does not count, "
            "and it is asked about again.",
        )


def _check_args(one: OpenRun, row: CallRow, tool: Tool) -> Iterator[Finding]:
    args = one.transcript.args.get(row.ref)
    if args is None or is_sealed(args):
        return  # What is sealed is read by a worker with the key, and by nobody else.
    name = call_id(one.run.id, row.ref)
    try:
        with contained(f"the tool {row.tool!r}"):
            same = same_but_for_order(tool.freeze(args), args)
    except SaysoError as error:
        yield one.found(
            "arguments",
            "problem",
            f"the arguments of {name} do not fit {row.tool!r} any more ({error}): it would fail, "
            "or run with what it was not written for. Let the tool take them, or reject the call.",
        )
        return
    except Exception as error:  # noqa: BLE001 - whatever a validator raises, it does not take them.
        text = f"{row.tool!r} cannot read the arguments of {name}: {describe(error)}."
        yield one.found("arguments", "problem", text)
        return
    if not same:
        yield one.found(
            "arguments",
            "problem",
            f"{row.tool!r} makes other arguments of those of {name} than were shown, and those it "
            "would not run with: let it take them as they are, or reject the call.",
        )


def _check_body(one: OpenRun, row: CallRow, tool: Tool, holds: list[Hold]) -> Iterator[Finding]:
    begun = row.step or row.state is CallState.ANSWERED
    if tool.durable or not (begun or any(hold.then == "continue" for hold in holds)):
        return
    yield one.found(
        "body",
        "problem",
        f"{call_id(one.run.id, row.ref)} is in the middle of the body of {row.tool!r}, which is "
        "not durable any more: it would be in doubt. Make it durable=True again.",
    )


def _no_tool(run: Run, row: CallRow) -> str:
    becomes = "fail" if row.state in _NOT_STARTED else "come to nothing, or be in doubt"
    return (
        f"{call_id(run.id, row.ref)} calls {row.tool!r}, which {run.agent!r} does not have any "
        f"more: it would {becomes}. Give the tool back, or cancel the run."
    )


def _can_be_decided(hold: Hold) -> bool:
    kinds = APPROVER_KINDS.get(hold.kind, PEOPLE)
    return any(
        who == anyone or any(who.startswith(kind) and who != kind for kind in kinds)
        for who in hold.approvers
    )
