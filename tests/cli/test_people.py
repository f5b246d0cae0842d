"""The commands for people: how they end, and what they print where, at a store and at a server."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from sayso.cli import main
from sayso.cli.asking import edit

from .conftest import PATIENCE_S, SAYSO, environment
from .stage import STAGE, WAYS, staged, wait


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    with staged(tmp_path_factory.mktemp("stage")) as it:
        yield it


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def run(stage, monkeypatch):
    """Run a command in this process: it is the same code, and starts in no time."""

    def invoke(way: str, *args: object, who: str = "mira", **env: str):
        for name in ("SAYSO_STORE", "SAYSO_USER", "SAYSO_URL", "SAYSO_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        return CliRunner().invoke(
            main, [str(arg) for arg in args], env=stage.env(way, who, **env), prog_name="sayso"
        )

    return invoke


def test_done_is_0_and_words_are_not_data(stage, run, way):
    name = stage.ask()

    quiet = run(way, "approve", name, "--yes", "--no-undo", "--reason", "as agreed")
    loud = run(way, "reject", stage.ask(), "--reason", "no", "--json")

    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert "Approved." in quiet.stderr
    assert stage.hold(name)["decision"]["note"] == "as agreed"
    assert json.loads(loud.stdout)["decision"]["verdict"] == "rejected"


def test_an_error_is_1_and_a_wrong_command_line_2(stage, run, way):
    name = stage.ask("ask")

    wrong = run(way, "approve", name, "--yes")
    unasked = run(way, "approve", stage.ask())
    twice = run(way, "answer", name, "1", "--text", "red")
    filtered = run(way, "ls", "rsik:high")

    assert (wrong.exit_code, unasked.exit_code, twice.exit_code) == (1, 2, 2)
    assert "nobody can be asked here" in unasked.stderr
    assert (filtered.exit_code, "did you mean 'risk'" in filtered.stderr) == (2, True)
    assert stage.hold(name)["status"] == "open"


def test_already_decided_is_3_and_says_who_when_and_what(stage, run, way):
    name = stage.ask()
    run(way, "reject", name, "--reason", "not before Friday", "--no-undo")

    again = run(way, "approve", name, "--yes")

    assert again.exit_code == 3
    assert "it was rejected by mira at 20" in again.stderr
    assert "not before Friday" in again.stderr


def test_a_run_that_was_cancelled_is_4(stage, run, way):
    name = stage.ask()
    stage.cancel(stage.hold(name)["run_id"])

    late = run(way, "approve", name, "--yes")

    assert (late.exit_code, "it was withdrawn" in late.stderr) == (4, True)


def test_what_has_expired_is_4(stage, run, way):
    name = stage.ask("hurry")
    wait(lambda: stage.hold(name)["status"] == "settled")

    late = run(way, "approve", name, "--yes")

    assert (late.exit_code, "by nobody in time" in late.stderr) == (4, True)


def test_whoever_may_not_is_5(stage, run, way):
    name = stage.ask()

    refused = run(way, "approve", name, "--yes", who="eve")

    assert refused.exit_code == 5
    assert stage.hold(name)["status"] == "open"


def test_what_is_not_there_is_6(run, way):
    for command in ("show", "approve", "undo", "open"):
        more = ["--yes"] if command == "approve" else []
        found = run(way, command, "hold_01m7hq607ahdnnwh0m9399fc1x.1", *more)
        assert found.exit_code == (2 if (command, way) == ("open", "local") else 6), command
    assert run(way, "run", "run_nobody").exit_code == 6


def test_several_are_decided_each_for_itself(stage, run, way):
    names = [stage.ask() for _ in range(3)]

    done = run(way, "approve", *names, "--yes", "--no-undo", "--json")
    critical = run(way, "approve", stage.ask("wipe"), stage.ask(), "--yes")

    assert done.exit_code == 0
    assert [json.loads(line)["status"] for line in done.stdout.splitlines()] == ["settled"] * 3
    assert (critical.exit_code, "approve it by itself" in critical.stderr) == (2, True)


def test_what_is_critical_takes_no_yes_beforehand(stage, run, way):
    name = stage.ask("wipe")

    refused = run(way, "approve", name, "--yes")

    assert (refused.exit_code, "in a terminal" in refused.stderr) == (2, True)
    assert stage.hold(name)["status"] == "open"


@pytest.mark.parametrize(
    "sets, said",
    [
        (["amont=1"], "did you mean 'amount'"),
        (["amount"], "sets nothing"),
        (["amount=many"], "is no JSON"),
        (["to.name=x"], "there is no argument 'name'"),
    ],
)
def test_a_change_that_cannot_be_made_decides_nothing(stage, run, sets, said):
    name = stage.ask()

    refused = run("remote", "approve", name, "--yes", *[w for one in sets for w in ("--set", one)])

    assert (refused.exit_code, said in refused.stderr) == (2, True)
    assert stage.hold(name)["status"] == "open"


def test_a_text_stays_a_text_and_numbers_stay_exact(stage, run):
    name = stage.ask()

    done = run("remote", "approve", name, "--yes", "--set", "to=7", "--set", "amount=1e2")

    assert done.exit_code == 0, done.stderr
    assert stage.hold(name)["args"] == {"amount": 100.0, "to": "7"}


def test_arguments_are_changed_in_an_editor(stage, run, way, tmp_path):
    name = stage.ask()
    editor = tmp_path / "my editor"
    script = 's = open(sys.argv[1]).read(); open(sys.argv[1], "w").write(s.replace("200.0", "9.5"))'
    editor.write_text(f"#!{sys.executable}\nimport sys\n{script}\n")
    editor.chmod(0o700)
    code = ["--app", STAGE] if way == "local" else []

    done = run(way, "approve", name, "--edit", "--yes", *code, EDITOR=f"'{editor}'")

    assert done.exit_code == 0, done.stderr
    assert "- amount: 200.0\n+ amount: 9.5\n" in done.stderr
    assert stage.hold(name)["args"]["amount"] == 9.5


@pytest.mark.parametrize("split", ["\u2028", "\x85", "\x1c", "\r", "\n"])
def test_an_editor_that_changes_nothing_changes_nothing(monkeypatch, tmp_path, split):
    """Not even what looks like a line of ours, inside of a text."""
    monkeypatch.setenv("EDITOR", f"cp -t {tmp_path}")
    args = {"note": f"pay {split}# not{split} me \u202ethis \u00e9"}
    text = json.dumps(args, ensure_ascii=False)

    assert json.loads(edit(text, ["Pay Jiro"])) == args
    (shown,) = tmp_path.iterdir()
    assert all(one == "\n" or one.isprintable() for one in shown.read_text())
    assert "\u00e9" in shown.read_text()


def test_changes_need_the_code_that_checks_them(stage, run):
    refused = run("local", "approve", stage.ask(), "--set", "amount=1", "--yes")

    assert (refused.exit_code, "--app MODULE:APP" in refused.stderr) == (1, True)


def test_a_question_is_answered_by_number_name_or_in_words(stage, run, way):
    for given, value in ((["2"], "blue"), (["red"], "red"), (["--text", "blue"], "blue")):
        name = stage.ask("ask")
        assert run(way, "answer", name, *given, "--no-undo").exit_code == 0
        assert stage.answer(name) == value
    free = stage.ask("name")
    assert run(way, "answer", free, "Mira", "the first", "--no-undo").exit_code == 0
    assert stage.answer(free) == "Mira the first"
    refused = run(way, "answer", stage.ask("ask"), "green")
    assert (refused.exit_code, "1 red, 2 blue" in refused.stderr) == (1, True)


def test_what_waits_is_listed_filtered_and_in_one_line_each(stage, run, way):
    name = stage.ask("wipe")
    found = f"run:{name[5:-2]}"

    lines = run(way, "ls", found).stdout.splitlines()
    none = run(way, "ls", found, "risk:<critical")
    as_json = run(way, "ls", found, "--json").stdout
    theirs = run(way, "ls", found, who="ann")
    listed = run(way, "ls", found, "--mine")
    team = run(way, "ls", found, "--team")

    assert [line.split("\t")[:4] for line in lines] == [[name, "critical", "approval", "teller"]]
    assert (none.stdout, "Nothing waits for mira like this" in none.stderr) == ("", True)
    assert json.loads(as_json)["id"] == name
    assert theirs.stdout == team.stdout == ""
    assert name in listed.stdout


def test_a_decided_request_is_listed_with_who_decided(stage, run, way):
    name = stage.ask()
    run(way, "reject", name, "--reason", "no", "--no-undo")

    listed = run(way, "ls", "--decided", f"run:{name[5:-2]}").stdout

    assert "rejected by mira" in listed


def test_what_can_still_be_undone_is_decided_and_waits_for_nobody(stage, run, way):
    name = stage.ask()
    run(way, "reject", name, "--reason", "no")

    listed = [run(way, "ls", *said, f"run:{name[5:-2]}").stdout for said in ((), ("--decided",))]

    assert (name in listed[0], name in listed[1]) == (False, True)


def test_a_request_is_shown_whole_for_people_programs_and_documents(stage, run, way):
    name = stage.ask("pay 12400")

    card = run(way, "show", name)
    as_json = run(way, "show", name, "--json").stdout
    as_md = run(way, "show", name, "--md").stdout

    assert card.exit_code == 0
    assert "  amount: 12400.0  = 12,400.0\n" in card.stdout
    assert r'to: "Jiro \u{1b}[2J\u{202e}"' in card.stdout
    assert (
        json.loads(as_json)["args_json"] == r'{"amount":12400.0,"to":"Jiro \u001b[2J' + '\u202e"}'
    )
    assert as_json.isascii()
    assert as_md.startswith("# pay\n\n```text\n")
    for text in (card.stdout, as_md):
        assert all(line.isprintable() for line in text.splitlines())


def test_a_run_says_who_decided_and_where(stage, run, way):
    name = stage.ask()
    run("remote", "reject", name, "--reason", "later", "--no-undo")

    told = run(way, "run", stage.hold(name)["run_id"]).stdout

    assert "hold.settled" in told
    assert f"{name} rejected by mira, http: later" in told


def test_a_request_is_handed_over_and_its_page_named(stage, run, way):
    name = stage.ask()

    given = run(way, "handover", name, "--to", "ann", "--note", "yours")
    page = run("remote", "open", name)

    assert (given.exit_code, "asks ann" in given.stderr) == (0, True)
    assert page.stdout == f"{stage.url}/r/{name}\n"


def test_a_standing_yes_is_given_listed_and_revoked(stage, run, way):
    name = stage.ask("pay 41")

    refused = run(way, "rules", "add", stage.ask("wipe"), "--yes")
    given = run(way, "rules", "add", name, "--yes", "--until", "1h", "--limit", "amount=any")
    (rule,) = [
        one
        for one in map(json.loads, run(way, "rules", "ls", "--json").stdout.splitlines())
        if one["hold_id"] == name
    ]
    ended = run(way, "rules", "revoke", rule["id"])

    assert refused.exit_code == 5
    assert given.exit_code == 0, given.stderr
    assert (rule["tool"], rule["by"]) == ("pay", "mira")
    assert ended.exit_code == 0
    assert rule["id"] not in run(way, "rules", "ls").stdout


def test_who_decided_what_is_listed_and_checked(stage, run):
    name = stage.ask()
    run("local", "reject", name, "--reason", "audited", "--no-undo")

    listed = run("local", "audit", "mira", name, "tool:pay", "--verify")
    cells = run("local", "audit", name, "--csv").stdout.splitlines()
    none = run("local", "audit", name, "tool:other")

    assert (listed.exit_code, "all as written" in listed.stderr) == (0, True)
    assert f"mira  rejected pay {name} by terminal" in listed.stdout
    assert (cells[0].split(",")[0], len(cells)) == ("at", 2)
    assert none.stdout == ""
    assert f"mira  rejected pay {name} by terminal" in run("local", "audit").stdout


def test_a_token_is_never_an_argument_and_never_goes_in_the_clear(stage, run, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{stage.tokens['mira']}\n")

    spoken = run("remote", "ls", "--token", "sayso_secret")
    clear = run("remote", "ls", "--url", "http://pay.example.com")
    both = run("remote", "ls", "--url", stage.url, "--store", stage.store)
    as_other = run("remote", "ls", "--as", "ann")
    read = run("local", "ls", "--url", stage.url, "--token-file", file)

    assert (spoken.exit_code, "in every list of processes" in spoken.stderr) == (2, True)
    assert "sayso_secret" not in spoken.output
    assert (clear.exit_code, "https://" in clear.stderr) == (2, True)
    assert (both.exit_code, as_other.exit_code, read.exit_code) == (2, 2, 0)


def test_a_shell_completes_ids_with_their_titles_and_loads_little(stage):
    name = stage.ask("wipe")
    program = (
        "import atexit, sys; from sayso.cli import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "main(prog_name='sayso')"
    )
    env = environment(
        **stage.env("local"),
        _SAYSO_COMPLETE="zsh_complete",
        COMP_WORDS="sayso approve ",
        COMP_CWORD="2",
    )

    said = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert f"plain\n{name}\ncritical wipe\n" in said.stdout
    loaded = {name.partition(".")[0] for name in said.stderr.split()}
    heavy = {"pydantic", "rich", "httpx2", "fastapi", "segno", "jsonschema", "psycopg"}
    assert loaded.isdisjoint(heavy)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(run, shell):
    told = run("local", "completion", shell)

    assert (told.exit_code, "_SAYSO_COMPLETE" in told.stdout) == (0, True)


def test_completion_says_nothing_when_there_is_nothing_to_say(tmp_path):
    env = environment(_SAYSO_COMPLETE="zsh_complete", COMP_WORDS="sayso approve ", COMP_CWORD="2")

    said = subprocess.run([SAYSO], env=env, capture_output=True, text=True, timeout=PATIENCE_S)

    assert (said.returncode, said.stdout.strip(), said.stderr) == (0, "", "")


def test_completion_takes_nothing_from_who_types():
    words = "sayso approve --url http://127.0.0.1:1 --token-file - "
    env = environment(_SAYSO_COMPLETE="zsh_complete", COMP_WORDS=words, COMP_CWORD="6")

    with subprocess.Popen([SAYSO], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as shell:
        try:
            # Nothing is ever typed, and the input does not end.
            assert shell.wait(PATIENCE_S) == 0
        finally:
            shell.kill()


def test_a_pipe_gets_no_colour_and_no_shape(stage):
    name = stage.ask("pay 13")

    said = subprocess.run(
        [SAYSO, "show", name],
        env=environment(**stage.env("local"), TERM="xterm", LANG="C.UTF-8"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )

    assert said.returncode == 0
    assert "risk       high" in said.stdout
    assert said.stdout.isascii()
    assert "\x1b" not in said.stdout
    assert os.linesep in said.stdout
