"""What a browser says when an answer is lost, or refused: never what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.browser.inbox import GRACE_MS, Inbox, pay
from tests.browser.window import Windows


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inbox]:
    made = Inbox(tmp_path_factory.mktemp("lost"))
    yield made
    made.close()


def lose(route: Route) -> None:
    """Have the server carry it out, and nobody hear of it."""
    route.fetch(max_redirects=0)
    route.abort()


def test_a_decision_whose_answer_is_lost_is_sent_again_and_counts_once(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.route("**/decision**", lose, times=1)
    # What is heard of it by the stream comes when it likes, and would take the form away.
    page.route("**/r/*", lambda route: route.abort())
    page.locator("#approve").click()
    expect(page.locator(".toast")).to_contain_text("Whether it counts is not known")
    assert inbox.look(hold).decision is not None

    page.locator("#approve").click()
    expect(page.locator(".toast").last).to_contain_text("Approved.")


def test_what_is_no_request_does_not_take_its_place(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.keyboard.press("r")
    page.keyboard.type("Because")
    page.evaluate("document.querySelector('#decision').action = '/runs/run_x/stop'")
    page.route(
        "**/runs/run_x/stop",
        lambda route: route.fulfill(
            status=409, content_type="text/html", body="<main><h1>The run is over.</h1></main>"
        ),
    )
    page.locator("#reject").click()
    expect(page.locator(".toast")).to_contain_text("The run is over.")
    expect(page.locator("#reason")).to_have_value("Because")


def test_a_conversation_that_was_refused_its_stream_asks_again(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    context = windows.context()
    inbox.sign_in(context)
    page = context.new_page()
    page.clock.install()
    page.route("**/events?**", lambda route: route.fulfill(status=503), times=1)
    with page.expect_response("**/events?**") as refused:
        page.goto(f"{inbox.url}/chat/{hold.run_id}")
    assert refused.value.status == 503
    page.wait_for_timeout(GRACE_MS)
    with page.expect_response("**/events?**") as taken:
        page.clock.fast_forward(11_000)
    assert taken.value.status == 200
    windows.faults.clear()  # The browser says that it was refused.


def test_a_decision_in_a_conversation_whose_answer_is_lost_is_told(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    context = windows.context()
    inbox.sign_in(context)
    page = context.new_page()
    page.goto(f"{inbox.url}/chat/{hold.run_id}")
    page.route("**/events?**", lambda route: route.abort())
    page.route("**/decision", lambda route: route.abort(), times=1)
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".toast")).to_contain_text("No answer")
    assert inbox.look(hold).status == "open"
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#talk")).to_contain_text("It counts in a moment")
    windows.faults.clear()  # The browser says that it was cut off.
