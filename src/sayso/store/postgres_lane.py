"""Questions of one kind, asked together: what is asked during a round trip goes with the next one.

A round trip costs more than most answers. Whoever asks alone is answered as ever; those who ask
while an answer is under way share a statement. It is sent after the last of them has asked, so each
sees all that was committed before.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from sayso.errors import SaysoError, StoreClosed
from sayso.store.columns import Found
from sayso.store.postgres_link import Link

TOGETHER_MAX = 32
"""No statement carries more questions."""


class _Asked(NamedTuple):
    params: tuple[Any, ...]
    answer: asyncio.Future[list[Found]]


class Lane:
    """One kind of question. Its statement takes a list in the place of every parameter, and begins
    each row with the number of the question that it answers, from 1 on.
    """

    def __init__(self, link: Link, sql: str) -> None:
        self._link = link
        self._sql = sql
        self._busy = False
        self._waiting: list[_Asked] = []
        self._working: asyncio.Task[None] | None = None

    async def ask(self, *params: Any) -> list[Found]:
        """Ask, alone or with others. An error is for whoever asked for it."""
        if self._busy:
            answer: asyncio.Future[list[Found]] = asyncio.get_running_loop().create_future()
            self._waiting.append(_Asked(params, answer))
            return await answer
        self._busy = True
        try:
            return (await self._read([params]))[0]
        finally:
            self._go_on()

    def _go_on(self) -> None:
        if self._waiting:
            self._working = asyncio.create_task(self._answer(), name="sayso-lane")
        else:
            self._busy = False

    async def _answer(self) -> None:
        """Answer some of those who wait."""
        some, self._waiting = self._waiting[:TOGETHER_MAX], self._waiting[TOGETHER_MAX:]
        some = [one for one in some if not one.answer.done()]
        try:
            if some:
                await self._answer_all(some)
        finally:
            for one in some:  # Only when the loop is torn down.
                _settle(one, StoreClosed())
            self._go_on()

    async def _answer_all(self, some: list[_Asked]) -> None:
        try:
            found = await self._read([one.params for one in some])
        except SaysoError as error:
            if len(some) == 1:
                _settle(some[0], error)
                return
            # Which of them it was, only each by itself can tell.
            for one in some:
                await self._answer_all([one])
            return
        for one, rows in zip(some, found, strict=True):
            _settle(one, rows)

    async def _read(self, asked: list[tuple[Any, ...]]) -> list[list[Found]]:
        found = [list[Found]() for _ in asked]
        columns = [list(column) for column in zip(*asked, strict=True)]
        for row in await self._link.read(self._sql, columns):
            place: int = row[0] - 1
            found[place].append(row[1:])
        return found


def _settle(one: _Asked, said: list[Found] | BaseException) -> None:
    if one.answer.done():
        return
    if isinstance(said, BaseException):
        one.answer.set_exception(said)
        one.answer.exception()  # Do not complain if nobody listens.
    else:
        one.answer.set_result(said)
