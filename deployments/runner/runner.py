"""Executes all flow runs on one event loop, and reports to the worker.

Flows mostly wait: their steps run in threads, and parsing runs in the parser pool. A stopped run stops by itself between two
requests or batches. Otherwise it is cancelled, and if one of its threads never returns, the run is reported as finished anyway
and the thread is counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import queue
import threading
from contextvars import Context
from dataclasses import dataclass, field
from functools import cache
from multiprocessing.connection import Connection
from typing import Any
from uuid import UUID

import httpx
from prefect import Flow
from prefect._flow_run_suspension import mark_flow_run_suspension_requested
from prefect._internal.observers import FlowRunSuspendingObserver
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import AsyncClientContext
from prefect.events.worker import EventsWorker
from prefect.exceptions import Abort, Pause
from prefect.flow_engine import run_flow
from prefect.settings import get_current_settings

from catchment.sync.shared import shared_pool
from deployments.runner.messages import (
    Cancel,
    CodeChanged,
    Finished,
    Heartbeat,
    Ready,
    Retire,
    Start,
    ToRunner,
    ToWorker,
)
from deployments.runner.preload import SourceFiles
from deployments.runs.remembering_client import RememberingClient
from deployments.server.processes import descendants, kill
from tasks import activity, hints, open_syncs
from tasks.activity import CountingExecutor
from tasks.run_states import UNREPORTED

HEARTBEAT_SECONDS = 1.0
_COOPERATIVE_SECONDS = 2.0
"""Time for a run to stop by itself before its asyncio task is cancelled."""
_CANCELLED_SECONDS = 8.0
"""Time for a cancelled task to end before the run is abandoned."""
_LOOK_AT_FILES_SECONDS = 2.0


@dataclass(slots=True)
class _Run:
    task: asyncio.Task[str]
    stopping: bool = False
    problem: str = "was stopped"


@dataclass(eq=False)
class Runner:
    """Processes the messages of one worker. `failed` names the modules that could not be imported."""

    link: Connection
    files: SourceFiles
    failed: tuple[str, ...]
    _runs: dict[UUID, _Run] = field(default_factory=dict)
    _outbox: queue.SimpleQueue[ToWorker] = field(default_factory=queue.SimpleQueue)
    _retired: bool = False
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _client: RememberingClient = field(default_factory=RememberingClient)
    _executor: CountingExecutor = field(default_factory=lambda: CountingExecutor(16, "runner"))

    async def serve(self) -> None:
        """Execute runs until the worker sends `Retire` and the last run has ended. If the worker dies, the process exits."""
        inbox: asyncio.Queue[ToRunner] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._executor)
        threading.Thread(target=self._receive, args=(loop, inbox), name="from worker", daemon=True).start()
        threading.Thread(target=self._send, name="to worker", daemon=True).start()
        async with (
            self._client.context() as self._context,
            FlowRunSuspendingObserver(_suspend) as self._suspended,
        ):
            # In a context without a run: Prefect would relate every event to the run that starts its thread for events.
            EventsWorker.instance()
            self._background(self._report())
            self._background(self._watch_files())
            self._outbox.put(Ready(self.failed))
            while not (self._retired and not self._runs):
                message = asyncio.ensure_future(inbox.get())
                await asyncio.wait({message, *(run.task for run in self._runs.values())}, return_when="FIRST_COMPLETED")
                if message.done():
                    self._obey(message.result())
                else:
                    message.cancel()
                self._collect()

    def _obey(self, message: ToRunner) -> None:
        match message:
            case Start(run, entrypoint, changed):
                if changed is not None:
                    hints.put(str(run.id), changed)
                # A fresh context: a run must not inherit the contextvars of the run or message before it.
                task = asyncio.create_task(self._execute(run, entrypoint), name=str(run.id), context=Context())
                self._runs[run.id] = _Run(task)
                self._suspended.add_in_flight_flow_run_id(run.id)
            case Cancel(run):
                if (started := self._runs.get(run)) and not started.stopping:
                    started.stopping = True
                    self._background(self._stop(run, started))
            case Retire():
                self._retired = True

    async def _execute(self, run: FlowRun, entrypoint: str) -> str:
        """Execute a flow run. Returns the problem to report, or an empty string."""
        AsyncClientContext.__var__.set(self._context)
        try:
            flow = await asyncio.to_thread(_load, entrypoint)
            self._client.begin(run, flow)
            ending: Any = run_flow(flow, flow_run=run, return_type="state")
            await ending
        except (Abort, Pause):
            # The server refused a state, for example because the run was cancelled before it started.
            return ""
        except httpx.HTTPError:
            return UNREPORTED
        except asyncio.CancelledError:
            return self._runs[run.id].problem if run.id in self._runs else ""
        except Exception as error:  # noqa: BLE001 - the worker sets the state of a run whose flow could not set it
            return f"failed in its executor ({type(error).__name__}: {error})"
        return ""

    async def _stop(self, run: UUID, started: _Run) -> None:
        activity.stop(run)
        ended, _ = await asyncio.wait({started.task}, timeout=_COOPERATIVE_SECONDS)
        if not ended:
            started.task.cancel()
            ended, _ = await asyncio.wait({started.task}, timeout=_CANCELLED_SECONDS)
        if not ended and run in self._runs:
            del self._runs[run]
            self._outbox.put(Finished(run, f"{started.problem}; its thread was abandoned"))

    def _collect(self) -> None:
        for run, started in list(self._runs.items()):
            if started.task.done():
                del self._runs[run]
                hints.take(str(run))
                self._suspended.remove_in_flight_flow_run_id(run)
                self._outbox.put(Finished(run, started.problem if started.task.cancelled() else started.task.result()))

    async def _report(self) -> None:
        while True:
            statuses = activity.statuses()
            for status in statuses:
                if status.is_stuck and (stuck := self._runs.get(UUID(status.run))):
                    stuck.problem = "made no progress within its time limit"
                    self._obey(Cancel(UUID(status.run)))
            steps = {UUID(status.run): status.step for status in statuses}
            busy = pool.busy if (pool := shared_pool()) else 0
            self._outbox.put(Heartbeat(steps, self._abandoned_threads(), busy))
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _abandoned_threads(self) -> int:
        """Number of threads that still work for ended syncs, or without any run. A stopped run does not wait for them."""
        of_syncs = open_syncs.busy_threads({str(run) for run in self._runs})
        return of_syncs if self._runs else of_syncs + self._executor.busy

    async def _watch_files(self) -> None:
        while not await asyncio.to_thread(self.files.changed):
            await asyncio.sleep(_LOOK_AT_FILES_SECONDS)
        self._outbox.put(CodeChanged())

    def _background(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _receive(self, loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[ToRunner]) -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                loop.call_soon_threadsafe(inbox.put_nowait, self.link.recv())
        _end_with_children()

    def _send(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.link.send(self._outbox.get())


def _suspend(flow_run_id: UUID, state: State[Any]) -> None:
    mark_flow_run_suspension_requested(flow_run_id, state)


@cache
def _load(entrypoint: str) -> Flow[Any, Any]:
    module, _, name = entrypoint.rpartition(".")
    flow = getattr(importlib.import_module(module), name)
    if not isinstance(flow, Flow) or not flow.isasync or flow.isgenerator:
        raise TypeError(f"{entrypoint} is not an async flow; deploy it to a work pool of type process")
    if flow.persist_result is not False:
        return flow
    # If the flow names no storage, the engine requests the default storage from the server twice per run, and waits.
    return flow.with_options(result_storage=get_current_settings().results.local_storage_path)


def _end_with_children() -> None:
    """Exit at once, because the worker died: a run without a worker must not continue."""
    kill(descendants(os.getpid()))
    os._exit(1)
