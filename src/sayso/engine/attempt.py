"""One attempt of a call, and what can be said about it afterwards.

Rule: what was started and then lost from sight is not a failure. For a tool that acts once, a
timeout, a cancellation, a lost connection or a server that broke down means that nobody knows. A
keyed one starts again under its key: told of a failure, a model would repeat it under another.
"""

from __future__ import annotations

import asyncio
import errno
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from sayso.domain.call import Effect, Failed, Outcome, Returned
from sayso.domain.digest import encode_value
from sayso.domain.secret import Veil
from sayso.domain.value import Value
from sayso.engine.context import Context, Suspend, Wanted, discreet
from sayso.engine.gate import clean_text
from sayso.engine.going import Begun, Going
from sayso.engine.ports import Happened, NotHappened, Tool
from sayso.errors import BadValue, NotDone, contained, describe

MESSAGE_MAX = 2000
PROBE_S = 30.0
_NOTHING_SECRET = Veil()


class Done(Value, frozen=True, kw_only=True):
    """The attempt has an outcome."""

    outcome: Outcome
    why: str = ""
    moves: tuple[Any, ...] = ()
    """What the call changes in its run."""


class Void(Value, frozen=True, kw_only=True):
    """The attempt had no effect, or one that may be repeated: the call may start again."""

    why: str
    lost: bool = False
    """Whether it may have had one."""


class Doubt(Value, frozen=True, kw_only=True):
    """Nobody knows whether the attempt had its effect."""

    why: str
    probe: str = ""
    may_live: bool = False
    """Whether it may still be under way."""


class StepDoubt(Value, frozen=True, kw_only=True):
    """Nobody knows whether the step that a body was at had its effect."""

    why: str
    may_live: bool = False


class Parked(Value, frozen=True, kw_only=True):
    """The body is not in memory any more, and may go on from the journal."""

    why: str
    again: bool = False
    """Whether the step that it was at may be taken again."""


class Asked(Value, frozen=True, kw_only=True):
    """The body has prepared what is to be asked; the answer is the outcome."""

    wanted: Wanted


Result = Done | Void | Doubt | StepDoubt | Parked | Asked


async def run_attempt(
    tool: Tool,
    ctx: Context,
    args: bytes,
    veil: Veil = _NOTHING_SECRET,
    going: Going | None = None,
) -> Result:
    """Call the tool. Never raises, but for the end of the process itself.

    What `veil` knows is in nothing that the tool says.
    """
    begun = Begun(_call(tool, ctx, args))
    # Nobody looks at one that was given up, and what it raises then must not be logged.
    begun.task.add_done_callback(_forget)
    if going is not None:
        going.add(ctx.call_id, begun)
    result = await _outcome(tool, ctx, begun, veil)
    if isinstance(result, Doubt) and not await begun.ends_at_once():
        return msgspec.structs.replace(result, may_live=True)
    return result


async def _outcome(
    tool: Tool, ctx: Context, begun: Begun[bytes | Suspend | _Interrupted], veil: Veil
) -> Result:
    body = begun.task
    try:
        done, _ = await asyncio.wait({body}, timeout=tool.timeout_ms / 1000)
    except asyncio.CancelledError:
        # This worker is being stopped with the call under way.
        body.cancel()
        raise
    if not done:
        body.cancel()
        await begun.ends_at_once()
        return _lost(tool, f"it did not end within {tool.timeout_ms / 1000:g} seconds")
    try:
        result = body.result()
        if isinstance(result, _Interrupted):
            return _lost(tool, f"it was interrupted by {result.by}")
        if isinstance(result, Suspend):
            return _asked(result, ctx, veil)
        value = msgspec.Raw(veil.value(result))
        return Done(outcome=Returned(value=value), moves=tuple(ctx.moves))
    except NotDone as error:
        return Void(why=_message(error, veil) or "the tool says that it did nothing")
    except asyncio.CancelledError:
        return _lost(tool, "it was interrupted by CancelledError")
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises is its outcome.
        if _lost_sight(error) or (tool.effect is not Effect.NONE and _broke_down(error)):
            return _lost(tool, f"it ended with {type(error).__name__}: {_message(error, veil)}")
        return Done(outcome=Failed(error=type(error).__name__, message=_message(error, veil)))


class _Interrupted(Value, frozen=True, kw_only=True):
    """The body raised what would end the process."""

    by: str


async def _call(tool: Tool, ctx: Context, args: bytes) -> bytes | Suspend | _Interrupted:
    try:
        return await tool.call(ctx, args)
    except (KeyboardInterrupt, SystemExit) as error:
        # Raised out of a task of its own it would go through the event loop, and end the worker.
        return _Interrupted(by=type(error).__name__)


async def _probe(tool: Tool, ctx: Context, args: bytes) -> Happened | NotHappened | None:
    with contained("it"):
        return await tool.probe(ctx, args)


def _asked(result: Suspend, ctx: Context, veil: Veil) -> Result:
    if not ctx.moves:
        return Asked(wanted=discreet(result.wanted, veil))
    # Whether the call returns is for somebody else to say: its moves would be lost or premature.
    message = "it changes its machine and then waits: ask inside a durable body, then change it"
    return Done(outcome=Failed(error="BadMove", message=message))


def read_error(error: BaseException, veil: Veil) -> tuple[str, Failed]:
    """Say what an exception means: why nobody knows what was done, if nobody does, and the outcome
    if that does not matter.
    """
    text = _message(error, veil)
    lost = ""
    if isinstance(error, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
        lost = f"it was interrupted by {type(error).__name__}"
    elif not isinstance(error, NotDone) and (_lost_sight(error) or _broke_down(error)):
        lost = f"it ended with {type(error).__name__}: {text}"
    return lost, Failed(error=type(error).__name__, message=text)


async def look_into(
    tool: Tool | None, ctx: Context, args: bytes, *, why: str, veil: Veil = _NOTHING_SECRET
) -> Result:
    """Say what became of an attempt that another worker started and did not finish."""
    if tool is None:
        return Doubt(why=f"{why}; its tool is no longer known")
    if tool.effect is not Effect.ONCE:
        may = f"{why}; its effect is {tool.effect.value!r}, so it may run again"
        return Void(why=may, lost=tool.effect is Effect.KEYED)
    if not tool.has_probe:
        return Doubt(why=why)
    asked = asyncio.ensure_future(_probe(tool, ctx, args))
    try:
        await asyncio.wait({asked}, timeout=PROBE_S)
    finally:
        asked.cancel()
    if not asked.done():
        return Doubt(why=why, probe=f"did not answer within {PROBE_S:g} seconds")
    if asked.cancelled():
        return Doubt(why=why, probe="was cancelled")
    if (error := asked.exception()) is not None:
        said = veil.text(f"failed with {describe(error)}")
        return Doubt(why=why, probe=clean_text(said)[:MESSAGE_MAX])
    answer = asked.result()
    match answer:
        case Happened(result=result):
            outcome = Returned(value=msgspec.Raw(veil.value(_encode(result))))
            return Done(outcome=outcome, why="the tool's probe found its effect")
        case NotHappened():
            return Void(why="the tool's probe found no effect")
        case None:
            return Doubt(why=why, probe="does not know")


def _encode(result: Any) -> bytes:
    try:
        return encode_value(result)
    except BadValue:
        # That it happened is what counts; what it gave back is only nice to know.
        return b"null"


def _lost(tool: Tool, why: str) -> Result:
    if tool.effect is Effect.ONCE:
        return Doubt(why=why)
    if tool.effect is Effect.KEYED:
        return Void(why=why, lost=True)
    return Done(outcome=Failed(error="Interrupted", message=why))


_SIGHT_ERRNO = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    }
)
# Libraries have their own names for a line that went dead, and few derive them from the built-in
# ones. Matching the names of the classes is coarse, and errs towards asking a person.
_SIGHT_NAMES = (
    r"Timeout|TimedOut|Connection|Connect(?:Error|ionError)|Network|Transport|Protocol"
    r"|ReadError|WriteError|Disconnected|IncompleteRead|SSLError|Cancelled|EndOfStream"
)


def _lost_sight(error: BaseException) -> bool:
    """Tell whether an exception, or one behind it, means that the line to the target went dead."""
    return any(_is_dead_line(one) for one in _chain(error))


def _is_dead_line(error: BaseException) -> bool:
    if isinstance(error, ConnectionRefusedError | NotDone):
        return False  # Nobody was there to do anything.
    if isinstance(error, TimeoutError | ConnectionError | EOFError | asyncio.CancelledError):
        return True
    if isinstance(error, OSError) and error.errno in _SIGHT_ERRNO:
        return True
    return any(re.search(_SIGHT_NAMES, kind.__name__) for kind in type(error).__mro__[:-2])


_REQUEST_TIMEOUT, _SERVER_ERRORS = 408, range(500, 600)
# Where the clients of HTTP keep the status of an answer that they raise, each in its own place.
_STATUS_NAMES = ("status_code", "status", "code")


def _broke_down(error: BaseException) -> bool:
    """Tell whether an exception, or one behind it, is an HTTP answer that leaves open what was
    done: a gateway that waited in vain, a server that broke down half-way.
    """
    return any(
        status == _REQUEST_TIMEOUT or status in _SERVER_ERRORS
        for one in _chain(error)
        for holder in (one, _attribute(one, "response"))
        for status in (_attribute(holder, name) for name in _STATUS_NAMES)
        if isinstance(status, int)
    )


def _attribute(one: object, name: str) -> object:
    try:
        return getattr(one, name, None)
    except Exception:  # noqa: BLE001 - whatever a property raises, it does not tell a status.
        return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        waiting += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            waiting += one.exceptions  # pyright: ignore[reportUnknownMemberType]


def _message(error: BaseException, veil: Veil) -> str:
    # Before it is cut: half a secret would not be found.
    return clean_text(veil.text(describe(error).partition(": ")[2]))[:MESSAGE_MAX]


def _forget(body: asyncio.Future[Any]) -> None:
    if not body.cancelled():
        body.exception()
