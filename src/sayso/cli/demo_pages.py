"""The demo with its pages: a server, the agents in a process that is killed, and you.

Without a person it is driven over HTTP, by the very requests that a person's tools would send.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from sayso.cli.demo_agent import PATIENCE_S, RUN_ID, payments, store_path
from sayso.cli.demo_cast import CAST
from sayso.cli.demo_check import Story
from sayso.cli.demo_plain import click_again, read_story, resume
from sayso.cli.demo_process import child, hear, say
from sayso.cli.demo_server import WHO
from sayso.cli.plain import plain
from sayso.domain.hold import Decision
from sayso.errors import SaysoError
from sayso.store.views import HoldView, RunView
from sayso.sync import Sayso

LOOK_S = 0.25
"""How often what was decided is looked at."""
RUNS = (RUN_ID, *(run_id for run_id, _ in CAST.values()))


def play_pages(directory: Path, *, headless: bool, port: int, opens: bool) -> Story | None:
    """Play it; give what was seen, or None if whoever plays left before the agents went on."""
    with ExitStack() as stack:
        server = stack.enter_context(child("sayso.cli.demo_server", str(directory), str(port)))
        told = hear(server)
        agents = _Agents(directory, told["port"], stack)
        say(1, "Six agents are at work, in a process of their own.")
        before = agents.start()
        click.echo(
            f"   Process {agents.pid}. Five of them have stopped, to ask {WHO}; the sixth is"
        )
        click.echo("   in the middle of sending an invoice.")
        app = stack.enter_context(Sayso(store_path(directory), work=False))
        shown = app.run(RUN_ID).view().holds[0]
        person = _Script(told) if headless else _Person(told, opens=opens)
        try:
            first = person.decide_first(app)
            killed_with = agents.kill()
            say(3, f"Decided: {first}. The agents' process is killed now: kill -9 {agents.pid}")
            click.echo(f"   Process {agents.pid} is gone (signal {-killed_with}).")
            click.echo("   Nothing runs the agents. Decide the next one all the same.")
            second = person.decide_next(app)
            resumed_pid = agents.start_again()
            say(
                4,
                f"Decided: {second}. A new process, {resumed_pid}, carries on where they stopped.",
            )
            click.echo("   The invoice was being sent when its process died: nobody knows whether")
            click.echo(f"   it went out. Nothing sends it again unless {WHO} says so.")
            person.decide_rest(app)
        except KeyboardInterrupt:
            click.echo()
        return _story(directory, app, person=person, shown=shown, before=before, agents=agents)


class _Agents:
    """The process of the agents."""

    def __init__(self, directory: Path, port: int, stack: ExitStack) -> None:
        self._directory, self._port, self._stack = directory, port, stack
        self._process: subprocess.Popen[bytes] | None = None
        self.pid = 0
        self.killed_with = 0
        self.resumed_pid = 0

    def start(self) -> dict[str, Any]:
        """Start it; give what it says once all have asked."""
        args = ("all", str(self._directory), str(self._port))
        self._process = self._stack.enter_context(child("sayso.cli.demo_agent", *args))
        self.pid = self._process.pid
        return hear(self._process)

    def kill(self) -> int:
        """Kill it."""
        assert self._process is not None
        self._process.kill()
        self.killed_with = self._process.wait()
        return self.killed_with

    def start_again(self) -> int:
        """Start another one in its place."""
        args = ("all", str(self._directory), str(self._port))
        self._process = self._stack.enter_context(child("sayso.cli.demo_agent", *args))
        self.resumed_pid = self._process.pid
        return self.resumed_pid


class _Person:
    """Whoever sits in front of it, with a browser."""

    def __init__(self, told: dict[str, Any], *, opens: bool) -> None:
        say(2, "Your inbox is here; decide whichever you like:")
        click.echo(f"   {told['enter']}")
        click.echo("   (Ctrl-C ends the demo.)")
        if opens:
            webbrowser.open(told["enter"])

    def decide_first(self, app: Sayso) -> str:
        """Wait until something is decided."""
        return self._next(app, 1)

    def decide_next(self, app: Sayso) -> str:
        """Wait until something else is."""
        return self._next(app, 2)

    def decide_rest(self, app: Sayso) -> None:
        """Tell what becomes of each, until all are over."""
        over: set[str] = set()
        while len(over) < len(RUNS):
            for run_id in RUNS:
                view = app.run(run_id).view()
                if view.final and run_id not in over:
                    over.add(run_id)
                    click.echo(
                        f"   {view.agent}: {plain(view.output or view.error or view.status)}"
                    )
            time.sleep(LOOK_S)

    def click_again(self, app: Sayso, shown: HoldView) -> Decision | None:
        """Approve once more, as somebody else who still has it on the screen."""
        return click_again(app, shown)

    def _next(self, app: Sayso, count: int) -> str:
        while len(decided := list(_decided(app))) < count:
            time.sleep(LOOK_S)
        return decided[-1]


class _Script:
    """A person's part, said over HTTP."""

    def __init__(self, told: dict[str, Any]) -> None:
        import httpx2

        self._http = httpx2.Client(
            base_url=told["url"],
            headers={"authorization": f"Bearer {told['token']}"},
            trust_env=False,
            timeout=PATIENCE_S,
        )
        say(2, f"{WHO} decides over HTTP, at {told['url']}")

    def decide_first(self, app: Sayso) -> str:
        """Answer the question."""
        del app
        return self._decide("question", "Which branch", {"action": "answer", "value": "both"})

    def decide_next(self, app: Sayso) -> str:
        """Approve the payment, while nothing runs the agent."""
        del app
        return self._decide("approval", "process_payment", {"action": "approve"})

    def decide_rest(self, app: Sayso) -> None:
        """Reject what is critical, fill the form in, leave the mail, and settle the doubt."""
        trip = {"day": "2026-12-01", "class": "Economy", "budget": 400.0}
        self._decide("approval", "Drop table", {"action": "reject", "reason": "We may need it"})
        self._decide("question", "A few things", {"action": "answer", "value": trip})
        self._decide("sign_in", "", {"action": "reject", "reason": "Not now"})
        self._decide("in_doubt", "", {"action": "fail", "reason": "I shall ask Ayo"})
        for run_id in RUNS:
            _tell(app.run(run_id).wait(final=True, timeout=PATIENCE_S))

    def click_again(self, app: Sayso, shown: HoldView) -> Decision | None:
        """Send the same decision once more; give what stands, if that is what one is told."""
        sent = {"action": "approve", "seen": shown.digest}
        answer = self._http.post(f"/v1/holds/{shown.id}/decision", json=sent)
        if answer.status_code != 409:  # noqa: PLR2004
            return None
        told, stands = answer.json()["decision"], app.hold(shown.id).decision
        click.echo(f"   409: {told['verdict']} by {told['by']['id']} already.")
        same = stands is not None and (told["verdict"], told["by"]["id"]) == (
            stands.word,
            stands.by.id,
        )
        return stands if same else None

    def _decide(self, kind: str, title: str, said: dict[str, Any]) -> str:
        hold = self._until(lambda: self._find(kind, title))
        answer = self._http.post(
            f"/v1/holds/{hold['id']}/decision", json={**said, "seen": hold["digest"]}
        )
        if not answer.is_success:
            raise SaysoError(f"{said['action']} was answered with {answer.status_code}")
        return f"{hold['title']}: {said['action']}"

    def _find(self, kind: str, title: str) -> dict[str, Any] | None:
        found = self._http.get("/v1/holds").raise_for_status().json()["items"]
        mine = (one for one in found if one["kind"] == kind and one["title"].startswith(title))
        return next(mine, None)

    @staticmethod
    def _until(look: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            if found := look():
                return found
            time.sleep(LOOK_S / 5)
        raise SaysoError("what was to come did not come")


def _tell(view: RunView) -> None:
    click.echo(f"   {view.agent}: {plain(view.output or view.error or view.status)}")


def _decided(app: Sayso) -> Iterator[str]:
    found = [hold for hold in app.holds(status="any") if hold.decision is not None]
    for hold in sorted(found, key=lambda one: one.decision.at if one.decision else 0):
        if hold.decision is not None:
            yield plain(f"{hold.title}: {hold.decision.word}")


def _story(
    directory: Path,
    app: Sayso,
    *,
    person: _Person | _Script,
    shown: HoldView,
    before: dict[str, Any],
    agents: _Agents,
) -> Story | None:
    decided = app.hold(shown.id)
    if decided.decision is None or not agents.resumed_pid:
        return None
    view = app.run(RUN_ID).wait(final=True, timeout=PATIENCE_S)
    said = {"status": view.status, "output": view.output, "error": view.error}
    say(5, "A double click: the payment is approved once more, by one who has not seen it done.")
    second = person.click_again(app, shown)
    _, again = resume(directory)
    click.echo("   And one more process has resumed the run: there was nothing left to do.")
    row, journal, report = asyncio.run(read_story(directory))
    return Story(
        who=WHO,
        verdict=decided.decision.verdict,
        before=before,
        killed_with=agents.killed_with,
        shown=shown,
        decided=decided,
        second=second,
        resumed_pid=agents.resumed_pid,
        resumed=said,
        again=again,
        payments=payments(directory),
        row=row,
        journal=journal,
        report=report,
    )
