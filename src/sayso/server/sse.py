"""Server-sent events: frames, and streams that stay alive and end when the server does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

ALIVE_S = 15.0
"""After so long without anything a comment is sent: proxies cut what is silent."""
HEADERS = {
    "cache-control": "no-store",
    "x-accel-buffering": "no",
}


def event(data: str, *, id: str | int | None = None, name: str | None = None) -> bytes:
    """Make the frame of an event; data is one line, as JSON is."""
    lines = [] if id is None else [f"id: {id}"]
    if name is not None:
        lines.append(f"event: {name}")
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


async def alive(
    frames: AsyncIterator[bytes],
    closing: asyncio.Event,
    *,
    every_s: float = ALIVE_S,
    recheck: Callable[[], Awaitable[bool]] | None = None,
) -> AsyncIterator[bytes]:
    """Send frames as they come, a comment when none do, and an end when the server ends: whoever
    reads comes back with the last id that it has seen. With `recheck`, it ends as soon as that says
    no; it is asked as often as a comment would be sent.
    """
    clock = asyncio.get_running_loop().time
    checked = clock()
    frame = asyncio.ensure_future(anext(frames, None))
    over = asyncio.ensure_future(closing.wait())
    try:
        while not closing.is_set():
            await asyncio.wait({frame, over}, timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
            if recheck is not None and clock() - checked >= every_s:
                checked = clock()
                if not await recheck():
                    return
            if not frame.done() and not closing.is_set():
                yield b": alive\n\n"
            if not frame.done():
                continue
            found = frame.result()
            if found is None:
                return
            yield found
            frame = asyncio.ensure_future(anext(frames, None))
    finally:
        # Whoever goes away takes the reading with it.
        for task in (frame, over):
            task.cancel()
        await asyncio.gather(frame, over, return_exceptions=True)
        if (close := getattr(frames, "aclose", None)) is not None:
            await close()
