"""One server for the pages of each client; those that kill it start it again."""

import os
from collections.abc import Iterator

import pytest

from tests.clients.npm import HERE, Browser, Server
from tests.npm import install

CLIENTS = {
    "ai-6.0.326": ("newest", "ai6", False),
    "ai-7.0.169": ("newest", "ai7", False),
    "ai-7.0.169-socket": ("newest", "ai7", True),
    "ai-6.0.3": ("oldest", "ai6", False),
    "ai-7.0.0": ("oldest", "ai7", False),
}
"""Which packages, which of them, and whether over a WebSocket, which came with 7.0.135."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "client" in metafunc.fixturenames:
        names = [
            pytest.param(
                name,
                marks=[pytest.mark.xdist_group("npm")]
                + ([pytest.mark.soak] if of == "oldest" else []),
            )
            for name, (of, _, _) in CLIENTS.items()
        ]
        metafunc.parametrize("client", names, scope="module")


@pytest.fixture(scope="module")
def browser(client: str) -> Iterator[Browser]:
    if os.environ.get("SAYSO_NPM") == "none":
        pytest.skip("SAYSO_NPM=none")
    which, package, _ = CLIENTS[client]
    made = Browser(install(HERE / which), package)
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.close()
