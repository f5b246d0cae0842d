"""Requests to addresses that somebody configured, which must never reach inside.

Rule 1: a name is looked up once, and the connection goes to the very address that was checked: what
a name means a moment later changes nothing.
Rule 2: no redirect is followed, no proxy of the environment is used, and nothing of the answer is
kept but its status.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Iterable
from typing import Any, cast
from urllib.parse import urlsplit

import httpcore2

from sayso.errors import AddressRefused, BadSetup

_GIVEN_OUT = ipaddress.IPv6Network("2000::/3")
_CARRIERS = (ipaddress.IPv6Network("2001::/32"), ipaddress.IPv6Network("2002::/16"))
"""Those that carry an older address inside."""
TIMEOUT_S = 15.0
"""How long a request may take as a whole."""


class Outward:
    """Posts to the outside, and to what is allowed by name."""

    def __init__(self, *, allow: Iterable[str] = (), timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            network_backend=_Backend(frozenset(allow)),
            max_connections=20,
            keepalive_expiry=10.0,
        )

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> int:
        """Post; give the status of the answer."""
        async with asyncio.timeout(self._timeout_s):
            sent = [(name.encode(), value.encode()) for name, value in headers.items()]
            sent.append((b"host", urlsplit(url).netloc.encode()))
            async with self._pool.stream("POST", url, headers=sent, content=body) as answer:
                return answer.status

    async def aclose(self) -> None:
        """Let the connections go."""
        await self._pool.aclose()


def check_url(url: str, *, plain: bool = False) -> str:
    """Give an address that can be posted to; `BadSetup` if it cannot. `plain`: without TLS, too."""
    try:
        at = urlsplit(url)
        port = at.port
    except ValueError as error:
        raise BadSetup(f"this is no address: {error}") from None
    schemes = ("https", "http") if plain else ("https",)
    if at.scheme not in schemes or not at.hostname:
        raise BadSetup(
            f"an address to post to has to begin with {' or '.join(f'{one}://' for one in schemes)}"
        )
    if at.username is not None or at.fragment or port == 0:
        raise BadSetup(f"{at.hostname!r}: an address to post to has no user, fragment or port 0")
    return url


def _is_outside(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return True
    # Of the newer kind only what is given out as such: all else has an older address in it, which
    # may be one of the inside.
    return address in _GIVEN_OUT and not any(address in one for one in _CARRIERS)


class _Backend(httpcore2.AsyncNetworkBackend):
    """Connects to addresses of the outside alone."""

    def __init__(self, allow: frozenset[str]) -> None:
        self._allow = allow
        self._inner = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise httpcore2.ConnectError(f"{host}: {error.strerror}") from None
        addresses = [str(info[4][0]) for info in found]
        for address in addresses:
            self._check(host, address)
        return await self._inner.connect_tcp(
            addresses[0], port, timeout, local_address, socket_options
        )

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del timeout, socket_options
        raise AddressRefused(f"{path!r} is a socket of this machine")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _check(self, host: str, address: str) -> None:
        read = ipaddress.ip_address(address.split("%", 1)[0])
        inner = getattr(read, "ipv4_mapped", None) or read
        if not _is_outside(inner) and str(inner) not in self._allow and host not in self._allow:
            raise AddressRefused(f"{host} is {inner}, which is inside: allow it by name")
