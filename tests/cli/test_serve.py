"""`sayso serve`, in a process of its own: what it prints, and whom that lets in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner

from sayso.cli import main
from tests.cli.conftest import PATIENCE_S
from tests.cli.serving import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path, "--open")
    yield made
    assert made.stop() == 0


def test_the_link_that_is_printed_and_opened_leads_into_the_inbox(served: Served) -> None:
    give_up = time.monotonic() + PATIENCE_S
    with httpx2.Client(trust_env=False, timeout=PATIENCE_S) as browser:
        assert served.link.startswith(f"{served.url}/enter/")
        assert browser.get(f"{served.url}/").status_code == 303

        assert "Continue as mira" in browser.get(served.link).text
        answer = browser.post(served.link, headers={"origin": served.url})

        assert answer.status_code == 303
        assert ">mira</a>" in browser.get(f"{served.url}/").text
        assert browser.post(served.link).status_code == 401
    while not (served.opened.exists() and served.opened.read_text()):
        assert time.monotonic() < give_up, "no browser was opened"
        time.sleep(0.05)
    assert served.opened.read_text() == served.link


def test_options_for_an_issuer_go_together(tmp_path: Path) -> None:
    secret, empty = tmp_path / "secret", tmp_path / "empty"
    secret.write_text("s3cret\n")
    empty.write_text("\n")
    issuer = ("--oidc-issuer", "https://id.example.com")
    for options, said in [
        (issuer, "goes with"),
        (("--oidc-audience", "x"), "goes with"),
        (("--oidc-client-id", "x"), "goes with"),
        ((*issuer, "--oidc-audience", "x", "--oidc-client-secret-file", secret), "goes with"),
        ((*issuer, "--oidc-client-id", "x", "--oidc-client-secret-file", empty), "no secret"),
        (("--oidc-issuer", "http://id.example.com", "--oidc-client-id", "x"), "https"),
    ]:
        done = CliRunner().invoke(main, ["serve", "--port", "0", *map(str, options)])

        assert done.exit_code == 2
        assert said in done.stderr
