"""The hook that runs coroutine tests: were it to skip them, every async test would pass unseen."""

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def test_a_failing_coroutine_test_fails(
    pytester: pytest.Pytester, request, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root / "src"), str(root)]))
    pytester.makeconftest(request.path.with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(
        """
        import asyncio, pytest

        @pytest.fixture
        def two(): return 2

        @pytest.mark.parametrize("n", [2, 3])
        async def test_it(two, n):
            await asyncio.sleep(0)
            assert two == n
        """
    )

    # In this process it would take away, when it ends, whatever modules were imported by then.
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
