"""A person at the provider of these tests, and Sayso as it knows it."""

import pytest

from tests.oauth.browser import Site


@pytest.fixture
def site(provider):
    """The provider, with a person signed in and Sayso registered."""
    user = provider.random_user()
    provider.login(user)
    yield Site(provider, user)
    provider.logout()
