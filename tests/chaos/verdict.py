"""What must be so once the storm is over, whatever has happened."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sayso.domain import events as e
from sayso.domain.hold import Answered, Approved, Decision, hold_id
from sayso.store.base import Store
from sayso.store.journal import read_journal, recorded
from sayso.store.query import RunQuery
from tests.chaos.bank import TOOLS, Bank
from tests.engine.judge import judge


async def hold_against(store: Store, bank: Bank, runs: int) -> dict[str, int]:
    """Hold a store against the books and against what everybody was told; give figures.

    Beyond what the judge of every test asserts (chains, folds, one outcome a hold, nothing without
    a yes), every run is final and nobody's, every payment was made once if people wanted it, and
    every answer that anybody was given is what stands.
    """
    await judge(store, bank, TOOLS)
    paid = Counter(bank.effects())
    stands: dict[str, Decision] = {}
    figures: Counter[str] = Counter()
    found: list[str] = []
    left, unpaid = list[str](), list[str]()
    before: str | None = None
    while page := await store.runs(RunQuery(before=before, limit=500)):
        for row in page:
            found.append(row.id)
            left += [row.id] if (row.status, row.owner) != ("completed", "") else []
            events = [recorded(one).event for one in await read_journal(store, row.id)]
            wanted = _read(row.id, events, stands, figures)
            key = f"{row.id}.1.0"
            times = paid.pop(key, 0)
            assert times <= wanted, f"{row.id} was paid {times} times, not {wanted}: {events}"
            unpaid += [row.id] if times < wanted else []
            figures["paid"] += wanted
        before = page[-1].id
    assert not paid, f"payments that nobody wanted: {paid}"
    assert not left, f"not completed, or still somebody's: {left}"
    assert not unpaid, f"approved, and never paid: {unpaid}"
    assert len(found) == runs
    _check_told(bank, set(found), stands, figures)
    figures["runs"] = runs
    return dict(figures)


def _read(
    run_id: str, events: list[Any], stands: dict[str, Decision], figures: Counter[str]
) -> int:
    """Take note of a run's decisions; say how many payments people wanted."""
    wanted, doubts = 0, set()
    for event in events:
        match event:
            case e.HoldOpened(hold=n, ask=ask) if type(ask).__name__ == "InDoubt":
                doubts.add(n)
                figures["doubts"] += 1
            case e.HoldSettled(hold=n, decision=decision):
                stands[hold_id(run_id, n)] = decision
                yes = isinstance(decision.verdict, Approved)
                # That it happened, or is to happen now, is one payment; that it is not to, none.
                wanted = int(yes or (n in doubts and isinstance(decision.verdict, Answered)))
                figures["approved" if yes else decision.word] += n not in doubts
            case e.RunTakenOver(proof=proof):
                figures[f"taken over ({proof})"] += 1
            case e.LateResult():
                figures["late results"] += 1
            case e.AttemptVoided():
                figures["voided attempts"] += 1
            case _:
                pass
    return wanted


def _check_told(
    bank: Bank, runs: set[str], stands: dict[str, Decision], figures: Counter[str]
) -> None:
    started: dict[int, str] = {}
    for said in bank.told():
        match said:
            case {"raw": raw}:
                raise AssertionError(f"somebody was told {raw}")
            case {"start": n, "run": run_id}:
                assert run_id in runs, f"the acknowledged run {run_id} is not there"
                assert started.setdefault(n, run_id) == run_id, f"run {n} was started twice"
            case {"hold": hold, "by": by, "key": key}:
                now = stands[hold]
                word = said.get("decided") or said.get("told")
                assert (now.word, now.by.id, now.key) == (word, by, key), f"{said}, and now {now}"
                figures["told that it is decided" if "told" in said else "acknowledged"] += 1
            case {"doubt": hold}:
                assert hold in stands
                figures["doubts settled"] += 1
            case {"error": name}:
                figures[f"told {name}"] += 1
            case _:
                raise AssertionError(f"what is {said}?")
    assert len(started) == len(runs)
