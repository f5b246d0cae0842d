"""Webhooks to a real server on this machine, and to where none may go."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from standardwebhooks.webhooks import Webhook as Receiver
from standardwebhooks.webhooks import WebhookVerificationError

from sayso import Agent, Notice, Sayso, approve, tool
from sayso.errors import AddressRefused, BadSetup
from sayso.notify.channel import Channels
from sayso.notify.outward import Outward
from sayso.notify.webhook import Webhook
from sayso.testing import FakeClock, ScriptedModel, call, say

OLD, NEW = "whsec_" + "A" * 32, "whsec_" + "B" * 32
NEAR = ["127.0.0.1"]


class Target:
    """An HTTP server that keeps what it is sent, and answers as it is told."""

    def __init__(self):
        self.got = []
        self.answer = b"HTTP/1.1 204 No Content\r\n\r\n"
        self.slow = asyncio.Event()
        self.slow.set()

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")[1:-2]
                headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                self.got.append((headers, body))
                await self.slow.wait()
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def target():
    found = Target()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?token=s3cr3t"
    try:
        yield found
    finally:
        found.slow.set()
        server.close()


@tool(approval=True, effect="once")
def pay(amount: int) -> str:
    return f"paid {amount}"


def app_with(notify, **options):
    model = ScriptedModel([call("pay", {"amount": 987654}), say("Done.")])
    teller = Agent("teller", model=model, tools=[pay])
    return Sayso("memory:", agents=[teller], notify=notify, **options)


async def asked(app):
    return (await (await app.start("teller", "go", by="mira")).wait(timeout=20)).holds[0]


async def test_a_webhook_is_signed_and_has_no_arguments_in_it():
    async with target() as there:
        hook = Webhook(there.url, secrets=[NEW, OLD], link="https://x.test", allow=NEAR, plain=True)
        async with app_with(hook.send) as app:
            hold = await asked(app)
            await app.notices.deliver()
        await hook.aclose()

        ((headers, body),) = there.got
        for secret in (OLD, NEW):
            said = Receiver(secret).verify(body, headers)
        assert (said["type"], said["data"]["hold_id"]) == ("hold.asked", hold.id)
        assert said["data"]["url"] == f"https://x.test/v1/holds/{hold.id}"
        assert b"987654" not in body
        with pytest.raises(WebhookVerificationError):
            Receiver("whsec_" + "C" * 32).verify(body, headers)
        with pytest.raises(WebhookVerificationError):
            Receiver(NEW).verify(body.replace(b"teller", b"tellar"), headers)


async def test_what_is_not_taken_comes_again_with_the_same_id():
    clock = FakeClock()
    async with target() as there:
        hook = Webhook(there.url, secrets=[NEW], allow=NEAR, plain=True)
        there.answer = b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n"
        async with app_with(hook.send, clock=clock) as app:
            await asked(app)
            while not there.got:
                await app.notices.deliver()
            there.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
            clock.advance(3_600_000)
            while len(there.got) < 2:
                await app.notices.deliver()
            clock.advance(3_600_000)
            await app.notices.deliver()
        await hook.aclose()

        assert len(there.got) == 2
        assert len({headers["webhook-id"] for headers, _ in there.got}) == 1


async def test_a_redirect_is_not_followed():
    async with target() as there, target() as inside:
        to = f"location: {inside.url}\r\ncontent-length: 0"
        there.answer = f"HTTP/1.1 307 X\r\n{to}\r\n\r\n".encode()
        out = Outward(allow=NEAR)

        assert await out.post(there.url, b"{}", {}) == 307
        await out.aclose()

        assert inside.got == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0.0.0.0",
        "0x7f.1",
        "2130706433",
        "169.254.169.254",
        "10.0.0.1",
        "192.168.1.1",
        "[fe80::1]",
        "[fc00::1]",
        "[2002:7f00:1::]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::1]",
        "[::7f00:1]",
        "[fec0::1]",
        "[ff02::1]",
        "224.0.0.1",
    ],
)
async def test_nothing_inside_is_reached(host):
    async with target() as there:
        out = Outward(timeout_s=5)
        url = there.url.replace("127.0.0.1", host)

        with pytest.raises(AddressRefused):
            await out.post(url, b"{}", {})
        await out.aclose()

        assert there.got == []


async def test_a_name_that_changes_its_meaning_changes_nothing(monkeypatch):
    """The first answer of the resolver is of the outside, every later one of this machine."""
    loop = asyncio.get_running_loop()
    asked_for = []

    async def resolve(host, port, **_):
        asked_for.append(host)
        address = "192.0.2.1" if len(asked_for) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    async with target() as there:
        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        out = Outward(timeout_s=0.5, allow=["192.0.2.1"])
        with pytest.raises(Exception):  # noqa: B017, PT011 - nobody is at the first address.
            await out.post(there.url.replace("127.0.0.1", "rebind.test"), b"{}", {})
        await out.aclose()

        assert asked_for == ["rebind.test"]
        assert there.got == []


async def test_a_mixed_answer_of_the_resolver_is_refused(monkeypatch):
    loop = asyncio.get_running_loop()

    async def resolve(host, port, **_):
        both = ("93.184.216.34", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in both]

    monkeypatch.setattr(loop, "getaddrinfo", resolve)
    out = Outward(timeout_s=5)
    with pytest.raises(AddressRefused):
        await out.post("http://mixed.test/", b"{}", {})
    await out.aclose()


async def test_a_target_that_never_answers_delays_no_decision():
    async with target() as there:
        there.slow.clear()
        hook = Webhook(there.url, secrets=[NEW], allow=NEAR, plain=True)
        async with app_with(hook.send) as app:
            hold = await asked(app)
            while not there.got:
                await asyncio.sleep(0.005)

            await asyncio.wait_for(app.decide(hold, approve(), by="mira"), 5)
            view = await app.run(hold.run_id).wait(final=True, timeout=20)

            assert view.status == "completed"
            there.slow.set()
        await hook.aclose()


async def test_one_channel_that_fails_keeps_no_other_from_telling():
    told = {"good": [], "bad": []}

    class Way:
        def __init__(self, name):
            self.name = name

        async def send(self, notice):
            told[self.name].append(notice.id)
            if self.name == "bad" and len(told["bad"]) < 3:
                raise ConnectionError("not now")

    async with app_with(None) as app:
        hold = await asked(app)
    both = Channels(Way("bad"), Way("good"))
    notice = Notice(id="n1", kind="asked", hold=hold, to=("user:mira",))
    for _ in range(2):
        with pytest.raises(Exception, match="bad: ConnectionError: not now"):
            await both(notice)
    await both(notice)

    assert (len(told["good"]), len(told["bad"])) == (1, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "http://x.test/"},
        {"url": "file:///etc/passwd"},
        {"url": "https://"},
        {"url": "https://u:p@x.test/"},
        {"url": "https://x.test:99999/"},
        {"secrets": []},
        {"secrets": "whsec_x"},
        {"secrets": ["not base64!"]},
    ],
)
def test_what_cannot_be_a_webhook_is_refused_at_once(wrong):
    with pytest.raises(BadSetup) as caught:
        Webhook(**{"url": "https://x.test/", "secrets": [NEW], **wrong})
    assert "not base64!" not in str(caught.value)
