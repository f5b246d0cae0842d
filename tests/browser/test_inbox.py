"""The inbox in a browser: what people do, as they do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from sayso import approve, fail, reject
from sayso.domain.hold import Answered
from tests.browser.inbox import GRACE_MS, Inbox, pay, question, stop_clock
from tests.browser.window import PHONE, Windows


@pytest.fixture(scope="module")
def inbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inbox]:
    made = Inbox(tmp_path_factory.mktemp("inbox"))
    yield made
    made.close()


def settle(page: Page) -> None:
    """Give somebody the time to see what is there, as keys and clicks do."""
    page.wait_for_timeout(GRACE_MS)


def toast(page: Page) -> Any:
    return page.locator(".toast")


def test_approve_by_key_and_undo(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}?q=run:{hold.run_id}")
    page.keyboard.press("a")
    expect(toast(page)).to_contain_text("Approved.")
    assert inbox.look(hold).status == "decided"

    page.keyboard.press("z")
    expect(page.locator("article")).to_have_attribute("data-status", "open")
    expect(page.locator("#approve")).to_be_visible()
    assert inbox.look(hold).status == "open"


def test_undo_is_offered_for_as_long_as_it_works(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.locator("#approve").click()
    button = toast(page).get_by_role("button", name="Undo")
    expect(button).to_be_visible()
    expect(button).to_be_hidden(timeout=8000)


def test_reject_asks_for_a_reason_first(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    expect(page.locator("#reason")).to_be_hidden()
    page.keyboard.press("R")
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("Already paid: a, r and j are letters here")
    assert inbox.look(hold).status == "open"
    page.locator("#reject").click()
    expect(toast(page)).to_contain_text("Rejected.")
    decision = inbox.look(hold).decision

    assert decision is not None
    assert decision.verdict == reject("Already paid: a, r and j are letters here")


def test_edit_shows_what_it_was_and_keeps_the_rest(inbox: Inbox, windows: Windows) -> None:
    big = 9007199254740993
    hold = inbox.ask(pay(reference=big, memo="one\ntwo", address={"street": "S", "number": big}))
    page = inbox.open(windows, f"/r/{hold.id}")
    page.keyboard.press("e")
    expect(page.get_by_label("amount")).to_be_focused()
    assert page.get_by_label("amount").input_value() == "12400.0"
    page.get_by_label("to", exact=True).fill("Südwind")
    expect(page.locator(".field.changed .was:visible")).to_have_text("was Nordwind")
    settle(page)
    page.locator("#approve").click()
    expect(toast(page)).to_contain_text("Approved with changes.")

    assert inbox.look(hold).args_json == hold.args_json.replace("Nordwind", "Südwind")


@pytest.mark.parametrize(
    "fields, keys, expected",
    [
        ({"options": ["red", "blue"]}, "2", "blue"),
        ({"options": ["a", "b", "c"], "kind": "choices"}, "13", ["a", "c"]),
        ({"kind": "yes_no"}, "2", False),
    ],
)
def test_choices_are_answered_by_number(
    inbox: Inbox, windows: Windows, fields: Any, keys: str, expected: Any
) -> None:
    hold = inbox.ask(question(**fields))
    page = inbox.open(windows, f"/r/{hold.id}")
    for key in keys:
        page.keyboard.press(key)
    page.get_by_role("button", name="Send answer").click()
    expect(toast(page)).to_contain_text("Answered.")
    decision = inbox.look(hold).decision

    assert decision is not None
    assert isinstance(decision.verdict, Answered)
    assert decision.verdict.result() == expected


@pytest.mark.parametrize(
    "kind, typed, expected",
    [
        ("text", "Because <b>so</b>", "Because <b>so</b>"),
        ("number", "9007199254740993", 9007199254740993),
        ("date", "2026-11-16", "2026-11-16"),
    ],
)
def test_words_numbers_and_dates_are_answered(
    inbox: Inbox, windows: Windows, kind: str, typed: str, expected: Any
) -> None:
    hold = inbox.ask(question(kind=kind))
    page = inbox.open(windows, f"/r/{hold.id}")
    page.get_by_label("Your answer").last.fill(typed)
    page.get_by_role("button", name="Send answer").click()
    expect(toast(page)).to_contain_text("Answered.")
    decision = inbox.look(hold).decision

    assert decision is not None
    assert isinstance(decision.verdict, Answered)
    assert decision.verdict.result() == expected


def test_a_form_marks_what_does_not_fit_and_keeps_the_rest(inbox: Inbox, windows: Windows) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
        "required": ["name", "age"],
    }
    hold = inbox.ask(question(schema=schema))
    page = inbox.open(windows, f"/r/{hold.id}")
    page.get_by_role("textbox", name="name").fill("Ann")
    page.get_by_role("textbox", name="age").fill("17")
    page.get_by_role("button", name="Send answer").click()
    expect(page.locator(".error")).to_have_text("this must be at least 18")
    expect(page.get_by_role("textbox", name="age")).to_be_focused()
    expect(page.get_by_role("textbox", name="age")).to_have_attribute("aria-invalid", "true")
    assert page.get_by_role("textbox", name="name").input_value() == "Ann"

    page.get_by_role("textbox", name="age").fill("18")
    settle(page)
    page.get_by_role("button", name="Send answer").click()
    expect(toast(page)).to_contain_text("Answered.")


def test_critical_takes_two_steps_by_click_and_by_key(inbox: Inbox, windows: Windows) -> None:
    first = inbox.ask(["drop", {"table": "one"}])
    second = inbox.ask(["drop", {"table": "two"}])
    page = inbox.open(windows, f"/r/{first.id}")
    page.locator("#approve").click()
    expect(page.locator("#approve")).to_contain_text("Approve: critical. Confirm")
    assert inbox.look(first).status == "open"
    settle(page)
    page.locator("#approve").click()
    expect(toast(page)).to_contain_text("Approved.")

    page = inbox.open(windows, f"/r/{second.id}")
    stop_clock(page)
    page.keyboard.press("a")
    page.keyboard.press("a")  # At once: nobody has read what the button says now.
    expect(page.locator("#approve.armed")).to_be_visible()
    assert inbox.look(second).status == "open"
    page.clock.run_for(GRACE_MS)
    page.keyboard.press("a")
    expect(toast(page)).to_contain_text("Approved.")


def test_a_call_in_doubt_is_settled(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["send", {"parcel": "one"}])
    page = inbox.open(windows, f"/r/{hold.id}")
    page.get_by_role("button", name="It did not: run it again").click()
    expect(page.locator("#approve.armed")).to_contain_text("confirm")
    page.get_by_role("button", name="Nobody can tell").click()
    expect(page.locator("#reason")).to_be_focused()
    page.keyboard.type("Their books are closed")
    page.get_by_role("button", name="Nobody can tell").click()
    expect(toast(page)).to_contain_text("Given up.")
    decision = inbox.look(hold).decision

    assert decision is not None
    assert decision.verdict == fail("Their books are closed")


def test_keys_do_nothing_before_a_request_could_be_seen(inbox: Inbox, windows: Windows) -> None:
    holds = inbox.ask_all(pay(memo="one"), pay(memo="two"))
    page = inbox.open(windows, f"/r/{holds[0].id}?q=run:{holds[0].run_id}")
    stop_clock(page)
    page.keyboard.press("j")
    expect(page.locator("article")).to_have_attribute("data-id", holds[1].id)
    page.keyboard.press("a")
    page.keyboard.press("r")
    expect(page.locator("#reason")).to_be_hidden()
    assert inbox.look(holds[1]).status == "open"

    page.clock.run_for(GRACE_MS)
    page.keyboard.press("r")
    expect(page.locator("#reason")).to_be_visible()


def test_keys_can_be_switched_off(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.keyboard.press("?")
    page.get_by_label("Single keys are on").uncheck()
    page.get_by_role("button", name="Close").click()
    settle(page)
    page.keyboard.press("a")
    page.keyboard.press("r")
    expect(page.locator("#reason")).to_be_hidden()
    assert inbox.look(hold).status == "open"


def test_several_are_decided_at_once(inbox: Inbox, windows: Windows) -> None:
    holds = inbox.ask_all(pay(memo="1"), pay(memo="2"), ["drop", {"table": "x"}], pay(memo="3"))
    context = windows.context()
    inbox.sign_in(context)
    context.route("**/live", lambda route: route.abort())
    page = inbox.tab(context, f"/?q=run:{holds[0].run_id}", live=False)
    boxes = page.locator("input.pick")
    expect(boxes).to_have_count(3)
    boxes.nth(0).check()
    boxes.nth(1).check()
    boxes.nth(2).check()
    inbox.decide(holds[1], reject("meanwhile"), by="mira")
    page.get_by_role("button", name="Approve 3").click()
    expect(page.locator(".toast", has_text="2 of 3 approved")).to_be_visible()
    expect(page.locator(".toast", has_text="You have rejected this already")).to_be_visible()
    assert [inbox.look(one).status for one in holds] == ["decided", "settled", "open", "decided"]

    page.keyboard.press("z")
    expect(page.locator(".toast", has_text="2 of 2 taken back")).to_be_visible()
    assert [inbox.look(one).status for one in holds] == ["open", "settled", "open", "open"]


def test_what_i_type_survives_somebody_elses_decision(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["wire", {"amount": 5}])
    page = inbox.open(windows, f"/r/{hold.id}")
    page.keyboard.press("r")
    page.keyboard.type("A long and careful reason")
    inbox.decide(hold, reject("No."))
    expect(page.locator("#banner")).to_contain_text("Rejected by jonas.")
    assert page.locator("#reason").input_value() == "A long and careful reason"
    expect(page.locator("#reject")).to_be_disabled()
    page.get_by_role("button", name="Show what stands").click()
    expect(page.locator("#verdict")).to_contain_text("Rejected by jonas")


def test_an_open_request_shows_what_somebody_else_decided(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["wire", {"amount": 5}])
    page = inbox.open(windows, f"/r/{hold.id}")
    inbox.decide(hold, reject("No."))
    expect(page.locator("#verdict")).to_contain_text("Rejected by jonas")
    expect(page.locator(f'.row[data-id="{hold.id}"]')).to_have_count(0)


def test_who_is_too_late_is_told_and_keeps_their_text(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["wire", {"amount": 5}])
    page = inbox.open(windows, f"/r/{hold.id}")
    page.context.set_offline(True)
    page.keyboard.press("r")
    page.keyboard.type("Mine")
    page.locator("#reject").click()
    expect(toast(page)).to_contain_text("No answer")
    inbox.decide(hold, reject("No."))
    page.context.set_offline(False)
    # In one go: the page is told of the decision any moment, and has no buttons then.
    page.evaluate(
        "document.querySelectorAll('#decision button').forEach(b => b.disabled = false);"
        "document.querySelector('#reject').click()"
    )
    expect(page.get_by_role("alert")).to_contain_text("jonas has rejected this already")
    expect(page.locator(".kept")).to_contain_text("Mine")


def test_a_request_that_was_changed_is_not_decided(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["wire", {"amount": 5}])
    page = inbox.open(windows, f"/r/{hold.id}?edit")
    page.get_by_label("amount").fill("6")
    inbox.decide(hold, approve(args={"amount": 7}))
    expect(page.locator("#banner")).to_be_visible()
    page.locator("#approve").click()
    expect(page.get_by_role("alert")).to_contain_text("was changed after you had opened it")
    assert inbox.look(hold).args == {"amount": 7}


def test_expiry_while_it_is_open(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["hurry", {"what": "now"}])
    page = inbox.open(windows, f"/r/{hold.id}")
    expect(page.locator("#verdict")).to_contain_text("Nobody decided in time, so it was rejected")
    expect(page.locator("#approve")).to_have_count(0)


def test_without_a_script_everything_can_be_approved(inbox: Inbox, windows: Windows) -> None:
    hold = inbox.ask(["drop", {"table": "x"}])
    page = inbox.open(windows, f"/?q=run:{hold.run_id}", js=False)
    page.get_by_role("link", name="Drop a table").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("body")).to_contain_text("Nothing is decided yet")
    page.get_by_role("button", name="Approve: critical. Confirm").click()
    expect(page.locator("#verdict")).to_contain_text("Approved by mira")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("article")).to_have_attribute("data-status", "open")


def test_after_a_decision_the_next_one_opens(inbox: Inbox, windows: Windows) -> None:
    holds = inbox.ask_all(pay(memo="one"), pay(memo="two"))
    where = f"/r/{holds[0].id}?q=run:{holds[0].run_id}"
    page = inbox.open(windows, where)
    page.keyboard.press("a")
    expect(page.locator("article")).to_have_attribute("data-id", holds[1].id)
    page.go_back()
    expect(page.locator("article")).to_have_attribute("data-id", holds[0].id)

    phone = inbox.open(windows, f"/r/{holds[1].id}?q=run:{holds[1].run_id}", size=PHONE)
    phone.get_by_role("button", name="Approve").click()
    expect(phone.locator("#list")).to_be_visible()
    expect(phone.locator("article")).to_have_count(0)


def test_what_is_shown_is_what_would_run(inbox: Inbox, windows: Windows) -> None:
    odd = '<img src=x onerror="document.title=1"> **bold** \u202egpj.exe\u200b שלום'
    hold = inbox.ask(pay(to=odd, memo="x" * 200_000, reference=9007199254740993))
    page = inbox.open(windows, f"/r/{hold.id}")
    args = page.locator(".decision .args")
    expect(args).to_contain_text("12400.0")
    expect(args).to_contain_text("9007199254740993")
    expect(args).to_contain_text('<img src=x onerror="document.title=1"> **bold** \\u{202e}gpj.exe')
    expect(args).to_contain_text("\\u{200b}")
    expect(args).to_contain_text("200,000 characters")
    fold = page.locator(".fold .raw")
    page.locator(".fold summary").click()
    assert fold.text_content() == "x" * 200_000
    assert "Pay an invoice" in page.title()


def test_what_is_always_allowed_is_among_the_rules_until_it_is_revoked(
    inbox: Inbox, windows: Windows
) -> None:
    hold = inbox.ask(pay())
    page = inbox.open(windows, f"/r/{hold.id}")
    page.get_by_text("Always allow calls like this").click()
    page.get_by_label("Where").select_option("project")
    page.wait_for_timeout(GRACE_MS)
    page.get_by_role("button", name="Approve, and always allow").click()
    expect(page.locator(f'.row[data-id="{hold.id}"]')).to_have_count(0)

    page.goto(f"{inbox.url}/rules")
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Nothing is always allowed")).to_be_visible()
    page.goto(f"{inbox.url}/rules?ended=1")
    expect(page.get_by_text("revoked by mira")).to_be_visible()
