"""The agents of `sayso demo` beside the teller: each asks for something of another kind."""

from __future__ import annotations

import asyncio
from typing import Any

from sayso.agents.agent import Agent
from sayso.agents.builtin import ask_user
from sayso.agents.oauth_provider import OAuthProvider
from sayso.agents.tools import tool
from sayso.domain.call import Declined, Failed, Returned
from sayso.domain.hold import SignIn
from sayso.domain.message import Message, ToolMessage
from sayso.engine.ports import Context
from sayso.testing.scripted import ScriptedModel, Turn, call, say

CAST: dict[str, tuple[str, str]] = {
    "janitor": ("run_demo_tables", "Tidy up the warehouse."),
    "captain": ("run_demo_hotfix", "Ship the fix for the login."),
    "travel": ("run_demo_trip", "Book my trip to Lisbon."),
    "secretary": ("run_demo_mail", "Tell Jonas that I am late."),
    "billing": ("run_demo_invoice", "Send Ayo the invoice."),
}
"""What each is asked, and in which run."""
TRIP = {
    "type": "object",
    "required": ["day", "class"],
    "properties": {
        "day": {"type": "string", "format": "date", "title": "When do you fly?"},
        "class": {"title": "Which class?", "enum": ["Economy", "Premium", "Business"]},
        "budget": {"type": "number", "minimum": 0, "title": "At most, in euros"},
        "window": {"type": "boolean", "title": "A window seat"},
    },
}
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "janitor": ("drop_table", {"table": "events_2021", "rows": 48_210_377}),
    "captain": (
        "ask_user",
        {
            "question": "Which branch should the fix go to?",
            "options": [
                {"value": "main", "label": "main", "description": "With the next release"},
                {"value": "release-4.18", "label": "release-4.18", "description": "Today"},
                {"value": "both", "label": "Both"},
            ],
        },
    ),
    "travel": ("ask_user", {"question": "A few things about your trip", "schema": TRIP}),
    "secretary": ("send_mail", {"to": "jonas@example.com", "text": "I am late, by ten minutes."}),
    "billing": ("send_invoice", {"to": "Ayo", "number": "INV-2291"}),
}


def provider(port: int) -> OAuthProvider:
    """Make the provider that the demo's own server plays."""
    here = f"http://127.0.0.1:{port}"
    return OAuthProvider(
        "example-mail",
        authorize_url=f"{here}/demo/authorize",
        token_url=f"{here}/demo/token",
        client_id="sayso-demo",
        redirect_url=f"{here}/oauth/callback",
    )


def make_cast() -> list[Agent]:
    """Make the agents. Every process makes its own, and all of them are the same agents."""

    @tool(
        approval=True,
        effect="once",
        risk="critical",
        within="30m",
        title="Drop table events_2021 in the warehouse",
        why="The table has not been read for two years, and costs 310 euros a month.",
    )
    def drop_table(table: str, rows: int) -> str:
        """Drop a table for good."""
        return f"dropped {table}, {rows:,} rows"

    @tool(sign_in=SignIn(provider="example-mail", scopes=("mail.send",)), effect="once")
    async def send_mail(ctx: Context, to: str, text: str) -> str:
        """Send a mail in somebody's name."""
        del ctx
        return f"written {len(text)} characters to {to}, in your name"

    @tool(effect="once")
    async def send_invoice(ctx: Context, to: str, number: str) -> str:
        """Send an invoice. The line is slow, the first time."""
        if ctx.attempt == 1:
            await asyncio.sleep(3600)
        return f"sent {number} to {to}"

    tools = {"drop_table": drop_table, "send_mail": send_mail, "send_invoice": send_invoice}
    return [
        Agent(name, model=ScriptedModel(_script(name)), tools=[tools.get(asks, ask_user())])
        for name, (asks, _) in ASKS.items()
    ]


_DONE = {
    "janitor": "I have {}.",
    "captain": "It goes to: {}.",
    "travel": "Booked, as you said: {}.",
    "secretary": "I have {}.",
    "billing": "I have {}.",
}


def _script(name: str) -> Any:
    asks, args = ASKS[name]

    def turn(messages: tuple[Message, ...]) -> Turn:
        match messages[-1]:
            case ToolMessage(outcome=Returned() as outcome):
                return say(_DONE[name].format(outcome.result()))
            case ToolMessage(outcome=Declined(reason=reason)):
                return say(f"I leave it, then{f': {reason}' if reason else ''}.")
            case ToolMessage(outcome=Failed(message=why)):
                return say(f"It could not be done: {why}.")
            case ToolMessage():
                return say("Nobody knows whether it was done. I leave it at that.")
            case _:
                return call(asks, args)

    return turn
