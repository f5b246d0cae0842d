"""The jobs of a PostgreSQL store: there is one exactly when a commit has left work to nobody, and
whatever becomes of the queue, nothing but time is lost.
"""

import asyncio
import json
import time

import pytest

from sayso.domain.run import FOLD
from sayso.errors import BadValue, StaleRun, StoreError
from sayso.store import postgres as store_module
from sayso.store import postgres_jobs, postgres_queue
from sayso.store.postgres import PostgresStore
from sayso.store.queue import Taker
from sayso.testing.contract import refused, write
from tests.postgres import Cluster

from .test_postgres import conn_to, opened, own, schema, through
from .wire import Wire

__all__ = ["own", "schema"]

PATIENCE_S = 30.0


def jobs(where: Cluster, schema: str) -> list[tuple[str, str, str]]:
    """What waits or is held: agent, run and number, and status."""
    rows = where.execute(f"select entrypoint, payload, status from {schema}.work order by id")
    return [
        (agent, "{run}:{seq}".format(**json.loads(payload)) if payload[:1] == b"{" else "", status)
        for agent, payload, status in rows
    ]


async def until(what):
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end, "it does not come about"
        await asyncio.sleep(0.02)
    return found


class Hand:
    """A taker that claims for real, and may be told not to."""

    def __init__(self, store: PostgresStore, name: str = "w1", room: int = 100) -> None:
        self.store, self.name, self.free = store, name, room
        self.agents = ("teller",)
        self.taken: list[str] = []
        self.hints = self.takes = self.asked = 0
        self.fails: BaseException | None = None

    def serve(self) -> None:
        self.serving = self.store.queue.serve(
            Taker(
                agents=self.agents,
                room=self.room,
                take=self.take,
                hint=self.hint,
            )
        )

    def room(self) -> int:
        self.asked += 1
        return self.free

    def hint(self) -> None:
        self.hints += 1

    async def take(self) -> None:
        self.takes += 1
        if self.fails is not None:
            raise self.fails
        found = await self.store.claim(self.name, limit=max(1, self.free), agents=self.agents)
        self.taken += found


async def test_a_commit_that_leaves_work_to_nobody_leaves_one_job(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.append(write("run_1"), write("run_2", owner="w1"), write("run_3", agent="b"))
        await store.append(write("run_4", status="suspended"))
        await store.append(write("run_2", after=1))  # Its owner goes on with it.
        await store.append(write("run_2", after=2, owner=""))
        await store.append(write("run_4", after=1))

        assert jobs(postgres, schema) == [
            ("teller", "run_1:1", "queued"),
            ("b", "run_3:1", "queued"),
            ("teller", "run_2:3", "queued"),
            ("teller", "run_4:2", "queued"),
        ]


async def test_an_append_that_is_refused_leaves_no_job(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.append(write("run_1", status="suspended"))

        await asyncio.gather(
            refused(StaleRun, store.append(write("run_1", after=7))),
            refused(StaleRun, store.append(write("run_2"), write("run_1", after=7))),
            refused(StoreError, store.append(write("run_3", fold=1 << 70))),
        )

        assert jobs(postgres, schema) == []


async def test_runs_that_a_worker_leaves_are_offered(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.beat("w1")
        await store.append(write("run_1", owner="w1"), write("run_2", owner="w2"))

        await store.retire("w1")

        assert jobs(postgres, schema) == [("teller", "run_1:1", "queued")]


async def test_a_job_is_picked_and_done_once_a_claim_was_made(postgres, schema):
    async with opened(postgres, schema) as store, opened(postgres, schema) as other:
        hand = Hand(store)
        hand.serve()
        await until(lambda: hand.hints)  # Once for the connection.

        await other.append(write("run_1"), write("run_2", agent="b"))
        await until(lambda: jobs(postgres, schema) == [("b", "run_2:1", "queued")])

        assert hand.taken == ["run_1"]
        assert hand.hints > 1


async def test_a_store_serves_one_worker_after_another_and_two_beside_each_other(postgres, schema):
    async with opened(postgres, schema) as store:
        first, second = Hand(store), Hand(store, "w2")
        first.serve()
        second.serve()
        await store.append(write("run_1"))
        await until(lambda: not jobs(postgres, schema))
        await first.serving.stop()
        await second.serving.stop()

        first.serve()
        await store.append(write("run_2"))
        await until(lambda: not jobs(postgres, schema))

        assert sorted(first.taken + second.taken) == ["run_1", "run_2"]


async def test_without_room_no_job_is_picked_and_others_get_it(postgres, schema):
    async with opened(postgres, schema) as store, opened(postgres, schema) as other:
        full, free = Hand(store, room=0), Hand(other, "w2")
        full.serve()
        await store.append(write("run_1"))
        await until(lambda: full.asked > 1)

        free.serve()
        await until(lambda: not jobs(postgres, schema))

        assert (full.takes, free.taken) == (0, ["run_1"])
        picked = f"select count(*) from {schema}.work_log where status = 'picked'"
        assert postgres.execute(picked) == [(1,)]


async def test_a_job_for_which_there_is_no_room_any_more_is_handed_back(postgres, schema):
    async with opened(postgres, schema) as store, opened(postgres, schema) as other:
        hand = Hand(store)
        rooms = [1]  # When the queue is looked at; none when the job comes.
        store.queue.serve(
            Taker(
                agents=("teller",),
                room=lambda: rooms.pop() if rooms else 0,
                take=hand.take,
                hint=hand.hint,
            )
        )
        await store.append(write("run_1"))
        await until(lambda: not rooms)
        await until(lambda: jobs(postgres, schema) == [("teller", "run_1:1", "queued")])

        free = Hand(other, "w2")
        free.serve()
        await until(lambda: not jobs(postgres, schema))

        assert (hand.takes, free.taken) == (0, ["run_1"])


async def test_a_job_that_fails_is_held_shown_and_offered_again(postgres, schema):
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.fails = ZeroDivisionError("what should not happen")
        hand.serve()
        await store.append(write("run_1"))
        await until(lambda: jobs(postgres, schema) == [("teller", "run_1:1", "failed")])

        (held,) = await store.queue.held()
        found = next(one for one in await store.checkup() if one.name == "queue")
        assert (held.agent, held.run_id) == ("teller", "run_1")
        assert held.why == "ZeroDivisionError: what should not happen"
        assert found.level == "warning"
        assert f"the first is {held.id}, of the agent 'teller': ZeroDivisionError" in found.text

        hand.fails = None
        assert await store.queue.requeue(held.id, held.id, 10**9) == 1
        await until(lambda: not jobs(postgres, schema))
        assert hand.taken == ["run_1"]
        assert await store.queue.requeue(held.id) == 0


async def test_a_job_that_is_none_of_ours_is_held(postgres, schema):
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.serve()
        postgres.execute(
            f"set search_path = {schema}; select enqueue(array[0], array['teller'], "
            "array['nonsense'::bytea], array[interval '0'], array['x'], array[null::jsonb])"
        )
        await until(lambda: [one[2] for one in jobs(postgres, schema)] == ["failed"])

        (held,) = await store.queue.held()
        assert (held.run_id, BadValue.__name__ in held.why) == ("", True)
        assert hand.takes == 0


async def test_a_store_that_is_away_puts_jobs_off(postgres, schema, monkeypatch):
    monkeypatch.setattr(postgres_jobs, "AGAIN_S", 0.01)
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.fails = StoreError("away")
        hand.serve()
        await store.append(write("run_1"))
        await until(lambda: hand.takes >= 2)
        assert [one[2] for one in jobs(postgres, schema)] != ["failed"]

        await until(lambda: jobs(postgres, schema)[0][2] == "failed")
        assert hand.takes == postgres_jobs.TRIES_MAX + 1


async def test_stopping_hands_back_what_is_not_begun(postgres, schema, monkeypatch):
    monkeypatch.setattr(postgres_queue, "LATER_S", 0.0)
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        going = asyncio.Event()

        async def take():
            hand.takes += 1
            await going.wait()

        hand.take = take
        hand.serve()
        await store.append(write("run_1"))
        await until(lambda: hand.takes)
        stopping = asyncio.create_task(hand.serving.stop())
        await asyncio.sleep(0)
        await store.append(write("run_2"))
        going.set()
        await stopping

        assert jobs(postgres, schema) == [("teller", "run_2:1", "queued")]


async def test_jobs_are_picked_again_after_every_connection_was_cut(postgres, schema, monkeypatch):
    monkeypatch.setattr(postgres_queue, "RETRY_S", 0.05)
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.serve()
        await store.append(write("run_1"))
        await until(lambda: not jobs(postgres, schema))
        for n in range(2, 4):
            postgres.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'sayso'"
            )
            async with opened(postgres, schema) as other:
                await other.append(write(f"run_{n}"))
            await until(lambda: not jobs(postgres, schema))

        assert hand.taken == [f"run_{n}" for n in range(1, 4)]


async def test_jobs_are_picked_again_after_pgqueuer_has_ended(postgres, schema, monkeypatch):
    monkeypatch.setattr(postgres_queue, "RETRY_S", 0.05)
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.serve()
        first = await until(lambda: hand.serving._picker)
        postgres.execute(f"alter table {schema}.work rename to away")
        hand.serving._look()
        await until(lambda: hand.serving._picker is not first)
        postgres.execute(f"alter table {schema}.away rename to work")

        await store.append(write("run_1"))
        await until(lambda: not jobs(postgres, schema))

        assert hand.taken == ["run_1"]


async def test_a_queue_without_its_tables_refuses_no_append(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.append(write("run_1"))
        postgres.execute(f"drop table {schema}.work")

        await store.append(write("run_2"))

        assert await store.claim("w1", limit=9) == ["run_1", "run_2"]
        found = next(one for one in await store.checkup() if one.name == "queue")
        assert found.level == "warning"


async def test_a_claim_costs_the_same_however_many_wait(postgres, schema):
    """By the pages that are looked at, which no load of the machine changes."""
    async with opened(postgres, schema) as store:
        await store.append(write("first", project="a"), write("second", project="b"))
        postgres.execute(
            f"set search_path = {schema}; insert into runs (id, project, agent, status, seq, at, "
            "fold, hash, last, state) select 'r' || n, 'a', 'teller', 'running', 1, 1, 1, "
            "sha256('x'), '12345678', '' from generate_series(1, 100000) n; analyze runs"
        )
        conn = await conn_to(postgres, schema)
        claim = "select * from claim_runs('w1', '{teller}', 2, 50, '', '', 1000, 99)"
        await conn.execute(claim)  # The first one looks at catalogs as well.
        plan = await conn.execute(f"explain (analyze, buffers, format json) {claim}")
        looked_at = (await plan.fetchone())[0][0]["Plan"]["Shared Hit Blocks"]
        await conn.close()

        assert looked_at < 500, looked_at
        assert await store.claim("w2", limit=2) == ["r3", "r4"]


OTHERS = {"agent": {"agent": "gone"}, "version": {"fold": FOLD + 1}, "bound": {}}


@pytest.mark.parametrize("why", OTHERS)
async def test_what_cannot_be_taken_hides_nothing_behind_it(postgres, schema, monkeypatch, why):
    monkeypatch.setattr(store_module, "KINDS_MAX", 4)
    async with opened(postgres, schema) as store:
        for n in range(9):
            await store.append(write(f"run_{n}", project=f"p{n}", **OTHERS[why]))
            if why == "bound":
                await store.append(write(f"owned_{n}", project=f"p{n}", owner="w2"))
        await store.append(write("mine", project="q"))

        looks = [
            await store.claim("w1", limit=16, agents=["teller"], project_max=1) for _ in range(3)
        ]

        # What other agents are to do is not even looked at.
        assert looks == ([["mine"], [], []] if why == "agent" else [[], [], ["mine"]])


async def test_one_look_after_another_comes_to_all_that_is_free(postgres, schema, monkeypatch):
    monkeypatch.setattr(store_module, "KINDS_MAX", 4)
    free = [(f"{p}_{a}", p, a) for p in "abc" for a in ("clerk", "teller", "usher")]
    async with opened(postgres, schema) as store:
        await store.append(*(write(run, project=p, agent=a) for run, p, a in free))

        found = [await store.claim("w1", limit=16) for _ in range(3)]

        assert [len(some) for some in found] == [4, 4, 1]
        assert sorted(run for some in found for run in some) == [run for run, *_ in free]


async def test_a_claim_counts_what_another_one_is_about_to_take(postgres, schema):
    async with opened(postgres, schema) as store:
        await store.append(*(write(f"run_{n}") for n in range(4)))
        conn = await conn_to(postgres, schema)
        try:
            await conn.execute("begin")
            await conn.execute("select claim_runs('w1', null, 2, 2, '', '', 1000, 99)")
            waits = asyncio.create_task(store.claim("w2", limit=2, project_max=2))
            done, _ = await asyncio.wait([waits], timeout=0.5)
            assert not done

            await conn.execute("commit")

            assert await waits == []
        finally:
            await conn.close()


async def test_what_became_of_jobs_is_forgotten_but_for_those_that_are_held(postgres, schema):
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.serve()
        await store.append(write("run_1"))
        await until(lambda: not jobs(postgres, schema))
        hand.fails = ZeroDivisionError()
        await store.append(write("run_2"))
        await until(lambda: [one[2] for one in jobs(postgres, schema)] == ["failed"])
        postgres.execute(f"update {schema}.work_log set created = created - interval '1 hour'")

        postgres.execute(f"set search_path = {schema}; select forget_work()")

        left = postgres.execute(f"select distinct job_id from {schema}.work_log")
        assert left == [(held.id,) for held in await store.queue.held()]


async def test_an_append_that_makes_work_is_one_round_trip(postgres, schema, tmp_path):
    async with Wire(postgres.data, tmp_path) as wire, through(wire, schema) as store:
        await store._ear.close()
        for after in range(60):  # Until the driver has prepared it, on each connection.
            await store.append(write(after=after))
        before = wire.questions

        for after in range(60, 70):
            await store.append(write(after=after))

        assert wire.questions - before == 10
        assert len(jobs(postgres, schema)) == 70


@pytest.mark.parametrize("evil", ["evil", "evil; drop table runs"])
async def test_names_in_the_environment_have_no_effect(postgres, schema, monkeypatch, evil):
    names = "CHANNEL FUNCTION QUEUE_TABLE QUEUE_TABLE_LOG STATISTICS_TABLE TRIGGER SCHEDULES_TABLE"
    for name in f"{names} QUEUE_STATUS_TYPE DURABILITY WIDEN_ID DB_SCHEMA SCHEMA PREFIX".split():
        monkeypatch.setenv(name, evil)
        monkeypatch.setenv(f"PGQUEUER_{name}", evil)
    async with opened(postgres, schema) as store:
        hand = Hand(store)
        hand.serve()
        await until(lambda: hand.hints)  # Once for the connection.
        await store.append(write("run_1"))
        await until(lambda: not jobs(postgres, schema))

        assert hand.taken == ["run_1"]
        assert hand.hints > 1
    found = postgres.execute(
        f"select relname from pg_class where relnamespace = '{schema}'::regnamespace "
        "and relname ~ '^work(_|$)' and relkind = 'r' order by 1"
    )
    assert found == [("work",), ("work_log",), ("work_schedules",), ("work_statistics",)]
