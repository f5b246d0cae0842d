"""Clicks on cards: signed as Slack signs them, posted to the service, with a Slack on this machine.

A click is worked on after its answer. Over ASGI the client waits for that as well, so what it did
can be looked at at once.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import httpx2
import pytest

from sayso import Agent, Policy, Rule, Sayso, anyone, approve, ask_user, user
from sayso.errors import BadSetup
from sayso.notify.channel import Channels
from sayso.server.app import create_app
from sayso.testing import FakeClock, ScriptedModel, call, say
from tests.notify.slack_server import SECRET, buttons, fake_slack, headers, labels, signed, words
from tests.notify.test_slack import channel_to, drawn, ended, pay

PATH = "/v1/slack/actions"


class Desk:
    """An app with a card in Slack, and whoever clicks on it."""

    def __init__(self, app, slack, hold, client, clock):
        self.app, self.slack, self.hold, self.client = app, slack, hold, client
        self.clock = clock
        self.clicks = 0

    @property
    def now(self):
        return self.clock.now() / 1000

    def payload(self, action, who="U1", **changed):
        """What Slack sends when somebody clicks on the last card."""
        card = self.slack.cards[-1]
        (button,) = [one for one in buttons(card) if one["action_id"] == f"sayso:{action}"]
        self.clicks += 1
        return {
            "type": "block_actions",
            "user": {"id": who, "team_id": "T1"},
            "team": {"id": "T1"},
            "channel": {"id": card["channel"]},
            "message": {"ts": card["ts"], "text": "x"},
            "trigger_id": "1.2.3",
            "response_url": "https://evil.test/",
            "actions": [
                {
                    "action_id": button["action_id"],
                    "value": button.get("value", ""),
                    "action_ts": f"{self.now}.{self.clicks}",
                }
            ],
            **changed,
        }

    async def post(self, payload, **changed):
        body, signature = signed(payload, self.now)
        return await self.client.post(PATH, content=body, headers={**signature, **changed})

    async def click(self, action, who="U1", **changed):
        answered = await self.post(self.payload(action, who, **changed))
        assert (answered.status_code, answered.content) == (200, b"")

    async def submit(self, reason, user="U1"):
        """Send the modal that was opened last, with a reason in it."""
        view = self.slack.of("views.open")[-1]["view"]
        sent = {
            "type": "view_submission",
            "user": {"id": user, "team_id": "T1"},
            "team": {"id": "T1"},
            "view": {
                "id": "V1",
                "callback_id": view["callback_id"],
                "private_metadata": view["private_metadata"],
                "state": {"values": {"reason": {"reason": {"value": reason}}}},
            },
        }
        return await self.post(sent)

    async def decision(self):
        return (await self.app.hold(self.hold.id)).decision

    @property
    def notes(self):
        return [(one["user"], one["text"]) for one in self.slack.of("chat.postEphemeral")]


@asynccontextmanager
async def carded(script=None, *, rule=None, **options):
    clock = FakeClock()
    model = ScriptedModel([script or call("pay", {"amount": 5, "to": "Jiro"}), say("Done.")])
    teller = Agent("teller", model=model, tools=[pay, ask_user()])
    policy = Policy(Rule("pay", **(rule or {"approvers": [user("ann")]})))
    with fake_slack() as slack:
        notify = Channels(channel_to(slack, **options))
        async with Sayso(
            "memory:", agents=[teller], policy=policy, notify=notify, clock=clock
        ) as app:
            await app.people.put("ann", name="Ann", identities=["slack:U1"])
            await app.people.put("bob", identities=["slack:U2"])
            await app.people.put("mira", identities=["slack:U3"])
            hold = (await (await app.start("teller", "go", by="mira")).wait(timeout=20)).holds[0]
            await drawn(app, lambda: slack.cards)
            transport = httpx2.ASGITransport(app=create_app(app), raise_app_exceptions=False)
            async with httpx2.AsyncClient(transport=transport, base_url="http://x.test") as client:
                yield Desk(app, slack, hold, client, clock)


async def test_a_click_decides_as_the_person_who_is_linked():
    async with carded() as desk:
        await desk.click("approve")

        decision = await desk.decision()
        assert (decision.word, decision.by.id, decision.channel) == ("approved", "ann", "slack")
        assert decision.digest == desk.hold.digest
        await drawn(desk.app, ended(desk.slack))
        assert "Approved by Ann" in words(desk.slack.cards[0])
        assert desk.notes == []
        view = await desk.app.run(desk.hold.run_id).wait(final=True, timeout=20)
        assert view.status == "completed"


async def test_a_reject_asks_for_a_reason_first():
    async with carded() as desk:
        await desk.click("reject")
        assert await desk.decision() is None
        assert desk.slack.of("views.open")[0]["trigger_id"] == "1.2.3"
        assert (await desk.submit("too much")).status_code == 200

        decision = await desk.decision()
        assert (decision.word, decision.verdict.reason) == ("rejected", "too much")


async def test_a_question_is_answered_by_its_button():
    script = call("ask_user", {"question": "Which?", "options": ["red", "blue"]})
    async with carded(script) as desk:
        await desk.click("pick:1", "U3")

        decision = await desk.decision()
        assert (decision.verdict.result(), decision.by.id) == ("blue", "mira")


@pytest.mark.parametrize("who, said", [("U2", "not asked"), ("U9", "linked")])
@pytest.mark.parametrize("action", ["approve", "reject"])
async def test_whoever_is_not_asked_is_told_so_alone_and_it_keeps_waiting(who, said, action):
    async with carded() as desk:
        await desk.click(action, who)

        ((told, text),) = desk.notes
        assert told == who
        assert said in text
        assert (await desk.app.hold(desk.hold.id)).status == "open"
        assert desk.slack.of("views.open") == []
        assert "Approve" in labels(desk.slack.cards[0])


async def test_the_same_click_twice_decides_once():
    async with carded(rule={"approvers": [anyone], "quorum": 2}) as desk:
        sent = desk.payload("approve")
        for retry in range(3):
            await desk.post(sent, **{"x-slack-retry-num": str(retry)})

        assert len((await desk.app.hold(desk.hold.id)).votes) == 1
        assert desk.notes == []
        await desk.app.undo(desk.hold.id, by="ann")
        await desk.post(sent)
        assert (await desk.app.hold(desk.hold.id)).votes == (), "what was taken back stays so"


async def test_whoever_comes_second_is_told_what_stands():
    async with carded(rule={"approvers": [anyone]}) as desk:
        late = desk.payload("approve", "U2")
        await desk.app.decide(desk.hold, approve(), by="ann")
        await desk.post(late)

        ((told, text),) = desk.notes
        assert told == "U2"
        assert "approved by ann" in text
        await drawn(desk.app, ended(desk.slack))


async def test_a_card_of_an_older_version_decides_nothing():
    async with carded(rule={"approvers": [user("ann"), user("bob")], "quorum": 2}) as desk:
        stale = desk.payload("approve", "U2")
        desk.clock.advance("1m")
        await desk.app.decide(desk.hold, approve(args={"amount": 9999, "to": "Eve"}), by="ann")
        await desk.post(stale)

        assert len((await desk.app.hold(desk.hold.id)).votes) == 1
        ((told, text),) = desk.notes
        assert (told, "changed" in text) == ("U2", True)


async def test_a_card_that_nobody_remembers_is_found_again_by_its_click():
    """The process died between the posting and noting where."""
    async with carded() as desk:
        late = desk.payload("approve")
        await desk.app.store.shelf.drop("default", "slack-card", desk.hold.id)
        await desk.app.decide(desk.hold, approve(), by="ann")
        while await desk.app.store.outbox.next_due() is not None:
            await desk.app.notices.deliver()
        assert buttons(desk.slack.cards[0])
        await desk.post(late)

        assert not buttons(desk.slack.cards[0])


@pytest.mark.parametrize("off_s", [-301, 301])
async def test_what_is_too_old_or_too_new_is_refused(off_s):
    async with carded() as desk:
        body, signature = signed(desk.payload("approve"), desk.now + off_s)
        refused = await desk.client.post(PATH, content=body, headers=signature)

        assert refused.status_code == 401
        assert await desk.decision() is None


async def test_what_slack_has_not_signed_is_refused():
    async with carded() as desk:
        body, good = signed(desk.payload("approve"), desk.now)
        wrong = [
            ({}, body),
            ({**good, "x-slack-signature": ""}, body),
            ({**good, "x-slack-signature": "v0=" + "0" * 64}, body),
            ({**good, "x-slack-signature": "v0=\xe9"}, body),
            ({**good, "x-slack-request-timestamp": "soon"}, body),
            ({**good, "x-slack-request-timestamp": "9" * 5000}, body),
            ({**good, "x-slack-request-timestamp": f"{int(desk.now) + 1}"}, body),
            (good, body + b"&x=1"),
            (good, body.replace(b"U1", b"U2")),
            (headers(body, desk.now, "another"), body),
            (headers(b"\xff", desk.now), b"\xff"),
        ]
        for given, sent in wrong:
            raw = {name: value.encode("latin-1") for name, value in given.items()}
            refused = await desk.client.post(PATH, content=sent, headers=raw)
            assert refused.status_code == 401, given

        assert await desk.decision() is None
        assert desk.slack.of("chat.postEphemeral") == []


@pytest.mark.parametrize(
    "changed",
    [
        {"team": None},
        {"team": {"id": "T2"}},
        {"user": None},
        {"user": {"id": "U1", "team_id": "T2"}},
    ],
)
async def test_what_is_of_another_workspace_is_refused(changed):
    async with carded() as desk:
        refused = await desk.post(desk.payload("approve", **changed))

        assert refused.status_code == 401
        assert await desk.decision() is None


@pytest.mark.parametrize(
    "changed",
    [
        {"type": "shortcut"},
        {"actions": []},
        {"channel": None},
        {"actions": [{"action_id": "other:approve", "value": "x"}]},
        {"actions": [{"action_id": "sayso:open"}]},
        {"type": "view_submission", "view": {"id": "V", "callback_id": "else"}},
    ],
)
async def test_what_no_card_has_a_button_for_does_nothing(changed):
    async with carded() as desk:
        await desk.click("approve", **changed)

        assert await desk.decision() is None


async def test_what_cannot_be_read_is_refused():
    async with carded() as desk:
        good = desk.payload("approve")
        bad = [
            json.dumps([good]),
            json.dumps({**good, "actions": [{"action_id": "sayso:approve", "value": "no json"}]}),
            json.dumps(
                {**good, "actions": [{"action_id": "sayso:approve", "value": '{"hold":1}'}]}
            ),
            json.dumps({**good, "actions": "x"}),
            "[" * 100_000,
            "",
        ]
        from urllib.parse import urlencode

        bodies = [urlencode({"payload": one}).encode() for one in bad]
        for body in [*bodies, b"payload={}&payload={}", b"", b"%", b"x=1"]:
            sent = headers(body, desk.now)
            refused = await desk.client.post(PATH, content=body, headers=sent)
            assert refused.status_code == 400, body[:80]
        large = b"payload=" + b"x" * 600_000
        sent = headers(large, desk.now)
        assert (await desk.client.post(PATH, content=large, headers=sent)).status_code == 413
        assert await desk.decision() is None


@pytest.mark.parametrize("rule", [{"risk": "critical"}, {}])
async def test_what_has_no_button_cannot_be_clicked(rule):
    """A value that some card could have had, with an action that this hold's has not."""
    script = None if rule else call("ask_user", {"question": "Why?"})
    async with carded(script, rule={"approvers": [anyone], **rule}) as desk:
        value = json.dumps({"hold": desk.hold.id, "seen": desk.hold.digest, "pick": 0})
        for action in ("approve", "reject", "pick:0", "else"):
            button = {"action_id": f"sayso:{action}", "value": value, "action_ts": action}
            await desk.post({**desk.payload("open", "U3"), "actions": [button]})

        assert await desk.decision() is None
        assert [text for _, text in desk.notes] == ["This is decided on its page: open it."] * 4
        assert desk.slack.of("views.open") == []


async def test_a_slow_slack_delays_neither_the_answer_nor_the_decision():
    async with carded() as desk:
        sent = desk.payload("approve", "U2"), desk.payload("approve")
        desk.slack.waits.clear()
        answers = [asyncio.ensure_future(desk.post(one)) for one in sent]
        async with asyncio.timeout(5):
            while await desk.decision() is None:
                await asyncio.sleep(0.01)
            await answers[1]
        desk.slack.waits.set()
        await answers[0]

        assert (await desk.decision()).by.id == "ann"


async def test_the_answer_comes_before_the_work():
    """By a real server: the work waits for a Slack that does not answer; the answer is there."""
    import uvicorn

    async with carded() as desk:
        config = uvicorn.Config(create_app(desk.app), port=0, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        desk.slack.waits.clear()
        body, signature = signed(desk.payload("approve", "U2"), desk.now)
        async with httpx2.AsyncClient(trust_env=False) as client:
            url = f"http://127.0.0.1:{port}{PATH}"
            answered = await client.post(url, content=body, headers=signature, timeout=3)
        assert (answered.status_code, desk.notes) == (200, [])
        desk.slack.waits.set()
        server.should_exit = True
        await serving

        assert len(desk.notes) == 1


async def test_the_route_is_there_only_if_clicks_can_be_told_to_be_slacks():
    async with carded(signing_secret=None) as desk:
        body, signature = signed({}, desk.now)
        assert (await desk.client.post(PATH, content=body, headers=signature)).status_code == 404


async def test_two_apps_of_slack_cannot_be_told_apart():
    with fake_slack() as slack:
        both = Channels(channel_to(slack), channel_to(slack, signing_secret=SECRET[::-1]))
        with pytest.raises(BadSetup, match="signing secret"):
            create_app(Sayso("memory:", notify=both))


async def test_a_person_may_be_named_by_the_operator():
    async with carded(people={"U8": "ann"}) as desk:
        await desk.click("approve", "U8")

        assert (await desk.decision()).by.id == "ann"


async def test_a_modal_of_somebody_else_decides_as_who_sends_it():
    async with carded() as desk:
        await desk.click("reject")
        await desk.submit("mine now", user="U2")

        assert await desk.decision() is None
        assert desk.notes[0][0] == "U2"
