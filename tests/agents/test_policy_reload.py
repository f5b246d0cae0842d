"""A policy file that changes: it is read again, and stays as it was if it cannot be.

Time is told by the file: `os.utime` makes it old enough, or too new.
"""

import logging
import os
import time
from pathlib import Path

import pytest

from sayso import (
    Agent,
    CallFacts,
    Forbid,
    PolicyFile,
    Principal,
    Proceed,
    Require,
    Rule,
    Sayso,
    approve,
    tool,
)
from sayso.domain.events import HoldOpened, RunStarted
from sayso.errors import BadPolicy
from sayso.store.journal import decode
from sayso.testing import ScriptedModel, call, say

CALL = CallFacts(
    tool="pay", args={}, by=Principal(id="mira"), agent="a", project="p", run_id="run_1"
)
NONE = "version: none\nrules: []"
ASK = "version: ask\nrules: [{tool: pay, approvers: [user:ann]}]"
FORBID = "version: forbid\nrules: [{tool: pay, forbid: never}]"
BROKEN = "version: 1\nrules: [{tool: pay, risk: odd}]"
PATIENCE_S = 20


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "policy.yaml"


def put(path: Path, text: str, age_s: float = 3600) -> None:
    """Put another file there, as an editor does, last changed that long ago."""
    new = path.with_name("new")
    new.write_text(text)
    os.utime(new, (time.time() - age_s,) * 2)
    new.replace(path)


def eager(path: Path, *rules: Rule, settle_s: float = 1.0) -> PolicyFile:
    return PolicyFile(path, *rules, look_every_s=0, settle_s=settle_s)


def test_a_file_that_changes_is_read_again(path):
    put(path, NONE)
    policy = eager(path)

    before = policy.on(CALL)
    put(path, ASK)
    asked = policy.on(CALL)
    put(path, FORBID)

    assert before == Proceed()
    assert isinstance(asked, Require)
    assert policy.on(CALL) == Forbid(why="never")
    assert policy.version.startswith("forbid+")
    assert policy.rules[0].ruling == Forbid(why="never")
    assert policy.problem is None


def test_rules_in_python_stay_beside_it(path):
    put(path, ASK)
    policy = eager(path, Rule("pay", forbid="not in Python"))
    put(path, NONE)

    assert policy.on(CALL) == Forbid(why="not in Python")
    assert policy.version.startswith("none+")


def test_a_file_that_cannot_be_used_changes_nothing_and_is_told_once(path, caplog):
    put(path, ASK)
    policy = eager(path)
    version = policy.version
    put(path, BROKEN)

    with caplog.at_level(logging.INFO, logger="sayso"):
        rulings = [policy.on(CALL) for _ in range(3)]

    assert all(isinstance(ruling, Require) for ruling in rulings)
    assert policy.version == policy.now().version == version
    assert (policy.problem.line, policy.problem.key) == (2, "risk")
    (record,) = caplog.records
    kept = f"the policy stays as it was, version {version}: {path}:2: risk: 'odd' is not a risk"
    assert record.getMessage().startswith(kept)


def test_a_file_that_is_mended_is_used(path, caplog):
    put(path, ASK)
    policy = eager(path)
    put(path, BROKEN)
    policy.on(CALL)
    put(path, FORBID)

    with caplog.at_level(logging.INFO, logger="sayso"):
        ruling = policy.on(CALL)

    assert ruling == Forbid(why="never")
    assert policy.problem is None
    assert f"is now version {policy.version}" in caplog.text


def test_a_file_that_is_gone_changes_nothing_and_is_told_once(path, caplog):
    put(path, ASK)
    policy = eager(path)

    path.unlink()
    with caplog.at_level(logging.INFO, logger="sayso"):
        rulings = [policy.on(CALL) for _ in range(3)]

    assert all(isinstance(ruling, Require) for ruling in rulings)
    assert "cannot be read" in str(policy.problem)
    assert len(caplog.records) == 1


def test_a_file_that_is_back_is_no_problem_any_more(path):
    put(path, ASK)
    policy = eager(path)

    path.rename(path.with_name("away"))
    policy.on(CALL)
    path.with_name("away").rename(path)
    policy.on(CALL)

    assert policy.problem is None
    assert policy.version.startswith("ask+")


def test_a_file_that_looks_the_same_is_not_read_again(path):
    put(path, ASK)
    policy = eager(path)
    before = path.stat()

    path.write_text(ASK.replace("ann", "bob"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    ruling = policy.on(CALL)

    assert ruling.approvers == ("user:ann",)
    assert policy.reload() is True


def test_a_file_that_is_still_written_to_is_left_alone(path):
    put(path, FORBID)
    policy = eager(path, settle_s=600)
    # Half of a file: it could be used, and would let everything pass.
    put(path, NONE, age_s=0)

    early = policy.on(CALL)
    put(path, ASK, age_s=601)

    assert early == Forbid(why="never")
    assert isinstance(policy.on(CALL), Require)


def test_a_file_from_the_future_is_read_in_the_end(path):
    put(path, NONE)
    policy = eager(path, settle_s=0)
    put(path, FORBID, age_s=-3600)

    assert policy.on(CALL) == Forbid(why="never")


def test_it_is_not_looked_at_for_every_call(path):
    put(path, NONE)
    policy = PolicyFile(path, look_every_s=3600)
    put(path, FORBID)

    assert policy.on(CALL) == Proceed()


def test_reload_reads_it_now_whatever_its_age(path):
    put(path, NONE)
    policy = PolicyFile(path, look_every_s=3600, settle_s=3600)
    put(path, FORBID, age_s=0)

    assert policy.reload() is True
    assert policy.reload() is False
    assert policy.on(CALL) == Forbid(why="never")


def test_reload_says_why_it_cannot_be_used_and_changes_nothing(path):
    put(path, FORBID)
    policy = PolicyFile(path, look_every_s=3600)
    put(path, BROKEN)

    with pytest.raises(BadPolicy) as refused:
        policy.reload()

    assert refused.value.line == 2
    assert policy.problem is refused.value
    assert policy.on(CALL) == Forbid(why="never")
    path.unlink()
    with pytest.raises(BadPolicy, match="cannot be read"):
        policy.reload()


def test_what_now_gives_never_changes(path):
    put(path, NONE)
    policy = eager(path)

    then = policy.now()
    put(path, FORBID)

    assert policy.on(CALL) == Forbid(why="never")
    assert (then.on(CALL), then.version.partition("+")[0]) == (Proceed(), "none")


@pytest.mark.parametrize("text", [BROKEN, ""])
def test_there_is_no_policy_without_a_file_that_can_be_used(path, text):
    put(path, text)

    with pytest.raises(BadPolicy):
        PolicyFile(path)


def teller(turns: int = 1) -> Agent:
    @tool(effect="once")
    def pay(amount: int) -> str:
        return "paid"

    calls = [call("pay", {"amount": n}) for n in range(turns)]
    return Agent("teller", model=ScriptedModel([*calls, say("Done.")]), tools=[pay])


async def test_the_journal_says_by_which_file_a_call_was_held(path):
    put(path, ASK)
    policy = eager(path)

    async with Sayso("memory:", agents=[teller()], policy=policy) as app:
        run = await app.start("teller", "Pay", by="mira")
        view = await run.wait(timeout=PATIENCE_S)
        held = view.holds[0]
        put(path, FORBID)
        await app.decide(held, approve(), by="ann")
        view = await run.wait(final=True, timeout=PATIENCE_S)
        entries = [entry.event async for entry in app.events(run)]

    versions = [e.policy_version for e in entries if isinstance(e, RunStarted | HoldOpened)]
    assert len(versions) == 2
    assert all(version.startswith("ask+") for version in versions)
    # What was approved meets the policy once more before it starts.
    assert view.messages[-2].outcome.reason == "never"


async def test_the_version_on_record_is_the_one_that_ruled(path):
    put(path, ASK)
    policy = eager(path)

    async def check(_: CallFacts) -> bool:
        put(path, NONE)
        return False

    async with Sayso(
        "memory:", agents=[teller()], policy=policy, check_for_intervention=check
    ) as app:
        run = await app.start("teller", "Pay", by="mira")
        await run.wait(timeout=PATIENCE_S)
        found = await app.store.hold(run.id, 1)
        await app.cancel(run, by="mira")

    assert decode(found.opened).policy_version.startswith("ask+")
