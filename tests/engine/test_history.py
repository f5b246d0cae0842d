"""What a long history costs: an append writes as much after two hundred messages as after two, and
a decision reads no more.

Method: a store that counts every byte that goes in or out, and the write-ahead log of a real file.
The same decision is made in a young run and in an old one, by a process that does no work, so that
nobody else's reads are counted.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sayso import AssistantMessage, Context, UserMessage, approve, reject, tool
from sayso.engine.history import History
from sayso.store.base import Store, Write
from sayso.testing import call, say

from .kit import Delegate, Place, agent, completed, entries, held, tags

SHORT, LONG = 1, 100
"""Turns with one call each: 2 and 200 messages."""
SLACK = 64
"""Longer numbers take a few bytes more."""


class Measured(Delegate):
    """A store that counts what goes through it."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.written: dict[str, int] = {}
        self.reads: Counter[str] = Counter()
        self.read_bytes = 0

    def append(self, *writes: Write) -> Any:
        size = sum(len(w.state) + sum(len(e.payload) for e in w.entries) for w in writes)
        self.written["+".join(tags(writes))] = size
        return self.inner.append(*writes)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        if name not in ("load", "journal", "entries", "tail", "runs", "holds", "hold", "key"):
            return found

        async def measured(*args: Any, **kwargs: Any) -> Any:
            answer = await found(*args, **kwargs)
            self.reads[name] += 1
            self.read_bytes += len(msgspec.msgpack.encode(answer))
            return answer

        return measured


def teller(place: Place, turns: int) -> Any:
    """An agent that looks around for some turns before it pays."""

    @tool(effect="none")
    async def look(at: int) -> str:
        return "nothing to see here, and a few more words about it"

    @tool(approval=True, effect="once")
    async def pay(ctx: Context, amount: int) -> str:
        place.world.act(ctx, {"amount": amount})
        return "paid"

    script = [call("look", {"at": 1}) for _ in range(turns)]
    return agent(
        [*script, call("pay", {"amount": 10}), say("Done.")], look, pay, turns_max=turns + 5
    )


async def cycle(place: Place, turns: int, verdict: Any) -> tuple[Measured, Measured]:
    """Run one cycle after some turns; give what the worker and what the desk went through."""
    stores: list[Measured] = []

    def measure(store: Store) -> Measured:
        stores.append(Measured(store))
        return stores[-1]

    async with place.app(teller(place, turns), wrap=measure) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        async with place.app(work=False, wrap=measure) as desk:
            await desk.decide(hold.id, verdict, by="mira", digest=hold.digest, key=run.id)
            deciding = stores[-1]
        await completed(run)
    return stores[0], deciding


@pytest.mark.parametrize("verdict", [approve(), reject("no")], ids=["approve", "reject"])
async def test_an_append_costs_the_same_after_two_hundred_messages_as_after_two(
    place: Place, verdict: Any
) -> None:
    young, young_desk = await cycle(place, SHORT, verdict)
    old, old_desk = await cycle(place, LONG, verdict)

    assert young.written.keys() == old.written.keys()
    for what, size in young.written.items():
        assert old.written[what] <= size + SLACK, what
    for what, size in young_desk.written.items():
        assert old_desk.written[what] <= size + SLACK, what


@pytest.mark.parametrize("verdict", [approve(), reject("no")], ids=["approve", "reject"])
async def test_a_decision_reads_no_more_after_two_hundred_messages_than_after_two(
    place: Place, verdict: Any
) -> None:
    _, young = await cycle(place, SHORT, verdict)
    _, old = await cycle(place, LONG, verdict)

    assert old.reads == young.reads
    assert "journal" not in old.reads
    assert old.read_bytes <= young.read_bytes + 4 * SLACK


async def test_a_long_history_given_at_the_start_is_written_once(place: Place) -> None:
    sizes: list[dict[str, int]] = []
    for count in (1, 100):
        history = [
            message
            for n in range(count)
            for message in (UserMessage(text=f"What is {n}?"), AssistantMessage(text=f"It is {n}."))
        ]
        stores: list[Measured] = []

        def measure(store: Store) -> Measured:
            stores.append(Measured(store))  # noqa: B023
            return stores[-1]  # noqa: B023

        def script(messages: Any) -> Any:
            last = messages[-1]
            return call("pay", {"amount": 1}) if isinstance(last, UserMessage) else say("Done.")

        pay = teller(place, 0).tools["pay"]
        async with place.app(agent(script, pay), wrap=measure) as app:
            run = await app.start("teller", "Pay", by="mira", history=history)
            await app.decide(await held(run), approve(), by="mira")
            await completed(run)
        sizes.append(stores[0].written)

    young, old = sizes
    for what, size in young.items():
        if what != "run.started":
            assert old[what] <= size + SLACK, what


async def test_a_thread_of_many_runs_costs_an_append_no_more(place: Place) -> None:
    stores: list[Measured] = []

    def measure(store: Store) -> Measured:
        stores.append(Measured(store))
        return stores[-1]

    def script(messages: Any) -> Any:
        return say(f"{len(messages)}")

    async with place.app(agent(script), wrap=measure) as app:
        written: list[dict[str, int]] = []
        for n in range(60):
            stores[0].written = {}
            run = await app.start("teller", "And then?", by="mira", thread="t")
            view = await completed(run)
            assert view.output == str(2 * n + 1)
            written.append(stores[0].written)

    for what, size in written[1].items():
        assert written[-1][what] <= size + SLACK


async def test_the_log_of_a_file_grows_as_much_for_an_old_run_as_for_a_young_one(
    file_place: Place,
) -> None:
    place = file_place
    grown = {}
    for turns in (SHORT, LONG):
        async with place.app(teller(place, turns)) as app:
            run = await app.start("teller", "Pay", by="mira")
            hold = await held(run)
        async with place.app(work=False) as desk:
            before = _log_bytes(place.path)
            await desk.decide(hold.id, approve(), by="mira", digest=hold.digest)
            grown[turns] = _log_bytes(place.path) - before

    assert grown[LONG] > 0
    # A page more, where a tree has become one level deeper.
    assert grown[LONG] <= grown[SHORT] + 4 * (4096 + 24)


def _log_bytes(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0


async def test_a_view_of_an_old_run_is_complete(place: Place) -> None:
    async with place.app(teller(place, LONG)) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")

        view = await completed(run)

        assert len(view.messages) == 1 + 2 * (LONG + 1) + 1
        assert len(await entries(app.store)) == view.seq


async def test_the_earlier_runs_of_a_thread_are_read_once(place: Place) -> None:
    stores: list[Measured] = []

    def measure(store: Store) -> Measured:
        stores.append(Measured(store))
        return stores[-1]

    async with place.app(agent(lambda messages: say(str(len(messages)))), wrap=measure) as app:
        reads: list[int] = []
        for n in range(10):
            before = stores[0].reads["journal"]
            run = await app.start("teller", "And then?", by="mira", thread="t")
            assert (await completed(run)).output == str(2 * n + 1)
            reads.append(stores[0].reads["journal"] - before)

    # The first of them has no earlier run, the second reads one.
    assert reads[2:] == [reads[1]] * 8


async def test_what_is_erased_of_an_earlier_run_is_erased_for_the_model(place: Place) -> None:
    def script(messages: Any) -> Any:
        return say(" ".join(m.text for m in messages if isinstance(m, UserMessage)))

    async with place.app(agent(script)) as app:
        first = await app.start("teller", "secret", by="mira", thread="t")
        await completed(first)
        second = await app.start("teller", "two", by="mira", thread="t")
        view = await completed(second)
        assert view.output == "secret two"
        assert [message.text for message in view.messages] == ["two", "secret two"]

        await app.redact(first, 1, by="mira")
        third = await app.start("teller", "three", by="mira", thread="t")

        assert (await completed(third)).output == "[erased] two three"


@pytest.mark.parametrize("bytes_max", [0, 700, 10_000])
async def test_what_is_kept_of_earlier_runs_is_bounded(place: Place, bytes_max: int) -> None:
    async with place.app(agent(lambda messages: say(str(len(messages))))) as app:
        for _ in range(10):
            run = await app.start("teller", "And then?", by="mira", thread="t")
            await completed(run)
        ledger = app._open_parts.ledger
        history = History(app.store, ledger.read, bytes_max=bytes_max)
        last = await ledger.load(run.id)

        for _ in range(2):
            transcript = await history.begin(last)
            assert len(transcript.messages()) == 18

        kept = sum(said.size for said in history._kept.values())
        assert kept == history._size <= bytes_max
        assert bool(kept) == (bytes_max > 0)
