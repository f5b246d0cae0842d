"""Tools: functions that an agent may call, with what Sayso must know of each.

Rule 1: a function stays what it was. `await pay(...)` in a test calls it, with no gate.
Rule 2: what could not work is refused where the tool is made, as `BadTool`.
Rule 3: pydantic is imported when a schema is first needed. Calling a tool whose parameters are
JSON-native needs none, because its arguments were validated before anybody was asked.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from sayso.agents.answered import Answered, read_answered
from sayso.agents.move import Instance
from sayso.agents.operand import name_files
from sayso.agents.signature import Signature, check_kinds, read_signature
from sayso.domain.call import Effect
from sayso.domain.digest import decode_value
from sayso.domain.hold import SignIn
from sayso.domain.operand import OperandFile
from sayso.domain.question import Question
from sayso.domain.ruling import HIGH, RISKS, Require, duration_ms, require
from sayso.engine.context import Suspend, Wanted
from sayso.engine.ports import Context, Happened, NotHappened, ToolSpec
from sayso.engine.result import keep_result
from sayso.errors import BadPolicy, BadProvider, BadTool, BadValue

if TYPE_CHECKING:
    from sayso.agents.probe import Probe
    from sayso.agents.schema import Arguments

P = ParamSpec("P")
R = TypeVar("R")

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What every model provider accepts as a name."""


_PARTS = ("name", "version", "effect", "spec", "freeze", "call", "probe")


def check_tool(thing: Any) -> None:
    """Refuse what is no tool. A plain function is none: it would run without anybody being asked,
    and nothing in the program would say so.
    """
    if all(hasattr(thing, part) for part in _PARTS):
        return
    if callable(thing):
        name = getattr(thing, "__name__", repr(thing))
        raise BadTool(
            f"{name!r} is a plain function: make it a tool with @tool, or with "
            "@tool(approval=True) to have a person asked before every call"
        )
    raise BadTool(f"{thing!r} is not a tool: make one of a function with @tool")


class FunctionTool(Generic[P, R]):
    """A function that agents can use; call it directly to run it without a gate."""

    def __init__(
        self,
        fn: Callable[P, R],
        *,
        name: str,
        description: str,
        version: str,
        effect: Effect,
        risk: str,
        timeout_ms: int,
        approval: Require | None,
        asks_max: int,
        probe: Callable[..., Any] | None,
        scope: Mapping[str, Any] | None,
        durable: bool = False,
        answered: Answered | None = None,
        sign_in: SignIn | None = None,
        effect_declared: bool = True,
    ) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._probe = probe
        self.name = name
        self.description = description
        self.version = version
        self.effect = effect
        self.effect_declared = effect_declared
        self.risk = risk
        self.timeout_ms = timeout_ms
        self.approval = approval
        self.asks_max = asks_max
        self.durable = durable
        self.sign_in = sign_in
        self._answered = answered
        check_kinds(fn, name)
        self._read: Signature | None = None
        # A type that is declared further down the module is looked up at first use.
        with contextlib.suppress(NameError):
            self._read = read_signature(fn, name, scope)
        self._validator: Arguments | None = None
        if self._read is not None:
            self.check()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._fn(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name!r}>"

    @property
    def has_probe(self) -> bool:
        """Whether its target can be asked if a call happened."""
        return self._probe is not None

    @property
    def takes_secrets(self) -> bool:
        """Whether any of its arguments is a secret, or has one in it."""
        return not self._signature.native and self._arguments.secret

    def check(self) -> None:
        """Resolve what was not there yet when the tool was made, or raise `BadTool`."""
        if self._probe is not None:
            self._make_probe(self._probe)
        assert self._signature is not None

    def spec(self) -> ToolSpec:
        """Describe it to a model."""
        return ToolSpec(
            name=self.name, description=self.description, parameters=self._arguments.schema
        )

    def freeze(self, args: str | bytes) -> bytes:
        """Validate arguments and encode them once and for all; `BadValue` if they do not fit."""
        if self._signature.parameters:
            self._object(decode_value(args))
            return self._arguments.freeze(args)
        # Some models send nothing, or null, where there is nothing to send.
        value = decode_value(args) if args.strip() else None
        if value is None or value == {}:
            return b"{}"
        self._object(value)
        return self._arguments.freeze(args)

    def operands(self, args: bytes) -> tuple[OperandFile, ...]:
        """List the files that frozen arguments name; none if it declares none."""
        marked = self._signature.operands
        if not marked:
            return ()
        given = self._object(decode_value(args))
        if missing := [at for at, _ in marked if at not in given]:
            # Frozen arguments have all of them. An alias would keep a file from being looked at.
            raise BadValue(f"{missing[0]!r} names a file, and is not among the arguments")
        return tuple([file for at, how in marked for file in name_files(at, how, given[at])])

    def ask(self, args: bytes) -> Wanted | None:
        """Say what it asks instead of having a body; None if it has one."""
        del args
        return None if self._answered is None else self._answered.instead

    async def call(self, ctx: Context, args: bytes) -> bytes | Suspend:
        """Run the tool on what these bytes parse to; return the encoded result, or what it asks."""
        kwargs = self._kwargs(args)
        kwargs.update(dict.fromkeys(self._signature.contexts, ctx))
        kwargs.update({one: Instance(ctx, kind) for one, kind in self._signature.instances})
        try:
            result = await _run(self._fn, kwargs, self.name)
        except KeyboardInterrupt as error:
            if ctx.body is None:
                raise  # Whoever made the attempt says what it means.
            # What a durable body has done is in its journal: this is how it ended.
            raise RuntimeError(f"{self.name} raised KeyboardInterrupt") from error
        if isinstance(result, Suspend):
            return result
        if ctx.suspends:
            # Whoever called it and forgot to return it must not find that nobody was asked.
            return _forgotten(self.name, ctx.suspends, result)
        if self._answered is not None:
            return self._answered.after(result)
        return keep_result(result)

    async def probe(self, ctx: Context, args: bytes) -> Happened | NotHappened | None:
        """Ask the target whether this call happened; None if it does not know.

        What the probe raises comes out as it is: the target was not reached.
        """
        if self._probe is None:
            return None
        probe = self._make_probe(self._probe)
        found = await _run(
            probe.fn, probe.kwargs(ctx, self._kwargs(args)), f"the probe of {self.name}"
        )
        match found:
            case Happened():
                return Happened(result=decode_value(keep_result(found.result)))
            case NotHappened():
                return found
            case _:
                return None

    @property
    def _signature(self) -> Signature:
        if self._read is None:
            try:
                self._read = read_signature(self._fn, self.name)
            except NameError as error:
                raise BadTool(
                    f"an annotation of the tool {self.name!r} cannot be resolved: {error}"
                ) from None
        return self._read

    @property
    def _arguments(self) -> Arguments:
        if self._validator is None:
            from sayso.agents.schema import Arguments

            read = self._signature
            self._validator = Arguments(self.name, read.parameters, native=read.native)
        return self._validator

    def _make_probe(self, probe: Callable[..., Any]) -> Probe:
        arguments = frozenset(parameter.name for parameter in self._signature.parameters)
        from sayso.agents.probe import Probe

        return Probe(self.name, probe, arguments)

    def _kwargs(self, args: bytes) -> dict[str, Any]:
        if not self._signature.native:
            return self._arguments.parse(args)
        kwargs = self._object(decode_value(args))
        parameters = self._signature.parameters
        if kwargs.keys() != {parameter.name for parameter in parameters}:
            # Defaults were filled in when these bytes were frozen: the tool has changed since, and
            # its body must not run with what nobody was shown.
            raise BadValue(f"these are not arguments of the tool {self.name!r}")
        return kwargs

    def _object(self, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise BadValue(
                f"the arguments of {self.name!r} are one JSON object, not {type(value).__name__}"
            )
        return cast("dict[str, Any]", value)


@overload
def tool(fn: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    approval: bool = ...,
    effect: str | None = ...,
    risk: str = ...,
    within: str | float | None = ...,
    on_silence: str = ...,
    on_reject: str = ...,
    approvers: Iterable[str] | None = ...,
    quorum: int = ...,
    reject_quorum: int = ...,
    not_requester: bool = ...,
    start_by: str | float | None = ...,
    remind_every: str | float | None = ...,
    escalate_after: str | float | None = ...,
    escalate_to: Iterable[str] | None = ...,
    escalate: Iterable[tuple[str | float, str | Iterable[str]]] = ...,
    editable: bool = ...,
    title: str = ...,
    why: str = ...,
    timeout: str | float = ...,
    probe: Callable[..., Any] | None = ...,
    asks_max: int = ...,
    version: str = ...,
    name: str = ...,
    description: str = ...,
    durable: bool = ...,
    blocking: bool = ...,
    client: bool = ...,
    asks: str | Question | None = ...,
    sign_in: str | SignIn | None = ...,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function. Its signature is what models see; its docstring, why.

    `approval=True` asks a person before every call, in the words of the options after it: who
    (`approvers`), how many of them (`quorum`, `reject_quorum`), whether whoever asked may be one
    (`not_requester`), how long they have (`within`), what silence means (`on_silence`), who is
    asked as well by then (`escalate_after` and `escalate_to`, `escalate`), how long a yes is good
    (`start_by`), what the run does after a no (`on_reject`), whether they may change the arguments
    (`editable`).
    `effect` says what a second call would do: `"none"`, `"keyed"` or `"once"`, the default.
    `probe` asks the target whether a call happened: it returns `Happened`, `NotHappened` or None.

    `durable=True`: the body takes steps and asks inside (`ctx.step`, `ctx.ask`). `blocking=True`:
    the body prepares, and somebody's answer is the outcome (`asks` says to which question); without
    `approval` the options above say who answers, and by when.
    `client=True`: whoever started the run executes the call. `sign_in` names a provider where
    whoever started the run has to be signed in; its token is in `ctx.tokens`.
    """
    # Annotations may name what is local to the caller.
    frame = sys._getframe(1)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    scope = None if frame.f_locals is frame.f_globals else dict(frame.f_locals)
    if fn is not None:
        return make_tool(fn, scope=scope, **options)
    return functools.partial(make_tool, scope=scope, **options)


def make_tool(
    fn: Callable[..., Any],
    *,
    scope: Mapping[str, Any] | None,
    approval: bool = False,
    effect: str | None = None,
    risk: str = "medium",
    timeout: str | float = "5m",
    probe: Callable[..., Any] | None = None,
    asks_max: int = 1,
    version: str = "1",
    name: str = "",
    description: str = "",
    durable: bool = False,
    blocking: bool = False,
    client: bool = False,
    asks: str | Question | None = None,
    sign_in: str | SignIn | None = None,
    **words: Any,
) -> FunctionTool[..., Any]:
    """Make a tool of a function whose annotations may also name what is in `scope`. `words` say who
    is asked, and how.
    """
    name = _name(fn, name)
    if unknown := words.keys() - _SILENT_WORDS.keys():
        raise TypeError(f"the tool {name!r} got what no tool knows: {', '.join(sorted(unknown))}")
    _check_options(name, risk, asks_max, version)
    _check_durable(name, fn, durable=durable, answered=blocking or client)
    said = {} if approval is True else {**words, "risk": risk, "editable": False}
    answered = read_answered(name, said, blocking=blocking, client=client, asks=asks)
    return FunctionTool(
        fn,
        name=name,
        description=description or _summary(fn),
        version=version,
        effect=_effect(name, effect, risk),
        risk=risk,
        timeout_ms=_timeout_ms(name, timeout),
        approval=_approval(name, approval, risk, {} if answered and not approval else words),
        asks_max=asks_max,
        probe=probe,
        scope=scope,
        durable=durable,
        answered=answered,
        sign_in=_sign_in(name, sign_in),
        effect_declared=effect is not None,
    )


_SILENT_WORDS = {
    "approvers": None,
    "quorum": 1,
    "reject_quorum": 1,
    "not_requester": False,
    "within": None,
    "on_silence": "reject",
    "start_by": None,
    "remind_every": None,
    "escalate_after": None,
    "escalate_to": None,
    "escalate": (),
    "on_reject": "tell",
    "editable": True,
    "title": "",
    "why": "",
}
"""What can be said of who is asked, and what it is if nothing is said."""


def _approval(name: str, approval: bool, risk: str, words: dict[str, Any]) -> Require | None:  # noqa: FBT001
    if approval is True:
        return require(risk=risk, rule=f"@tool {name}", **words)
    if approval is not False:  # pyright: ignore[reportUnnecessaryComparison]
        raise BadTool(f"approval of the tool {name!r} is True or False, not {approval!r}")
    said = [word for word, silent in _SILENT_WORDS.items() if words.get(word, silent) != silent]
    if said:
        raise BadTool(f"{', '.join(said)} of the tool {name!r}: these need approval=True")
    return None


def _name(fn: Any, name: str) -> str:
    if isinstance(fn, FunctionTool):
        raise BadTool(f"{fn!r} is a tool already")
    if not callable(fn) or isinstance(fn, type):
        raise BadTool(f"{fn!r} is not a function")
    name = name or getattr(fn, "__name__", "")
    if not NAME.fullmatch(name):
        raise BadTool(
            f"{name!r} cannot name a tool: give {fn!r} a name= of up to 64 letters, digits, "
            "underscores and hyphens"
        )
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise BadTool(f"the tool {name!r} is a generator: a call has one result")
    return name


def _check_options(name: str, risk: str, asks_max: int, version: str) -> None:
    if risk not in RISKS:
        raise BadTool(f"{risk!r} is no risk of the tool {name!r}: use one of {', '.join(RISKS)}")
    if type(asks_max) is not int or asks_max < 1:
        raise BadTool(f"asks_max of the tool {name!r} is a number from 1 on, not {asks_max!r}")
    if type(version) is not str or not version:
        raise BadTool(f"the version of the tool {name!r} is a text, not {version!r}")


def _check_durable(name: str, fn: Any, *, durable: bool, answered: bool) -> None:
    if durable is False:
        return
    if durable is not True:  # pyright: ignore[reportUnnecessaryComparison]
        raise BadTool(f"durable of the tool {name!r} is True or False, not {durable!r}")
    if not inspect.iscoroutinefunction(fn):
        raise BadTool(f"the tool {name!r} is durable, so its body is an `async def`")
    if answered:
        raise BadTool(f"the tool {name!r} is durable: it asks inside its body, with `ctx.ask`")


def _effect(name: str, effect: str | None, risk: str) -> Effect:
    if effect is None:
        if risk in HIGH:
            raise BadTool(
                f"the tool {name!r} has {risk} risk, so say what a second call would do: "
                "effect='none', 'keyed' or 'once'"
            )
        return Effect.ONCE
    try:
        return Effect(effect)
    except ValueError:
        raise BadTool(
            f"{effect!r} is no effect of the tool {name!r}: use 'none', 'keyed' or 'once'"
        ) from None


def _sign_in(name: str, sign_in: Any) -> SignIn | None:
    if isinstance(sign_in, str):
        sign_in = SignIn(provider=sign_in)
    if sign_in is None:
        return None
    if not isinstance(sign_in, SignIn):
        raise BadTool(
            f"sign_in of the tool {name!r} is the name of a provider or a SignIn, not {sign_in!r}"
        )
    try:
        from sayso.agents.oauth_provider import read_scopes

        scopes = read_scopes(sign_in.provider, sign_in.scopes)
    except BadProvider as error:
        raise BadTool(f"sign_in of the tool {name!r}: {error}") from None
    return SignIn(provider=sign_in.provider, scopes=scopes)


def _timeout_ms(name: str, timeout: str | float) -> int:
    try:
        return duration_ms(timeout)
    except BadPolicy as error:
        raise BadTool(f"the timeout of the tool {name!r}: {error}") from None


def _summary(fn: Callable[..., Any]) -> str:
    paragraph = (inspect.getdoc(fn) or "").strip().split("\n\n", 1)[0]
    return " ".join(paragraph.split())


def _forgotten(name: str, made: list[Suspend], result: Any) -> Suspend:
    if result is None and len(made) == 1:
        return made[0]
    raise BadTool(
        f"the body of {name!r} called ctx.suspend() and went on: end it with "
        "`return ctx.suspend(...)`, once"
    )


async def _run(fn: Callable[..., Any], kwargs: dict[str, Any], name: str) -> Any:
    try:
        if inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(type(fn).__call__):
            return await fn(**kwargs)
        from sayso.engine.thread import in_thread

        result = await in_thread(fn, kwargs, name)
        return await result if inspect.isawaitable(result) else result
    except SystemExit as error:
        # Code that was written for a command line ends the process; it must not end the worker.
        raise RuntimeError(f"{name} called sys.exit({error.code!r})") from error
