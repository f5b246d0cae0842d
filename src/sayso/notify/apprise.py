"""Mail, chat and the rest, through Apprise: that somebody is asked, and where to look.

The link is of a page, which shows the request to whoever is signed in. It is no authority, and
following it changes nothing: mail is read by scanners, and previews fetch what they find.

The addresses of Apprise reach any host and carry secrets: they are an operator's to give, and are
never printed.
"""

from __future__ import annotations

from collections.abc import Iterable

import apprise

from sayso.domain.glyph import inline
from sayso.engine.courier import Notice
from sayso.errors import BadSetup, SaysoError


class AppriseChannel:
    """Tells notices by Apprise: `AppriseChannel(["mailto://..."], link="https://...")`."""

    def __init__(self, urls: Iterable[str], *, link: str) -> None:
        self._link = link.rstrip("/")
        self._apprise = apprise.Apprise()
        for n, url in enumerate(urls, 1):
            if not self._apprise.add(url):  # pyright: ignore[reportUnknownMemberType]
                raise BadSetup(f"address {n} is none that Apprise knows")
        if not len(self._apprise):
            raise BadSetup("give at least one address")

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return "apprise"

    async def send(self, notice: Notice) -> None:
        """Tell it."""
        hold = notice.hold
        until = "" if hold.deadline is None else f"\nUntil {hold.deadline:%Y-%m-%d %H:%M} UTC"
        body = f"{inline(hold.agent)} asks: {inline(hold.title)} (risk: {hold.risk}){until}"
        told = await self._apprise.async_notify(
            title=f"Sayso: {inline(hold.title)}",
            body=f"{body}\n{self._link}/r/{hold.id}",
        )
        if not told:
            raise SaysoError("not everybody could be told")
