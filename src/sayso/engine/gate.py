"""Where a call meets the policy. No tool runs anywhere else, and none without passing here.

Rule 1: the gate asks in order: known? arguments valid? refused before? rules, the tool's own flag,
`check_for_intervention`. The most strict answer wins.
Rule 2: any error around the gate means that the tool does not run: at worst a person is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from sayso.domain import codec
from sayso.domain.call import Call, CallState, Declined, Failed, Outcome
from sayso.domain.digest import ask_digest, call_digest, decode_value
from sayso.domain.hold import SignIn
from sayso.domain.operand import OperandPin, encode_pins, what_changed
from sayso.domain.people import Basis
from sayso.domain.policy import CallFacts, Policy
from sayso.domain.ruling import Forbid, Proceed, Require, Ruling, at_risk, strictest
from sayso.domain.run import CallRow, Run
from sayso.domain.secret import NOT_KEPT, blank, is_sealed, mask
from sayso.domain.standing import equal_refusal
from sayso.domain.transcript import Transcript
from sayso.domain.value import Value
from sayso.domain.verbs import HoldRequest, unsilenced
from sayso.engine.context import Wanted
from sayso.engine.grants import Found, Grants
from sayso.engine.intervention import PATIENCE_S, intervene
from sayso.engine.operand import pin
from sayso.engine.people import Records
from sayso.engine.ports import AskedCall, Driver, Intervention, Tool
from sayso.engine.sealing import freeze
from sayso.engine.still import Still, still_allowed
from sayso.engine.vault import Vault
from sayso.errors import BadKeys, BadValue, SignInFailed, contained

if TYPE_CHECKING:
    from sayso.engine.signing import Trust

UNSIGNED = "Asked again: the decision is not signed by a desk that this worker trusts."
TEXT_MAX = 4000
"""How much of unusable arguments is kept for people to see."""


class Admitted(Value, frozen=True, kw_only=True):
    """A call after the gate: held if there is a request, over if there is an outcome, else free."""

    call: Call
    request: HoldRequest | None = None
    outcome: Outcome | None = None
    granted: bool = False
    """A grant covers it: it is looked at once more when it starts, and used then."""


class Checked(Value, frozen=True, kw_only=True):
    """A call that is about to start: held again, over, or free to start on these bytes."""

    args: bytes = b""
    request: HoldRequest | None = None
    outcome: Outcome | None = None
    broken: str = ""
    """Why the run cannot be trusted any more."""
    basis: tuple[Basis, ...] = ()
    """The records by which whoever allowed it still may."""
    found: Found | None = None
    """The grant that covers it."""


class SignIns(Protocol):
    """Knows who is signed in where."""

    async def missing(self, run: Run, needed: SignIn) -> Wanted | None:
        """Say what whoever started the run is asked before a call can act for them.

        `SignInFailed` if asking would not help.
        """
        ...

    async def token(self, run: Run, needed: SignIn) -> str | None:
        """Give an access token that is good now; None if somebody has to be asked first."""
        ...


class Gate:
    """Rules on calls."""

    def __init__(
        self,
        policy: Policy | None = None,
        check_for_intervention: Intervention | None = None,
        *,
        trust: Trust | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._policy = policy or Policy()
        self.trust = trust
        """The desks whose decisions count here; None: all decisions that were recorded do."""
        self.sign_ins: SignIns | None = None
        """Knows who is signed in where; set by `app` once the store is open."""
        self.grants: Grants | None = None
        self.records: Records | None = None
        """Knows what people may do; set by `app` once the store is open."""
        self.vault = Vault()
        """Seals what is secret; set by `app` as well."""
        self._check = check_for_intervention
        self._patience_s = patience_s

    @property
    def policy(self) -> Policy:
        """The policy as it is now."""
        return self._policy.now()

    async def admit(
        self,
        run: Run,
        asked: AskedCall,
        *,
        ref: str,
        tools: Mapping[str, Tool],
        transcript: Transcript,
        checks: Sequence[Intervention] = (),
    ) -> Admitted:
        """Freeze what the model asked for, and rule on it."""
        name = clean_text(asked.tool)[:200]
        given = clean_text(asked.given)[:200]
        tool = tools.get(name)
        try:
            if tool is None:
                known = ", ".join(sorted(tools)) or "none"
                raise BadValue(f"there is no tool {name!r}; the tools are: {known}")
            args = freeze(self.vault, run.id, tool, asked.args)
        except (BadValue, BadKeys) as error:
            secret = tool is not None and tool.takes_secrets
            text = NOT_KEPT if secret else clean_text(asked.args)[:TEXT_MAX]
            kind = "BadArguments" if tool else "UnknownTool"
            kind = "BadKeys" if isinstance(error, BadKeys) else kind
            call = Call(ref=ref, tool=name, text=text, given=given)
            return Admitted(call=call, outcome=Failed(error=kind, message=str(error)))
        call = Call(
            ref=ref,
            tool=tool.name,
            args=msgspec.Raw(args),
            digest=self._digest(run, 1, tool, tool.version, args),
            tool_version=tool.version,
            given=given,
        )
        if (refused := _refused_before(run, tool, call.digest)) is not None:
            return Admitted(call=call, outcome=refused)
        policy = self.policy
        ruling = await self.rule(run, tool, args, checks, policy)
        if isinstance(ruling, Forbid):
            return Admitted(call=call, outcome=Declined(reason=ruling.why, by="policy"))
        repeats = _doubt_of(run, transcript, tool.name, args)
        if repeats and isinstance(ruling, Proceed):
            ruling = _repeating(tool)
        pinned = await self._pinned(run, tool, call, ruling)
        if isinstance(pinned, Failed):
            return Admitted(call=call, outcome=pinned)
        if (refused := _refused_before(run, tool, pinned.digest)) is not None:
            return Admitted(call=pinned, outcome=refused)
        if isinstance(ruling, Proceed):
            return await self._let_through(run, tool, call)
        pins = pinned.operands
        if not repeats and await self._covered(run, tool, args, ruling, pins) is not None:
            return Admitted(call=call, granted=True)
        request = HoldRequest(
            ref=ref,
            ruling=ruling,
            policy_version=policy.version,
            duplicate_of=repeats,
            operands=pinned.operands,
        )
        return Admitted(call=pinned, request=request)

    async def _pinned(self, run: Run, tool: Tool, call: Call, ruling: Ruling) -> Call | Failed:
        """Make the files that a call names part of what is asked; its error if one of them cannot
        be read. What needs nobody is only compared with what was refused before.
        """
        asked = not isinstance(ruling, Proceed)
        if not asked and not run.refusals:
            return call
        args = bytes(call.args)
        try:
            pins = await pin(tool, args)
        except BadValue as error:
            return Failed(error="BadArguments", message=str(error)) if asked else call
        if not pins:
            return call
        digest = self._digest(run, 1, tool, tool.version, args, pins=pins)
        return replace(call, digest=digest, operands=pins)

    async def _let_through(self, run: Run, tool: Tool, call: Call) -> Admitted:
        args = bytes(call.args)
        try:
            request = await self._before_start(run, tool, call.ref, call.digest, args)
        except BadValue as error:
            return Admitted(call=call, outcome=Failed(error="BadArguments", message=str(error)))
        except SignInFailed as error:
            return Admitted(call=call, outcome=Failed(error="SignInFailed", message=str(error)))
        return Admitted(call=call, request=request)

    async def _before_start(
        self, run: Run, tool: Tool, ref: str, digest: str, args: bytes
    ) -> HoldRequest | None:
        """Say what a call that may start asks before it does: a sign-in, or its very outcome."""
        wanted = None
        if tool.sign_in is not None:
            if self.sign_ins is None:
                raise SignInFailed(f"nobody can sign in at {tool.sign_in.provider!r} here")
            wanted = await self.sign_ins.missing(run, tool.sign_in)
        if wanted is not None:
            return HoldRequest(
                ref=ref,
                ruling=wanted.ruling,
                ask=wanted.ask,
                policy_version=self.policy.version,
            )
        with contained(f"the tool {tool.name!r}"):
            wanted = tool.ask(args)
        if wanted is None:
            return None
        return HoldRequest(
            ref=ref,
            ruling=at_risk(wanted.ruling, tool.risk),
            ask=wanted.ask,
            policy_version=self.policy.version,
            then="outcome",
            digest=ask_digest(
                project=run.project,
                run=run.id,
                call=digest,
                step=0,
                ask=codec.encode_ask(wanted.ask),
            ),
        )

    async def recheck(
        self,
        run: Run,
        row: CallRow,
        transcript: Transcript,
        *,
        tools: Mapping[str, Tool],
        checks: Sequence[Intervention] = (),
        records: Records | None = None,
        now: int = 0,
    ) -> Checked:
        """Rule again on a call that was let through earlier and is about to start."""
        tool = tools.get(row.tool)
        if tool is None:
            return Checked(outcome=Failed(error="UnknownTool", message=f"no tool {row.tool!r} now"))
        args = transcript.args[row.ref]
        before = transcript.operands.get(row.ref, ())
        upgraded = self._is_upgraded(run, row, tool, transcript)
        if upgraded is None:
            return Checked(broken=f"the arguments of {row.ref} are not what was decided on")
        policy = self.policy
        ruling = await self.rule(run, tool, args, checks, policy)
        if isinstance(ruling, Forbid):
            return Checked(outcome=Declined(reason=ruling.why, by="policy"))
        fresh = row.state is CallState.READY and not row.attempt
        # What came in doubt since the turn was taken counts as well.
        repeats = _doubt_of(run, transcript, tool.name, args) if fresh else ""
        if repeats and isinstance(ruling, Proceed):
            ruling = _repeating(tool)
        try:
            pins = await self._pin_again(tool, args, before, ruling)
        except BadValue as error:
            return Checked(outcome=Failed(error="BadArguments", message=str(error)))
        changed = what_changed(before, pins)
        approved = row.state is CallState.APPROVED
        signed = not approved or self.verified(run, row, transcript)
        if isinstance(ruling, Proceed) and (changed or not signed):
            # Nobody has to be asked, but somebody was, and has not allowed this.
            ruling = Require(approvers=transcript.approvers.get(row.ref, ()), risk=tool.risk)
        if isinstance(ruling, Proceed):
            return await self._start(run, tool, row, args)
        if row.state is CallState.READY and not (repeats or upgraded or changed):
            found = await self._covered(run, tool, args, ruling, pins)
            if found is not None:
                start = await self._start(run, tool, row, args)
                return replace(start, basis=found.basis, found=found)
        still = Still(why="its rules were changed, or the grant that covered it,")
        if approved and signed:
            still = await still_allowed(
                records or self.records, run, row, ruling, transcript, now=now
            )
        if not still.why and not (upgraded or changed):
            return replace(await self._start(run, tool, row, args), basis=still.basis)
        request = HoldRequest(
            ref=row.ref,
            ruling=ruling,
            policy_version=policy.version,
            duplicate_of=repeats,
            operands=pins,
        )
        if upgraded or changed:
            digest = self._digest(run, row.version + 1, tool, tool.version, args, pins=pins)
            request = replace(request, digest=digest, tool_version=tool.version)
        if fresh and not upgraded and (repeats or _is_in_order(run, row)):
            asked = self._digest(run, row.version, tool, tool.version, args, pins=pins)
            refused = _refused_before(run, tool, asked)
            return Checked(request=None if refused else request, outcome=refused)
        seen = bool(changed) and bool(before or approved)
        why = "its tool was changed" if upgraded else changed if seen else still.why
        return Checked(request=replace(request, ruling=_asked_again(ruling, why, signed=signed)))

    def _is_upgraded(
        self, run: Run, row: CallRow, tool: Tool, transcript: Transcript
    ) -> bool | None:
        """Tell whether a call was decided on with another version of its tool; None if it was not
        decided on at all as it is.
        """
        args, pins = transcript.args[row.ref], transcript.operands.get(row.ref, ())
        for version in (tool.version, transcript.tool_versions[row.ref]):
            if row.digest == self._digest(run, row.version, tool, version, args, pins=pins):
                return version != tool.version
        return None

    def verified(self, run: Run, row: CallRow, transcript: Transcript) -> bool:
        """Tell whether the yes that a call is to start with counts here. A sign-in is none: that
        somebody is signed in shows by itself.
        """
        if self.trust is None or row.ref not in transcript.settled:
            return True
        return self.trust.allows(run, row, transcript)

    async def _pin_again(
        self, tool: Tool, args: bytes, before: Sequence[OperandPin], ruling: Ruling
    ) -> tuple[OperandPin, ...]:
        """Look at the files of a call that is about to start, unless nobody is asked or was."""
        return await pin(tool, args) if before or not isinstance(ruling, Proceed) else ()

    async def _covered(
        self, run: Run, tool: Tool, args: bytes, ruling: Require, pins: Sequence[OperandPin]
    ) -> Found | None:
        """Find a grant that covers a call: none speaks of what is in files or secret, and none is
        signed.
        """
        if self.grants is None or pins or is_sealed(args) or self.trust is not None:
            return None
        return await self.grants.covering(run, tool, args, ruling)

    async def _start(self, run: Run, tool: Tool, row: CallRow, args: bytes) -> Checked:
        try:
            request = await self._before_start(run, tool, row.ref, row.digest, args)
        except BadValue as error:
            return Checked(outcome=Failed(error="BadArguments", message=str(error)))
        except SignInFailed as error:
            return Checked(outcome=Failed(error="SignInFailed", message=str(error)))
        return Checked(args=args, request=request)

    async def rule(
        self,
        run: Run,
        tool: Tool,
        args: bytes,
        more: Sequence[Intervention] = (),
        policy: Policy | None = None,
    ) -> Ruling:
        """Rule on a call by every rule there is."""
        policy = policy or self.policy
        flags = [] if tool.approval is None else [tool.approval]
        ruling = strictest(*flags)
        checks = [*([] if self._check is None else [self._check]), *more]
        if policy.rules or checks:
            facts = self._facts(run, tool, args)
            with contained("a rule"):
                ruling = policy.on(facts, ruling)
            for each in checks:
                ruling = strictest(ruling, await intervene(each, facts, self._patience_s))
        return at_risk(ruling, tool.risk) if isinstance(ruling, Require) else ruling

    def may_hold(self, tool: Tool, drivers: Iterable[Driver] = ()) -> bool:
        """Tell whether calls of a tool could be put to people at all: by its own flag, by a rule
        that names it, or by a check, of the app or of an agent that has it.
        """
        mine = [driver for driver in drivers if tool in driver.tools.values()]
        return (
            tool.approval is not None
            or self._check is not None
            or any(driver.check_for_intervention is not None for driver in mine)
            or any(rule.names(tool.name) for rule in self.policy.rules)
        )

    def doubt_ruling(
        self, run: Run, tool: Tool | None, name: str, args: bytes, *, asked: tuple[str, ...] = ()
    ) -> Require:
        """Whom to ask whether a call happened: those who could have allowed it. They are the ones
        who were `asked`; if nobody was, those whom the rules name.
        """
        title = f"Did {name} happen?"
        if tool is None:
            return Require(approvers=asked, title=title, editable=False)
        flags = [] if tool.approval is None else [tool.approval]
        with contained("a rule"):
            ruling = self.policy.on(self._facts(run, tool, args), *flags)
        found = ruling if isinstance(ruling, Require) else Require()
        return Require(
            approvers=asked or found.approvers,
            # To run it again is a decision like the first one.
            quorum=found.quorum,
            not_requester=found.not_requester,
            escalate_after_ms=found.escalate_after_ms,
            escalate_to=found.escalate_to,
            chain=found.chain,
            risk=tool.risk,
            title=title,
            editable=False,
        )

    def _facts(self, run: Run, tool: Tool, args: bytes) -> CallFacts:
        return CallFacts(
            tool=tool.name,
            args=mask(decode_value(args)),
            by=run.by,
            agent=run.agent,
            project=run.project,
            run_id=run.id,
            risk=tool.risk,
            lineage=run.lineage,
        )

    def _digest(
        self,
        run: Run,
        version: int,
        tool: Tool,
        tool_version: str,
        args: bytes,
        *,
        pins: Sequence[OperandPin] = (),
    ) -> str:
        return call_digest(
            project=run.project,
            run=run.id,
            version=version,
            tool=tool.name,
            tool_version=tool_version,
            args=args,
            operands=encode_pins(pins),
        )


def _asked_again(ruling: Require, why: str, *, signed: bool) -> Require:
    if signed:
        return replace(ruling, why=f"Asked again: {why} after it was allowed.")
    # Silence is not signed: it would allow in vain, again and again.
    return replace(unsilenced(ruling), why=UNSIGNED)


def _doubt_of(run: Run, transcript: Transcript, tool: str, args: bytes) -> str:
    """Find a call in doubt that this one would repeat, in this run or an earlier one of its thread:
    the same tool with the same bytes, whatever version of it was shown, and whatever its secrets.
    """
    return transcript.doubted(run).get((tool, blank(args)), "")


def _is_in_order(run: Run, row: CallRow) -> bool:
    # Calls that take their turn one after another are asked about when it comes.
    strand = run.strand_of(row.ref)
    return strand is not None and strand.siblings == "in_order"


def _refused_before(run: Run, tool: Tool, digest: str) -> Declined | None:
    before = equal_refusal(run, digest)
    if before is None or before.times < tool.asks_max:
        return None
    return Declined(reason="this very call was refused before in this run")


def _repeating(tool: Tool) -> Require:
    return Require(risk=tool.risk, why="It repeats a call whose outcome nobody knows.")


def clean_text(text: str) -> str:
    """Make text from outside storable: what is not a character becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
