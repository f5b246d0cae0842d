"""What a tool is told of its call, and what it may ask from inside its body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.hold import (
    Answered,
    Approval,
    Ask,
    Decision,
    Delegation,
    Errored,
    Expired,
    External,
    Rejected,
    Withdrawn,
    check_silent_answer,
)
from sayso.domain.question import Question
from sayso.domain.ruling import Require, require
from sayso.domain.secret import Veil
from sayso.domain.standing import says_yes
from sayso.domain.value import Principal, Value
from sayso.errors import BadAwait, BadQuestion, BadValue, NotAnswered, SignInFailed

ASKS_MAX = 128
"""No body asks more at once: each is a hold that somebody has to look at."""


class Wanted(Value, frozen=True, kw_only=True):
    """Something that a body wants to know, and of whom."""

    ask: Ask
    ruling: Require = Require()


class Suspend(Value, frozen=True, kw_only=True):
    """Returned by a body to say: the answer to this is my outcome. Made by `Context.suspend`."""

    wanted: Wanted


class Said(Value, frozen=True, kw_only=True):
    """What a person said to an approval inside a body; true if it was yes."""

    approved: bool
    reason: str = ""
    by: str = ""

    def __bool__(self) -> bool:
        return self.approved


class Body(Protocol):
    """What stands behind a durable body: the journal that it goes on from."""

    async def take_step(
        self, name: str, fn: Callable[..., Any], args: Sequence[Any], effect: str
    ) -> Any:
        """Take a step once and for all, or give what it gave before."""
        ...

    async def put(self, wanted: Sequence[Wanted]) -> list[Decision]:
        """Ask, all in one suspension, and wait for every answer."""
        ...

    def reveal(self, verdict: Answered) -> Any:
        """Give what was answered, also if it is sealed."""
        ...


class Tokens(dict[str, str]):
    """Access tokens by provider. They are given to whoever asks for one, and shown to nobody."""

    def __repr__(self) -> str:
        return f"Tokens({', '.join(self)})"

    def __missing__(self, provider: str) -> str:
        raise SignInFailed(
            f"there is no token of {provider!r}: the tool names it with @tool(sign_in=...), and "
            "whoever started the run has to be signed in there still"
        )


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool is told of its call. A parameter annotated with this is filled in by Sayso.

    The methods that are awaited are for bodies of `@tool(durable=True)`, and are awaited there from
    the body itself: one at a time, never inside a step, a task or a group.
    """

    run_id: str
    call_id: str
    key: str
    """The same for every attempt of this call, and for no other: give it to targets that
    deduplicate by key.
    """
    attempt: int
    by: Principal
    """Who started the run; for a command, who invoked it."""
    agent: str
    project: str
    thread: str = ""
    deps: Any = None
    """What was given to `Sayso(deps=...)`."""
    strand: str = "main"
    """The line of thought that the call belongs to."""
    body: Body | None = None
    moves: list[Any] = []
    """What the call changes in its run beside its outcome; it counts only if the call returns."""
    suspends: list[Suspend] = []
    """What `suspend` has made. One that is not returned is a mistake, never an outcome."""
    data: bytes | None = None
    """What the agent keeps of the strand."""
    tokens: Tokens = msgspec.field(default_factory=Tokens)
    """Access tokens of the providers that the tool signs in at. Use one inside a step rather than
    as an argument of it: by the time the body goes on, it may be another one.
    """

    files: Callable[[str], bytes] | None = None
    """Reads the files that the call names."""

    def operand(self, name: str, at: int | None = None) -> bytes:
        """Read the file that an argument names, marked with `Operand()`; of a list, the one `at`.

        If a person was asked about the call, these are the bytes that were allowed: read once and
        compared as they are. Raise `NotDone` if they differ, `FileNotFoundError` if there is none.
        """
        if self.files is None:
            raise BadValue(f"this context is of no call, so {name!r} names no file")
        return self.files(name if at is None else f"{name}[{at}]")

    async def step(
        self, name: str, fn: Callable[..., Any], *args: Any, effect: str = "once"
    ) -> Any:
        """Call `fn(*args)` as a step that never runs again once it has an outcome.

        `effect` says what a second start would do, as for a tool. Raise `StepFailed` if it failed.
        """
        return await self._durable.take_step(name, fn, args, effect)

    async def ask(self, question: str | Question, **options: Any) -> Any:
        """Ask a person, and give the answer. The process need not live until then.

        Takes what `question()` takes, and who is asked as a tool does: `approvers`, `within`,
        `on_silence`, `escalate_to`, `title`, `why`, `risk` and so on. With `on_silence="answer"`
        silence gives the question's default. Raise `NotAnswered` if there is no answer: declined,
        expired or withdrawn.
        """
        return (await self.ask_all([_question(question, options)]))[0]

    async def ask_all(self, wanted: Iterable[str | Question | Wanted]) -> list[Any]:
        """Ask several things at once, and give the answers in the same order."""
        found = [one if isinstance(one, Wanted) else _question(one, {}) for one in wanted]
        if not found:
            raise BadValue("ask_all needs at least one question")
        if len(found) > ASKS_MAX:
            raise BadValue(f"ask_all asks at most {ASKS_MAX} questions, not {len(found)}")
        decisions = await self._durable.put(found)
        return [self._value(decision) for decision in decisions]

    async def approval(self, title: str, *, why: str = "", **options: Any) -> Said:
        """Ask a person to say yes or no, inside the body."""
        ruling = require(title=title, why=why, editable=False, **options)
        (decision,) = await self._durable.put([Wanted(ask=Approval(), ruling=ruling)])
        verdict = decision.verdict
        reason = verdict.reason if isinstance(verdict, Rejected) else ""
        return Said(approved=says_yes(verdict), reason=reason or decision.word, by=str(decision.by))

    async def external(self, reason: str = "", metadata: Any = None, **options: Any) -> Any:
        """Wait until something outside reports; give what it reports."""
        ask = External(reason=reason, metadata=_raw(metadata))
        ruling = require(title=reason, editable=False, outside=True, answered=True, **options)
        (decision,) = await self._durable.put([Wanted(ask=ask, ruling=ruling)])
        return self._value(decision)

    async def spawn(self, agent: str, input: str) -> Any:
        """Let another agent do something in a run of its own, and give its output."""
        return (await self.spawn_all([(agent, input)]))[0]

    async def spawn_all(self, tasks: Iterable[tuple[str, str]]) -> list[Any]:
        """Let agents work beside each other, and give their outputs in the same order.

        Raise `NotAnswered` if one of them failed or was cancelled.
        """
        decisions = await self._delegate(tasks)
        return [self._value(decision) for decision in decisions]

    async def spawned(self, tasks: Iterable[tuple[str, str]]) -> list[Answered | Errored]:
        """Like `spawn_all`, but an agent that failed says so in its place."""
        verdicts = [decision.verdict for decision in await self._delegate(tasks)]
        return [verdict for verdict in verdicts if isinstance(verdict, Answered | Errored)]

    async def _delegate(self, tasks: Iterable[tuple[str, str]]) -> list[Decision]:
        asks = [Delegation(run="", agent=agent, input=text) for agent, text in tasks]
        if not asks:
            raise BadValue("spawn_all needs at least one task")
        return await self._durable.put([Wanted(ask=ask) for ask in asks])

    def suspend(
        self,
        question: str | Question | None = None,
        *,
        reason: str = "",
        metadata: Any = None,
        **options: Any,
    ) -> Suspend:
        """Say that somebody's answer is this call's outcome: `return ctx.suspend(...)`.

        Without a question whatever is sent is the outcome; `metadata` goes along to whoever sends.
        """
        if question is not None:
            wanted = _question(question, options)
            if isinstance(wanted.ask, Question) and wanted.ask.sensitive:
                raise BadQuestion(
                    "nobody could read a sensitive answer that is the outcome of a call: ask for "
                    "it in a durable body, with ctx.ask()"
                )
        else:
            ask = External(reason=reason, metadata=_raw(metadata))
            ruling = require(title=reason, editable=False, outside=True, answered=True, **options)
            wanted = Wanted(ask=ask, ruling=ruling)
        self.suspends.append(Suspend(wanted=wanted))
        return self.suspends[-1]

    @property
    def _durable(self) -> Body:
        if self.body is None:
            raise BadAwait("only the body of a tool made with @tool(durable=True) can wait")
        return self.body

    def _value(self, decision: Decision) -> Any:
        match decision.verdict:
            case Answered() as verdict:
                return self._durable.reveal(verdict)
            case Expired(answer=silent) if silent is not None:
                return decode_value(bytes(silent))
            case _:
                pass
        raise NotAnswered(f"there is no answer: {_why(decision)}", decision=decision)


def discreet(wanted: Wanted, veil: Veil) -> Wanted:
    """Take what a body was given in secret out of what it asks. `BadValue` if that is for a program
    or a model, which would go on with the mask in its place.
    """
    match wanted.ask:
        case Question(text=text) as ask:
            ask = msgspec.structs.replace(ask, text=veil.text(text))
        case External(reason=reason, metadata=metadata) as ask:
            if metadata is not None and veil.covers(bytes(metadata)):
                raise BadValue("the metadata has a secret in it, which would be in the journal")
            ask = msgspec.structs.replace(ask, reason=veil.text(reason))
        case Delegation(input=text) as ask:
            if veil.text(text) != text:
                raise BadValue("what is said to another agent has a secret in it: leave it out")
        case ask:
            pass
    title, why = veil.text(wanted.ruling.title), veil.text(wanted.ruling.why)
    return Wanted(ask=ask, ruling=msgspec.structs.replace(wanted.ruling, title=title, why=why))


_OF_HOLD = (
    "approvers",
    "not_requester",
    "within",
    "on_silence",
    "remind_every",
    "escalate_after",
    "escalate_to",
    "escalate",
    "title",
    "why",
    "risk",
    "on_reject",
)


def _question(question: str | Question, options: dict[str, Any]) -> Wanted:
    said = {name: options[name] for name in _OF_HOLD if name in options}
    rest = {name: value for name, value in options.items() if name not in said}
    if isinstance(question, Question):
        if rest:
            raise BadValue(f"{', '.join(rest)}: give these to question() itself")
        made = question
    else:
        from sayso.engine.form import make_form_question

        made = make_form_question(question, **rest)
    said.setdefault("title", made.text[:200])
    ruling = require(editable=False, answered=True, **said)
    check_silent_answer(made, ruling)
    return Wanted(ask=made, ruling=ruling)


def _why(decision: Decision) -> str:
    match decision.verdict:
        case Rejected(reason=why) | Withdrawn(reason=why) | Errored(message=why) if why:
            return f"{decision.word} by {decision.by}: {why}"
        case _:
            return f"{decision.word} by {decision.by}"


def _raw(value: Any) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(encode_value(value))
