"""What a server sends, read back into the values that it was made from."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from sayso.domain.digest import decode_value
from sayso.domain.grant import Grant
from sayso.domain.hold import (
    Answered,
    Approved,
    Ask,
    Decision,
    Errored,
    Expired,
    Rejected,
    Verdict,
    Withdrawn,
)
from sayso.domain.operand import OperandPin
from sayso.domain.ruling import Require
from sayso.domain.value import Principal
from sayso.errors import SaysoError, Unreachable
from sayso.store.views import HoldView

_SAME = (
    "id",
    "run_id",
    "request_id",
    "call_id",
    "kind",
    "tool",
    "args_json",
    "title",
    "why",
    "risk",
    "digest",
    "version",
    "status",
    "agent",
    "project",
    "editable",
    "duplicate_of",
    "quorum",
    "not_requester",
    "together",
)


def read_hold(sent: Any) -> HoldView:
    """Read a hold, or raise `Unreachable` for what is none."""
    try:
        return _hold(sent)
    except (KeyError, ValueError, TypeError, SaysoError) as error:
        raise Unreachable(f"the server sent no request that can be read: {error!r}") from None


def _hold(sent: Any) -> HoldView:
    ask = sent["ask"]
    ruling = Require(
        risk=sent["risk"],
        quorum=sent["quorum"],
        not_requester=sent["not_requester"],
        editable=sent["editable"],
        on_silence=sent["on_silence"],
        title=sent["title"],
        why=sent["why"],
    )
    plain = msgspec.convert(
        {
            **{name: sent[name] for name in _SAME},
            "args": None,
            "deadline": sent["deadline"],
            "opened_at": sent["opened_at"],
            "escalates_at": sent["escalates_at"],
            "approvers": sent["approvers"],
            "lineage": sent["lineage"],
            "doubt": sent["doubt"] or "",
        },
        HoldView,
    )
    return msgspec.structs.replace(
        plain,
        args=None if sent["args"] is None else decode_value(sent["args_json"].encode()),
        ask=None if ask is None else msgspec.convert(ask, Ask),
        ruling=ruling,
        operands=tuple([msgspec.convert(one, OperandPin) for one in sent["operands"]]),
        decision=None if sent["decision"] is None else read_said(sent["decision"]),
        votes=tuple([read_said(one) for one in sent["votes"]]),
    )


def read_said(sent: Any) -> Decision:
    """Read a decision: who said what, and when. What was answered is not sent, nor what is empty in
    a problem.
    """
    return Decision(
        verdict=_verdict(sent["verdict"], sent.get("reason") or ""),
        by=Principal(id=sent["by"]["id"], kind=sent["by"]["kind"]),
        of=sent.get("of") or "",
        at=_ms(sent["at"]),
        effective_at=_ms(sent["effective_at"]),
        digest="",
        channel=sent["channel"],
        note=sent["note"],
    )


def _verdict(word: str, reason: str) -> Verdict:
    match word:
        case "approved":
            return Approved()
        case "rejected":
            return Rejected(reason=reason)
        case "answered":
            return Answered(value=msgspec.Raw(b"null"))
        case "errored":
            return Errored(message=reason)
        case "expired":
            return Expired(silence="")
        case "withdrawn":
            return Withdrawn(reason=reason)
        case _:
            raise Unreachable(f"the server speaks of {word!r}, which is not known here")


def read_grant(sent: Any) -> Grant:
    """Read a standing permission. What was allowed then is not sent."""
    return Grant(
        id=sent["id"],
        tool=sent["tool"],
        tool_version="",
        by=Principal(id=sent["by"]["id"], kind=sent["by"]["kind"]),
        at=_ms(sent["at"]),
        until=_ms(sent["until"]),
        hold=sent["hold_id"],
        args=msgspec.Raw(b"{}"),
        run=sent["run"] or "",
        agent=sent["agent"] or "",
        uses_max=sent["uses_max"],
        used=sent["used"],
        revoked=None if sent["revoked_at"] is None else _ms(sent["revoked_at"]),
        note=sent["note"],
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
