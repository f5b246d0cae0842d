"""The writer: appends handed over in order, one statement and one commit for all that wait.

What arrives during a commit shares the next. One statement per append would cost as many commits,
and two at once could overtake one another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from sayso.errors import CommitUnknown, SaysoError, StoreClosed
from sayso.store.base import Appended, Write
from sayso.store.postgres_link import Link
from sayso.store.postgres_pen import APPEND, Doc, bind, read_answer

log = logging.getLogger("sayso")

BATCH_MAX = 100
"""No statement carries more appends,"""
BATCH_BYTES_MAX = 4 << 20
"""nor, beyond its first, more bytes."""


class Job(NamedTuple):
    """An append, and who waits for its answer."""

    doc: Doc
    answer: asyncio.Future[Appended]


class Writer:
    """Carries appends out, one batch after another, on whichever connection is free."""

    def __init__(
        self,
        link: Link,
        sender: str,
        given: Callable[[], int | None],
        on_appended: Callable[[list[Write], int, int], None],
    ) -> None:
        self._link = link
        self._sender = sender
        self._given = given
        self._on_appended = on_appended
        self._jobs: list[Job] = []
        self._working: asyncio.Task[None] | None = None

    def submit(self, job: Job) -> None:
        """Take a job over. It goes with the next batch."""
        self._jobs.append(job)
        if self._working is None:
            self._working = asyncio.create_task(self._work(), name="sayso-writer")

    async def finish(self) -> None:
        """Wait until everything that was handed over is answered."""
        while self._working is not None:
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        try:
            while self._jobs:
                await self._carry_out(self._next_batch())
        finally:
            self._working = None
            left, self._jobs = self._jobs, []
            for job in left:  # Only after a fault of ours, or when the loop is torn down.
                refuse(job.answer, StoreClosed())

    def _next_batch(self) -> list[Job]:
        count, size = 0, 0
        for job in self._jobs[:BATCH_MAX]:
            size += job.doc.size
            if count and size > BATCH_BYTES_MAX:
                break
            count += 1
        batch, self._jobs = self._jobs[:count], self._jobs[count:]
        return batch

    async def _carry_out(self, batch: list[Job]) -> None:
        given = self._given()
        params = (
            *bind([job.doc for job in batch]),
            # As text: the driver would choose a type by how large it is.
            None if given is None else str(given),
            self._sender,
            self._link.address.channel,
        )
        try:
            ((answers,),) = await self._link.write(APPEND, params, prepare=True)
        except SaysoError as error:
            for job in batch:
                refuse(job.answer, error)
            return
        except BaseException:
            for job in batch:
                refuse(job.answer, CommitUnknown())
            raise
        try:
            self._answer(batch, answers)
        except Exception:
            # It is committed, or may be: whoever waits for it looks for it.
            log.exception("answers of %s were not understood", self._link.name)
            for job in batch:
                refuse(job.answer, CommitUnknown())

    def _answer(self, batch: list[Job], answers: list[Any]) -> None:
        found = [
            read_answer(job.doc, answer, self._link.name)
            for job, answer in zip(batch, answers, strict=True)
        ]
        taken = [
            (job.doc, one)
            for job, one in zip(batch, found, strict=True)
            if not isinstance(one, SaysoError)
        ]
        if taken:
            # Watchers are woken first, while whoever has written still has the run in memory; all
            # of this is over when they look, and what they look at is no longer under way.
            written = [write for doc, _ in taken for write in doc.writes]
            last = taken[-1][1].position
            count = sum(len(write.entries) for write in written)
            self._on_appended(written, last - count, last)
        for job, one in zip(batch, found, strict=True):
            if isinstance(one, SaysoError):
                refuse(job.answer, one)
            elif not job.answer.done():
                job.answer.set_result(one)


def refuse(answer: asyncio.Future[Appended], error: BaseException) -> None:
    """Answer with an error, and do not complain if nobody listens."""
    if not answer.done():
        answer.set_exception(error)
        answer.exception()
