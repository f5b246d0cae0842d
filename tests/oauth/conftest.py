"""A real provider on this machine: Canaille, through pytest-iam.

Its plugin is switched off for everybody else, because it takes a second to load.
"""

import pytest
from pytest_iam import iam_configuration, iam_server, iam_server_port

from tests.oauth.browser import Site

__all__ = ["iam_configuration", "iam_server", "iam_server_port"]


@pytest.fixture
def site(iam_server):
    """The provider, with a person signed in and Sayso registered."""
    user = iam_server.random_user()
    iam_server.login(user)
    yield Site(iam_server, user)
    iam_server.logout()
