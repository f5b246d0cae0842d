"""Looking everything over: the store, the agents and their tools, and every run that is open.

Rule 1: looking changes nothing, and calls no tool and no model.
Rule 2: one thing that cannot be looked at hides no other: that it cannot be is a finding.
Rule 3: memory does not grow with the number of runs: one run at a time, so many findings a check.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

import msgspec

from sayso.domain.call import Effect
from sayso.domain.ruling import HIGH, Require
from sayso.domain.run import Run, Status
from sayso.domain.transcript import Transcript
from sayso.engine.parts import Parts
from sayso.engine.ports import Tool
from sayso.engine.resumable import CODE_CHECKS, RUN_CHECKS, OpenRun
from sayso.errors import NotUnderstood, SaysoError, StoreError, describe
from sayso.store.base import PAGE_MAX, RunRow
from sayso.store.checkup import LEVELS, Finding, Level
from sayso.store.journal import decode
from sayso.store.keyring import KeyRing
from sayso.store.query import RunQuery

FINDINGS_MAX = 200
"""How many findings of one check are kept; the others are counted."""
RUNS_PAGE = 100
ROLE = "role:"
OPEN = (Status.SUSPENDED, Status.RUNNING)


class Report(msgspec.Struct, kw_only=True):
    """What was looked at, and what was found."""

    findings: list[Finding] = []
    runs: int = 0
    """How many open runs were looked at."""
    left_out: dict[str, int] = {}
    """How many more findings there were of a check."""

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return self.worst != "problem"

    @property
    def worst(self) -> Level:
        """The level of the worst finding."""
        found = {one.level for one in self.findings}
        return LEVELS[max((LEVELS.index(level) for level in found), default=0)]

    def add(self, finding: Finding) -> None:
        """Keep a finding, or count it."""
        # By level as well, so that many notes hide no problem.
        kept = sum((one.name, one.level) == (finding.name, finding.level) for one in self.findings)
        if kept < FINDINGS_MAX:
            self.findings.append(finding)
        else:
            self.left_out[finding.name] = self.left_out.get(finding.name, 0) + 1


Progress = Callable[[Report], None]


async def examine(
    parts: Parts,
    *,
    keys: KeyRing | None = None,
    knows_code: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Look everything over. Without `knows_code`, no run is held against agents: there are none."""
    report = Report()
    try:
        for finding in await parts.store.checkup():
            report.add(finding)
        for check in CHECKS:
            async for finding in check(parts):
                report.add(finding)
        await _examine_runs(parts, report, keys=keys, knows_code=knows_code, progress=progress)
    except StoreError as error:
        # Nothing more can be read; what was found until here still counts.
        text = f"the store cannot be looked at: {error}."
        report.add(Finding(name="store", level="problem", text=text))
    if not knows_code and report.runs:
        text = (
            f"no agents are known here, so {report.runs:,} open "
            f"{'run was' if report.runs == 1 else 'runs were'} not held against their code."
        )
        report.add(Finding(name="agent", level="note", text=text))
    return report


async def check_effects(parts: Parts) -> AsyncIterator[Finding]:
    """Look for tools of which nobody said what a second call would do."""
    silent = [tool for tool in _tools(parts) if not tool.effect_declared]
    gated = [tool for tool in silent if parts.gate.may_hold(tool, parts.drivers.values())]
    free = [tool for tool in silent if tool not in gated]
    what = "do not say what a second call would do, and so count as effect='once': declare it."
    if gated:
        text = f"{_names(gated)}, which people are asked about, {what}"
        yield Finding(name="effect", level="warning", text=text)
    if free:
        yield Finding(name="effect", level="note", text=f"{_names(free)} {what}")
    if _tools(parts) and not silent:
        yield Finding(name="effect", level="ok", text="every tool says what a second call does.")


async def check_risks(parts: Parts) -> AsyncIterator[Finding]:
    """Look for tools of high risk that nobody is ever asked about."""
    free = [
        tool
        for tool in _tools(parts)
        if tool.risk in HIGH and not parts.gate.may_hold(tool, parts.drivers.values())
    ]
    if free:
        text = (
            f"{_names(free)} of high risk run without asking anybody: use approval=True, or a "
            "Rule that names them."
        )
        yield Finding(name="risk", level="warning", text=text)
    elif _tools(parts):
        yield Finding(name="risk", level="ok", text="people are asked about all of high risk.")


async def check_probes(parts: Parts) -> AsyncIterator[Finding]:
    """Name the tools that act once and cannot be asked whether they did."""
    blind = [
        tool
        for tool in _tools(parts)
        if tool.effect is Effect.ONCE and not tool.has_probe and not tool.durable
    ]
    if blind:
        text = (
            f"{_names(blind)} act once and have no probe: whether a call that was lost from sight "
            "has happened is for a person to find out."
        )
        yield Finding(name="probe", level="note", text=text)


async def check_roles(parts: Parts) -> AsyncIterator[Finding]:
    """Look for roles that are asked, by a rule or by a tool, and that too few people have."""
    demands = [rule.ruling for rule in parts.gate.policy.rules]
    demands += [tool.approval for tool in _tools(parts) if tool.approval is not None]
    have = await _people_by_role(parts)
    missing: dict[str, int] = {}
    for ruling in demands:
        if not isinstance(ruling, Require):
            continue
        roles = [name for name in ruling.approvers if name.startswith(ROLE)]
        others = len(ruling.approvers) - len(roles)
        people = set[str]().union(*(have.get(name.removeprefix(ROLE), set()) for name in roles))
        if roles and not others and len(people) < ruling.quorum:
            missing.update({name.removeprefix(ROLE): len(people) for name in roles})
    for role, there in sorted(missing.items()):
        text = (
            f"too few people have the role {role!r} for what is asked of it ({there} do): give it "
            "to somebody with app.people.put(id, roles=[...])."
        )
        yield Finding(name="role", level="warning", text=text)


async def _people_by_role(parts: Parts) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    after: str | None = None
    while page := await parts.records.list(after=after, limit=PAGE_MAX):
        for person in page:
            for role in person.roles if person.active else ():
                found.setdefault(role, set()).add(person.id)
        after = page[-1].id
    return found


Check = Callable[[Parts], AsyncIterator[Finding]]
CHECKS: tuple[Check, ...] = (check_effects, check_risks, check_probes, check_roles)
"""What is looked at once, beside the store's own checkup. What else has to be there before people
can decide is one more function here; it may read the store and its shelf.
"""


async def _examine_runs(
    parts: Parts,
    report: Report,
    *,
    keys: KeyRing | None,
    knows_code: bool,
    progress: Progress | None,
) -> None:
    checks = (*CODE_CHECKS, *RUN_CHECKS) if knows_code else RUN_CHECKS
    for status in OPEN:
        before: str | None = None
        while page := await _page(parts, status, before):
            before = page[-1].id
            for row in page:
                await _examine_run(parts, row, report, checks, keys)
                if progress is not None:
                    progress(report)


async def _page(parts: Parts, status: Status, before: str | None) -> list[RunRow]:
    query = RunQuery(status=status.value, before=before, limit=RUNS_PAGE)
    return await parts.store.runs(query)


async def _examine_run(
    parts: Parts,
    row: RunRow,
    report: Report,
    checks: Iterable[Callable[[OpenRun], Iterable[Finding]]],
    keys: KeyRing | None,
) -> None:
    report.runs += 1
    try:
        run = await parts.ledger.read(row)
        one = OpenRun(parts=parts, run=run, transcript=await _fold(parts, run), keys=keys)
        for check in checks:
            for finding in check(one):
                report.add(finding)
    except StoreError:
        raise
    except SaysoError as error:
        text = f"it cannot be read by this Sayso: {error}."
        report.add(Finding(name="run", level="problem", text=text, run_id=row.id))
    except Exception as error:  # noqa: BLE001 - an agent's own code is asked, too.
        text = f"it cannot be looked at: {describe(error)}."
        report.add(Finding(name="run", level="problem", text=text, run_id=row.id))


async def _fold(parts: Parts, run: Run) -> Transcript:
    """Fold a run's conversation up to the entry that its row is at."""
    transcript = Transcript(run.id)
    while transcript.seq < run.seq:
        page = await parts.store.journal(run.id, after=transcript.seq)
        if not page:
            raise NotUnderstood(f"entry {transcript.seq + 1} of {run.id!r} is missing")
        for entry in page[: run.seq - transcript.seq]:
            transcript.add(entry.seq, decode(entry))
    return transcript


def _tools(parts: Parts) -> list[Tool]:
    found = {id(tool): tool for driver in parts.drivers.values() for tool in driver.tools.values()}
    return sorted(found.values(), key=lambda tool: tool.name)


def _names(tools: list[Tool]) -> str:
    return ", ".join(dict.fromkeys(tool.name for tool in tools))
