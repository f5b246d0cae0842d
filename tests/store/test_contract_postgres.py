"""The store contract over PostgreSQL, of both versions that are tested."""

import pytest

from sayso.store.base import Store
from sayso.store.postgres import PostgresStore
from sayso.testing import FakeClock
from sayso.testing.contract import StoreContract
from tests.postgres import NEWEST, OLDER, Cluster


class TestPostgres(StoreContract):
    listen = True
    server = "postgres"
    version = NEWEST
    opened_with: FakeClock | None = None

    @pytest.fixture(autouse=True)
    def _cluster(self, request: pytest.FixtureRequest, tmp_path):
        self.cluster: Cluster = request.getfixturevalue(self.server)
        self.proofs, self.schema = str(tmp_path), ""
        yield
        self.cluster.lender.take_back()

    def test_it_is_the_version_that_it_should_be(self) -> None:
        ((number,),) = self.cluster.execute("select current_setting('server_version_num')::int")
        assert number // 10_000 == self.version

    async def open_store(self, clock: FakeClock) -> Store:
        if self.opened_with is not clock:
            self.opened_with = clock
            self.schema = await self.cluster.lender.lend()
        return await PostgresStore.open(
            self.cluster.url("postgres"),
            schema=self.schema,
            clock=clock,
            listen=self.listen,
            proof_dir=self.proofs,
        )


class TestPostgresWithoutItsEar(TestPostgres):
    is_deaf = True
    listen = False


class TestOlderPostgres(TestPostgres):
    server = "older_postgres"
    version = OLDER
