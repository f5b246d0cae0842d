"""What is said to do about an error fits where it happened."""

import pytest

from sayso.cli.advice import explain
from sayso.errors import StoreDamaged, StoreReadOnly


@pytest.mark.parametrize("kind", [StoreDamaged, StoreReadOnly])
def test_whoever_has_a_database_is_not_told_about_files(kind):
    assert "file" in explain(kind("'pay.db' is not well"))
    assert "file" not in explain(kind("'postgresql://db/pay' is not well"))
