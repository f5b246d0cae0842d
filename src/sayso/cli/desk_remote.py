"""The desk of a server: over HTTP, with a token.

Rule 1: a request is sent again only if it was certainly not received, or if the server knows it
again: by the idempotency key that stays the same.
Rule 2: the token goes to the server that was named, over TLS or to this machine, and nowhere else.
Rule 3: what is not understood is an error: nothing is decided on half of a request.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

import click

from sayso import errors
from sayso.cli.hearing import Hearing
from sayso.cli.wire_in import read_grant, read_hold, read_said
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.hold import Answered, Approved, Errored, Rejected, Verdict
from sayso.domain.ruling import duration_ms
from sayso.store.views import HoldView, Page

if TYPE_CHECKING:
    from httpx2 import AsyncClient, Response

    from sayso.cli.desk import Desk
    from sayso.domain.grant import Grant
    from sayso.engine.grants import Always

PATIENCE_S = 30.0
CONNECT_S = 10.0
TRIES_MAX = 4
FIRST_WAIT_S = 0.2
BODY_MAX = 64_000_000
_NEAR = ("127.0.0.1", "::1", "localhost")
_AGAIN = frozenset({502, 503, 504})
_OK, _CREATED = 200, 299
_BY_STATUS: dict[int, type[errors.SaysoError]] = {
    401: errors.Unauthenticated,
    403: errors.NotAllowed,
    404: errors.Unknown,
    422: errors.BadValue,
}


@asynccontextmanager
async def open_remote(
    url: str, token: str | None, *, plain_http: bool = False, patience_s: float | None = None
) -> AsyncGenerator[Desk]:
    """Speak to a server. Nothing is sent before something is asked."""
    try:
        import httpx2
    except ModuleNotFoundError as error:
        raise errors.BadSetup(f"{error.name} is missing: pip install 'sayso[server]'") from None
    base = _check_url(url, plain_http=plain_http)
    near = urlsplit(base).hostname in _NEAR
    patience = patience_s or PATIENCE_S
    async with httpx2.AsyncClient(
        base_url=base,
        headers={"authorization": f"Bearer {token}", "accept": "application/json"},
        timeout=httpx2.Timeout(patience, connect=min(patience, CONNECT_S)),
        follow_redirects=False,
        trust_env=not near,
    ) as client:
        desk = RemoteDesk(client, base, tries=1 if patience_s else TRIES_MAX)
        try:
            yield desk
        finally:
            await desk.hearing.close()


def _check_url(url: str, *, plain_http: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError("a server is named by its address: --url https://pay.example.com")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise click.UsageError("the address of a server has no password and no query in it")
    if parts.scheme == "http" and parts.hostname not in _NEAR and not plain_http:
        raise click.UsageError(
            "http:// would show your token to whoever is on the way: use https://, or say "
            "--plain-http"
        )
    return url.rstrip("/")


class RemoteDesk:
    """Decides at a server."""

    def __init__(self, client: AsyncClient, base: str, *, tries: int = TRIES_MAX) -> None:
        self._client = client
        self._tries = tries
        self.name = self.web = base
        self.hearing = Hearing(client, base, _problem)

    async def who(self) -> str:
        found = await self._ask("GET", "/v1/me")
        return str(found["by"]["id"])

    async def page(
        self,
        *,
        search: str | None = None,
        status: str = "open",
        everyone: bool = False,
        after: str | None = None,
        limit: int = 50,
    ) -> Page:
        query: dict[str, Any] = {"status": status, "limit": limit}
        query |= {"mine": "false"} if everyone else {}
        query |= {"search": search} if search else {}
        query |= {"after": after} if after else {}
        found = await self._ask("GET", "/v1/holds", params=query)
        items = tuple([read_hold(one) for one in found["items"]])
        return Page(items=items, next=found["next"])

    async def hold(self, hold: str) -> HoldView:
        return read_hold(await self._ask("GET", _path("holds", hold)))

    async def decide(
        self,
        hold: HoldView,
        verdict: Verdict,
        *,
        note: str = "",
        undo_s: float | None = None,
        always: Always | None = None,
        even_if_alive: bool = False,
    ) -> HoldView:
        body: dict[str, Any] = {**_verdict(verdict), "seen": hold.digest}
        body |= {"note": note} if note else {}
        body |= {"undo": undo_s} if undo_s else {}
        body |= {"even_if_alive": True} if even_if_alive else {}
        body |= {"always": _always(always)} if always is not None else {}
        path = f"{_path('holds', hold.id)}/decision"
        return read_hold(await self._ask("POST", path, body, key=str(uuid.uuid4())))

    async def undo(self, hold: str) -> HoldView:
        return read_hold(await self._ask("POST", f"{_path('holds', hold)}/undo"))

    async def reassign(self, hold: str, *, to: str, note: str = "") -> HoldView:
        body = {"to": to, "note": note}
        return read_hold(await self._ask("POST", f"{_path('holds', hold)}/reassign", body))

    async def remind(self, hold: str, in_s: float) -> datetime:
        found = await self._ask("POST", f"{_path('holds', hold)}/remind", {"in_s": in_s})
        return datetime.fromisoformat(found["at"])

    async def sign_in_url(self, hold: str) -> str:
        return _web(str((await self._ask("POST", f"{_path('holds', hold)}/sign-in"))["url"]))

    async def events(self, run: str) -> list[dict[str, Any]]:
        import httpx2

        found: list[dict[str, Any]] = []
        path = _path("runs", run)
        stands = (await self._ask("GET", path, params={"as": "run"}))["seq"]
        try:
            async with self._client.stream("GET", f"{path}/events?follow=true") as answer:
                if answer.status_code != _OK:
                    await answer.aread()
                    raise _problem(answer)
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        event: Any = decode_value(line.removeprefix("data: ").encode())
                        found += [event] if "seq" in event else []
                    if found and found[-1]["seq"] >= stands:
                        break
        except httpx2.TransportError as error:
            raise _away(self.name, error) from None
        return found

    async def grants(self) -> Sequence[Grant]:
        return [read_grant(one) for one in (await self._ask("GET", "/v1/grants"))["items"]]

    async def revoke(self, grant: str) -> Grant:
        return read_grant(await self._ask("DELETE", _path("grants", grant)))

    async def changed(self, within_s: float) -> frozenset[str]:
        return await self.hearing.wait(within_s)

    async def _ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        params: dict[str, Any] | None = None,
        key: str | None = None,
    ) -> Any:
        """Ask the server; again, while it does not answer and it is safe to."""
        import httpx2

        headers = {} if key is None else {"idempotency-key": key}
        content = None if body is None else encode_value(body)
        if body is not None:
            headers["content-type"] = "application/json"
        safe = method == "GET" or key is not None
        for left in reversed(range(self._tries)):
            try:
                answer = await self._client.request(
                    method, path, content=content, params=params, headers=headers
                )
            except httpx2.ConnectError as error:  # Nothing has been sent.
                problem = _away(self.name, error)
            except httpx2.TransportError as error:
                problem = _away(self.name, error, method)
                if not safe:
                    raise problem from None
            else:
                if answer.status_code not in _AGAIN or not safe:
                    return _read(answer)
                problem = _problem(answer)
            if not left:
                raise problem
            await asyncio.sleep(FIRST_WAIT_S * 2 ** (self._tries - 1 - left))
        raise AssertionError("it is tried at least once")


def _away(name: str, error: Exception, method: str = "GET") -> errors.Unreachable:
    unknown = "" if method == "GET" else "; whether it was done, `sayso show` tells"
    why = str(error) or type(error).__name__
    return errors.Unreachable(f"{name} does not answer: {why}{unknown}")


def _read(answer: Response) -> Any:
    if not _OK <= answer.status_code <= _CREATED:
        raise _problem(answer)
    try:
        return decode_value(answer.content, bytes_max=BODY_MAX)
    except errors.BadValue:
        raise errors.Unreachable(f"{answer.url.host} answers in no language of ours") from None


def _problem(answer: Response) -> errors.SaysoError:
    """Make the error that the server would have raised."""
    status = answer.status_code
    try:
        said: Any = json.loads(answer.content)
        kind = _class(str(said["type"]))
        text = str(said["detail"])
    except (ValueError, KeyError, TypeError):
        return errors.Unreachable(f"{answer.url.host} answers with {status}, and not as we do")
    data: dict[str, Any] = {}
    if said.get("decision") is not None:
        data["decision"] = read_said(said["decision"])
    elif kind is not None and issubclass(kind, errors.AlreadyDecided):
        kind = errors.Refused
    return (kind or _BY_STATUS.get(status, errors.Refused))(text, **data)


def _class(urn: str) -> type[errors.SaysoError] | None:
    name = re.sub(r"(?:^|-)([a-z])", lambda found: found[1].upper(), urn.rpartition(":")[2])
    found: Any = getattr(errors, name, None)
    is_ours = isinstance(found, type) and issubclass(found, errors.SaysoError)
    return cast("type[errors.SaysoError]", found) if is_ours else None


def _web(url: str) -> str:
    """Give an address that can be printed, and opened in a browser, whoever has sent it."""
    if not url.startswith(("https://", "http://")) or not (url.isascii() and url.isprintable()):
        raise errors.Unreachable("the server sent an address that is none of a web page")
    return url


def _path(what: str, name: str) -> str:
    return f"/v1/{what}/{quote(name, safe='')}"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    match verdict:
        case Approved(args=args):
            edited = {} if args is None else {"args": decode_value(bytes(args))}
            return {"action": "approve", **edited}
        case Rejected(reason=reason):
            return {"action": "reject", "reason": reason}
        case Answered(value=value):
            return {"action": "answer", "value": decode_value(bytes(value))}
        case Errored(message=message):
            return {"action": "fail", "reason": message}
        case _:
            raise AssertionError(f"nobody says {verdict!r}")


def _always(always: Always) -> dict[str, Any]:
    assert not isinstance(always.until, datetime), "the command line takes durations"
    return {
        "args": always.args,
        "scope": always.scope,
        "until_s": duration_ms(always.until) / 1000,
        **({} if always.uses is None else {"uses": always.uses}),
        "note": always.note,
    }
