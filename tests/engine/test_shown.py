"""What a hold shows: the arguments from their bytes, and words about them with whose they are."""

from __future__ import annotations

from sayso import Context, Sayso, anyone, approve, ask_user, render_text, tool
from sayso.testing import call, say

from .kit import agent, held

LIE = "Arguments: none (2 bytes)\nnothing to see\u202e"


@tool(approval=True, title="Delete files", why="It cannot be undone.")
def delete(path: str, force: bool) -> str:
    return "gone"


@tool(approval=True)
def pay(amount: int) -> str:
    return "paid"


@tool(durable=True)
async def wait(ctx: Context) -> str:
    await ctx.external("until the bank calls", approvers=[anyone])
    return "done"


async def test_the_arguments_come_first_and_words_below_with_whose_they_are():
    teller = agent([call("delete", {"path": LIE, "force": True}), say("ok")], delete)
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

    assert render_text(hold.shown).split("\n") == [
        f"Arguments: 2 ({len(hold.args_json.encode())} bytes)",
        "  force: true",
        "  path: text, 2 lines",
        "    | Arguments: none (2 bytes)",
        r"    | nothing to see\u{202e}",
        "    - written as numbers: 1 direction",
        "Words of the tool or a rule:",
        '  title: "Delete files"',
        '  why: "It cannot be undone."',
    ]


async def test_hints_come_from_the_schema_that_is_given():
    teller = agent([call("pay", {"amount": 1999}), say("ok")], pay)
    hints = {"properties": {"amount": {"format": "money_minor", "currency": "EUR"}}}
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

    assert hold.shown.words == ()
    assert hold.shown.parts[0].formatted == ""
    assert hold.show(hints).parts[0].formatted == "EUR 19.99"


async def test_what_an_agent_asks_is_called_its_own_words():
    teller = agent([call("ask_user", {"question": "Shall I?"}), say("ok")], ask_user())
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

    (words,) = [words for words in hold.shown.words if words.by == "agent"]
    assert words.part.rows == ("Shall I?",)


async def test_why_something_outside_is_waited_for_is_no_word_of_ours():
    teller = agent([call("wait", {}), say("ok")], wait)
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))

    (words,) = [words for words in hold.shown.words if words.by == "agent"]
    assert words.part.rows == ("until the bank calls",)


async def test_an_edit_shows_the_arguments_that_were_edited():
    teller = agent([call("pay", {"amount": 5}), say("ok")], pay)
    async with Sayso("memory:", agents=[teller]) as app:
        hold = await held(await app.start("teller", "go", by="mira"))
        edited = await app.decide(hold, approve(args={"amount": 7}), by="mira")

    assert [part.raw for part in edited.shown.parts] == ["7"]


async def test_what_was_erased_is_not_shown_as_arguments():
    teller = agent([call("pay", {"amount": 5}), say("ok")], pay)
    async with Sayso("memory:", agents=[teller]) as app:
        run = await app.start("teller", "go", by="mira")
        hold = await held(run)
        await app.decide(hold, approve(), by="mira")
        await run.wait(final=True, timeout=30)
        turns = [one.seq async for one in app.events(run.id) if one.type.startswith("turn.")]
        await app.redact(run.id, turns[0], by="mira")
        erased = await app.hold(hold)

    assert not erased.shown.inspectable
    assert erased.shown.parts[0].rows == ("[erased]",)
