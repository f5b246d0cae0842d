"""Which runs a claim takes: fair between projects. And the SQL of it for a file.

Rule: what is read does not grow with how many runs of one project and agent wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

import msgspec

from sayso.domain.run import FOLD

if TYPE_CHECKING:
    import apsw

# By this index, or SQLite would rather sort all that waits.
_NEXT = """
select project, agent from runs indexed by runs_free
where status = 'running' and owner = '' and (project, agent) > (?, ?)
order by project, agent limit 1
"""
_OLDEST = """
select k, id from runs indexed by runs_free
where status = 'running' and owner = '' and project = ? and agent = ? and fold <= ?
order by k limit ?
"""
_OWNED = "select count(*) from runs indexed by runs_owned where project = ? and owner > ''"


class Free(msgspec.Struct, frozen=True, order=True, gc=False):
    """A run that could be claimed. Of two, the older one is less."""

    k: int
    id: str
    project: str


def share(
    free: Iterable[Free], owned: Mapping[str, int], limit: int, project_max: int | None
) -> list[Free]:
    """Choose from runs that are free, given how many of each project have an owner: one after
    another of the project that has the fewest then, and of these the oldest.
    """
    rank = Counter(owned)
    ranked: list[tuple[int, Free]] = []
    for run in sorted(free):
        rank[run.project] += 1
        if project_max is None or rank[run.project] <= project_max:
            ranked.append((rank[run.project], run))
    return [run for _, run in sorted(ranked)[:limit]]


def kinds(conn: apsw.Connection, agents: Collection[str] | None) -> Iterator[tuple[str, str]]:
    """Give each project and agent of which something is free, by one step in the index each."""
    at = ("", "")
    while found := conn.execute(_NEXT, at).fetchall():
        at = cast("tuple[str, str]", found[0])
        if agents is None or at[1] in agents:
            yield at


def choose(
    conn: apsw.Connection, limit: int, agents: Collection[str] | None, project_max: int | None
) -> list[Free]:
    """Choose runs of a file to claim."""
    free: list[Free] = []
    owned: dict[str, int] = {}
    for project, agent in kinds(conn, agents):
        if project not in owned:
            ((count,),) = conn.execute(_OWNED, (project,)).fetchall()
            owned[project] = cast("int", count)
        for k, run_id in conn.execute(_OLDEST, (project, agent, FOLD, limit)).fetchall():
            free.append(Free(cast("int", k), cast("str", run_id), project))
    return share(free, owned, limit, project_max)
