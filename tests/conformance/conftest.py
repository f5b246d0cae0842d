"""Every conformance test that asks for a `place` is run in memory and on a real SQLite file."""

from tests.engine.conftest import file_place, place

__all__ = ["file_place", "place"]
