"""Running a function that blocks, beside the event loop.

Rule: every call has a thread of its own. A pool would let a few functions that hang stop all the
others, and would keep the process from ending; how many run at once is bounded by the worker.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from sayso.engine.going import note_function


async def in_thread(fn: Callable[..., Any], kwargs: dict[str, Any], name: str) -> Any:
    """Call a function in a thread, with this task's context variables; give what it gives.

    If the task is cancelled, the function goes on unwatched: nothing can stop it.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()
    over = threading.Event()

    def settle(result: Any, error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(result)
        elif isinstance(error, StopIteration):
            # A future cannot carry this one: whoever awaits it would wait for ever.
            ended.set_exception(RuntimeError(f"{name} raised StopIteration"))
        else:
            ended.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(fn, **kwargs)
        except BaseException as raised:  # noqa: BLE001 - whoever awaits is told everything.
            error = raised
        # Before anybody is told: whoever is must not take it for going on.
        over.set()
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The loop is closed: nobody waits for this any more.
            return

    threading.Thread(target=work, name=f"sayso {name}", daemon=True).start()
    note_function(over)
    return await ended
