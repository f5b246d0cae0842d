"""A network of our own between a process and PostgreSQL: a TCP proxy whose line can be broken.

What a line that carries nothing is given stays in the buffers of the sockets, as in a network whose
packets are lost, and is delivered if the line is mended while both ends are still there.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Literal

SOCKET = ".s.PGSQL.5432"
Line = Literal[
    "whole",
    "cut",
    "rst",
    "blackhole",
    "half there",
    "half back",
    "delay",
    "trickle",
    "lose answer",
    "lose question",
]
"""How a line is. `cut` and `rst` end every connection, at once and as long as it is so; `blackhole`
carries nothing, `half there` only what the client says, `half back` only what the server says;
`lose answer` ends a connection at the next thing that the server says in it, and `lose question` at
the next thing that the client does.
"""
DELAY_S = 0.3
TRICKLE_BYTES, TRICKLE_S = 64, 0.02
_TICK_S = 0.02
_CARRIES = {
    "there": {"whole", "half there", "delay", "trickle", "lose answer", "lose question"},
    "back": {"whole", "half back", "delay", "trickle", "lose answer", "lose question"},
}


class Proxy:
    """Listens on a port of this machine, and passes on to the socket of a server."""

    def __init__(self, server: Path) -> None:
        self._server = server / SOCKET
        self._line: Line = "whole"
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self.port = 0
        self.lost = 0
        """How many connections were ended instead of an answer, or a question."""

    async def __aenter__(self) -> Proxy:
        self._listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listening.close()
        self._end_all()

    def url(self, database: str = "postgres", **options: str) -> str:
        more = "".join(f"&{key}={value}" for key, value in options.items())
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}?sslmode=disable{more}"

    @property
    def line(self) -> Line:
        return self._line

    @line.setter
    def line(self, line: Line) -> None:
        self._line = line
        if line in ("cut", "rst"):
            self._end_all()

    def _end_all(self) -> None:
        for pair in list(self._pairs):
            self._end(pair)

    def _end(self, pair: tuple[asyncio.StreamWriter, ...]) -> None:
        for end in pair:
            if self._line == "rst":
                sock = end.get_extra_info("socket")
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._line in ("cut", "rst"):
            self._end((writer,))
            return
        try:
            to_reader, to_writer = await asyncio.open_unix_connection(self._server)
        except OSError:
            writer.transport.abort()  # The server is away.
            return
        pair = (writer, to_writer)
        self._pairs.add(pair)
        try:
            await asyncio.gather(
                self._pump(reader, to_writer, "there", pair),
                self._pump(to_reader, writer, "back", pair),
            )
        except asyncio.CancelledError:
            return  # The test is over.
        finally:
            self._pairs.discard(pair)
            for end in pair:
                end.close()

    async def _pump(
        self,
        source: asyncio.StreamReader,
        sink: asyncio.StreamWriter,
        way: Literal["there", "back"],
        pair: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        with suppress(OSError):
            while data := await source.read(1 << 16):
                if self._line == "delay":
                    await asyncio.sleep(DELAY_S)
                while self._line not in _CARRIES[way]:
                    if sink.is_closing():
                        return
                    await asyncio.sleep(_TICK_S)
                if self._line == ("lose answer" if way == "back" else "lose question"):
                    self.lost += 1
                    self._end(pair)
                    return
                while self._line == "trickle" and data:
                    sink.write(data[:TRICKLE_BYTES])
                    data = data[TRICKLE_BYTES:]
                    await asyncio.sleep(TRICKLE_S)
                sink.write(data)
                await sink.drain()
        sink.close()
