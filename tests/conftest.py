"""Run `async def` tests, each in an event loop of its own, without a plugin."""

import asyncio
import inspect

import pytest
from hypothesis import settings

from tests.postgres import postgres, postgres_home

__all__ = ["postgres", "postgres_home"]

# A busy machine is no fault of ours: no example is timed.
settings.register_profile("sayso", deadline=None)
settings.load_profile("sayso")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test to its end; leave every other test to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
