from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from sayso.engine.cut import Cut


async def cut_off(stop: Callable[[asyncio.Task[str], Cut], None]) -> asyncio.Task[str]:
    """Let a task wait inside of a cut until it is stopped somehow."""
    cut = Cut()

    async def work() -> str:
        with cut:
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return "went on"

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    stop(task, cut)
    await asyncio.wait({task})
    return task


async def test_what_is_cut_off_ends_and_its_task_goes_on() -> None:
    def twice(_: asyncio.Task[str], cut: Cut) -> None:
        cut.off()
        cut.off()

    task = await cut_off(twice)

    assert task.result() == "went on"
    assert not task.cancelling()


@pytest.mark.parametrize("also_cut", [True, False])
async def test_a_task_that_is_stopped_does_not_go_on(also_cut: bool) -> None:
    def stop(task: asyncio.Task[str], cut: Cut) -> None:
        if also_cut:
            cut.off()
        task.cancel()

    assert (await cut_off(stop)).cancelled()


async def test_what_is_over_is_not_cut_off() -> None:
    with Cut() as cut:
        pass

    cut.off()
    await asyncio.sleep(0)


async def test_what_cancels_itself_is_not_cut_off() -> None:
    with pytest.raises(asyncio.CancelledError), Cut():
        raise asyncio.CancelledError
