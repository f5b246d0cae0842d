"""The writer thread: one connection, one transaction for a batch, answers after its commit.

Rule 1: a refused job leaves the others alone: each has a savepoint, unless it is the only one.
Rule 2: after a fault whose extent is unknown nothing more is written or read. The kernel may have
dropped what it could not write, and a second fsync would say that all is well.
"""

from __future__ import annotations

import asyncio
import os
import select
import threading
import time
from collections.abc import Callable
from typing import cast

import apsw

from sayso.errors import (
    CommitUnknown,
    SaysoError,
    StoreClosed,
    StoreDamaged,
    StoreError,
    StoreRestored,
)
from sayso.store.bell import Bell
from sayso.store.migrate import check_code, released
from sayso.store.origin import restored
from sayso.store.sqlite_error import FATAL, not_kept, stopped, translate
from sayso.store.sqlite_file import close, patiently
from sayso.store.sqlite_pen import MOVED_MAX, Pen
from sayso.store.sqlite_queue import Job, refuse

POLL_MS = 250
"""How often to look for commits of other processes that nobody rang the bell for."""
POLL_WAITING_MS = 50
"""The same while somebody waits for one."""
LINGER_S = 1.0
"""How long to keep the faster pace after the last one stopped waiting."""

_OF_ONE_JOB = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    OverflowError,
    TypeError,
    ValueError,
)
"""What a write can be at fault for itself."""


class Handles:
    """What the thread works with, made by the thread itself."""

    def __init__(
        self, conn: apsw.Connection, pen: Pen, *, files: tuple[str, ...], bell_dir: str
    ) -> None:
        self.conn = conn
        self.pen = pen
        self.first_version = self.version()
        # After the version: what is committed in between is then found at the first look.
        pen.look()
        self._inodes = {path: os.stat(path).st_ino for path in files}
        self.bell = Bell(bell_dir)

    def check_files(self) -> None:
        """Raise `StoreDamaged` if a file was moved or deleted: commits would go nowhere."""
        for path, inode in self._inodes.items():
            try:
                there = os.stat(path).st_ino == inode
            except OSError:
                there = False
            if not there:
                raise StoreDamaged(f"{path!r} was moved or deleted while it was in use")

    def version(self) -> int:
        """Read the number that every commit of another connection changes."""
        return cast("int", self.conn.execute("pragma data_version").fetchall()[0][0])

    def close(self) -> None:
        """Let go of everything."""
        self.bell.close()
        self.pen.origin.mark.close()
        close(self.conn)


class Writer:
    """The thread that writes. `give` and the two callbacks belong to the event loop's thread."""

    def __init__(
        self,
        name: str,
        open_handles: Callable[[], Handles],
        *,
        busy_s: float,
        on_answered: Callable[[list[Job]], None],
        on_moved: Callable[[list[str] | None], None],
    ) -> None:
        self._name = name
        self._open_handles = open_handles
        self._busy_s = busy_s
        self._on_answered = on_answered
        self._on_moved = on_moved
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._batch: list[Job] | None = None
        self._waiting = 0
        self._waited_at = -LINGER_S
        self._dozing = False
        self._over = False
        self._seen = 0
        self._version = 0
        self.failed: StoreError | None = None
        """Why everything is refused from now on."""
        self.fault = ""
        """Why the file is taken for a backup or a copy; empty if it is not."""
        self._wake_r, self._wake_w = os.pipe()
        os.set_blocking(self._wake_r, False)
        os.set_blocking(self._wake_w, False)
        self._thread = threading.Thread(target=self._run, name=f"sayso {name}", daemon=True)

    async def start(self) -> None:
        """Open everything on the new thread; raise what that raises."""
        self._thread.start()
        await asyncio.shield(self._ready)

    async def gone(self) -> None:
        """Wait until the thread has closed everything."""
        await asyncio.shield(self._gone)
        self._thread.join()  # It has nothing left to do.

    def give(self, batch: list[Job]) -> None:
        """Hand a batch over; an empty one is the goodbye. One at a time, please."""
        self._batch = batch
        if self._over:
            self._turn_away()
        self._poke()

    def waits(self, count: int) -> None:
        """Note how many wait for other processes, and look more often while some do."""
        self._waited_at = time.monotonic()
        self._waiting = count
        if count and self._dozing:
            self._dozing = False
            self._poke()

    def _poke(self) -> None:
        if not self._over:
            try:
                os.write(self._wake_w, b"!")
            except BlockingIOError:
                return  # It has a great many wake-ups to read already.

    def _run(self) -> None:
        try:
            handles = self._open_handles()
        except BaseException as error:  # noqa: BLE001 - it is raised where the store is opened.
            self._end()
            self._post(refuse, self._ready, error)
            return
        try:
            self._version, self._seen = handles.first_version, handles.pen.position
            self.fault = handles.pen.origin.fault
            self._post(_done, self._ready)
            self._serve(handles)
        finally:
            handles.close()
            self._end()
            self._turn_away()
            self._post(_done, self._gone)

    def _end(self) -> None:
        self._over = True
        os.close(self._wake_r)
        os.close(self._wake_w)

    def _turn_away(self) -> None:
        """Answer a batch that came when the thread was no longer there to take it."""
        batch, self._batch = self._batch, None
        if batch:
            _refuse_all(batch, self.failed or StoreClosed())
            self._post(self._on_answered, batch)

    def _post(self, what: Callable[..., object], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(what, *args)
        except RuntimeError:
            return  # The loop was closed without closing the store: nobody is left to tell.

    def _serve(self, handles: Handles) -> None:
        poll = select.poll()
        poll.register(self._wake_r, select.POLLIN)
        if handles.bell.fileno() >= 0:
            poll.register(handles.bell.fileno(), select.POLLIN)
        while not self._loop.is_closed():
            fast = self._waiting or time.monotonic() - self._waited_at < LINGER_S
            self._dozing = not fast
            rung = poll.poll(POLL_WAITING_MS if fast else POLL_MS)
            self._dozing = False
            for fd, _ in rung:
                if fd == self._wake_r:
                    self._drain()
                else:
                    handles.bell.drain()
            batch, self._batch = self._batch, None
            if batch:
                self._serve_batch(handles, batch)
            elif batch is not None:
                return
            elif self.failed is None:
                self._look(handles)

    def _serve_batch(self, handles: Handles, batch: list[Job]) -> None:
        try:
            self._carry_out(handles, batch)
        except BaseException as error:
            # A fault of ours: the thread ends, and nobody is left waiting for it.
            self.failed = StoreClosed(f"the writer of {self._name!r} failed: {error!r}")
            _refuse_all(batch, CommitUnknown())
            raise
        finally:
            self._post(self._on_answered, batch)
        self._follow_up(handles, batch)

    def _drain(self) -> None:
        try:
            os.read(self._wake_r, 4096)
        except BlockingIOError:
            return

    def _look(self, handles: Handles) -> None:
        """Find out what other processes have committed."""
        try:
            version = handles.version()
            if version != self._version:
                self._version = version
                self._find_moved(handles)
        except apsw.BusyError:
            return  # Another process recovers the log; there will be a next time.
        except apsw.Error as error:
            self.failed = stopped(error, self._name)
            self._post(self._on_moved, None)

    def _find_moved(self, handles: Handles) -> None:
        seen, self._seen = self._seen, handles.pen.look()
        moved = handles.pen.moved_since(seen) if self._seen > seen else []
        self._post(self._on_moved, moved if len(moved) < MOVED_MAX else None)

    def _carry_out(self, handles: Handles, batch: list[Job]) -> None:
        """Do a batch, and leave in each job what became of it."""
        before: int | None = None
        try:
            if self.failed is not None:
                raise self.failed
            handles.check_files()
            patiently(lambda: handles.conn.execute("begin immediate"), self._busy_s)
            check_code(handles.conn, self._name, len(released()))
            if handles.pen.look() > self._seen:
                self._find_moved(handles)
            elif handles.pen.position < self._seen:
                raise restored(self._name, "it was put back while it was in use")
            if len(batch) == 1:
                self._do(handles, batch[0])
                if batch[0].error is not None:
                    handles.conn.execute("rollback")
                    return
            else:
                for job in batch:
                    self._try(handles, job)
            before = self._seen
            handles.conn.execute("commit")
            self._seen = handles.pen.position
            # Before the answer: whatever is done because of it, the mark knows of.
            handles.pen.origin.note(self._seen)
        except SaysoError as error:
            _roll_back(handles.conn)
            stops = isinstance(error, StoreDamaged | StoreRestored)
            self.failed = self.failed or (error if stops else None)
            _refuse_all(batch, error)
        except apsw.Error as error:
            _refuse_all(batch, self._what_now(handles, error, before))

    def _try(self, handles: Handles, job: Job) -> None:
        position = handles.pen.position
        handles.conn.execute("savepoint job")
        self._do(handles, job)
        if job.error is not None:
            handles.conn.execute("rollback to job")
            handles.pen.position = position
        handles.conn.execute("release job")

    def _do(self, handles: Handles, job: Job) -> None:
        try:
            job.result = job.do(handles.pen)
        except SaysoError as error:
            job.error = error
        except _OF_ONE_JOB as error:
            job.error = not_kept(error, f"{self._name!r} cannot keep this")

    def _what_now(self, handles: Handles, error: apsw.Error, before: int | None) -> SaysoError:
        """Undo what a failed batch has done, and say what its members are told.

        `before` is the last position before a commit that failed, None if it did not come to one.
        """
        undone = _roll_back(handles.conn)
        if before is not None:
            # A full disk refuses a write, and the frame that commits is the last one written: there
            # is none. Any other failure of a commit may have come after that frame.
            undone = undone and isinstance(error, apsw.FullError) and _is_at(handles.pen, before)
        if not undone or isinstance(error, FATAL):
            self.failed = stopped(error, self._name)
        if before is not None and not undone:
            return CommitUnknown(f"{self._name!r} did not say whether it committed: {error}")
        return self.failed or translate(error, self._name)

    def _follow_up(self, handles: Handles, batch: list[Job]) -> None:
        """Do what comes after a commit and need not hold up its answer."""
        done = [job for job in batch if job.error is None]
        if done:
            handles.bell.ring()
        for job in done:
            if job.after is not None:
                job.after()
        if any(job.erases for job in done):
            self._clear_log(handles)

    def _clear_log(self, handles: Handles) -> None:
        """Cut the log off, where what was erased can still be read."""
        try:
            handles.conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except apsw.BusyError:
            return  # Somebody reads; the next checkpoint that finds nobody does it.
        except apsw.Error as error:
            self.failed = stopped(error, self._name)


def _roll_back(conn: apsw.Connection) -> bool:
    try:
        if conn.in_transaction:
            conn.execute("rollback")
    except apsw.Error:
        return False
    return not conn.in_transaction


def _is_at(pen: Pen, position: int) -> bool:
    try:
        return pen.look() == position
    except apsw.Error:
        return False


def _refuse_all(batch: list[Job], error: SaysoError) -> None:
    for job in batch:
        job.error = error


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
