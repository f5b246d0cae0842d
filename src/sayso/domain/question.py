"""Questions, and which answers fit them.

Rule 1: a question that nobody could answer is refused when it is asked, not when it is answered.
Rule 2: an answer is checked before it counts; one that does not fit changes nothing, and the
question still waits.
Rule 3: no message repeats an answer: it may be a secret, and whoever gave it knows it.
Forms are checked by whoever knows JSON Schema, which this module does not: it is given that.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Literal, cast, get_args

import msgspec

from sayso.domain.digest import decode_value, encode_value
from sayso.domain.value import RawOrNone, Tagged, Value
from sayso.errors import BadAnswer, BadQuestion, BadValue

Kind = Literal["text", "choice", "choices", "yes_no", "number", "date", "form"]
KINDS: tuple[str, ...] = get_args(Kind)

TEXT_MAX = 10_000
"""How many characters a question has; nobody reads more before answering."""
OPTIONS_MAX = 100
OPTION_MAX = 1000
"""How many characters a value, a label, a description or a placeholder has."""
SCHEMA_BYTES_MAX = 32 * 1024
QUESTION_BYTES_MAX = 64 * 1024
DEFAULT_BYTES_MAX = 16 * 1024
LENGTH_MAX = 50_000
"""How many characters an answer in words has."""
LENGTH_PATTERN_MAX = 5000
"""How many it has if there is a pattern, so that looking for it stays under a second."""

Problem = tuple[str, str]
"""Where in an answer, as a JSON Pointer, and what is wrong there."""

_TAKES: dict[str, tuple[str, ...]] = {
    "options": ("choice", "choices"),
    "schema": ("form",),
    "placeholder": ("text", "number", "date"),
    "length_min": ("text",),
    "length_max": ("text",),
    "pattern": ("text",),
    "number_min": ("number",),
    "number_max": ("number",),
    "whole": ("number",),
    "picks_min": ("choices",),
    "picks_max": ("choices",),
}
"""Which kinds take what. Anything else would do nothing, and whoever set it thinks it does."""


class Option(Value, frozen=True, kw_only=True):
    """One thing to choose."""

    value: str
    """What the answer is, when this is chosen."""
    label: str = ""
    description: str = ""

    @property
    def shown(self) -> str:
        """What people see."""
        return self.label or self.value


class Question(Tagged, frozen=True, kw_only=True, tag="question"):
    """What is the answer? Made by `make_question`, which refuses what nobody could answer."""

    text: str
    kind: Kind = "text"
    options: tuple[Option, ...] = ()
    schema: str = ""
    """A JSON Schema, as it was written: the order of its fields is the order they are shown in."""
    sensitive: bool = False
    """The answer is a secret: to be kept out of everything that people or programs read."""
    placeholder: str = ""
    default: RawOrNone = None
    length_min: int = 0
    length_max: int | None = None
    number_min: float | None = None
    number_max: float | None = None
    whole: bool = False
    """Only integers: 3 and not 3.0, which is another value."""
    pattern: str = ""
    """Describes the whole text, not a part of it."""
    picks_min: int = 0
    picks_max: int | None = None


_PLAIN = Question(text="")
FormCheck = Callable[[Question, Any], Sequence[Problem]]
"""Says where a value does not fit the question's schema."""
SchemaCheck = Callable[[str], None]
"""Raises `BadQuestion` for a schema that cannot be used."""


def make_question(
    text: str,
    *,
    kind: str | None = None,
    options: Iterable[str | Mapping[str, Any] | Option] | None = None,
    schema: str | Mapping[str, Any] | None = None,
    sensitive: bool = False,
    placeholder: str = "",
    default: Any = None,
    length_min: int = 0,
    length_max: int | None = None,
    number_min: float | None = None,
    number_max: float | None = None,
    whole: bool = False,
    pattern: str = "",
    picks_min: int = 0,
    picks_max: int | None = None,
    check_schema: SchemaCheck | None = None,
    form: FormCheck | None = None,
) -> Question:
    """Make a question, or raise `BadQuestion` saying why nobody could answer it.

    With options it is a `choice` unless `kind` says `choices`; with a schema it is a `form`, which
    needs `check_schema`, and `form` if it has a default.
    """
    choices, fields = _read_options(options), _read_schema(schema)
    kind = kind or ("choice" if choices else "form" if fields else "text")
    if kind not in KINDS:
        raise BadQuestion(f"{kind!r} is not a kind of question: use one of {', '.join(KINDS)}")
    question = _read_back(
        Question(
            text=text,
            kind=cast("Kind", kind),
            options=choices,
            schema=fields,
            sensitive=sensitive,
            placeholder=placeholder,
            length_min=length_min,
            length_max=length_max,
            number_min=number_min,
            number_max=number_max,
            whole=whole,
            pattern=pattern,
            picks_min=picks_min,
            picks_max=picks_max,
        )
    )
    _check_texts(question)
    _check_kind(question)
    _check_bounds(question)
    if kind == "form":
        if check_schema is None:
            raise BadQuestion("a form cannot be asked for where no schema can be checked")
        check_schema(question.schema)
    return question if default is None else _with_default(question, default, form)


def check_answer(question: Question, value: bytes, *, form: FormCheck | None = None) -> bytes:
    """Give the only bytes of an answer that fits, or raise `BadAnswer` saying why it does not."""
    try:
        found = decode_value(value)
        data = encode_value(found)
    except BadValue as error:
        raise _bad([("", str(error))]) from None
    problems = list(_problems(question, found, form))
    if problems:
        raise _bad(problems)
    return data


def is_day(text: str) -> bool:
    """Tell whether this is a date such as 2026-11-16."""
    return _parses(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, date.fromisoformat)


def is_moment(text: str) -> bool:
    """Tell whether this is a time with its offset, such as 2026-11-16T09:30:00+01:00 or ...Z."""
    # Without an offset nobody knows when it is.
    form = r"[0-9-]{10}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"
    return _parses(form, text, datetime.fromisoformat)


def _parses(form: str, text: str, parse: Callable[[str], object]) -> bool:
    if not re.fullmatch(form, text):
        return False
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _bad(problems: list[Problem]) -> BadAnswer:
    said = "; ".join(f"{path}: {message}" if path else message for path, message in problems)
    return BadAnswer(f"this answer does not fit: {said}", problems=problems)


def _problems(question: Question, value: Any, form: FormCheck | None) -> Iterable[Problem]:
    match question.kind:
        case "text":
            return _text_problems(question, value)
        case "choice":
            values = {option.value for option in question.options}
            fits = isinstance(value, str) and value in values
            return [] if fits else [("", "choose the value of one of the options")]
        case "choices":
            return _choices_problems(question, value)
        case "yes_no":
            return [] if isinstance(value, bool) else [("", "answer true or false")]
        case "number":
            return _number_problems(question, value)
        case "date":
            if isinstance(value, str) and (is_day(value) or is_moment(value)):
                return []
            return [("", "give a date, 2026-11-16, or a time, 2026-11-16T09:30:00+01:00")]
        case _:  # A form.
            if not isinstance(value, dict):
                return [("", "give an object with the fields of the form")]
            if form is None:
                return [("", "forms cannot be checked here, so this one cannot be answered here")]
            return form(question, value)


def _text_problems(question: Question, value: Any) -> Iterable[Problem]:
    if not isinstance(value, str):
        return [("", "answer in words")]
    if len(value) < question.length_min:
        return [("", f"give at least {question.length_min:,} characters")]
    most = _length_most(question) if question.length_max is None else question.length_max
    if len(value) > most:
        return [("", f"give at most {most:,} characters")]
    try:
        from sayso.domain.pattern import read_pattern

        fits = not question.pattern or read_pattern(question.pattern).fits(value)
    except BadQuestion as error:
        # Written by another version, or by hand.
        return [("", str(error))]
    return [] if fits else [("", f"it does not fit the pattern {question.pattern}")]


def _choices_problems(question: Question, value: Any) -> Iterable[Problem]:
    if not isinstance(value, list):
        return [("", "give a list of the values of options")]
    chosen = cast("list[Any]", value)
    most = len(question.options) if question.picks_max is None else question.picks_max
    if len(chosen) < question.picks_min:
        return [("", f"choose at least {question.picks_min}")]
    if len(chosen) > most:
        return [("", f"choose at most {most}")]
    values = {option.value for option in question.options}
    problems: list[Problem] = []
    seen: set[str] = set()
    for at, one in enumerate(chosen):
        if not isinstance(one, str) or one not in values:
            problems.append((f"/{at}", "this is not the value of an option"))
        elif one in seen:
            problems.append((f"/{at}", "this is chosen twice"))
        else:
            seen.add(one)
    return problems


def _number_problems(question: Question, value: Any) -> Iterable[Problem]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [("", "give a number")]
    if question.whole and not isinstance(value, int):
        return [("", "give a whole number, without a decimal point")]
    if question.number_min is not None and value < question.number_min:
        return [("", f"give at least {_said(question.number_min)}")]
    if question.number_max is not None and value > question.number_max:
        return [("", f"give at most {_said(question.number_max)}")]
    return []


def _read_back(question: Question) -> Question:
    """Read a question as it will be read from a journal, so that it can be."""
    try:
        data = msgspec.json.encode(question)
        if len(data) > QUESTION_BYTES_MAX:
            raise BadQuestion(
                f"the question has {len(data):,} bytes, more than {QUESTION_BYTES_MAX:,}"
            )
        found = msgspec.json.decode(data, type=Question)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise BadQuestion(f"the question cannot be asked like this: {error}") from None
    # A bound that is NaN would come back as none at all, and 2**60 + 1 as another number.
    if found != question:
        raise BadQuestion("number_min and number_max cannot be kept exactly as they are")
    return found


def _read_options(options: Any) -> tuple[Option, ...]:
    if options is None:
        return ()
    if isinstance(options, str | bytes | Mapping) or not isinstance(options, Iterable):
        raise BadQuestion("options are a list of strings, or of objects with a value and a label")
    found: list[Option] = []
    for one in cast("Iterable[Any]", options):
        if len(found) == OPTIONS_MAX:
            raise BadQuestion(f"there are more than {OPTIONS_MAX} options")
        found.append(_read_option(one))
    return tuple(found)


def _read_option(one: Any) -> Option:
    if isinstance(one, Option):
        return one
    try:
        return msgspec.convert({"value": one} if isinstance(one, str) else one, Option)
    except msgspec.ValidationError as error:
        raise BadQuestion(
            f"an option is a string, or an object with value, label and description: {error}"
        ) from None


def _read_schema(schema: Any) -> str:
    if schema is None or schema == "":
        return ""
    try:
        text = schema
        if isinstance(schema, Mapping):
            plain = dict(cast("Mapping[Any, Any]", schema))
            encode_value(plain)
            # Not the bytes of `encode_value`: those are in the order of the alphabet.
            text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
        if not isinstance(text, str):
            raise BadValue("it is neither an object nor its JSON")
        if not isinstance(decode_value(text, bytes_max=SCHEMA_BYTES_MAX), dict):
            raise BadValue("it is not an object")
    except BadValue as error:
        raise BadQuestion(f"the schema cannot be used: {error}") from None
    return text


def _check_texts(question: Question) -> None:
    texts = [
        ("the question", question.text, TEXT_MAX),
        ("the placeholder", question.placeholder, OPTION_MAX),
    ]
    for option in question.options:
        texts += [
            ("an option's value", option.value, OPTION_MAX),
            ("an option's label", option.label, OPTION_MAX),
            ("an option's description", option.description, OPTION_MAX),
        ]
        if not option.value.strip():
            raise BadQuestion("an option needs a value: it is what the answer will be")
    for what, text, most in texts:
        if len(text) > most:
            raise BadQuestion(f"{what} has {len(text):,} characters, more than {most:,}")
    if not question.text.strip():
        raise BadQuestion("a question needs a text")


def _check_kind(question: Question) -> None:
    for field, kinds in _TAKES.items():
        given = getattr(question, field) != getattr(_PLAIN, field)
        if given and question.kind not in kinds:
            raise BadQuestion(f"a question of kind {question.kind!r} takes no {field}")
    for field in ("options", "schema"):
        if question.kind in _TAKES[field] and not getattr(question, field):
            raise BadQuestion(f"a question of kind {question.kind!r} needs {field}")
    values = [option.value for option in question.options]
    if len(set(values)) != len(values):
        raise BadQuestion("two options have the same value, so an answer could mean either")


def _check_bounds(question: Question) -> None:
    if question.pattern:
        from sayso.domain.pattern import read_pattern

        read_pattern(question.pattern)
    _check_range("length", question.length_min, question.length_max, _length_most(question))
    _check_range("picks", question.picks_min, question.picks_max, len(question.options))
    low, high = question.number_min, question.number_max
    if low is not None and high is not None:
        fits = math.ceil(low) <= math.floor(high) if question.whole else low <= high
        if not fits:
            raise BadQuestion(f"there is no such number between {_said(low)} and {_said(high)}")


def _check_range(what: str, least: int, most: int | None, limit: int) -> None:
    top = limit if most is None else most
    if least < 0 or top < 0:
        raise BadQuestion(f"{what}_min and {what}_max are not negative")
    if top > limit:
        raise BadQuestion(f"{what}_max is {top:,}, more than there can be: {limit:,}")
    if least > top:
        raise BadQuestion(f"{what}_min is {least:,}, more than there can be: {top:,}")


def _length_most(question: Question) -> int:
    return LENGTH_PATTERN_MAX if question.pattern else LENGTH_MAX


def _with_default(question: Question, default: Any, form: FormCheck | None) -> Question:
    try:
        data = check_answer(question, encode_value(default, bytes_max=DEFAULT_BYTES_MAX), form=form)
    except (BadAnswer, BadValue) as error:
        raise BadQuestion(f"the default is no answer to its own question: {error}") from None
    return msgspec.structs.replace(question, default=msgspec.Raw(data))


def _said(number: float) -> str:
    return repr(number).removesuffix(".0")
