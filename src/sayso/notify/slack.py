"""Cards in Slack: what asks somebody, with buttons, kept up to date until it is settled.

Rule 1: a card is a view of a hold. What its buttons say goes the way of every decision, with the
digest of what the card showed; the answer is the card that is drawn again.
Rule 2: who clicks is known by Slack's signature and by a link that an operator made, never by a
name or an address in a message.
Rule 3: where a card is, is kept on the shelf: whichever process hears of the end finds it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from http.client import HTTPException
from typing import Any, cast

import msgspec
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.signature import Clock, SignatureVerifier

from sayso.domain.hold import read_id
from sayso.domain.people import SLACK, Person
from sayso.domain.value import Principal, Value
from sayso.engine.courier import Notice
from sayso.engine.parcel import KINDS, Kind
from sayso.engine.people import People
from sayso.engine.thread import in_thread
from sayso.errors import BadSetup, SaysoError, StaleItem
from sayso.notify.slack_card import Card, open_card, replaced_card, settled_card
from sayso.store.base import Store
from sayso.store.shelf import Item
from sayso.store.views import HoldView, hold_view, moment

log = logging.getLogger("sayso")

CALL_S = 8
"""How long Slack may take for one answer; a notice needs a few of them."""
CARDS = "slack-card"
"""The kind of item that says where the cards of a hold are."""
POSTS_MAX = 50
"""How many cards a hold has at most."""
TRIES_MAX = 20
_GONE = frozenset(
    {"message_not_found", "channel_not_found", "cant_update_message", "is_archived", "is_inactive"}
)
"""Errors of Slack's by which a card is not there any more, or nobody's to change."""


class Post(Value, frozen=True, kw_only=True):
    """Where a card is."""

    place: str
    """Where it was sent to, as the operator named it."""
    channel: str
    ts: str
    seen: str
    """The digest of what it shows."""


class Slack:
    """Tells by cards in Slack: `Slack("xoxb-...", channel="C...", team="T...", link="https://...")`.

    `channels` sends the cards of some approvers elsewhere, such as `{"role:finance": "C2"}`. With
    `signing_secret` the cards have buttons, which the service hears of. Who clicks is whoever has
    the identity `slack:U...` in the records of people, or is in `people`, by the id of the user.
    """

    tells: frozenset[Kind] = frozenset(KINDS)

    def __init__(
        self,
        token: str,
        *,
        channel: str,
        team: str,
        link: str,
        signing_secret: str | None = None,
        channels: Mapping[str, str] | None = None,
        people: Mapping[str, str] | None = None,
        project: str | None = None,
        base_url: str = "https://slack.com/api/",
    ) -> None:
        for what, given in (("token", token), ("channel", channel), ("team", team), ("link", link)):
            if not given:
                raise BadSetup(f"a channel to Slack needs a {what}")
        if signing_secret is not None and not signing_secret.strip():
            raise BadSetup("the signing secret is empty: leave it out, or give the app's")
        self.team = team
        self._channel = channel
        self._channels = dict(channels or {})
        self._link = link.rstrip("/")
        self._secret = signing_secret
        self._people = dict(people or {})
        self._only = project
        self._project = ""
        # What fails comes again by the outbox, which knows when.
        self._client = WebClient(token, base_url=base_url, timeout=CALL_S, retry_handlers=[])
        self._store: Store | None = None
        self._records: People | None = None

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return "slack"

    @property
    def hears(self) -> bool:
        """Whether clicks can be told to be Slack's, and so whether cards have buttons."""
        return self._secret is not None

    def attach(self, store: Store, people: People, project: str) -> None:
        """Take the store that cards are of; done by the `Sayso` that is given its channels."""
        self._store, self._records = store, people
        self._project = self._only or project

    def is_ours(self, body: bytes, timestamp: str, signature: str) -> bool:
        """Tell whether Slack has signed these bytes, within five minutes of now."""
        if self._secret is None or not (timestamp.isascii() and timestamp.isdigit()):
            return False
        verifier = SignatureVerifier(self._secret, clock=_Clock(self._open))
        try:
            return signature.isascii() and verifier.is_valid(body, timestamp, signature)
        except ValueError:
            return False  # The body is no text, or the time has more digits than any.

    async def person(self, user: str, team: str, project: str) -> Principal | None:
        """Give who a user of Slack is in a project; None: nobody is linked to them."""
        if team != self.team or project != self._project:
            return None
        if (known := self._people.get(user)) is not None:
            return Principal(id=known)
        assert self._records is not None, "it is attached"
        found = await self._records.get(f"{SLACK}{user}", project=project)
        return None if found is None else Principal(id=found.id)

    async def send(self, notice: Notice) -> None:
        """Post cards, or bring those that are there up to date."""
        hold = notice.hold
        if hold.project != self._project:
            return
        match notice.kind:
            case "settled":
                await self._settle(hold)
            case "voted":
                await self._redraw(hold)
            case "reminder":
                await self._remind(notice)
            case _:
                await self._ask(hold, notice.to)

    async def note(self, channel: str, user: str, text: str) -> None:
        """Say something to one person alone; if that fails, only the log knows."""
        try:
            await self._call("chat_postEphemeral", channel=channel, user=user, text=text)
        except SaysoError as error:
            log.warning("somebody could not be told in Slack: %s", error)

    async def open_view(self, trigger: str, view: dict[str, Any]) -> None:
        """Open a modal for whoever has just clicked."""
        await self._call("views_open", trigger_id=trigger, view=view)

    async def keep(self, hold: HoldView, post: Post) -> None:
        """Remember where a card is."""
        for _ in range(TRIES_MAX):
            item, posts = await self._posts(hold)
            if any((one.channel, one.ts) == (post.channel, post.ts) for one in posts):
                return
            if await self._put(hold, item, [*posts, post][-POSTS_MAX:]):
                return
        raise SaysoError(f"the cards of {hold.id!r} are changed by too many at once")

    async def _ask(self, hold: HoldView, to: tuple[str, ...]) -> None:
        _, posts = await self._posts(hold)
        card = self._drawn(hold)
        there = {post.place for post in posts if post.seen == hold.digest}
        for place in self._places(to):
            if place not in there:
                sent = await self._post(place, **_message(card))
                channel, ts = str(sent["channel"]), str(sent["ts"])
                await self.keep(hold, Post(place=place, channel=channel, ts=ts, seen=hold.digest))
        for post in posts:
            if post.seen != hold.digest:
                await self._update(post, replaced_card(hold))
                await self._forget(hold, post)
        await self.catch_up(hold)

    async def catch_up(self, hold: HoldView, posts: Sequence[Post] = ()) -> None:
        """Draw cards again that became known, or were drawn, only when their hold was settled:
        whoever was told of that did not know of them yet.
        """
        place = read_id("hold", hold.id)
        found = None if place is None else await self._open.hold(*place)
        if found is not None and found.row.status == "settled":
            await self._settle(hold_view(found), posts)

    async def _settle(self, hold: HoldView, also: Sequence[Post] = ()) -> None:
        name = "" if hold.decision is None else await self._name(hold.decision.by)
        card = settled_card(hold, name=name)
        _, posts = await self._posts(hold)
        for post in dict.fromkeys((*posts, *also)):
            await self._update(post, card)
            await self._forget(hold, post)

    async def _redraw(self, hold: HoldView) -> None:
        card = self._drawn(hold)
        posts = [post for post in (await self._posts(hold))[1] if post.seen == hold.digest]
        for post in posts:
            await self._update(post, card)
        # Whoever was told of the end meanwhile may have drawn that before this.
        await self.catch_up(hold, posts)

    async def _remind(self, notice: Notice) -> None:
        hold = notice.hold
        # Whom it is for is called; where it may be read is up to whom the hold asks.
        await self._ask(hold, hold.approvers)
        said = " ".join([*await self._mentions(notice.to), "It still waits for somebody."])
        for post in (await self._posts(hold))[1]:
            await self._post(post.channel, text=said, thread_ts=post.ts, reply_broadcast=True)

    def _places(self, to: tuple[str, ...]) -> list[str]:
        return list(dict.fromkeys(self._channels.get(who, self._channel) for who in to))

    def _drawn(self, hold: HoldView) -> Card:
        now = moment(self._open.now())
        return open_card(hold, link=self._link, now=now, buttons=self.hears)

    async def _mentions(self, to: tuple[str, ...]) -> list[str]:
        """Name those persons so that Slack calls them."""
        users = {person: user for user, person in self._people.items()}
        found: list[str] = []
        for who in to:
            person = who.removeprefix("user:")
            if person == who:
                continue
            known = await self._record(person)
            linked = () if known is None else known.identities
            slack = [one.removeprefix(SLACK) for one in linked if one.startswith(SLACK)]
            found += slack or [users.get(person, "")]
        return [f"<@{user}>" for user in found if user.isalnum()]

    async def _name(self, by: Principal) -> str:
        known = await self._record(by.id) if by.kind == "person" else None
        return by.id if known is None or not known.name else known.name

    async def _record(self, person: str) -> Person | None:
        assert self._records is not None, "it is attached"
        try:
            return await self._records.get(person, project=self._project)
        except SaysoError:
            return None  # A name that no record can have.

    async def _update(self, post: Post, card: Card) -> None:
        """Draw a card again. One that is gone, or that nobody may change, is left as it is."""
        try:
            await self._call("chat_update", channel=post.channel, ts=post.ts, **_message(card))
        except SaysoError as error:
            if str(error).rpartition(" ")[2] not in _GONE:
                raise
            log.warning("a card in Slack cannot be drawn again: %s", error)

    async def _post(self, channel: str, **more: Any) -> Any:
        # Nobody fetches the page of a request to make a picture of it.
        quiet = {"unfurl_links": False, "unfurl_media": False}
        return await self._call("chat_postMessage", channel=channel, **quiet, **more)

    async def _call(self, method: str, **more: Any) -> Any:
        call = partial(getattr(self._client, method), **more)
        try:
            return await in_thread(call, {}, "slack")
        except SlackApiError as error:
            # Not in words of the library's: they repeat what was sent.
            answer = cast("Any", error).response
            said: Any = answer.data if hasattr(answer.data, "get") else {}
            code = str(said.get("error") or answer.status_code)[:100]
            raise SaysoError(f"Slack refused {method}: {code}") from None
        except (SlackClientError, OSError, HTTPException, ValueError) as error:
            # A ValueError is an answer that is no JSON, or no text.
            raise SaysoError(f"Slack cannot be asked: {type(error).__name__}") from None

    async def _posts(self, hold: HoldView) -> tuple[Item | None, list[Post]]:
        item = await self._open.shelf.get(hold.project, CARDS, hold.id)
        return item, [] if item is None else msgspec.json.decode(item.data, type=list[Post])

    async def _forget(self, hold: HoldView, post: Post) -> None:
        for _ in range(TRIES_MAX):
            item, posts = await self._posts(hold)
            if item is None or await self._put(hold, item, [one for one in posts if one != post]):
                return

    async def _put(self, hold: HoldView, item: Item | None, posts: list[Post]) -> bool:
        """Keep where the cards are; False if somebody else has just changed that."""
        shelf, rev = self._open.shelf, 0 if item is None else item.rev
        try:
            if posts:
                data = msgspec.json.encode(posts)
                await shelf.put(hold.project, CARDS, hold.id, data, rev=rev)
            elif item is not None:
                await shelf.drop(hold.project, CARDS, hold.id, rev=rev)
        except StaleItem:
            return False
        return True

    @property
    def _open(self) -> Store:
        if self._store is None:
            raise BadSetup("give it as Sayso(notify=Channels(Slack(...))), and open that")
        return self._store


class _Clock(Clock):
    """Store time, for the library that looks at signatures."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def now(self) -> float:
        return self._store.now() / 1000


def _message(card: Card) -> dict[str, Any]:
    return {
        "text": card.text,
        "blocks": list(card.blocks),
        "parse": "none",
        "link_names": False,
    }
