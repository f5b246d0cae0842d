"""What is told of runs to whoever watches: spans over a suspension and several processes, metrics,
and never a word of what was said.

Method: every app has an SDK of its own, as every process has; they have the store in common.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor

from sayso import Agent, Policy, Rule, Sayso, approve, reject, tool
from sayso.domain.hold import read_id
from sayso.engine import gauge
from sayso.engine.telemetry import ATTRIBUTES, METRICS, SPANS
from sayso.errors import AlreadyDecided, BadSetup, StoreBusy, UnknownHold
from sayso.testing import call, say
from tests.telemetry import Heard, id_of, links_of, parent_of

from .kit import Delegate, Place, agent, completed, held, journal, until
from .test_takeover import Bank, Stopped, _taken_over, model


@tool(approval=True, effect="once", risk="high")
async def pay(amount: int = 1) -> str:
    return "paid"


def teller() -> Agent:
    return agent([call("pay"), say("Done.")], pay)


async def test_spans_are_linked_over_a_suspension_and_three_processes(place: Place) -> None:
    one, two, three = Heard(), Heard(), Heard()
    async with place.app(teller(), telemetry=one.telemetry) as app:
        with one.tracers.get_tracer("host").start_as_current_span("host"):
            run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
    async with place.app(work=False, telemetry=two.telemetry) as app:
        await app.decide(hold.id, approve(), by="mira")
    async with place.app(teller(), telemetry=three.telemetry) as app:
        view = await completed(app.run(run.id))

    started, asked = one.one("sayso.start"), one.one("sayso.turn")
    assert parent_of(started) == id_of(one.one("host"))
    assert parent_of(asked) == id_of(started)
    assert asked.context.trace_id == one.one("host").context.trace_id
    decided = two.one("sayso.decide")
    assert parent_of(decided) is None
    assert links_of(decided) == [id_of(asked)]
    called, told = three.one("sayso.call"), three.one("sayso.turn")
    assert parent_of(called) == parent_of(told) == id_of(decided)
    assert links_of(called) == [id_of(asked)]
    assert called.context.trace_id == decided.context.trace_id != asked.context.trace_id
    assert dict(called.attributes or {}) == {
        "sayso.run.id": view.id,
        "sayso.agent": "teller",
        "sayso.tool": "pay",
        "sayso.risk": "high",
        "sayso.attempt": 1,
        "sayso.outcome": "returned",
    }
    about = dict(decided.attributes or {})
    assert about["sayso.hold.id"] == hold.id
    assert (about["sayso.verdict"], about["sayso.kind"]) == ("approved", "approval")


async def test_what_silence_has_let_go_on_is_below_nobody(place: Place) -> None:
    heard = Heard()
    policy = Policy(Rule("pay", within="1h", on_silence="reject"))
    async with place.app(teller(), policy=policy, telemetry=heard.telemetry) as app:
        run = await app.start("teller", "Pay", by="mira")
        await held(run)
        place.clock.advance("2h")
        await completed(run)

    asked, told = heard.named("sayso.turn")
    assert parent_of(asked) == id_of(heard.one("sayso.start"))
    assert parent_of(told) is None


async def test_who_comes_second_has_a_span_that_failed(place: Place) -> None:
    heard = Heard()
    async with place.app(teller(), telemetry=heard.telemetry) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await app.decide(hold, reject("no"), by="mira")
        with pytest.raises(AlreadyDecided):
            await app.decide(hold, approve(), by="mira")

    first, second = heard.named("sayso.decide")
    assert first.status.is_ok
    assert not second.status.is_ok
    assert (second.attributes or {})["error.type"] == "AlreadyDecided"
    assert not second.events


@pytest.mark.parametrize("name", ["hold_\ud800.1", "req_\ud800.1", "run_1", 7, None, ["x"]])
async def test_what_names_nothing_is_refused_as_it_is_without(place: Place, name: Any) -> None:
    heard = Heard()
    async with place.app(teller(), telemetry=heard.telemetry) as app:
        with pytest.raises(UnknownHold):
            await app.decide(name, approve(), by="mira")
        with pytest.raises(UnknownHold):
            await app.resume(name, approve(), by="mira")

    assert [dict(span.attributes or {}) for span in heard.named("sayso.decide")] == [
        {"error.type": "UnknownHold"}
    ] * len(heard.named("sayso.decide"))


async def test_several_that_are_decided_at_once_are_one_span(place: Place) -> None:
    heard = Heard()
    both = agent([[call("pay", {"amount": 1}), call("pay", {"amount": 2})], say("Done.")], pay)
    async with place.app(both, telemetry=heard.telemetry) as app:
        run = await app.start("teller", "Pay", by="mira")
        view = await run.wait(timeout=20)
        request = view.holds[0].request_id
        for _ in range(2):  # The second is a retry, and settles nothing.
            await app.resume(request, approve(), by="mira", key="once")
        await completed(run)

    asked = heard.named("sayso.turn")[0]
    first, second = heard.named("sayso.decide")
    assert links_of(first) == [id_of(asked)] * 2
    assert (first.attributes or {})["sayso.request.id"] == request
    assert "sayso.verdict" not in (second.attributes or {})
    assert len(heard.named("sayso.call")) == 2


async def test_a_call_that_is_looked_into_is_not_told_as_one_that_ran(place: Place) -> None:
    heard = Heard()
    bank = Bank(place.world, approval=True)
    bank.end.set()
    one, two = (Agent("teller", model=model(), tools=[bank.tool]) for _ in range(2))
    stopped: list[Stopped] = []

    def stop(store: Any) -> Stopped:
        stopped.append(Stopped(store, "call.finished"))
        return stopped[0]

    async with place.app(one, wrap=stop, deps="one") as first:
        run = await first.start("teller", "Pay", by="mira")
        await first.decide(await held(run), approve(), by="mira")
        await stopped[0].reached.wait()
        place.clock.advance("1m")
        async with place.app(two, deps="two", telemetry=heard.telemetry) as second:
            await until(lambda: _taken_over(second, run.id), "the take-over")
            await completed(second.run(run.id))
            stopped[0].go_on.set()

    looked, called = heard.one("sayso.look_into"), heard.one("sayso.call")
    assert (looked.attributes or {})["sayso.outcome"] == "not_done"
    assert (called.attributes or {})["sayso.attempt"] == 2
    assert heard.total("sayso.runs", status="taken_over") == 1


async def test_a_doubt_is_asked_about_where_its_run_was_decided(place: Place) -> None:
    one, two = Heard(), Heard()
    begun = asyncio.Event()

    @tool(approval=True, effect="once", timeout="1s")
    async def pay() -> None:
        begun.set()
        await asyncio.Event().wait()

    def teller() -> Agent:
        return agent([call("pay"), say("Done.")], pay)

    class Silent(Delegate):
        """The store of a worker that is not heard of any more."""

        async def beat(self, worker: str) -> None:
            if not begun.is_set():
                await self.inner.beat(worker)

    options = {"drain_s": 0.0, "telemetry": one.telemetry, "wrap": Silent}
    async with place.app(teller(), **options) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await begun.wait()
        place.clock.advance("1m")
        async with place.app(teller(), telemetry=two.telemetry) as other:
            await until(lambda: _taken_over(other, run.id), "the take-over")
            await until(lambda: two.total("sayso.calls.doubted"), "the doubt")
            found = await journal(other.store, run.id)

    (asked,) = [one.event for one in found if one.type == "hold.opened"][1:]
    assert asked.trace.split("-")[1] == f"{one.one('sayso.decide').context.trace_id:032x}"
    assert two.total("sayso.calls.doubted") == 1


async def test_a_notice_is_a_span_that_is_linked_to_what_asked(place: Place) -> None:
    heard, tries = Heard(), []

    async def notify(notice: Any) -> None:
        tries.append(notice)
        if len(tries) == 1:
            raise ConnectionError("no such address")

    async with place.app(teller(), telemetry=heard.telemetry, notify=notify) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        await until(lambda: tries, "the first try")
        await until(lambda: heard.named("sayso.deliver"), "the first span")
        place.clock.advance("1m")
        await app.notices.deliver()
        await until(lambda: len(heard.named("sayso.deliver")) == 2, "the second span")

    first, second = heard.named("sayso.deliver")
    asked = heard.named("sayso.turn")[0]
    assert [parent_of(first), links_of(first)] == [None, [id_of(asked)]]
    assert (second.attributes or {})["sayso.hold.id"] == hold.id
    assert (first.status.is_ok, second.status.is_ok) == (False, True)
    assert heard.total("sayso.deliveries", kind="asked", outcome="failed") == 1
    assert heard.total("sayso.deliveries", kind="asked", outcome="told") == 1


async def test_metrics_count_what_was_committed_and_how_long_people_took(place: Place) -> None:
    heard = Heard()
    async with place.app(teller(), telemetry=heard.telemetry) as app:
        run = await app.start("teller", "Pay", by="mira")
        hold = await held(run)
        place.clock.advance("90s")
        await app.decide(hold, approve(), by="mira", key="k")
        await app.decide(hold, approve(), by="mira", key="k")
        await completed(run)
        kinds = [one.type for one in await journal(app.store, run.id)]

    for status in ("started", "suspended", "resumed", "completed"):
        assert heard.total("sayso.runs", status=status, agent="teller") == 1
    assert heard.total("sayso.decision.time", risk="high", verdict="approved") == 90.0
    assert 0 < heard.total("sayso.appends") <= len(kinds)


async def test_gauges_say_what_waits_and_reading_them_reads_no_store(place: Place) -> None:
    heard, reads = Heard(), []

    class Counted(Delegate):
        async def holds(self, query: Any) -> Any:
            reads.append(query)
            return await self.inner.holds(query)

    async with place.app(teller(), wrap=Counted, telemetry=heard.telemetry) as app:
        for _ in range(2):
            await held(await app.start("teller", "Pay", by="mira"))
        place.clock.advance("2h")
        await app.sweep()
        await until(lambda: heard.total("sayso.holds.oldest") >= 7200, "the gauges")
        before = len(reads)
        for _ in range(5):
            found = heard.metrics()
        await app.sweep()  # It was read a moment ago.

        assert len(reads) == before
        assert found["sayso.holds.open"] == [
            ({"sayso.kind": "approval", "sayso.risk": "high", "sayso.age": "under_1d"}, 2)
        ]
        assert found["sayso.calls.in_doubt"] == [({}, 0)]
        assert found["sayso.outbox.lag"] == [({}, 0)]
        assert all(query.limit <= 500 for query in reads)


@pytest.mark.parametrize(
    "waited, age",
    [(0, "under_1m"), (60_000, "under_1h"), (86_399_999, "under_1d"), (86_400_000, "over_1d")],
)
def test_an_age_is_one_of_four(waited: int, age: str) -> None:
    assert gauge.age_of(waited) == age


async def test_everything_that_is_told_is_on_the_lists(place: Place) -> None:
    heard = Heard()
    async with place.app(teller(), telemetry=heard.telemetry) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await completed(run)

    assert {span.name for span in heard.spans} <= SPANS.keys()
    assert heard.metrics().keys() <= METRICS.keys()
    assert {key for span in heard.spans for key in span.attributes or ()} <= ATTRIBUTES


def test_the_page_about_it_names_everything_that_is_told() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/telemetry.md").read_text(encoding="utf-8")

    assert [name for name in [*SPANS, *METRICS] if f"| `{name}` |" not in page] == []


async def test_what_a_newer_version_asks_is_counted_without_its_risk(place: Place) -> None:
    async with place.app(teller()) as app:
        hold = await held(await app.start("teller", "Pay", by="mira"))
        found = await app.store.hold(*(read_id("hold", hold.id) or ("", 0)))
    assert found is not None
    newer = replace(found.opened, payload=b'{"type":"hold.opened.9"}')

    assert gauge.risk_of(found) == "high"
    assert gauge.risk_of(replace(found, opened=newer)) == ""


async def test_a_sweep_does_not_fail_by_what_is_counted_after_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def next_due() -> int:
        raise StoreBusy

    async with place.app(telemetry=Heard().telemetry) as app:
        monkeypatch.setattr(app.store.outbox, "next_due", next_due)
        place.clock.advance("1m")

        assert await app.sweep() == 0


@pytest.mark.parametrize("where", ["on_start", "on_end"])
async def test_an_sdk_that_fails_changes_nothing(
    place: Place, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    heard, paid = Heard(), []

    class Broken(SpanProcessor):
        pass

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the collector is away: 4711")

    setattr(Broken, where, fail)
    heard.tracers.add_span_processor(Broken())

    @tool(approval=True, effect="once")
    async def pay(amount: int = 1) -> str:
        paid.append(amount)
        return "paid"

    async with place.app(agent([call("pay"), say("Done.")], pay), telemetry=heard.telemetry) as app:
        run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        view = await completed(run)

    assert (view.output, paid) == ("Done.", [1])
    assert trace.get_current_span() is trace.INVALID_SPAN
    (told,) = [one for one in caplog.records if "RuntimeError" in one.getMessage()]
    assert "4711" not in told.getMessage()


def test_an_attribute_that_is_on_no_list_is_a_mistake() -> None:
    heard = Heard()

    with pytest.raises(AssertionError, match="may say anything"):
        heard.telemetry.count("sayso.appends", {"args": "4711"})


async def test_without_telemetry_nothing_is_kept_of_whoever_asks(place: Place) -> None:
    heard = Heard()
    async with place.app(teller()) as app:
        with heard.tracers.get_tracer("host").start_as_current_span("host"):
            run = await app.start("teller", "Pay", by="mira")
        await app.decide(await held(run), approve(), by="mira")
        await completed(run)

        assert not [
            one for one in await journal(app.store, run.id) if getattr(one.event, "trace", "")
        ]
    assert [span.name for span in heard.spans] == ["host"]


def test_what_is_no_telemetry_is_refused() -> None:
    with pytest.raises(BadSetup, match="telemetry is True"):
        Sayso("memory:", telemetry="yes")  # type: ignore[arg-type]


def test_a_run_without_telemetry_imports_none_of_it() -> None:
    program = """
import asyncio, sys
from sayso import Agent, Sayso, approve, tool
from sayso.testing import ScriptedModel, call, say

@tool(approval=True)
def pay(): ...

async def main():
    agent = Agent("a", model=ScriptedModel([call("pay"), say("done")]), tools=[pay])
    async with Sayso("memory:", agents=[agent], telemetry=len(sys.argv) > 1) as app:
        run = await app.start("a", "go", by="m")
        await app.decide((await run.wait()).holds[0], approve(), by="m")
        assert (await run.wait(final=True)).status == "completed"

asyncio.run(main())
ours = ("sayso.engine.watched", "sayso.engine.telemetry", "sayso.engine.gauge", "sayso.engine.otel")
print(*[name for name in sys.modules if name.startswith("opentelemetry") or name in ours])
"""

    def imported(*args: str) -> str:
        command = [sys.executable, "-c", program, *args]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    assert imported() == ""
    assert "opentelemetry.trace" in imported("with")  # With the API alone, and no SDK.
