"""What browsers are told as it happens. The frames are read where they are made: a transport of
the tests has no stream that stays open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from sayso import approve, reject
from sayso.server.live import PENDING_MAX, Ear, Live
from sayso.server.seat import Seats
from sayso.store.base import PAGE_MAX
from sayso.store.memory import MemoryStore
from sayso.store.moved import Moved, find_end
from sayso.web import chat
from sayso.web import live as module
from sayso.web.session import COOKIE, Sessions
from tests.web.browsing import Desk, Person, run
from tests.web.desk import say_calls, sign_in

PATIENCE_S = 20


class Stream:
    """A stream of somebody's session, as the server sends it."""

    def __init__(
        self,
        desk: Desk,
        person: Person,
        headers: dict[str, str] | None = None,
        path: str = "/live",
    ) -> None:
        self._sent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._rest = b""
        cookie = person.client.cookies[COOKIE]
        named = {"cookie": f"{COOKIE}={cookie}", "host": "sayso.test", **(headers or {})}
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(key.encode(), value.encode()) for key, value in named.items()],
            "server": ("sayso.test", 80),
            "client": ("127.0.0.1", 1),
        }
        self._app = desk.app
        self._task = asyncio.ensure_future(self._app(self._scope, self._receive, self._sent.put))

    async def _receive(self) -> dict[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def status(self) -> int:
        started = await asyncio.wait_for(self._sent.get(), PATIENCE_S)
        return int(started["status"])

    async def frames(self) -> AsyncIterator[str]:
        while True:
            while b"\n\n" in self._rest:
                frame, _, self._rest = self._rest.partition(b"\n\n")
                yield frame.decode()
            part = await asyncio.wait_for(self._sent.get(), PATIENCE_S)
            if not part.get("more_body", False) and not part.get("body"):
                return
            self._rest += part.get("body", b"")

    async def told(self) -> dict[str, Any]:
        """Give the next thing that it is told of a hold."""
        async for frame in self.frames():
            if "event: hold" in frame:
                return json.loads(frame.partition("data: ")[2])
        raise AssertionError("the stream has ended")

    async def close(self) -> None:
        self._gone.set()
        await asyncio.wait_for(self._task, PATIENCE_S)


async def opened(desk: Desk, person: Person, **headers: str) -> Stream:
    stream = Stream(desk, person, headers)
    assert await stream.status() == 200
    frames = stream.frames()
    assert await anext(frames) == "retry: 2000"
    assert "event: list" in await anext(frames)
    return stream


async def end_session(desk: Desk, person: Person) -> None:
    sessions = Sessions(desk.sayso.store)
    found = await sessions.find(str(person.client.cookies[COOKIE]))
    assert found is not None
    await sessions.end(found[0].id)


async def until_over(stream: Stream) -> None:
    async with asyncio.timeout(PATIENCE_S):
        async for _ in stream.frames():
            pass
    await stream.close()


def test_a_session_is_told_of_what_it_may_see_and_of_nothing_else() -> None:
    async def main(desk: Desk) -> None:
        mira, olga = await desk.person(), await desk.person("olga")
        streams = [await opened(desk, mira), await opened(desk, olga)]
        hidden = await desk.ask(["pay", {"amount": 1, "to": "x"}])
        seen = await desk.ask(["pay", {"amount": 2, "to": "x"}], by="olga")
        told = await streams[1].told()

        assert told == {"id": seen.id, "status": "open", "said": ""}
        assert (await streams[0].told())["id"] == hidden.id
        await desk.sayso.decide(hidden, reject("no"), by="mira")
        assert (await streams[0].told())["said"] == "Rejected by mira."
        for stream in streams:
            await stream.close()

    run(main)


def test_what_moves_in_another_project_is_not_even_hinted_at() -> None:
    async def main(desk: Desk) -> None:
        mira = await desk.person()
        mira.client.cookies.set(COOKIE, await sign_in(desk.sayso, "mira", project="other"))
        stream = await opened(desk, mira)
        foreign = await desk.ask(["pay", {"amount": 1, "to": "x"}])
        await desk.sayso.reassign(foreign, to="jonas", by="mira")
        calls = say_calls(["pay", {"amount": 2, "to": "x"}])
        mine = await desk.sayso.start("teller", calls, by="mira", project="other")
        async for frame in stream.frames():
            assert "event: list" not in frame
            if "event: hold" in frame:
                assert mine.id.removeprefix("run_") in frame
                break
        await stream.close()

    run(main)


def test_what_happens_twice_is_told_as_it_stands() -> None:
    async def main(desk: Desk) -> None:
        stream = await opened(desk, await desk.person())
        hold = await desk.ask(["wire", {"amount": 1}])
        assert (await stream.told())["status"] == "open"
        await desk.sayso.decide(hold, approve(), by="mira")
        assert (await stream.told())["status"] == "open"
        await desk.sayso.decide(hold, approve(), by="jonas", undo=60)
        assert (await stream.told()) == {
            "id": hold.id,
            "status": "decided",
            "said": "Approved by jonas.",
        }
        await stream.close()

    run(main)


def test_whoever_comes_back_is_told_to_look_again() -> None:
    async def main(desk: Desk) -> None:
        stream = Stream(desk, await desk.person(), {"last-event-id": "7"})
        await stream.status()
        frames = stream.frames()
        await anext(frames)
        assert "data: true" in await anext(frames)
        await stream.close()

    run(main)


def test_a_stream_ends_with_its_session(monkeypatch: Any) -> None:
    async def main(desk: Desk) -> None:
        monkeypatch.setattr(module, "alive", partial(module.alive, every_s=0.02))
        person = await desk.person()
        stream = await opened(desk, person)
        await end_session(desk, person)
        await until_over(stream)

    run(main)


@pytest.mark.parametrize("lost", ["session", "role"])
def test_the_stream_of_a_conversation_ends_with_the_right_to_see_it(
    monkeypatch: Any, lost: str
) -> None:
    async def main(desk: Desk) -> None:
        monkeypatch.setattr(chat, "alive", partial(chat.alive, every_s=0.02))
        hold = await desk.ask(["pay", {"amount": 1, "to": "x"}])
        jonas = await desk.person("jonas")
        stream = Stream(desk, jonas, path=f"/chat/{hold.run_id}/events")
        assert await stream.status() == 200
        if lost == "role":
            await desk.sayso.people.put("jonas", roles=["finance"])
        else:
            await end_session(desk, jonas)
        await until_over(stream)

    run(main)


def test_whoever_is_not_signed_in_hears_nothing() -> None:
    async def main(desk: Desk) -> None:
        person = await desk.person()
        person.client.cookies.set(COOKIE, "x.y")
        assert await Stream(desk, person).status() == 303

    run(main)


def test_there_is_an_end_to_how_many_listen() -> None:
    async def main(desk: Desk) -> None:
        desk.app.state.streams = Seats(1)
        first = await opened(desk, await desk.person())
        assert desk.app.state.streams.open == 1
        assert await Stream(desk, await desk.person()).status() == 503
        await first.close()
        assert desk.app.state.streams.open == 0

    run(main)


async def test_who_does_not_keep_up_looks_at_the_list_instead() -> None:
    ear = Ear()
    for n in range(PENDING_MAX + 1):
        ear.hear(Moved(run_id="run_1", n=n, position=n))
    moved, behind = await ear.wait()
    assert behind
    assert len(moved) <= PENDING_MAX
    ear.hear(Moved(run_id="run_1", n=1, position=1))
    ear.hear(Moved(run_id="run_1", n=1, position=2))
    assert await ear.wait() == ([Moved(run_id="run_1", n=1, position=2)], False)


async def test_one_reader_serves_all_and_stops_with_the_last() -> None:
    live = Live(MemoryStore())
    one, two = Ear(), Ear()
    await live.join(one)
    await live.join(two)
    before = {task.get_name() for task in asyncio.all_tasks()}
    live.leave(one)
    live.leave(two)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    after = {task.get_name() for task in asyncio.all_tasks()}
    assert "sayso-live" in before - after


def test_the_end_of_a_store_is_found() -> None:
    async def main(desk: Desk) -> None:
        store = desk.sayso.store
        assert await find_end(MemoryStore()) == 0
        for _ in range(3):
            await desk.ask(["pay", {"amount": 1, "to": "x"}])
            last = (await store.tail(limit=PAGE_MAX))[-1].position
            assert await find_end(store) == last

    run(main)
