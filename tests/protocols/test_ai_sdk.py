"""What a run is on the AI SDK's wire. The sequences are written by hand, from what the real
`streamText` server of 7.0.169 sends, and from the record of seed 5 for the continuous ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from sayso import Context, Sayso, ask_user, tool
from sayso.domain import events as e
from sayso.domain.hold import answer, approve, reject
from sayso.domain.people import unrecorded
from sayso.domain.recorded import Recorded
from sayso.domain.value import Principal
from sayso.engine.feed import Delta
from sayso.protocols.ai_sdk import Projection, Wire
from sayso.protocols.ai_sdk_message import UIMessage, fold, show_run
from sayso.protocols.ai_sdk_suspension import Chunk
from sayso.protocols.ai_sdk_telling import Target, Telling
from sayso.testing import call, say
from tests.engine.kit import QUICK, agent, finished, journal, suspended
from tests.protocols.kit import kinds, short, until

PAY = {"amount": 200, "to": "Jiro"}
CALL, HOLD, MESSAGE = "run.1.0", "hold.1", "msg.1"

# Every field of every chunk that 6.0.3 takes: one more, and its whole stream fails.
MINIMAL = {
    "start": {"messageId"},
    "start-step": set(),
    "finish-step": set(),
    "finish": {"finishReason"},
    "error": {"errorText"},
    "text-start": {"id"},
    "text-delta": {"id", "delta"},
    "text-end": {"id"},
    "tool-input-start": {"toolCallId", "toolName"},
    "tool-input-available": {"toolCallId", "toolName", "input"},
    "tool-approval-request": {"approvalId", "toolCallId"},
    "tool-output-available": {"toolCallId", "output", "preliminary"},
    "tool-output-error": {"toolCallId", "errorText"},
    "tool-output-denied": {"toolCallId"},
    "data-suspension": {"id", "data"},
    "data-run": {"id", "data"},
}


@tool(approval=True, why="It is a lot.")
async def pay(amount: int, to: str) -> dict[str, Any]:
    return {"paid": amount, "to": to}


@tool(effect="none")
async def look(what: str) -> str:
    return f"{what} is there"


@tool(durable=True)
async def ask_twice(ctx: Context) -> str:
    one, two = await ctx.approval("One?"), await ctx.approval("Two?")
    return f"{bool(one)} {bool(two)}"


async def play(script: list[Any], *verdicts: Any, tools: Any = (pay, look)) -> list[Recorded]:
    """Run an agent, answer what it asks in order, and give its journal."""
    async with Sayso("memory:", agents=[agent(script, *tools)], bounds=QUICK) as app:
        run = await app.start("teller", "Pay Jiro.", by="mira")
        left = list(verdicts)
        while left:
            for hold in (await suspended(run)).holds:
                if left:
                    await app.decide(hold, left.pop(0), by="mira")
        view = await run.wait(timeout=10)
        if not verdicts and view.status == "suspended":
            return await journal(app.store, run.id)
        if view.status != "suspended":
            await finished(run)
        return await journal(app.store, run.id)


def told(entries: list[Recorded], *, wire: Wire | None = None, **target: Any) -> list[Chunk]:
    """Tell all of it at once."""
    telling = Telling(Target(run_id=entries[0].run_id, **target), wire=wire)
    return [*telling.begin(entries), *telling.end()]


def lived(entries: list[Recorded], *, wire: Wire | None = None) -> list[Chunk]:
    """Tell it entry by entry, as it happens."""
    telling = Telling(Target(run_id=entries[0].run_id), wire=wire)
    chunks = [*telling.begin(entries[:1])]
    for entry in entries[1:]:
        chunks += telling.add(entry)
    return [*chunks, *telling.end()]


def message(chunks: list[Chunk]) -> UIMessage:
    made = UIMessage(id="", role="assistant", parts=[])
    fold(made, chunks)
    return made


PAID = [[say("Let me see."), call("pay", PAY), call("look", {"what": "it"})], say("Paid.")]


async def test_a_run_that_is_held_ends_its_first_stream_with_the_request() -> None:
    entries = await play(PAID)

    assert short(lived(entries)) == [
        {"type": "start", "messageId": MESSAGE},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-1"},
        {"type": "text-delta", "id": "text-1", "delta": "Let me see."},
        {"type": "text-end", "id": "text-1"},
        {"type": "tool-input-available", "toolCallId": CALL, "toolName": "pay", "input": PAY},
        {
            "type": "tool-input-available",
            "toolCallId": "run.1.1",
            "toolName": "look",
            "input": {"what": "it"},
        },
        {"type": "tool-approval-request", "approvalId": HOLD, "toolCallId": CALL},
        {"type": "tool-output-available", "toolCallId": "run.1.1", "output": "it is there"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "tool-calls"},
    ]


@pytest.mark.parametrize("yes", [True, False], ids=["approve", "deny"])
async def test_the_second_stream_goes_on_with_the_same_message(yes: bool) -> None:
    entries = await play(PAID, approve() if yes else reject("too much"))
    run_id = entries[0].run_id
    seen = frozenset({f"{run_id}.1.0", f"{run_id}.1.1"})
    hold = "hold_" + run_id.removeprefix("run_") + ".1"

    chunks = short(told(entries, message=1, seen=seen, answered=frozenset({hold})))

    given = {"paid": 200, "to": "Jiro"}
    outcome = (
        {"type": "tool-output-available", "toolCallId": CALL, "output": given}
        if yes
        else {"type": "tool-output-denied", "toolCallId": CALL}
    )
    assert chunks == [
        {"type": "start", "messageId": MESSAGE},
        outcome,
        {"type": "tool-output-available", "toolCallId": "run.1.1", "output": "it is there"},
        {"type": "start-step"},
        {"type": "text-start", "id": "text-2"},
        {"type": "text-delta", "id": "text-2", "delta": "Paid."},
        {"type": "text-end", "id": "text-2"},
        {"type": "finish-step"},
        {"type": "finish", "finishReason": "stop"},
    ]


@pytest.mark.parametrize("yes", [True, False], ids=["approve", "deny"])
async def test_a_continuous_stream_has_the_order_of_seed_5(yes: bool) -> None:
    entries = await play([call("pay", PAY), say("Over.")], approve() if yes else reject("no"))

    chunks = lived(entries, wire=Wire(continuous=True))

    assert kinds(short(chunks)) == [
        "start",
        "tool-input-start",
        "tool-input-available",
        "start-step",
        "tool-approval-request",
        "finish-step",
        "tool-output-available" if yes else "tool-output-error",
        "text-start",
        "text-delta",
        "text-end",
        "finish",
    ]


async def test_a_continuous_stream_asks_for_all_held_calls_in_one_step() -> None:
    script = [[call("pay", PAY), call("pay", {"amount": 1, "to": "Ann"})], say("Over.")]
    entries = await play(script, approve(), reject("no"))

    chunks = kinds(short(lived(entries, wire=Wire(continuous=True))))

    begin, end = chunks.index("start-step"), chunks.index("finish-step")
    assert chunks[begin + 1 : end] == ["tool-approval-request"] * 2
    assert sorted(chunks[end + 1 : end + 3]) == ["tool-output-available", "tool-output-error"]


SCRIPTS: dict[str, tuple[list[Any], list[Any]]] = {
    "approved": (PAID, [approve()]),
    "denied": (PAID, [reject("no")]),
    "edited": (PAID, [approve({"amount": 150, "to": "Jiro"})]),
    "held": (PAID, []),
    "two": ([[call("pay", PAY), call("pay", PAY | {"to": "Ann"})], say("B.")], [approve()] * 2),
    "twice": ([call("pay", PAY), call("pay", PAY | {"amount": 3}), say("C.")], [approve()] * 2),
    "asks": ([call("ask_user", {"question": "Which?"}), say("D.")], [answer("this")]),
    "body": ([call("ask_twice", {}), say("E.")], [approve(), reject("no")]),
    "unusable": ([call("pay", "{broken"), say("F.")], []),
    "unknown": ([call("nothing", {}), say("G.")], []),
    "failed": ([call("pay", PAY)], [approve()]),
}


async def scripted(name: str) -> list[Recorded]:
    script, verdicts = SCRIPTS[name]
    return await play(script, *verdicts, tools=(pay, look, ask_user(), ask_twice))


@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_minimal_profile_has_nothing_that_6_0_3_refuses(name: str) -> None:
    entries = await scripted(name)

    for wire in (Wire(), Wire(continuous=True)):
        for chunk in lived(entries, wire=wire) + told(entries, wire=wire):
            assert chunk["type"] in MINIMAL, chunk
            assert chunk.keys() - {"type"} <= MINIMAL[chunk["type"]], chunk


@pytest.mark.parametrize("name", SCRIPTS)
async def test_however_a_journal_is_cut_into_streams_the_message_is_the_same(name: str) -> None:
    entries = await scripted(name)

    for end in range(1, len(entries) + 1):
        part = entries[:end]
        whole = message(told(part)).parts
        assert message(lived(part)).parts == whole
        # A client that was there until the run was suspended, and goes on from there.
        for cut in range(1, end):
            if part[cut - 1].type != "run.suspended":
                continue
            had = message(lived(part[:cut]))
            seen = frozenset(p["toolCallId"] for p in had.parts if "toolCallId" in p)
            fold(had, told(part, message=1, seen=seen))
            assert had.parts == whole, (end, cut)


@pytest.mark.parametrize("name", SCRIPTS)
async def test_what_a_page_loads_is_what_one_that_was_there_shows(name: str) -> None:
    entries = await scripted(name)

    shown = show_run(entries[0].run_id, entries)

    said, answered = shown.messages
    there = message(lived(entries, wire=Wire(extras=True)))
    assert (said.role, said.parts[0]["text"]) == ("user", "Pay Jiro.")
    assert (answered.id, answered.parts) == (there.id, there.parts)


async def test_a_loaded_part_says_how_its_request_was_answered() -> None:
    entries = await scripted("denied")
    (_, shown) = show_run(entries[0].run_id, entries).messages

    part = next(one for one in shown.parts if one["type"] == "tool-pay")
    assert part["state"] == "output-denied"
    assert part["approval"] | {"id": HOLD} == {"id": HOLD, "approved": False, "reason": "no"}


async def test_version_7_is_told_more_if_it_asks() -> None:
    entries = await scripted("approved")

    minimal, more = kinds(told(entries)), kinds(told(entries, wire=Wire(extras=True)))

    assert "tool-approval-response" not in minimal
    assert "tool-approval-response" in more


async def test_an_answer_that_did_not_settle_it_is_asked_for_again() -> None:
    """A part that kept its answer would be sent again by its client at once, without end."""
    entries = await scripted("held")
    run_id = entries[0].run_id
    hold = "hold_" + run_id.removeprefix("run_") + ".1"

    chunks = told(entries, seen=frozenset({f"{run_id}.1.0"}), answered=frozenset({hold}))

    assert short([one for one in chunks if "approval" in one["type"]]) == [
        {"type": "tool-approval-request", "approvalId": HOLD, "toolCallId": CALL}
    ]


async def test_an_answer_whose_call_is_not_over_shows_that_it_goes_on() -> None:
    entries = await scripted("approved")
    entries = entries[: until(entries, "hold.settled")]
    run_id = entries[0].run_id
    hold = "hold_" + run_id.removeprefix("run_") + ".1"

    chunks = told(entries, seen=frozenset({f"{run_id}.1.0"}), answered=frozenset({hold}))

    (output,) = [one for one in chunks if one.get("preliminary")]
    assert output["toolCallId"] == f"{run_id}.1.0"
    assert output["output"] == {"status": "approved"}


async def test_a_request_granted_elsewhere_is_no_request_any_more() -> None:
    entries = await scripted("approved")
    settled = until(entries, "hold.settled")
    telling = Telling(Target(run_id=entries[0].run_id))
    before = message([*telling.begin(entries[: settled - 1])])

    fold(before, telling.add(entries[settled - 1]))

    assert next(p for p in before.parts if p["type"] == "tool-pay")["state"] == "input-available"


async def test_whoever_may_not_decide_is_told_and_not_asked() -> None:
    entries = await scripted("held")
    bob = unrecorded(Principal(id="bob"))

    telling = Telling(Target(run_id=entries[0].run_id), who=bob)
    chunks = [*telling.begin(entries)]

    assert "tool-approval-request" not in kinds(chunks)
    (told,) = [one["data"] for one in chunks if one["type"] == "data-suspension"]
    assert (told["mine"], told["approvers"]) == (False, ["user:mira"])


async def test_questions_are_data_and_never_requests() -> None:
    entries = await scripted("asks")
    held = entries[: until(entries, "run.suspended")]

    chunks = told(held)

    assert "tool-approval-request" not in kinds(chunks)
    (asked,) = [one["data"] for one in chunks if one["type"] == "data-suspension"]
    assert (asked["kind"], asked["ask"]["text"]) == ("question", "Which?")
    # Nor does what was answered go anywhere but to the call.
    (told_later,) = [one["data"] for one in told(entries) if one["type"] == "data-suspension"]
    assert told_later["decision"]["verdict"] == "answered"
    assert "this" not in str(told_later["decision"])


async def test_a_run_that_failed_says_so_last() -> None:
    chunks = told(await scripted("failed"))

    assert kinds(chunks)[-1] == "error"
    assert "the script has 1 turns" in chunks[-1]["errorText"]
    assert "finish" not in kinds(chunks)


async def test_text_comes_as_it_is_said_and_is_not_said_twice() -> None:
    entries = await scripted("approved")
    turn = until(entries, "turn.taken")
    run_id = entries[0].run_id
    telling = Telling(Target(run_id=run_id))
    chunks = [*telling.begin(entries[: turn - 1])]

    for at, text in ((0, "Let "), (4, "me")):
        chunks += telling.add(Delta(run_id=run_id, turn=1, text=text, at=at))
    for entry in entries[turn - 1 :]:
        chunks += telling.add(entry)

    deltas = [one["delta"] for one in chunks if one["type"] == "text-delta"]
    assert deltas == ["Let ", "me", " see.", "Paid."]
    assert message([*chunks, *telling.end()]).parts == message(told(entries)).parts


@pytest.mark.parametrize(
    "pieces, shown",
    [
        ([(4, "me see.")], ["Let me see."]),
        ([(0, "Let "), (7, "see.")], ["Let me see."]),
        ([(0, "Let "), (4, "me"), (0, "Let "), (4, "me see.")], ["Let me see."]),
        ([(0, "No, "), (0, "Let "), (4, "me see.")], ["No, ", "Let me see."]),
    ],
    ids=["beginning lost", "middle lost", "asked again", "answered otherwise"],
)
async def test_text_with_holes_is_completed_by_its_turn(
    pieces: list[tuple[int, str]], shown: list[str]
) -> None:
    entries = await scripted("approved")
    turn = until(entries, "turn.taken")
    run_id = entries[0].run_id
    telling = Telling(Target(run_id=run_id))
    chunks = [*telling.begin(entries[: turn - 1])]

    for at, text in pieces:
        chunks += telling.add(Delta(run_id=run_id, turn=1, text=text, at=at))
    chunks += telling.add(entries[turn - 1])

    assert [p["text"] for p in message(chunks).parts if p["type"] == "text"] == shown


async def test_text_that_runs_ahead_of_an_outcome_waits_for_it() -> None:
    entries = await play([call("look", {"what": "it"}), say("There.")])
    done = until(entries, "call.finished")
    run_id = entries[0].run_id
    telling = Telling(Target(run_id=run_id))
    chunks = [*telling.begin(entries[: done - 1])]

    chunks += telling.add(Delta(run_id=run_id, turn=2, text="There", at=0))
    for entry in entries[done - 1 :]:
        chunks += telling.add(entry)

    found = kinds(chunks)
    assert found.index("tool-output-available") < found.index("text-start")
    assert found.index("tool-output-available") < len(found) - found[::-1].index("start-step")
    assert [one["delta"] for one in chunks if one["type"] == "text-delta"] == ["There", "."]


async def test_a_run_that_was_spoken_to_is_several_messages() -> None:
    async with Sayso(
        "memory:", agents=[agent([call("pay", PAY), say("Well.")], pay)], bounds=QUICK
    ) as app:
        run = await app.start("teller", "Pay Jiro.", by="mira")
        await suspended(run)
        await app.say(run, "Stop.", by="mira", supersede=True)
        await finished(run)
        entries = await journal(app.store, run.id)

    shown = show_run(run.id, entries)

    assert [one.role for one in shown.messages] == ["user", "assistant"] * 2
    assert shown.messages[2].parts[0]["text"] == "Stop."
    assert [part["type"] for part in shown.messages[3].parts] == ["step-start", "text"]
    first, second = told(entries, message=1), told(entries, message=2)
    assert (first[0]["messageId"], second[0]["messageId"]) == (
        shown.messages[1].id,
        shown.messages[3].id,
    )
    assert kinds(second)[1:] == [
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert message(first).parts[1]["state"] == "output-denied"


async def test_a_redacted_entry_leaves_a_hole_and_nothing_else() -> None:
    entries = await scripted("approved")
    turn = until(entries, "turn.taken") - 1
    holed = [*entries]
    holed[turn] = Recorded(run_id=entries[0].run_id, seq=turn + 1, at=0, event=None)

    assert kinds(told(holed)) == [
        "start",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]


async def test_no_step_begins_while_a_request_is_open() -> None:
    """A client sends its answers by itself only if they are in the last step of the message."""
    entries = await scripted("held")
    beside = e.TurnTaken(turn=2, seen=1, strand="item", text="Meanwhile.")
    opened = e.StrandOpened(strand="item", text="Do it.")
    run_id = entries[0].run_id
    more = [
        Recorded(run_id=run_id, seq=len(entries) + n, at=0, event=event)
        for n, event in enumerate([opened, beside], 1)
    ]
    projection = Projection(run_id)

    chunks = [chunk for entry in [*entries, *more] for chunk in projection.add(entry)]

    assert kinds(chunks).count("start-step") == 1
    assert chunks[-2]["delta"] == "Meanwhile."
