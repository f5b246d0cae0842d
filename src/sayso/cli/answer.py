"""`sayso answer`: the answer to a question, or to whatever waits for something outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sayso.cli.complete import HOLD
from sayso.cli.deciding import Outcome, decide_each, see
from sayso.cli.desk import Desk, at_desk
from sayso.domain.digest import decode_value
from sayso.domain.hold import answer as answered
from sayso.domain.question import Question
from sayso.errors import BadAnswer, BadValue

_YES, _NO = ("yes", "y", "true", "1"), ("no", "n", "false", "2")


@click.command(short_help="Answer a question.")
@click.argument("id", type=HOLD)
@click.argument("choices", nargs=-1, metavar="[CHOICE]...")
@click.option("--text", help="The answer as it is, whatever it looks like.")
@click.option("--json", "value", metavar="JSON|@FILE", help="The answer as JSON, such as a form's.")
@click.option("--no-undo", is_flag=True, help="It counts at once.")
@click.option("--print-json", "as_json", is_flag=True, help="Print what became of it as JSON.")
@at_desk
async def answer(
    desk: Desk,
    *,
    id: str,
    choices: tuple[str, ...],
    text: str | None,
    value: str | None,
    no_undo: bool,
    as_json: bool,
) -> None:
    """Answer what is asked: by the number of a choice, its name, or in words.

    \b
    Examples:
      sayso answer hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 2 --store pay.db
      sayso answer hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --text 'the blue one'
      sayso answer hold_01m7gsgdyhk6a2nvs95zdh5eb6.1 --json @answer.json
    """  # noqa: D301
    if (bool(choices), text is not None, value is not None).count(True) != 1:
        raise click.UsageError("say the answer once: a CHOICE, --text or --json")
    (hold,) = await see(desk, (id,))
    said: Any = text
    if value is not None:
        said = _read_json(value)
    elif choices:
        said = read_answer(hold.question, choices)
    await decide_each(desk, [hold], Outcome(answered(said), undo=not no_undo, as_json=as_json))


def _read_json(value: str) -> Any:
    try:
        return decode_value(Path(value[1:]).read_bytes() if value.startswith("@") else value)
    except OSError as error:
        raise click.UsageError(f"{value[1:]!r} cannot be read: {error.strerror}") from None
    except BadValue as error:
        raise click.UsageError(f"--json: {error}") from None


def read_answer(question: Question | None, given: tuple[str, ...]) -> Any:
    """Read an answer as a question wants it; whether it fits is for the question to say."""
    whole = " ".join(given)
    match None if question is None else question.kind:
        case None:
            raise click.UsageError("this is no question with choices: say --text or --json")
        case "form":
            raise click.UsageError("this is a form: say --json '{...}', or --json @FILE")
        case "yes_no":
            return _yes_or_no(whole)
        case "choice":
            assert question is not None
            return _choice(question, whole)
        case "choices":
            assert question is not None
            parts = [part.strip() for one in given for part in one.split(",")]
            return [_choice(question, part) for part in parts if part]
        case "number":
            return _number(whole)
        case _:
            return whole


def _yes_or_no(text: str) -> bool:
    if text.lower() not in (*_YES, *_NO):
        raise BadAnswer(f"{text!r} is neither yes nor no", problems=[("", "yes or no")])
    return text.lower() in _YES


def _number(text: str) -> Any:
    try:
        return decode_value(text)
    except BadValue:
        raise BadAnswer(f"{text!r} is no number", problems=[("", "a number")]) from None


def _choice(question: Question, text: str) -> str:
    """Find what is meant by a number, a value or a label; if two could be, neither is."""
    options = question.options
    meant = {one.value for one in options if text in (one.value, one.label)}
    if text.isdecimal() and 1 <= int(text) <= len(options):
        meant.add(options[int(text) - 1].value)
    if len(meant) > 1:
        raise click.UsageError(f"{text!r} could be one of several: say --text and its value")
    if not meant:
        known = ", ".join(f"{at} {one.shown}" for at, one in enumerate(options, 1))
        raise BadAnswer(f"{text!r} is none of: {known}", problems=[("", "one of the choices")])
    return meant.pop()
