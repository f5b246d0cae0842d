"""Who is who in a project, read from its records and kept there.

Rule 1: a person counts once: an identity leads to one person, and that person's record says so.
Rule 2: what is read here is only good together with the revs it was read at; appends check them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from sayso.domain.people import (
    IDENTITY,
    PERSON,
    Authority,
    Basis,
    Person,
    StandIn,
    recorded,
    unrecorded,
)
from sayso.domain.ruling import OPERATOR, duration_ms
from sayso.domain.run import Run
from sayso.domain.value import Principal, Value
from sayso.engine.beside import Items
from sayso.engine.keys import KEY_MAX, check_text
from sayso.engine.live import Live
from sayso.errors import (
    BadValue,
    IdentityTaken,
    NotAllowed,
    NotUnderstood,
    StaleItem,
    UnknownPerson,
)
from sayso.store.base import Store
from sayso.store.look import Want
from sayso.store.shelf import Item, check_name

MANY_MAX = 100
"""The most roles, identities or stand-ins of one person."""
NAME_MAX = 200
TRIES_MAX = 20

T = TypeVar("T")


class _Link(Value, frozen=True, kw_only=True):
    person: str


class Records:
    """Reads what a project knows of people."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.shelf = store.shelf
        self._items: Items = self.shelf
        self._peopled: set[str] = set()
        """Projects where people were kept when somebody last looked: what to look for first."""

    def wants(self, by: Principal) -> tuple[Want, ...]:
        """Say what to read together with a run whose project is asked for somebody's authority."""
        if by.kind != "person":
            return ()
        first = Want(PERSON)
        try:
            check_name("-", PERSON, by.id)
        except BadValue:
            return (first,)
        return first, Want(PERSON, by.id), Want(IDENTITY, by.id)

    def beside(self, live: Live) -> Records:
        """Give these records as they were when a run was read, for whoever asks them at once, and
        once: the next one is to see what was changed since.
        """
        beside, live.beside = live.beside, None
        if beside is None:
            return self
        found = Records(self.store)
        found._items, found._peopled = beside, self._peopled
        return found

    async def authority(self, project: str, by: Principal) -> Authority:
        """Say what a principal may do in a project right now."""
        if by.kind != "person":
            return unrecorded(by)
        if not by.id.isprintable():
            # No record could be kept of it, and it may look like somebody else's.
            raise NotAllowed(f"{by.id!r} is nobody: there is something in it that cannot be seen")
        if project not in self._peopled and not await self._has_people(project):
            # Where no people are kept, whoever is named is taken at their name.
            return unrecorded(by, basis=(Basis(person=by.id, rev=0),))
        found, via = await self.look_up(project, by.id), ""
        if found is None:
            if not await self._has_people(project):
                return unrecorded(by, basis=(Basis(person=by.id, rev=0),))
            found, via = await self._linked(project, by.id), by.id
        if found is None:
            return unrecorded(by, basis=(Basis(person=by.id, rev=0),), member=False)
        person, rev = found
        others = [await self.look_up(project, one.of) for one in person.stands_in]
        known = [other for other in others if other is not None]
        return recorded(person, rev, now=self.store.now(), others=known, via=via)

    async def _has_people(self, project: str) -> bool:
        if await self._items.list(project, PERSON, limit=1):
            self._peopled.add(project)
            return True
        self._peopled.discard(project)
        return False

    async def acting(self, project: str, by: Principal) -> Principal:
        """Give the person whom an identity is of; everybody else as they are."""
        if by.kind != "person" or not by.id.isprintable():
            return by
        if await self.look_up(project, by.id) is not None:
            return by
        linked = await self._linked(project, by.id)
        return by if linked is None else Principal(id=linked[0].id)

    async def owning(self, run: Run, by: Principal) -> Principal:
        """Give who does something to a run, if they may: its owner, or an operator."""
        who = await self.authority(run.project, by)
        if not owns(who, run):
            raise NotAllowed(f"only {run.by} or an operator may do this to {run.id!r}")
        return who.by

    async def look_up(self, project: str, name: str) -> tuple[Person, int] | None:
        """Read a person's record, and which version of it that is."""
        item = await self._items.get(project, PERSON, name)
        return None if item is None else (_read(item, Person), item.rev)

    async def _linked(self, project: str, identity: str) -> tuple[Person, int] | None:
        item = await self._items.get(project, IDENTITY, identity)
        if item is None:
            return None
        found = await self.look_up(project, _read(item, _Link).person)
        # The record has the last word: a link may be left over.
        return found if found is not None and identity in found[0].identities else None


def owns(who: Authority, run: Run) -> bool:
    """Tell whether a run is somebody's to look into and to act on: its owner's, an operator's."""
    return who.active and (has_started(who, run) or who.right([OPERATOR]) is not None)


def has_started(who: Authority, run: Run) -> bool:
    """Tell whether it was this very person, by whichever identity of theirs, that a run is of."""
    mine = {who.by.id, *who.also} if who.by.kind == "person" else set[str]()
    return who.by == run.by or (run.by.kind == "person" and run.by.id in mine)


class People(Records):
    """Keeps what a project knows of people: `app.people`."""

    def __init__(self, store: Store, project: str) -> None:
        super().__init__(store)
        self.project = project

    async def put(
        self,
        id: str,
        *,
        name: str | None = None,
        roles: Iterable[str] | None = None,
        identities: Iterable[str] | None = None,
        active: bool | None = None,
        project: str | None = None,
    ) -> Person:
        """Keep a person; what is not given stays as it was.

        `identities` are what else they go by, such as `mail:ann@example.com`: whoever comes by one
        of them is this person, and counts once. `IdentityTaken` if one of them is somebody else's.
        """
        where = self.project if project is None else project
        _check_name(id, "the id of a person")
        linked = None if identities is None else _names(identities, "identity")
        given = {
            "name": None if name is None else _named(name),
            "roles": None if roles is None else _names(roles, "role"),
            "identities": linked,
            "active": active,
        }
        if active is not None and not isinstance(active, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadValue(f"active is True or False, not {active!r}")
        if await self._linked(where, id) is not None:
            raise IdentityTaken(f"{id!r} is an identity of somebody else, and no person of its own")
        for identity in linked or ():
            await self._claim(where, identity, id)
        changed = {key: value for key, value in given.items() if value is not None}
        before, after = await self._change(where, id, lambda person: replace(person, **changed))
        for identity in set(before.identities) - set(after.identities):
            await self._unlink(where, identity, id)
        return after

    async def get(self, id: str, *, project: str | None = None) -> Person | None:
        """Look a person up by their id, or by an identity of theirs."""
        where = self.project if project is None else project
        _check_name(id, "the id of a person")
        found = await self.look_up(where, id) or await self._linked(where, id)
        return None if found is None else found[0]

    async def list(
        self, *, project: str | None = None, after: str | None = None, limit: int = 50
    ) -> builtins.list[Person]:
        """List people by id, from the one after an id on."""
        where = self.project if project is None else project
        items = await self.shelf.list(where, PERSON, after=after, limit=limit)
        return [_read(item, Person) for item in items]

    async def stand_in(
        self,
        who: str,
        *,
        of: str,
        until: datetime | str | float | None,
        since: datetime | None = None,
        project: str | None = None,
    ) -> Person:
        """Let somebody have another person's rights for a time: until a moment, or for a duration
        such as '2w'. None: not any more.

        They decide for that person, and the two count as one.
        """
        where = self.project if project is None else project
        if who == of:
            raise BadValue(f"{who!r} needs nobody to stand in for themselves")
        for one in (who, of):
            if await self.look_up(where, one) is None:
                raise UnknownPerson(f"there is no person {one!r}: people.put({one!r}) first")
        now = self.store.now()
        begin = 0 if since is None else _moment(since)
        end = None if until is None else _end(until, max(now, begin))
        if end is not None and end <= max(now, begin):
            raise BadValue("a stand-in has to end after it begins")

        def change(person: Person) -> Person:
            # What is over is of no use to anybody.
            rest = [one for one in person.stands_in if one.of != of and one.until > now]
            if end is not None:
                rest.append(StandIn(of=of, until=end, since=begin))
            if len(rest) > MANY_MAX:
                raise BadValue(f"{who!r} stands in for {MANY_MAX} people already")
            return replace(person, stands_in=tuple(rest))

        return (await self._change(where, who, change))[1]

    async def remove(self, id: str, *, project: str | None = None) -> None:
        """Forget a person. To shut somebody out, rather `put(id, active=False)`: a name that is
        forgotten is nobody's, and rules that name it would take anybody at it. `BadValue` for the
        last person of a project: without records it would take everybody at their name.
        """
        where = self.project if project is None else project
        found = await self.look_up(where, id)
        if found is None:
            raise UnknownPerson(f"there is no person {id!r}")
        if len(await self.shelf.list(where, PERSON, limit=2)) == 1:
            # With no records left, `anyone` would be everybody.
            raise BadValue(
                f"{id!r} is the last person of {where!r}, where anybody could decide without them: "
                f"put somebody else first, or people.put({id!r}, active=False)"
            )
        await self.shelf.drop(where, PERSON, id, rev=found[1])
        for identity in found[0].identities:
            await self._unlink(where, identity, id)

    async def _change(
        self, project: str, id: str, change: Callable[[Person], Person]
    ) -> tuple[Person, Person]:
        for _ in range(TRIES_MAX):
            found = await self.look_up(project, id)
            before, rev = (Person(id=id), 0) if found is None else found
            after = change(before)
            if rev and after == before:
                return before, after
            try:
                await self.shelf.put(project, PERSON, id, msgspec.json.encode(after), rev=rev)
            except StaleItem:
                continue
            return before, after
        raise StaleItem(f"{id!r} was changed by others {TRIES_MAX} times in a row")

    async def _claim(self, project: str, identity: str, id: str) -> None:
        if identity == id:
            raise BadValue(f"{id!r} goes by its own id anyway")
        if await self.look_up(project, identity) is not None:
            raise IdentityTaken(f"{identity!r} is a person of its own")
        for _ in range(TRIES_MAX):
            item = await self.shelf.get(project, IDENTITY, identity)
            owner = None if item is None else _read(item, _Link).person
            if owner == id:
                return
            if await self._linked(project, identity) is not None:
                raise IdentityTaken(f"{identity!r} is an identity of {owner!r}")
            data = msgspec.json.encode(_Link(person=id))
            try:
                rev = 0 if item is None else item.rev
                await self.shelf.put(project, IDENTITY, identity, data, rev=rev)
            except StaleItem:
                continue
            return
        raise StaleItem(f"{identity!r} was changed by others {TRIES_MAX} times in a row")

    async def _unlink(self, project: str, identity: str, id: str) -> None:
        item = await self.shelf.get(project, IDENTITY, identity)
        if item is None or _read(item, _Link).person != id:
            return
        try:
            await self.shelf.drop(project, IDENTITY, identity, rev=item.rev)
        except StaleItem:
            return  # Somebody else has taken it, who may.


def _read(item: Item, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(item.data, type=kind)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotUnderstood(f"the {item.kind} {item.id!r} cannot be read: {error}") from None


def _check_name(text: str, what: str) -> str:
    check_text(text, what, KEY_MAX)
    if not text or text != text.strip() or not text.isprintable():
        raise BadValue(f"{what} is a word that can be seen, not {text!r}")
    # Written in two ways it would look like one name, and be two.
    if not _is_normal(text):
        raise BadValue(f"{what} is written with its accents apart: give {text!r} in NFC")
    return text


def _is_normal(text: str) -> bool:
    if text.isascii():
        return True
    from unicodedata import is_normalized

    return is_normalized("NFC", text)


def _named(name: str) -> str:
    check_text(name, "the name of a person", NAME_MAX)
    return name


def _names(given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise BadValue(f"{given!r} is one {what}: give a list of them")
    found = tuple(dict.fromkeys(_check_name(one, f"a {what}") for one in given))
    if len(found) > MANY_MAX:
        raise BadValue(f"a person has at most {MANY_MAX} of them, not {len(found)}")
    return found


def _moment(at: datetime) -> int:
    if at.tzinfo is None:
        raise BadValue(f"{at} has no time zone: nobody could say when it is")
    return int(at.timestamp() * 1000)


def _end(until: datetime | str | float, now: int) -> int:
    return _moment(until) if isinstance(until, datetime) else now + duration_ms(until)
