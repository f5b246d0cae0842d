"""Taking people to a provider and back: the two ends of a sign-in that a hold asks for.

Rule 1: a hold that asks for a sign-in is settled by one, never by somebody who says so.
Rule 2: the credential is kept before the hold is settled. Whatever happens in between, whoever
comes back again is found to be signed in, and the code is not used twice.
Rule 3: nothing is sent to a provider for a hold that is settled, or for a person it does not ask.
"""

from __future__ import annotations

import contextlib

from sayso.agents.oauth import OAuthClient, StateFacts
from sayso.agents.signed_in import SignedIn
from sayso.domain import events as e
from sayso.domain.hold import (
    Approved,
    Consent,
    Rejected,
    SignIn,
    Verdict,
    hold_id,
    may_decide,
    name_approvers,
    read_id,
)
from sayso.domain.value import Principal
from sayso.engine.decide import what_stands
from sayso.engine.desk import Desk
from sayso.engine.door import DoorKeeper, guarded
from sayso.engine.ids import is_run_id
from sayso.engine.people import Records
from sayso.engine.request import Decide
from sayso.errors import (
    BadState,
    NotAllowed,
    Refused,
    SignInFailed,
    StoreError,
    UnknownHold,
    WrongVerdict,
)
from sayso.store.base import PAGE_MAX, HoldFound, Store
from sayso.store.journal import decode
from sayso.store.query import HoldQuery

CHANNEL = "oauth"
NOTE_MAX = 2000
_DENIED = "access_denied"
# RFC 6749, section 4.1.2.1, and OpenID Connect. Any other might be anything, a code included.
ERROR_CODES = frozenset(
    (
        "account_selection_required",
        "consent_required",
        "interaction_required",
        "invalid_request",
        "invalid_scope",
        "login_required",
        "server_error",
        "temporarily_unavailable",
        "unauthorized_client",
        "unsupported_response_type",
    )
)
_LATER = frozenset(("server_error", "temporarily_unavailable"))


class SignInDesk:
    """Where people are sent to a provider from, and where they come back to."""

    def __init__(self, store: Store, desk: Desk, signed_in: SignedIn, records: Records) -> None:
        self._store = store
        self._records = records
        self._desk = desk
        self._signed_in = signed_in

    @property
    def door(self) -> DoorKeeper:
        """Where those are written down who are refused."""
        return self._desk.door

    @guarded("sign_in")
    async def url(self, hold: str, *, by: Principal) -> str:
        """Say where the person whom a hold asks signs in; see `Sayso.sign_in_url`."""
        found, ask, person = await self._asked(hold, by)
        client = self._signed_in.client(ask.provider)
        # What was allowed for other calls since then is asked for again, or they would lose it.
        granted = await self._signed_in.granted(found.project, person.id, ask.provider)
        scopes = dict.fromkeys((*ask.scopes, *granted))
        return client.authorization_url(hold, person.id, scopes, now=self._store.now())

    @guarded("oauth_callback", named=False)
    async def come_back(
        self,
        state: str,
        code: str | None,
        *,
        by: Principal | None,
        issuer: str | None,
        error: str | None,
    ) -> str:
        """Finish a sign-in, and give the id of its hold; see `Sayso.oauth_callback`."""
        client, facts = self._read(state)
        client.check_issuer(issuer)
        sent = Principal(id=facts.person)
        found, ask, person = await self._asked(facts.hold_id, sent, come=by)
        if ask.provider != facts.provider:
            raise BadState("the state of the sign-in is for another provider", reason="provider")
        if error is not None:
            await self._denied(found, facts, error)
            return facts.hold_id
        project = found.project
        if not await self._signed_in.satisfies(project, facts.person, ask):
            now = self._store.now()
            credential = await client.exchange(code or "", state, now=now, issuer=issuer)
            await self._signed_in.keep(project, credential)
        await self._settle(found, person, Approved(), await self._note(project, facts))
        await self._settle_others(project, facts)
        return facts.hold_id

    def _read(self, state: str) -> tuple[OAuthClient, StateFacts]:
        """Read a state, and find the client that it is of."""
        other = BadState(reason="provider")
        for client in self._signed_in.clients.values():
            try:
                return client, client.read_state(state, now=self._store.now())
            except BadState as error:
                if error.reason != "provider":
                    raise
                other = error
        raise other

    async def _asked(
        self, hold: str, by: Principal, *, come: Principal | None = None
    ) -> tuple[HoldFound, SignIn | Consent, Principal]:
        """Find an open hold that asks this person to sign in, or say why not. `come`: who comes
        back from where this person was sent.
        """
        place = read_id("hold", hold)
        known = place is not None and is_run_id(place[0])
        found = await self._store.hold(*place) if place is not None and known else None
        if found is None:
            raise UnknownHold(f"there is no hold {hold!r}")
        ask = _sign_in_of(found)
        if ask is None:
            raise WrongVerdict(f"{hold!r} asks {found.row.kind!r}, not for a sign-in: decide it")
        who = await self._records.authority(found.project, by)
        if come is not None and await self._records.acting(found.project, come) != who.by:
            raise NotAllowed(f"{come} comes back from a sign-in that {who.by} was sent to")
        right = who.right(found.row.who)
        # What they sign in with is their own, whomever they stand in for.
        if right is None or right.of or not may_decide(found.row.who, who, found.row.kind):
            whom = name_approvers(found.row.who)
            raise NotAllowed(f"{by} cannot sign in for {hold!r}: it asks {whom}")
        if found.row.status != "open":
            raise what_stands(found, who)
        return found, ask, who.by

    async def _denied(self, found: HoldFound, facts: StateFacts, error: str) -> None:
        if error == _DENIED:
            reason = f"{facts.person} did not sign in at {facts.provider}"
            await self._settle(found, Principal(id=facts.person), Rejected(reason=reason), "")
            return
        said = error if error in ERROR_CODES else "an error of its own"
        raise SignInFailed(
            f"{facts.provider!r} did not let {facts.person} sign in: {said}",
            retryable=error in _LATER,
        )

    async def _note(self, project: str, facts: StateFacts) -> str:
        granted = await self._signed_in.granted(project, facts.person, facts.provider)
        return f"granted at {facts.provider}: {' '.join(granted)}"[:NOTE_MAX]

    async def _settle(self, found: HoldFound, by: Principal, verdict: Verdict, note: str) -> None:
        row = found.row
        request = Decide(
            verdict=verdict,
            by=by,
            digest=row.digest,
            note=note,
            channel=CHANNEL,
            signed_in=True,
        )
        await self._desk.decide(hold_id(row.run_id, row.n), request)

    async def _settle_others(self, project: str, facts: StateFacts) -> None:
        """Settle what else waits for the very sign-in that has just been."""
        person = Principal(id=facts.person)
        query = HoldQuery(project=project, who=(f"user:{facts.person}",), limit=PAGE_MAX)
        for found in await self._store.holds(query):
            ask = _sign_in_of(found)
            if ask is None or ask.provider != facts.provider or found.row.status != "open":
                continue
            if await self._signed_in.satisfies(project, facts.person, ask):
                # One that is not settled here is when somebody comes back for it.
                with contextlib.suppress(Refused, StoreError):
                    note = await self._note(project, facts)
                    await self._settle(found, person, Approved(), note)


def _sign_in_of(found: HoldFound) -> SignIn | Consent | None:
    opened = decode(found.opened)
    ask = opened.ask if isinstance(opened, e.HoldOpened) else None
    return ask if isinstance(ask, SignIn | Consent) else None
