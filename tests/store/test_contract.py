"""The store contract over every store we have."""

import pytest

from sayso.store.base import Store
from sayso.store.memory import MemoryStore
from sayso.store.sqlite import SqliteStore
from sayso.testing import FakeClock
from sayso.testing.contract import StoreContract


class TestMemory(StoreContract):
    opened_with: FakeClock | None = None

    async def open_store(self, clock: FakeClock) -> Store:
        if self.opened_with is not clock:
            self.opened_with, self.store = clock, MemoryStore(clock)
        return self.store


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path) -> None:
        self.directory = tmp_path

    async def open_store(self, clock: FakeClock) -> Store:
        return await SqliteStore.open(self.directory / "sayso.db", clock=clock)


class TestSqliteWithoutItsBell(TestSqlite):
    async def open_store(self, clock: FakeClock) -> Store:
        return await SqliteStore.open(self.directory / "sayso.db", clock=clock, bell=False)
