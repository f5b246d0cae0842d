"""Cards in a Slack on this machine: what is on them, and what becomes of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from sayso import (
    Agent,
    Notice,
    Policy,
    Rule,
    Sayso,
    Secret,
    anyone,
    approve,
    ask_user,
    reject,
    role,
    tool,
    user,
)
from sayso.errors import BadSetup
from sayso.notify.channel import Channels
from sayso.notify.slack import CARDS, Slack
from sayso.testing import FakeClock, ScriptedModel, call, say

from .slack_server import SECRET, TOKEN, buttons, fake_slack, labels, words


@tool(effect="once")
def pay(amount: int, to: str) -> str:
    return f"paid {amount}"


@tool(effect="once")
def post(body: str, first: int = 1, second: str = "x") -> str:
    return "posted"


@tool(effect="once")
def login(user: str, password: Secret) -> str:
    return "in"


def channel_to(slack, **options):
    given = {"channel": "C1", "team": "T1", "link": "https://x.test", "signing_secret": SECRET}
    return Slack(TOKEN, **{**given, "base_url": slack.url, **options})


@asynccontextmanager
async def asking(slack, script=None, *, rule=None, store="memory:", clock=None, **options):
    """An app whose one run asks something, with the cards of that posted."""
    model = ScriptedModel(script or [call("pay", {"amount": 987654, "to": "Jiro"}), say("Done.")])
    teller = Agent("teller", model=model, tools=[pay, post, login, ask_user()])
    rules = [Rule(one, **(rule or {})) for one in ("pay", "post", "login")]
    channels = Channels(channel_to(slack, **options))
    async with Sayso(
        store,
        agents=[teller],
        policy=Policy(*rules),
        notify=channels,
        clock=clock or FakeClock(),
        work=True,
    ) as app:
        run = await app.start("teller", "go", by="mira")
        view = await run.wait(timeout=20)
        await drawn(app, lambda: slack.cards)
        yield app, view.holds[0]


async def drawn(app, there, clock=None):
    """Wait until the courier has done something; with a clock, also after it has waited."""
    async with asyncio.timeout(20):
        while not there():
            await app.notices.deliver()
            if clock is not None:
                clock.advance("1m")
            await asyncio.sleep(0.01)


def ended(slack):
    return lambda: slack.cards and not buttons(slack.cards[-1])


async def test_the_fake_is_one_that_the_library_takes_for_slack():
    with fake_slack() as slack:
        client = WebClient(TOKEN, base_url=slack.url, retry_handlers=[])
        sent = client.chat_postMessage(channel="C1", text="x")
        client.chat_update(channel="C1", ts=sent["ts"], text="y")

        assert slack.cards[0]["text"] == "y"
        with pytest.raises(SlackApiError, match="message_not_found"):
            client.chat_update(channel="C1", ts="1.1", text="y")
        with pytest.raises(SlackApiError, match="invalid_auth"):
            WebClient("xoxb-2", base_url=slack.url).chat_postMessage(channel="C1", text="x")
        clash = [{"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "x"}}]
        blocks = [{"type": "actions", "elements": clash * 2}]
        with pytest.raises(SlackApiError, match="invalid_blocks"):
            client.chat_postMessage(channel="C1", text="x", blocks=blocks)


async def test_a_card_shows_what_would_be_done_and_has_buttons():
    with fake_slack() as slack:
        rule = {"title": "Pay Jiro", "risk": "high", "within": "4h", "why": "more than 1,000"}
        async with asking(slack, rule=rule) as (_, hold):
            (card,) = slack.cards

            assert labels(card) == ["Approve", "Reject", "Open"]
            assert buttons(card)[-1]["url"] == f"https://x.test/r/{hold.id}"
            assert card["unfurl_links"] in (False, "False", "0")
            said = words(card)
            for part in (
                "Pay Jiro",
                "high",
                "amount\\n987654",
                "Jiro",
                "4 h left",
                "more than 1,0",
            ):
                assert part in said
            assert "confirm" in buttons(card)[0]


@pytest.mark.parametrize(
    "how, said",
    [
        ("approved", "Approved by Ann Lee"),
        ("rejected", "Rejected by Ann Lee"),
        ("expired", "Expired"),
        ("withdrawn", "Withdrawn"),
    ],
)
async def test_a_card_is_drawn_again_whatever_became_of_it(how, said):
    clock = FakeClock()
    with fake_slack() as slack:
        rule = {"approvers": [user("ann")], "within": "4h"}
        async with asking(slack, rule=rule, clock=clock) as (app, hold):
            await app.people.put("ann", name="Ann Lee")
            match how:
                case "approved":
                    await app.decide(hold, approve(), by="ann", channel="http")
                case "rejected":
                    await app.decide(hold, reject("too much"), by="ann", channel="http")
                case "expired":
                    clock.advance("4h")
                    await app.sweep()
                case _:
                    await app.cancel(hold.run_id, by="mira")
            await drawn(app, ended(slack))

            (card,) = slack.cards
            assert said in words(card)
            assert ("http" in words(card)) == (how in ("approved", "rejected"))
            assert ("too much" in words(card)) == (how == "rejected")
            assert await app.store.shelf.list("default", CARDS) == []


async def test_a_card_is_found_again_after_a_restart_by_a_process_that_tells_nobody(tmp_path):
    store = tmp_path / "pay.db"
    with fake_slack() as slack:
        async with asking(slack, store=store) as (_, hold):
            pass
        async with Sayso(store, work=False, clock=FakeClock()) as desk:
            await desk.decide(hold, reject("no"), by="mira")
        channels = Channels(channel_to(slack))
        async with Sayso(store, notify=channels, work=False, clock=FakeClock()) as app:
            await drawn(app, ended(slack))

        assert len(slack.cards) == 1


async def test_a_vote_is_shown_and_the_buttons_stay():
    with fake_slack() as slack:
        async with asking(slack, rule={"approvers": [anyone], "quorum": 2}) as (app, hold):
            await app.decide(hold, approve(), by="ann")
            await drawn(app, lambda: slack.of("chat.update"))

            assert "1 have said something, 1 more must say yes" in words(slack.cards[0])
            assert "Approve" in labels(slack.cards[0])


async def test_what_was_edited_is_asked_on_a_card_of_its_own():
    clock = FakeClock()
    with fake_slack() as slack:
        rule = {"approvers": [user("ann"), user("bob")], "quorum": 2}
        async with asking(slack, rule=rule, clock=clock) as (app, hold):
            clock.advance("1m")
            await app.decide(hold, approve(args={"amount": 5, "to": "Eve"}), by="ann")
            await drawn(app, lambda: len(slack.cards) == 2 and not buttons(slack.cards[0]))

            old, new = slack.cards
            assert "newer card" in words(old)
            assert "Eve" in words(new)
            assert "Approve" in labels(new)


async def test_cards_go_where_their_approvers_are():
    with fake_slack() as slack:
        rule = {"approvers": [user("ann"), user("bob")]}
        async with asking(slack, rule=rule, channels={"user:ann": "U7"}) as (app, hold):
            await drawn(app, lambda: len(slack.cards) == 2)
            assert {one["channel"] for one in slack.cards} == {"D7", "C1"}
            await app.decide(hold, approve(), by="ann")
            await drawn(app, lambda: not any(map(buttons, slack.cards)))


async def test_who_is_reminded_is_called_by_name_beside_the_card():
    clock = FakeClock()
    with fake_slack() as slack:
        rule = {"approvers": [user("ann"), user("bob")], "remind_every": "1h"}
        async with asking(slack, rule=rule, clock=clock, people={"U9": "bob"}) as (app, _):
            await app.people.put("ann", identities=["slack:U7"])
            clock.advance("1h")
            await drawn(app, lambda: len(slack.messages) == 2)

            (reply,) = [one for one in slack.messages.values() if "thread_ts" in one]
            assert reply["thread_ts"] == slack.cards[0]["ts"]
            assert reply["text"].startswith("<@U7> <@U9> ")


async def test_who_wants_to_be_reminded_is_where_the_card_is_and_nowhere_else():
    clock = FakeClock()
    with fake_slack() as slack:
        rule = {"approvers": [role("finance")]}
        where = {"role:finance": "C2"}
        async with asking(slack, rule=rule, clock=clock, channels=where) as (app, hold):
            await app.people.put("ann", roles=["finance"], identities=["slack:U7"])
            await app.remind(hold.id, "1h", by="ann")
            clock.advance("1h")
            await drawn(app, lambda: len(slack.messages) == 2)

            assert {one["channel"] for one in slack.messages.values()} == {"C2"}
            (reply,) = [one for one in slack.messages.values() if "thread_ts" in one]
            assert reply["text"].startswith("<@U7> ")


async def test_a_vote_that_is_drawn_after_the_end_does_not_stay():
    """A card is drawn as settled, and let go, while an older view of it is on its way."""
    with fake_slack() as slack:
        async with asking(slack, rule={"approvers": [anyone]}) as (app, hold):
            vote = Notice(id="n", kind="voted", hold=hold, to=hold.approvers)
            release = slack.keep_first("chat.update")
            drawing = asyncio.ensure_future(app.notify.channels[0].send(vote))
            await drawn(app, lambda: slack.kept)
            await app.decide(hold, approve(), by="ann")
            await drawn(app, ended(slack))
            release()
            await drawing

            assert len(slack.of("chat.update")) == 3
            assert not buttons(slack.cards[0])


ODD = "*x* <!channel> & \u202egnp"


@pytest.mark.parametrize(
    "script, rule, found, shown",
    [
        # What does not fit is counted, and leads to the page.
        (call("post", {"body": "y" * 5000}), {}, ["Reject", "Open"], "1 more are not shown"),
        (call("post", {"body": ODD}), {}, ["Approve", "Reject", "Open"], "&lt;!channel&gt; &amp;"),
        (call("pay", {"amount": 1, "to": "J"}), {"risk": "critical"}, ["Open"], "amount"),
        (call("ask_user", {"question": "Sure?", "kind": "yes_no"}), {}, ["Yes", "No", "Open"], "S"),
        (
            call("ask_user", {"question": "Which?", "options": ["red", "blue"]}),
            {},
            ["red", "blue", "Open"],
            "The agent asks: Which?",
        ),
        (
            call("ask_user", {"question": "Which?", "options": [f"{n}" for n in range(6)]}),
            {},
            ["Open"],
            "Which?",
        ),
        (call("ask_user", {"question": "Who are you?"}), {}, ["Open"], "Who are you?"),
        (
            call("ask_user", {"question": "W?", "options": ["a" * 90, "b"]}),
            {},
            ["Open"],
            "W?",
        ),
        (call("pay", {"amount": 1, "to": "J"}), {"title": "t" * 400}, ["Approve"], "ttt…"),
        (call("pay", {"amount": 1, "to": "J"}), {"title": "<" * 140}, ["Approve"], "&lt;"),
    ],
)
async def test_what_a_card_has_buttons_for(script, rule, found, shown):
    with fake_slack() as slack:
        async with asking(slack, [script, say("Done.")], rule=rule):
            (card,) = slack.cards

            assert labels(card)[: len(found)] == found
            assert shown in words(card)
            assert "\u202e" not in words(card)
            assert len(words(card)) < 6000


async def test_a_card_shows_no_secret():
    with fake_slack() as slack:
        script = [call("login", {"user": "ann", "password": "hunter2x"}), say("Done.")]
        async with asking(slack, script) as (app, hold):
            await app.decide(hold, approve(), by="mira")
            await drawn(app, ended(slack))

        told = str(slack.calls)
        assert "[secret " in told
        assert "hunter2x" not in told


async def test_without_a_signing_secret_a_card_only_leads_to_the_page():
    with fake_slack() as slack:
        async with asking(slack, signing_secret=None):
            assert labels(slack.cards[0]) == ["Open"]


async def test_holds_of_another_project_have_no_cards():
    with fake_slack() as slack:
        teller = Agent(
            "teller", model=ScriptedModel([call("pay", {"amount": 1, "to": "J"})]), tools=[pay]
        )
        notify = Channels(channel_to(slack, project="theirs"))
        policy = Policy(Rule("pay"))
        async with Sayso("memory:", agents=[teller], policy=policy, notify=notify) as app:
            await (await app.start("teller", "go", by="mira")).wait(timeout=20)
            while await app.store.outbox.next_due() is not None:
                await app.notices.deliver()

        assert slack.calls == []


async def test_a_slack_that_never_answers_delays_no_decision():
    with fake_slack() as slack:
        model = ScriptedModel([call("pay", {"amount": 1, "to": "J"}), say("Done.")])
        teller = Agent("teller", model=model, tools=[pay])
        policy = Policy(Rule("pay"))
        slack.waits.clear()
        async with Sayso(
            "memory:", agents=[teller], policy=policy, notify=Channels(channel_to(slack)), drain_s=0
        ) as app:
            hold = (await (await app.start("teller", "go", by="mira")).wait(timeout=20)).holds[0]
            delivering = asyncio.ensure_future(app.notices.deliver())
            await asyncio.wait_for(app.decide(hold, approve(), by="mira"), 5)
            view = await app.run(hold.run_id).wait(final=True, timeout=20)

            assert view.status == "completed"
            slack.waits.set()
            await drawn(app, ended(slack))
            await delivering


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\x00 nothing of HTTP's",
        b"HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\nno",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n\xff\xfe<html>",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]",
        b"HTTP/1.1 302 Go\r\nlocation: file:///etc/passwd\r\ncontent-length: 0\r\n\r\n",
    ],
)
async def test_a_slack_that_is_not_itself_delays_no_decision(raw):
    clock = FakeClock()
    with fake_slack() as slack:
        async with asking(slack, clock=clock) as (app, hold):
            slack.raw = raw
            await asyncio.wait_for(app.decide(hold, approve(), by="mira"), 5)
            await drawn(app, lambda: slack.of("chat.update"))
            view = await app.run(hold.run_id).wait(final=True, timeout=20)
            assert view.status == "completed"
            slack.raw = None
            await drawn(app, ended(slack), clock)


@pytest.mark.parametrize("error", ["ratelimited", "internal_error"])
async def test_what_slack_refuses_comes_again(error):
    clock = FakeClock()
    with fake_slack() as slack:
        async with asking(slack, clock=clock) as (app, hold):
            slack.answers["chat.update"] = error
            await app.decide(hold, approve(), by="mira")
            await drawn(app, lambda: slack.of("chat.update"))
            assert buttons(slack.cards[0])
            del slack.answers["chat.update"]
            await drawn(app, ended(slack), clock)


async def test_a_card_that_somebody_has_deleted_is_let_go():
    with fake_slack() as slack:
        async with asking(slack) as (app, hold):
            slack.messages.clear()
            await app.decide(hold, approve(), by="mira")
            await drawn(app, lambda: slack.of("chat.update"))
            while await app.store.outbox.next_due() is not None:
                await app.notices.deliver()

            assert await app.notices.dead() == []
            assert await app.store.shelf.list("default", CARDS) == []


async def test_a_card_posted_while_its_hold_was_settled_has_no_buttons_in_the_end():
    """The answer to the posting comes after the decision, and after its parcel was delivered."""
    with fake_slack() as slack:
        model = ScriptedModel([call("pay", {"amount": 1, "to": "J"}), say("Done.")])
        teller = Agent("teller", model=model, tools=[pay])
        channel = channel_to(slack)
        notify = Channels(channel)
        async with Sayso(
            "memory:", agents=[teller], policy=Policy(Rule("pay")), notify=notify
        ) as app:
            hold = (await (await app.start("teller", "go", by="mira")).wait(timeout=20)).holds[0]
            slack.waits.clear()
            asked = asyncio.ensure_future(
                channel.send(Notice(id="n", kind="asked", hold=hold, to=hold.approvers))
            )
            await app.decide(hold, approve(), by="mira")
            after = await app.hold(hold.id)
            await channel.send(Notice(id="m", kind="settled", hold=after, to=hold.approvers))
            slack.waits.set()
            await asked

            assert [buttons(card) for card in slack.cards] == [[]] * len(slack.cards)
            assert slack.cards


@pytest.mark.parametrize(
    "wrong", [{"token": ""}, {"channel": ""}, {"team": ""}, {"link": ""}, {"signing_secret": " "}]
)
def test_what_cannot_be_a_channel_to_slack_is_refused_at_once(wrong):
    given = {"token": "xoxb-s3cr3t", "channel": "C1", "team": "T1", "link": "https://x.test"}
    with pytest.raises(BadSetup) as caught:
        Slack(**{**given, **wrong})
    assert "s3cr3t" not in str(caught.value)
