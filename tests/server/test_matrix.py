"""The authority matrix over HTTP: everybody on every route, as `matrix.txt` says.

Method: each cell is one request (or one socket) about something new of mira's. A refusal must have
left no entry in any journal. A route that is not in the table fails the build.
"""

from __future__ import annotations

import pytest

from sayso.server.app import create_app

from .conftest import service
from .matrix import WHO, Scene, read_matrix, scene
from .test_routes import TABLE

MATRIX = read_matrix()
REFUSALS = ("401", "403", "404", "shut", "error", "none", "-", "204")
SOCKETS = {"WS /v1/chat": "read", "WS /v1/chat?send": "start", "WS /v1/chat?answer": "decide"}
SCOPES_OF = {f"{method} {path}": scope for (method, path), (scope, _) in TABLE.items()}
SCOPES_OF |= {"GET /v1/holds?mine=false": "read", "POST /v1/chat?answer": "decide"}
SCOPES_OF |= {"GET /v1/holds/events?after=0": "read"}
SCOPES_OF |= {**SOCKETS, "WS /v1/chat?resume": "read"}


def _allowed(row: dict[str, str]) -> str:
    """Name somebody who may; a token of theirs without the scope must not do."""
    return next(who for who in WHO if row[who] not in REFUSALS)


@pytest.mark.parametrize("route", MATRIX)
async def test_everybody_is_answered_as_the_table_says(route: str) -> None:
    row, wrong = MATRIX[route], []
    async with scene() as it:
        case = await it.case(route)
        # Those first who are refused: what they leave as it was serves for the next.
        for who in sorted(row, key=lambda one: row[one] not in REFUSALS):
            await it.news()

            found = await _ask(it, who, route, case)

            news = await it.news()
            if found != row[who]:
                wrong.append(f"{who}: {found}, not {row[who]}")
            if row[who] in REFUSALS and news:
                wrong.append(f"{who}: a refusal that left {news} entries")
            if route.startswith("GET") and news:
                wrong.append(f"{who}: looking left {news} entries")
            if row[who] not in REFUSALS:
                case = await it.case(route)
    assert not wrong, "\n".join([route, *wrong])


async def _ask(it: Scene, who: str, route: str, case: dict[str, object]) -> str:
    if who != "poor":
        return await it.ask(who, route, case)
    return await it.ask(_allowed(MATRIX[route]), route, case, SCOPES_OF.get(route) or "")


async def test_every_route_is_in_the_matrix() -> None:
    async with service() as it:
        app = create_app(it.sayso)
        known = {
            f"{method} {route.path}"
            for route in _flat(app.routes)
            for method in sorted(getattr(route, "methods", None) or {"WS"})
            if method != "HEAD"
        }

    assert {route.partition("?")[0] for route in MATRIX} == known


def _flat(routes):
    """Give every route, also of routers that are kept as one."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        yield from _flat(inner.routes) if inner is not None else [route]


def test_nobody_but_those_it_asks_decides() -> None:
    deciding = ["POST /v1/holds/{hold_id}/decision", "POST /v1/decisions"]
    for route in [*deciding, "POST /v1/resume/{request_id}"]:
        may = {who for who, found in MATRIX[route].items() if found.startswith("2")}
        assert may == {"approver", "delegate"}, route
