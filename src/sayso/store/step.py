"""One migration, and which code may go on beside it: the same rule for a file and for a database.

Code goes by the number of migrations that it knows, and a migration says, at its top, the lowest
such number that may go on beside it:

    -- sayso: compatible from 3
    -- sayso: online

One that says nothing ends all older code: that is refused at its next write, and wherever it opens
the store. So a change is made in two releases: expand what is there, and contract it once no code
is in use that needs the old shape.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sayso.errors import StoreNewer

_SAYS = re.compile(r"^-- sayso: (?:(online)|compatible from (\d+))$", re.MULTILINE)


class Step(NamedTuple):
    """One migration."""

    number: int
    text: str
    since: int
    """The lowest number of migrations known to code that may go on beside it."""
    online: bool
    """Statement by statement, outside of any transaction; a file knows no such thing."""


def read_step(text: str, number: int) -> Step:
    """Read what a migration says of itself."""
    since, online = number, False
    for said in _SAYS.finditer(text):
        online = online or bool(said[1])
        since = int(said[2]) if said[2] else since
    assert 0 < since <= number, f"migration {number} is compatible from {since}?"
    assert not (online and "$$" in text), "an online migration has simple statements only"
    return Step(number, text, since, online)


def check_since(name: str, version: int, since: int, known: int) -> None:
    """Refuse code that is too old for what is there. `StoreNewer` says so."""
    if since > known:
        raise StoreNewer(
            f"{name!r} has version {version} and takes a Sayso that knows {since}, this one knows "
            f"{known}; upgrade it"
        )
