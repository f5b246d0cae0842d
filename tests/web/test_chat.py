"""Talking to an agent on a page: what it asks appears in the conversation."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from tests.web.test_views import csrf


def hidden(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found is not None
    return found[1]


async def begun(pages: Any, mira: Any, text: str) -> str:
    page = (await mira.get("/chat")).text
    sent = {"csrf": csrf(page), "key": hidden(page, "key"), "agent": "teller", "text": text}
    first, again = [await mira.post("/chat", data=sent) for _ in range(2)]
    # A form that is sent twice begins one conversation.
    assert first.status_code == again.status_code == 303
    assert first.headers["location"] == again.headers["location"]
    path = first.headers["location"]
    await pages.sayso.run(path.rpartition("/")[2]).wait()
    return path


def test_what_is_asked_is_decided_in_the_conversation(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira = await pages.browser()
            path = await begun(pages, mira, "pay 200")
            page = (await mira.get(path)).text
            assert "Approve" in page
            assert "asks for" in page
            action = re.search(r'action="(/r/[^"]+/decision)"', page)
            assert action is not None
            fields = {name: hidden(page, name) for name in ("csrf", "seen", "key")}
            said = {**fields, "say": "approve"}
            answer = await mira.post(action[1], data=said, headers={"x-part": "said"})
            assert answer.status_code == 200
            part = (await mira.get(path, headers={"x-part": "talk"})).text
            assert "Undo" in part
            assert "<html" not in part

    asyncio.run(main())


def test_more_is_said_to_a_run_that_is_over(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira, eve = await pages.browser(), await pages.browser("eve")
            path = await begun(pages, mira, "<b>hello</b> \u202e")
            page = (await mira.get(path)).text
            assert "&lt;b&gt;hello" in page
            assert "\u202e" not in page
            fields = {name: hidden(page, name) for name in ("csrf", "key")}
            more = [await mira.post(path, data={**fields, "text": "and more"}) for _ in range(2)]
            assert more[0].headers["location"] == more[1].headers["location"] != path
            await pages.sayso.run(more[0].headers["location"][6:]).wait()
            assert "and more" in (await mira.get(more[0].headers["location"])).text
            assert (await mira.post(path, data={**fields, "text": " "})).status_code == 422
            theirs = {**fields, "csrf": csrf((await eve.get("/settings")).text), "text": "hi"}
            assert (await eve.post(path, data=theirs)).status_code == 403
            assert (await eve.get(path)).status_code == 403
            assert (await eve.get(f"{path}/events")).status_code == 403

    asyncio.run(main())


def test_a_page_is_told_of_what_is_new_until_the_run_is_over(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira = await pages.browser()
            path = await begun(pages, mira, "hello")
            told = (await mira.get(f"{path}/events?after=1")).text
            assert "event: changed" in told
            assert "id: 1\n" not in told
            assert told.endswith('event: over\ndata: "over"\n\n')
            later = (await mira.get(f"{path}/events", headers={"last-event-id": "3"})).text
            assert "id: 3\n" not in later

    asyncio.run(main())


def test_our_own_agents_are_not_talked_to(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira = await pages.browser()
            page = (await mira.get("/chat")).text
            sent = {"csrf": csrf(page), "key": "k", "agent": "sayso.single", "text": "x"}
            assert (await mira.post("/chat", data=sent)).status_code == 404

    asyncio.run(main())
