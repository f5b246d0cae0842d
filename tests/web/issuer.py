"""An issuer on this machine that says whatever a test has it say."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

CLIENT = "sayso-pages"
KEY = RSAKey.generate_key(2048, {"kid": "k1"})


class HandMade:
    """Tokens made by hand: `claims` and `header` change the next one, `id_token` replaces it."""

    def __init__(self) -> None:
        self.claims: dict[str, Any] = {}
        self.header: dict[str, Any] = {}
        self.key = KEY
        self.id_token: str | None = None
        self.about: dict[str, Any] = {}
        self.status = 200
        self.asked: dict[str, str] = {}
        self.posted: list[tuple[str | None, dict[str, str]]] = []
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/.well-known/openid-configuration":
                    issuer.answer(self, issuer.describe())
                elif self.path == "/keys":
                    issuer.answer(self, KeySet([KEY]).as_dict(private=False))
                elif self.path.startswith("/authorize?"):
                    back = urlencode(issuer.visit(issuer.url + self.path))
                    self.send_response(302)
                    self.send_header("location", f"{issuer.asked['redirect_uri']}?{back}")
                    self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                issuer.posted.append((self.headers["authorization"], dict(parse_qsl(body))))
                grant = {"token_type": "Bearer", "access_token": "x", "id_token": issuer.token()}
                issuer.answer(self, grant, issuer.status)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, told: Any, status: int = 200) -> None:
        handler.send_response(status)
        handler.end_headers()
        handler.wfile.write(json.dumps(told).encode())

    def describe(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}/keys",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            **self.about,
        }

    def token(self) -> str:
        if self.id_token is not None:
            return self.id_token
        now = int(time.time())
        said = {
            "iss": self.url,
            "aud": CLIENT,
            "sub": "mira",
            "exp": now + 600,
            "iat": now,
            "nonce": self.asked.get("nonce"),
            **self.claims,
        }
        said = {name: value for name, value in said.items() if value is not None}
        header = {"alg": "RS256", "kid": "k1", **self.header}
        return jwt.encode(header, said, self.key, algorithms=[header["alg"]])

    def visit(self, url: str) -> dict[str, str]:
        """Do what a person does who signs in; give what their browser brings back."""
        assert url.startswith(f"{self.url}/authorize?")
        self.asked = dict(parse_qsl(urlsplit(url).query))
        return {"state": self.asked["state"], "code": "a-code"}


def unsigned(claims: dict[str, Any]) -> str:
    """Make a token that says of itself that it is not signed."""
    parts = [json.dumps({"alg": "none"}), json.dumps(claims)]
    return ".".join(base64.urlsafe_b64encode(p.encode()).rstrip(b"=").decode() for p in parts) + "."
