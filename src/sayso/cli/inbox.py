"""`sayso inbox`: what waits for somebody, one by one, with the keys of the web."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import click

from sayso.cli.answer import read_answer
from sayso.cli.approve import CRITICAL, changed
from sayso.cli.asking import is_terminal
from sayso.cli.card import broken, card, changes, choices_of
from sayso.cli.deciding import Outcome, became, decide
from sayso.cli.desk import Desk, at_desk
from sayso.cli.ending import said, told
from sayso.cli.keys import Keyboard, keyboard
from sayso.cli.ls import listed, whose
from sayso.cli.plain import plain
from sayso.domain.digest import decode_value
from sayso.domain.filter import Filter, read_filter
from sayso.domain.hold import SIGN_INS, Verdict, answer, approve, reject
from sayso.errors import AlreadyDecided, SaysoError, Unreachable
from sayso.store.views import HoldView

DIGITS = 9
LOOK_S = 1.0
"""How soon something new is seen."""
_KEYS = {
    "approval": "a approve  r reject  e edit",
    "in_doubt": "a run it again  r reject  e say its result",
    "question": "1-9 answer  e answer in words  r reject",
    "sign_in": "a sign in  r reject",
    "consent": "a allow  r deny",
}
_IN_WORDS = "e answer in words  r reject"
_OTHERS = "e say its result  r reject"
_ALWAYS = "s skip  u undo  q quit"


@click.command(short_help="Decide what waits for you, one by one.")
@click.argument("filter", nargs=-1)
@click.option("--mine", is_flag=True, help="Only those that ask you by name.")
@click.option("--team", is_flag=True, help="Only those that ask you as one of several.")
@click.option("--all", "everyone", is_flag=True, help="Those that ask others, too.")
@click.option("--full", is_flag=True, help="Fold no argument, however long it is.")
@at_desk
async def inbox(
    desk: Desk, *, filter: tuple[str, ...], mine: bool, team: bool, everyone: bool, full: bool
) -> None:
    """Show what waits for you, one after another, and decide it with a key: a approve, r reject,
    e edit or answer, 1 to 9 answer, s skip, u undo, q quit. It is live: what is new comes up by
    itself, and what somebody else decides goes.

    Keys that are pressed before a request has been seen for a moment do nothing.

    \b
    Examples:
      sayso inbox --store pay.db
      sayso inbox 'risk:>=high' --url https://pay.example.com
    """  # noqa: D301
    wanted = read_filter(" ".join(filter))
    view = whose(mine=mine, team=team, everyone=everyone)
    if not is_terminal():
        raise click.UsageError("this asks somebody at a terminal; `sayso ls` lists, for programs")
    with keyboard() as keys:
        await _Session(desk, keys, wanted, view, full=full).run()


class _Left(Exception):
    """They have pressed q."""


class _Session:
    def __init__(
        self, desk: Desk, keys: Keyboard, wanted: Filter, view: str, *, full: bool
    ) -> None:
        self._desk = desk
        self._keys = keys
        self._wanted = wanted
        self._view = view
        self._full = full
        self._skipped: set[str] = set()
        self._last = ""
        """What they decided last."""
        self._count = 0

    async def run(self) -> None:
        told_empty = lost = False
        while True:
            try:
                waiting = [one async for one in self._waiting()]
                lost = False
            except Unreachable as error:
                if not lost:
                    self._say(f"{told(error)}; trying again")
                waiting, lost, told_empty = [], True, True
            try:
                if waiting:
                    told_empty = False
                    await self._one(waiting[0], len(waiting))
                    continue
                if not told_empty:
                    self._say(await self._nothing())
                    told_empty = True
                await self._idle()
            except (_Left, EOFError):
                self._say(f"{self._count} decided.")
                return

    async def _waiting(self) -> AsyncIterator[HoldView]:
        async for hold in listed(self._desk, self._wanted, view=self._view):
            if hold.status == "open" and hold.id not in self._skipped:
                yield hold

    async def _nothing(self) -> str:
        skipped = f" {len(self._skipped)} skipped." if self._skipped else ""
        who = plain(await self._desk.who())
        return f"Nothing waits for {who}.{skipped} New ones come up by themselves; q quits."

    async def _idle(self) -> None:
        key = await self._keys.key(LOOK_S)
        if key == "q":
            raise _Left
        if key == "u":
            await self._undo()

    async def _one(self, hold: HoldView, count: int) -> None:
        """Show a request until it is decided, skipped, or somebody else's."""
        shown: HoldView | None = None
        while True:
            if shown is None or shown.digest != hold.digest:
                if shown is not None:
                    self._say("It was changed; it now is:")
                self._show(hold, count)
                await self._keys.settle()
                shown = hold
            key = await self._keys.key(LOOK_S)
            try:
                if await self._pressed(key, shown):
                    return
                hold = await self._desk.hold(shown.id)
                if hold.status != "open":
                    assert hold.decision is not None, "it is decided"
                    self._say(f"Somebody was faster: it was {said(hold.decision)}.")
                    return
            except AlreadyDecided as error:
                self._say(told(error))
                return
            except click.UsageError as error:
                self._say(error.message)
            except SaysoError as error:
                self._say(told(error))
                if isinstance(error, Unreachable):
                    return

    async def _pressed(self, key: str, hold: HoldView) -> bool:
        """Do what a key means; tell whether that was all for this request."""
        if not key:
            return False
        if key == "q":
            raise _Left
        if key == "s":
            self._skipped.add(hold.id)
            return True
        if key == "u":
            await self._undo()
            return True
        if key == "a" and hold.kind in SIGN_INS:
            self._say(await self._desk.sign_in_url(hold.id))
            return False
        verdict = await self._verdict(key, hold)
        if verdict is None:
            self._say("Nothing is decided.")
            return False
        now = await decide(self._desk, hold, Outcome(verdict))
        self._count += 1
        self._last = hold.id
        self._say(became(hold, now, verdict))
        return True

    async def _verdict(self, key: str, hold: HoldView) -> Verdict | None:
        if key == "a" and hold.kind in ("approval", "in_doubt"):
            return await self._approve(hold)
        if key == "r":
            return reject(await self._keys.line("Why? "))
        if key == "e" and hold.kind == "approval":
            return self._edit(hold)
        if key == "e" and hold.question is not None:
            return answer(self._read(hold, await self._keys.line("Your answer: ")))
        if key == "e" and hold.kind not in SIGN_INS:
            return answer(decode_value(await self._keys.line("Its result, as JSON: ")))
        if key in "123456789" and _takes_digits(hold):
            return answer(self._read(hold, key))
        self._say(f"{plain(key)}? {_keys_of(hold)}")
        return None

    def _read(self, hold: HoldView, text: str) -> object:
        question = hold.question
        if question is not None and question.kind == "form":
            return decode_value(text)
        return read_answer(question, (text,))

    async def _approve(self, hold: HoldView) -> Verdict | None:
        if hold.risk == CRITICAL:
            typed = await self._keys.line(f"It is critical. Type {plain(hold.tool)} to approve: ")
            return approve() if typed == hold.tool else None
        return approve()

    def _edit(self, hold: HoldView) -> Verdict | None:
        with self._keys.usual():
            verdict = changed(hold)
        if verdict.args is None:
            return None
        for line in changes(hold, bytes(verdict.args)):
            self._say(line)
        return verdict

    async def _undo(self) -> None:
        if not self._last:
            self._say("There is nothing of yours to take back.")
            return
        try:
            await self._desk.undo(self._last)
        except SaysoError as error:
            self._say(told(error))
            return
        self._say(f"Taken back: {plain(self._last)} waits again.")
        self._skipped.discard(self._last)
        self._count -= 1
        self._last = ""

    def _show(self, hold: HoldView, count: int) -> None:
        click.echo()
        self._say(f"{count} waiting, {datetime.now(UTC):%H:%M:%S} UTC")
        for line in card(hold, full=self._full):
            click.echo(line)
        self._say(_keys_of(hold))

    def _say(self, text: str) -> None:
        for line in broken(text, 0):
            click.echo(line)


def _keys_of(hold: HoldView) -> str:
    by_words = hold.question is not None and not _takes_digits(hold)
    return f"{_IN_WORDS if by_words else _KEYS.get(hold.kind, _OTHERS)}  {_ALWAYS}"


def _takes_digits(hold: HoldView) -> bool:
    """Tell whether a digit is an answer, and not only how one begins: of a number, or of words."""
    return hold.question is not None and 0 < len(choices_of(hold.question)) <= DIGITS
