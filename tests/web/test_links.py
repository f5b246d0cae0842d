"""Links never decide: whatever looks at a page, and however often, changes nothing.

Every page of the application is fetched as scanners, previews and browsers that look ahead do, by
whoever could decide and by nobody.
"""

from __future__ import annotations

import re
from typing import Any

from sayso import Principal
from sayso.server.door import LocalWay
from sayso.web.app import PARTS

LOOKS = ("GET", "HEAD", "OPTIONS")
AHEAD = {"sec-purpose": "prefetch", "purpose": "prefetch"}
SAID = "?say=approve&decision=approve&confirm=yes&session=x"
KEPT = [
    ("sayso:sessions", "session"),
    ("sayso:tokens", "token"),
    ("default", "person"),
    ("default", "grant"),
]


def pages_to_look_at(**known: str) -> set[str]:
    """Give the address of every page that answers and ends: a stream goes on."""
    paths = {
        route.path
        for part in PARTS
        for route in part.router.routes
        if "GET" in route.methods and not route.path.endswith(("/live", "/events"))
    }
    return {re.sub(r"{(\w+)[^}]*}", lambda found: known.get(found[1], "x"), one) for one in paths}


async def kept(sayso: Any, run: str) -> list[Any]:
    shelf = sayso.store.shelf
    items = [[(one.id, one.rev) for one in await shelf.list(*where)] for where in KEPT]
    return [*items, (await sayso.store.load(run)).hash]


async def test_looking_at_any_page_decides_and_changes_nothing(open_pages: Any) -> None:
    local = LocalWay(Principal(id="mira"), "default")
    async with open_pages(ways=[local]) as pages:
        run = await pages.sayso.start("teller", "pay 200", by="mira")
        hold = (await run.wait()).holds[0]
        mira, nobody = await pages.browser(), await pages.stranger("localhost")
        there = pages_to_look_at(hold_id=hold.id, run_id=hold.run_id, code=local.code)
        assert {f"/r/{hold.id}", f"/enter/{local.code}", "/sign-in", "/oauth/callback"} <= there
        before = await kept(pages.sayso, hold.run_id)

        for client in (mira, nobody):
            for address in sorted(there):
                for method in LOOKS:
                    answer = await client.request(method, address + SAID, headers=AHEAD)
                    assert answer.status_code < 500, (method, address, answer.text)
        page = await mira.get(f"/r/{hold.id}")

        assert page.status_code == 200
        assert await kept(pages.sayso, hold.run_id) == before
        assert (await pages.sayso.hold(hold.id)).status == "open"
        assert local.is_code(local.code)
        assert pages.paid == []
