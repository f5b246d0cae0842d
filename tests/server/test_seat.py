"""Seats: how many are told something at a time, over all and each."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import ClientDisconnect

from sayso import Principal
from sayso.server.caller import Caller
from sayso.server.problem import Refusal
from sayso.server.seat import Seats
from tests.engine.kit import until

from .conftest import service


def caller(name: str, project: str = "default") -> Caller:
    return Caller(by=Principal(id=name), project=project)


def test_there_are_so_many_over_all_and_so_many_of_each() -> None:
    seats = Seats(3, each=2)
    first = [seats.take(caller("ann")) for _ in range(2)]
    with pytest.raises(Refusal):
        seats.take(caller("ann"))
    seats.take(caller("ann", "other"))
    with pytest.raises(Refusal):
        seats.take(caller("bob"))

    for _ in range(2):
        first[0].leave()

    assert seats.open == 2
    with seats.take(caller("ann")):
        assert seats.open == 3
    assert seats.open == 2


async def test_those_who_come_at_once_do_not_get_more_than_there_are() -> None:
    async with service() as it:
        client = await it.client()
        begun = await client.post(
            "/v1/runs", json={"agent": "teller", "input": "pay 1", "mode": "wait"}
        )
        it.app.state.streams = seats = Seats(3)
        path = f"/v1/runs/{begun.json()['run_id']}/events?follow=true"

        readers = [asyncio.ensure_future(client.get(path)) for _ in range(10)]
        await until(lambda: sum(one.done() for one in readers) == 7)
        assert [one.result().status_code for one in readers if one.done()] == [503] * 7
        assert seats.open == 3
        for one in readers:
            one.cancel()
        await asyncio.gather(*readers, return_exceptions=True)

        assert seats.open == 0


@pytest.mark.parametrize(
    "method, path, body, status",
    [
        ("GET", "/v1/runs/run_01m7hq607ahdnnwh0m9399fc1x/events", None, 404),
        ("POST", "/v1/runs", {"agent": "nobody", "input": "x", "mode": "stream"}, 404),
        ("POST", "/v1/runs", {"agent": "teller", "input": "x", "mode": "stream"}, 200),
        ("GET", "/v1/chat/c/stream", None, 204),
        ("POST", "/v1/chat", {"id": "c", "messages": []}, 404),
    ],
)
async def test_a_seat_is_left_however_it_ends(method, path, body, status) -> None:
    async with service() as it:
        client = await it.client()

        answer = await client.request(method, path, json=body)

        assert answer.status_code == status
        assert it.app.state.streams.open == 0


async def test_whoever_is_gone_before_the_first_frame_has_left() -> None:
    async def frames():
        yield b"x"

    async def gone(_):
        raise OSError

    async def waits():
        return await asyncio.Event().wait()

    seats = Seats(1)
    with seats.take(caller("ann")) as seat:
        answer = seat.answer(frames())
    assert seats.open == 1

    with pytest.raises(ClientDisconnect):
        await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, waits, gone)

    assert seats.open == 0
