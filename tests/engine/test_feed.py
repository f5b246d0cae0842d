"""Following a run that another process works on: its text as it comes, and each entry once,
whatever becomes of the connections.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from sayso import Agent, Delta, Recorded, Sayso, Secret, approve, tool
from sayso.domain import events as e
from sayso.engine.feed import PIECE, Feed, Voice
from sayso.engine.ports import Answer, Prompt
from sayso.store.aside import TEXT_BYTES_MAX
from sayso.store.memory import MemoryStore
from sayso.testing import ScriptedModel, call, say
from tests.postgres import Cluster

from .kit import PATIENCE_S, until

CHILD = Path(__file__).with_name("feed_child.py")


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "sayso.db")
    cluster: Cluster = request.getfixturevalue("postgres")
    return cluster.database()


@asynccontextmanager
async def working(where: str, folder: Path) -> AsyncIterator[None]:
    """Have another process work on the store."""
    child = subprocess.Popen([sys.executable, CHILD, where, folder], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert await asyncio.to_thread(child.stdout.readline) == b"ready\n"
        yield
    finally:
        child.kill()
        child.communicate(timeout=PATIENCE_S)


def desk(where: str) -> Sayso:
    return Sayso(where, agents=[Agent("speaker", model=ScriptedModel([say("no")]))], work=False)


async def test_text_reaches_a_reader_in_another_process_and_gives_way_to_the_turn(
    where: str, tmp_path: Path
) -> None:
    async with desk(where) as app, working(where, tmp_path):
        run = await app.start("speaker", "speak", by="mira")
        found: list[Recorded | Delta] = []
        async with asyncio.timeout(PATIENCE_S):
            async for one in app.events(run.id, deltas=True):
                found.append(one)
                if sum(isinstance(each, Delta) for each in found) == 4:
                    (tmp_path / "stop").touch()

        entries = [one for one in found if isinstance(one, Recorded)]
        deltas = [one for one in found if isinstance(one, Delta)]
        (taken,) = [one for one in entries if isinstance(one.event, e.TurnTaken)]
        assert isinstance(taken.event, e.TurnTaken)
        assert [one.seq for one in entries] == list(range(1, len(entries) + 1))
        assert len(deltas) >= 4
        text = taken.event.text
        for delta in deltas:
            assert text[delta.at : delta.at + len(delta.text)] == delta.text
            assert (delta.strand, delta.seen) == (taken.event.strand, taken.event.seen)
        ends = [delta.at + len(delta.text) for delta in deltas]
        assert all(end <= delta.at for end, delta in zip(ends, deltas[1:], strict=False))
        last = max(index for index, one in enumerate(found) if isinstance(one, Delta))
        assert last < found.index(taken)


async def test_nothing_is_said_while_nobody_elsewhere_follows(
    postgres: Cluster, tmp_path: Path
) -> None:
    import psycopg

    url = postgres.database()
    async with desk(url) as app, working(url, tmp_path):
        channel = app.store._aside.channel  # type: ignore[attr-defined]
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
            await conn.execute(f"listen {channel}".encode())
            run = await app.start("speaker", "speak", by="mira")
            heard = [one.payload async for one in conn.notifies(timeout=1.0)]
            (tmp_path / "stop").touch()
            view = await run.wait(final=True, timeout=PATIENCE_S)
            heard += [one.payload async for one in conn.notifies(timeout=0.3)]

    assert len(view.messages[-1].text) > 100  # type: ignore[union-attr]
    assert heard == []


async def test_no_entry_is_missed_or_doubled_when_those_who_listen_are_cut_off(
    postgres: Cluster, tmp_path: Path
) -> None:
    url = postgres.database()
    name = url.partition("?")[0].rpartition("/")[2]
    cut = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity "
        f"where datname = '{name}' and query ilike 'listen%'"
    )
    async with desk(url) as app, working(url, tmp_path), working(url, tmp_path):
        runs = [await app.start("speaker", "look", by="mira") for _ in range(6)]

        async def follow(run_id: str) -> list[int]:
            return [one.seq async for one in app.events(run_id) if isinstance(one, Recorded)]

        followers = [asyncio.create_task(follow(run.id)) for run in runs]
        cuts = 0
        async with asyncio.timeout(PATIENCE_S):
            while not all(one.done() for one in followers):
                cuts += (await asyncio.to_thread(postgres.execute, cut))[0][0]
                await asyncio.sleep(0.05)
        for run, follower in zip(runs, followers, strict=True):
            view = await run.view()
            assert follower.result() == list(range(1, view.seq + 1))
        assert cuts > 0


async def test_a_delta_of_a_turn_that_was_taken_is_not_shown() -> None:
    """Played in one process: what another one has said may come after the turn that it is of."""

    class Late(MemoryStore):
        hear: Any = None

        def __init__(self) -> None:
            super().__init__()
            self.overhear = self._overhear  # type: ignore[method-assign]

        def _overhear(self, run_id: str, hear: Any) -> Any:
            del run_id
            self.hear = hear
            return lambda: None

    store = Late()
    agent = Agent("speaker", model=ScriptedModel([say("hello")]))
    async with Sayso(store, agents=[agent]) as app:
        desk_only = Feed(store)
        run = await app.start("speaker", "speak", by="mira")
        stream = desk_only.follow_all(run.id)
        found = [await anext(stream)]
        while not isinstance(found[-1].event, e.TurnTaken):  # type: ignore[union-attr]
            found.append(await anext(stream))
        seen = found[-1].event.seen  # type: ignore[union-attr]
        for at, text in ((seen, "late"), (seen + 2, "next")):
            store.hear(f'{{"run_id":"{run.id}","turn":1,"text":"{text}","seen":{at}}}')
        store.hear('{"run_id":"run_x","turn":1,"text":"foreign","seen":99}')
        store.hear("nonsense")
        rest = [one async for one in stream]

    assert [one.text for one in rest if isinstance(one, Delta)] in (["next"], [])
    assert not any(getattr(one, "text", "") in ("late", "foreign") for one in rest)


async def test_text_is_said_in_pieces_that_every_store_can_carry() -> None:
    said: list[str] = []
    store = MemoryStore()
    store.mention = lambda run_id, text: said.append(text)  # type: ignore[method-assign]
    feed = Feed(store)
    first = Delta(run_id="run_1", turn=1, text="")
    voice = Voice(feed, first)
    awkward = '"\\\x00\x1f\n' * PIECE

    for character in ("a", "b", awkward, "\ud800"):
        voice.emit(character)
    Voice(feed, first).emit("anew")
    await until(lambda: any("anew" in one for one in said))

    assert max(len(one.encode()) for one in said) < TEXT_BYTES_MAX
    assert len(said) == len(awkward) // PIECE + 1


async def test_a_secret_that_a_model_says_is_in_no_delta(tmp_path: Path) -> None:
    heard: dict[str, list[str]] = {"clerk": [], "speaker": []}
    got: list[str] = []
    listening = asyncio.Event()

    @tool(approval=True)
    async def login(password: Secret) -> str:
        got.append(password.reveal())
        return "in"

    class Halting(ScriptedModel):
        """Says its words in pieces, a secret in two of them."""

        async def answer(self, prompt: Prompt, emit: Callable[[str], None]) -> Answer:
            await listening.wait()
            found = await super().answer(prompt, emit=lambda _: None)
            for at in range(0, len(found.text), 3):
                emit(found.text[at : at + 3])
            return found

    turns = [[say("I take canary-4711."), call("login", {"password": "canary-4711"})], say("Done.")]
    clerk = Agent("clerk", model=Halting(turns), tools=[login])
    speaker = Agent("speaker", model=Halting([say("I have nothing to hide.")]))
    async with Sayso(tmp_path / "sayso.db", agents=[clerk, speaker]) as app:
        for name, words in heard.items():
            listening.clear()
            run = await app.start(name, "go", by="mira")
            async with asyncio.timeout(PATIENCE_S):
                async for one in app.events(run.id, deltas=True):
                    if isinstance(one, Delta):
                        words.append(one.text)
                        continue
                    listening.set()
                    assert "canary" not in repr(one)
                    if one.type == "run.suspended":
                        await app.decide((await run.view()).holds[0], approve(), by="mira")

    assert got == ["canary-4711"]
    assert heard["clerk"] == []
    # One without such tools is heard as it speaks.
    assert "".join(heard["speaker"]) == "I have nothing to hide."
