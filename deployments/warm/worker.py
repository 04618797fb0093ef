"""The Prefect worker type `warm`: runs are forked from a process that has everything imported, and begin at once.

prefect work-pool create NAME --type warm
prefect worker start --pool NAME --type warm
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import anyio
import anyio.abc
import httpx
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import Flow, FlowRun, State, StateType, WorkPool
from prefect.client.schemas.responses import DeploymentResponse, WorkerFlowRunResponse
from prefect.exceptions import InfrastructureNotFound, ObjectNotFound
from prefect.runner._control_channel import ControlChannel
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Crashed
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult
from pydantic import Field

from deployments.warm.forge import Order
from deployments.warm.link import Ended, ForkedRun, Link
from deployments.warm.usage import Watch
from deployments.warm.wake import Bell, listen

_GRACE = 10.0
"""Seconds between asking a run to end and killing it."""
_SOON = 0.02
_COMMIT_SECONDS = 0.2
_UNFINISHED = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)


class WarmJobConfiguration(BaseJobConfiguration):
    """What a run gets: the environment of the worker and its own, a working folder, and where its output goes."""

    stream_output: bool = True
    working_dir: Path | None = None

    def prepare_for_flow_run(
        self,
        flow_run: FlowRun,
        deployment: DeploymentResponse | None = None,
        flow: Flow | None = None,
        work_pool: WorkPool | None = None,
        worker_name: str | None = None,
        worker_id: UUID | None = None,
    ) -> None:
        """Fill in what depends on the run; a command that was configured is kept, else Prefect's engine is run."""
        command = self.command
        super().prepare_for_flow_run(flow_run, deployment, flow, work_pool, worker_name, worker_id)
        self.command = command
        self.env = {**os.environ, **self.env}
        if deployment and not deployment.pull_steps and deployment.entrypoint and ":" not in deployment.entrypoint:
            # A module: the run can import it at once and need not ask the server where it is.
            self.env["PREFECT__FLOW_ENTRYPOINT"] = deployment.entrypoint


class WarmVariables(BaseVariables):
    """What a work pool or a deployment may set: the same as for Prefect's process worker."""

    stream_output: bool = Field(True, description="Whether the output of a run appears in the worker's own output.")
    working_dir: Path | None = Field(
        None, title="Working Directory", description="Where a run begins; a temporary folder when left empty."
    )


class WarmWorkerResult(BaseWorkerResult):
    """How the process of a run ended."""


class WarmWorker(BaseWorker[WarmJobConfiguration, WarmVariables, WarmWorkerResult]):
    """Forks each run, hears of new ones by the server's events, and tells the server how each process ended."""

    type = "warm"
    job_configuration = WarmJobConfiguration
    job_configuration_variables = WarmVariables
    _display_name = "Warm"
    _description = (
        "Execute flow runs as forks of a process that has Prefect and the flows imported: they begin at once."
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Far enough ahead that every run is seen by a slow look before it is due; it is started when it is due.
        self._prefetch_seconds = max(self._prefetch_seconds, 5 + 2 * get_current_settings().worker.query_seconds)
        self._link = Link(self._logger.warning)
        self._control = ControlChannel()
        self._bell = Bell()
        self._looking = asyncio.Lock()
        self._listening = False
        self._running: dict[UUID, ForkedRun] = {}
        self._cancelling: set[UUID] = set()
        self._watch = Watch()
        self._duties: set[asyncio.Task[None]] = set()

    async def warm_up(self) -> None:
        """Start the fork server and wait until it has imported everything; needs no Prefect server, may be called twice."""
        await self._link.prepare()

    async def setup(self) -> None:
        """Start the fork server, unless that was done, while the worker reports to the Prefect server."""
        self._duty(self.warm_up())
        await self._control.__aenter__()
        await super().setup()
        self._duty(self._look_when_rung())
        self._duty(self._watch.keep())

    async def teardown(self, *exc_info: Any) -> None:
        """Hear of no more runs, let or make those that run end, then end the fork server."""
        self._bell.silence()
        for duty in self._duties:
            duty.cancel()
        try:
            await super().teardown(*exc_info)
        finally:
            with anyio.CancelScope(shield=True):
                await self._link.close()
                await self._control.__aexit__()

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """The slow look, for what no event told of: runs to start, and runs to end."""
        started = await self._look()
        await self._end_cancelled()
        return started

    async def run(
        self,
        flow_run: FlowRun,
        configuration: WarmJobConfiguration,
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> WarmWorkerResult:
        """Fork the run, wait for its end, and see to it that the server knows how it ended."""
        with _folder(configuration) as folder, self._intents(flow_run.id, configuration) as env:
            order = Order(str(flow_run.id), env, folder, configuration.command, configuration.stream_output)
            forked = await self._link.start(order)
            self._running[flow_run.id] = forked
            if task_status:
                task_status.started(forked.pid)
            try:
                with self._watch.over(forked.pid) as watched:
                    ended = await self._until_end(forked)
                await self._settle(flow_run.id, ended)
            finally:
                del self._running[flow_run.id]
                self._cancelling.discard(flow_run.id)
                self._bell.ring()
        # Figures are not worth a failure.
        with contextlib.suppress(httpx.HTTPError):
            await watched.report(flow_run, ended, self.client, self.get_flow_run_logger(flow_run))
        # The server has been told; a code would only have it told again, in less exact words.
        return WarmWorkerResult(identifier=str(forked.pid), status_code=0)

    async def kill_infrastructure(
        self,
        infrastructure_pid: str,
        configuration: WarmJobConfiguration,  # noqa: ARG002 - of the base class; the process is known by its pid alone
        grace_seconds: int = 30,
    ) -> None:
        """End the process of a run that was cancelled before it began. Raises InfrastructureNotFound when there is none."""
        for forked in self._running.values():
            if str(forked.pid) == infrastructure_pid:
                await forked.end(grace_seconds)
                return
        raise InfrastructureNotFound(f"no run of this worker has the process {infrastructure_pid}")

    async def _look(self) -> list[FlowRun]:
        """Start the runs that are due, and set the timer for those that are not."""
        async with self._looking:
            if not self._has_successfully_synced:
                return await super().get_and_submit_flow_runs()
            if not self._listening:
                self._listening = True
                self._duty(listen(self.work_pool.id, self._bell, self._cancel, self._logger.warning))
            self._last_polled_time = datetime.now(UTC)
            found = await self._get_scheduled_flow_runs()
            now = datetime.now(UTC)
            due = [run for run in found if (_due(run) - now).total_seconds() < _SOON]
            if later := [_due(run) for run in found if run not in due]:
                self._bell.ring_at(min(later))
            return await self._submit_scheduled_flow_runs(flow_run_response=due)

    async def _look_when_rung(self) -> None:
        while True:
            told = await self._bell.rung()
            try:
                if not await self._look() and told:
                    # The server tells of a run before its transaction is committed.
                    await asyncio.sleep(_COMMIT_SECONDS)
                    await self._look()
            except Exception:
                # The slow look tries again, and ends the worker when the server stays away.
                self._logger.warning("Looking for runs failed; it is tried again soon", exc_info=True)

    async def _end_cancelled(self) -> None:
        """End the runs whose cancellation no event told of."""
        if not self._running:
            return
        cancelling = FlowRunFilter(
            id=FlowRunFilterId(any_=list(self._running)),
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.CANCELLING])),
        )
        for run in await self.client.read_flow_runs(flow_run_filter=cancelling):
            self._cancel(run.id)

    def _cancel(self, flow_run: UUID) -> None:
        forked = self._running.get(flow_run)
        if forked is not None and flow_run not in self._cancelling and self._runs_task_group:
            self._cancelling.add(flow_run)
            self._runs_task_group.start_soon(self._end, flow_run, forked)

    async def _end(self, flow_run: UUID, forked: ForkedRun) -> None:
        # Told why, Prefect's engine runs the flow's cancellation hooks and reports no crash.
        await self._control.signal(flow_run, "cancel")
        await forked.end(_GRACE)

    async def _until_end(self, forked: ForkedRun) -> Ended:
        try:
            return await forked.wait()
        except asyncio.CancelledError:
            # The worker is stopping.
            return await _undisturbed(forked.end(_GRACE))

    async def _settle(self, flow_run: UUID, ended: Ended) -> None:
        """A run whose process is gone must not look alive: correct the states that the process did not leave behind."""
        with anyio.CancelScope(shield=True), contextlib.suppress(ObjectNotFound):
            await self._correct(await self.client.read_flow_run(flow_run), ended)
            if ended.code != 0:
                parts = FlowRunFilter(
                    parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run]),
                    state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(_UNFINISHED))),
                )
                for part in await self.client.read_flow_runs(flow_run_filter=parts):
                    await self._correct(part, ended)

    async def _correct(self, flow_run: FlowRun, ended: Ended) -> None:
        state = flow_run.state
        if state is None or state.type not in _UNFINISHED:
            return
        if state.type is StateType.CANCELLING:
            cancelled: State[None] = Cancelled(message=f"Cancelled; its process {_how(ended)}")
            await self.client.set_flow_run_state(flow_run.id, cancelled, force=True)
        else:
            crashed: State[None] = Crashed(message=f"The process of the run {_how(ended)}")
            await self.client.set_flow_run_state(flow_run.id, crashed, force=True)

    @contextlib.contextmanager
    def _intents(self, flow_run: UUID, configuration: WarmJobConfiguration) -> Iterator[dict[str, str]]:
        """The run's environment, with the way by which it learns why it is asked to end."""
        port, token = self._control.register(flow_run)
        try:
            yield {
                **{key: value for key, value in configuration.env.items() if value is not None},
                "PREFECT__CONTROL_PORT": str(port),
                "PREFECT__CONTROL_TOKEN": token,
            }
        finally:
            self._control.unregister(flow_run)

    def _duty(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._duties.add(task)
        task.add_done_callback(self._duties.discard)


@contextlib.contextmanager
def _folder(configuration: WarmJobConfiguration) -> Iterator[str]:
    if configuration.working_dir:
        yield str(configuration.working_dir)
        return
    with tempfile.TemporaryDirectory(suffix="prefect", ignore_cleanup_errors=True) as folder:
        yield folder


async def _undisturbed(work: Awaitable[Ended]) -> Ended:
    with anyio.CancelScope(shield=True):
        result = await work
    return result  # noqa: RET504 - a type checker takes a cancel scope for one that swallows exceptions


def _due(entry: WorkerFlowRunResponse) -> datetime:
    run = entry.flow_run
    return run.next_scheduled_start_time or run.expected_start_time or datetime.now(UTC)


def _how(ended: Ended) -> str:
    if ended.code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-ended.code).name}"
        return f"was killed by signal {-ended.code}"
    return f"ended with exit code {ended.code} and without a result"
