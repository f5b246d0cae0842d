"""Offering a record again to a store that does not take it yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from sayso.engine.ledger import Verb, Written
from sayso.engine.parts import Parts
from sayso.errors import StoreClosed, StoreError

log = logging.getLogger("sayso")


async def insist(
    parts: Parts,
    run_id: str,
    verb: Verb,
    first: Awaitable[Written],
    *,
    owned_by: str | None = None,
) -> Written:
    """Wait for a record, and offer it again to a store that is only busy or full: the effect has
    happened, and must not become doubtful for want of a moment.
    """
    deadline = parts.store.tick() + parts.bounds.result_patience_s * 1000
    posted = first
    while True:
        try:
            return await posted
        except StoreClosed:
            raise
        except StoreError as error:
            if parts.store.tick() > deadline:
                raise
            log.warning("%s: a result waits: %s", run_id, error, extra={"run_id": run_id})
            await asyncio.sleep(parts.bounds.backoff_s)
        posted = parts.ledger.post(run_id, verb, owned_by=owned_by, quiet=True)
