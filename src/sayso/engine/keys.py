"""Idempotency keys, and the bounds on text from outside."""

from __future__ import annotations

from sayso.domain.digest import request_digest
from sayso.domain.value import Principal
from sayso.errors import BadValue, KeyReused
from sayso.store.base import Key, Store

KEY_MAX = 200


def idempotency_key(project: str, key: str | None, *parts: str | bytes) -> Key | None:
    """Bind a key to the request that it comes with; None if there is none."""
    if key is None:
        return None
    check_text(key, "the key", KEY_MAX)
    if not key:
        raise BadValue("an empty key is no key: leave it out")
    return Key(project=project, key=key, digest=request_digest(*parts))


def start_key(
    project: str,
    key: str | None,
    *,
    agent: str,
    input: str,
    by: Principal,
    thread: str,
    metadata: bytes | None,
) -> Key | None:
    """Bind a key to the start of a run; None if there is none."""
    parts = ("start", agent, input, str(by), thread, metadata or b"")
    return idempotency_key(project, key, *parts)


async def is_retry(store: Store, key: Key) -> bool:
    """Tell whether this very request was made before; `KeyReused` if it was another one."""
    found = await store.key(key.project, key.key)
    if found is not None and found.digest != key.digest:
        raise KeyReused(f"the key {key.key!r} was used for another request")
    return found is not None


def check_text(text: str, what: str, limit: int) -> None:
    """Refuse text that is too long, or that cannot be kept."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadValue(f"{what} is of type {type(text).__name__}, not text")
    if len(text) > limit:
        raise BadValue(f"{what} has {len(text):,} characters, more than {limit:,}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadValue(f"{what} has a lone surrogate, which is not a character") from None
