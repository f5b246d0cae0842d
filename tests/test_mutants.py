"""The table of mutants fits the code: every guard is where it says, and every test is there.

Whether the tests catch them is for `make mutants`, which takes its time.
"""

import importlib

import pytest

from mutants.mutant import ROOT, Mutant, Rotten
from mutants.table import load
from mutants.trial import Copy, check_clean

MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_the_code(mutant: Mutant) -> None:
    mutant.apply((ROOT / mutant.path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("node", sorted({mutant.test for mutant in MUTANTS}))
def test_the_test_that_must_notice_is_there(node: str) -> None:
    file, *path = node.split("[", maxsplit=1)[0].split("::")
    found = importlib.import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")

    for name in path:
        found = getattr(found, name)

    assert callable(found)


def test_no_two_mutants_have_a_name_in_common() -> None:
    names = [mutant.name for mutant in MUTANTS]

    assert len(set(names)) == len(names)


def mutant(**changes: str) -> Mutant:
    fields = {
        "name": "a no starts the call",
        "file": "domain/standing.py",
        "old": "return isinstance(verdict, Approved)",
        "new": "return True",
        "test": "domain/test_verbs.py::test_a_rejected_call_is_declined_and_the_model_goes_on",
    }
    return Mutant(**{**fields, **changes})


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"old": "no such line"}, "0 times"),
        ({"old": "return"}, "times in domain/standing.py"),
        ({"new": "return isinstance(verdict, Approved)"}, "changes nothing"),
        ({"new": "return ("}, "not Python"),
    ],
)
def test_a_mutant_that_does_not_fit_says_so(changes: dict[str, str], why: str) -> None:
    rotten = mutant(**changes)

    with pytest.raises(Rotten, match=why):
        rotten.apply((ROOT / rotten.path).read_text(encoding="utf-8"))


TRIALS = {
    "caught": {},
    "SURVIVED": {"test": "domain/test_verbs.py::test_cancelling_twice_changes_nothing"},
    "BROKEN": {"new": "return nobody_knows_this"},
    "ROTTEN": {"old": "no such line"},
}


def test_a_trial_tells_a_mutant_that_is_caught_from_all_others(tmp_path) -> None:
    copy = Copy(tmp_path)
    before = (tmp_path / mutant().path).read_text(encoding="utf-8")

    found = {word: copy.try_mutant(mutant(**changes)) for word, changes in TRIALS.items()}
    nowhere = copy.try_mutant(mutant(test="domain/test_verbs.py::test_that_is_not_there"))
    unsound = check_clean(copy, [mutant().node, "tests/domain/test_verbs.py::test_not_there"])

    assert {word: verdict.word for word, verdict in found.items()} == {word: word for word in found}
    assert nowhere.word == "BROKEN"
    assert list(unsound) == ["tests/domain/test_verbs.py::test_not_there"]
    assert (tmp_path / mutant().path).read_text(encoding="utf-8") == before
    assert (ROOT / mutant().path).read_text(encoding="utf-8") == before
