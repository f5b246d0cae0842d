"""The pages of the application: the inbox and all that goes with it, put on a server."""

from __future__ import annotations

from fastapi import FastAPI

from sayso.web import asset, inbox


def add_pages(app: FastAPI) -> FastAPI:
    """Put the inbox on an application that `create_app` has made; give it back."""
    for router in (asset.router, inbox.router):
        app.include_router(router)
    return app
