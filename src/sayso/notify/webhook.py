"""Webhooks, signed as Standard Webhooks has it: whoever receives one can tell that it is ours.

A webhook says that somebody is asked, and where to look. It has no arguments in it, and no answer
to it decides anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks.webhooks import Webhook as Signer

from sayso.engine.courier import Notice
from sayso.engine.parcel import KINDS, TOLD, Kind
from sayso.errors import BadSetup, SaysoError
from sayso.notify.outward import Outward, check_url

_OK = range(200, 300)


class Webhook:
    """Posts notices to an address.

    With two secrets, what is sent is signed with both: give receivers the new one, then drop the
    old. Addresses inside are refused, unless `allow` names them; so is http, unless `plain`. With
    `settled` it also says when somebody has voted, and what became of what was asked.
    """

    def __init__(
        self,
        url: str,
        *,
        secrets: Sequence[str],
        link: str | None = None,
        allow: Iterable[str] = (),
        plain: bool = False,
        settled: bool = False,
    ) -> None:
        self._url = check_url(url, plain=plain)
        self.tells: frozenset[Kind] = frozenset(KINDS) if settled else TOLD
        if isinstance(secrets, str) or not secrets:
            raise BadSetup("secrets is a list of one or more: secrets=['whsec_...']")
        try:
            self._signers = [Signer(one) for one in secrets]
        except (ValueError, RuntimeError):
            # Not in words of the library's: they might be the secret's.
            raise BadSetup("a webhook's secret is base64, as in whsec_...") from None
        self._link = link
        self._outward = Outward(allow=allow)

    @property
    def name(self) -> str:
        """Where it goes; not the whole address, which may be a secret."""
        return f"webhook to {urlsplit(self._url).hostname}"

    async def send(self, notice: Notice) -> None:
        """Post it; anything but a 2xx is a failure."""
        now = datetime.now(UTC)
        body = json.dumps(payload(notice, link=self._link), separators=(",", ":"))
        signed = [one.sign(notice.id, now, body) for one in self._signers]
        headers = {
            "content-type": "application/json",
            "user-agent": "sayso",
            "webhook-id": notice.id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signed),
        }
        status = await self._outward.post(self._url, body.encode(), headers)
        if status not in _OK:
            raise SaysoError(f"it was answered with {status}")

    async def aclose(self) -> None:
        """Let its connections go."""
        await self._outward.aclose()


def payload(notice: Notice, *, link: str | None = None) -> dict[str, Any]:
    """Give what is told of a notice: who is asked, about what, by when. No arguments."""
    hold = notice.hold
    return {
        "type": f"hold.{notice.kind}",
        "timestamp": hold.opened_at.isoformat(),
        "data": {
            "hold_id": hold.id,
            "run_id": hold.run_id,
            "request_id": hold.request_id,
            "project": hold.project,
            "agent": hold.agent,
            "kind": hold.kind,
            "tool": hold.tool,
            "title": hold.title,
            "risk": hold.risk,
            "version": hold.version,
            "deadline": None if hold.deadline is None else hold.deadline.isoformat(),
            "to": list(notice.to),
            "times": notice.times,
            "status": hold.status,
            "verdict": None if hold.decision is None else hold.decision.word,
            "url": None if link is None else f"{link.rstrip('/')}/v1/holds/{hold.id}",
        },
    }
