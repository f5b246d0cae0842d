"""Which Chromium is taken, and what is said where there is none."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.browser.chromium import NAMES, NoChromium, find

VERSION = "echo Chromium 1"


def fake(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("there", range(len(NAMES)))
def test_the_first_one_on_the_path_that_answers_is_taken(tmp_path, there) -> None:
    for n, name in enumerate(NAMES):
        fake(tmp_path / name, VERSION if n >= there else "echo install the other package; exit 1")

    assert find({"PATH": str(tmp_path)}, own="/nowhere") == tmp_path / NAMES[there]


def test_the_named_one_goes_before_all_and_must_run(tmp_path) -> None:
    fake(tmp_path / "chromium", VERSION)
    fake(tmp_path / "mine", VERSION)
    env = {"PATH": str(tmp_path), "SAYSO_CHROMIUM": str(tmp_path / "mine")}

    assert find(env) == tmp_path / "mine"

    fake(tmp_path / "mine", "exit 1")
    with pytest.raises(NoChromium, match=r"SAYSO_CHROMIUM=.*mine is no Chromium that runs"):
        find(env)


def test_playwrights_own_is_taken_before_anything_is_installed(tmp_path) -> None:
    fake(tmp_path / "own", VERSION)

    assert find({"PATH": ""}, own=str(tmp_path / "own")) == tmp_path / "own"


def test_the_package_is_installed_once_however_many_need_it(tmp_path) -> None:
    log, bins = tmp_path / "log", tmp_path / "bin"
    bins.mkdir()
    fake(
        bins / "apt-get",
        f"echo $2 >> {log}; test $2 = update && exit; /bin/sleep 0.2\n"
        f"printf '#!/bin/sh\\n{VERSION}\\n' > {bins}/new; /bin/chmod 700 {bins}/new\n"
        f"/bin/mv {bins}/new {bins}/chromium",
    )

    with ThreadPoolExecutor(2) as two:
        asked = [two.submit(find, {"PATH": str(bins)}, may_apt=True) for _ in range(2)]

    assert {one.result() for one in asked} == {bins / "chromium"}
    assert log.read_text().split() == ["update", "install"]


def test_with_none_at_all_the_error_says_what_helps(tmp_path) -> None:
    fake(tmp_path / "apt-get", "exit 1")

    with pytest.raises(NoChromium, match="SAYSO_CHROMIUM=/path") as refused:
        find({"PATH": str(tmp_path)}, may_apt=True, npm=tmp_path / "no-packages")

    assert str(refused.value).count("Tried in vain") == 2


@pytest.mark.soak  # It is a large package, and few machines need it.
def test_the_one_from_npm_opens_a_page(chromium) -> None:
    found = find({"PATH": ""}, may_apt=False)

    with chromium.browser_type.launch(executable_path=found) as browser:
        page = browser.new_page()
        page.set_content("<title>Try</title>")
        assert page.title() == "Try"
