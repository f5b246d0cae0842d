"""Where a call meets the policy. No tool runs anywhere else, and none without passing here.

Rule 1: the gate asks in order: known? arguments valid? refused before? rules, the tool's own flag,
`check_for_intervention`. The most strict answer wins.
Rule 2: any error around the gate means that the tool does not run: at worst a person is asked.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import msgspec

from sayso.domain import codec
from sayso.domain.call import Call, CallState, Declined, Failed, Outcome
from sayso.domain.digest import ask_digest, call_digest, decode_value
from sayso.domain.hold import Decision, SignIn, may_decide, resolve_approvers
from sayso.domain.policy import (
    CallFacts,
    Forbid,
    Policy,
    Proceed,
    Require,
    Ruling,
    at_risk,
    strictest,
)
from sayso.domain.run import CallRow, Run
from sayso.domain.secret import NOT_KEPT, blank, mask
from sayso.domain.standing import equal_refusal, says_yes
from sayso.domain.transcript import Transcript
from sayso.domain.value import CLOCK, Value
from sayso.domain.verbs import HoldRequest
from sayso.engine.context import Wanted
from sayso.engine.ports import AskedCall, Intervention, Tool
from sayso.engine.sealing import freeze
from sayso.engine.thread import in_thread
from sayso.engine.vault import Vault
from sayso.errors import BadKeys, BadValue, SignInFailed, contained

PATIENCE_S = 5.0
"""How long `check_for_intervention` may take before the answer is: ask a person."""
TEXT_MAX = 4000
"""How much of unusable arguments is kept for people to see."""


class Admitted(Value, frozen=True, kw_only=True):
    """A call after the gate: held if there is a request, over if there is an outcome, else free."""

    call: Call
    request: HoldRequest | None = None
    outcome: Outcome | None = None


class Checked(Value, frozen=True, kw_only=True):
    """A call that is about to start: held again, over, or free to start on these bytes."""

    args: bytes = b""
    request: HoldRequest | None = None
    outcome: Outcome | None = None
    broken: str = ""
    """Why the run cannot be trusted any more."""


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
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._policy = policy or Policy()
        self.sign_ins: SignIns | None = None
        """Knows who is signed in where; set by `app` once the store is open."""
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
        digest = call_digest(
            project=run.project,
            run=run.id,
            version=1,
            tool=tool.name,
            tool_version=tool.version,
            args=args,
        )
        call = Call(
            ref=ref,
            tool=tool.name,
            args=msgspec.Raw(args),
            digest=digest,
            tool_version=tool.version,
            given=given,
        )
        if (refused := _refused_before(run, tool, digest)) is not None:
            return Admitted(call=call, outcome=refused)
        policy = self.policy
        ruling = await self.rule(run, tool, args, checks, policy)
        if isinstance(ruling, Forbid):
            return Admitted(call=call, outcome=Declined(reason=ruling.why, by="policy"))
        repeats = _doubt_of(run, transcript, tool.name, args)
        if repeats and isinstance(ruling, Proceed):
            ruling = _repeating(tool)
        if isinstance(ruling, Proceed):
            return await self._let_through(run, tool, call)
        request = HoldRequest(
            ref=ref,
            ruling=ruling,
            policy_version=policy.version,
            duplicate_of=repeats,
        )
        return Admitted(call=call, request=request)

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
    ) -> Checked:
        """Rule again on a call that was let through earlier and is about to start."""
        tool = tools.get(row.tool)
        if tool is None:
            return Checked(outcome=Failed(error="UnknownTool", message=f"no tool {row.tool!r} now"))
        args = transcript.args[row.ref]
        asked_with = transcript.tool_versions[row.ref]
        if row.digest == self._digest(run, row.version, tool, tool.version, args):
            upgraded = False
        elif row.digest == self._digest(run, row.version, tool, asked_with, args):
            upgraded = True
        else:
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
        if isinstance(ruling, Proceed):
            return await self._start(run, tool, row, args)
        approved = row.state is CallState.APPROVED
        decision = transcript.decisions.get(row.ref) if approved else None
        if decision is not None and not upgraded and stands(run, ruling, decision):
            return await self._start(run, tool, row, args)
        if fresh and not upgraded and (repeats or _is_in_order(run, row)):
            if (refused := _refused_before(run, tool, row.digest)) is not None:
                return Checked(outcome=refused)
            request = HoldRequest(
                ref=row.ref,
                ruling=ruling,
                policy_version=policy.version,
                duplicate_of=repeats,
            )
            return Checked(request=request)
        why = "its tool was changed" if upgraded else "its rules were changed"
        request = HoldRequest(
            ref=row.ref,
            ruling=msgspec.structs.replace(ruling, why=f"Asked again: {why} after it was allowed."),
            policy_version=policy.version,
            digest=self._digest(run, row.version + 1, tool, tool.version, args) if upgraded else "",
            tool_version=tool.version if upgraded else "",
        )
        return Checked(request=request)

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
                ruling = strictest(ruling, await self._intervene(each, facts))
        return at_risk(ruling, tool.risk) if isinstance(ruling, Require) else ruling

    def doubt_ruling(
        self, run: Run, tool: Tool | None, name: str, args: bytes, *, asked: tuple[str, ...] = ()
    ) -> Require:
        """Whom to ask whether a call happened: those who could have allowed it. They are the ones
        who were `asked`; if nobody was, those whom the rules name.
        """
        title = f"Did {name} happen?"
        if tool is None:
            return Require(approvers=asked, title=title, editable=False)
        if not asked:
            flags = [] if tool.approval is None else [tool.approval]
            with contained("a rule"):
                ruling = self.policy.on(self._facts(run, tool, args), *flags)
            asked = ruling.approvers if isinstance(ruling, Require) else ()
        return Require(approvers=asked, risk=tool.risk, title=title, editable=False)

    async def _intervene(self, check: Intervention, facts: CallFacts) -> Ruling:
        asked = asyncio.ensure_future(_answer(check, facts))
        asked.add_done_callback(_forget)
        try:
            # A check that ignores its cancellation must not be waited for.
            await asyncio.wait({asked}, timeout=self._patience_s)
            if not asked.done():
                return Require(why=f"The check did not answer within {self._patience_s:g} seconds.")
        finally:
            asked.cancel()
        if asked.cancelled():
            return Require(why="The check was cancelled.")
        if (error := asked.exception()) is not None:
            return Require(why=f"The check failed: {type(error).__name__}: {error}.")
        answer = asked.result()
        if answer is True:
            return Require(why="The check asks for a person.")
        if answer is False:
            return Proceed()
        if isinstance(answer, Proceed | Require | Forbid):
            return answer
        if inspect.iscoroutine(answer):
            answer.close()
        return Require(why=f"The check answered {type(answer).__name__}, not a bool or a ruling.")

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

    def _digest(self, run: Run, version: int, tool: Tool, tool_version: str, args: bytes) -> str:
        return call_digest(
            project=run.project,
            run=run.id,
            version=version,
            tool=tool.name,
            tool_version=tool_version,
            args=args,
        )


def _doubt_of(run: Run, transcript: Transcript, tool: str, args: bytes) -> str:
    """Find a call in doubt that this one would repeat, in this run or an earlier one of its thread:
    the same tool with the same bytes, whatever version of it was shown, and whatever its secrets.
    """
    return transcript.doubted(run).get((tool, blank(args)), "")


def stands(run: Run, ruling: Require, decision: Decision) -> bool:
    """Tell whether a yes given earlier still counts under the rules of now."""
    if not says_yes(decision.verdict):
        return False
    if decision.by == CLOCK:
        return ruling.on_silence == "approve"
    return may_decide(resolve_approvers(ruling, run.by), decision.by)


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


async def _answer(check: Intervention, facts: CallFacts) -> Any:
    with contained("it"):
        if inspect.iscoroutinefunction(check):
            return await check(facts)
        return await in_thread(partial(check, facts), {}, "check_for_intervention")


def _forget(asked: asyncio.Future[Any]) -> None:
    if not asked.cancelled():
        asked.exception()  # Whoever wanted to know has been told, or has gone.
