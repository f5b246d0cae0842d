"""What a card in Slack shows of a hold, and which buttons it has.

Rule 1: whoever says yes on a card has seen all of it. What does not fit is counted, and then a card
leads to the page instead of having an Approve button.
Rule 2: what anybody may have written goes into plain text, with its glyphs made exact; in what
Slack reads as markup there are only words of ours.
Rule 3: `actions_of` says what can be done on a card, both for drawing it and for what comes back.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Literal

from sayso.domain.glyph import inline
from sayso.domain.hold import Answered, Decision, Verdict, answer
from sayso.domain.question import Question
from sayso.domain.rendering import Line, Rendering
from sayso.domain.value import Value
from sayso.store.views import HoldView, moment

IMPORTANT = 4
"""How many arguments a card shows that cannot show all of them."""
FIELDS_MAX = 10
"""How many it shows at most: Slack has no room for more in one block."""
VALUE_MAX = 300
"""The longest value that it shows."""
TITLE_MAX, TEXT_MAX, BUTTON_MAX = 150, 2000, 75
"""Limits of Slack's."""
CHOICES_MAX = 5
"""With more options, a question is answered on its page."""
FLAGS_MAX = 5

Action = Literal["approve", "reject", "pick"]
_ICON = {"low": "", "medium": "", "high": ":warning: ", "critical": ":rotating_light: "}
_FIRST = ("number", "integer", "boolean", "secret", "text", "null", "list", "object", "bytes")
"""Of which kinds the most important arguments are: sums before words."""
_YES_NO = (("Yes", True), ("No", False))
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60


class Card(Value, frozen=True, kw_only=True):
    """A message."""

    text: str
    """For notifications, and for readers that show no blocks."""
    blocks: tuple[dict[str, Any], ...]


def open_card(hold: HoldView, *, link: str, now: datetime, buttons: bool) -> Card:
    """Draw a hold that asks somebody; without `buttons`, only the way to its page."""
    shown = hold.shown
    fields, hidden = _fields(hold, shown)
    blocks = [_header(hold), _context(_facts(hold, now)), *_words(hold), *_section(fields)]
    if hidden:
        more = f"{hidden} more are not shown here" if fields else "Not all of it is shown here"
        blocks.append(_context(f"{more}: open it to see all, and to approve."))
    if flags := _flags(hold, shown):
        blocks.append({"type": "context", "elements": [_plain(f"⚠ {one}") for one in flags]})
    blocks.append(
        {"type": "actions", "elements": [*(_buttons(hold) if buttons else ()), _open(hold, link)]}
    )
    return Card(text=_fallback(hold, "asks"), blocks=tuple(blocks))


def settled_card(hold: HoldView, *, name: str) -> Card:
    """Draw a hold that nobody is asked about any more; `name` is who decided."""
    fields, _ = _fields(hold, hold.shown)
    said = [_plain(line) for line in _outcome(hold, name)]
    blocks = [_header(hold), {"type": "context", "elements": said}, *_section(fields)]
    return Card(text=_fallback(hold, _outcome(hold, name)[0]), blocks=tuple(blocks))


def replaced_card(hold: HoldView) -> Card:
    """Draw a card in whose place there is another one."""
    said = "It was changed, and is asked again on a newer card."
    return Card(text=_fallback(hold, said), blocks=(_header(hold), _context(said)))


def reject_view(hold: HoldView, *, metadata: str) -> dict[str, Any]:
    """Make the modal that asks for a reason."""
    reason = {"type": "plain_text_input", "action_id": "reason", "multiline": True}
    return {
        "type": "modal",
        "callback_id": "sayso:reject",
        "private_metadata": metadata,
        "title": {"type": "plain_text", "text": "Reject"},
        "submit": {"type": "plain_text", "text": "Reject"},
        "close": {"type": "plain_text", "text": "Cancel"},
        "blocks": [
            {"type": "section", "text": _plain(inline(hold.title))},
            {
                "type": "input",
                "block_id": "reason",
                "optional": True,
                "label": {"type": "plain_text", "text": "Why? The agent is told."},
                "element": {**reason, "max_length": 3000},
            },
        ],
    }


def actions_of(hold: HoldView) -> frozenset[Action]:
    """Say what can be done on a card of this hold. Everything else leads to its page."""
    if hold.together or hold.risk == "critical" or hold.status != "open":
        return frozenset()
    if hold.kind == "approval":
        hidden = _fields(hold, hold.shown)[1]
        return frozenset({"reject"}) if hidden else frozenset({"approve", "reject"})
    return frozenset({"pick"}) if picks(hold) else frozenset()


def picks(hold: HoldView) -> list[tuple[str, Verdict]]:
    """List the answers that a card has buttons for: what is on each, and what it says."""
    asked = hold.question
    if asked is None or asked.sensitive or len(_escape(_asks(asked))) > TEXT_MAX:
        return []
    if asked.kind == "yes_no":
        return [(label, answer(value)) for label, value in _YES_NO]
    labels = [inline(one.shown) for one in asked.options]
    fits = all(label and len(_escape(label)) <= BUTTON_MAX for label in labels)
    if asked.kind != "choice" or len(labels) > CHOICES_MAX or not fits or _alike(labels):
        return []
    return [(label, answer(one.value)) for label, one in zip(labels, asked.options, strict=True)]


def _alike(labels: list[str]) -> bool:
    return len({*labels}) < len(labels)


def _buttons(hold: HoldView) -> list[dict[str, Any]]:
    can = actions_of(hold)
    made: list[dict[str, Any]] = []
    if "approve" in can:
        yes = _button(hold, "approve", "Approve", style="primary")
        if hold.risk == "high":
            yes["confirm"] = {
                "title": {"type": "plain_text", "text": "Approve?"},
                "text": _plain(inline(hold.title)[:VALUE_MAX]),
                "confirm": {"type": "plain_text", "text": "Approve"},
                "deny": {"type": "plain_text", "text": "Back"},
            }
        made.append(yes)
    if "reject" in can:
        made.append(_button(hold, "reject", "Reject", style="danger"))
    if "pick" in can:
        labels = [label for label, _ in picks(hold)]
        made += [_button(hold, f"pick:{n}", label, pick=n) for n, label in enumerate(labels)]
    return made


def _button(
    hold: HoldView, action: str, label: str, *, style: str = "", pick: int | None = None
) -> dict[str, Any]:
    value: dict[str, Any] = {"hold": hold.id, "seen": hold.digest}
    if pick is not None:
        value["pick"] = pick
    made = {
        "type": "button",
        "action_id": f"sayso:{action}",
        "text": _plain(label),
        "value": json.dumps(value, separators=(",", ":")),
    }
    return {**made, "style": style} if style else made


def _open(hold: HoldView, link: str) -> dict[str, Any]:
    text = {"type": "plain_text", "text": "Open"}
    return {"type": "button", "action_id": "sayso:open", "text": text, "url": f"{link}/r/{hold.id}"}


def _fields(hold: HoldView, shown: Rendering) -> tuple[list[str], int]:
    """Give the arguments that a card shows, each whole, and how many it does not show. Of a
    question, it shows what the options mean.
    """
    if hold.question is not None:
        meant = [one for one in hold.question.options[:CHOICES_MAX] if one.description]
        return [f"{inline(one.shown)}\n{inline(one.description)}" for one in meant], 0
    lines = [line for line in shown.lines() if not line.part.parts]
    fit = [line for line in lines if _fits(line)]
    if shown.inspectable and len(fit) == len(lines) <= FIELDS_MAX and len(shown.files) <= FLAGS_MAX:
        return [_field(line) for line in lines], 0
    first = sorted(fit, key=_rank)[:IMPORTANT]
    return [_field(line) for line in first], max(len(lines) - len(first), 1)


def _rank(line: Line) -> tuple[int, int, str]:
    return _FIRST.index(line.part.kind), line.depth, line.path


def _fits(line: Line) -> bool:
    return line.part.fold is None and len(_field(line)) <= VALUE_MAX


def _field(line: Line) -> str:
    part = line.part
    value = "\n".join(part.rows) or ("[]" if part.kind == "list" else "{}")
    return f"{line.path}\n{value}" + (f"  = {part.formatted}" if part.formatted else "")


def _section(fields: list[str]) -> list[dict[str, Any]]:
    return [{"type": "section", "fields": [_plain(one) for one in fields]}] if fields else []


def _words(hold: HoldView) -> list[dict[str, Any]]:
    found: list[str] = []
    if hold.why:
        found.append(inline(hold.why))
    if isinstance(hold.ask, Question):
        found.append(_asks(hold.ask))
    if hold.doubt:
        found.append(f"In doubt: {inline(hold.doubt)}")
    return [{"type": "section", "text": _plain(one)} for one in found]


def _asks(question: Question) -> str:
    return f"The agent asks: {inline(question.text)}"


def _flags(hold: HoldView, shown: Rendering) -> list[str]:
    """List what a reader should know about it."""
    found = [f"{line.path}: {note}" for line in shown.lines() for note in line.part.notes]
    found += [f"names the file {file}" for file in shown.files]
    if hold.duplicate_of:
        found.insert(0, f"It may repeat {hold.duplicate_of}, of which nobody knows how it ended")
    more = len(found) - FLAGS_MAX
    return found if more <= 0 else [*found[:FLAGS_MAX], f"and {more} more: open it to see them"]


def _facts(hold: HoldView, now: datetime) -> str:
    facts = [
        f"{_ICON.get(hold.risk, '')}Risk: {hold.risk}",
        f"Agent: {_escape(inline(hold.agent))}",
    ]
    if hold.deadline is not None:
        left = max(0, int((hold.deadline - now).total_seconds()))
        facts.append(f"{_left(left)} left, until {_date(hold.deadline)}")
    if hold.quorum > 1:
        facts.append(f"{len(hold.votes)} have said something, {hold.missing} more must say yes")
    if hold.not_requester:
        facts.append("not for who asked for it")
    return "  ·  ".join(facts)


def _left(seconds: int) -> str:
    for unit, size in (("d", _DAY_S), ("h", _HOUR_S), ("min", _MINUTE_S)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _date(at: datetime) -> str:
    # Slack shows it in the reader's own time zone.
    said = f"{at:%Y-%m-%d %H:%M} UTC"
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} {{time}}|{said}>"


def _outcome(hold: HoldView, name: str) -> list[str]:
    decision = hold.decision
    if decision is None:
        return ["It is not asked any more"]
    when = f"{moment(decision.at):%Y-%m-%d %H:%M} UTC"
    if decision.word in ("expired", "withdrawn"):
        said = [f"{decision.word.capitalize()}, {when}"]
    else:
        where = "" if decision.channel == "slack" else f", {inline(decision.channel)}"
        said = [f"{decision.word.capitalize()} by {inline(name)}, {when}{where}"]
    return [*said, *_reason(decision)]


def _reason(decision: Decision) -> list[str]:
    verdict = decision.verdict
    if isinstance(verdict, Answered):
        said = str(verdict.result())
    else:
        said = getattr(verdict, "reason", "") or getattr(verdict, "message", "")
    return [_cut(inline(said), VALUE_MAX)] if said else []


def _header(hold: HoldView) -> dict[str, Any]:
    return {"type": "header", "text": _plain(inline(hold.title), TITLE_MAX)}


def _context(said: str) -> dict[str, Any]:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": said}]}


def _fallback(hold: HoldView, said: str) -> str:
    return _cut(_escape(f"{inline(hold.agent)} {said}: {inline(hold.title)}"), TEXT_MAX)


def _plain(text: str, most: int = TEXT_MAX) -> dict[str, Any]:
    # What is escaped counts as it is written.
    while len(_escape(text := _cut(text, most))) > most:
        text = _cut(text, max(len(text) - 20, 1))
    return {"type": "plain_text", "emoji": False, "text": _escape(text) or " "}


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
