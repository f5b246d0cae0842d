"""The store contract over PostgreSQL."""

import pytest

from sayso.store.base import Store
from sayso.store.postgres import PostgresStore
from sayso.testing import FakeClock
from sayso.testing.contract import StoreContract
from tests.postgres import Cluster


class TestPostgres(StoreContract):
    listen = True
    opened_with: FakeClock | None = None

    @pytest.fixture(autouse=True)
    def _cluster(self, postgres: Cluster, tmp_path):
        self.cluster, self.proofs, self.schemas = postgres, str(tmp_path), list[str]()
        yield
        postgres.drop(*self.schemas)

    async def open_store(self, clock: FakeClock) -> Store:
        if self.opened_with is not clock:
            self.opened_with = clock
            self.schemas.append(self.cluster.schema())
        return await PostgresStore.open(
            self.cluster.url("postgres"),
            schema=self.schemas[-1],
            clock=clock,
            listen=self.listen,
            proof_dir=self.proofs,
        )


class TestPostgresWithoutItsEar(TestPostgres):
    is_deaf = True
    listen = False
