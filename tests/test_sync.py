import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import sayso
from sayso import Agent, Context, Failed, Returned, approve, reject, tool
from sayso.engine.handle import RunHandle as AsyncRunHandle
from sayso.errors import AlreadyDecided, BadSetup, StoreClosed, UnknownRun, WaitTimeout
from sayso.sync import RunHandle, Sayso
from sayso.testing import ScriptedModel, call, say


class Teller:
    def __init__(self, **options) -> None:
        self.paid: list[float] = []

        @tool(approval=True, effect="once", **options)
        def pay(amount: float) -> str:
            self.paid.append(amount)
            return "paid"

        script = [call("pay", {"amount": 200}), say("Paid."), say("You are welcome.")]
        self.pay = pay
        self.agent = Agent("teller", model=ScriptedModel(script), tools=[pay])


@pytest.fixture
def teller():
    return Teller()


@pytest.fixture
def app(teller):
    with Sayso("memory:", agents=[teller.agent]) as app:
        yield app


def names(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if name[0] != "_"}


def test_every_method_is_there_but_those_for_asynchronous_programs():
    assert names(Sayso) == names(sayso.Sayso) - {"serve"}
    assert names(RunHandle) == names(AsyncRunHandle)


@pytest.mark.parametrize("name", sorted(names(sayso.Sayso) - {"serve"}))
def test_methods_take_what_the_asynchronous_ones_take(name):
    there = inspect.signature(getattr(sayso.Sayso, name)).parameters
    here = inspect.signature(getattr(Sayso, name)).parameters

    assert list(here) == list(there)
    assert [p.default for p in here.values()] == [p.default for p in there.values()]
    assert [p.kind for p in here.values()] == [p.kind for p in there.values()]


def test_a_payment_is_held_decided_and_made_once(app, teller, tmp_path):
    run = app.start("teller", "Pay Jiro 200 dollars", by="mira")
    view = run.wait(timeout=10)
    hold = app.decide(view.holds[0], approve(), by="mira")
    done = run.wait(final=True, timeout=10)

    assert (view.status, hold.status, done.status) == ("suspended", "settled", "completed")
    assert done.output == "Paid."
    assert teller.paid == [200]


def test_errors_arrive_as_they_are(app):
    run = app.start("teller", "Pay", by="mira")
    hold = run.wait(timeout=10).holds[0]
    app.decide(hold, reject("no"), by="mira")

    with pytest.raises(AlreadyDecided) as told:
        app.decide(hold, approve(), by="mira")
    with pytest.raises(UnknownRun):
        app.run("run_nobody").view()

    assert told.value.decision.word == "rejected"


def test_a_wait_that_takes_too_long_ends(app):
    run = app.start("teller", "Pay", by="mira")

    with pytest.raises(WaitTimeout):
        run.wait(final=True, timeout=0.01)


def test_holds_are_listed_looked_at_and_undone(app, teller):
    run = app.start("teller", "Pay", by="mira")
    hold = run.wait(timeout=10).holds[0]
    app.decide(hold, approve(), by="mira", undo="9m")
    undone = app.undo(hold, by="mira")

    assert [found.id for found in app.holds(by="mira")] == [hold.id]
    assert app.hold(hold.id).status == run.hold(hold.id).status == undone.status == "open"
    assert teller.paid == []


def test_a_suspension_is_resumed_by_its_request_id(app):
    run = app.start("teller", "Pay", by="mira")
    hold = run.wait(timeout=10).holds[0]

    settled = app.resume(hold.request_id, approve(), by="mira")

    assert [found.status for found in settled] == ["settled"]
    assert run.wait(final=True, timeout=10).status == run.status() == "completed"


def test_handles_may_be_given_instead_of_ids(app):
    run = app.start("teller", "Pay", by="mira")
    run.wait(timeout=10)
    app.cancel(run, by="mira", reason="never mind")
    cancelled = run.wait(final=True, timeout=10)
    app.redact(run, 1, by="mira")
    following = app.say(run, "Thank you", by="mira")

    assert cancelled.status == "cancelled"
    assert next(app.events(run.id)).type == "redacted"
    assert following.id != run.id
    assert following.wait(final=True, timeout=10).output == "Paid."


def test_a_handle_does_where_an_id_does(app):
    run = app.start("teller", "Pay", by="mira")
    app.decide(run.wait(timeout=10).holds[0], approve(), by="mira")

    assert [entry.type for entry in app.events(run)][-1] == "run.completed"
    assert app.run(run).view() == run.view()


def test_the_store_is_at_hand_while_it_is_open(teller, tmp_path):
    app = Sayso(tmp_path / "pay.db", agents=[teller.agent])
    with app:
        assert app.store.name == str(tmp_path / "pay.db")

    with pytest.raises(StoreClosed):
        assert app.store


def test_events_are_followed_to_the_end_of_the_run(app):
    run = app.start("teller", "Pay", by="mira")
    seen = []
    for entry in app.events(run.id):
        seen.append(entry.seq)
        if entry.type == "run.suspended":
            app.decide(run.view().holds[0], approve(), by="mira")

    assert seen == list(range(1, run.view().seq + 1))


def test_an_iterator_of_events_may_be_dropped_in_the_middle(app):
    run = app.start("teller", "Pay", by="mira")
    run.wait(timeout=10)

    first = next(app.events(run.id))
    again = next(app.events(run.id, after=1, deltas=True))

    assert (first.seq, again.seq) == (1, 2)


def test_a_call_of_another_agent_goes_through_the_gate(app, teller):
    with ThreadPoolExecutor(1) as pool:
        outcome = pool.submit(app.gate, "pay", {"amount": 3}, by="mira", key="k")
        while not (found := app.holds(by="mira")):
            pass
        app.decide(found[0], approve(), by="mira")

        assert isinstance(outcome.result(30), Returned)
    assert teller.paid == [3]


def test_of_many_threads_that_decide_one_stands(app, teller):
    run = app.start("teller", "Pay", by="mira")
    hold = run.wait(timeout=10).holds[0]

    def decide(_: int) -> str:
        try:
            return app.decide(hold, approve(), by="mira").decision.word
        except AlreadyDecided as error:
            return f"told: {error.decision.word} by {error.decision.by}"

    with ThreadPoolExecutor(20) as pool:
        said = sorted(pool.map(decide, range(20)))

    run.wait(final=True, timeout=10)
    assert said == ["approved"] + ["told: approved by mira"] * 19
    assert teller.paid == [200]


def test_closing_waits_for_a_call_under_way(tmp_path):
    under_way, go_on = threading.Event(), threading.Event()

    @tool(effect="once")
    def slow() -> str:
        under_way.set()
        assert go_on.wait(30)
        return "done"

    agent = Agent("slow", model=ScriptedModel([call("slow"), say("Done.")]), tools=[slow])
    app = Sayso(tmp_path / "s.db", agents=[agent])
    app.open()
    app.start("slow", "go", by="mira", id="run_slow")
    assert under_way.wait(30)

    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(app.close)
        while not refuses(app):
            pass
        still_closing = not closing.done()
        go_on.set()
        closing.result(30)

    with Sayso(tmp_path / "s.db", work=False) as app:
        kinds = [entry.type for entry in app.events("run_slow")]
    assert still_closing
    assert kinds[-3:] == ["call.finished", "turn.taken", "run.completed"]


def refuses(app: Sayso) -> bool:
    try:
        app.run("run_slow")
    except StoreClosed:
        return True
    return False


def test_it_says_that_it_is_not_open(teller):
    app = Sayso("memory:", agents=[teller.agent])
    with pytest.raises(StoreClosed, match="`with Sayso"):
        app.start("teller", "Pay", by="mira")
    with pytest.raises(StoreClosed, match="`with Sayso"):
        app.run("run_x")
    with app, pytest.raises(BadSetup):
        app.open()
    with pytest.raises(StoreClosed, match="`with Sayso"):
        next(app.events("run_x"))

    app.close()


def test_a_store_that_does_not_open_leaves_no_thread(tmp_path):
    path = tmp_path / "s.db"
    path.write_text("This is no database, however long one looks at it." * 100)

    with pytest.raises(sayso.SaysoError):
        Sayso(path).open()

    assert not [thread for thread in threading.enumerate() if thread.name == "sayso.sync"]


def test_whoever_waits_learns_that_it_was_closed(teller):
    app = Sayso("memory:", agents=[teller.agent])
    app.open()
    run = app.start("teller", "Pay", by="mira")
    run.wait(timeout=10)
    entries = app.events(run.id)
    suspended = [next(entries).type for _ in range(4)]

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(next, entries)
        app.close()

        with pytest.raises(StoreClosed):
            waiting.result(30)
    assert suspended[-1] == "run.suspended"


def test_a_tool_on_the_loop_itself_is_refused_rather_than_stuck():
    box = []

    @tool(effect="none")
    async def look(ctx: Context) -> str:
        return box[0].run(ctx.run_id).status()

    with Sayso("memory:", tools=[look]) as app:
        box.append(app)
        outcome = app.gate("look", {}, by="mira", timeout=10)

    assert isinstance(outcome, Failed)
    assert "wait for itself" in outcome.message


def test_a_synchronous_tool_may_use_it():
    box = []

    @tool(effect="none")
    def look(ctx: Context) -> str:
        return box[0].run(ctx.run_id).status()

    with Sayso("memory:", tools=[look]) as app:
        box.append(app)
        outcome = app.gate("look", {}, by="mira", timeout=10)

    assert isinstance(outcome, Returned)
    assert outcome.result() == "running"


PROGRAM = """
import os, sys
from sayso import Agent, tool
from sayso.errors import StoreForked
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say

@tool(approval=True)
def pay(amount: float) -> str:
    return "paid"

model = ScriptedModel([call("pay", {"amount": 2}), say("Paid.")])
agent = Agent("teller", model=model, tools=[pay])
with Sayso(sys.argv[1], agents=[agent]) as app:
    run = app.start("teller", "Pay", by="mira", id="run_1")
    run.wait()
"""


def test_ctrl_c_ends_the_wait_and_leaves_the_run_as_it_was(tmp_path, teller):
    program = PROGRAM + "    print('waiting', flush=True)\n    run.wait(final=True)\n"
    command = [sys.executable, "-c", program, str(tmp_path / "s.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=30)

    assert process.returncode == -signal.SIGINT
    assert stderr.endswith(b"KeyboardInterrupt\n")
    with Sayso(tmp_path / "s.db", agents=[teller.agent]) as app:
        app.decide("hold_1.1", approve(), by="mira")
        assert app.run("run_1").wait(final=True, timeout=10).status == "completed"


def test_a_forked_child_is_told_so_rather_than_stuck(tmp_path):
    program = (
        PROGRAM
        + """
    if os.fork() == 0:
        try:
            run.status()
        except StoreForked:
            os._exit(7)
        os._exit(1)
    print(os.waitstatus_to_exitcode(os.wait()[1]), run.status())
"""
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "s.db")]

    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout

    assert printed == b"7 suspended\n"


STUBBORN = """
import sys, threading
from sayso import Agent, tool
from sayso.sync import Sayso
from sayso.testing import ScriptedModel, call, say

@tool(effect="once")
def pay() -> str:
    print("under way", flush=True)
    threading.Event().wait()

agent = Agent("teller", model=ScriptedModel([call("pay"), say("Paid.")]), tools=[pay])
with Sayso(sys.argv[1], agents=[agent], drain_s=3600) as app:
    app.start("teller", "Pay", by="mira", id="run_1").wait()
"""


def test_a_second_ctrl_c_does_not_wait_for_calls_and_leaves_them_in_doubt(tmp_path):
    command = [sys.executable, "-c", STUBBORN, str(tmp_path / "s.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"under way\n"
        for _ in range(100):
            process.send_signal(signal.SIGINT)
            try:
                process.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
            break

    @tool(effect="once")
    def pay() -> str:
        raise AssertionError("it must not run again")

    agent = Agent("teller", model=ScriptedModel([call("pay"), say("Paid.")]), tools=[pay])
    with Sayso(tmp_path / "s.db", agents=[agent]) as app:
        view = app.run("run_1").wait(timeout=30)
    assert [hold.kind for hold in view.holds] == ["in_doubt"]


def test_the_audit_desk_is_there_without_await(app, tmp_path):
    run = app.start("teller", "Pay", by="mira")
    app.decide(run.wait(timeout=10).holds[0], approve(), by="mira")
    run.wait(final=True, timeout=10)

    seal = app.audit.seal(out=tmp_path / "seals")
    lines = list(app.audit.export(run=run.id))

    assert app.audit.verify(seals=tmp_path / "seals").ok
    assert seal.key == app.audit.key()
    assert [line.meaning for line in lines] == ["approved pay"]
    assert app.audit.refused() == []
    assert app.audit.retain("90d", by="noor", dry_run=True).runs == 0
