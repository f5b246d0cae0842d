"""Edited arguments: validated as any others, and ruled on as any others."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sayso.domain.digest import call_digest
from sayso.domain.hold import Approved, Verdict
from sayso.domain.operand import OperandPin, encode_pins
from sayso.domain.ruling import Forbid, Require
from sayso.engine.operand import pin
from sayso.engine.parts import Parts
from sayso.errors import NotAllowed, WrongVerdict


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments in place of others, and what they need."""

    args: bytes
    digest: str
    ruling: Require
    policy_version: str
    operands: tuple[OperandPin, ...] = ()


async def read_edit(parts: Parts, run_id: str, ns: Sequence[int], verdict: Verdict) -> Edit | None:
    """Validate edited arguments, and rule on them as on any others."""
    if not isinstance(verdict, Approved) or verdict.args is None:
        return None
    run = await parts.ledger.load(run_id)
    if len(ns) != 1:
        raise WrongVerdict("arguments can be edited for one hold at a time")
    hold = run.hold(ns[0])
    row = hold and run.call(hold.call)
    if hold is None or row is None:
        return None  # It is not open, as will be said.
    driver = parts.drivers.get(run.agent)
    tool = driver.tools.get(row.tool) if driver else None
    if driver is None or tool is None:
        missing = f"agent {run.agent!r}" if driver is None else f"tool {row.tool!r}"
        raise WrongVerdict(
            f"the {missing} is not known in this process, so edited arguments cannot be "
            "checked: give this Sayso the same agents=[...], also with work=False, or decide "
            "with approve() or reject('why')"
        )
    transcript = await parts.ledger.transcript(run_id)
    before = transcript.args[row.ref]
    from sayso.engine.sealing import freeze_edit

    args = freeze_edit(parts.vault, run.id, tool, bytes(verdict.args), before)
    policy = parts.gate.policy
    ruling = await parts.gate.rule(run, tool, args, parts.checks(run), policy)
    if isinstance(ruling, Forbid):
        raise NotAllowed(f"the edited call is forbidden: {ruling.why}")
    # An edit is of what was shown: if the tool is another one by now, that is asked on its own.
    shown = transcript.tool_versions[row.ref]
    pins = await pin(tool, args)
    digest = call_digest(
        project=run.project,
        run=run.id,
        version=hold.version + 1,
        tool=tool.name,
        tool_version=shown,
        args=args,
        operands=encode_pins(pins),
    )
    if not isinstance(ruling, Require):
        ruling = Require(risk=tool.risk)
    bound = parts.bound(run, row.ref, ruling)
    return Edit(
        args=args, digest=digest, ruling=bound, policy_version=policy.version, operands=pins
    )
