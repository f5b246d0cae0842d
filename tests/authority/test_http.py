"""Every cell of the table that has a route, over HTTP.

Method: the stage is the library's, and everybody bears a token of their own; whatever they try is a
request. What must come of it is what the table says, but for what `over_http` says by hand: people
of another project do not find what is here, an agent's credential decides nothing, and grants are
for operators to revoke. Each refusal comes with the status written here, and leaves nothing behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sayso import Principal
from sayso.domain.digest import suspension_digest
from sayso.errors import BadValue
from sayso.server.app import create_app
from sayso.server.caller import AGENT_SCOPES, SCOPES
from sayso.server.token import Tokens
from sayso.store.keyring import VARIABLE, new_key
from tests.engine.kit import Place

from . import table
from .stage import Case, Stage, play, stage

DONE = {
    "approve": 200,
    "reject": 200,
    "answer": 200,
    "fail": 200,
    "edit": 200,
    "undo": 200,
    "resume": 202,
    "reassign": 200,
    "remind": 200,
    "list": 200,
    "say": 202,
    "supersede": 202,
    "command": 200,
    "cancel": 202,
    "start": 202,
    "revoke": 200,
}
"""What each verb is answered with where it is allowed. The others have no route."""
REFUSED = {
    "NotAllowed": 403,
    "UnknownHold": 404,
    "UnknownRun": 404,
    "UnknownGrant": 404,
    "AlreadyDecided": 409,
    "CannotUndo": 409,
    "RunWaiting": 409,
    "RunFinished": 409,
    "HoldExpired": 410,
    "WrongVerdict": 422,
    "BadValue": 422,
}
DECIDING = frozenset(
    {"approve", "reject", "answer", "fail", "edit", "undo", "resume", "reassign", "remind"}
)
COUNT = 14_835


def cells() -> Iterator[table.Cell]:
    """Give every cell that can be tried over HTTP. Nobody bears a credential of the clock's."""
    for cell in table.cells():
        if cell.verb in DONE and cell.who != "clock":
            yield dataclasses.replace(cell, expected=over_http(cell))


def over_http(cell: table.Cell) -> str:
    """Say what must come of it, where that is not what the library says."""
    if cell.who == "foreign" and cell.verb not in ("start", "list"):
        if cell.verb == "revoke":
            return "UnknownGrant"
        return "UnknownHold" if cell.verb in DECIDING else "UnknownRun"
    if cell.who == "agent" and cell.verb in DECIDING:
        return "NotAllowed"
    if cell.verb == "revoke":
        return table.OK if cell.who == "operator" else "NotAllowed"
    return cell.expected


class HttpStage(Stage):
    """The same stage, with a wire between it and whoever acts."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._transport = httpx2.ASGITransport(app=create_app(self.app))
        self._tokens: dict[str, str] = {}

    async def act(self, cell: table.Cell, case: Case) -> str:
        """Send it; say what came of it, by the name of the problem."""
        if cell.verb == "list":
            return await self._listed(cell, case)
        answer = await self._send(cell, *_request(cell, case))
        if answer.is_success:
            wanted, name = DONE[cell.verb], table.OK
        else:
            words = answer.json()["type"].rpartition(":")[2].split("-")
            name = "".join(word.title() for word in words)
            wanted = REFUSED.get(name)
        return name if answer.status_code == wanted else f"{name} with {answer.status_code}"

    async def _listed(self, cell: table.Cell, case: Case) -> str:
        assert case.hold is not None
        more = ""
        while True:
            answer = await self._send(cell, "GET", f"/v1/holds?limit=200{more}", None)
            assert answer.status_code == DONE["list"], answer.text
            if case.hold.id in [one["id"] for one in answer.json()["items"]]:
                return table.OK
            if answer.json()["next"] is None:
                return "absent"
            more = f"&after={answer.json()['next']}"

    async def _send(self, cell: table.Cell, method: str, path: str, body: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {await self._token(cell.who)}"}
        client = httpx2.AsyncClient(transport=self._transport, base_url="http://sayso.test")
        return await client.request(method, path, json=body, headers=headers)

    async def _token(self, who: str) -> str:
        kind, name = table.WHO[who]
        if who not in self._tokens:
            _, self._tokens[who] = await Tokens(self.app.store).create(
                name=who,
                by=Principal(id=name, kind=kind),
                project=table.ELSEWHERE if who == "foreign" else table.PROJECT,
                scopes=AGENT_SCOPES if kind == "agent" else SCOPES,
            )
        return self._tokens[who]


def _request(cell: table.Cell, case: Case) -> tuple[str, str, Any]:
    run = f"/v1/runs/{case.run.id}"
    match cell.verb:
        case "say" | "supersede":
            body = {"text": "Well?", "supersede": cell.verb == "supersede"}
            return "POST", f"{run}/messages", body
        case "command":
            return "POST", f"{run}/commands/note", {"args": {}}
        case "cancel":
            return "DELETE", run, None
        case "start":
            return "POST", "/v1/runs", {"agent": "owner", "input": "go"}
        case "revoke":
            return "DELETE", f"/v1/grants/{case.extra}", None
        case _:
            return _deciding(cell, case)


def _deciding(cell: table.Cell, case: Case) -> tuple[str, str, Any]:
    assert case.hold is not None
    hold = f"/v1/holds/{case.hold.id}"
    decision: dict[str, Any] = {"seen": case.hold.digest, "action": cell.verb}
    match cell.verb:
        case "undo":
            return "POST", f"{hold}/undo", None
        case "reassign":
            return "POST", f"{hold}/reassign", {"to": table.HANDED_TO[cell.relation]}
        case "remind":
            return "POST", f"{hold}/remind", {"in_s": 60}
        case "resume":
            request = case.hold.request_id
            seen = suspension_digest(request_id=request, members=[case.hold.digest])
            said = {"action": "answer", "value": "so"}
            if cell.relation != "outside":
                said = {"action": "approve"}
            return "POST", f"/v1/resume/{request}", {**said, "seen": seen, "mode": "async"}
        case "answer":
            decision["value"] = "so"
        case "edit":
            decision |= {"action": "approve", "args": {"n": 7}}
        case "reject" | "fail":
            decision["reason"] = "no"
        case _:
            pass
    return "POST", f"{hold}/decision", decision


@pytest.mark.parametrize("relation, state", table.places())
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_everybody_may_do_over_http_what_the_table_says_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool, relation: str, state: str
) -> None:
    monkeypatch.setenv(VARIABLE, new_key())
    mine = [one for one in cells() if (one.relation, one.state) == (relation, state)]
    if not whole and relation not in ("role", "outside"):
        # They are one route with `approve`: enough to see them where some of each are legal.
        mine = [one for one in mine if one.verb not in ("reject", "answer", "fail", "edit")]
    wrong: list[str] = []
    async with stage(Place("memory", tmp_path), relation, state, HttpStage) as there:
        for cell in sorted(mine, key=lambda one: one.expected == table.OK):
            wrong += await play(there, cell)
    assert not wrong, f"{len(wrong)} of {len(mine)}:\n" + "\n".join(wrong)


def test_the_table_has_the_cells_over_http_that_it_should_have() -> None:
    found = list(cells())

    assert len(found) == len(set(found)) == COUNT
    # What the library alone does: there is no route for it.
    assert set(table.VERBS) - {one.verb for one in found} == {
        "redact",
        "export",
        "adopt",
        "gate",
        "sign_in_url",
        "oauth_callback",
    }


async def test_nobody_bears_a_credential_of_the_clock(tmp_path: Path) -> None:
    async with stage(Place("memory", tmp_path), "owner", "open", HttpStage) as there:
        with pytest.raises(BadValue, match="clock"):
            await Tokens(there.app.store).create(
                name="x", by=Principal(id="clock", kind="clock"), project=table.PROJECT
            )
