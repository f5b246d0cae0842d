"""Apprise, posting to a real server on this machine."""

from __future__ import annotations

import json

import pytest

from sayso.errors import BadSetup, SaysoError
from sayso.notify.apprise import AppriseChannel

from .test_webhook import app_with, asked, target


@pytest.mark.filterwarnings("ignore")
async def test_people_are_told_where_to_look_and_nothing_of_the_arguments():
    async with target() as there:
        there.answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        channel = AppriseChannel([there.url.replace("http://", "json://")], link="https://x.test/")
        async with app_with(channel.send) as app:
            hold = await asked(app)
            await app.notices.deliver()

        told = json.loads(there.got[0][1])
        assert told["title"] == "Sayso: pay"
        assert f"https://x.test/r/{hold.id}" in told["message"]
        assert "987654" not in there.got[0][1].decode()


@pytest.mark.filterwarnings("ignore")
async def test_whoever_cannot_be_told_is_an_error_without_the_address():
    channel = AppriseChannel(["json://127.0.0.1:9/s3cr3t"], link="https://x.test/")
    async with app_with(None) as app:
        hold = await asked(app)
    from sayso import Notice

    with pytest.raises(SaysoError) as caught:
        await channel.send(Notice(id="n", kind="asked", hold=hold, to=()))
    assert "s3cr3t" not in str(caught.value)


def test_an_address_that_is_none_is_refused_without_printing_it():
    for urls in (["s3cr3t"], []):
        with pytest.raises(BadSetup) as caught:
            AppriseChannel(urls, link="https://x.test/")
        assert "s3cr3t" not in str(caught.value)
