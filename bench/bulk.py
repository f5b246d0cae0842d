"""Parked runs by the million in PostgreSQL: rows like those of a real one, made by the server.

An agent parks some hundreds of runs a second, the store writes some thousands; a million would take
an hour. That the rows are those that the store would have written is proved on a sample: column by
column against another real run, by the chain and the fold, and by deciding some of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from sayso.domain import events as e
from sayso.store.base import Store
from sayso.store.postgres_migrate import released

BATCH = 20_000
"""In one transaction: nobody else writes meanwhile."""
_TABLES = {
    "runs": "select * from runs where id = %s",
    "journal": "select * from journal where run = %s order by seq",
    "holds": "select * from holds where run = %s",
    "waiting": "select * from waiting where run = %s",
    "parcels": "select * from parcels where run = %s",
    "keys": "select * from keys where run = %s",
}
_DRAWN = {
    "runs": {"k", "hash", "last"},
    "journal": {"position", "run", "id", "salt", "hash"},
    "holds": {"run", "opened"},
    "waiting": {"run", "opened"},
}
"""What is drawn by lot, numbered, or follows from that: of these the length is compared."""


class Loader:
    """Loads runs into a schema, on a connection of its own."""

    def __init__(self, url: str, schema: str) -> None:
        self._conn = psycopg.connect(url, autocommit=True)
        self._conn.execute("select set_config('search_path', %s, false)", (schema,))
        # Whoever writes says how new it is.
        known = str(len(released()))
        self._conn.execute("select set_config('sayso.knows', %s, false)", (known,))
        self._conn.execute(Path(__file__).with_name("bulk.sql").read_bytes())
        self._named = 0

    def close(self) -> None:
        self._conn.close()

    def load(
        self, pattern: list[e.Event], run_id: str, count: int, *, later_ms: int = 0
    ) -> list[str]:
        """Park so many runs as this one is parked, whose events are the pattern; give their ids.
        Their deadline is later than its by this.
        """
        head, tail = _around_id(pattern, run_id)
        ids: list[str] = []
        for done in range(0, count, BATCH):
            self._named += 1
            named = f"{self._named:08x}"
            many = min(BATCH, count - done)
            self._conn.execute(
                "select * from pg_temp.load(%s::text, %s::int, %s::text, %s::bigint, %b, %b)",
                (run_id, many, named, later_ms, head, tail),
            )
            ids += [f"{run_id[:14]}{named}{n:08x}" for n in range(many)]
        return ids

    def settle(self) -> None:
        """Do what the server would do within minutes: vacuum, statistics, a checkpoint."""
        self._conn.execute("vacuum analyze runs, journal, holds, waiting, audiences, ends")
        self._conn.execute("checkpoint")

    def rows(self, run_id: str) -> dict[str, list[dict[str, Any]]]:
        """Read every row of a run, as it is in the tables."""
        (run,) = self._read(_TABLES["runs"], run_id)
        found = {name: self._read(sql, run["k"]) for name, sql in _TABLES.items() if name != "runs"}
        return {"runs": [run], **found}

    def read(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        return self._conn.execute(sql.encode(), params, binary=True).fetchall()

    def _read(self, sql: str, *params: Any) -> list[dict[str, Any]]:
        cursor = self._conn.execute(sql.encode(), params, binary=True)
        assert cursor.description is not None
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def prove(loader: Loader, real: str, loaded: Sequence[str]) -> None:
    """Compare what is kept of loaded runs with what is kept of a real one, column by column."""
    expected = _plain(loader.rows(real))
    for run_id in loaded:
        found = _plain(loader.rows(run_id))
        assert found == expected, f"the runs that are loaded are not like real ones: {found}"


async def prove_sound(store: Store, run_ids: Sequence[str]) -> None:
    """Check the chain of runs, and their rows against their journals."""
    from sayso.store import audit

    report = audit.Report()
    for run_id in run_ids:
        row = await store.load(run_id)
        assert row is not None
        await audit._check_run(store, row, report)
    assert report.ok, report.faults


def _plain(rows: dict[str, list[dict[str, Any]]]) -> object:
    """Leave out what is drawn by lot or says when: of the rest, every byte stays."""
    run_id, digest = rows["runs"][0]["id"], rows["holds"][0]["digest"]

    def plain(value: Any) -> object:
        if isinstance(value, int) and _TIME.fullmatch(str(value)):
            return "TIME"
        if not isinstance(value, str | bytes):
            return value
        text = value.decode() if isinstance(value, bytes) else value
        return _TIME.sub("TIME", text.replace(run_id, "RUN").replace(digest, "DIGEST"))

    def drawn(value: Any) -> object:
        return type(value), len(value) if isinstance(value, bytes) else 0

    return {
        table: [
            {
                name: drawn(value) if name in _DRAWN.get(table, ()) else plain(value)
                for name, value in row.items()
            }
            for row in each
        ]
        for table, each in rows.items()
    }


def _around_id(pattern: list[e.Event], run_id: str) -> tuple[bytes, bytes]:
    """Give what a digest is made of, before and after the id of its run; see `domain/digest.py`."""
    started, taken, opened, _ = pattern
    assert isinstance(started, e.RunStarted)
    assert isinstance(taken, e.TurnTaken)
    assert isinstance(opened, e.HoldOpened)
    (call,) = taken.calls
    before = (b"sayso.call.1", started.project.encode(), run_id.encode())
    after = (str(opened.version), call.tool, call.tool_version, bytes(call.args))
    head = b"".join(map(_framed, before)).removesuffix(run_id.encode())
    tail = b"".join(_framed(one.encode() if isinstance(one, str) else one) for one in after)
    found = hashlib.sha256(head + run_id.encode() + tail).hexdigest()
    assert found == opened.digest, "the digest of a call is made of something else"
    return head, tail


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part


_TIME = re.compile(r"\b1[0-9]{12}\b")
