"""`sayso watch`: what is told of, as it happens and after a server was gone, never twice."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

import httpx2
import pytest

from sayso import reject
from sayso.cli.desk_remote import RemoteDesk
from sayso.cli.watch import LOOK_S
from tests.engine.kit import held

from .conftest import PATIENCE_S, SAYSO, environment
from .stage import WAYS, app, staged, wait


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@contextmanager
def watching(stage, way, *args, **env):
    child = subprocess.Popen(
        [SAYSO, "watch", *map(str, args)],
        env=environment(**stage.env(way, **env)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines = SimpleQueue()
    reader = Thread(target=lambda: [lines.put(line) for line in child.stdout])
    reader.start()
    child.told = lambda: json.loads(lines.get(timeout=PATIENCE_S))
    try:
        yield child
    finally:
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 130
        reader.join()
        child.stdout.close()
        child.stderr.close()


def test_what_happens_is_told_as_it_happens(stage, way, tmp_path):
    script, seen = tmp_path / "note.py", tmp_path / "seen"
    script.write_text(
        "import os, sys\n"
        f"line = [os.environ['SAYSO_EVENT'], *sys.argv[1:]]\n"
        f"open({str(seen)!r}, 'a').write(repr(line) + '\\n')\n"
    )
    command = f"{sys.executable} {script} ;touch {tmp_path / 'pwned'}"

    with watching(stage, way, "--json", "--exec", command, "risk:high") as child:
        assert "waiting" in child.stderr.readline()
        stage.ask("ask")
        name = stage.ask("pay 8")
        asked = child.told()
        body = {"action": "reject", "seen": stage.hold(name)["digest"]}
        stage.post(f"/v1/holds/{name}/decision", body)
        decided = child.told()
        wait(lambda: seen.exists() and len(seen.read_text().splitlines()) == 2)

    assert (asked["what"], asked["hold"]["id"]) == ("asked", name)
    assert (decided["what"], decided["hold"]["decision"]["by"]["id"]) == ("rejected", "mira")
    assert seen.read_text().splitlines()[0] == repr(["asked", ";touch", str(tmp_path / "pwned")])
    assert not (tmp_path / "pwned").exists()


def test_a_lost_connection_is_taken_up_again(stage):
    with watching(stage, "remote", "--json") as child:
        assert "waiting" in child.stderr.readline()
        stage.stop()
        assert "does not answer" in child.stderr.readline()
        stage.start()
        name = stage.ask("pay 9")
        told = child.told()

    assert (told["what"], told["hold"]["id"]) == ("asked", name)


def meanwhile(stage, monkeypatch):
    """Have something asked and rejected with no server there; give its id."""
    monkeypatch.setenv("STAGE_STORE", str(stage.store))

    async def main():
        async with app() as it:
            hold = await held(await it.start("teller", "pay 3", by="mira"))
            await it.decide(hold, reject("no"), by="mira")
            return hold.id

    return asyncio.run(main())


def test_what_came_and_was_decided_while_the_server_was_gone_is_told_once(stage, monkeypatch):
    with watching(stage, "remote", "--json") as child:
        assert "waiting" in child.stderr.readline()
        first = stage.ask("pay 1")
        told = [child.told()]
        stage.stop(signal.SIGKILL)
        assert "does not answer" in child.stderr.readline()
        gone = meanwhile(stage, monkeypatch)
        stage.start()
        assert "is back" in child.stderr.readline()
        told += [child.told() for _ in range(2)]
        # What comes of it later is nothing new, and neither is what came before.
        last = stage.ask("pay 2")
        told.append(child.told())

    assert [(one["what"], one["hold"]["id"]) for one in told] == [
        ("asked", first),
        ("asked", gone),
        ("rejected", gone),
        ("asked", last),
    ]


def test_what_is_new_is_told_in_a_moment_and_what_has_passed_as_well(stage, way):
    with watching(stage, way, "--json", "--all") as child:
        assert "waiting" in child.stderr.readline()
        began = time.monotonic()
        name = stage.ask("pay 8")
        told = [child.told()]
        took = time.monotonic() - began
        body = {"action": "approve", "seen": stage.hold(name)["digest"], "undo": 0.3}
        stage.post(f"/v1/holds/{name}/decision", body)
        told.append(child.told())
        # That it takes effect is told to whoever listens, and is no line.
        wait(lambda: stage.hold(name)["status"] == "settled")
        last = stage.ask("pay 9")
        told.append(child.told())

    assert took < LOOK_S
    assert [(one["what"], one["hold"]["id"]) for one in told] == [
        ("asked", name),
        ("approved", name),
        ("asked", last),
    ]


async def test_a_server_that_cannot_tell_is_looked_at_instead():
    asked = []

    def answer(request):
        asked.append(request.url.path)
        problem = {"type": "urn:sayso:problem:unknown-hold", "detail": "there is no hold 'events'"}
        return httpx2.Response(404, json=problem)

    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(transport=transport, base_url="http://old.test") as client:
        desk = RemoteDesk(client, "http://old.test")
        for _ in range(3):
            assert await desk.changed(0.01) == frozenset()
        await desk.hearing.close()

    assert asked == ["/v1/holds/events"]
