"""Where a request comes from, and where it may go on to: which site's page has sent it, whether it
is from this machine, and which paths are our own.

Rule: a proxy on this machine looks near by its address. What it hands on is not: its headers say
so, or the host that it names.
"""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from fastapi import Request

from sayso.errors import NotAllowed
from sayso.server.door import LOOPBACK, is_from_here

PATH_MAX = 1000
_NOT_BACK = ("/sign-in", "/sign-out", "/enter/")
NEAR_NAMES = frozenset({*LOOPBACK, "localhost"})


def check_origin(request: Request) -> None:
    """Raise `NotAllowed` for a form that a page of somebody else's has sent."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise NotAllowed("this form was sent by another site")
    origin = request.headers.get("origin")
    if origin is not None and origin not in _ours(request):
        raise NotAllowed("this form was sent by another site")


def is_near(request: Request) -> bool:
    """Tell whether a request is from this machine and for it. A name of somebody else's that leads
    here is not: their page could have the browser ask by it.
    """
    return is_from_here(request) and (_split(_host(request)).hostname or "") in NEAR_NAMES


def is_secure(request: Request) -> bool:
    """Tell whether people reach us by TLS."""
    return _split_url(site_of(request)).scheme == "https"


def site_of(request: Request) -> str:
    """Give the address that people reach the application by, without a slash at its end."""
    return str(request.app.state.public_url or request.base_url).rstrip("/")


def own_path(text: str) -> str:
    """Give a path of ours to go to; the inbox instead of whatever might lead elsewhere.

    Browsers take a backslash for a slash, leave out tabs and line ends, and take two slashes for
    another site: what has any of that in it is none of ours. Nor is one that would be too long.
    """
    odd = not text.isprintable() or "\\" in text or len(text) > PATH_MAX
    if odd or not text.startswith("/") or text.startswith("//"):
        return "/"
    # Who has signed in is not sent to sign in.
    return "/" if text.startswith(_NOT_BACK) else text


def _ours(request: Request) -> set[str]:
    host = _host(request)
    # A proxy that ends TLS may not have told us that it does.
    schemes = ("https",) if is_secure(request) else ("http", "https")
    ours = {f"{scheme}://{host}" for scheme in schemes} if host else set[str]()
    if request.app.state.public_url:
        at = _split_url(str(request.app.state.public_url))
        ours.add(f"{at.scheme}://{at.netloc}")
    return ours


def _host(request: Request) -> str:
    sent = request.headers.getlist("host")
    return sent[0] if len(sent) == 1 else ""


def _split(host: str) -> SplitResult:
    return _split_url(f"//{host}")


def _split_url(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # A bracket without its other half.
        return urlsplit("")
