"""Questions that go together: each gets its own answer, and none an old one."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager

from sayso.errors import BadValue, StoreClosed
from sayso.store.postgres import PostgresStore
from sayso.store.postgres_link import Link
from sayso.testing.contract import write
from tests.postgres import Cluster


@asynccontextmanager
async def filled(postgres: Cluster):
    schema = postgres.schema()
    store = await PostgresStore.open(postgres.url("postgres"), schema=schema, listen=False)
    try:
        await asyncio.gather(
            *(store.append(write(f"run_{n}", count=1 + n % 3)) for n in range(1, 41)),
            *(store.shelf.put("p", "k", f"{n:02}", b"%d" % n, rev=0) for n in range(1, 41)),
        )
        yield store
    finally:
        await store.close()
        postgres.drop(schema)


@contextmanager
def counted(monkeypatch) -> Iterator[list[str]]:
    said: list[str] = []
    read = Link.read

    async def counting(link, sql, params=()):
        said.append(sql)
        return await read(link, sql, params)

    with monkeypatch.context() as patch:
        patch.setattr(Link, "read", counting)
        yield said


async def test_those_who_ask_at_once_share_statements_and_get_their_own_answers(
    postgres, monkeypatch
):
    async with filled(postgres) as store:
        names = [f"run_{n}" for n in range(1, 43)]
        with counted(monkeypatch) as said:
            rows, journals, items, lists = await asyncio.gather(
                asyncio.gather(*(store.load(name) for name in names)),
                asyncio.gather(*(store.journal(name, after=1) for name in names)),
                asyncio.gather(*(store.shelf.get("p", "k", f"{n:02}") for n in range(1, 43))),
                asyncio.gather(
                    *(store.shelf.list("p", "k", after=f"{n:02}") for n in range(36, 43))
                ),
            )
            shared = [sql for sql in said if "ordinality" in sql]

        assert len(shared) <= 4 * 3
        assert [row and row.id for row in rows] == [*names[:40], None, None]
        assert [[one.seq for one in each] for each in journals[:4]] == [[2], [2, 3], [], [2]]
        assert {one.run_id for each in journals for one in each} <= set(names)
        assert [item and item.data for item in items] == [
            *(b"%d" % n for n in range(1, 41)),
            None,
            None,
        ]
        assert [len(each) for each in lists] == [4, 3, 2, 1, 0, 0, 0]


async def test_a_question_that_is_refused_is_refused_alone(postgres):
    async with filled(postgres) as store:
        asked = [store.load(name) for name in ("run_1", "run_2", "a\x00b", "half \ud800", "run_3")]

        found = await asyncio.gather(*asked, return_exceptions=True)

        assert [getattr(one, "id", type(one)) for one in found] == [
            "run_1",
            "run_2",
            BadValue,
            BadValue,
            "run_3",
        ]


async def test_no_answer_is_older_than_its_question(postgres, monkeypatch):
    """Whoever asks while an answer is under way must not be given that one."""
    async with filled(postgres) as store:
        read, first = Link.read, asyncio.Event()
        held = asyncio.Event()

        async def slow(link, sql, params=()):
            rows = await read(link, sql, params)
            if "ordinality" in sql and not first.is_set():
                first.set()
                await held.wait()
            return rows

        monkeypatch.setattr(Link, "read", slow)
        before = asyncio.create_task(store.load("run_3"))
        await first.wait()
        await store.append(write("run_3", after=1))
        after = asyncio.create_task(store.load("run_3"))
        await asyncio.sleep(0)
        held.set()

        assert (await before).seq == 1
        assert (await after).seq == 2


async def test_whoever_stops_asking_keeps_nobody_waiting(postgres):
    async with filled(postgres) as store:
        asked = [asyncio.create_task(store.load(f"run_{n}")) for n in range(1, 21)]
        await asyncio.sleep(0)
        for n in (0, 5, 19):
            asked[n].cancel()

        found = await asyncio.gather(*asked, return_exceptions=True)

        assert sum(isinstance(one, asyncio.CancelledError) for one in found) == 3
        assert (await store.load("run_1")).id == "run_1"


async def test_whoever_asks_a_store_that_is_closed_meanwhile_is_told(postgres):
    async with filled(postgres) as store:
        asked = [asyncio.create_task(store.load(f"run_{n}")) for n in range(1, 41)]
        await asyncio.sleep(0)

        await store.close()

        for one in await asyncio.gather(*asked, return_exceptions=True):
            assert isinstance(one, StoreClosed) or one.id.startswith("run_")
