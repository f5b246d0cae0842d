"""The jobs of a PostgreSQL store: pgqueuer, in the store's own schema. Nothing else imports it.

Rule 1: every name that pgqueuer uses is given here: what is not, it reads from the environment.
Rule 2: a job is written by the append that makes work, with pgqueuer's own statement, which is made
a function of the schema; its tables are never written to by any SQL of ours.
Rule 3: its statements go over the pool like all others, and LISTEN has a connection of its own.

It is imported when a schema is made and when somebody works; that takes a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec
from pgqueuer.adapters.persistence import qb
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.core.tm import TaskManager
from pgqueuer.domain.errors import RetryRequested
from pgqueuer.domain.models import Job, TableChangedEvent, utc_now
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel, JobId
from psycopg import AsyncRawCursor
from psycopg.rows import dict_row

from sayso.errors import BadValue, StoreError
from sayso.store.base import LEASE_MS
from sayso.store.postgres_address import work_channel
from sayso.store.queue import HELD_MAX, HeldJob, Taker

if TYPE_CHECKING:
    from pgqueuer.ports.driver import NotifyCallback

    from sayso.store.postgres_link import Conn, Link

BATCH = 16
"""How many jobs are picked at a time."""
POLL_S = 5.0
"""How often to look for jobs that nothing was heard of."""
TRIES_MAX = 5
"""How often a store that cannot be reached puts a job off before it is held."""
AGAIN_S = 1.0
SILENT_S = LEASE_MS / 1000
"""After this the job of a worker that was not heard of is picked by another."""
HISTORY_MAX = 100


class _Ticket(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    run: str
    seq: int


def names(schema: str) -> DBSettings:
    """Name everything that pgqueuer has in a schema."""
    return DBSettings(
        prefix="work_",
        db_schema=None,  # It is the whole search path, as for everything else of ours.
        channel=Channel(work_channel(schema)),
        function="work_changed",
        statistics_table="work_statistics",
        queue_status_type="work_status",
        queue_table="work",
        queue_table_log="work_log",
        trigger="work_changed",
        schedules_table="work_schedules",
        durability=Durability.balanced,  # Only its log may be lost in a crash.
        widen_id=False,
    )


def install_sql(schema: str) -> str:
    """Give what makes pgqueuer's tables, and a function of its statement that writes jobs."""
    settings = names(schema)
    tables = qb.QueryBuilderEnvironment(settings)
    enqueue = qb.QueryQueueBuilder(settings).build_enqueue_query("skip")
    return f"""
{tables.build_install_query(create_schema=False)}
{tables.build_optimize_autovacuum_query()}
create function enqueue(integer[], text[], bytea[], interval[], text[], jsonb[])
returns table (nth bigint, written bigint) language plpgsql as $enqueue$
begin
    return query {enqueue};
end
$enqueue$;
"""


class Driver:
    """What pgqueuer asks of a driver, over the connections of the store."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._shutdown = asyncio.Event()
        self._tasks = TaskManager()
        self._callbacks: list[NotifyCallback] = []

    @property
    def shutdown(self) -> asyncio.Event:
        return self._shutdown

    @property
    def tm(self) -> TaskManager:
        return self._tasks

    async def fetch(self, query: str, *args: object) -> list[dict[str, object]]:
        async def do(conn: Conn) -> list[dict[str, object]]:
            cursor = AsyncRawCursor(conn, row_factory=dict_row)
            await cursor.execute(query.encode(), args or None)
            return await cursor.fetchall()

        return await self._link.lend(do)

    async def execute(self, query: str, *args: object) -> str:
        async def do(conn: Conn) -> str:
            cursor = AsyncRawCursor(conn)
            await cursor.execute(query.encode(), args or None)
            return cursor.statusmessage or ""

        return await self._link.lend(do)

    async def notify(self, channel: str, payload: str) -> None:
        await self.execute("select pg_notify($1, $2)", channel, payload)

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        del channel  # There is one, and whoever listens to it tells us.
        self._callbacks.append(callback)

    def hear(self, payload: str) -> None:
        """Pass on what was called out."""
        for callback in self._callbacks:
            callback(payload)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._callbacks.clear()


class Jobs(Queries):
    """What pgqueuer asks of its tables; without room it is told that they are empty."""

    def __init__(self, driver: Driver, settings: DBSettings) -> None:
        super().__init__(
            driver,
            qb.QueryBuilderEnvironment(settings),
            qb.QueryQueueBuilder(settings),
            qb.QuerySchedulerBuilder(settings),
        )
        self.room: Callable[[], int] = lambda: 0

    async def dequeue(self, batch_size: int, *args: Any, **how: Any) -> list[Job]:
        room = min(batch_size, self.room())
        return await super().dequeue(room, *args, **how) if room > 0 else []

    async def eligible_queued_work(self, entrypoints: Any) -> int:
        return await super().eligible_queued_work(entrypoints) if self.room() > 0 else 0

    async def queued_work(self, entrypoints: Any) -> int:
        return await super().queued_work(entrypoints) if self.room() > 0 else 0

    async def next_deferred_eta(self, entrypoints: Any) -> timedelta | None:
        return await super().next_deferred_eta(entrypoints) if self.room() > 0 else None

    async def retry_job(self, job: Job, delay: timedelta, traceback_record: Any) -> None:
        await super().retry_job(job, delay, traceback_record)
        await self.call_out()

    async def requeue_jobs(self, ids: list[JobId]) -> None:
        await super().requeue_jobs(ids)
        await self.call_out()

    async def call_out(self) -> None:
        """Say that there are jobs again: of what is no new row, pgqueuer tells nobody."""
        await self.driver.notify(self.qbq.settings.channel, self.changed())

    def changed(self) -> str:
        """Put into pgqueuer's words that there may be jobs."""
        settings = self.qbq.settings
        event = TableChangedEvent(
            channel=settings.channel,
            operation="update",
            sent_at=utc_now(),
            table=settings.queue_table,
            type="table_changed_event",
        )
        return event.model_dump_json()


class Picker:
    """Picks jobs for one worker, for as long as nothing fails; made anew after that."""

    def __init__(self, link: Link, taker: Taker) -> None:
        settings = names(link.address.schema)
        self._driver = Driver(link)
        self._taker = taker
        self._jobs = jobs = Jobs(self._driver, settings)
        self._manager = QueueManager(jobs, Channel(settings.channel))
        jobs.room = lambda: taker.room() - len(self._manager.job_context)
        for agent in taker.agents:
            self._manager.entrypoint(agent, on_failure="hold", accepts_context=False)(self._handle)

    async def run(self) -> None:
        """Pick jobs until `stop`; whatever goes wrong is raised."""
        await self._manager.run(
            dequeue_timeout=timedelta(seconds=POLL_S),
            batch_size=BATCH,
            heartbeat_timeout=timedelta(seconds=SILENT_S),
            log_aggregation_interval=timedelta(0),
        )

    def hear(self, text: str | None = None) -> None:
        """Pass on what was called out; None: that there may be jobs."""
        self._driver.hear(text or self._jobs.changed())

    def stop(self) -> None:
        """Let `run` end once the jobs under way are done or handed back."""
        self._manager.shutdown.set()

    async def _handle(self, job: Job) -> None:
        try:
            msgspec.json.decode(job.payload or b"", type=_Ticket)
        except msgspec.DecodeError as error:
            raise BadValue(f"the job {job.id} is none of ours: {error}") from None
        if self._manager.shutdown.is_set() or self._taker.room() <= 0:
            raise RetryRequested(reason="nobody here has room for it")
        try:
            await self._taker.take()
        except StoreError as error:
            if job.attempts >= TRIES_MAX:
                raise
            raise RetryRequested(timedelta(seconds=AGAIN_S), str(error)) from error


async def list_held(link: Link, limit: int = HELD_MAX) -> list[HeldJob]:
    """List the jobs that failed, oldest first, each with what pgqueuer noted last."""
    jobs = Jobs(Driver(link), names(link.address.schema))
    found: list[HeldJob] = []
    for job in await jobs.list_failed_jobs(min(limit, HELD_MAX), "ASC"):
        run_id, why = "", "nobody knows any more"
        with contextlib.suppress(msgspec.DecodeError):
            run_id = msgspec.json.decode(job.payload or b"", type=_Ticket).run
        for entry in await jobs.driver.fetch(
            jobs.qbq.build_job_log_history_query(), job.id, HISTORY_MAX
        ):
            # With psycopg it comes decoded, which pgqueuer's own reading of it does not expect.
            if (note := cast("dict[str, str] | None", entry["traceback"])) is not None:
                why = f"{note['exception_type']}: {note['exception_message']}"
        since = int(job.updated.timestamp() * 1000)
        found.append(HeldJob(id=job.id, agent=job.entrypoint, run_id=run_id, since=since, why=why))
    return found


async def requeue(link: Link, ids: tuple[int, ...]) -> int:
    """Offer held jobs again; say how many of these were held."""
    jobs = Jobs(Driver(link), names(link.address.schema))
    found = [await jobs.queue_job_by_id(JobId(one)) for one in dict.fromkeys(ids)]
    held = [job.id for job in found if job is not None and job.status == "failed"]
    if held:
        await jobs.requeue_jobs(held)
    return len(held)


async def requeue_all(link: Link, progress: Callable[[int, int], None] | None) -> int:
    """Offer all jobs again that are held now, each once; say how many."""
    table = names(link.address.schema).queue_table
    held = f"from {table} where status = 'failed'"
    ((now, count),) = await link.read(f"select now(), count(*) {held}")
    # By their ids, and not what failed since: what fails again would keep others from their turn.
    page = f"select id {held} and updated <= %s and id > %s order by id limit %s"
    offered, last = 0, 0
    while found := [one for (one,) in await link.read(page, (now, last, HELD_MAX))]:
        offered += await requeue(link, tuple(found))
        last = found[-1]
        if progress is not None:
            progress(offered, count)
    return offered


async def count(link: Link) -> dict[str, int]:
    """Count the jobs by their status."""
    jobs = Jobs(Driver(link), names(link.address.schema))
    found: dict[str, int] = {}
    for line in await jobs.queue_size():
        found[line.status] = found.get(line.status, 0) + line.count
    return found
