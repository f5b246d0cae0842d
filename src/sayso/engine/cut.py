"""Cutting off what a task waits for, and no more than that: the task itself goes on."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Cut:
    """What a task does inside of `with` may be cut off; whoever stops the task is told apart."""

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._times = 0

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        return self

    def off(self) -> None:
        """Cut it off, unless it is over."""
        if self._task is not None:
            self._times += 1
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        task, self._task = self._task, None
        assert task is not None, "it is used in a task"
        asked = task.cancelling()
        for _ in range(self._times):
            asked = task.uncancel()
        return kind is asyncio.CancelledError and bool(self._times) and not asked
