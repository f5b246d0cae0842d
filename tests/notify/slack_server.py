"""A Slack on this machine: an HTTP server in a thread that the real `slack_sdk` speaks to, and that
takes only messages which the library's own models find fit for Slack.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode

from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TOKEN = "xoxb-1"


class FakeSlack:
    """Keeps what it was asked, and the messages as they are now."""

    def __init__(self):
        self.calls = []
        self.messages = {}
        self.answers = {}
        """By method, the error that it answers with."""
        self.raw = None
        """What it answers everything with instead, if it is not itself."""
        self.waits = threading.Event()
        self.waits.set()
        self._lock = threading.Lock()
        self._slow, self._going = "", threading.Event()
        self.kept = []
        """What waits on its own, if anything does."""

    def of(self, method):
        return [sent for name, sent in self.calls if name == method]

    @property
    def cards(self):
        """The messages that are no replies, oldest first."""
        return [one for one in self.messages.values() if "thread_ts" not in one]

    def keep_first(self, method):
        """Let the next call of a method wait, and no other; give what lets it go on."""
        self._slow = method
        return self._going.set

    def answer(self, method, sent):
        self.waits.wait(30)
        if method == self._slow and not self.kept:
            self.kept.append(sent)
            self._going.wait(30)
        with self._lock:
            self.calls.append((method, sent))
            if method in self.answers:
                return {"ok": False, "error": self.answers[method]}
            return self._do(method, sent)

    def _do(self, method, sent):
        if len(sent.get("text", "")) > 40_000 or not _fits(sent):
            return {"ok": False, "error": "invalid_blocks"}
        match method:
            case "chat.postMessage":
                # As a direct message, the channel is another than the one that was named.
                ts = f"{1700000000 + len(self.messages)}.000100"
                channel = (
                    f"D{sent['channel'][1:]}" if sent["channel"][0] == "U" else sent["channel"]
                )
                self.messages[channel, ts] = {**sent, "channel": channel, "ts": ts}
                return {"ok": True, "channel": channel, "ts": ts}
            case "chat.update":
                where = sent["channel"], sent["ts"]
                if where not in self.messages:
                    return {"ok": False, "error": "message_not_found"}
                self.messages[where] |= sent
                return {"ok": True, "channel": where[0], "ts": where[1]}
            case "chat.postEphemeral" | "views.open":
                return {"ok": True}
            case _:
                return {"ok": False, "error": "unknown_method"}


def _fits(sent):
    for block in Block.parse_all(sent.get("blocks", [])):
        block.validate_json()
    ids = [one["action_id"] for one in buttons(sent)]
    if "view" in sent:
        View(**sent["view"]).validate_json()
    return len(set(ids)) == len(ids) and len(sent.get("blocks", [])) <= 50


def buttons(message):
    """List the buttons of a message."""
    rows = [one for one in message.get("blocks", []) if one["type"] == "actions"]
    return [element for row in rows for element in row["elements"]]


def labels(message):
    return [one["text"]["text"] for one in buttons(message)]


def words(message):
    """Everything that a message says, as one text."""
    return json.dumps(message.get("blocks", []), ensure_ascii=False) + message.get("text", "")


@contextmanager
def fake_slack():
    slack = FakeSlack()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            method = self.path.removeprefix("/api/")
            if slack.raw is not None:
                slack.calls.append((method, {}))
                self.wfile.write(slack.raw)
                self.close_connection = True
                return None
            if self.headers["authorization"] != f"Bearer {TOKEN}":
                return self._say({"ok": False, "error": "invalid_auth"})
            if self.headers["content-type"].startswith("application/json"):
                sent = json.loads(body)
            else:
                sent = {key: value for key, (value,) in parse_qs(body.decode()).items()}
                sent |= {key: json.loads(sent[key]) for key in ("blocks", "view") if key in sent}
            return self._say(slack.answer(method, sent))

        def _say(self, answer):
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    slack.url = f"http://127.0.0.1:{server.server_port}/api/"
    try:
        yield slack
    finally:
        slack.waits.set()
        server.shutdown()
        server.server_close()


def signed(payload, now, secret=SECRET):
    """Make a request as Slack makes it: the body and its headers."""
    body = urlencode({"payload": json.dumps(payload)}).encode()
    return body, headers(body, now, secret)


def headers(body, now, secret=SECRET):
    base = b"v0:" + str(int(now)).encode() + b":" + body
    mac = hmac.new(secret.encode(), base, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": str(int(now)),
        "x-slack-signature": f"v0={mac}",
    }
