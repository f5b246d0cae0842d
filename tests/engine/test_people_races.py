"""People, the clock and their administrator race for the same holds: nobody wins twice, and whoever
loses is told the truth (F10, F11).

Method: random subsets of approvals, votes, a rejection, an edit, an undo, a cancellation, a handing
over, the loss of a role, a shutting out, escalation and expiry are released together against one
hold; the same for a grant, its uses and its ends. Afterwards the journals are held against what
everybody was told. A race that only one side ever wins tests nothing, so each must have come to
something in more than two of a hundred. The seed is printed; `SAYSO_SEED` runs one again.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import secrets
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sayso import Sayso

from .contest import ACTS, Race, Records, agents, contest, heard, policy
from .judge import judge
from .kit import Child, Place

BATCH = 20
PROCESSES, WORKERS = 4, 2
LEAST = 0.02
SOMETIMES = (
    *(f"{act}" for act in ACTS),
    "start",
    "expire",
    "use",
    "last use",
    "revoke_grant of a grant",
    "revoke_role of a grant",
    "deactivate of a grant",
)


async def race(place: Place, seed: int, batches: int) -> Counter[str]:
    """Run races on one app, and judge everything that it keeps."""
    print(f"SAYSO_SEED={seed}")
    found: Counter[str] = Counter()
    async with place.app(*agents(place.world), policy=policy()) as app:
        records = Records(app)
        await records.put("lea", roles=["lead"])
        await records.put("zed", roles=["finance"])
        for batch in range(batches):
            chance = random.Random(f"{seed}.{batch}")
            ns = range(batch * 1000, batch * 1000 + 2 * BATCH, 2)
            found += await contest(place, app, records, chance, ns)
        await judge(app.store, place.world, ("pay",))
    return found


def check_sometimes(found: Counter[str]) -> None:
    """Assert that each kind of race was won often enough to say something."""
    shares = {name: found[f"{name} won"] / max(found[f"{name} took part"], 1) for name in SOMETIMES}
    seldom = {name: share for name, share in shares.items() if share <= LEAST}
    assert not seldom, f"never reached, or nearly: {seldom} of {dict(found)}"
    assert found["asked again"], "nothing was ever asked again"


def seed_of(default: int) -> int:
    return int(os.environ.get("SAYSO_SEED", default))


@pytest.mark.parametrize("kind, batches", [("memory", 70), ("sqlite", 25)])
async def test_nobody_wins_twice_and_whoever_loses_is_told_the_truth(
    tmp_path: Path, kind: str, batches: int
) -> None:
    check_sometimes(await race(Place(kind, tmp_path), seed_of(20261116), batches))


async def race_apart(place: Place, seed: int, races: int) -> Counter[str]:
    """Let four processes take part in the same races, two of which work on the runs as well."""
    print(f"SAYSO_SEED={seed}")
    chance = random.Random(seed)
    found: Counter[str] = Counter()
    # It has the agents, and leaves the work to the others.
    options = {"agents": agents(place.world), "policy": policy(), "work": False}
    async with (
        Sayso(place.path, agents=agents(place.world), policy=policy()) as maker,
        Sayso(place.path, **options) as app,
    ):
        records = Records(app)
        await records.put("lea", roles=["lead"])
        await records.put("zed", roles=["finance"])
        all_of_them = [Race(maker, records, 2 * n, chance) for n in range(races)]
        for one in all_of_them:
            await one.begin()
        await maker.close()
        jobs: list[list[list[object]]] = [[] for _ in range(PROCESSES)]
        for one in all_of_them:
            one.app, one.run = app, app.run(one.run.id)
            for act in one.acts:
                jobs[chance.randrange(PROCESSES)].append([one.n, one.run.id, one.hold.id, act])
        said = await _let_them(place, jobs, seed, all_of_them, app)
        for one in said:
            for name, rev, roles, active in one["versions"]:
                records.versions[name, rev] = (tuple(roles), active)
            for n, act, word, decision in one["told"]:
                all_of_them[n // 2].told[act] = heard(word, decision)
        for one in all_of_them:
            found += await one.check(place.world, app.store.now())
        await judge(app.store, place.world, ("pay",))
    return found


async def _let_them(
    place: Place, jobs: list[list[list[object]]], seed: int, races: list[Race], app: Sayso
) -> list[dict[str, Any]]:
    root = place.world.root
    spec: dict[str, Any] = {"do": "contest", "seed": seed}
    children = [
        Child(place, jobs=mine, n=n, work=n < WORKERS, **spec) for n, mine in enumerate(jobs)
    ]
    try:
        for one in children:
            await one.said("ready")
        (root / "go").touch()
        for one in children:
            await one.said("done")
        await asyncio.gather(*(one.end() for one in races))
        (root / "end").touch()
        for one in children:
            assert await one.gone() == 0
        return [json.loads((root / f"said.{n}").read_text()) for n in range(PROCESSES)]
    finally:
        for one in children:
            one.__exit__()


async def test_nobody_wins_twice_in_four_processes(file_place: Place) -> None:
    found = await race_apart(file_place, seed_of(20261116), 150)

    for act in ("approve_a", "approve_b", "vote", "reject", "cancel", "edit", "start"):
        assert found[f"{act} won"] > LEAST * found[f"{act} took part"] > 0, found


@pytest.mark.soak
@pytest.mark.parametrize("part", range(10))
async def test_nobody_wins_twice_at_length(tmp_path: Path, part: int) -> None:
    kind = "sqlite" if part % 5 == 0 else "memory"
    seed = seed_of(secrets.randbelow(2**32))
    found: Counter[str] = Counter()
    for n in range(10):
        found += await race(Place(kind, tmp_path / str(n)), seed + n, 25)
    check_sometimes(found)
