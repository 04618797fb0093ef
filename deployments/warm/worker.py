"""The Prefect worker type `warm`: runs are forked from a process that has everything imported, and begin at once.

prefect work-pool create NAME --type warm
prefect worker start --pool NAME --type warm
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import anyio
import anyio.abc
import httpx
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import InfrastructureNotFound, ObjectNotFound
from prefect.runner._control_channel import ControlChannel
from prefect.settings import get_current_settings
from prefect.workers.base import BaseVariables, BaseWorker, BaseWorkerResult

from catchment.runtime.heartbeat import VARIABLE, pulse_file
from deployments.warm.ending import settle
from deployments.warm.forge import Order
from deployments.warm.job import WarmJobConfiguration
from deployments.warm.link import Ended, ForkedRun, Link
from deployments.warm.occupancy import READING_SECONDS, Occupancy, due_at
from deployments.warm.usage import Watch
from deployments.warm.variables import base_job_template
from deployments.warm.wake import Bell, listen

_GRACE = 10.0
"""Seconds between asking a run to end and killing it."""
_SOON = 0.02
_COMMIT_SECONDS = (0.03, 0.17)


class WarmWorkerResult(BaseWorkerResult):
    """How the process of a run ended."""


class WarmWorker(BaseWorker[WarmJobConfiguration, BaseVariables, WarmWorkerResult]):
    """Forks each run, hears of new ones by the server's events, and tells the server how each process ended."""

    type = "warm"
    job_configuration = WarmJobConfiguration
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
        self._watch = Watch(self._bell.ring)
        self._occupancy = Occupancy(self._limit, self._logger.info)
        self._seen: set[UUID] = set()
        self._duties: set[asyncio.Task[None]] = set()

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The template of a pool of this type, the same whoever makes the pool."""
        return base_job_template()

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
        self._duty(self._adapt())

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
        found = await self._look()
        await self._end_cancelled()
        return found

    async def run(
        self,
        flow_run: FlowRun,
        configuration: WarmJobConfiguration,
        task_status: anyio.abc.TaskStatus[int] | None = None,
    ) -> WarmWorkerResult:
        """Fork the run, wait for its end, and see to it that the server knows how it ended."""
        self._occupancy.learn(flow_run, configuration.of_deployment)
        with configuration.folder() as folder, self._intents(flow_run.id, configuration) as env, pulse_file() as pulse:
            env[VARIABLE] = str(pulse)
            order = Order(str(flow_run.id), env, folder, configuration.command, not configuration.stream_output)
            waited = max(0.0, (datetime.now(UTC) - due_at(flow_run)).total_seconds())
            forked = await self._link.start(order)
            self._running[flow_run.id] = forked
            if task_status:
                task_status.started(forked.pid)
            try:
                allowed = self._occupancy.profile_of(flow_run.id).memory_mb
                kill = forked.kill
                with self._watch.over(forked.pid, kill, pulse=pulse, allowed_mb=allowed, waited=waited) as watched:
                    ended = await self._until_end(forked)
                with anyio.CancelScope(shield=True):
                    await settle(self.client, flow_run.id, ended, watched.excess)
            finally:
                del self._running[flow_run.id]
                self._cancelling.discard(flow_run.id)
                self._occupancy.ended(self._live())
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
        """Start runs that are due, as far as there are places, and set the timer for the others; those not seen before."""
        async with self._looking:
            if not self._has_successfully_synced:
                return await super().get_and_submit_flow_runs()
            if not self._listening:
                self._listening = True
                self._duty(listen(self.work_pool.id, self._bell, self._cancel, self._logger.warning))
            self._last_polled_time = datetime.now(UTC)
            found = await self._get_scheduled_flow_runs()
            now = datetime.now(UTC)
            due = [entry for entry in found if (due_at(entry.flow_run) - now).total_seconds() < _SOON]
            if later := [due_at(entry.flow_run) for entry in found if entry not in due]:
                self._bell.ring_at(min(later))
            chosen = await self._occupancy.choose(due, self._live(), self._watch.bulk(), self.work_pool, self.client)
            await self._submit_scheduled_flow_runs(flow_run_response=chosen)
            new = [entry.flow_run for entry in found if entry.flow_run.id not in self._seen]
            self._seen = {entry.flow_run.id for entry in found}
            return new

    async def _propose_submitting_state(self, flow_run: FlowRun) -> None:
        """Leave that state out: the server takes 25 ms for it, and the fork says that it runs in 150 ms."""

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """As in the base class, but beside the start of the run and not before it."""
        self._duty(self._label(super()._give_worker_labels_to_flow_run(flow_run_id)))

    async def _label(self, labelling: Coroutine[Any, Any, None]) -> None:
        # Labels are not worth a failure.
        with contextlib.suppress(httpx.HTTPError, ObjectNotFound):
            await labelling

    def _live(self) -> set[UUID]:
        """The runs that have a place: those that are being started, and those that have a process."""
        return self._submitting_flow_run_ids | self._running.keys()

    async def _look_when_rung(self) -> None:
        while True:
            told = await self._bell.rung()
            try:
                found = await self._look()
                for pause in _COMMIT_SECONDS:
                    if found or not told:
                        break
                    # The server tells of a run before its transaction is committed.
                    await asyncio.sleep(pause)
                    found = await self._look()
            except httpx.HTTPError:
                # The slow look tries again, and ends the worker when the server stays away.
                self._logger.warning("Looking for runs failed; it is tried again soon", exc_info=True)

    async def _adapt(self) -> None:
        """Have more or fewer runs at once, as the machine bears it."""
        while True:
            await asyncio.sleep(READING_SECONDS)
            if self._occupancy.adapt():
                self._bell.ring()

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

    def _duty(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._duties.add(task)
        task.add_done_callback(self._done)

    def _done(self, duty: asyncio.Task[None]) -> None:
        self._duties.discard(duty)
        if not duty.cancelled() and (error := duty.exception()) is not None:
            # The slow look and the rest go on without it.
            self._logger.error("A part of the worker ended by a defect; restart the worker", exc_info=error)


async def _undisturbed(work: Awaitable[Ended]) -> Ended:
    with anyio.CancelScope(shield=True):
        result = await work
    return result  # noqa: RET504 - a type checker takes a cancel scope for one that swallows exceptions
