"""What somebody says with a form, read: a verdict, and how far it goes.

Rule 1: a decision carries the digest of what was shown; a form without one says nothing.
Rule 2: what does not fit is said at its control, and nothing is decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from sayso.domain.digest import decode_value
from sayso.domain.hint import Schema
from sayso.domain.hold import Verdict, answer, approve, fail, reject
from sayso.domain.question import Question
from sayso.engine.form import check_form
from sayso.engine.grants import Always
from sayso.errors import BadAnswer, BadValue, WrongVerdict
from sayso.store.views import HoldView
from sayso.web.detail import ANSWER, ARGS, Typed, form_fields
from sayso.web.form import (
    Field,
    Reading,
    as_object,
    make_fields,
    names_of,
    read_fields,
    read_number,
)

LASTS = {"1h": "1 hour", "1d": "1 day", "7d": "7 days", "30d": "30 days"}
"""For how long something can be allowed always."""
YES = ("approve", "always")
_SAYS = frozenset({"approve", "always", "reject", "answer", "fail"})


class Unfit(Exception):
    """What was typed does not fit, and this is where."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("This does not fit yet: look at what is marked.")
        self.problems = dict(problems)


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody says."""

    say: str
    seen: str
    verdict: Verdict
    note: str = ""
    key: str = ""
    confirmed: bool = False
    even_if_alive: bool = False
    always: Always | None = None


def read_saying(hold: HoldView, schema: Schema | None, typed: Typed) -> Saying:
    """Read a form; `Unfit` if something in it does not fit, `WrongVerdict` if it says nothing."""
    say, seen = typed.get("say"), typed.get("seen")
    if say not in _SAYS:
        raise WrongVerdict("the form does not say what to decide: load the page again")
    if say == "always" and (typed.get("edit") or hold.together):
        raise WrongVerdict("what is allowed always is one call, as it is: approve this one alone")
    if not seen:
        raise WrongVerdict("the form does not say what was shown: load the page again")
    return Saying(
        say=say,
        seen=seen,
        verdict=_verdict(say, hold, schema, typed),
        note=typed.get("note"),
        key=typed.get("key"),
        confirmed=typed.get("confirm") == "yes",
        even_if_alive=typed.get("even_if_alive") == "yes",
        always=_always(hold, typed) if say == "always" else None,
    )


def _verdict(say: str, hold: HoldView, schema: Schema | None, typed: Typed) -> Verdict:
    reason = typed.get("reason").replace("\r\n", "\n")
    match say:
        case "approve" | "always":
            return approve(_edited(hold, schema, typed) if typed.get("edit") else None)
        case "reject":
            return reject(reason)
        case "fail":
            return fail(reason)
        case _:
            return answer(_answer(hold, typed))


def _edited(hold: HoldView, schema: Schema | None, typed: Typed) -> dict[str, Any] | None:
    """Read edited arguments; None if nothing was edited."""
    fields = make_fields(schema, hold.args, ARGS)
    reading = _read(fields, typed, ARGS)
    problems = dict(reading.problems)
    if reading.changed and not problems and schema is not None:
        # Only of what was changed: the rest is as the tool itself has written it.
        question = Question(text="", kind="form", schema=json.dumps(dict(schema)))
        found = _by_name(check_form(question, reading.value), fields, ARGS)
        problems = {name: why for name, why in found.items() if name in reading.changed}
    if problems:
        raise Unfit(problems)
    return reading.value if reading.changed else None


def _answer(hold: HoldView, typed: Typed) -> Any:
    question = hold.question
    if question is None:
        return _result(typed)
    text = typed.get(ANSWER)
    try:
        match question.kind:
            case "choices":
                return [one.replace("\r\n", "\n") for one in typed.several.get(ANSWER, ())]
            case "yes_no":
                return {"true": True, "false": False}.get(text, text)
            case "number":
                return read_number(text)
            case "form":
                fields = form_fields(question)
                reading = _read(fields, typed, ANSWER)
                if reading.problems:
                    raise Unfit(reading.problems)
                return reading.value
            case "date":
                return text.strip()
            case _:
                return text.replace("\r\n", "\n")
    except BadValue as error:
        raise Unfit({ANSWER: str(error)}) from None


def _read(fields: tuple[Field, ...], typed: Typed, prefix: str) -> Reading:
    """Read the controls of a form; `BadValue` if it has others: what somebody typed there would be
    lost, and they would think that it counts.
    """
    known = names_of(fields)
    if any(one.startswith(f"{prefix}/") and one not in known for one in typed.values):
        raise BadValue("the form has a field that this request has not: load the page again")
    return read_fields(fields, typed.values)


def _result(typed: Typed) -> Any:
    """Read what something gave that nobody but the outside can know: JSON, or nothing."""
    text = typed.get(ANSWER).strip()
    try:
        return decode_value(text) if text else None
    except BadValue as error:
        raise Unfit({ANSWER: f'{error}. Put a text in quotes: "done"'}) from None


def unfit_answer(hold: HoldView, error: BadAnswer) -> Unfit:
    """Say at the controls of a question where an answer does not fit."""
    question = hold.question
    fields = form_fields(question) if question is not None and question.kind == "form" else ()
    return Unfit(_by_name(error.problems, fields, ANSWER))


def _by_name(
    problems: list[tuple[str, str]], fields: tuple[Field, ...], prefix: str
) -> dict[str, str]:
    """Name the control that each problem is of: itself, or the nearest group around it."""
    known, found = names_of(fields), dict[str, str]()
    for path, why in problems:
        name = prefix + path
        while name not in known and "/" in name:
            name = name.rpartition("/")[0]
        found.setdefault(name, why)
    return found


def _always(hold: HoldView, typed: Typed) -> Always:
    """Read how far a yes goes beyond the call that it is for."""
    limits: dict[str, Any] = {}
    for name, value in as_object(hold.args).items():
        match typed.get(f"always/{name}"):
            case "any":
                limits[name] = "any"
            case "at_most":
                limits[name] = {"at_most": value}
            case _:
                pass
    until = typed.get("always_until", "1d")
    if until not in LASTS:
        raise Unfit({"always_until": "choose one of these"})
    scope = "project" if typed.get("always_scope") == "project" else "run"
    return Always(args=limits or "same", scope=scope, until=until, note=typed.get("note"))
