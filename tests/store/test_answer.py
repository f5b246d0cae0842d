from __future__ import annotations

import asyncio

from sayso.store.answer import Answer


async def test_an_answer_is_heard_before_anybody_is_woken_by_it() -> None:
    answer, heard = Answer[int](), list[str]()
    answer.tell(lambda one: heard.append(f"told {one.result()}"))

    async def wait() -> None:
        heard.append(f"awaited {await answer}")

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(0)

    answer.set_result(7)
    assert heard == ["told 7"]
    await waiting
    assert heard == ["told 7", "awaited 7"]


async def test_a_failure_is_heard_as_well() -> None:
    answer, heard = Answer[int](), list[BaseException | None]()
    answer.tell(lambda one: heard.append(one.exception()))
    error = ValueError("no")

    answer.set_exception(error)

    assert heard == [error]


async def test_who_comes_second_or_too_late_hears_of_it_a_tick_later() -> None:
    answer, heard = Answer[int](), list[str]()
    answer.tell(lambda _: heard.append("first"))
    answer.tell(lambda _: heard.append("second"))
    answer.set_result(1)
    answer.tell(lambda _: heard.append("late"))

    assert heard == ["first"]
    await asyncio.sleep(0)
    assert heard == ["first", "second", "late"]


async def test_what_goes_wrong_in_who_hears_it_is_not_for_whoever_answers() -> None:
    answer, found = Answer[int](), list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda _, about: found.append(about))

    def fail(_: object) -> None:
        raise ValueError("a fault of ours")

    answer.tell(fail)

    answer.set_result(1)

    assert len(found) == 1
    assert answer.result() == 1


async def test_one_that_is_cancelled_is_heard_once_and_nobody_has_to_listen() -> None:
    answer, unheard, heard = Answer[int](), Answer[int](), list[bool]()
    answer.tell(lambda one: heard.append(one.cancelled()))

    assert answer.cancel()
    assert unheard.cancel()

    assert not answer.cancel()
    assert heard == [True]
