"""Deciding with forms, as a browser without scripts sends them."""

from __future__ import annotations

from typing import Any

import pytest

from sayso.domain.hold import Answered, Approved, Rejected
from tests.web.browsing import Desk, run

PAY = ["pay", {"amount": 12400.0, "to": "Nordwind", "reference": 9007199254740993}]


def question(**fields: Any) -> list[Any]:
    return ["ask_user", {"question": "Well?", **fields}]


def test_a_yes_is_a_decision_of_the_session_and_can_be_undone() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        answer = await mira.decide(hold, say="approve", by="jonas", channel="library")
        decided = await desk.sayso.hold(hold.id)

        assert (answer.status_code, answer.headers["location"]) == (303, f"/r/{hold.id}")
        assert decided.status == "decided"
        assert decided.decision is not None
        assert isinstance(decided.decision.verdict, Approved)
        assert (str(decided.decision.by), decided.decision.channel) == ("mira", "web")
        assert decided.decision.effective_at - decided.decision.at == 5000
        assert "Nothing waits for you" in (await mira.get("/")).text

        page = (await mira.get(f"/r/{hold.id}")).text
        assert "Approved" in page
        back = await mira.send(page, form="/undo")
        assert back.status_code == 303
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_looking_decides_nothing() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        for path in (f"/r/{hold.id}?say=approve&seen={hold.digest}", f"/r/{hold.id}/decision"):
            await mira.get(path)

        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_a_form_of_somebody_elses_page_decides_nothing() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira, jonas = await desk.person(), await desk.person("jonas")
        page = (await mira.get(f"/r/{hold.id}")).text
        other = (await jonas.get("/")).text
        csrf = other.partition('data-csrf="')[2].partition('"')[0]

        assert (await mira.send(page, say="approve", csrf=csrf)).status_code == 403
        assert (await mira.send(page, say="approve", csrf="")).status_code == 403
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_a_session_that_may_only_read_decides_nothing() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person(scopes=frozenset({"read"}))

        assert (await mira.decide(hold, say="approve")).status_code == 403
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_a_no_has_its_reason() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        await mira.decide(hold, say="reject", reason="Not\r\nnow")
        decision = (await desk.sayso.hold(hold.id)).decision

        assert decision is not None
        assert decision.verdict == Rejected(reason="Not\nnow")
        assert "Not\nnow" in (await mira.get(f"/r/{hold.id}")).text

    run(main)


def test_edited_arguments_are_exact_and_the_rest_stays() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        answer = await mira.decide(hold, edit="1", say="approve", args__to="Südwind", undo="")
        now = await desk.sayso.hold(hold.id)

        assert answer.status_code == 303
        assert now.args_json == hold.args_json.replace("Nordwind", "Südwind")
        assert '"amount":12400.0' in now.args_json
        assert '"reference":9007199254740993' in now.args_json
        page = (await mira.get(f"/r/{hold.id}")).text
        assert "Approved with changes" in page
        assert "What was asked at first" in page
        assert "Nordwind" in page

    run(main)


def test_an_edit_that_changes_nothing_is_a_plain_yes() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        await (await desk.person()).decide(hold, edit="1", say="approve")

        assert (await desk.sayso.hold(hold.id)).version == 1

    run(main)


@pytest.mark.parametrize(
    "name, typed, said",
    [
        ("args__amount", "a lot", "give a number, such as 1200 or 12.5"),
        ("args__reference", "1.5", "give a whole number, in digits"),
        ("args__currency", '"GBP"', "choose one of these"),
    ],
)
def test_an_edit_that_does_not_fit_comes_back_with_what_was_typed(
    name: str, typed: str, said: str
) -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        answer = await mira.decide(
            hold, edit="1", say="approve", args__memo="kept all the same", **{name: typed}
        )

        assert answer.status_code == 422
        assert said in answer.text
        assert "kept all the same" in answer.text
        assert (await desk.sayso.hold(hold.id)).version == 1

    run(main)


def test_what_is_critical_is_approved_in_two_steps() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["drop", {"table": "events"}])
        mira = await desk.person()
        first = await mira.decide(hold, say="approve")
        assert (await desk.sayso.hold(hold.id)).status == "open"
        assert "Nothing is decided yet" in first.text

        second = await mira.send(first.text, say="approve")
        decision = (await desk.sayso.hold(hold.id)).decision
        assert second.status_code == 303
        assert decision is not None
        assert decision.effective_at - decision.at == 10_000

    run(main)


def test_what_was_changed_meanwhile_is_not_decided() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 5}])
        mira, jonas = await desk.person(), await desk.person("jonas")
        page = (await mira.get(f"/r/{hold.id}")).text
        await jonas.decide(hold, edit="1", say="approve", args__amount="7")
        answer = await mira.send(page, say="approve", reason="I had thought about it")

        assert answer.status_code == 409
        assert "was changed after you had opened it" in answer.text
        assert "I had thought about it" in answer.text
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_whoever_has_voted_is_not_asked_again() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 5}], by="olga")
        mira = await desk.person()
        assert 'value="approve"' in (await mira.get(f"/r/{hold.id}", "request")).text
        await mira.decide(hold, say="approve")
        page = (await mira.get(f"/r/{hold.id}", "request")).text

        assert "What you said is counted. It waits for 1 more." in page
        assert "Take back what you said" in page
        assert 'value="approve"' not in page

    run(main)


def test_whoever_comes_second_is_told_who_was_first_and_keeps_their_text() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 5}])
        mira, jonas = await desk.person(), await desk.person("jonas")
        page = (await mira.get(f"/r/{hold.id}")).text
        await jonas.decide(hold, say="reject", reason="no")
        answer = await mira.send(page, say="reject", reason="My own\r\nreasons")

        assert answer.status_code == 409
        assert "jonas has rejected this already" in answer.text
        assert "What you had typed" in answer.text
        assert "My own\nreasons" in answer.text.replace("\r\n", "\n")

    run(main)


def test_the_same_form_sent_twice_is_one_decision() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text

        assert (await mira.send(page, say="approve")).status_code == 303
        assert (await mira.send(page, say="approve")).status_code == 303
        assert (await mira.send(page, say="reject")).status_code >= 400

    run(main)


@pytest.mark.parametrize("gone", [("seen",), ("seen", "key")])
def test_a_form_that_does_not_say_what_was_shown_decides_nothing(gone: tuple[str, ...]) -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text

        assert (await mira.send(page, say="approve", leave_out=gone)).status_code == 422
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


@pytest.mark.parametrize(
    "fields, typed, expected",
    [
        ({"kind": "text"}, "Süß\r\n<b>", "Süß\n<b>"),
        ({"options": ["red", "blue"]}, "blue", "blue"),
        ({"options": ["a", "b", "c"], "kind": "choices"}, ["a", "c"], ["a", "c"]),
        ({"kind": "yes_no"}, "false", False),
        ({"kind": "number"}, "9007199254740993", 9007199254740993),
        ({"kind": "number"}, "12400.0", 12400.0),
        ({"kind": "date"}, "2026-11-16", "2026-11-16"),
    ],
)
def test_each_kind_of_question_is_answered(fields: Any, typed: Any, expected: Any) -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(question(**fields))
        answer = await (await desk.person()).decide(hold, say="answer", answer=typed)
        decision = (await desk.sayso.hold(hold.id)).decision

        assert answer.status_code == 303
        assert decision is not None
        assert isinstance(decision.verdict, Answered)
        assert repr(decision.verdict.result()) == repr(expected)

    run(main)


@pytest.mark.parametrize(
    "fields, typed",
    [
        ({"options": ["red", "blue"]}, "green"),
        ({"options": ["red", "blue"]}, ""),
        ({"kind": "yes_no"}, "maybe"),
        ({"kind": "number"}, "many"),
        ({"kind": "date"}, "soon"),
    ],
)
def test_an_answer_that_does_not_fit_is_none(fields: Any, typed: str) -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(question(**fields))
        answer = await (await desk.person()).decide(hold, say="answer", answer=typed)

        assert answer.status_code == 422
        assert 'class="error"' in answer.text
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 18},
        "size": {"enum": ["s", "l"], "default": "l"},
    },
    "required": ["name", "age"],
}


def test_a_form_says_at_each_field_what_does_not_fit() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(question(schema=FORM))
        mira = await desk.person()
        answer = await mira.decide(hold, say="answer", answer__name="A", answer__age="17")
        assert answer.status_code == 422
        assert "at least 2 characters" in answer.text
        assert "this must be at least 18" in answer.text
        assert 'value="17"' in answer.text
        missing = await mira.decide(hold, say="answer", answer__name="Ann")
        assert "this is missing" in missing.text

        good = await mira.send(answer.text, say="answer", answer__name="Ann", answer__age="18")
        decision = (await desk.sayso.hold(hold.id)).decision
        assert good.status_code == 303
        assert decision is not None
        assert isinstance(decision.verdict, Answered)
        assert decision.verdict.result() == {"name": "Ann", "age": 18, "size": "l"}

    run(main)


def test_no_name_in_a_form_gets_out_of_its_attribute() -> None:
    async def main(desk: Desk) -> None:
        name = '"><b onclick="x"> é/~'
        at = "answer/" + name.replace("~", "~0").replace("/", "~1")
        schema = {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}
        hold = await desk.ask(question(schema=schema))
        mira = await desk.person()
        bad = await mira.decide(hold, say="answer", **{at: "x"})
        assert bad.status_code == 422
        assert "give a whole number" in bad.text
        assert "<b onclick" not in bad.text

        assert (await mira.send(bad.text, say="answer", **{at: "7"})).status_code == 303
        decision = (await desk.sayso.hold(hold.id)).decision
        assert decision is not None
        assert isinstance(decision.verdict, Answered)
        assert decision.verdict.result() == {name: 7}

    run(main)


def test_a_sensitive_answer_is_never_sent_back() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["unlock", {"what": "the safe"}])
        mira = await desk.person()
        answer = await mira.decide(hold, say="answer", answer="hunter2-is-secret")
        assert answer.status_code == 422
        assert "hunter2" not in answer.text

        form = await desk.ask(["unlock", {"what": "form"}])
        answer = await mira.decide(form, say="answer", answer__pin="hunter2-is-secret")
        assert answer.status_code == 422
        assert "at least 30" in answer.text
        assert "hunter2" not in answer.text

        late = await mira.decide(hold, say="answer", answer="h" * 30)
        assert late.status_code == 303
        assert "hhhh" not in (await mira.get(f"/r/{hold.id}")).text

    run(main)


def test_a_question_can_be_declined() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(question())
        await (await desk.person()).decide(hold, say="reject", reason="I do not know")
        decision = (await desk.sayso.hold(hold.id)).decision

        assert decision is not None
        assert decision.word == "rejected"

    run(main)


def test_several_are_decided_each_for_itself_and_critical_never() -> None:
    async def main(desk: Desk) -> None:
        good = await desk.ask(PAY)
        late = await desk.ask(PAY)
        critical = await desk.ask(["drop", {"table": "events"}])
        asked = await desk.ask(question())
        mira = await desk.person()
        page = (await mira.get("/")).text
        await desk.sayso.decide(late, Rejected(), by="mira")
        picks = [f"{one.id} {one.digest}" for one in (good, late, critical, asked)]
        answer = await mira.send(page, form="bulk", say="approve", pick=picks)

        assert f"{critical.id} " not in page
        assert f"{good.id} {good.digest}" in page
        assert answer.status_code == 200
        assert "You have rejected this already" in answer.text
        assert "this is critical" in answer.text
        assert "more than a yes or a no" in answer.text
        states = [(await desk.sayso.hold(one.id)).status for one in (good, critical, asked)]
        assert states == ["decided", "open", "open"]

    run(main)


def test_one_of_several_that_was_not_shown_like_this_is_not_decided() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        page = (await mira.get("/")).text
        told = await mira.send(
            page, form="bulk", part="outcome", say="approve", pick=[f"{hold.id} 00", hold.id]
        )

        assert [bool(one["problem"]) for one in told.json()] == [True, True]
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_two_persons_decide_what_takes_two() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 5}])
        mira, jonas = await desk.person(), await desk.person("jonas")
        await mira.decide(hold, say="approve")
        page = (await jonas.get(f"/r/{hold.id}")).text
        assert "1 of 2 has said yes: mira" in page
        assert (await desk.sayso.hold(hold.id)).status == "open"

        back = await mira.send((await mira.get(f"/r/{hold.id}")).text, form="/undo")
        assert back.status_code == 303
        assert not (await desk.sayso.hold(hold.id)).votes
        await mira.decide(hold, say="approve")
        await jonas.send(page, say="approve")
        assert (await desk.sayso.hold(hold.id)).status == "decided"

    run(main)


def test_what_is_decided_together_is_shown_and_decided_together() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["half", {"of": "one"}], ["half", {"of": "other"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        answer = await mira.send(page, say="approve")

        assert "Approve all 2" in page
        assert "other" in page
        assert answer.status_code == 303
        assert not (await desk.sayso.holds(by="mira")).items

    run(main)


def test_a_yes_can_go_for_later_calls_too() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira = await desk.person()
        answer = await mira.decide(
            hold,
            say="always",
            always__amount="at_most",
            always__memo="any",
            always_scope="project",
            always_until="1h",
        )
        (grant,) = await desk.sayso.grants.list()

        assert answer.status_code == 303
        assert {(one.arg, one.kind) for one in grant.limits} == {
            ("amount", "at_most"),
            ("memo", "any"),
        }
        assert (await desk.sayso.hold(hold.id)).status == "settled"

    run(main)


def test_what_is_critical_is_never_always_allowed() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["drop", {"table": "events"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        answer = await mira.send(page, say="always", confirm="yes", always_until="1d")

        assert "Always allow" not in page
        assert answer.status_code >= 400
        assert not await desk.sayso.grants.list()
        assert (await desk.sayso.hold(hold.id)).status == "open"

    run(main)


def test_a_request_is_handed_over() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(PAY)
        mira, olga = await desk.person(), await desk.person("olga")
        page = (await mira.get(f"/r/{hold.id}")).text
        nobody = await mira.send(page, form="/hand-over", to=" ")
        assert (nobody.status_code, "say who is to decide" in nobody.text) == (422, True)

        answer = await mira.send(page, form="/hand-over", to="olga")
        assert answer.headers["location"] == "/?said=handed-over"
        assert "Pay an invoice" in (await olga.get("/")).text

    run(main)


def test_the_run_can_be_stopped_by_its_owner_alone() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["wire", {"amount": 5}], by="olga")
        mira, olga = await desk.person(), await desk.person("olga")
        page = (await mira.get(f"/r/{hold.id}")).text
        assert "/stop" not in page
        csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
        refused = await mira.client.post(f"/r/{hold.id}/stop", data={"csrf": csrf})
        assert refused.status_code == 403

        answer = await olga.send((await olga.get(f"/r/{hold.id}")).text, form="/stop")
        assert answer.status_code == 303
        assert (await desk.sayso.hold(hold.id)).status == "settled"
        assert "Withdrawn" in (await olga.get(f"/r/{hold.id}")).text

    run(main)


def test_what_happened_outside_is_told() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["outside", {"what": "the parcel"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        assert "Is the parcel there?" in page
        assert (await mira.send(page, say="answer", answer="{oops")).status_code == 422
        await mira.send(page, say="answer", answer='{"there": 1.0}')
        decision = (await desk.sayso.hold(hold.id)).decision

        assert decision is not None
        assert isinstance(decision.verdict, Answered)
        assert bytes(decision.verdict.value) == b'{"there":1.0}'

    run(main)


def test_a_call_in_doubt_is_settled_by_what_somebody_found_out() -> None:
    async def main(desk: Desk) -> None:
        hold = await desk.ask(["send", {"parcel": "one"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        assert hold.kind == "in_doubt"
        assert "Nobody knows whether this happened" in page
        assert "the key that the tool was given" in page
        silent = await mira.send(page, say="answer", answer="", note="")
        assert silent.status_code == 422
        again = await mira.send(page, say="approve")
        assert "Nothing is decided yet" in again.text
        assert (await desk.sayso.hold(hold.id)).status == "open"

        answer = await mira.send(page, say="answer", answer="", note="It is in their books.")
        assert answer.status_code == 303
        decision = (await desk.sayso.hold(hold.id)).decision
        assert decision is not None
        assert (decision.word, decision.note) == ("answered", "It is in their books.")

    run(main)


def test_somebody_is_reminded_and_it_still_waits() -> None:
    async def main(desk: Desk) -> None:
        hold, soon = await desk.ask(PAY), await desk.ask(["hurry", {"what": "x"}])
        mira = await desk.person()
        page = (await mira.get(f"/r/{hold.id}")).text
        answer = await mira.send(page, form="/remind", when="4h")
        assert answer.headers["location"] == "/?said=reminded"
        assert (await desk.sayso.hold(hold.id)).status == "open"
        assert (await mira.send(page, form="/remind", when="never")).status_code == 422

        late = await mira.send((await mira.get(f"/r/{soon.id}")).text, form="/remind", when="1h")
        assert late.status_code == 422
        assert "too late then" in late.text

    run(main)
