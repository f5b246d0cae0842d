"""The server of `sayso demo`, in a process of its own: `python -m sayso.cli.demo_server DIR PORT`.

It serves the inbox and decides; it runs no agent. It also plays the provider that one of the
agents has its person sign in at.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from urllib.parse import urlencode

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from sayso.app import Sayso
from sayso.cli.demo_agent import make_teller, store_path
from sayso.cli.demo_cast import make_cast, provider
from sayso.domain.value import Principal
from sayso.server.app import create_app
from sayso.server.door import LocalWay
from sayso.server.serve import bind, serve
from sayso.web.app import add_pages
from sayso.web.page import render

WHO = "mira"


def make_server(directory: Path, port: int, local: LocalWay) -> FastAPI:
    """Make the application, with all its pages."""
    agents = [make_teller(directory), *make_cast()]
    sayso = Sayso(store_path(directory), agents=agents, providers=[provider(port)], work=False)
    app = add_pages(create_app(sayso, ways=[local]))
    _play_provider(app)
    return app


def _play_provider(app: FastAPI) -> None:
    @app.get("/demo/authorize", include_in_schema=False)
    async def authorize(request: Request) -> Response:
        """Ask what a provider asks. Only what is on this machine is ever sent back to."""
        asked = request.query_params
        back = asked.get("redirect_uri", "")
        if not back.startswith(str(request.base_url)):
            return HTMLResponse("no", 400)
        yes = f"{back}?{urlencode({'state': asked.get('state', ''), 'code': 'demo'})}"
        no = f"{back}?{urlencode({'state': asked.get('state', ''), 'error': 'access_denied'})}"
        return render(request, "demo_provider.html", yes=yes, no=no)

    @app.post("/demo/token", include_in_schema=False)
    async def token() -> JSONResponse:
        """Give a token that is good for nothing."""
        return JSONResponse({"access_token": "demo-token", "token_type": "Bearer"})


def main(directory: str, port: str) -> None:
    """Serve until killed, or until the demo is gone: it may have had no time to kill anybody."""
    threading.Thread(target=_end_with_the_demo, daemon=True).start()
    sock = bind("127.0.0.1", int(port))
    here = sock.getsockname()[1]
    local = LocalWay(Principal(id=WHO), "default")
    url = f"http://127.0.0.1:{here}"
    told = {"url": url, "port": here, "token": local.text, "enter": f"{url}/enter/{local.code}"}
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    serve(make_server(Path(directory), here, local), sock)


def _end_with_the_demo() -> None:
    sys.stdin.buffer.read()  # Nothing comes but its end.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
