"""Jobs for the writer, collected on the event loop's thread.

They are handed over once per tick of the loop, one batch at a time: what arrives during a commit
shares the next. One hand-over per append would cost several times as many commits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sayso.errors import SaysoError, StoreClosed
from sayso.store.base import Write
from sayso.store.sqlite_pen import Pen


class Job:
    """Something to do in a transaction, and who waits for its result."""

    __slots__ = ("after", "answer", "do", "erases", "error", "result", "writes")

    def __init__(
        self,
        do: Callable[[Pen], Any],
        answer: asyncio.Future[Any],
        *,
        writes: tuple[Write, ...] = (),
        erases: bool = False,
        after: Callable[[], None] | None = None,
    ) -> None:
        self.do = do
        self.answer = answer
        self.writes = writes
        """What it appends."""
        self.erases = erases
        """Whether it erases something, which must leave the log as well."""
        self.after = after
        """To be done once it is committed, on the writer thread."""
        self.result: Any = None
        self.error: SaysoError | None = None


class JobQueue:
    """Hands jobs over in batches and passes the answers on."""

    def __init__(self, give: Callable[[list[Job]], None]) -> None:
        self._give = give
        self._loop = asyncio.get_running_loop()
        self._jobs: list[Job] = []
        self._scheduled = False
        self._outstanding = False
        self._closing = False

    def submit(self, job: Job) -> None:
        """Queue a job. It is handed over at the end of this tick, or after the batch before it."""
        if self._closing:
            refuse(job.answer, StoreClosed())
            return
        self._jobs.append(job)
        self._schedule()

    def close(self) -> None:
        """Take no more; hand over what there is, and then an empty batch as a goodbye."""
        self._closing = True
        self._schedule()

    def answered(self, batch: list[Job]) -> None:
        """Tell everybody what became of a batch, and hand over what came in meanwhile."""
        self._outstanding = False
        for job in batch:
            if job.error is not None:
                refuse(job.answer, job.error)
            elif not job.answer.done():
                job.answer.set_result(job.result)
        # This comes after the tasks that were just woken, so that what they append goes along.
        if self._jobs or self._closing:
            self._schedule()

    def _schedule(self) -> None:
        if not (self._scheduled or self._outstanding):
            self._scheduled = True
            self._loop.call_soon(self._hand_over)

    def _hand_over(self) -> None:
        self._scheduled = False
        self._outstanding = True
        batch, self._jobs = self._jobs, []
        self._give(batch)


def refuse(answer: asyncio.Future[Any], error: BaseException) -> None:
    """Answer with an error, and do not complain if nobody listens."""
    if not answer.done():
        answer.set_exception(error)
        answer.exception()
