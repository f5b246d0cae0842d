"""The store in memory, where the contract cannot reach: a death that is played."""

from sayso.store.memory import MemoryStore
from sayso.testing import FakeClock


async def test_a_killed_worker_is_seen_to_be_dead_until_it_retires():
    clock = FakeClock()
    store = MemoryStore(clock)
    await store.beat("w1")
    clock.advance(7)

    store.kill("w1")

    seen = await store.sight("w1")
    assert (seen.worker, seen.alive, seen.seen_ms_ago) == ("w1", "dead", 7)
    assert seen.host
    await store.retire("w1")
    assert await store.sight("w1") is None
    await store.close()
