"""A server whose store has something in every state: `python -m tests.browser.gallery STORE`.

Screens of it are looked at by people, measured by tests, and shown in the tour of `docs/inbox/`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from sayso import Always, Principal, Sayso, approve, reject
from sayso.server.app import create_app
from sayso.server.door import LocalWay
from sayso.server.serve import bind, serve
from sayso.web.app import add_pages
from tests.browser.cast import ASKS, make_app
from tests.web.desk import sign_in
from tests.web.issuer import HandMade

PATIENCE_S = 60
WAITING = (
    *("finance-bot", "janitor", "support-bot", "office-bot", "writer", "payroll", "captain"),
    *("scout", "herald", "clerk", "counter", "calendar", "travel", "planner-bot", "billing"),
    *("legal", "secretary", "editor"),
)
"""Those whose requests stay open."""


async def fill(store: str, issuer: HandMade) -> dict[str, Any]:
    """Have everybody ask, and decide some of it; give the ids by name."""
    async with make_app(store, issuer.url) as app:
        await app.people.put("mira", name="Mira Okafor", roles=["finance", "operator"])
        await app.people.put("jonas", name="Jonas Weber", roles=["finance"])
        await app.people.put("sam", name="Sam", roles=[])
        await app.people.put("olga", name="Olga", roles=[])
        runs: dict[str, str] = {}
        await _signed_in(app, issuer)
        for name in WAITING:
            runs[name] = await _ask(app, name)
        holds = {name: await _hold(app, run) for name, run in runs.items()}
        await app.decide(holds["payroll"], approve(), by="jonas")
        for name in ("editor", "host", "agency", "office-bot", "finance-bot"):
            run = await _ask(app, name)
            holds[f"{name}, decided"] = await _hold(app, run)
            runs[f"{name}, decided"] = run
        await _decide(app, holds)
        for name, text in (("manager", "Desks."), ("furnisher", "Furnish the office.")):
            runs[name] = await _start(app, name, text)
        runs["desk"] = await _start(app, "desk", "Refund 7 and 8")
        holds["manager"] = await _hold(app, runs["manager"])
        await _start(app, "host", "A room.", by="sam")
        (his,) = await app.holds(by="sam")
        await app.decide(his, approve(), by="sam", channel="cli")
        cookies = {who: await sign_in(app, who) for who in ("mira", "jonas", "sam", "olga")}
        await sign_in(app, "mira")
        return {"runs": runs, "holds": holds, "cookies": cookies}


async def _decide(app: Sayso, holds: dict[str, str]) -> None:
    await app.decide(holds["editor, decided"], reject("The numbers are last year's"), by="jonas")
    await app.decide(holds["host, decided"], approve(), by="mira", channel="slack")
    always = Always(args={"price": {"at_most": 50}}, until="30d", note="Coffee, within reason")
    await app.decide(holds["office-bot, decided"], approve(), by="mira", always=always)
    changed = {"amount": 11900.0, "to": "Nordwind GmbH", "iban": "DE02 1203 0000 0000 2020 51"}
    await app.decide(holds["finance-bot, decided"], approve(args=changed), by="mira", channel="web")
    async with asyncio.timeout(PATIENCE_S):
        while (await app.hold(holds["agency, decided"])).status == "open":
            await app.sweep()
            await asyncio.sleep(0.05)


async def _signed_in(app: Sayso, issuer: HandMade) -> None:
    """Sign Mira in where more will be asked of her."""
    hold = await _hold(app, await _ask(app, "reader"))
    back = issuer.visit(await app.sign_in_url(hold, by="mira"))
    await app.oauth_callback(back["state"], back["code"], by="mira")


async def _ask(app: Sayso, name: str) -> str:
    return await _start(app, name, ASKS[name][0])


async def _start(app: Sayso, name: str, text: str, by: str = "mira") -> str:
    run = await app.start(name, text, by=by)
    await run.wait(timeout=PATIENCE_S)
    return run.id


async def _hold(app: Sayso, run_id: str) -> str:
    return (await app.run(run_id).view()).holds[0].id


def main(store: str) -> None:
    issuer = HandMade()
    told = asyncio.run(fill(store, issuer))
    sock = bind("127.0.0.1", 0)
    local = LocalWay(Principal(id="mira"), "default")
    told |= {"port": sock.getsockname()[1], "code": local.code}
    print(json.dumps(told), flush=True)
    serve(add_pages(create_app(make_app(store, issuer.url), ways=[local])), sock)


if __name__ == "__main__":
    main(*sys.argv[1:])
