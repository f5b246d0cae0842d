"""What every page does, whatever it shows."""

from __future__ import annotations

import asyncio
from typing import Any


def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_back(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            client = await pages.service.bearing(None)
            answer = await client.get("/r/hold_x.1?edit=1")
            assert answer.status_code == 303
            assert answer.headers["location"] == "/sign-in?next=%2Fr%2Fhold_x.1%3Fedit%3D1"

    asyncio.run(main())


def test_a_page_loads_nothing_from_elsewhere(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            browser = await pages.browser()
            answer = await browser.get("/")
            assert answer.status_code == 200
            assert "Nothing waits for you" in answer.text
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert answer.headers["cache-control"] == "no-store"

    asyncio.run(main())


def test_a_request_is_shown_to_whom_it_asks(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            run = await pages.sayso.start("teller", "pay 200", by="mira")
            hold = (await run.wait()).holds[0]
            mira, eve = await pages.browser(), await pages.browser("eve")
            assert "pay" in (await mira.get(f"/r/{hold.id}")).text
            assert (await eve.get(f"/r/{hold.id}")).status_code == 403
            assert (await mira.get("/r/hold_01m7hq607ahdnnwh0m9399fc1x.1")).status_code == 404

    asyncio.run(main())
