"""Asking a model again: not sooner than its provider says, and not later than we are willing to."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sayso import Bounds
from sayso.errors import ModelFailed
from sayso.testing import say

from .kit import Place, agent, completed


@pytest.mark.parametrize(
    "backoff_s, retry_after_ms, least_s",
    [(0.0, 80, 0.08), (0.08, 1, 0.08), (0.08, None, 0.08), (0.0, 3_600_000, 0.1)],
    ids=["as it says", "backoff is longer", "it says nothing", "at most so long"],
)
async def test_a_model_is_left_alone_for_as_long_as_its_provider_asks(
    place: Place, backoff_s: float, retry_after_ms: int | None, least_s: float
) -> None:
    asked: list[float] = []

    def script(messages: Any) -> Any:
        asked.append(time.monotonic())
        if len(asked) == 1:
            raise ModelFailed("busy", retryable=True, retry_after_ms=retry_after_ms)
        return say("x")

    bounds = Bounds(look_s=0.02, backoff_s=backoff_s, backoff_max_s=0.1)
    async with place.app(agent(script), bounds=bounds) as app:
        await completed(await app.start("teller", "x", by="mira"))

    assert asked[1] - asked[0] >= least_s - 0.005, "it was asked too soon"
