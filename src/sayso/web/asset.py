"""What browsers load: one stylesheet and one script a page, joined from small files.

The files in `static/` are what people read and change; they are joined once, when the server
starts, because each file a browser asks for by itself is a trip of its own. The name of what is
served has its digest in it, so a browser keeps it for good and never has an old one.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from fastapi import APIRouter, Request, Response

from sayso.errors import Unknown

router = APIRouter(include_in_schema=False)

FOREVER = "public, max-age=31536000, immutable"
STYLES = ("reset", "token", "base", "shell", "list", "request", "form", "table", "chat", "entry")
"""The stylesheets, in the order of the cascade. One that is not there yet is left out."""
SCRIPTS = ("app", "chat")
"""The scripts that pages name; what they import comes before them."""
_IMPORT = re.compile(r'^import [^;]*? from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) )", re.MULTILINE)


class Asset(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is served as it is."""

    name: str
    digest: str
    type: str
    body: bytes
    zipped: bytes

    @property
    def path(self) -> str:
        """Where it is served, below the application."""
        return f"/static/{self.digest}/{self.name}"


@cache
def assets() -> dict[str, Asset]:
    """Give what is served, by name."""
    root = files(__package__ or "sayso.web") / "static"
    made = [_make("app.css", "text/css", _styles(root / "css"))]
    for name in SCRIPTS:
        if (root / "js" / f"{name}.js").is_file():
            body = join_script(root / "js", name)
            made.append(_make(f"{name}.js", "text/javascript", body))
    return {one.name: one for one in made}


def join_script(folder: Traversable, name: str) -> str:
    """Join a module with what it imports, each once and before whatever needs it."""
    seen: list[str] = []
    return "".join(_modules(folder, name, seen))


def _modules(folder: Traversable, name: str, seen: list[str]) -> list[str]:
    if name in seen:
        return []
    seen.append(name)
    text = (folder / f"{name}.js").read_text("utf-8")
    before = [part for one in _IMPORT.findall(text) for part in _modules(folder, one, seen)]
    return [*before, _EXPORT.sub("", _IMPORT.sub("", text))]


def _styles(folder: Traversable) -> str:
    there = [folder / f"{name}.css" for name in STYLES]
    return "".join(one.read_text("utf-8") for one in there if one.is_file())


def _make(name: str, kind: str, text: str) -> Asset:
    body = text.encode()
    return Asset(
        name=name,
        digest=hashlib.sha256(body).hexdigest()[:12],
        type=kind,
        body=body,
        zipped=gzip.compress(body, 9, mtime=0),
    )


@router.get("/static/{digest}/{name}")
async def load(request: Request, digest: str, name: str) -> Response:
    """Serve an asset. One with another digest is of another version, and not here."""
    asset = assets().get(name)
    if asset is None or asset.digest != digest:
        raise Unknown("there is no such file")
    headers = {
        "cache-control": FOREVER,
        "x-content-type-options": "nosniff",
        "vary": "accept-encoding",
    }
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(asset.zipped, media_type=asset.type, headers=headers)
    return Response(asset.body, media_type=asset.type, headers=headers)
