"""People: what is known of them, and by what right they decide.

Rule 1: a person counts once, whatever identity they come by and whomever they stand in for.
Rule 2: a right is read from records, so a decision names the records it rests on, and its append
is refused if one of them has changed meanwhile.
"""

from collections.abc import Iterable

from sayso.domain.ruling import OPERATOR, anyone, owner
from sayso.domain.value import Principal, Value

PERSON = "person"
"""The kind of item that a person's record is."""
IDENTITY = "identity"
"""The kind of item that says whose an identity is."""


SLACK = "slack:"
"""What the identity of a user of Slack begins with: one that only Slack's signature proves."""


class StandIn(Value, frozen=True, kw_only=True):
    """Somebody has another person's rights for a time."""

    of: str
    """The person whose rights they are."""
    until: int
    since: int = 0


class Person(Value, frozen=True, kw_only=True):
    """What a project knows of a person."""

    id: str
    name: str = ""
    roles: tuple[str, ...] = ()
    identities: tuple[str, ...] = ()
    """What else they go by, such as `mail:ann@example.com` or `slack:U123`."""
    stands_in: tuple[StandIn, ...] = ()
    active: bool = True
    """One who is not may do nothing, whoever names them."""


class Basis(Value, frozen=True, kw_only=True):
    """A record that a right was read from."""

    person: str
    rev: int
    """Which version of it; 0: there is none."""
    until: int | None = None
    """When the right ends that was read from it."""


class Right(Value, frozen=True, kw_only=True):
    """By what name somebody is meant: `user:ann`, `role:finance`, `anyone`."""

    name: str
    of: str = ""
    """Whom they stand in for."""
    basis: tuple[Basis, ...] = ()


class Authority(Value, frozen=True, kw_only=True):
    """What a principal may do in a project, as its records say."""

    by: Principal
    rights: tuple[Right, ...]
    also: tuple[str, ...] = ()
    """The ids that they go by as well."""
    via: str = ""
    """The identity that they came by, if it is not their id."""
    active: bool = True
    name: str = ""

    def right(self, named: Iterable[str]) -> Right | None:
        """Find a right by which they are among those named; their own before a stand-in's."""
        names = set(named)
        found = None
        for right in self.rights:
            if right.name in names:
                if not right.of:
                    return right
                found = found or right
        return found

    def is_one_of(self, ids: Iterable[str]) -> bool:
        """Tell whether one of these is this person, or somebody they stand in for."""
        mine = {self.by.id, *self.also, *(right.of for right in self.rights if right.of)}
        return not mine.isdisjoint(ids)

    @property
    def names(self) -> tuple[str, ...]:
        """By what approvers they are meant."""
        return tuple(dict.fromkeys(right.name for right in self.rights)) if self.active else ()


def unrecorded(by: Principal, *, basis: tuple[Basis, ...] = (), member: bool = True) -> Authority:
    """Give what a principal may do of whom there is no record: what names them, and if they are a
    `member` of the project what asks anyone of it. A service or an agent is no person.
    """
    if by.kind != "person":
        return Authority(by=by, rights=(Right(name=f"{by.kind}:{by.id}"),))
    own = Right(name=f"user:{by.id}", basis=basis)
    rights = (own, Right(name=anyone, basis=basis)) if member else (own,)
    return Authority(by=by, rights=rights)


def recorded(
    person: Person,
    rev: int,
    *,
    now: int,
    others: Iterable[tuple[Person, int]] = (),
    via: str = "",
) -> Authority:
    """Give what a person may do who has a record; `others` are those whom they stand in for."""
    own = (Basis(person=person.id, rev=rev),)
    rights = [Right(name=name, basis=own) for name in _names(person)]
    known = {other.id: (other, at) for other, at in others}
    for stand_in in person.stands_in:
        other, at = known.get(stand_in.of, (None, 0))
        if other is None or not other.active or not stand_in.since <= now < stand_in.until:
            continue
        basis = (
            Basis(person=person.id, rev=rev, until=stand_in.until),
            Basis(person=other.id, rev=at),
        )
        names = [name for name in _names(other) if name not in (anyone, OPERATOR)]
        rights += [Right(name=name, of=other.id, basis=basis) for name in names]
    return Authority(
        by=Principal(id=person.id),
        rights=tuple(rights),
        also=person.identities,
        via=via,
        active=person.active,
        name=person.name,
    )


def _names(person: Person) -> list[str]:
    ids = [f"user:{one}" for one in (person.id, *person.identities)]
    return [*ids, *(f"role:{one}" for one in person.roles), anyone]


def resolve_names(named: tuple[str, ...], by: Principal) -> tuple[str, ...]:
    """Name approvers, the run's owner by name; nobody named is the owner."""
    # A service that owns a run is no person, not even one of the same name.
    mine = f"user:{by.id}" if by.kind == "person" else f"{by.kind}:{by.id}"
    return tuple(dict.fromkeys([mine if who == owner else who for who in named or (owner,)]))
