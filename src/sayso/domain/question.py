"""temporary"""

from __future__ import annotations

from sayso.domain.value import RawOrNone, Tagged, Value


class Option(Value, frozen=True, kw_only=True):
    """One"""

    value: str
    label: str = ""
    description: str = ""


class Question(Tagged, frozen=True, kw_only=True, tag="question"):
    """Q"""

    text: str
    kind: str = "text"
    options: tuple[Option, ...] = ()
    schema: str = ""
    sensitive: bool = False
    placeholder: str = ""
    default: RawOrNone = None
    length_min: int = 0
    length_max: int | None = None
    number_min: float | None = None
    number_max: float | None = None
    whole: bool = False
    pattern: str = ""
    picks_min: int = 0
    picks_max: int | None = None
