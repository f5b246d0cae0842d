"""The views beside the inbox: runs, what was decided, the audit, rules, settings."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec

from sayso import Always, Principal, approve, reject
from sayso.domain import events as e
from sayso.domain.recorded import Recorded
from sayso.engine.door import Attempt
from sayso.server.caller import Caller
from sayso.store.base import PAGE_MAX
from sayso.web.audit import LOOKS_EACH_MAX, REFUSED_MAX
from sayso.web.span import scale_of, waits
from sayso.web.words import lasting, place, plainly


def csrf(html: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', html)
    assert found is not None
    return found[1]


async def paid(pages: Any, amount: int, by: str = "mira", **options: Any) -> Any:
    run = await pages.sayso.start("teller", f"pay {amount}", by=by)
    hold = (await run.wait()).holds[0]
    await pages.sayso.decide(hold, approve(), by=by, **options)
    return await run.wait(final=True)


def test_runs_are_listed_and_told(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            done = await paid(pages, 200)
            run = await pages.sayso.start("teller", "pay <b>300", by="mira")
            await run.wait()
            mira, eve = await pages.browser(), await pages.browser("eve")

            listed = (await mira.get("/runs")).text
            assert done.id in listed
            assert run.id in listed
            assert done.id not in (await mira.get("/runs?status=suspended")).text
            assert (await mira.get("/runs?status=odd")).status_code == 422
            assert done.id not in (await eve.get("/runs")).text
            assert (await eve.get(f"/runs/{done.id}")).status_code == 403
            assert (await eve.get("/runs/run_01m7hq607ahdnnwh0m9399fc1x")).status_code == 404

            told = (await mira.get(f"/runs/{done.id}")).text
            for word in ("What happened", "approved", "Waited", "Done.", "to scale"):
                assert word in told
            assert "Stop the run" not in told

    asyncio.run(main())


def test_a_run_is_stopped_by_a_form_of_its_owner(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            run = await pages.sayso.start("teller", "pay 300", by="mira")
            await run.wait()
            mira, eve = await pages.browser(), await pages.browser("eve")
            page = (await mira.get(f"/runs/{run.id}")).text
            assert "Waits for" in page

            stolen = {"csrf": csrf((await eve.get("/settings")).text), "reason": "mine"}
            assert (await mira.post(f"/runs/{run.id}/stop", data=stolen)).status_code == 403
            assert (await eve.post(f"/runs/{run.id}/stop", data=stolen)).status_code == 403
            assert (await run.view()).status == "suspended"
            sent = {"csrf": csrf(page), "reason": "not any more"}
            assert (await mira.post(f"/runs/{run.id}/stop", data=sent)).status_code == 303
            assert (await run.wait(final=True)).status == "cancelled"
            assert "not any more" in (await mira.get(f"/runs/{run.id}")).text

    asyncio.run(main())


def test_what_was_decided_is_listed_from_the_newest_on(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            first, second = await paid(pages, 1), await paid(pages, 2)
            other = await paid(pages, 3, by="eve")
            mira = await pages.browser()

            page = (await mira.get("/decided")).text
            assert page.index(second.id[4:]) < page.index(first.id[4:])
            assert other.id[4:] not in page
            assert "Approved" in page
            assert other.id[4:] not in (await mira.get("/decided?all=1")).text
            await pages.sayso.people.put("olga", roles=["operator"])
            olga = await pages.browser("olga")
            assert other.id[4:] in (await olga.get("/decided?all=1")).text
            assert "Nothing found" in (await mira.get("/decided?q=nowhere")).text
            many = "+".join("abcdefghijklmn")
            assert 'role="alert"' in (await mira.get(f"/decided?q={many}")).text

    asyncio.run(main())


def test_what_is_always_allowed_is_listed_and_revoked(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            always = Always(args={"amount": {"at_most": 500}}, note="small ones")
            await paid(pages, 200, always=always)
            mira, eve = await pages.browser(), await pages.browser("eve")
            page = (await mira.get("/rules")).text
            for words in ("amount: at most 500", "small ones", "Revoke"):
                assert words in page
            assert "Nothing is always allowed" in (await eve.get("/rules")).text
            grant = (await pages.sayso.grants.list())[0]
            sent = {"csrf": csrf((await eve.get("/settings")).text)}
            assert (await eve.post(f"/rules/{grant.id}/revoke", data=sent)).status_code == 403
            sent = {"csrf": csrf(page)}
            assert (await mira.post(f"/rules/{grant.id}/revoke", data=sent)).status_code == 303
            assert await pages.sayso.grants.list() == []
            assert "revoked by mira" in (await mira.get("/rules?ended=1")).text

    asyncio.run(main())


def test_the_audit_is_for_operators(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            await pages.sayso.people.put("olga", roles=["operator"])
            await pages.sayso.people.put("mira", roles=[])
            run = await pages.sayso.start("teller", "pay 200", by="mira")
            hold = (await run.wait()).holds[0]
            await pages.sayso.decide(hold, reject("=1+1"), by="mira")
            await run.wait(final=True)
            mira, olga = await pages.browser(), await pages.browser("olga")
            assert (await mira.get("/audit")).status_code == 403
            assert (await mira.get("/audit/export.csv")).status_code == 403
            page = (await olga.get("/audit")).text
            assert "rejected" in page.lower()
            assert "Refused attempts" not in page
            assert "mira" not in (await olga.get("/audit?since=2001-01-01&until=2001-01-02")).text
            assert hold.id not in (await olga.get("/audit?what=approved")).text
            table = await olga.get("/audit/export.csv")
            assert table.headers["content-type"].startswith("text/csv")
            assert hold.id in table.text
            assert "\n=" not in table.text
            sent = {"csrf": csrf(page)}
            assert "All as written" in (await olga.post("/audit/verify", data=sent)).text
            theirs = {"csrf": csrf((await mira.get("/settings")).text)}
            assert (await mira.post("/audit/verify", data=theirs)).status_code == 403

    asyncio.run(main())


def test_the_audit_is_linked_for_those_who_may_see_it(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            await pages.sayso.people.put("olga", roles=["operator"])
            await pages.sayso.people.put("mira", roles=[])
            poor = await pages.browser("olga", scopes=frozenset({"read"}))
            for client, may in (
                (await pages.browser("olga"), True),
                (await pages.browser(), False),
                (poor, False),
            ):
                assert ((await client.get("/audit")).status_code == 200) is may
                for path in ("/", "/runs", "/r/hold_x", "/settings"):
                    page = (await client.get(path)).text
                    assert 'href="/rules"' in page
                    assert ('href="/audit"' in page) is may
                assert ("G A audit" in (await client.get("/")).text) is may

    asyncio.run(main())


def test_the_audit_knows_only_days_that_there_are(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            await pages.sayso.people.put("olga", roles=["operator"])
            olga = await pages.browser("olga")
            for days in ("until=9999-12-31", "until=0001-01-02"):
                for path in ("/audit", "/audit/export.csv"):
                    answer = await olga.get(f"{path}?{days}")
                    assert answer.status_code == 422
                    assert "These days are none" in answer.text

    asyncio.run(main())


def test_the_newest_refusals_are_found_among_those_of_others(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            await pages.sayso.people.put("olga", roles=["operator"])
            door = pages.sayso.store.door
            attempt = Attempt(by="eve", verb="decide", on="old", error="NotAllowed")
            for at in range(REFUSED_MAX + 10):
                named = msgspec.structs.replace(attempt, on=f"mine-{at}")
                await door.note("default", msgspec.json.encode(named))
            for _ in range(2 * PAGE_MAX):
                await door.note("other", msgspec.json.encode(attempt))
            page = (await (await pages.browser("olga")).get("/audit")).text
            assert f"({REFUSED_MAX} newest)" in page
            assert f"mine-{REFUSED_MAX + 9}<" in page
            assert "mine-9<" not in page

    asyncio.run(main())


def test_the_whole_store_is_read_for_so_many_at_a_time(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            await pages.sayso.people.put("olga", roles=["operator"])
            olga = await pages.browser("olga")
            sent = {"csrf": csrf((await olga.get("/audit")).text)}
            seats = pages.service.app.state.audits
            caller = Caller(by=Principal(id="olga"), project="default", via="session")
            taken = [seats.take(caller) for _ in range(LOOKS_EACH_MAX)]
            assert (await olga.get("/audit")).status_code == 503
            assert (await olga.post("/audit/verify", data=sent)).status_code == 503
            taken[0].leave()
            assert (await olga.get("/audit")).status_code == 200
            assert seats.open == LOOKS_EACH_MAX - 1

    asyncio.run(main())


def test_colours_are_kept_in_the_browser(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira = await pages.browser()
            page = (await mira.get("/settings")).text
            sent = {"csrf": csrf(page), "theme": "dark"}
            assert (await mira.post("/settings/theme", data=sent)).status_code == 303
            assert 'data-theme="dark"' in (await mira.get("/settings")).text
            sent = {"csrf": csrf(page), "theme": '"><script>'}
            await mira.post("/settings/theme", data=sent)
            assert "data-theme" not in (await mira.get("/settings")).text

    asyncio.run(main())


def entry(seq: int, at: int, event: Any) -> Recorded:
    return Recorded(run_id="run_1", seq=seq, at=at, event=event)


def test_waiting_is_drawn_to_scale() -> None:
    told = [
        entry(1, 1000, None),
        entry(2, 2000, e.RunSuspended()),
        entry(3, 8000, e.RunResumed()),
        entry(4, 9000, e.RunSuspended()),
    ]
    scale = scale_of(told, 11_000, final=False)
    first, second = waits(told, 11_000)
    assert (scale.x(first.begin), scale.width(first)) == (100, 600)
    assert (scale.x(second.begin), scale.width(second), second.open) == (800, 200, True)
    assert scale_of([], 5, final=True).x(5) == 0


def test_how_long_something_was_is_said_shortly() -> None:
    said = {
        0.42: "0.4 s",
        12: "12 s",
        484: "8 min 04 s",
        11_100: "3 h 05 min",
        187_200: "2 days 4 h",
    }
    for length, words in said.items():
        assert lasting(length) == words


def test_an_error_is_said_in_the_word_that_people_know_a_hold_by() -> None:
    assert plainly("There is no hold 'hold_1', says who holds it") == (
        "There is no request 'hold_1', says who holds it"
    )


def test_where_something_was_decided_is_said_in_words() -> None:
    assert [place(one) for one in ("library", "oauth", "clock", "carrier-pigeon")] == [
        "a program",
        "where they signed in",
        "",
        "carrier-pigeon",
    ]
