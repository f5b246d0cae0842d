"""What happens to holds, as programs are told: since a place, each once, and only their own."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from sayso import reject
from sayso.server import holds, live
from sayso.store.moved import find_end
from tests.engine.kit import held

from .conftest import Service, service

PATH = "/v1/holds/events"


async def ask(it: Service, by: str = "mira", **options: Any) -> Any:
    return await held(await it.sayso.start("teller", "pay 5", by=by, **options))


async def told(client: Any, since: int | None = None, **params: Any) -> list[tuple[str, str, Any]]:
    """Give what is told after a place: id, name and data."""
    headers = {} if since is None else {"last-event-id": str(since)}
    answer = await client.get(PATH, headers=headers, params=params)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = [dict(line.split(": ", 1) for line in one.split("\n")) for one in split(answer.text)]
    return [(one.get("id", ""), one["event"], json.loads(one["data"])) for one in frames]


def split(text: str) -> list[str]:
    return [one for one in text.split("\n\n") if one]


async def test_whoever_comes_back_is_told_what_happened_since_and_nothing_twice() -> None:
    async with service() as it:
        client = await it.client()
        before = await ask(it)
        ((place, name, _),) = await told(client)
        assert name == "ready"
        first, second = await ask(it), await ask(it)
        await it.sayso.decide(first, reject("no"), by="mira")

        ready, *moved = await told(client, int(place))
        assert ready[:2] == (place, "ready")
        # Each once, as it stands, in the order of what happened last.
        assert [(one["id"], one["status"]) for _, _, one in moved] == [
            (second.id, "open"),
            (first.id, "settled"),
        ]
        assert before.id not in str(moved)
        assert [int(one) for one, _, _ in moved] == sorted(int(one) for one, _, _ in moved)

        assert [one[1:] for one in await told(client, int(moved[0][0]))] == [
            ("ready", {}),
            ("hold", {"id": first.id, "status": "settled"}),
        ]
        assert [one[1] for one in await told(client, int(moved[1][0]))] == ["ready"]
        assert await told(client, after=place) == [ready, *moved]


async def test_nobody_is_told_of_what_they_may_not_see() -> None:
    async with service() as it:
        await it.sayso.people.put("mira")
        await it.sayso.people.put("eve")
        mine = await ask(it)
        await ask(it, project="other")

        for who, project, count in (("mira", "default", 1), ("eve", "default", 0)):
            found = await told(await it.client(who, project=project), 0)
            assert [one[2]["id"] for one in found[1:]] == [mine.id] * count


async def test_too_much_and_no_place_of_this_store_is_the_list(monkeypatch: Any) -> None:
    async with service() as it:
        client = await it.client()
        await ask(it)
        end = await find_end(it.sayso.store)
        assert [one[:2] for one in await told(client, end + 1)] == [
            (str(end), "ready"),
            ("", "list"),
        ]
        monkeypatch.setattr(live, "REPLAY_MAX", end - 1)
        assert [one[1] for one in await told(client, 1)] == ["ready", "hold"]
        assert [one[1] for one in await told(client, 0)] == ["ready", "list"]
        monkeypatch.setattr(live, "PENDING_MAX", 1)
        await ask(it)
        assert "list" in [one[1] for one in await told(client, 2)]


class Reader:
    """Reads a stream that goes on, as a server would send it."""

    def __init__(self, it: Service, authorization: str) -> None:
        self._parts: asyncio.Queue[Any] = asyncio.Queue()
        scope = {
            "type": "http",
            "method": "GET",
            "scheme": "http",
            "path": PATH,
            "query_string": b"follow=true",
            "headers": [(b"authorization", authorization.encode())],
            "client": ("127.0.0.1", 1),
        }
        self.task = asyncio.ensure_future(it.app(scope, self._receive, self._parts.put))

    async def _receive(self) -> Any:
        await asyncio.Event().wait()

    async def next(self, name: str) -> dict[str, str]:
        async with asyncio.timeout(20):
            while True:
                body = (await self._parts.get()).get("body", b"").decode()
                for frame in split(body):
                    read = dict(line.split(": ", 1) for line in frame.split("\n"))
                    if read.get("event") == name:
                        return read

    async def close(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_what_comes_between_reading_and_listening_is_told_once(monkeypatch: Any) -> None:
    """The next hold is asked after somebody listens, and before the store's end is looked for."""
    async with service() as it:
        client = await it.client()
        asked: list[Any] = []

        async def late(store: Any) -> int:
            asked.append(await ask(it))
            return await find_end(store)

        monkeypatch.setattr(live, "find_end", late)
        reader = Reader(it, client.headers["authorization"])
        await reader.next("ready")
        later = await ask(it)

        assert json.loads((await reader.next("hold"))["data"])["id"] == later.id
        assert asked
        await reader.close()


async def test_it_goes_on_until_the_credential_ends(monkeypatch: Any) -> None:
    async with service() as it:
        await it.sayso.people.put("mira")
        client = await it.client()
        monkeypatch.setattr(holds, "alive", partial(holds.alive, every_s=0.02))
        reader = Reader(it, client.headers["authorization"])
        await reader.next("ready")
        hold = await ask(it)
        assert json.loads((await reader.next("hold"))["data"]) == {"id": hold.id, "status": "open"}

        await it.sayso.people.put("mira", active=False)
        async with asyncio.timeout(20):
            await reader.task
        assert it.app.state.streams.open == 0


@pytest.mark.parametrize("place", ["-2", "x", "9" * 17])
async def test_a_place_that_is_none_is_refused(place: str) -> None:
    async with service() as it:
        answer = await (await it.client()).get(PATH, headers={"last-event-id": place})

        assert answer.status_code == 422
