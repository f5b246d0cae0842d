"""Where a run stands: what could go on in it, and what it waits for. Nothing here changes a run.

Rule: `status_of` is the only place that knows a status.
"""

from __future__ import annotations

from sayso.domain.call import CallState
from sayso.domain.hold import Approved, Expired, Verdict
from sayso.domain.run import CallRow, Refusal, Run, Status, Strand

_S = CallState
_NAMED = {status.value: status for status in Status}
MAY_START = (_S.READY, _S.APPROVED)
"""The states of a call that has not started and may."""
_GOING = (_S.STARTED, _S.ANSWERED)
ASKS = (_S.HELD, _S.WAITING, _S.DOUBTED)
"""The states of a call that waits for somebody, and so has an open hold."""
_RESTS = (*ASKS, *MAY_START, _S.ANSWERED)
"""The states of a call that is neither over nor under way."""


def status_of(run: Run) -> Status:
    """Compute what the run is doing."""
    if run.final:
        return _NAMED[run.final]
    if run.holds and not has_work(run):
        return Status.SUSPENDED
    return Status.RUNNING


def has_work(run: Run) -> bool:
    """Tell whether something is executing, could start or go on, or is due a turn."""
    for strand in run.strands:
        if going_on(run, strand):
            return True
    return bool(run.commands and (run.calls(*_GOING) or startable(run)))


def going_on(run: Run, strand: Strand) -> bool:
    """Tell whether something of a strand is executing, could start or go on, or is due a turn."""
    over = True
    for call in strand.calls:
        if call.state in _GOING:
            return True
        over = over and call.state is _S.DONE
    if over:
        return strand_due(run, strand)
    return not run.ending and bool(_startable(strand))


def strand_due(run: Run, strand: Strand) -> bool:
    """Tell whether a strand is due a turn: every call has its outcome and there is news."""
    if run.ending:
        return False
    for call in strand.calls:
        if call.state is not _S.DONE:
            return False
    return bool(strand.calls) or strand.said > strand.seen


def concludes(run: Run) -> bool:
    """Tell whether nothing is left but to say that the run is complete: its last answer is there,
    and what was in doubt then is settled. Only a command can have been.
    """
    if not run.commanded or run.ending or run.final or run.commands or run.holds:
        return False
    (main, *others) = run.strands
    return not (others or main.calls or main.said > main.seen)


def turn_due(run: Run, strand: Strand) -> bool:
    """Tell whether somebody has to see to a strand: it is due a turn, or the run its end."""
    return strand_due(run, strand) or concludes(run)


def startable(run: Run) -> list[CallRow]:
    """List the calls that could start now."""
    if run.ending:
        return []
    found = [call for strand in run.strands for call in _startable(strand)]
    return found + [call for call in run.commands if call.state in MAY_START]


def only_starts(run: Run) -> bool:
    """Tell whether calls could start now, and nothing else is to be done."""
    due = [strand for strand in run.strands if strand_due(run, strand)]
    return bool(startable(run)) and not due and not run.calls(*_GOING)


def _startable(strand: Strand) -> list[CallRow]:
    ready = [call for call in strand.calls if call.state in MAY_START]
    if not ready:
        return ready
    match strand.siblings:
        case "hold" if any(_asks_first(call) for call in strand.calls):
            return []
        case "in_order" | "halt":
            first = next((call for call in strand.calls if call.state is not _S.DONE), None)
            return [first] if first in ready else []
        case _:
            return ready


def _asks_first(call: CallRow) -> bool:
    """Tell whether a call waits for somebody before it has done anything."""
    return call.state is _S.HELD or (call.state is _S.WAITING and not call.attempt)


def stranded(run: Run) -> bool:
    """Tell whether a call waits and asks nobody, or could go on and never will."""
    for call in run.calls(*_RESTS):
        if call.state in ASKS:
            if not run.holds_of(call.ref):
                return True
        elif run.ending or (call.state is _S.ANSWERED and call.stepping):
            return True
    return False


def has_open(run: Run) -> bool:
    """Tell whether anything in the run is not over."""
    return bool(run.holds) or has_work(run) or stranded(run)


def equal_refusal(run: Run, digest: str) -> Refusal | None:
    """Find out whether this very call was rejected or expired in this run before."""
    return next((refusal for refusal in run.refusals if refusal.digest == digest), None)


def says_yes(verdict: Verdict) -> bool:
    """Tell whether a verdict lets the call start."""
    if isinstance(verdict, Expired):
        return verdict.silence == "approve"
    return isinstance(verdict, Approved)
