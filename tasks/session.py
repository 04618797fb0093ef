"""The open sync of each flow run, and its threads. Tasks name it by its number: no parameter is an object, or private."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakSet

from catchment.contracts import Mirrored
from catchment.runtime.secret_references import read_blocks_with
from catchment.settings import Home, SourceSettings
from catchment.sync.fingerprints import circumstances
from catchment.sync.plan import PlanFilter, load_plan
from catchment.sync.session import SourceSync, open_sync
from catchment.sync.shared import configure_gc
from connectors import connector_class
from tasks.activity import CountingExecutor, Steps, SyncStatus
from tasks.blocks import read_block
from tasks.redacted_errors import in_thread, run
from tasks.shell import run_in_flow

R = TypeVar("R")

_THREADS = 4
"""Steps of one sync at a time."""


class Session:
    """The sync of one flow run, with threads for every call that blocks; the event loop runs none of them."""

    sync: SourceSync

    def __init__(self, name: str, run: str | None) -> None:
        self.run = run
        self.slices = 0
        """How many slices have begun."""
        self.batches: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        """From `normalize` to `extract`: the number and the token of each batch of the slice; None after the last."""
        self._threads = CountingExecutor(_THREADS, f"sync of {name}")
        _executors.add(self._threads)
        self._steps = Steps()
        # One thread for opening and closing: so the sync is closed only after it was opened.
        self._opening = ThreadPoolExecutor(1, thread_name_prefix=f"opening {name}")
        self._resources = ExitStack()
        self._is_open = False
        self._stopped: str | None = None
        self._stopping = asyncio.Event()

    async def call(self, step: Callable[..., R], *arguments: Any, **named: Any) -> R:
        """Run a step of the engine in a thread of the sync. Raises Reported in place of any error of ours."""
        with self._steps.running(step.__name__):
            return await in_thread(step, *arguments, executor=self._threads, **named)

    async def sleep(self, seconds: float) -> None:
        """Wait; return early when the sync is to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def is_of(self, sync: int) -> bool:
        """Whether this is the session of the sync with this number."""
        return self._is_open and self.sync.sync.id == sync

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped is not None

    def status(self) -> SyncStatus:
        """The step that has been running longest, and whether the sync has made no progress for too long."""
        return SyncStatus(str(self.run), self._steps.oldest, self._is_open and self.sync.is_overdue)

    def stop(self, reason: str) -> None:
        """Ask the sync to stop, also while it is being opened. From the event loop only; may be called again."""
        self._stopped = reason
        self._stopping.set()
        if self._is_open:
            self.sync.stop(reason)

    async def open(self, sync: AbstractContextManager[SourceSync]) -> None:
        """Open the sync. Raises as `open_sync` does."""
        with self._steps.running("open"):
            await self._outside(self._enter, sync)

    async def close(self) -> None:
        """Close the sync, and leave a step that hangs to itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        try:
            with self._steps.running("close"):
                await self._outside(self._resources.close)
        finally:
            self._opening.shutdown(wait=False)

    async def _outside(self, act: Callable[..., object], *arguments: object) -> None:
        # If the flow is cancelled meanwhile, this is done all the same.
        await asyncio.shield(run(act, *arguments, executor=self._opening))

    def _enter(self, sync: AbstractContextManager[SourceSync]) -> None:
        self.sync = self._resources.enter_context(sync)
        self._is_open = True
        if self._stopped is not None:
            self.sync.stop(self._stopped)


_executors: WeakSet[CountingExecutor] = WeakSet()
_sessions: list[Session] = []
"""The open sessions of this process, oldest first."""


@asynccontextmanager
async def session(
    kind: str, name: str, settings: SourceSettings, run: str | None, plan: str | None = None
) -> AsyncIterator[Session]:
    """Begin a sync of the source, by a plan if one is named, and make it known to the tasks of this process until it ends.

    Raises NotFound when the plan is not kept any more, and as `open_sync` does.
    """
    opened = Session(name, run)
    _sessions.append(opened)
    try:
        await opened.open(_sync(kind, name, settings, run, plan))
        yield opened
    finally:
        try:
            await opened.close()
        finally:
            _sessions.remove(opened)


def current(sync: int) -> Session:
    """Return the session of the sync with this number."""
    [found] = (opened for opened in _sessions if opened.is_of(sync))
    return found


def statuses() -> list[SyncStatus]:
    """What each sync that a flow run executes does at the moment."""
    return [opened.status() for opened in list(_sessions) if opened.run is not None]


def busy_threads() -> int:
    """How many steps have not returned, those of closed syncs included."""
    return sum(executor.busy for executor in list(_executors))


def stop(flow_run_id: UUID | str, reason: str = "the run was cancelled") -> bool:
    """Stop the sync of a flow run; return whether this process has one. The run then ends `Cancelled`.

    Called from the event loop that the flow runs on; never waits.
    """
    running = [opened for opened in _sessions if opened.run == str(flow_run_id)]
    for opened in running:
        opened.stop(reason)
    return bool(running)


@contextmanager
def _sync(kind: str, name: str, settings: SourceSettings, run: str | None, plan: str | None) -> Iterator[SourceSync]:
    configure_gc()
    read_blocks_with(read_block)
    followed = None if plan is None else load_plan(Home.default(), plan, name)
    connector = connector_class(kind)(settings)
    if isinstance(connector, Mirrored):
        connector.shell = run_in_flow
    policy = settings.policy(connector.policy)
    now = circumstances(settings)
    with open_sync(Home.default(), connector, name, policy, settings.priority, run=run, now=now) as sync:
        if followed is not None:
            sync.discovery.through = PlanFilter(followed, sync.progress)
        yield sync
