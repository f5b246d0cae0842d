"""The pages of the application: the inbox and all that goes with it, put on a server."""

from __future__ import annotations

from fastapi import FastAPI

from sayso.web import (
    asset,
    audit,
    decide,
    decided,
    inbox,
    rules,
    runs,
    session_list,
    settings,
    sign_in,
)
from sayso.web.tries import Tries


def add_pages(app: FastAPI) -> FastAPI:
    """Put the inbox on an application that `create_app` has made; give it back."""
    app.state.oidc = None
    app.state.tries = Tries()
    for part in (
        asset,
        inbox,
        decide,
        runs,
        decided,
        audit,
        rules,
        settings,
        session_list,
        sign_in,
    ):
        app.include_router(part.router)
    return app
