"""Sayso for synchronous code: the same methods, without `await`.

    with sayso.sync.Sayso("pay.db", agents=[teller]) as app:
        run = app.start("teller", "Pay Jiro 200 dollars", by="mira")
        view = run.wait()
        app.decide(view.holds[0], approve(), by="mira")

One event loop in one daemon thread does the work, and every method waits for it there. There is no
second implementation: a method of this module is the asynchronous one, bridged.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from sayso import app as _app
from sayso.domain.recorded import Recorded
from sayso.domain.value import Principal
from sayso.engine import audit_desk as _audit
from sayso.engine import courier as _courier
from sayso.engine import grants as _grants
from sayso.engine import handle as _handle
from sayso.engine import people as _people
from sayso.engine import window as _window
from sayso.engine.evidence import Line
from sayso.engine.feed import Delta
from sayso.errors import BadSetup, StoreClosed, StoreForked
from sayso.store.base import Store
from sayso.store.views import RunView

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")

_NOT_OPEN = "this Sayso is not open: use it as `with Sayso(...) as app`"


class _Thread:
    """One event loop in one daemon thread, and the way into it from all others."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._open = True
        self._gate = threading.Lock()
        self._loop: concurrent.futures.Future[asyncio.AbstractEventLoop] = (
            concurrent.futures.Future()
        )
        self._leave: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._main, name="sayso.sync", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], *, last: bool = False) -> T:
        """Run a coroutine on the loop and wait for it; whoever is interrupted leaves it cancelled.

        The `last` one closes the way in behind it.
        """
        try:
            future = self._submit(work, last=last)
        except BaseException:
            work.close()
            raise
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise StoreClosed("this Sayso was closed meanwhile") from None
        except BaseException:
            # Ctrl-C, if the future is not done. What was handed to the store is carried out.
            future.cancel()
            raise

    def stop(self, *, wait: bool = True) -> None:
        """End the loop; cancel what still waits on it."""
        if self._pid != os.getpid():
            return  # The thread stayed with the parent.
        with self._gate:
            self._open = False
        loop = self._loop.result()
        assert self._leave is not None
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._leave.set)
        if wait:
            self._thread.join()

    def _submit(self, work: Coroutine[Any, Any, T], *, last: bool) -> concurrent.futures.Future[T]:
        if self._pid != os.getpid():
            raise StoreForked
        if threading.current_thread() is self._thread:
            raise BadSetup("this would wait for itself: asynchronous tools use `sayso.Sayso`")
        with self._gate:
            if not self._open:
                raise StoreClosed(_NOT_OPEN)
            self._open = not last
            return asyncio.run_coroutine_threadsafe(work, self._loop.result())

    def _main(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._live())

    async def _live(self) -> None:
        self._leave = asyncio.Event()
        self._loop.set_result(asyncio.get_running_loop())
        await self._leave.wait()


class _Bridged(Generic[A]):
    """An object that lives on the loop, seen from outside."""

    _inner: A

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        raise NotImplementedError


def _bridge(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Bridged[A], P], T]:
    @functools.wraps(method)
    def call(self: _Bridged[A], *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._inner, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


class _Part(_Bridged[A]):
    """A part of an app that is bridged as the app is."""

    def __init__(self, app: Sayso, inner: A) -> None:
        self._app = app
        self._inner = inner

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._app._run(work)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


class Window(_Part[_window.Window]):
    """`sayso.Sayso.window` for synchronous code."""

    run = _bridge(_window.Window.run)
    runs = _bridge(_window.Window.runs)
    hold = _bridge(_window.Window.hold)
    request = _bridge(_window.Window.request)
    settled = _bridge(_window.Window.settled)
    stands = _bridge(_window.Window.stands)
    reach = _bridge(_window.Window.reach)
    check_run = _bridge(_window.Window.check_run)
    is_operator = _bridge(_window.Window.is_operator)


class People(_Part[_people.People]):
    """Who is who: people with their roles, identities and stand-ins."""

    put = _bridge(_people.People.put)
    get = _bridge(_people.People.get)
    list = _bridge(_people.People.list)
    stand_in = _bridge(_people.People.stand_in)
    remove = _bridge(_people.People.remove)


class Grants(_Part[_grants.Grants]):
    """Standing permissions."""

    list = _bridge(_grants.Grants.list)
    revoke = _bridge(_grants.Grants.revoke)


class Notices(_Part[_courier.Notices]):
    """What people are told of holds."""

    deliver = _bridge(_courier.Notices.deliver)
    dead = _bridge(_courier.Notices.dead)
    revive = _bridge(_courier.Notices.revive)


class RunHandle(_Part[_handle.RunHandle]):
    """One run of one agent."""

    def __init__(self, app: Sayso, inner: _handle.RunHandle) -> None:
        super().__init__(app, inner)
        self.id = inner.id

    def __repr__(self) -> str:
        return repr(self._inner)

    view = _bridge(_handle.RunHandle.view)
    status = _bridge(_handle.RunHandle.status)
    hold = _bridge(_handle.RunHandle.hold)
    wait = _bridge(_handle.RunHandle.wait)
    outcome = _bridge(_handle.RunHandle.outcome)
    command = _bridge(_handle.RunHandle.command)


class AuditDesk(_Part[_audit.AuditDesk]):
    """`sayso.Sayso.audit` for synchronous code."""

    verify = _bridge(_audit.AuditDesk.verify)
    seal = _bridge(_audit.AuditDesk.seal)
    key = _bridge(_audit.AuditDesk.key)
    refused = _bridge(_audit.AuditDesk.refused)
    retain = _bridge(_audit.AuditDesk.retain)

    @functools.wraps(_audit.AuditDesk.export)
    def export(self, **asked: Any) -> Iterator[Line]:
        stream = self._inner.export(**asked)
        while (found := self._run(_next(stream))) is not None:
            yield found


def _like(
    init: Callable[Concatenate[_app.Sayso, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    return functools.wraps(init)


def _started(
    method: Callable[Concatenate[_app.Sayso, P], Coroutine[Any, Any, _handle.RunHandle]],
) -> Callable[Concatenate[Sayso, P], RunHandle]:
    @functools.wraps(method)
    def call(self: Sayso, *args: P.args, **kwargs: P.kwargs) -> RunHandle:
        return RunHandle(self, self._run(method(self._inner, *args, **kwargs)))  # pyright: ignore[reportPrivateUsage]

    return call


def _of_run(
    method: Callable[Concatenate[_app.Sayso, str | RunView, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Sayso, str | RunHandle | RunView, P], T]:
    @functools.wraps(method)
    def call(self: Sayso, run: str | RunHandle | RunView, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._inner, _id(run), *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    return call


class Sayso(_Bridged[_app.Sayso]):
    """`sayso.Sayso` for synchronous code: `with Sayso("pay.db", agents=[...]) as app`.

    It may be used from many threads at once. Ctrl-C ends the wait, not the run: leaving the `with`
    block then waits for calls under way, and a second Ctrl-C does not.
    """

    _thread: _Thread | None = None

    @_like(_app.Sayso.__init__)
    def __init__(self, *args: Any, **options: Any) -> None:
        self._inner = _app.Sayso(*args, **options)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> None:
        """Open the store; start a worker and a sweeper, unless `work=False`."""
        if self._thread is not None:
            raise BadSetup("this Sayso is open already")
        self._thread = _Thread()
        try:
            self._run(self._inner.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Wait for calls under way, then let go of everything."""
        thread, self._thread = self._thread, None
        if thread is None:
            return
        drained = False
        try:
            thread.run(self._inner.close(), last=True)
            drained = True
        finally:
            thread.stop(wait=drained)

    start = _started(_app.Sayso.start)
    adopt = _started(_app.Sayso.adopt)
    export = _of_run(_app.Sayso.export)
    decide = _bridge(_app.Sayso.decide)
    resume = _bridge(_app.Sayso.resume)
    reassign = _bridge(_app.Sayso.reassign)
    remind = _bridge(_app.Sayso.remind)
    undo = _bridge(_app.Sayso.undo)
    hold = _bridge(_app.Sayso.hold)
    doubt = _bridge(_app.Sayso.doubt)
    holds = _bridge(_app.Sayso.holds)
    command = _bridge(_app.Sayso.command)
    gate = _bridge(_app.Sayso.gate)
    sign_in_url = _bridge(_app.Sayso.sign_in_url)
    oauth_callback = _bridge(_app.Sayso.oauth_callback)
    sweep = _bridge(_app.Sayso.sweep)
    doctor = _bridge(_app.Sayso.doctor)
    cancel = _of_run(_app.Sayso.cancel)
    redact = _of_run(_app.Sayso.redact)

    @property
    def people(self) -> People:
        """Who is who: people with their roles, identities and stand-ins."""
        return People(self, self._opened.people)

    @property
    def grants(self) -> Grants:
        """Standing permissions: what is always allowed, until when, and by whom."""
        return Grants(self, self._opened.grants)

    @property
    def notices(self) -> Notices:
        """What people are told of holds by `notify`, and what nobody could be told."""
        return Notices(self, self._opened.notices)

    @property
    def store(self) -> Store:
        """The open store. Its methods are asynchronous, and belong on the loop's thread."""
        return self._opened.store

    @property
    def audit(self) -> AuditDesk:
        """Checking and sealing the store, showing who decided what, and erasing what is old."""
        return AuditDesk(self, self._opened.audit)

    def window(self, *, by: str | Principal, project: str | None = None) -> Window:
        """Look with somebody's eyes: what they may not see is refused, and what is of another
        project is not there.
        """
        return Window(self, self._opened.window(by=by, project=project))

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._thread is not None

    def run(self, run: str | RunHandle | RunView) -> RunHandle:
        """Give a handle on a run. Whether there is such a run shows when the handle is used."""
        return RunHandle(self, self._opened.run(_id(run)))

    def say(
        self,
        run: str | RunHandle | RunView,
        text: str,
        *,
        by: str | Principal,
        supersede: bool = False,
        key: str | None = None,
    ) -> RunHandle:
        """Say something to a run; `sayso.Sayso.say` tells what follows."""
        said = self._inner.say(_id(run), text, by=by, supersede=supersede, key=key)
        return RunHandle(self, self._run(said))

    def events(
        self, run: str | RunHandle | RunView, *, after: int = 0, deltas: bool = False
    ) -> Iterator[Recorded | Delta]:
        """Follow a run: its entries after one, then live, until it is finished.

        With `deltas`, the text of turns under way comes in between.
        """
        # Whoever drops the iterator drops the stream, and the loop then ends that by itself.
        stream = self._opened.events(_id(run), after=after, deltas=deltas)
        while (found := self._run(_next(stream))) is not None:
            yield found

    @property
    def _opened(self) -> _app.Sayso:
        if self._thread is None:
            raise StoreClosed(_NOT_OPEN)
        return self._inner

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            work.close()
            raise StoreClosed(_NOT_OPEN)
        return self._thread.run(work)


def _id(run: str | RunHandle | RunView) -> str | RunView:
    return run.id if isinstance(run, RunHandle) else run


async def _next(stream: AsyncIterator[T]) -> T | None:
    return await anext(stream, None)
