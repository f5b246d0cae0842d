"""Several browsers and many tabs, told of the same things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from sayso import approve
from tests.browser.inbox import Inbox, pay
from tests.browser.window import Windows

TABS = 12


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inbox]:
    made = Inbox(tmp_path_factory.mktemp("inbox"))
    yield made
    made.close()


def test_two_browsers_and_twelve_tabs_hear_of_it_and_another_tab_takes_over(
    inbox: Inbox, windows: Windows
) -> None:
    context = windows.context()
    inbox.sign_in(context)
    tabs = [inbox.tab(context) for _ in range(TABS)]
    other = inbox.open(windows)
    hold = inbox.ask(pay())
    row = f'.row[data-id="{hold.id}"]'
    for page in (*tabs, other):
        expect(page.locator(row)).to_be_visible()

    # The first tab has the stream; when it is gone, another one gets it.
    tabs[0].close()
    for page in tabs[1:]:
        expect(page.locator("#live")).to_have_attribute("data-state", "on")
    inbox.decide(hold, approve(), by="mira")
    for page in (*tabs[1:], other):
        expect(page.locator(row)).to_have_count(0)
    more = inbox.ask(pay())
    expect(tabs[-1].locator(f'.row[data-id="{more.id}"]')).to_be_visible()


def test_what_is_selected_stays_when_something_new_comes(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, "/")
    page.locator(f'.row[data-id="{hold.id}"] input.pick').check()
    more = inbox.ask(pay())
    expect(page.locator(f'.row[data-id="{more.id}"]')).to_be_visible()
    expect(page.locator(f'.row[data-id="{hold.id}"] input.pick')).to_be_checked()
    expect(page).to_have_title(f"({page.locator('.row').count()}) Inbox · Sayso")


def test_a_browser_is_not_told_of_what_it_may_not_see(inbox: Inbox, windows: Windows) -> None:
    page = inbox.open(windows, who="olga")
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    inbox.ask(pay())
    own = inbox.ask(pay(), by="olga")
    expect(page.locator(f'.row[data-id="{own.id}"]')).to_be_visible()
    expect(page.locator(".row")).to_have_count(1)


# A browser without a screen shows no notification: this one writes down what it would show.
WRITTEN_DOWN = """
window.told = [];
window.Notification = class {
  static permission = "granted";
  static requestPermission() { return Promise.resolve("granted"); }
  constructor(title, options) { told.push(`${title}: ${options.tag}`); }
};
Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
"""


def test_whoever_wants_it_is_notified_once_of_each_request(inbox: Inbox, windows: Windows) -> None:
    context = windows.context()
    inbox.sign_in(context)
    context.add_init_script(WRITTEN_DOWN)
    page = inbox.tab(context)
    before = inbox.ask(pay())
    expect(page.locator(f'.row[data-id="{before.id}"]')).to_be_visible()
    assert page.evaluate("told") == []

    page.goto(f"{inbox.url}/settings")
    page.get_by_label("Tell me in this browser").check()
    # The list is loaded again once the server tells of what comes; a stream that is only open may
    # yet hear of the next request by the list alone.
    with page.expect_response(lambda one: one.request.headers.get("x-part") == "list"):
        page.goto(f"{inbox.url}/")
    hold = inbox.ask(pay())
    expect(page.locator(f'.row[data-id="{hold.id}"]')).to_be_visible()
    assert page.evaluate("told") == [f"A request needs you: {hold.id}"]
    inbox.decide(hold, approve(), by="mira")
    expect(page.locator(f'.row[data-id="{hold.id}"]')).to_have_count(0)
    assert len(page.evaluate("told")) == 1
