"""Tools whose outcome is somebody's answer: blocking ones, and those that the caller runs."""

from __future__ import annotations

from typing import Any

import msgspec

from sayso.domain.hold import External, check_silent_answer
from sayso.domain.question import Question
from sayso.domain.ruling import Require, require
from sayso.domain.value import Value
from sayso.engine.context import Suspend, Wanted
from sayso.engine.result import keep_result
from sayso.errors import BadTool


class Answered(Value, frozen=True, kw_only=True):
    """How a tool is answered."""

    ruling: Require
    question: Question | None = None
    client: bool = False

    @property
    def instead(self) -> Wanted | None:
        """What is asked instead of running a body."""
        if not self.client:
            return None
        ask = External(client=True, reason="to be run by the caller")
        return Wanted(ask=ask, ruling=self.ruling)

    def after(self, prepared: Any) -> Suspend:
        """Say what is asked once the body has prepared it."""
        if self.question is not None:
            title = self.ruling.title or self.question.text[:200]
            ruling = msgspec.structs.replace(self.ruling, title=title)
            return Suspend(wanted=Wanted(ask=self.question, ruling=ruling))
        metadata = None if prepared is None else msgspec.Raw(keep_result(prepared))
        return Suspend(wanted=Wanted(ask=External(metadata=metadata), ruling=self.ruling))


def read_answered(
    name: str,
    words: dict[str, Any],
    *,
    blocking: bool,
    client: bool,
    asks: str | Question | None,
) -> Answered | None:
    """Read how a tool is answered; None if its body gives the outcome. `words` say who answers."""
    for word, value in (("blocking", blocking), ("client", client)):
        if value not in (True, False):
            raise BadTool(f"{word} of the tool {name!r} is True or False, not {value!r}")
    if blocking and client:
        raise BadTool(f"the tool {name!r} is run here (blocking) or by the caller (client)")
    if asks is not None and not blocking:
        raise BadTool(f"asks of the tool {name!r}: this needs blocking=True")
    if not blocking and not client:
        return None
    if isinstance(asks, str):
        from sayso.engine.form import make_form_question

        asks = make_form_question(asks)
    if asks is not None and asks.sensitive:
        raise BadTool(
            f"asks of the tool {name!r} is sensitive, and nobody could read the answer: ask it in "
            "a durable body, with ctx.ask()"
        )
    ruling = require(rule=f"@tool {name}", outside=asks is None, answered=True, **words)
    if asks is not None:
        check_silent_answer(asks, ruling)
    return Answered(ruling=ruling, question=asks, client=client)
