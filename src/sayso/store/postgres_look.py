"""A run with what else is wanted of it, by one statement: of one moment, and one round trip."""

# ruff: noqa: S608 - statements are put together from the constants below, never from data.

from __future__ import annotations

from typing import Any

import msgspec

from sayso.store.base import RunRow
from sayso.store.columns import Found, entry_of, run_of
from sayso.store.look import Look, Want, Wish
from sayso.store.postgres_lane import Lane
from sayso.store.postgres_link import Link
from sayso.store.shelf import Item, check_text

_RUN = """
r.id, r.project, r.agent, coalesce(r.thread, ''), r.status, r.seq, r.hash, r.last, r.fold, r.state,
r.due_at, r.owner
"""
_WIDE = 12
"""So many columns are those of the run; what is wanted besides comes after them, in lists."""
_ITEMS = """
left join lateral (
    select array_agg(w.place) place, array_agg(s.id::text) id, array_agg(s.rev) rev,
        array_agg(s.data) data
    from jsonb_array_elements(q.items::jsonb) with ordinality w (one, place)
    cross join lateral (
        (select id, rev, data from shelf
        where project = r.project and kind = w.one ->> 0 and id = w.one ->> 1)
        union all
        (select id, rev, data from shelf
        where project = r.project and kind = w.one ->> 0 and w.one ->> 1 is null
        order by id limit 1)
    ) s
) i on true
"""
_JOURNAL = """
left join lateral (
    select array_agg(seq) seq, array_agg(position) position, array_agg(id) id, array_agg(at) at,
        array_agg(salt) salt, array_agg(payload) payload, array_agg(hash) hash
    from (select * from journal where run = r.k and r.seq <= q.journal_max order by seq) e
) j on true
"""
_LOOK = f"""
select q.o, {_RUN}, i.place, i.id, i.rev, i.data from unnest(%s::text[], %s::text[])
    with ordinality q (asked, items, o)
join runs r on r.id = q.asked {_ITEMS}
"""
_WHOLE = f"""
select q.o, {_RUN}, i.place, i.id, i.rev, i.data,
    j.seq, j.position, j.id, j.at, j.salt, j.payload, j.hash
from unnest(%s::text[], %s::text[], %s::bigint[]) with ordinality q (asked, items, journal_max, o)
join runs r on r.id = q.asked {_ITEMS} {_JOURNAL}
"""


class Looks:
    """Looks at runs. The journal is many tables, and touched only for whoever wants it."""

    def __init__(self, link: Link) -> None:
        self._looks = Lane(link, _LOOK)
        self._wholes = Lane(link, _WHOLE)

    async def look(self, run_id: str, wish: Wish) -> Look | None:
        for want in wish.items:
            check_text("the kind of an item", want.kind)
            if want.id is not None:
                check_text("the id of an item", want.id)
        items = msgspec.json.encode(wish.items).decode()
        if wish.journal_max:
            found = await self._wholes.ask(run_id, items, wish.journal_max)
        else:
            found = await self._looks.ask(run_id, items)
        return _look(wish, found[0]) if found else None


def _look(wish: Wish, row: Found) -> Look:
    run = run_of(row[:_WIDE])
    places, ids, revs, data, *entries = [one or () for one in row[_WIDE:]]
    there: dict[int, Any] = {
        place: found for place, *found in zip(places, ids, revs, data, strict=True)
    }
    items = [_item(run, want, there.get(place)) for place, want in enumerate(wish.items, start=1)]
    journal = tuple([entry_of(run.id, one) for one in zip(*entries, strict=True)])
    return Look(row=run, items=tuple(items), journal=journal)


def _item(run: RunRow, want: Want, found: Any) -> Item | None:
    if found is None:
        return None
    name, rev, data = found
    return Item(project=run.project, kind=want.kind, id=name, rev=rev, data=data)
