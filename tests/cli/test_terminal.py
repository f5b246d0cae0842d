"""People at a terminal: a real pseudo-terminal, a real server, and the store that it serves."""

import asyncio
import json
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pexpect
import pyte
import pytest

from sayso.domain.glyph import pieces
from sayso.wired import only_looking

from .conftest import finish
from .stage import STAGE, WAYS, app, staged


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


def with_code(way: str) -> tuple[str, ...]:
    """Say where the code is that checks changes, where no server has it."""
    return ("--app", STAGE) if way == "local" else ()


def test_an_approval_shows_what_changes_asks_once_and_can_be_undone(stage, way, terminal):
    name = stage.ask("pay 200")
    env = stage.env(way, NO_COLOR="1")

    child = terminal("approve", name, "--set", "amount=150", *with_code(way), **env)
    child.expect_exact("Approve this? [y/N] ")
    shown = child.before
    child.sendline("y")
    said, code = finish(child)
    decided = stage.hold(name)
    back, undone = finish(terminal("undo", name, **env))

    assert "risk       ▂▄▆ high" in shown
    assert "  amount: 200.0\r\n" in shown
    assert r'to: "Jiro \u{1b}[2J\u{202e}"' in shown
    assert shown.endswith("Changes:\r\n- amount: 200.0\r\n+ amount: 150\r\n")
    assert "Approved with changes. Takes effect in" in said
    assert f"`sayso undo {name}` to stop it." in said
    assert code == 0
    assert (decided["status"], decided["args"]["amount"]) == ("decided", 150.0)
    assert (undone, "waits again" in back) == (0, True)
    assert stage.hold(name)["status"] == "open"


def test_whatever_is_no_yes_decides_nothing(stage, terminal):
    name = stage.ask()

    child = terminal("approve", name, **stage.env("local"))
    child.expect_exact("[y/N] ")
    child.sendline("")
    said, code = finish(child)

    assert "Nothing is decided." in said
    assert code == 1
    assert stage.hold(name)["status"] == "open"


def test_what_is_critical_takes_the_name_of_its_tool(stage, way, terminal):
    name = stage.ask("wipe")
    env = stage.env(way, NO_COLOR="1")

    careless = terminal("approve", name, "--no-undo", **env)
    careless.expect_exact("Type wipe to approve it: ")
    careless.sendline("y")
    _, careless_code = finish(careless)
    before = stage.hold(name)["status"]
    child = terminal("approve", name, "--no-undo", **env)
    child.expect_exact("Type wipe to approve it: ")
    child.sendline("wipe")
    said, done = finish(child)

    assert (careless_code, before) == (1, "open")
    assert (done, "Approved." in said) == (0, True)
    assert stage.hold(name)["status"] == "settled"


def test_a_yes_that_was_typed_before_anything_was_shown_is_none(stage, terminal):
    name = stage.ask()

    child = terminal("approve", name, **stage.env("local"))
    child.send("y\n")
    child.expect_exact("[y/N] ")
    child.sendline("n")

    assert finish(child)[1] == 1
    assert stage.hold(name)["status"] == "open"


def test_an_interrupt_ends_it_at_once_and_decides_nothing(stage, terminal):
    name = stage.ask()

    child = terminal("approve", name, **stage.env("remote"))
    child.expect_exact("[y/N] ")
    child.sendintr()
    said, code = finish(child)

    assert (code, "interrupted" in said) == (130, True)
    assert stage.hold(name)["status"] == "open"


def test_a_session_goes_from_one_request_to_the_next(stage, way, terminal):
    names = [stage.ask(text) for text in ("pay 1", "ask", "wipe", "pay 2")]
    pay, ask, wipe, other = names
    runs = [f"run:{name.removeprefix('hold_').partition('.')[0]}" for name in names]

    child = terminal("inbox", *runs, **stage.env(way, NO_COLOR="1"))
    child.send("aaaa")  # Nobody has seen anything yet.
    child.expect_exact(pay)
    child.expect("a approve .* q quit")
    pressed(child, "aa", "Approved. Takes effect in")  # The second is for what is not there yet.
    child.expect_exact(ask)
    child.expect("1-9 answer .* q quit")
    pressed(child, "2", "Answered. Takes effect in")
    child.expect_exact(wipe)
    child.expect("a approve .* q quit")
    pressed(child, "A", "Type wipe to approve: ")
    child.sendline("wipe")
    child.expect_exact("Approved. Takes effect in")
    child.expect_exact(other)
    child.expect("a approve .* q quit")
    pressed(child, "r", "Why\\? ")
    child.sendline("not twice")
    child.expect_exact("Rejected. Takes effect in")
    child.expect_exact("Nothing waits for mira.")
    pressed(child, "u", "waits again")
    child.expect_exact(other)
    child.expect("a approve .* q quit")
    pressed(child, "s", "Nothing waits for mira. 1 skipped.")
    child.send("q")
    said, code = finish(child)

    assert (code, "3 decided." in said) == (0, True)
    found = [stage.hold(name)["decision"] for name in names]
    assert [one and one["verdict"] for one in found] == ["approved", "answered", "approved", None]


def test_a_digit_is_no_answer_where_it_could_only_begin_one(stage, way, terminal):
    name = stage.ask("name")
    run = f"run:{name.removeprefix('hold_').partition('.')[0]}"

    child = terminal("inbox", run, **stage.env(way, NO_COLOR="1"))
    child.expect("e answer in words .* q quit")
    pressed(child, "7", "Nothing is decided.")
    child.send("q")
    said, code = finish(child)

    assert (code, "0 decided." in said) == (0, True)
    assert stage.hold(name)["status"] == "open"


def pressed(child: pexpect.spawn, key: str, then: str) -> None:
    """Press a key until it does something: those pressed too early are dropped."""
    for _ in range(40):
        child.send(key)
        if child.expect([then, pexpect.TIMEOUT], timeout=0.6) == 0:
            return
    pytest.fail(f"{key} did nothing: {child.before}")


def test_what_somebody_else_decides_goes_by_itself(stage, way, terminal):
    name = stage.ask("pay 3")
    run = f"run:{name.removeprefix('hold_').partition('.')[0]}"

    child = terminal("inbox", run, **stage.env(way, NO_COLOR="1"))
    child.expect_exact(name)
    body = {"action": "reject", "reason": "mine", "seen": stage.hold(name)["digest"]}
    stage.post(f"/v1/holds/{name}/decision", body)
    child.expect_exact("Somebody was faster: it was rejected by mira")
    child.expect_exact("Nothing waits")
    child.kill(signal.SIGINT)

    assert finish(child)[1] == 130


class Tokens(BaseHTTPRequestHandler):
    """A provider that gives everybody a token."""

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        grant = {"token_type": "Bearer", "access_token": "the-token", "expires_in": 3600}
        self.wfile.write(json.dumps(grant).encode())

    def log_message(self, *_):
        pass


async def come_back(state: str, who: str) -> None:
    async with only_looking(app()) as site:
        await site.oauth_callback(state, "code", by=who)


def test_a_sign_in_is_waited_for(stage, way, terminal, monkeypatch):
    # Whoever is signed in is not asked again.
    who = {"local": "ann", "remote": "bob"}[way]
    name = stage.ask("mail", who)

    child = terminal("signin", name, *with_code(way), **stage.env(way, who))
    child.expect(r"https://login.example.com/authorize\?(\S+)\r\n")
    (state,) = parse_qs(child.match[1])["state"]
    child.expect_exact("Waiting until you have signed in there")
    drawn = child.before
    with ThreadingHTTPServer(("127.0.0.1", 0), Tokens) as provider:
        threading.Thread(target=provider.serve_forever, daemon=True).start()
        monkeypatch.setenv("STAGE_TOKENS", f"http://127.0.0.1:{provider.server_port}/token")
        monkeypatch.setenv("STAGE_STORE", str(stage.store))
        asyncio.run(come_back(state, who))
        provider.shutdown()
    said, code = finish(child)

    assert any(block in drawn for block in "█▀▄")
    assert (code, f"by {who}" in said) == (0, True)


def test_a_sign_in_that_is_denied_is_no_success(stage, way, terminal):
    name, env = stage.ask("mail", "eve"), stage.env(way, "eve")

    child = terminal("signin", name, *with_code(way), **env)
    child.expect_exact("Waiting until you have signed in there")
    denied, done = finish(terminal("consent", name, "--deny", "--reason", "no", **env))
    said, code = finish(child)

    assert (done, "Rejected." in denied) == (0, True)
    assert (code, "rejected by eve" in said) == (1, True)


def test_forty_columns_are_enough(stage, terminal):
    name = stage.ask("pay 5")
    env = stage.env("local", NO_COLOR="1")

    for command in (["show", name], ["ls", f"run:{name[5:-2]}"], ["approve", name]):
        child = terminal(*command, columns=40, **env)
        if command[0] == "approve":
            child.expect_exact("[y/N] ")
            printed = child.before
            child.sendline("n")
            finish(child)
        else:
            printed, _ = finish(child)
        screen = pyte.Screen(40, 200)
        pyte.Stream(screen).feed(printed)
        lines = printed.replace("\r", "").split("\n")
        assert max(sum(width for _, width in pieces(line)) for line in lines) <= 40
        # The terminal has broken no line: each is a row of its own.
        assert [row.rstrip() for row in screen.display if row.strip()] == [
            line.rstrip() for line in lines if line.strip()
        ]


def test_colours_are_for_whoever_wants_them(stage, terminal):
    name = stage.ask("pay 6")

    coloured, _ = finish(terminal("show", name, **stage.env("local")))
    plain, _ = finish(terminal("show", name, **stage.env("local", NO_COLOR="1")))

    assert "\x1b[" in coloured
    assert "\x1b" not in plain
    assert "▂▄▆ high" in plain
