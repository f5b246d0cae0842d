"""How often an address may show what is no credential.

Tokens are too long to be guessed; this keeps whoever tries all the same from keeping the store
busy. It knows a bounded number of addresses, and forgets those first that failed longest ago.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

FAILS_MAX = 10
WINDOW_S = 60.0
ADDRESSES_MAX = 10_000
_NETWORK = 64
"""The part of an IPv6 address that somebody is given as a whole."""


class Tries:
    """Counts what failed, by address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._fails: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._fails)

    def is_over(self, address: str) -> bool:
        """Tell whether an address has failed too often of late."""
        since, fails = self._fails.get(_key(address), (0.0, 0))
        return fails >= FAILS_MAX and self._clock() - since < WINDOW_S

    def fail(self, address: str) -> None:
        """Count one more; of an address that is not known, nothing is."""
        if not address:
            return
        key, now = _key(address), self._clock()
        since, fails = self._fails.pop(key, (now, 0))
        self._fails[key] = (since, fails + 1) if now - since < WINDOW_S else (now, 1)
        if len(self._fails) > ADDRESSES_MAX:
            self._fails.popitem(last=False)


def _key(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if found.version == 6:  # noqa: PLR2004
        return str(ipaddress.ip_network((found, _NETWORK), strict=False))
    return str(found)
