"""What every page does, whatever it shows."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from sayso.web import page
from sayso.web.page import ASIDE_MIN, FORM_MAX, aside


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
            assert policy.endswith("frame-ancestors 'none'")
            assert answer.headers["cache-control"] == "no-store"

    asyncio.run(main())


def test_every_form_carries_the_word_that_only_our_pages_have() -> None:
    """Nothing would be sent by one without it: it would only look so. Those that people come in by
    have another word, or are of no session yet.
    """
    folder = Path(page.__file__).parent / "templates"
    forms = {
        str(one.relative_to(folder)): (text.count(' method="post"'), text.count("m.csrf(csrf)"))
        for one in folder.rglob("*.html")
        if ' method="post"' in (text := one.read_text(encoding="utf-8"))
    }

    assert {"enter.html", "sign_in.html", "part/more.html", "part/request.html"} <= forms.keys()
    for name, (sent, known) in forms.items():
        assert known == (0 if name in ("enter.html", "sign_in.html") else sent), name


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


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_form_is_bounded_as_a_whole(open_pages: Any, kind: str) -> None:
    """Each field is small enough; who sends them is nobody that is known."""

    async def main() -> None:
        async with open_pages() as pages:
            client = await pages.stranger()
            sent = 0

            async def drops() -> Any:
                nonlocal sent
                for at in range(40):
                    field = f"field{at}=" + "x" * 500_000
                    sent += len(field)
                    yield field.encode() + b"&"

            headers = {"content-type": f"{kind}; boundary=x"}
            answer = await client.post("/sign-in", content=drops(), headers=headers)
            assert answer.status_code == 413
            assert "Too large" in answer.text
            assert answer.headers["content-type"].startswith("text/html")
            assert sent < 2 * FORM_MAX

    asyncio.run(main())


def test_a_browser_is_shown_what_went_wrong_as_a_page(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:
            mira = await pages.browser()
            wants = {"accept": "text/html,application/xhtml+xml"}
            for ask, status in (("/no-such-page", 404), ("/runs?after=run_x", 404)):
                answer = await mira.get(ask, headers=wants)
                assert answer.status_code == status
                assert answer.headers["content-type"].startswith("text/html")
                assert "To the inbox" in answer.text
                assert "default-src 'none'" in answer.headers["content-security-policy"]
            many = {f"a{at}": "" for at in range(50_001)}
            answer = await mira.post("/sign-in", data=many)
            assert answer.status_code == 400
            assert "Too many fields" in answer.text
            answer = await mira.delete("/", headers=wants)
            assert answer.status_code == 405
            assert answer.headers["allow"] == "GET"
            # A program is told as before.
            answer = await mira.get("/v1/no-such", headers={"accept": "application/json"})
            assert answer.json()["status"] == 404

    asyncio.run(main())


def test_a_fault_of_ours_is_shown_as_a_page_that_says_nothing_of_itself(open_pages: Any) -> None:
    async def main() -> None:
        async with open_pages() as pages:

            @pages.service.app.get("/broken")
            async def broken() -> None:
                raise ZeroDivisionError("the secret of the house")

            mira = await pages.browser()
            answer = await mira.get("/broken", headers={"accept": "text/html"})
            assert answer.status_code == 500
            assert "A fault of ours" in answer.text
            assert "secret" not in answer.text

    asyncio.run(main())


def test_the_address_of_a_form_leads_to_what_it_is_about(open_pages: Any) -> None:
    """What is wrong with a form is shown at its address; whoever loads that again sends nothing."""

    async def main() -> None:
        async with open_pages() as pages:
            run = await pages.sayso.start("teller", "pay 200", by="mira")
            hold = (await run.wait()).holds[0]
            mira = await pages.browser()
            answer = await mira.get(f"/r/{hold.id}/decision")
            assert answer.status_code == 303
            assert answer.headers["location"] == f"/r/{hold.id}"
            assert (await pages.sayso.hold(hold)).status == "open"

    asyncio.run(main())


async def test_what_is_large_is_drawn_beside_the_event_loop() -> None:
    here = threading.get_ident()

    assert await aside(ASIDE_MIN - 1, threading.get_ident) == here
    assert await aside(ASIDE_MIN, threading.get_ident) != here
