import pytest

pytest.register_assert_rewrite("sayso.testing.contract")
