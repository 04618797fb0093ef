"""The open sync of each flow run, and its threads. Tasks refer to it by its ID, so that no task parameter is private."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from prefect import get_run_logger
from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.runtime import deployment
from pydantic import ValidationError

from catchment.contracts import Mirrored, Telling
from catchment.errors import LoginFailed, Refused
from catchment.runtime.secret_references import read_blocks_with
from catchment.settings import Home, SourceSettings
from catchment.sync.circumstances import circumstances
from catchment.sync.plan import PlanFilter, load_plan
from catchment.sync.shared import configure_gc
from catchment.sync.source_sync import SourceSync, open_sync
from connectors import connector_class
from tasks.activity import Activity, ActivityStatus, CountingExecutor, Steps, registered
from tasks.redacted_errors import in_thread, run
from tasks.shell import run_in_flow

R = TypeVar("R")

_THREADS = 4
"""Steps of one sync that may execute at the same time."""


class Session(Activity):
    """The sync of one flow run. Blocking calls run in its threads, never on the event loop."""

    sync: SourceSync

    def __init__(self, name: str, run: str | None) -> None:
        super().__init__(run)
        self.slices = 0
        """Number of slices started."""
        self.batches: asyncio.Queue[tuple[int, int] | None] = asyncio.Queue()
        """Batches of the current slice from `normalize` to `extract`, as (number, token); None after the last batch."""
        self._threads = CountingExecutor(_THREADS, f"sync of {name}")
        self._steps = Steps()
        # A single thread for opening and closing, so that the sync is closed only after it was opened.
        self._opening = CountingExecutor(1, f"opening {name}")
        _executors.update({self._threads: run, self._opening: run})
        self._resources = ExitStack()
        self._is_open = False
        self._stopping = asyncio.Event()

    async def call(self, step: Callable[..., R], *arguments: Any, **named: Any) -> R:
        """Run a step of the engine in a thread of the sync. Raises Reported instead of a CatchmentError."""
        with self._steps.running(step.__name__):
            return await in_thread(step, *arguments, executor=self._threads, **named)

    async def sleep(self, seconds: float) -> None:
        """Wait. Returns early if the sync is stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def is_of(self, sync: int) -> bool:
        """Whether this session has the sync with this ID."""
        return self._is_open and self.sync.sync.id == sync

    def status(self) -> ActivityStatus:
        """Return the step that has been executing longest, and whether the sync exceeded its time limit."""
        return ActivityStatus(str(self.run), self._steps.oldest, self._is_open and self.sync.is_overdue)

    def stop(self, reason: str) -> None:
        """Stop the sync, even while it is being opened. Event loop only. Idempotent."""
        super().stop(reason)
        self._stopping.set()
        if self._is_open:
            self.sync.stop(reason)

    async def open(self, sync: AbstractContextManager[SourceSync]) -> None:
        """Open the sync. Raises as `open_sync` does."""
        with self._steps.running("open"):
            await self._outside(self._enter, sync)

    async def close(self) -> None:
        """Close the sync. A step that hangs is abandoned in its thread."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        try:
            with self._steps.running("close"):
                await self._outside(self._resources.close)
        finally:
            self._opening.shutdown(wait=False)

    async def _outside(self, act: Callable[..., object], *arguments: object) -> None:
        # Completes even if the flow is cancelled meanwhile.
        await asyncio.shield(run(act, *arguments, executor=self._opening))

    def _enter(self, sync: AbstractContextManager[SourceSync]) -> None:
        self.sync = self._resources.enter_context(sync)
        self._is_open = True
        if self.stopped:
            self.sync.stop(self.stopped)


_executors: WeakKeyDictionary[CountingExecutor, str | None] = WeakKeyDictionary()
"""The executors of open syncs, and of closed ones with an abandoned step, with their flow runs."""
_sessions: list[Session] = []
"""The open sessions of this process, oldest first."""


@asynccontextmanager
async def session(
    kind: str,
    name: str,
    settings: SourceSettings,
    run: str | None,
    plan: str | None = None,
    backfill: int | None = None,
) -> AsyncIterator[Session]:
    """Start a sync of the source and register it for the tasks of this process.

    `plan`: the name of a saved plan. `backfill`: the number of a backfill.

    Raises Refused if the settings are those of another source, NotFound if the plan has expired, and the errors of `open_sync`.
    """
    await _require_identity(name, settings)
    opened = Session(name, run)
    _sessions.append(opened)
    with registered(opened):
        try:
            await opened.open(_sync(kind, name, settings, run, plan, backfill))
            yield opened
        finally:
            try:
                await opened.close()
            finally:
                _sessions.remove(opened)


def current(sync: int) -> Session:
    """Return the session of the sync with this ID."""
    [session] = (opened for opened in _sessions if opened.is_of(sync))
    return session


def busy_threads(runs: Collection[str]) -> int:
    """Number of executing steps of flow runs other than these: abandoned steps, if these are all that live."""
    return sum(executor.busy for executor, run in list(_executors.items()) if run not in runs)


@contextmanager
def _sync(
    kind: str, name: str, settings: SourceSettings, run: str | None, plan: str | None, backfill: int | None
) -> Iterator[SourceSync]:
    configure_gc()
    read_blocks_with(_read_block)
    followed = None if plan is None else load_plan(Home.default(), plan, name)
    connector = connector_class(kind)(settings)
    if isinstance(connector, Mirrored):
        connector.shell = run_in_flow
    if isinstance(connector, Telling):
        connector.log = get_run_logger().info
    policy = settings.policy(connector.policy)
    now = circumstances(settings)
    home, priority = Home.default(), settings.priority
    with open_sync(home, connector, name, policy, priority, run=run, now=now, backfill=backfill) as sync:
        if followed is not None:
            sync.discovery.through = PlanFilter(followed, sync.progress)
        yield sync


async def _require_identity(name: str, settings: SourceSettings) -> None:
    """Raise Refused if a run has another name than its deployment, or other settings in `identity`.

    Otherwise a run with another folder in its form would compare that folder with the items of the source.
    """
    if deployment.id is None:
        return
    async with get_client() as client:
        try:
            configured = (await client.read_deployment(UUID(deployment.id))).parameters
        except ObjectNotFound:
            return
    changed = [] if configured.get("name", name) == name else ["name"]
    if "settings" in configured:
        try:
            changed += settings.differing(type(settings).model_validate(configured["settings"]))
        except ValidationError:
            # Its message would show the settings.
            raise Refused(f"{name}: the settings of the deployment are invalid; run `catchment up`") from None
    if changed:
        raise Refused(
            f"{name}: a run cannot change {', '.join(changed)}, because that is another source; add it with `catchment sources "
            "add`, or edit sources.yaml and run `catchment up`"
        )


def _read_block(name: str) -> str:
    """Return the value of the Secret block of this name. Raises LoginFailed if the block does not exist."""
    try:
        with get_client(sync_client=True) as client:
            return str(client.read_block_document_by_name(name, "secret").data["value"])
    except ObjectNotFound:
        raise LoginFailed(f"Secret block {name}: not found; create it in the Prefect UI under Blocks") from None
