"""Something between a client and PostgreSQL that loses what it is told to lose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

How = Literal["pass", "lose the answer", "lose the question", "keep silent"]
SOCKET = ".s.PGSQL.5432"


class Wire:
    """Passes bytes on, both ways, until it is told otherwise. Counts what clients send."""

    def __init__(self, server: Path, own: Path) -> None:
        self._server = server / SOCKET
        self._own = own / SOCKET
        self.directory = own
        self.how: How = "pass"
        self.questions = 0
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()

    async def __aenter__(self) -> Wire:
        self._listening = await asyncio.start_unix_server(self._accept, self._own)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Cut every connection."""
        for pair in list(self._pairs):
            for end in pair:
                end.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_unix_connection(self._server)
        pair = (writer, to_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump(reader, to_writer, pair, question=True),
                self._pump(to_reader, writer, pair, question=False),
            )
        except asyncio.CancelledError:
            return  # The test is over.
        finally:
            self._pairs.discard(pair)
            for end in pair:
                end.close()

    async def _pump(self, source, sink, pair, *, question: bool) -> None:
        try:
            while data := await source.read(1 << 16):
                if self.how == "keep silent":
                    continue
                if self.how == ("lose the question" if question else "lose the answer"):
                    for end in pair:
                        end.transport.abort()
                    return
                self.questions += question
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
