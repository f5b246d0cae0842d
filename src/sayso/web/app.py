"""The pages of the application: the inbox and all that goes with it, put on a server."""

from __future__ import annotations

from fastapi import FastAPI

from sayso.web import asset, audit, decided, inbox, rules, runs, settings


def add_pages(app: FastAPI) -> FastAPI:
    """Put the inbox on an application that `create_app` has made; give it back."""
    for part in (asset, inbox, runs, decided, audit, rules, settings):
        app.include_router(part.router)
    return app
