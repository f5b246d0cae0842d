"""Real releases of the npm package `ai` against a real server in a process of its own.

Each test is a page (or several) that a person uses. Payments are counted outside, in a file that
only the tool writes to.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.clients.conftest import CLIENTS
from tests.clients.npm import Browser, Server, asked, calls, states, suspensions, texts

OLD = ("ai-6.0.3", "ai-7.0.0")


class Page:
    """A page with a chat."""

    def __init__(self, browser: Browser, server: Server, client: str, **more: Any) -> None:
        self.chat = more.pop("chat", None) or f"chat-{uuid.uuid4().hex[:12]}"
        self.payee = f"p{uuid.uuid4().hex[:8]}"
        self._browser = browser
        self._name = uuid.uuid4().hex
        self.do(
            "open",
            url=server.url,
            token="mira@default",
            chat=self.chat,
            agent=more.pop("agent", "payer"),
            socket=CLIENTS[client][2],
            **more,
        )

    def do(self, what: str, **more: Any) -> dict[str, Any]:
        return self._browser.do(what, self._name, **more)

    def ask(self, text: str) -> dict[str, Any]:
        """Say something that is held, and look at it."""
        shown = self.do("send", text=text.replace("WHO", self.payee))
        assert (shown["status"], shown.get("error")) == ("ready", None)
        return shown

    def approve(self, hold: str, *, approved: bool = True, **more: Any) -> dict[str, Any]:
        shown = self.do("approve", id=hold, approved=approved, **{"sends": True, **more})
        assert (shown["status"], shown.get("error")) == ("ready", None)
        return shown


@pytest.fixture
def page(browser: Browser, server: Server, client: str) -> Page:
    return Page(browser, server, client)


def test_what_is_approved_is_paid_and_told(page: Page, server: Server) -> None:
    shown = page.ask("pay 200 WHO")
    assert states(shown) == ["approval-requested"]
    assert server.payments(page.payee) == []
    (hold,) = asked(shown)
    assert hold != calls(shown)[0]["toolCallId"]

    shown = page.approve(hold)

    assert states(shown) == ["output-available"]
    assert calls(shown)[0]["output"] == {"paid": 200, "to": page.payee}
    assert texts(shown) == ["Let me see. ", "Done: Returned."]
    assert (shown["sent"], len(shown["messages"])) == (2, 2)
    assert server.payments(page.payee) == [200.0]


def test_what_is_denied_is_not_paid_and_the_reason_is_kept(page: Page, server: Server) -> None:
    (hold,) = asked(page.ask("pay 200 WHO"))

    shown = page.approve(hold, approved=False, reason="too much")

    assert states(shown) == ["output-denied"]
    assert texts(shown)[-1] == "Done: Declined."
    (told,) = suspensions(shown)
    assert (told["decision"]["verdict"], told["decision"]["reason"]) == ("rejected", "too much")
    assert shown["sent"] == 2
    assert server.payments(page.payee) == []


def test_what_is_edited_is_paid_as_edited(browser: Browser, server: Server, client: str) -> None:
    # In 6.0.3 an answer takes no body along: it is given first, and sent by hand.
    by_hand = client == "ai-6.0.3"
    page = Page(browser, server, client, auto=not by_hand)
    (hold,) = asked(page.ask("pay 200 WHO"))
    edit = {"modifiedArgs": {hold: {"amount": 150, "to": page.payee}}}

    shown = page.approve(hold, body=edit, sends=not by_hand)
    if by_hand:
        shown = page.do("send", body=edit)

    assert calls(shown)[0]["output"] == {"paid": 150, "to": page.payee}
    assert suspensions(shown)[0]["args"] == {"amount": 150, "to": page.payee}
    assert calls(shown)[0]["input"] == {"amount": 150, "to": page.payee}
    assert len(calls(shown)) == 1
    assert server.payments(page.payee) == [150.0]


def test_two_calls_of_a_turn_are_answered_in_one_request(page: Page, server: Server) -> None:
    shown = page.ask("pay 200 WHO pay 300 WHO rate EUR")
    first, second = asked(shown)
    assert states(shown) == ["approval-requested", "approval-requested", "output-available"]

    shown = page.approve(first, sends=False)
    assert shown["sent"] == 1
    shown = page.approve(second, approved=False, reason="not this one")

    assert states(shown) == ["output-available", "output-denied", "output-available"]
    assert shown["sent"] == 2
    assert server.payments(page.payee) == [200.0]


def test_a_question_is_data_and_its_answer_goes_in_the_body(page: Page, server: Server) -> None:
    shown = page.ask("which one")
    assert states(shown) == ["input-available"]
    (told,) = suspensions(shown)
    assert [one["value"] for one in told["ask"]["options"]] == ["this", "that"]

    shown = page.do("send", body={"answers": {told["id"]: "that"}})

    assert (states(shown), calls(shown)[0]["output"]) == (["output-available"], "that")
    assert texts(shown)[-1] == "Done: Returned."
    assert (shown["sent"], len(shown["messages"])) == (2, 2)


def test_what_a_sub_agent_asks_is_answered_by_the_same_page(
    browser: Browser, server: Server, client: str
) -> None:
    page = Page(browser, server, client, agent="boss")
    shown = page.ask("pay 200 WHO pay 300 WHO")
    assert states(shown) == ["input-available", "approval-requested", "approval-requested"]
    first, second = asked(shown)

    page.approve(first, sends=False)
    shown = page.approve(second, approved=False)

    assert states(shown) == ["output-available", "output-available", "output-denied"]
    assert texts(shown) == ["It is done."]
    assert shown["sent"] == 2
    assert server.payments(page.payee) == [200.0]


def test_a_conversation_goes_on_after_an_approval(page: Page, server: Server) -> None:
    (hold,) = asked(page.ask("pay 200 WHO"))
    page.approve(hold)

    shown = page.ask("thank you")

    assert [message["role"] for message in shown["messages"]] == ["user", "assistant"] * 2
    assert texts(shown) == ["You said: thank you"]
    assert server.payments(page.payee) == [200.0]


def test_what_is_said_instead_takes_the_place_of_what_waits(page: Page, server: Server) -> None:
    page.ask("pay 200 WHO")

    shown = page.ask("pay 100 WHO")
    (hold,) = asked(shown)
    shown = page.approve(hold)

    assert calls(shown)[0]["output"] == {"paid": 100, "to": page.payee}
    assert server.payments(page.payee) == [100.0]


def test_a_decision_made_elsewhere_is_shown_when_the_page_comes_back(
    page: Page, server: Server, client: str
) -> None:
    (hold,) = asked(page.ask("pay 200 WHO"))
    server.decide(hold, "approve")

    if client in OLD:
        page.do("forget")  # They would show the text twice.
    shown = page.do("resume")

    assert states(shown) == ["output-available"]
    assert texts(shown) == ["Let me see. ", "Done: Returned."]
    assert len(shown["messages"]) == 2
    assert server.payments(page.payee) == [200.0]


def test_a_late_answer_is_told_what_stands(page: Page, server: Server) -> None:
    (hold,) = asked(page.ask("pay 200 WHO"))
    server.decide(hold, "reject", reason="I was first")

    shown = page.approve(hold)

    assert states(shown) == ["output-denied"]
    assert suspensions(shown)[0]["decision"]["reason"] == "I was first"
    refusals = [one["data"] for one in shown["heard"] if one["type"] == "data-refusal"]
    assert [one["error"] for one in refusals] == ["AlreadyDecided"]
    assert shown["sent"] == 2
    assert server.payments(page.payee) == []


def test_an_answer_that_is_not_enough_is_asked_for_again_and_not_sent_again(
    page: Page, server: Server, client: str
) -> None:
    (hold,) = asked(page.ask("pay 6000 WHO"))

    shown = page.approve(hold)
    assert states(shown) == ["approval-requested"]
    assert [vote["by"] for vote in suspensions(shown)[0]["votes"]] == ["mira"]
    assert shown["sent"] == 2
    assert server.payments(page.payee) == []

    server.decide(hold, "approve", by="bob")
    if client in OLD:
        page.do("forget")
    shown = page.do("resume")

    assert states(shown) == ["output-available"]
    assert shown["sent"] == 2
    assert server.payments(page.payee) == [6000.0]


def test_a_page_that_is_loaded_days_later_can_answer(
    browser: Browser, server: Server, client: str
) -> None:
    before = Page(browser, server, client)
    before.ask("pay 200 WHO")
    server.kill()
    server.start()

    loaded = server.messages(before.chat)
    page = Page(browser, server, client, chat=before.chat, messages=loaded["messages"])
    shown = page.do("look")
    assert states(shown) == ["approval-requested"]
    assert loaded["status"] == "suspended"
    shown = page.approve(*asked(shown))

    assert states(shown) == ["output-available"]
    assert texts(shown) == ["Let me see. ", "Done: Returned."]
    assert server.payments(before.payee) == [200.0]


def test_a_server_that_is_killed_in_the_middle_of_a_sentence_finishes_it_once(
    browser: Browser, server: Server, client: str
) -> None:
    page = Page(browser, server, client)
    (hold,) = asked(page.ask("pay 200 WHO slowly"))
    page.do("begin-approve", id=hold, approved=True)
    _until(lambda: states(page.do("look")) == ["output-available"])
    server.world.write(f"say-{page.payee}", "on")
    _until(lambda: "Done:" in "".join(texts(page.do("look"))))

    server.kill()
    broken = page.do("settle")
    server.world.write(f"go-{page.payee}", "on")
    server.start()
    assert broken["status"] == "error"
    if client in OLD:
        page.do("forget")
    shown = page.do("resume")

    assert shown["status"] == "ready"
    assert states(shown) == ["output-available"]
    assert texts(shown) == ["Let me see. ", "Done: Returned."]
    assert len(shown["messages"]) == 2
    assert server.payments(page.payee) == [200.0]


def _until(there: Any, patience_s: float = 20.0) -> None:
    import time

    end = time.monotonic() + patience_s
    while not there():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)
