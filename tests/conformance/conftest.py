"""Every conformance test that asks for a `place` is run in memory and on a real SQLite file; with
SAYSO_POSTGRES=all in a real PostgreSQL as well.
"""

from tests.engine.conftest import file_place, place, pytest_generate_tests

__all__ = ["file_place", "place", "pytest_generate_tests"]
