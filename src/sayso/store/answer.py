"""An answer that is heard in the moment in which it is given, before anybody is woken by it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Answer(asyncio.Future[T]):
    """A future, one of whose callbacks need not wait for the next tick of the event loop."""

    _hears: Callable[[asyncio.Future[T]], Any] | None = None

    def tell(self, hears: Callable[[asyncio.Future[T]], Any]) -> None:
        """Tell somebody of the answer: one at most at once, and everybody else a tick later."""
        if self._hears is None and not self.done():
            self._hears = hears
        else:
            self.add_done_callback(hears)

    def set_result(self, result: T, /) -> None:
        super().set_result(result)
        self._heard()

    def set_exception(self, exception: type | BaseException, /) -> None:
        super().set_exception(exception)
        self._heard()

    def cancel(self, msg: Any = None) -> bool:
        cancelled = super().cancel(msg)
        if cancelled:
            self._heard()
        return cancelled

    def _heard(self) -> None:
        hears, self._hears = self._hears, None  # Or the two would keep each other in memory.
        if hears is None:
            return
        try:
            hears(self)
        except Exception as error:  # noqa: BLE001 - whoever gives answers has others to give.
            about = {"message": "an answer was not taken note of", "exception": error}
            self.get_loop().call_exception_handler(about)
