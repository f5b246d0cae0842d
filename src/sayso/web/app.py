"""The pages of the application: the inbox and all that goes with it, put on a server."""

from __future__ import annotations

from fastapi import FastAPI

from sayso.web import (
    asset,
    audit,
    chat,
    decide,
    decided,
    inbox,
    live,
    oidc,
    provider,
    rules,
    runs,
    session_list,
    settings,
    sign_in,
)
from sayso.web.page import add_problem_pages
from sayso.web.tries import Tries

PARTS = (
    asset,
    inbox,
    decide,
    live,
    runs,
    decided,
    audit,
    rules,
    chat,
    settings,
    session_list,
    sign_in,
    oidc,
    provider,
)


def add_pages(app: FastAPI, *, at: oidc.Oidc | None = None) -> FastAPI:
    """Put the inbox on an application that `create_app` has made; give it back.

    `at` is where people sign in, beside what they sign in with here.
    """
    app.state.oidc = at
    app.state.tries = Tries()
    add_problem_pages(app)
    for part in PARTS:
        app.include_router(part.router)
    return app
