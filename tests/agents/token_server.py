"""A token endpoint on this machine that answers as it is told, and keeps what it was asked."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs


class TokenServer:
    """One answer for every request, until another one is set."""

    def __init__(self):
        self.status = 200
        self.body = b""
        self.bodies = []
        """What is answered instead, one after another, as long as there is any."""
        self.headers = {}
        self.asked = []
        """The form and the headers of every request."""
        self.ready = threading.Event()
        """Until this is set, no answer is given."""
        self.ready.set()
        self.drips = False
        """Whether the answer goes on and on, a piece every few milliseconds."""
        self.url = ""


@contextmanager
def token_server():
    """Serve until the block is left."""
    told, over = TokenServer(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
            told.asked.append(({k: v[0] for k, v in form.items()}, dict(self.headers)))
            told.ready.wait()
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(told.bodies.pop(0) if told.bodies else told.body)
                while told.drips:
                    self.wfile.write(b" " * 8192)
                    over.wait(0.02)
            except (BrokenPipeError, ConnectionResetError):
                return

        def do_GET(self):
            told.asked.append(({}, dict(self.headers)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            return

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_):
            return  # Whoever gave up waiting is not an error here.

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}/token"
        try:
            yield told
        finally:
            told.ready.set()
            told.drips = False
            over.set()
            server.shutdown()
            thread.join()
