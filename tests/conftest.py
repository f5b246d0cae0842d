"""Run `async def` tests, each in an event loop of its own, without a plugin."""

import asyncio
import importlib
import inspect
import signal
from typing import Any

import pytest
from hypothesis import settings

from tests.postgres import older_postgres, postgres, postgres_home

__all__ = ["older_postgres", "postgres", "postgres_home"]

# A busy machine is no fault of ours: no example is timed.
settings.register_profile("sayso", deadline=None)
settings.load_profile("sayso")

# Whatever runs in the background of a shell ignores interrupts, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def provider(request: pytest.FixtureRequest) -> Any:
    """A real provider on this machine: Canaille, through pytest-iam. One for all tests: what it
    keeps is the process's, and a second one would take it away from the first.

    Its plugin is switched off for everybody else, because it takes a second to load.
    """
    request.config.pluginmanager.register(importlib.import_module("pytest_iam"), "provider")
    return request.getfixturevalue("iam_server")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test to its end; leave every other test to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    wanted = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in wanted}))
    return True
