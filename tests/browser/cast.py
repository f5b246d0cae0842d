"""Agents that ask for something of every kind, as people would meet them in an office."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from sayso import (
    Agent,
    AssistantMessage,
    Context,
    Machine,
    Node,
    OAuthProvider,
    Planner,
    Policy,
    Rule,
    Sayso,
    SignIn,
    ask_user,
    role,
    spawn,
    tool,
    user,
)
from sayso.domain.message import ToolMessage
from sayso.testing import ScriptedModel, call, say

Money = Annotated[float, Field(json_schema_extra={"format": "money", "currency": "currency"})]
MAIL = """Dear Ms Okafor,

thank you for your patience. The parts for your order 4-118 have arrived this morning, and we can
send them out today if you confirm the address below. Delivery takes two working days.

Kind regards
The service desk"""
TRIP = {
    "type": "object",
    "required": ["day", "class", "traveller"],
    "properties": {
        "day": {"type": "string", "format": "date", "title": "When do you fly?"},
        "class": {"title": "Which class?", "enum": ["Economy", "Premium", "Business"]},
        "budget": {"type": "number", "minimum": 50, "title": "At most, in euros"},
        "window": {"type": "boolean", "title": "A window seat"},
        "traveller": {
            "type": "object",
            "title": "Who travels",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "title": "Name, as in the passport"},
                "mail": {"type": "string", "format": "email", "title": "E-mail"},
            },
        },
    },
}


@tool(
    approval=True,
    effect="once",
    risk="high",
    within="4h",
    title="Transfer €12,400.00 to Nordwind GmbH",
    why="Invoice INV-2291 is due today and matches order 4-118. The bank account is new.",
)
def transfer(
    amount: Money,
    to: str,
    iban: str,
    currency: Literal["EUR", "USD"] = "EUR",
    reference: int = 0,
    memo: str = "",
) -> str:
    """Pay somebody."""
    return f"paid {amount} to {to}"


@tool(
    approval=True,
    effect="once",
    risk="critical",
    within="9m",
    title="Drop table events_2021 in the warehouse",
    why="The table has not been read for two years, and costs 310 euros a month.",
)
def drop_table(table: str, rows: int) -> str:
    """Drop a table for good."""
    return f"dropped {table}, {rows:,} rows"


@tool(approval=True, effect="once", risk="medium", title="Refund €89.00 to Ayo Balogun")
def refund(amount: Money, to: str, currency: str = "EUR") -> str:
    """Give money back."""
    return f"gave {amount} back"


@tool(approval=True, effect="once", risk="low", title="Order coffee for the office")
def order(what: str, kilograms: int, price: Money, currency: str = "EUR") -> str:
    """Order something."""
    return f"ordered {kilograms} kg of {what}"


@tool(approval=True, effect="once", risk="medium", title="Answer Ms Okafor about order 4-118")
def reply(to: str, subject: str, text: str, copies: list[str], headers: dict[str, Any]) -> str:
    """Write to a customer."""
    return "sent"


@tool(approval=True, effect="once", risk="high", title="Pay the wages of November")
def pay_wages(month: str, people: int, total: Money, currency: str = "EUR") -> str:
    """Pay everybody."""
    return "paid"


@tool(approval=True, effect="once", risk="medium", title="Publish the release notes")
def publish(text: str) -> str:
    """Publish."""
    return "published"


@tool(approval=True, effect="once", risk="low", title="Book the small meeting room")
def book_room(room: str) -> str:
    """Book a room."""
    return "booked"


@tool(approval=True, effect="once", risk="low", within="1s", title="Hold the last seat on LH 1166")
def hold_seat(flight: str) -> str:
    """Hold a seat."""
    return "held"


@tool(approval=True, effect="once", risk="medium", title="Buy two desks")
def buy(item: str, count: int) -> str:
    """Buy something."""
    return f"bought {count} of {item}"


@tool(effect="once", risk="high")
def send_invoice(to: str, number: str) -> str:
    """Send an invoice."""
    raise ConnectionResetError("the line went dead")


@tool(sign_in=SignIn(provider="example-mail", scopes=("mail.read",)), effect="once")
def read_mail(ctx: Context, folder: str) -> str:
    """Read somebody's mail."""
    del ctx
    return f"12 mails in {folder}"


@tool(sign_in=SignIn(provider="example-mail", scopes=("mail.send",)), effect="once")
def send_mail(ctx: Context, to: str, text: str) -> str:
    """Send a mail in somebody's name."""
    del ctx
    return f"sent {len(text)} characters to {to}"


@tool(sign_in=SignIn(provider="example-calendar", scopes=("calendar.readonly",)), effect="once")
def find_slot(ctx: Context, week: str) -> str:
    """Look for a free hour."""
    del ctx
    return "Tuesday, 10:00"


@tool(blocking=True)
def sign_contract(ctx: Context, contract: str) -> Any:
    """Wait until a contract is signed elsewhere."""
    return ctx.suspend(reason="Is the contract C-77 signed?", metadata={"contract": contract})


@tool(effect="none")
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what}: nothing unusual"


def ask(text: str, **fields: Any) -> Any:
    return call("ask_user", {"question": text, **fields})


BRANCHES = [
    {"value": "main", "label": "main", "description": "With the next release, on Thursday"},
    {"value": "release-4.18", "label": "release-4.18", "description": "Today"},
    {"value": "both", "label": "Both"},
]
PLACES = ["Lisbon", "Porto", "Faro"]
ASKS: dict[str, tuple[str, list[Any], list[Any]]] = {
    "finance-bot": (
        "Pay what is due to Nordwind.",
        [
            say("The invoice matches the order. I need a yes to pay it."),
            call(
                "transfer",
                {
                    "amount": 12400.0,
                    "to": "Nordwind GmbH",
                    "iban": "DE02 1203 0000 0000 2020 51",
                    "reference": 9007199254740993,
                    "memo": "INV-2291",
                },
            ),
        ],
        [transfer],
    ),
    "janitor": (
        "Tidy up the warehouse.",
        [call("drop_table", {"table": "events_2021", "rows": 48_210_377})],
        [drop_table],
    ),
    "support-bot": (
        "Ayo's parcel was lost.",
        [say("The parcel is lost."), call("refund", {"amount": 89.0, "to": "Ayo Balogun"})],
        [refund],
    ),
    "office-bot": (
        "We are out of coffee.",
        [call("order", {"what": "coffee", "kilograms": 2, "price": 42.5})],
        [order],
    ),
    "writer": (
        "Tell Ms Okafor that the parts are here.",
        [
            call(
                "reply",
                {
                    "to": "okafor@example.com",
                    "subject": "Your order 4-118",
                    "text": MAIL,
                    "copies": ["desk@example.com", "p\u0430ypal@example.com"],
                    "headers": {"x-team": {"name": "desk", "lead": {"name": "Jonas", "id": 7}}},
                },
            )
        ],
        [reply],
    ),
    "payroll": (
        "It is the 25th.",
        [call("pay_wages", {"month": "2026-11", "people": 41, "total": 168200.0})],
        [pay_wages],
    ),
    "captain": (
        "Ship the fix for the login.",
        [ask("Which branch should the fix go to?", options=BRANCHES)],
        [ask_user()],
    ),
    "scout": (
        "Where shall we meet?",
        [ask("Where could we meet?", kind="choices", options=PLACES)],
        [ask_user()],
    ),
    "herald": (
        "Ship it on Friday?",
        [ask("May I announce it today?", kind="yes_no")],
        [ask_user()],
    ),
    "clerk": ("Why is it late?", [ask("What shall I tell the customer?")], [ask_user()]),
    "counter": ("Order cups.", [ask("How many cups?", kind="number")], [ask_user()]),
    "calendar": ("Set a date.", [ask("Which day suits you?", kind="date")], [ask_user()]),
    "travel": (
        "Book my trip to Lisbon.",
        [ask("A few things about your trip", schema=TRIP)],
        [ask_user()],
    ),
    "reader": ("What came in?", [call("read_mail", {"folder": "Inbox"})], [read_mail]),
    "secretary": (
        "Tell Jonas that I am late.",
        [call("send_mail", {"to": "jonas@example.com", "text": "I am late, by ten minutes."})],
        [send_mail],
    ),
    "planner-bot": (
        "Find an hour for us.",
        [call("find_slot", {"week": "2026-W48"})],
        [find_slot],
    ),
    "billing": (
        "Send Ayo the invoice.",
        [call("send_invoice", {"to": "Ayo Balogun", "number": "INV-2291"})],
        [send_invoice],
    ),
    "legal": ("Sign C-77.", [call("sign_contract", {"contract": "C-77"})], [sign_contract]),
    "editor": ("Publish them.", [call("publish", {"text": "Faster, and calmer."})], [publish]),
    "host": ("A room, please.", [call("book_room", {"room": "Small"})], [book_room]),
    "agency": ("LH 1166, quick.", [call("hold_seat", {"flight": "LH 1166"})], [hold_seat]),
    "buyer": ("two desks", [call("buy", {"item": "desk", "count": 2})], [buy]),
}
"""What each is told, what it asks then, and its tools."""
PLAN = {
    "items": [
        {"id": "look", "task": "Look up what the office needs."},
        {"id": "desks", "task": "Buy the desks.", "after": ["look"]},
        {"id": "sum", "task": "Say what it came to.", "after": ["desks"]},
    ]
}


def _once(turn: list[Any]) -> Any:
    def turns(messages: Any) -> Any:
        if isinstance(messages[-1], ToolMessage):
            return say("Done.")
        return turn

    return turns


def _plan(messages: Any) -> Any:
    taken = sum(isinstance(one, AssistantMessage) for one in messages)
    first = messages[0].text
    if first == "Furnish the office.":
        return say(json.dumps(PLAN)) if taken == 0 else say("All is bought.")
    todo = {
        "Look": call("look_up", {"what": "the office"}),
        "Buy ": call("buy", {"item": "desk", "count": 2}),
    }.get(first[:4])
    return todo if todo and taken == 0 else say("Done.")


def _desk(messages: Any) -> Any:
    taken = sum(isinstance(one, AssistantMessage) for one in messages)
    if messages[0].text != "Refund 7 and 8":
        refunded = call("refund", {"amount": 89.0, "to": messages[0].text})
        return [refunded, call("cede", {"payload": "refunded"})][min(taken, 1)]
    clerks = [call("spawn", {"node": "clerk", "input": one}) for one in ("order 7", "order 8")]
    return [clerks, say("Two clerks are at it.")][min(taken, 1)]


def make_app(store: str, provider: str, **options: Any) -> Sayso:
    """Make the office; `provider` is where its people have their mail."""
    agents = [
        Agent(name, model=ScriptedModel(_once(turn)), tools=tools)
        for name, (_, turn, tools) in ASKS.items()
    ]
    buyer = next(one for one in agents if one.name == "buyer")
    boss = [say("I shall have desks bought."), call("spawn", {"agent": "buyer", "input": "desks"})]
    return Sayso(
        store,
        agents=[
            *agents,
            Agent("manager", model=ScriptedModel(_once(boss)), tools=[spawn(buyer)]),
            Planner("furnisher", model=ScriptedModel(_plan), tools=[look_up, buy]),
            Machine(
                "desk",
                model=ScriptedModel(_desk),
                root="counter",
                nodes=[
                    Node("counter", instructions="You refund.", spawns=["clerk"]),
                    Node("clerk", instructions="You refund one order.", tools=[refund]),
                ],
            ),
        ],
        policy=Policy(
            Rule("pay_wages", approvers=[role("finance")], quorum=2),
            Rule("publish", approvers=[user("jonas")]),
        ),
        providers=[
            OAuthProvider(
                name,
                authorize_url=f"{provider}/authorize",
                token_url=f"{provider}/token",
                client_id="sayso",
                redirect_url="http://127.0.0.1/oauth/callback",
            )
            for name in ("example-mail", "example-calendar")
        ],
        **options,
    )
