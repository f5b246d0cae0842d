"""Secrets among arguments: what stands for them, and how they are kept out of what is said."""

from __future__ import annotations

import base64
import copy
import json
import pickle
from typing import Any
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter

from sayso import Secret
from sayso.domain import secret
from sayso.domain.digest import decode_value, encode_value
from sayso.domain.secret import Veil
from sayso.errors import BadValue

TOKEN, OTHER = "k1.c2VhbGVk", "k1.b3RoZXI"


def close(data: bytes) -> str:
    return "k1." + base64.urlsafe_b64encode(data).decode().rstrip("=")


def reveal(token: str) -> bytes:
    text = token.partition(".")[2]
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encoded(value: Any) -> bytes:
    return encode_value(value)


# The type


def test_a_secret_shows_itself_to_nobody():
    made = Secret("hunter2")

    assert made.reveal() == "hunter2"
    for shown in (repr(made), str(made), f"{made}", f"{made:>20}", repr([made]), f"{made}"):
        assert "hunter2" not in shown
        assert "[secret]" in shown


def test_secrets_are_equal_by_their_text():
    assert Secret("é\ud800") == Secret("é\ud800")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_a_secret_is_a_text():
    with pytest.raises(BadValue, match="not of type bytes"):
        Secret(b"hunter2")  # pyright: ignore[reportArgumentType]


def test_a_secret_is_not_written_anywhere():
    made = Secret("hunter2")

    with pytest.raises(TypeError):
        pickle.dumps(made)
    with pytest.raises(TypeError):
        json.dumps(made)
    assert copy.copy(made) is copy.deepcopy(made) is made
    assert not hasattr(made, "__dict__")


class Login(BaseModel):
    password: Secret


def test_pydantic_reads_a_secret_and_writes_none():
    made = Login.model_validate_json('{"password": "hunter2"}')

    assert made.password.reveal() == "hunter2"
    assert Login(password=Secret("x")).password == Secret("x")
    assert "hunter2" not in made.model_dump_json() + repr(made) + str(made.model_dump())
    assert made.model_dump()["password"] is made.password
    schema = TypeAdapter(Secret).json_schema()
    assert schema == {"type": "string", "format": "password", "writeOnly": True}
    with pytest.raises(ValueError, match="valid string"):
        Login.model_validate({"password": 5})


# What stands for them


def test_what_is_sealed_opens_to_the_same():
    frozen = encoded({"user": "mira", "keys": [{"$secret": "a"}, {"$secret": {"pin": 1}}]})

    sealed = secret.seal(frozen, close)

    assert secret.is_sealed(sealed)
    assert secret.tokens(sealed) == [close(b'"a"'), close(b'{"pin":1}')]
    assert secret.unseal(sealed, reveal) == frozen
    assert secret.opened(frozen) == ["a", {"pin": 1}]
    assert decode_value(secret.unwrap(frozen)) == {"user": "mira", "keys": ["a", {"pin": 1}]}


def test_a_mask_shows_which_secrets_are_the_same_and_nothing_else():
    value = {"a": {"$sealed": TOKEN}, "b": [{"$sealed": TOKEN}, {"$sealed": OTHER}], "n": 1}

    masked = secret.mask(value)

    mark, other = secret.mark_of(TOKEN), secret.mark_of(OTHER)
    assert masked == {"a": {"$sealed": mark}, "b": [{"$sealed": mark}, {"$sealed": other}], "n": 1}
    assert mark != other
    assert len(mark) == 16
    assert secret.mask(masked) == masked
    assert secret.mask_args(encoded(value)) == encoded(masked)
    assert secret.mark_in({"$sealed": TOKEN}) == secret.mark_in({"$sealed": mark}) == mark


def test_arguments_without_secrets_are_the_same_bytes():
    args = b'{"note": "not even canonical"}'

    assert secret.mask_args(args) is args
    assert secret.blank(args) is args


@pytest.mark.parametrize(
    "value",
    [
        {"$sealed": 5},
        {"$sealed": "no token"},
        {"$sealed": TOKEN, "more": 1},
        {"$secret": "x"},
        "$sealed",
        ["$sealed", TOKEN],
        None,
    ],
)
def test_what_only_looks_like_a_secret_is_none(value: Any):
    assert secret.mark_in(value) is None
    assert secret.mask(value) == value


def test_calls_are_compared_without_their_secrets():
    one = encoded({"user": "mira", "password": {"$sealed": TOKEN}})
    other = encoded({"user": "mira", "password": {"$sealed": OTHER}})
    third = encoded({"user": "jiro", "password": {"$sealed": TOKEN}})

    assert secret.blank(one) == secret.blank(other) != secret.blank(third)


@pytest.mark.parametrize(
    "value",
    [
        {"$sealed": TOKEN},
        {"$secret": "x"},
        {"a": [{"b": {"$sealed": None}}]},
        [{"$secret": 1, "more": 2}],
    ],
)
def test_an_argument_from_outside_cannot_look_sealed(value: Any):
    with pytest.raises(BadValue, match="only Sayso writes"):
        secret.check_plain(value)


def test_other_arguments_are_plain():
    secret.check_plain({"$set": ["$sealed", {"sealed": "$secret"}], "n": None})


def test_frozen_arguments_have_open_only_what_their_tool_opens():
    mine = encoded({"a": {"$secret": "x"}})
    like = encoded({"a": {"$secret": "x"}, "b": {"$sealed": TOKEN}})

    secret.check_frozen(encoded({"a": "$sealed"}), opens=False)
    secret.check_frozen(b"{}", opens=False)
    secret.check_frozen(mine, opens=True)
    for args, opens in ((mine, False), (like, True), (like, False)):
        with pytest.raises(BadValue, match="only Sayso writes"):
            secret.check_frozen(args, opens=opens)


# Editing


BEFORE = encoded({"note": "a", "keys": [{"$sealed": close(b'"x"')}, {"$sealed": close(b'"y"')}]})
X, Y = secret.mark_of(close(b'"x"')), secret.mark_of(close(b'"y"'))


def edited(value: Any) -> tuple[Any, set[secret.Path]]:
    filled, places = secret.fill_in(encoded(value), secret.with_marks(BEFORE, reveal))
    return decode_value(filled), places


def test_a_mark_that_is_sent_back_stands_for_its_secret():
    found, places = edited({"note": "b", "keys": [{"$sealed": Y}, "new"]})

    assert found == {"note": "b", "keys": ["y", "new"]}
    assert places == {("keys", 0)}


@pytest.mark.parametrize("mark", ["0" * 16, close(b'"x"'), TOKEN])
def test_a_mark_of_nothing_is_refused(mark: str):
    with pytest.raises(BadValue, match="no secret of this call"):
        edited({"keys": [{"$sealed": mark}]})


def test_an_edit_cannot_write_what_only_sayso_writes():
    with pytest.raises(BadValue, match="only Sayso writes"):
        edited({"keys": [{"$secret": "x"}]})


def test_a_secret_cannot_be_moved_to_where_it_would_be_seen():
    filled, places = secret.fill_in(
        encoded({"note": {"$sealed": X}}), secret.with_marks(BEFORE, reveal)
    )

    with pytest.raises(BadValue, match="moved"):
        secret.check_places(filled, places)
    secret.check_places(encoded({"note": {"$secret": "x"}}), places)


# What a body says


def veiled(*values: Any) -> Veil:
    veil = Veil()
    for value in values:
        veil.add(value)
    return veil


# No half of a pair: none can be given to a tool, nor be sent anywhere.
TEXT = st.characters(exclude_categories=["Cs"], exclude_characters="[secrt]")


@given(st.text(TEXT, min_size=4), st.text(), st.text())
def test_a_secret_is_in_no_text_in_any_form(text: str, before: str, after: str):
    veil = veiled(text)

    for form in (text, json.dumps(text)[1:-1], repr(text)[1:-1]):
        assert text not in veil.text(f"{before}{form}{after}")
        assert veil.text(f"<{form}>") == "<[secret]>"
    assert veil.text(f"<{quote_plus(text)}>") == "<[secret]>"


def test_a_secret_in_base64_is_found():
    veil = veiled("hunter2-hunter2")

    header = base64.b64encode(b"hunter2-hunter2").decode()
    assert veil.text(f"Authorization: {header}") == "Authorization: [secret]"


def test_all_texts_of_a_secret_are_found():
    veil = veiled({"user": "mira-mira", "keys": ["hunter2", 5]})

    assert veil.lifted
    assert veil.text("mira-mira: hunter2, user 5") == "[secret]: [secret], user 5"


def test_a_short_secret_is_not_looked_for():
    veil = veiled("abc", 1234, None)

    assert veil.lifted
    assert veil.text("abc 1234") == "abc 1234"
    assert veil.value(b'"abc"') == b'"abc"'


def test_the_longest_form_is_taken_out_first():
    assert veiled("hunter", "hunter22").text("hunter22 hunter") == "[secret] [secret]"


def test_a_result_keeps_everything_but_the_secret():
    data = encoded({"hunter2": ["say hunter2", 1.0, None, True], "other": {"n": 12400}})

    found = decode_value(veiled("hunter2").value(data))

    assert found == {"[secret]": ["say [secret]", 1.0, None, True], "other": {"n": 12400}}
    assert veiled("hunter2").covers(data)
    assert not veiled("hunter3").covers(data)
    assert not Veil().covers(b"not even JSON")
    assert not Veil().lifted
    assert Veil().value(b"not even JSON") == b"not even JSON"
