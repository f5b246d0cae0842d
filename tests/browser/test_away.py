"""What somebody does with a request other than decide it: hand it over, put it off, stop its run;
and what they decline, or answer in secret.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sayso import HoldView, reject
from tests.browser.inbox import GRACE_MS, Inbox, pay, question, stop_clock
from tests.browser.window import Windows

SECRET = "correct-horse-battery-staple-7f3a"


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inbox]:
    made = Inbox(tmp_path_factory.mktemp("away"))
    yield made
    made.close()


def toast(page: Page, words: str) -> None:
    expect(page.locator(".toast", has_text=words)).to_be_visible()


def opened(inbox: Inbox, windows: Windows, hold: HoldView, **options: Any) -> Page:
    """Open a request, with what else can be done about it."""
    page = inbox.open(windows, f"/r/{hold.id}", **options)
    page.locator(".more > summary").click()
    return page


def test_a_request_is_handed_over_and_decided_by_whoever_has_it_then(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    row = f'.row[data-id="{hold.id}"]'
    jonas = inbox.open(windows, who="jonas")
    expect(jonas.locator(row)).to_have_count(0)
    page = opened(inbox, windows, hold)

    # Nobody of that name: it says so, and what was typed is still there.
    page.get_by_label("Hand over to").fill("jnas")
    page.get_by_label("Note").fill("I am away")
    page.get_by_role("button", name="Hand over").click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be handed over to jnas")
    expect(page.get_by_label("Note")).to_have_value("I am away")
    assert inbox.look(hold).status == "open"

    page.get_by_label("Hand over to").fill("jonas")
    page.get_by_role("button", name="Hand over").click()
    toast(page, "Handed over to jonas.")
    expect(page.locator(row)).to_have_count(0)
    expect(page.locator(f'article[data-id="{hold.id}"]')).to_have_count(0)

    jonas.locator(f"{row} > a").click()
    expect(jonas.locator("#approve")).to_be_visible()
    jonas.wait_for_timeout(GRACE_MS)
    jonas.locator("#approve").click()
    toast(jonas, "Approved.")
    decision = inbox.look(hold).decision
    assert decision is not None
    assert decision.by.id == "jonas"


def test_a_request_that_is_put_off_can_be_decided_all_the_same(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    page = opened(inbox, windows, hold)
    page.get_by_label("Remind me").select_option("4h")
    page.get_by_role("button", name="Remind me").click()
    toast(page, "You are reminded at")
    expect(page.locator("article")).to_have_attribute("data-id", hold.id)
    expect(page.locator(".more")).not_to_have_attribute("open", "")  # It was loaded again.
    assert inbox.look(hold).status == "open"

    page.wait_for_timeout(GRACE_MS)
    page.locator("#approve").click()
    toast(page, "Approved.")
    assert inbox.look(hold).status == "decided"


def test_stopping_a_run_withdraws_all_that_it_asks(inbox: Inbox, windows: Windows) -> None:
    holds = inbox.ask_all(pay(memo="one"), pay(memo="two"))
    other = inbox.open(windows, f"/r/{holds[1].id}")
    page = opened(inbox, windows, holds[0])
    page.get_by_label("Stop the whole run").fill("The wrong invoice")
    page.get_by_role("button", name="Stop the run").click()
    toast(page, "The run is stopped.")

    # Whoever looks at the other request is told, and cannot decide it any more.
    expect(other.locator("#verdict")).to_contain_text("Withdrawn")
    expect(other.locator("#approve")).to_have_count(0)
    for hold in holds:
        expect(page.locator(f'.row[data-id="{hold.id}"]')).to_have_count(0)
        assert inbox.look(hold).status == "settled"


def test_a_question_is_declined_with_a_reason(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(question())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.get_by_role("button", name="Decline to answer").click()
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("That is nobody's business")
    page.get_by_role("button", name="Decline to answer").click()
    expect(page.locator(".toast")).to_be_visible()
    decision = inbox.look(hold).decision
    assert decision is not None
    assert decision.verdict == reject("That is nobody's business")


def test_a_secret_answer_is_on_no_page(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["unlock", {"what": "the safe"}])
    page = inbox.open(windows, f"/r/{hold.id}")
    field = page.locator("#answer")
    expect(field).to_have_attribute("type", "password")
    field.fill(SECRET[:5])
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".error").first).to_be_visible()
    assert SECRET[:5] not in page.content()

    field.fill(SECRET)
    page.wait_for_timeout(GRACE_MS)
    page.get_by_role("button", name="Send answer").click()
    toast(page, "Answered.")
    page.goto(f"{inbox.url}/r/{hold.id}")
    expect(page.locator("#verdict")).to_contain_text("Answered by mira")
    assert SECRET not in page.content()


def test_keys_lead_only_where_there_is_a_link(inbox: Inbox, windows: Windows) -> None:
    page = inbox.open(windows)
    stop_clock(page)  # Two keys are one way to go only if they come soon after each other.
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    for key in ("g", "a", "g", "d"):
        page.keyboard.press(key)
    page.wait_for_url("**/decided")
    assert not [one for one in asked if one.endswith("/audit")]
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)

    jonas = inbox.open(windows, who="jonas")
    stop_clock(jonas)
    jonas.keyboard.press("g")
    jonas.keyboard.press("a")
    jonas.wait_for_url("**/audit")
    expect(jonas.get_by_role("heading", name="Audit")).to_be_visible()
