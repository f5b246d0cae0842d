"""Running the application: a socket, signals, and an end that drains."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from fastapi import FastAPI

from sayso.errors import BadSetup

DRAIN_S = 30
"""How long requests under way may take when the server ends; streams end at once."""
BACKLOG = 2048
_ENDS = (signal.SIGTERM, signal.SIGINT)


class _Server(uvicorn.Server):
    """Ends streams before it waits for connections: they would never end by themselves."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Hear SIGTERM and SIGINT. The library's own way raises them again at the end, and a server
        that was told to end, and has, would look like one that was killed.
        """
        before = {sig: signal.signal(sig, self.handle_exit) for sig in _ENDS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.closing.set()
        super().handle_exit(sig, frame)


def bind(host: str, port: int) -> socket.socket:
    """Listen before anything is opened; `BadSetup` says what is in the way."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        # Whoever is told the address may connect at once, and waits.
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        taken = error.errno == errno.EADDRINUSE
        why = "something else listens there, try --port 0" if taken else error.strerror
        raise BadSetup(f"cannot listen on {host}:{port}: {why}") from None
    return sock


def serve(app: FastAPI, sock: socket.socket) -> bool:
    """Serve until SIGTERM or SIGINT; False if the application could not start."""
    config = uvicorn.Config(
        app,
        log_config=None,  # What it says goes where everything else does.
        log_level="warning",
        access_log=False,
        lifespan="on",
        timeout_graceful_shutdown=DRAIN_S,
        server_header=False,
        # Whoever a request says that it is from, it is from whoever has sent it.
        proxy_headers=False,
        ws_max_size=1 << 20,
        h11_max_incomplete_event_size=64 << 10,
    )
    server = _Server(config, app)
    server.run(sockets=[sock])
    return server.started
