"""What is broken once and stays so: the rest carry everything to its end, in bounded time.

Faults that heal hide whoever waits for ever. Here one worker is cut off for good, nobody hears of
anything, the queue forgets, one sweeper is dead; alone, and all at once.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from tests.chaos.storm import Storm
from tests.chaos.verdict import hold_against
from tests.postgres import Cluster

FAULTS = ("one worker is cut off", "nobody hears", "the queue forgets", "one sweeper is dead")
ENDS_S = 60.0
_FORGETS = """
create sequence sayso.jobs;
create function sayso.forget() returns trigger language plpgsql as $$
begin
    if nextval('sayso.jobs') % 2 = 1 then
        return null;
    end if;
    return new;
end
$$;
create trigger forget before insert on sayso.work for each row execute function sayso.forget()
"""
"""Of two jobs one is gone at once; the other may be gone while somebody is at it."""


async def carry_on(
    own: Cluster, root: Path, faults: tuple[str, ...], *, runs: int, seed: int
) -> None:
    began = time.monotonic()
    how = {"listen": "nobody hears" not in faults, "ends_after_s": 4.0, "pace_s": 0.8}
    async with Storm(own, root, runs=runs, seed=seed, **how) as storm:
        cut_off = storm.workers[0]
        if "one sweeper is dead" in faults:
            storm.workers[1].spec["sweeps"] = False
        forgetting = None
        if "the queue forgets" in faults:
            await storm.execute(_FORGETS)
            forgetting = asyncio.create_task(forget(storm))
        storm.begin()
        lost = []
        if "one worker is cut off" in faults:
            # Once it has work, or it would not be missed.
            while not storm.bank.effects():
                assert time.monotonic() < began + ENDS_S
                await asyncio.sleep(0.05)
            assert cut_off.proxy is not None
            cut_off.proxy.line = "blackhole"
            lost.append(cut_off)
        took = await storm.finish(ENDS_S, lost=lost)
        if forgetting is not None:
            assert not forgetting.done(), "the queue has not forgotten for ever"
            forgetting.cancel()
            ((jobs,),) = await storm.execute("select last_value from sayso.jobs")
            assert jobs > runs, "there was little to forget"
        async with storm.store() as store:
            figures = await hold_against(store, storm.bank, runs)
    print(f"seed {seed}, {faults}: {took:.1f} s; {figures}")


async def forget(storm: Storm) -> None:
    """Empty the table of the queue, again and again."""
    while True:
        await storm.execute("delete from sayso.work")
        await asyncio.sleep(0.3)


@pytest.mark.timeout(240)
async def test_with_all_that_broken_for_ever_everything_comes_to_its_end(
    own: Cluster, tmp_path: Path
) -> None:
    await carry_on(own, tmp_path, FAULTS, runs=24, seed=5)


@pytest.mark.soak
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(10))
async def test_with_one_thing_broken_for_ever_everything_comes_to_its_end(
    own: Cluster, tmp_path: Path, fault: str, seed: int
) -> None:
    await carry_on(own, tmp_path, (fault,), runs=40, seed=seed)
