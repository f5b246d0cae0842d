"""Every cell of the table, through the library.

Method: for each relation and state one stage, and on it everybody tries everything. A refusal must
be the one that the table says, and leave behind nothing: no entry, no changed record, no effect.
What is allowed is done to a run of its own, and must leave its entry.
"""

from __future__ import annotations

import inspect
from collections import Counter
from pathlib import Path

import pytest

from sayso import Sayso
from sayso.engine.grants import Grants
from sayso.engine.people import People
from sayso.store.keyring import VARIABLE, new_key
from tests.engine.kit import Place

from . import table
from .stage import Stage, play, stage


@pytest.mark.parametrize("relation, state", table.places())
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_everybody_may_do_what_the_table_says_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, relation: str, state: str
) -> None:
    monkeypatch.setenv(VARIABLE, new_key())
    mine = [one for one in table.cells() if (one.relation, one.state) == (relation, state)]
    if kind == "sqlite":
        # The rules are the same code on every store: enough to see that the file holds to them.
        mine = [one for one in mine if one.verb in ("approve", "reassign", "undo", "cancel")]
    wrong: list[str] = []
    async with stage(Place(kind, tmp_path), relation, state, Stage) as there:
        for cell in sorted(mine, key=lambda one: one.expected == table.OK):
            wrong += await play(there, cell)
    assert not wrong, f"{len(wrong)} of {len(mine)}:\n" + "\n".join(wrong)


def test_the_table_has_the_cells_that_it_should_have() -> None:
    found = list(table.cells())

    assert len(found) == len(set(found)) == table.COUNT
    assert {one.who for one in found} == set(table.WHO)
    assert {one.verb for one in found} == set(table.VERBS) == set(table.METHODS)
    assert {one.state for one in found} == set(table.STATES)
    assert {one.relation for one in found} == {*table.RELATIONS, "grant", "sign_in", "none"}


def test_every_verb_is_allowed_somewhere_and_refused_somewhere() -> None:
    said = Counter((one.verb, one.expected == table.OK) for one in table.cells())

    sometimes = {verb for verb in table.VERBS if said[verb, True]}
    refused = {verb for verb in table.VERBS if said[verb, False]}
    # A run is adopted in another store: here it exists already, for whoever may.
    assert sometimes == set(table.VERBS) - {"adopt"}
    assert refused == set(table.VERBS)


def test_nobody_who_is_no_person_of_the_project_decides_anything() -> None:
    strangers = set(table.WHO) - table.MEMBERS - {"service_named"}
    deciding = ("approve", "reject", "answer", "fail", "edit", "resume", "reassign")
    for one in table.cells():
        if one.who in strangers and one.verb in deciding:
            assert one.expected == "NotAllowed", one


def test_every_verb_that_acts_for_somebody_is_in_the_table() -> None:
    """A new one is added to the table, or this fails."""
    found = {
        f"{prefix}{name}"
        for prefix, kind in (("", Sayso), ("grants.", Grants), ("people.", People))
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and "by" in inspect.signature(method).parameters
    }
    # What the engine asks, not somebody.
    inside = {"grants.give", "people.authority", "people.acting", "people.owning", "people.wants"}
    # What only looks: tests/server holds it to its own table.
    inside.add("window")

    assert found - inside == set(table.METHODS.values())
    assert inside <= found
