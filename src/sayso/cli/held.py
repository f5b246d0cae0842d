"""Why a hold was opened, from the journal alone."""

from __future__ import annotations

from sayso.domain import events as e
from sayso.domain.hold import read_id
from sayso.domain.ruling import Require
from sayso.domain.value import Value
from sayso.errors import UnknownHold
from sayso.store.base import Store
from sayso.store.journal import decode
from sayso.store.views import HoldView, hold_view

FLAG = "@tool "
"""What the ruling of a tool's own flag is called by."""

_ASKED: dict[str, str] = {
    "approval": "may {tool} start?",
    "consent": "{tool} needs a further consent before it can act for a person",
    "delegation": "{tool} waits for another run",
    "external": "{tool} waits for something outside",
    "in_doubt": "{tool} was started, and nobody knows whether it happened",
    "question": "{tool} asks a question",
    "sign_in": "{tool} needs a sign-in before it can act for a person",
}


class Held(Value, frozen=True, kw_only=True):
    """What the journal says of why a hold was opened."""

    id: str
    what: str
    why: str
    rules: tuple[str, ...]
    """The rules that demand it, as the policy or a check names them."""
    tool_flag: bool
    """The tool itself demands it, whatever the rules say."""
    policy_version: str
    approvers: tuple[str, ...]
    risk: str
    opened_at: str
    deadline: str | None
    on_silence: str
    edited: bool
    status: str
    decision: str

    def fields(self) -> dict[str, str | bool | tuple[str, ...] | None]:
        """Give all of it, in the order to be read in."""
        return {
            "id": self.id,
            "what": self.what,
            "rule": self.rules,
            "tool_flag": self.tool_flag,
            "why": self.why,
            "policy_version": self.policy_version,
            "approvers": self.approvers,
            "risk": self.risk,
            "opened_at": self.opened_at,
            "deadline": self.deadline,
            "on_silence": self.on_silence if self.deadline else "",
            "edited": self.edited,
            "status": self.status,
            "decision": self.decision,
        }


async def read_held(store: Store, hold: str) -> Held:
    """Read why a hold was opened, or raise `UnknownHold`."""
    place = read_id("hold", hold)
    found = None if place is None else await store.hold(*place)
    if found is None:
        raise UnknownHold(f"there is no hold {hold!r} in {store.name!r}")
    view = hold_view(found)
    opened = decode(found.opened)
    revised = None if found.revision is None else decode(found.revision)
    ruling, version, why = Require(), "", "what the entry says was erased"
    if isinstance(opened, e.HoldOpened):
        ruling, version, why = opened.ruling, opened.policy_version, opened.ruling.why
    if isinstance(revised, e.HoldRevised):
        ruling, why = revised.ruling, revised.ruling.why
    names = [name for name in ruling.rule.split(", ") if name]
    return Held(
        id=view.id,
        what=_ASKED[view.kind].replace("{tool}", view.tool),
        why=why or view.doubt,
        rules=tuple(name for name in names if not name.startswith(FLAG)),
        tool_flag=any(name.startswith(FLAG) for name in names),
        policy_version=version,
        approvers=view.approvers,
        risk=ruling.risk,
        opened_at=view.opened_at.isoformat(),
        deadline=None if view.deadline is None else view.deadline.isoformat(),
        on_silence=ruling.on_silence,
        edited=found.revision is not None,
        status=view.status,
        decision=_decision(view),
    )


def _decision(view: HoldView) -> str:
    return "" if view.decision is None else f"{view.decision.word} by {view.decision.by}"
