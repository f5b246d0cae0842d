"""Completion: the ids of open requests, with their titles."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

PATIENCE_S = 1.0
"""Whoever presses a key waits no longer for a server."""
ITEMS_MAX = 50


class HoldName(click.ParamType[str]):
    """The id of a request."""

    name = "hold"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """List what asks whoever presses the key. If that is not to be had, nothing is said: it
        would be in the middle of their command line.
        """
        del param
        with suppress(Exception):
            return asyncio.run(_items(ctx, incomplete))
        return []


HOLD = HoldName()


async def _items(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    from sayso.cli.desk import desk_of
    from sayso.domain.glyph import brief

    async with asyncio.timeout(PATIENCE_S * 2), desk_of(ctx, PATIENCE_S) as desk:
        page = await desk.page(limit=ITEMS_MAX)
        return [
            CompletionItem(hold.id, help=f"{hold.risk} {brief(hold.title, 60)}")
            for hold in page
            if hold.id.startswith(incomplete)
        ]
