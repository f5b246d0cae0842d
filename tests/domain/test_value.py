import msgspec
import pytest

from sayso.domain.call import Declined, Returned, call_id
from sayso.domain.value import CLOCK, Principal, person

from .build import MIRA


def test_a_bare_id_is_a_person():
    assert person("mira") == MIRA
    assert MIRA.kind == "person"


def test_a_principal_stays_what_it_is():
    bot = Principal(kind="agent", id="mira")

    assert person(bot) is bot


def test_a_name_alone_in_a_log_is_a_person():
    assert str(MIRA) == "mira"
    assert str(Principal(kind="service", id="mira")) == "service:mira"
    assert str(CLOCK) == "clock:clock"


def test_an_agent_with_a_persons_name_is_not_that_person():
    assert Principal(kind="agent", id="mira") != MIRA


def test_values_do_not_change():
    with pytest.raises(AttributeError):
        MIRA.id = "eve"  # pyright: ignore[reportAttributeAccessIssue]


def test_values_are_built_by_name():
    with pytest.raises(TypeError):
        Principal("mira")  # pyright: ignore[reportCallIssue]


def test_a_field_that_is_not_known_is_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"id":"mira","admin":true}', type=Principal)


def test_an_unknown_kind_of_principal_is_refused():
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"id":"mira","kind":"root"}', type=Principal)


def test_a_call_has_one_id_for_ever():
    assert call_id("run_1", "2.0") == "run_1.2.0"


def test_a_result_is_parsed_from_its_bytes():
    assert Returned(value=msgspec.Raw(b'{"paid":12400.0}')).result() == {"paid": 12400.0}


def test_a_result_larger_than_an_argument_may_be_is_still_read():
    value = msgspec.Raw(b'"' + b"a" * 300_000 + b'"')

    assert len(Returned(value=value).result()) == 300_000


def test_a_result_shows_its_value():
    returned = Returned(value=msgspec.Raw(b'{"paid":12400.0}'))

    assert repr(returned) == 'Returned(value={"paid":12400.0})'


def test_outcomes_are_told_apart_by_their_tag():
    data = msgspec.json.encode(Declined(reason="no", by="mira"))

    assert data == b'{"is":"declined","reason":"no","by":"mira"}'
    assert msgspec.json.decode(data, type=Declined | Returned) == Declined(reason="no", by="mira")
