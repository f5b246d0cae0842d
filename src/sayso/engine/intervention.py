"""Asking `check_for_intervention`: sync or async, and never for longer than its patience."""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import Any

from sayso.domain.policy import CallFacts
from sayso.domain.ruling import Forbid, Proceed, Require, Ruling
from sayso.engine.ports import Intervention
from sayso.errors import contained

PATIENCE_S = 5.0
"""How long `check_for_intervention` may take before the answer is: ask a person."""


async def intervene(check: Intervention, facts: CallFacts, patience_s: float) -> Ruling:
    """Ask a check whether a call may go on; whatever goes wrong with it, a person is asked."""
    asked = asyncio.ensure_future(_answer(check, facts))
    asked.add_done_callback(_forget)
    try:
        # A check that ignores its cancellation must not be waited for.
        await asyncio.wait({asked}, timeout=patience_s)
        if not asked.done():
            return Require(why=f"The check did not answer within {patience_s:g} seconds.")
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


async def _answer(check: Intervention, facts: CallFacts) -> Any:
    with contained("it"):
        if inspect.iscoroutinefunction(check):
            return await check(facts)
        from sayso.engine.thread import in_thread

        return await in_thread(partial(check, facts), {}, "check_for_intervention")


def _forget(asked: asyncio.Future[Any]) -> None:
    if not asked.cancelled():
        asked.exception()  # Whoever wanted to know has been told, or has gone.
