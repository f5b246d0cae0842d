"""What a `Sayso` is given, read: its store, its keys, its agents, its tools and its providers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal
from weakref import WeakKeyDictionary

from sayso.agents.agent import Agent
from sayso.agents.single import NAME as SINGLE
from sayso.agents.tools import FunctionTool, check_tool
from sayso.engine.ports import Driver, Tool
from sayso.errors import BadAgent, BadKeys, BadProvider, BadSetup, BadTool, NotOurStore
from sayso.store.base import Store
from sayso.store.clock import Clock

if TYPE_CHECKING:
    from pathlib import Path

    from sayso.agents.oauth_provider import OAuthProvider
    from sayso.agents.signed_in import SignedIn
    from sayso.engine.signing import DeskKey, Trust
    from sayso.engine.telemetry import Telemetry
    from sayso.engine.vault import Vault
    from sayso.store.keyring import KeyRing
    from sayso.store.transfer import Transfer

_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_MEANT = r"(?i)password\s*=|^postgres(ql)?:"
"""No path: a file would be made of that name, and a password be read in every message about it."""
_OF_MEMORY: WeakKeyDictionary[Store, KeyRing] = WeakKeyDictionary()


def load_keys(store: Store, *, make: bool = True) -> KeyRing:
    """Give the key ring that belongs to a store; one in memory has one for as long as it lives. It
    is made if there is none, unless `make` is False.
    """
    from sayso.store.keyring import KEY_BYTES, VARIABLE, KeyRing

    if store.name != "memory:" or os.environ.get(VARIABLE):
        return KeyRing.load(_beside(store), make=make)
    ring = _OF_MEMORY.get(store)
    if ring is None:
        ring = _OF_MEMORY[store] = KeyRing({"memory": os.urandom(KEY_BYTES)})
    return ring


def look_for_ring(store: Store) -> KeyRing | None:
    """Give the key ring that belongs to a store, and make none; None if it cannot be used."""
    from sayso.store.keyring import VARIABLE, KeyRing

    if store.name == "memory:" and not os.environ.get(VARIABLE):
        return _OF_MEMORY.get(store)
    try:
        return KeyRing.look(_beside(store))
    except BadKeys:
        return None  # What is wrong with it is a finding of the store's own checkup.


def _beside(store: Store) -> str | None:
    """Give the path beside which a store's keys are; None if machines share it, and no file can."""
    return None if "://" in store.name else store.name


def read_telemetry(telemetry: Telemetry | Literal[False, True]) -> Telemetry | None:
    """Read who is told what goes on; `True` is OpenTelemetry, set up by the program itself."""
    if telemetry is False:
        return None
    if telemetry is not True:
        if not hasattr(telemetry, "span"):
            raise BadSetup(f"telemetry is True, or OpenTelemetry(...), not {telemetry!r}")
        return telemetry
    try:
        from sayso.engine.otel import OpenTelemetry
    except ImportError as error:
        raise BadSetup(
            f"telemetry takes another package ({error}): pip install 'sayso[telemetry]'"
        ) from None
    return OpenTelemetry()


def read_desk_key(key: DeskKey | None) -> DeskKey | None:
    """Read what signs decisions."""
    if key is None:
        return None
    from sayso.engine.signing import DeskKey

    if not isinstance(key, DeskKey):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadKeys("sign_with is the key of a desk: DeskKey.load('desk.key')")
    return key


def read_trust(keys: Iterable[str] | None) -> Trust | None:
    """Read whose signatures count; without keys, no decision needs one."""
    if keys is None:
        return None
    from sayso.engine.signing import Trust

    return Trust(keys)


def is_shared(where: str) -> bool:
    """Tell whether what is named is a database, which other machines may use as well."""
    return where.startswith(("postgresql://", "postgres://"))


def read_where(text: str) -> tuple[str, str]:
    """Read what names a store: as `open_store` takes it, and as it may be shown. `BadSetup` if it
    names no kind of store that there is.
    """
    if text in (":memory:", "memory"):
        raise BadSetup(f"{text!r} would be a file of that name: use 'memory:'")
    if is_shared(text):
        try:
            from sayso.store.postgres_address import read_address
        except ImportError as error:
            raise _lacks(error) from None
        return text, read_address(text).name
    if "://" in text and not text.startswith("sqlite:///"):
        kind = text.partition("://")[0]
        raise BadSetup(
            f"{kind!r} is not a kind of store: use a path, 'memory:' or 'postgresql://...'"
        )
    if re.search(_MEANT, text):
        raise BadSetup("what is meant as a database is an address: 'postgresql://user@host/name'")
    path = text.removeprefix("sqlite:///")
    return path, path


async def open_transfer(where: str, *, make: bool) -> Transfer:
    """Open the store that a path or an address names, as a whole that can be moved; it is made if
    there is none, unless `make` is False.
    """
    if where == "memory:":
        raise BadSetup("what is in memory is of one process, and cannot be moved")
    text, _ = read_where(where)
    if is_shared(text):
        try:
            from sayso.store.postgres_transfer import PostgresTransfer
        except ImportError as error:
            raise _lacks(error) from None
        return await PostgresTransfer.open(text, make=make)
    from sayso.store.sqlite_transfer import SqliteTransfer

    if not make and not _is_there(text):
        raise NotOurStore(f"there is no store in {text!r}")
    return SqliteTransfer.open(text)


async def open_store(
    where: str | Path | Store,
    clock: Clock | None = None,
    *,
    make: bool = True,
    recovers: bool = False,
) -> Store:
    """Open the store that a path, an address or a store object names. It is made if there is none,
    unless `make` is False: `NotOurStore`, and `StoreOlder` for a database to be brought up first.
    Whoever `recovers` it may write to one that was restored or copied.
    """
    if not isinstance(where, str | os.PathLike):
        if not hasattr(where, "append"):
            raise BadSetup(f"{where!r} is not a store: use a path or 'memory:'")
        return where
    text, _ = read_where(str(where))
    if text == "memory:":
        from sayso.store.memory import MemoryStore

        return MemoryStore(clock=clock)
    if is_shared(text):
        return await _open_postgres(text, clock, make=make, recovers=recovers)
    if not make and not _is_there(text):
        raise NotOurStore(f"there is no store of Sayso in {text!r}")
    from sayso.store.sqlite import SqliteStore

    return await SqliteStore.open(text, clock=clock, recovers=recovers)


def _is_there(path: str) -> bool:
    return os.path.exists(path) and os.path.getsize(path) > 0


async def _open_postgres(url: str, clock: Clock | None, *, make: bool, recovers: bool) -> Store:
    from importlib.util import find_spec

    try:
        from sayso.store.postgres import PostgresStore

        # It is imported when somebody works, who could then only be told in a log.
        if find_spec("pgqueuer") is None:
            raise ImportError("No module named 'pgqueuer'")
    except ImportError as error:
        raise _lacks(error) from None
    return await PostgresStore.open(url, clock=clock, make=make, recovers=recovers)


def _lacks(error: ImportError) -> BadSetup:
    return BadSetup(
        f"a store in PostgreSQL takes another package ({error}): pip install 'sayso[postgres]'"
    )


def read_agents(agents: Iterable[Driver]) -> dict[str, Driver]:
    """Read the agents by name."""
    if isinstance(agents, str | Agent) or not isinstance(agents, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadAgent(f"agents is a list of agents, not {agents!r}")
    found: dict[str, Driver] = {}
    for agent in agents:
        if not all(hasattr(agent, part) for part in ("name", "next", "read")):
            raise BadAgent(f"{agent!r} is not an agent: make it with Agent(...)")
        if agent.name in found or agent.name == SINGLE:
            raise BadAgent(f"two agents are called {agent.name!r}")
        found[agent.name] = agent
    return found


def read_tools(drivers: Mapping[str, Driver], more: Iterable[Tool]) -> dict[str, Tool]:
    """Read the tools by name: those given, and those of the agents."""
    if isinstance(more, str | FunctionTool) or not isinstance(more, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadTool(f"tools is a list of tools, not {more!r}")
    found: dict[str, Tool] = {}
    for tool in more:
        check_tool(tool)
        if tool.name in found:
            raise BadTool(f"two tools are called {tool.name!r}")
        found[tool.name] = tool
    for driver in drivers.values():
        for tool in driver.tools.values():
            found.setdefault(tool.name, tool)
    return found


def read_providers(
    providers: Iterable[OAuthProvider], drivers: Mapping[str, Driver]
) -> dict[str, OAuthProvider]:
    """Read the providers by name: all that the agents' tools sign in at have to be there."""
    found = {} if providers == () else _read_providers(providers)
    for driver in drivers.values():
        for tool in driver.tools.values():
            check_sign_in(tool, found)
    return found


def _read_providers(providers: Iterable[OAuthProvider]) -> dict[str, OAuthProvider]:
    from sayso.agents.oauth_provider import OAuthProvider

    if isinstance(providers, str | OAuthProvider) or not isinstance(providers, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadProvider(f"providers is a list of providers, not {providers!r}")
    found: dict[str, OAuthProvider] = {}
    for provider in providers:
        if not isinstance(provider, OAuthProvider):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadProvider(f"{provider!r} is not a provider: make it with OAuthProvider(...)")
        if provider.name in found:
            raise BadProvider(f"two providers are called {provider.name!r}")
        found[provider.name] = provider
    return found


def make_signed_in(
    store: Store, providers: Mapping[str, OAuthProvider], vault: Vault
) -> SignedIn | None:
    """Make what knows who is signed in where; None if there is nowhere to sign in at."""
    if not providers:
        return None
    from sayso.agents.signed_in import SignedIn

    # Without keys nobody could sign in, and that is better said now than to a person.
    return SignedIn(store, providers, vault.keys())


def check_sign_in(tool: Tool, providers: Mapping[str, OAuthProvider]) -> None:
    """Refuse a tool that needs a sign-in nobody could make."""
    if tool.sign_in is not None and tool.sign_in.provider not in providers:
        raise BadTool(
            f"the tool {tool.name!r} needs a sign-in at {tool.sign_in.provider!r}, which is not "
            "known: give it to Sayso(providers=[OAuthProvider(...)])"
        )
