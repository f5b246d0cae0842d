"""Deciding: one path behind every channel.

Rule 1: an answer is given only once the decision is durable, and whoever comes second is told what
stands: who decided what, and when.
Rule 2: a decision acts on a hold's id, version and digest: never on a position, a tool's name or
the last thing that was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, cast

import msgspec

from sayso.domain import codec, settling, verbs
from sayso.domain import events as e
from sayso.domain.digest import suspension_digest
from sayso.domain.entitled import entitled
from sayso.domain.hold import (
    SIGN_INS,
    Answered,
    Approved,
    Decision,
    Expired,
    Verdict,
    hold_id,
    may_decide,
    name_approvers,
    read_id,
)
from sayso.domain.lifecycle import apply_all
from sayso.domain.people import Authority
from sayso.domain.question import Question
from sayso.domain.run import Run
from sayso.domain.settling import Draft
from sayso.domain.transcript import Transcript
from sayso.domain.value import Principal
from sayso.engine.edit import Edit, read_edit
from sayso.engine.giving import giving_of
from sayso.engine.ids import look_up
from sayso.engine.keys import check_text, idempotency_key, is_retry
from sayso.engine.ledger import Takes, Written
from sayso.engine.parts import Parts
from sayso.engine.request import REASON_MAX, Decide, check_request
from sayso.engine.voters import (
    Standing,
    check_over,
    check_votes,
    escalate,
    lapse,
    records_moved,
    standing_of,
    while_records_move,
)
from sayso.errors import (
    AlreadyDecided,
    CannotUndo,
    ConditionFailed,
    HoldExpired,
    KeyReused,
    NotAllowed,
    NotUnderstood,
    NotWhatWasShown,
    Refused,
    UnknownHold,
    UnknownRun,
    WrongVerdict,
)
from sayso.store.base import Entry, HoldFound, Key
from sayso.store.journal import decode, read_holds
from sayso.store.views import HoldView, view_among

SHORT_MAX = 20
"""A journal with no more entries is read with the run that somebody decides on; a longer one later,
so that no history makes deciding slow.
"""
MASK = b'"[sensitive]"'
"""What is seen of a sensitive answer."""


class Decider:
    """Settles holds."""

    def __init__(self, parts: Parts, takes: Takes) -> None:
        self._parts = parts
        self._takes = takes

    async def decide(self, hold: str, request: Decide) -> Decided:
        """Decide a hold."""
        check_request(request)
        run_id, n = _place("hold", hold)
        try:
            done = await self._settle(run_id, [n], request, scope=hold)
        except UnknownRun:
            raise UnknownHold(f"there is no hold {hold!r}") from None
        settled = [event for event in done.events if isinstance(event, e.HoldSettled)]
        decision = settled[0].decision if settled else None
        return Decided(decision=decision, view=done.view(n))

    async def reassign(
        self, hold: str, *, to: Principal, by: Principal, note: str = ""
    ) -> HoldFound:
        """Let somebody else decide in one's place."""
        check_text(note, "the note", REASON_MAX)
        run_id, n = _place("hold", hold)
        project = (await self._found(run_id, n)).project

        async def attempt() -> None:
            who = await self._parts.records.authority(project, by)
            target = await self._parts.records.authority(project, to)
            now = self._parts.store.now()

            def verb(run: Run) -> list[e.Event]:
                draft = Draft(run)
                draft.add(*escalate(run, n, now))
                if run.hold(n) is None:
                    raise UnknownHold(f"there is no open hold {hold!r}")
                from sayso.domain.handing import reassign

                draft.add(*reassign(draft.run, n, to=target, by=who, now=now, note=note))
                return draft.events

            try:
                await self._parts.ledger.write(run_id, verb)
            except UnknownHold:
                raise what_stands(await self._found(run_id, n), who) from None
            except (HoldExpired, ConditionFailed) as error:
                if records_moved(error):
                    raise
                await self._expire(run_id)
                stands = await self._why_not(run_id, [n], who)
                if isinstance(error, HoldExpired) and isinstance(stands, NotAllowed):
                    raise  # An operator is not among those asked, and was told the truth.
                raise stands from None

        await while_records_move(attempt)
        return await self._found(run_id, n)

    async def resume(self, name: str, request: Decide) -> list[HoldFound]:
        """Decide everything that a suspension still asks, all or nothing."""
        check_request(request)
        run_id, suspension = _place("req", name)
        from sayso.store.query import HoldQuery

        query = HoldQuery(run_id=run_id, suspension=suspension, status="any")
        found = await read_holds(self._parts.store, query)
        if not found:
            raise UnknownHold(f"there is no request {name!r}")
        digests = {one.row.n: one.row.digest for one in found}
        digest = suspension_digest(request_id=name, members=list(digests.values()))
        if request.digest is not None and request.digest != digest:
            raise NotWhatWasShown(digest=digest)
        # What is decided together is decided without what else was asked at the same time.
        whole = [one for one in found if _is_together(one)] or found
        asked = [one.row.n for one in whole if one.row.status == "open"]
        asked = asked or [whole[0].row.n]
        # Without a digest nobody was shown anything: then only what was never edited is decided.
        shown = digests if request.digest is not None else None
        request = msgspec.structs.replace(request, whole=True)
        await self._settle(run_id, asked, request, scope=name, digests=shown)
        return await read_holds(self._parts.store, query)

    async def undo(self, hold: str, *, by: Principal) -> HoldFound:
        """Take back one's own decision before it is effective."""
        run_id, n = _place("hold", hold)
        project = (await self._found(run_id, n)).project
        who = await self._parts.records.authority(project, by)
        if not who.active:
            raise NotAllowed(f"{who.by} may not take anything back: they are no longer active")
        now = self._parts.store.now()
        try:
            await self._parts.ledger.write(
                run_id, lambda run: settling.undo(run, n, by=who.by, now=now)
            )
        except ConditionFailed:
            raise CannotUndo from None  # It has become effective meanwhile.
        return await self._found(run_id, n)

    async def _settle(
        self,
        run_id: str,
        ns: Sequence[int],
        request: Decide,
        *,
        scope: str,
        digests: dict[int, str] | None = None,
    ) -> _Done:
        verdicts = await self._read_answers(run_id, ns, request)
        key = await self._key(run_id, request, scope, verdicts)

        async def attempt() -> _Done:
            # Whoever will go on with the run here needs its journal as well.
            going_on = any(map(self._takes, self._parts.drivers))
            standing = await standing_of(
                self._parts, run_id, ns, request.by, journal_max=SHORT_MAX if going_on else 0
            )
            who = standing.who
            if key is not None and await is_retry(self._parts.store, key):
                await self._check_stands(run_id, ns, request, who)
                return _Done()
            edit = await read_edit(self._parts, run_id, ns, request.verdict)
            giving = await giving_of(self._parts, run_id, ns, request, edit)

            desk_key = self._parts.desk_key
            transcript = None if desk_key is None else await self._seen(run_id)

            def verb(run: Run) -> list[e.Event]:
                before, found = run, list[e.Event]()
                for n in ns:
                    shown = request.digest if digests is None else digests[n]
                    settling.check_shown(run, n, shown)
                    if transcript is not None:
                        from sayso.engine.genuine import check_genuine

                        check_genuine(run, n, transcript, request.shown)
                    one = _One(n=n, verdict=verdicts[n], edit=edit, alone=len(ns) == 1)
                    events = self._events(run, one, request, standing)
                    if desk_key is not None:
                        from sayso.domain.signing import sign_events

                        events = sign_events(run, events, desk_key.sign)
                    events += giving.events(n, events)
                    run = apply_all(run, events)
                    found += events
                return found if len(ns) == 1 else found + settling.follow(before, run, found)

            try:
                written = await self._parts.ledger.write(
                    run_id, verb, takes=self._takes, key=key, items=giving.items, seen=standing.live
                )
            except (Refused, ConditionFailed) as error:
                # An impatient client may have sent the same request twice, and this is the second.
                if key is not None and await is_retry(self._parts.store, key):
                    await self._check_stands(run_id, ns, request, who)
                    return _Done()
                if records_moved(error) or not isinstance(
                    error, UnknownHold | ConditionFailed | HoldExpired
                ):
                    raise
                # Decided, withdrawn or out of time: say what stands instead.
                await self._expire(run_id)
                raise await self._why_not(run_id, ns, who) from None
            return _Done(written, standing.journal)

        return await while_records_move(attempt)

    async def _seen(self, run_id: str) -> Transcript:
        """Read all that there is to see of a run, also what other processes have written."""
        await self._parts.ledger.refresh(run_id)
        return await self._parts.ledger.transcript(run_id)

    async def _check_stands(
        self, run_id: str, ns: Sequence[int], request: Decide, who: Authority
    ) -> None:
        """Refuse to take a request for a retry whose decision was taken back: nothing would be
        decided, and whoever asks would not know.
        """
        for n in ns:
            row = (await self._found(run_id, n)).row
            # One that edits it into something that others must decide leaves it open as well, and
            # so does a vote.
            voted = row.votes and any(vote.by == who.by for vote in codec.decode_votes(row.votes))
            if row.status == "open" and may_decide(row.who, who, row.kind) and not voted:
                raise KeyReused(
                    f"what was decided with the key {request.key!r} was taken back, and "
                    f"{hold_id(run_id, n)!r} is open: decide it with another key"
                )

    async def _read_answers(
        self, run_id: str, ns: Sequence[int], request: Decide
    ) -> dict[int, Verdict]:
        """Check an answer against each question that it answers, and seal what is sensitive."""
        verdict = request.verdict
        found: dict[int, Verdict] = dict.fromkeys(ns, verdict)
        if not isinstance(verdict, Answered):
            return found
        for n in ns:
            opened = decode((await self._found(run_id, n)).opened)
            ask = opened.ask if isinstance(opened, e.HoldOpened) else None
            if not isinstance(ask, Question):
                continue
            from sayso.engine.form import check_any_answer

            value = check_any_answer(ask, bytes(verdict.value))
            if ask.sensitive:
                sealed = self._parts.vault.seal(run_id, value)
                found[n] = Answered(value=msgspec.Raw(MASK), sealed=sealed)
            else:
                found[n] = Answered(value=msgspec.Raw(value))
        return found

    async def _key(
        self, run_id: str, request: Decide, scope: str, verdicts: dict[int, Verdict]
    ) -> Key | None:
        if request.key is None:
            return None
        verdict = codec.encode_verdict(request.verdict)
        run = await self._parts.ledger.load(run_id)
        sealed = any(isinstance(one, Answered) and one.sealed for one in verdicts.values())
        if sealed or (request.edits and await self._edits_secrets(run, verdicts)):
            # What is sensitive must not be found out by trying values against its digest.
            verdict = self._parts.vault.keys().sign("answer", verdict).encode()
        return idempotency_key(
            run.project,
            request.key,
            "decide",
            scope,
            str(request.by),
            request.digest or "",
            verdict,
            *(["even_if_alive"] if request.even_if_alive else []),
            *(["always"] if request.always is not None else []),
        )

    async def _edits_secrets(self, run: Run, ns: Iterable[int]) -> bool:
        """Tell whether a call whose arguments are edited may have secrets among them. By the hold's
        row, which is there still when a decision is sent again.
        """
        driver = self._parts.drivers.get(run.agent)
        names = [(await self._found(run.id, n)).row.tool for n in ns]
        tools = [None if driver is None else driver.tools.get(name) for name in names]
        return any(tool is None or tool.takes_secrets for tool in tools)

    def _events(self, run: Run, one: _One, request: Decide, standing: Standing) -> list[e.Event]:
        now = self._parts.store.now()
        n, verdict, edit, who = one.n, one.verdict, one.edit, standing.who
        check_votes(run, n, standing)
        draft = Draft(run)
        draft.add(*escalate(run, n, now))
        draft.add(*lapse(run, n, standing.lapsed.get(n, ()), now))
        if edit is not None:
            revised = verbs.revise(
                draft.run,
                n,
                args=edit.args,
                digest=edit.digest,
                ruling=edit.ruling,
                by=who,
                now=now,
                policy_version=edit.policy_version,
                operands=edit.operands,
            )
            draft.add(*revised)
            verdict = Approved()
            hold = draft.run.hold(n)
            try:
                assert hold is not None, "it was just revised"
                entitled(draft.run, hold, who)
            except NotAllowed:
                return draft.events  # Edited into something that somebody else must decide.
        open_now = draft.run
        draft.add(
            *settling.settle(
                draft.run,
                n,
                verdict,
                by=who,
                now=now,
                undo_ms=request.undo_ms,
                channel=request.channel,
                key=request.key or "",
                note=request.note,
                whole=request.whole,
                alone=one.alone,
                basis=standing.basis.get(n, ()),
                even_if_alive=request.even_if_alive,
            )
        )
        if isinstance(verdict, Approved) and not request.even_if_alive:
            check_over(open_now, n, standing)
        if not request.signed_in:
            _check_sign_in(open_now, n, verdict)
        return draft.events

    async def _expire(self, run_id: str) -> None:
        def verb(run: Run) -> list[e.Event]:
            return [] if run.final else settling.sweep(run, now=self._parts.store.now())

        try:
            await self._parts.ledger.write(run_id, verb)
        except ConditionFailed:
            return  # Not due by the store's clock after all.

    async def _why_not(self, run_id: str, ns: Sequence[int], by: Authority) -> Exception:
        for n in ns:
            found = await self._found(run_id, n)
            if found.row.status != "open":
                return what_stands(found, by)
        return ConditionFailed("the hold's time is nearly up, and clocks disagree; try again")

    async def _found(self, run_id: str, n: int) -> HoldFound:
        found = await self._parts.store.hold(run_id, n)
        if found is None:
            raise UnknownHold(f"there is no hold {hold_id(run_id, n)!r}")
        return found


def what_stands(found: HoldFound, by: Principal | Authority) -> Exception:
    """Say why a hold that is not open cannot be decided."""
    row = found.row
    name = hold_id(row.run_id, row.n)
    if not may_decide(row.who, by, row.kind):
        who = by.by if isinstance(by, Authority) else by
        return NotAllowed(f"{who} may not decide {name!r}: it asks {name_approvers(row.who)}")
    assert row.decision is not None, "a hold that is not open has a decision"
    decision = codec.decode_decision(row.decision)
    if isinstance(decision.verdict, Expired):
        return HoldExpired(f"{name!r} has expired: nobody decided in time", decision=decision)
    when = datetime.fromtimestamp(decision.at / 1000, UTC).isoformat(timespec="seconds")
    said = f"{name!r} is decided already: {decision.word} by {decision.by} at {when}"
    return AlreadyDecided(said, decision=decision)


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a request to decide a hold."""

    decision: Decision | None
    """None if it was made before, by the same request, or is not made: the hold was edited into
    something that others must decide, or takes the votes of others.
    """
    view: HoldView | None
    """The hold as it is committed now, if that is known without reading it."""


class _Done(NamedTuple):
    written: Written | None = None
    journal: Sequence[Entry] = ()

    @property
    def events(self) -> tuple[e.Event, ...]:
        return () if self.written is None else self.written.events

    def view(self, n: int) -> HoldView | None:
        """Give a hold as it was left, if all that it says was read before, or is said by this."""
        rows = [] if self.written is None else [one for one in self.written.holds if one.n == n]
        if self.written is None or not rows or not self.journal:
            return None
        run, first = self.written.run, self.written.run.seq - len(self.events) + 1
        try:
            said = {entry.seq: decode(entry) for entry in self.journal}
        except NotUnderstood:
            return None  # It is decided all the same.
        said |= enumerate(cast("tuple[e.AnyEvent, ...]", self.events), start=first)
        return view_among(rows[0], said, run.project, run.agent)


class _One(msgspec.Struct, frozen=True, kw_only=True):
    """One of the holds that are decided at once."""

    n: int
    verdict: Verdict
    edit: Edit | None
    alone: bool


def _check_sign_in(run: Run, n: int, verdict: Verdict) -> None:
    hold = run.hold(n)
    if hold is not None and hold.kind in SIGN_INS and isinstance(verdict, Approved):
        name = hold_id(run.id, n)
        raise WrongVerdict(
            f"{name!r} asks for a sign-in, which nobody can say yes to: send "
            f"{name_approvers(hold.approvers)} to app.sign_in_url({name!r}, by=...), or use "
            "reject('why')"
        )


def _is_together(found: HoldFound) -> bool:
    opened = decode(found.opened)
    return isinstance(opened, e.HoldOpened) and opened.together


def _place(prefix: str, name: str) -> tuple[str, int]:
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UnknownHold(
            f"{type(name).__name__} is no id: give one that looks like '{prefix}_….1'"
        )
    place = read_id(prefix, name)
    if place is None:
        raise UnknownHold(f"there is no {name!r}: its id should look like '{prefix}_….1'")
    try:
        look_up(place[0])
    except UnknownRun:
        raise UnknownHold(f"there is no {name!r}") from None
    return place
