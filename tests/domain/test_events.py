"""The golden files: every kind of entry that was ever written can be read, and is written so again.

They are only ever added to, by running `specimen.py`; SHA256SUMS shows it if one was changed.
"""

import hashlib
import json
import re
from typing import get_args

import msgspec
import pytest

from sayso.domain import events as e
from sayso.domain.call import Outcome
from sayso.domain.codec import decode_event, encode_event
from sayso.domain.hold import Ask, Verdict
from sayso.domain.message import Message
from sayso.domain.recorded import Recorded
from sayso.domain.run import FOLD

from .build import begun
from .specimen import GOLDEN, GOLDENS, SPECIMENS, SUMS

TYPES: tuple[type[e.Event], ...] = get_args(e.AnyEvent)


def golden(name: str) -> bytes:
    return (GOLDEN / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", GOLDENS)
def test_a_golden_file_is_read_as_what_was_written(name: str):
    assert decode_event(golden(name)) == GOLDENS[name]


@pytest.mark.parametrize("name", GOLDENS)
def test_an_event_is_written_as_its_golden_file(name: str):
    assert encode_event(decode_event(golden(name))) == golden(name)


@pytest.mark.parametrize("name", GOLDENS)
def test_a_golden_file_is_json_that_anybody_can_read(name: str):
    assert json.loads(golden(name))["type"] == name.partition("-")[0]


def test_every_kind_of_event_has_a_golden_file():
    assert {type(event) for event in SPECIMENS} == set(TYPES)
    assert {path.stem for path in GOLDEN.glob("*.json")} >= set(GOLDENS)


def test_a_new_kind_of_event_raises_the_fold_number():
    """Older code beside it leaves a run alone by that number, before it meets the event."""
    assert (len(TYPES), FOLD) == (37, 5), "raise FOLD with every new tag, and note both here"


def test_every_golden_file_is_tested():
    assert {path.stem for path in GOLDEN.glob("*.json")} <= set(GOLDENS)


def test_no_golden_file_was_ever_changed():
    noted = dict(
        reversed(line.split("  ")) for line in SUMS.read_text(encoding="utf-8").splitlines()
    )
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in GOLDEN.glob("*.json")
    }

    assert found == noted


def structs(value: object) -> list[msgspec.Struct]:
    match value:
        case msgspec.Struct():
            inside = [getattr(value, field) for field in value.__struct_fields__]
            return [value, *(found for one in inside for found in structs(one))]
        case tuple():
            return [found for one in value for found in structs(one)]
        case _:
            return []


KINDS = {type(struct) for event in GOLDENS.values() for struct in structs(event)}


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.__name__))
def test_every_field_of_every_value_says_something_in_a_golden_file(kind: type[msgspec.Struct]):
    found = [s for event in GOLDENS.values() for s in structs(event) if type(s) is kind]

    for field in msgspec.structs.fields(kind):
        said = {repr(getattr(struct, field.name)) for struct in found}
        assert said - {repr(field.default)}, field.name


@pytest.mark.parametrize("union", [Ask, Verdict, Outcome, Message])
def test_every_kind_of_value_inside_an_event_is_in_a_golden_file(union: object):
    found = {type(struct) for event in GOLDENS.values() for struct in structs(event)}

    assert found >= set(get_args(union))


@pytest.mark.parametrize("kind", TYPES)
def test_a_tag_names_the_event_and_its_version(kind: type[e.Event]):
    tag = str(kind.__struct_config__.tag)

    words = re.findall("[A-Z][a-z]+", kind.__name__)
    assert re.fullmatch(r"[a-z_]+\.[a-z_]+\.[1-9][0-9]*", tag)
    assert re.findall("[a-z]+", tag) == [word.lower() for word in words]


def test_a_recorded_event_goes_by_its_tag_without_the_version():
    recorded = Recorded(run_id="run_1", seq=1, at=1, event=begun())

    assert recorded.type == "run.started"
    assert msgspec.structs.replace(recorded, event=None).type == "redacted"
