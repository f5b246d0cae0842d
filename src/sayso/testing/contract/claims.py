"""What projects are promised of claims: a fair share, and no more than their bound."""

from __future__ import annotations

import asyncio

from sayso.store.base import Store
from sayso.testing.contract.case import StoreCase, write


class ClaimContract(StoreCase):
    """A flood of one project keeps no other waiting."""

    async def test_claims_take_turns_between_projects(self) -> None:
        async with self.opened() as store:
            await store.append(*(write(f"a_{n}", project="a") for n in range(5)))
            await store.append(write("c_0", project="c"), write("b_0", project="b"))
            await store.append(write("c_1", project="c"))

            assert await store.claim("w1", limit=4) == ["a_0", "c_0", "b_0", "a_1"]
            assert await store.claim("w1", limit=9) == ["c_1", "a_2", "a_3", "a_4"]

    async def test_what_is_under_way_counts_whoever_works_on_it(self) -> None:
        async with self.opened() as store:
            await store.append(*(write(f"a_{n}", project="a", owner="w2") for n in range(2)))
            await store.append(*(write(f"a_{n}", project="a") for n in range(2, 5)))
            await store.append(write("done", project="b", status="completed"))
            await store.append(*(write(f"b_{n}", project="b") for n in range(3)))

            assert await store.claim("w1", limit=3) == ["b_0", "b_1", "a_2"]
            assert await store.claim("w1") == ["b_2"]

    async def test_of_a_project_the_oldest_is_taken_whatever_its_agent(self) -> None:
        async with self.opened() as store:
            for n, agent in enumerate(["z", "y", "other", "z", "x"]):
                await store.append(write(f"run_{n}", agent=agent))

            found = await store.claim("w1", limit=3, agents=["x", "y", "z"])

            assert found == ["run_0", "run_1", "run_3"]

    async def test_no_project_gets_beyond_its_bound(self) -> None:
        async with self.opened() as store:
            await store.append(write("a_0", project="a", owner="w2"))
            await store.append(*(write(f"a_{n}", project="a") for n in range(1, 4)))
            await store.append(write("b_0", project="b"))

            assert await store.claim("w1", limit=9, project_max=2) == ["b_0", "a_1"]
            assert await store.claim("w1", limit=9, project_max=2) == []
            await store.append(write("a_0", after=1, project="a", owner="", status="completed"))
            assert await store.claim("w1", limit=9, project_max=2) == ["a_2"]
            assert await store.claim("w1", limit=9, project_max=0) == []
            assert await store.claim("w1", limit=9) == ["a_3"]

    async def test_a_bound_holds_for_all_who_claim_at_once(self) -> None:
        async with self.opened_twice() as (one, two):
            for project in "ab":
                await one.append(*(write(f"{project}_{n}", project=project) for n in range(20)))

            async def take(store: Store, worker: str) -> list[str]:
                return [
                    run
                    for _ in range(4)
                    for run in await store.claim(worker, limit=2, project_max=3)
                ]

            taken = await asyncio.gather(*(take(s, f"w{n}") for n, s in enumerate([one, two] * 3)))

            runs = sorted(run for some in taken for run in some)
            assert runs == ["a_0", "a_1", "a_2", "b_0", "b_1", "b_2"]
