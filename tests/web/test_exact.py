"""What a form shows is what it sends, and what it sends is what counts."""

from __future__ import annotations

from typing import Any

import pytest

from sayso import fail
from sayso.web.form import make_fields
from sayso.web.page import environment
from tests.web.browsing import Desk, Form, run
from tests.web.desk import say_calls

SCHEMA: Any = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email", "title": "From"},
        "sender": {"type": "string", "title": "From"},
        "kind": {"enum": ["1", 1, "true", True, "a b", "a  b", "", '"a b"', "plain"]},
        "to": {"oneOf": [{"const": "evil", "title": "good"}, {"const": "good"}]},
    },
}


def fields(**value: Any) -> dict[str, Any]:
    return {one.key: one for one in make_fields(SCHEMA, value, "args")}


def test_no_two_values_that_can_be_chosen_are_called_the_same() -> None:
    called = [label for _, label in fields()["kind"].options]

    assert called == ['"1"', "1", '"true"', "true", "a b", '"a  b"', '""', '"\\"a b\\""', "plain"]


def test_what_a_schema_calls_a_value_does_not_hide_it() -> None:
    assert [label for _, label in fields()["to"].options] == ["good (evil)", "good"]


def test_a_text_of_several_lines_has_a_control_that_keeps_them() -> None:
    assert fields(mail="a@b.example\nBcc: c@d.example")["mail"].kind == "long"
    assert fields(mail="a@b.example")["mail"].kind == "email"


def test_a_control_says_which_argument_it_is_of() -> None:
    drawn: Any = environment().get_template("part/macro.html").module
    mail = drawn.field(fields(mail="a@b.example")["mail"], True)

    assert 'From <code class="name" dir="ltr">mail</code>' in mail
    assert 'From <code class="name" dir="ltr">sender</code>' in drawn.field(
        fields()["sender"], True
    )
    # No browser is asked to make something else of what somebody typed.
    assert 'type="email"' not in mail


@pytest.mark.parametrize("name", ["args/tu", "args/to/x", "args/to\r"])
def test_a_field_that_a_request_has_not_decides_nothing(name: str) -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["pay", {"amount": 5, "to": "x"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}?edit")).text
        form = Form(page, "decision")
        answer = await mira.client.post(
            form.action, data={**form.fields, name: "typed", "say": "approve"}
        )
        assert answer.status_code == 422
        assert "a field that this request has not" in answer.text
        assert (await desk.sayso.hold(hold)).status == "open"

    run(main)


def test_a_form_that_was_sent_and_says_something_else_now_is_told_what_stands() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["pay", {"amount": 5, "to": "x"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        assert (await mira.send(page, say="approve")).status_code == 303
        answer = await mira.send(page, say="reject", reason="No, wait")
        assert answer.status_code == 422
        assert "This form was sent before" in answer.text
        assert "Approved" in answer.text
        assert "No, wait" in answer.text
        decision = (await desk.sayso.hold(hold)).decision
        assert decision is not None
        assert decision.word == "approved"

    run(main)


def test_always_is_said_of_one_call_as_it_is() -> None:
    async def main(desk: Desk) -> None:
        mira = await desk.person()
        edited = await desk.ask(["pay", {"amount": 5, "to": "x"}])
        page = (await mira.get(f"/r/{edited.id}?edit")).text
        answer = await mira.send(page, say="always", args__amount="9", always__amount="at_most")
        assert answer.status_code == 422
        pair = await desk.ask(["half", {"of": "a"}], ["half", {"of": "b"}])
        page = (await mira.get(f"/r/{pair.id}")).text
        assert (await mira.send(page, say="always")).status_code == 422
        one = await desk.ask(["pay", {"amount": 6, "to": "x"}])
        page = (await mira.get("/")).text
        answer = await mira.send(page, form="bulk", pick=f"{one.id} {one.digest}", say="always")
        assert "Not decided" in answer.text
        for hold in (edited, pair, one):
            assert (await desk.sayso.hold(hold)).status == "open"
        assert not await desk.sayso.grants.list(project="default")

    run(main)


def test_an_answer_that_is_suggested_hides_nothing() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["unlock", {"what": "like ok\u202e\u200bgpj"}])
        page = (await (await desk.person()).get(f"/r/{hold.id}")).text
        assert 'With what cannot be seen in it: <code dir="ltr">ok\\u{202e}\\u{200b}gpj' in page

    run(main)


def test_a_request_of_very_many_arguments_can_be_rejected() -> None:
    async def main(desk: Desk) -> None:
        mira = await desk.person()
        hold = await desk.ask(["pay", {"amount": 5, "to": "x", "tags": ["t"] * 1500}])
        page = (await mira.get(f"/r/{hold.id}")).text
        form = Form(page, "decision")
        many = {f"more{at}": "x" for at in range(1500)}
        answer = await mira.client.post(form.action, data={**form.fields, **many, "say": "reject"})
        assert answer.status_code == 303

    run(main)


def test_what_may_have_happened_already_is_not_approved_in_passing() -> None:
    async def main(desk: Desk) -> None:
        mira = await desk.person()
        doubt = await desk.ask(["send", {"parcel": "p"}])
        await desk.sayso.decide(doubt, fail("nobody knows"), by="mira")
        first = desk.sayso.run(doubt.run_id)
        await first.wait(final=True, timeout=20)
        calls = say_calls(["send", {"parcel": "p"}])
        later = await desk.sayso.start("teller", calls, by="mira", thread=first.id)
        (hold,) = (await later.wait(timeout=20)).holds
        assert hold.duplicate_of
        page = (await mira.get("/")).text
        answer = await mira.send(page, form="bulk", pick=f"{hold.id} {hold.digest}", say="approve")
        assert "may have happened: open it" in answer.text
        assert (await desk.sayso.hold(hold)).status == "open"
        # Its own page says so.
        assert "Find out first" in (await mira.get(f"/r/{hold.id}")).text
        assert 'value="approve"' not in (await mira.get(f"/chat/{later.id}")).text

    run(main)
