"""The address of a PostgreSQL store: what of it is shown, and what every connection asks for."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from sayso.errors import BadSetup

SCHEMES = ("postgresql://", "postgres://")
SCHEMA = "sayso"
"""The schema of a store that names no other."""
CONNECT_S = 10
"""How long a connection may take to come about."""
_BOUNDS: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    # Who is cut off finds out, however the network keeps silent.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
    "application_name": "sayso",
}
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_HOST = re.compile(r"[^@\s]*")


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """Where a store is. `conninfo` and `password` are never shown."""

    conninfo: str
    password: str
    name: str
    schema: str

    @property
    def channel(self) -> str:
        """What its writers call out on, and everybody else listens to."""
        return f"sayso_{self.schema}"

    def __repr__(self) -> str:
        return f"Address({self.name!r})"


def work_channel(schema: str) -> str:
    """Name what the queue of a store calls out on."""
    return f"sayso_{schema}_work"


def read_address(url: str, schema: str = SCHEMA) -> Address:
    """Read an address. `BadSetup` if it is none; what it says is then not repeated. A schema other
    than `sayso` comes after a `#` at its end, as in the name of the store.
    """
    if not url.startswith(SCHEMES):
        raise BadSetup("a PostgreSQL store is named by an address: postgresql://user@host/database")
    front, hash_, end = url.rpartition("#")
    # A password may have one in it, and would then be shown as a name.
    if hash_ and schema == SCHEMA and "@" not in end and "password=" not in front:
        url, schema = front, end
    if not _SCHEMA.fullmatch(schema):
        raise BadSetup("no name for a schema: use small letters, digits and underscores")
    try:
        parts = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    except (psycopg.Error, ValueError):
        raise BadSetup(_WRONG) from None
    # A password with characters that should have been encoded ends up in the host or the port.
    host, port = parts.get("host", ""), parts.get("port", "")
    if not _HOST.fullmatch(host) or not all(one.isdigit() or not one for one in port.split(",")):
        raise BadSetup(_WRONG)
    if not all(map(_can_be_named, host.split(","))):
        raise BadSetup(
            "the address of the store names a host that cannot be: what is between the dots has 1 "
            "to 63 characters"
        )
    bounds = {key: value for key, value in _BOUNDS.items() if key not in parts}
    at = f"{quote(parts['user'])}@" if "user" in parts else ""
    where = host + (f":{port}" if port else "")
    shown = f"postgresql://{at}{where}/{parts.get('dbname', '')}"
    return Address(
        conninfo=make_conninfo(url, client_encoding="utf8", **bounds),
        password=parts.get("password", ""),
        name=shown if schema == SCHEMA else f"{shown}#{schema}",
        schema=schema,
    )


def _can_be_named(host: str) -> bool:
    """Tell whether a name service can be asked for a host; Python would refuse to, in no words of
    a database. A path is a directory of sockets.
    """
    try:
        host.encode("idna")
    except UnicodeError:
        return host.startswith("/")
    return True


_WRONG = (
    "the address of the store cannot be read: write postgresql://user:password@host:port/database, "
    "with %40 for an @ in the password, %2F for a / and %3A for a :"
)
