"""The list and the request, as they are shown."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest

from sayso import approve, reject
from sayso.web import listing
from sayso.web.asset import assets
from tests.web.browsing import Desk, run

PAY = ["pay", {"amount": 1, "to": "x"}]
SCRIPT_MAX, STYLE_MAX, VIEW_MAX = 16 * 1024, 10 * 1024, 30 * 1024


def ids(page: str) -> list[str]:
    return re.findall(r'<li class="row" data-id="([^"]+)"', page)


def test_mine_team_and_all() -> None:
    async def main(desk: Desk) -> None:
        own = await desk.ask(PAY)
        team = await desk.ask(["wire", {"amount": 1}])
        other = await desk.ask(PAY, by="olga")
        mira, jonas = await desk.person(), await desk.person("jonas")

        assert set(ids((await mira.get("/")).text)) == {own.id, team.id}
        assert ids((await mira.get("/?view=team")).text) == [team.id]
        assert (await mira.get("/?view=all")).status_code == 403
        assert "view=all" not in (await mira.get("/")).text
        assert set(ids((await jonas.get("/?view=all")).text)) == {own.id, team.id, other.id}

    run(main)


@pytest.mark.parametrize(
    "query, expected",
    [
        ("", {0, 1, 2}),
        ("risk:>=high", {1}),
        ("kind:question", {2}),
        ("tool:pay", {0}),
        ("agent:nobody", set()),
        ("invoice", {0}),
        ("older:1h", set()),
    ],
)
def test_a_filter_in_the_address_shows_some(query: str, expected: set[int]) -> None:
    async def main(desk: Desk) -> None:
        calls = [PAY, ["drop", {"table": "x"}], ["ask_user", {"question": "Well?"}]]
        holds = [await desk.ask(one) for one in calls]
        page = await (await desk.person()).client.get("/", params={"q": query})

        assert set(ids(page.text)) == {holds[at].id for at in expected}

    run(main)


def test_a_filter_that_is_none_says_so_and_shows_nothing() -> None:
    async def main(desk: Desk) -> None:
        await desk.ask(PAY)
        page = (await (await desk.person()).get("/?q=rsk:high")).text

        assert "did you mean" in unescape(page)
        assert not ids(page)

    run(main)


def test_what_ends_first_comes_first() -> None:
    async def main(desk: Desk) -> None:
        slow, soon = await desk.ask(PAY), await desk.ask(["hurry", {"what": "x"}])

        assert ids((await (await desk.person()).get("/")).text) == [soon.id, slow.id]

    run(main)


def test_pages_go_on_where_the_one_before_ended(monkeypatch: Any) -> None:
    async def main(desk: Desk) -> None:
        monkeypatch.setattr(listing, "PAGE", 2)
        monkeypatch.setattr(listing, "LOOK", 2)
        holds = [(await desk.ask(PAY)).id for _ in range(5)]
        mira = await desk.person()
        seen: list[str] = []
        path: str | None = "/?q=tool:pay"
        while path:
            page = (await mira.get(path)).text
            seen += ids(page)
            found = re.search(r'rel="next" href="([^"]+)"', page)
            path = unescape(found[1]) if found else None
            assert len(ids(page)) <= 2
        assert seen == holds
        assert "2+" in (await mira.get("/")).text

    run(main)


def test_a_filter_looks_only_so_far_at_a_time(monkeypatch: Any) -> None:
    async def main(desk: Desk) -> None:
        monkeypatch.setattr(listing, "LOOK", 1)
        monkeypatch.setattr(listing, "LOOKS_MAX", 2)
        for _ in range(3):
            await desk.ask(PAY)
        last = await desk.ask(["drop", {"table": "x"}])
        mira = await desk.person()
        page = (await mira.get("/?q=tool:drop")).text
        assert "Look further" in page
        found = re.search(r'rel="next" href="([^"]+)"', page)
        assert found
        assert ids((await mira.get(unescape(found[1]))).text) == [last.id]

    run(main)


def test_what_is_decided_and_can_be_undone_waits_for_nobody() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        await desk.sayso.decide(hold, approve(), by="mira", undo=60)

        assert not ids((await (await desk.person()).get("/")).text)

    run(main)


def test_nothing_waits_and_what_to_do_then() -> None:
    async def main(desk: Desk) -> None:
        mira = await desk.person()
        assert "No run of yours has asked" in (await mira.get("/")).text
        hold = await desk.ask(PAY)
        await desk.sayso.decide(hold, reject(), by="mira")
        assert "Nothing waits for you" in (await mira.get("/")).text
        assert "No run of yours" not in (await mira.get("/")).text

    run(main)


def test_a_script_gets_the_part_that_it_asks_for() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        part = await mira.get(f"/r/{hold.id}", part="request")
        rows = await mira.get("/", part="list")

        assert "<html" not in part.text + rows.text
        assert "<article" in part.text
        assert ids(rows.text) == [hold.id]
        assert "x-part" in part.headers["vary"]

    run(main)


def test_every_argument_is_shown_as_it_is_and_nothing_is_injected() -> None:
    async def main(desk: Desk) -> None:
        odd = '</dd><script>x</script><b onclick="y">\u202e\u200bא1'
        args = {"amount": 12400.0, "to": odd, "memo": odd * 100, "tags": [odd]}
        hold = await desk.ask(["pay", {**args, "reference": 9007199254740993}])
        mira = await desk.person()
        for page in (f"/r/{hold.id}", f"/r/{hold.id}?edit"):
            text = (await mira.get(page)).text
            assert "<script>x" not in text
            assert '<b onclick="y">' not in text
            assert "\u202e" not in text
            assert "\u200b" not in text
        shown = unescape((await mira.get(f"/r/{hold.id}")).text)
        assert "12400.0" in shown
        assert "EUR 12,400.00" in shown
        assert "9007199254740993" in shown
        assert "\\u{202e}\\u{200b}" in shown
        assert f"{len(odd) * 100:,} characters" in shown

    run(main)


def test_whoever_only_decides_sees_the_request_and_not_the_conversation() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 1}], by="olga")
        mira, olga = await desk.person(), await desk.person("olga")
        mine, theirs = (
            (await mira.get(f"/r/{hold.id}")).text,
            (await olga.get(f"/r/{hold.id}")).text,
        )

        assert "Conversation so far" not in mine
        assert f'href="/runs/{hold.run_id}"' not in mine
        assert "Conversation so far" in theirs
        assert 'id="approve"' in mine
        assert 'id="approve"' not in theirs
        assert "This asks role:finance, not you" in theirs

    run(main)


def test_the_page_of_a_run_that_was_edited_shows_what_was_asked_at_first() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["pay", {"amount": 1, "to": "Nordwind"}])
        args = {**hold.args, "to": "Südwind"}
        await desk.sayso.decide(hold, approve(args=args), by="mira")
        page = (await (await desk.person()).get(f"/r/{hold.id}")).text

        assert "What was asked at first" in page
        assert "Nordwind" in page
        assert "Südwind" in page

    run(main)


def test_script_style_and_first_view_keep_within_their_budgets() -> None:
    async def main(desk: Desk) -> None:
        for n in range(listing.PAGE + 10):
            await desk.sayso.start("teller", f'[["pay", {{"amount": {n}, "to": "x"}}]]', by="mira")
        hold = await desk.ask(PAY)
        mira = await desk.person()
        async with mira.client.stream("GET", f"/r/{hold.id}") as answer:
            page = sum([len(part) async for part in answer.aiter_raw()])
        script, style = assets()["app.js"], assets()["app.css"]

        assert len(script.zipped) <= SCRIPT_MAX
        assert len(style.zipped) <= STYLE_MAX
        assert page + len(script.zipped) + len(style.zipped) <= VIEW_MAX

    run(main)
