"""The store contract: what `sayso.store.base` promises, as tests over any store.

    class TestMyStore(StoreContract):
        async def open_store(self, clock): ...

Every test is an `async def` that opens a store, uses it on one event loop and closes it.
"""

from sayso.testing.contract.append import AppendContract
from sayso.testing.contract.aside import AsideContract
from sayso.testing.contract.audit import AuditContract
from sayso.testing.contract.case import StoreCase, hold_row, refused, write
from sayso.testing.contract.checkup import CheckupContract
from sayso.testing.contract.claims import ClaimContract
from sayso.testing.contract.items import ItemContract
from sayso.testing.contract.lists import ListContract
from sayso.testing.contract.looking import LookContract
from sayso.testing.contract.origin import OriginContract
from sayso.testing.contract.outbox import OutboxContract
from sayso.testing.contract.race import RaceContract
from sayso.testing.contract.search import SearchContract
from sayso.testing.contract.shelf import ShelfContract
from sayso.testing.contract.watching import WatchContract
from sayso.testing.contract.workers import WorkerContract

__all__ = ["StoreCase", "StoreContract", "hold_row", "refused", "write"]


class StoreContract(
    AppendContract,
    AsideContract,
    AuditContract,
    ItemContract,
    ListContract,
    LookContract,
    OriginContract,
    OutboxContract,
    CheckupContract,
    ClaimContract,
    RaceContract,
    SearchContract,
    ShelfContract,
    WatchContract,
    WorkerContract,
):
    """All that a store must do. Say how to open one, and run it."""
