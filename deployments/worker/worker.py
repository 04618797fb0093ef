"""The Prefect worker type `warm`: runs start at once, in a runner process that has already imported everything.

prefect work-pool create NAME --type warm
prefect worker start --pool NAME --type warm
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import anyio
import anyio.abc
import httpx
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events import Event
from prefect.exceptions import InfrastructureNotFound
from prefect.settings import get_current_settings
from prefect.workers.base import BaseJobConfiguration, BaseVariables, BaseWorker, BaseWorkerResult

from catchment.runtime.home import Home
from catchment.runtime.membership import HOST_LABEL, Membership
from deployments.runs import recovery
from deployments.runs.live_runs import LiveRuns, RunEnd
from deployments.runs.occupancy import READING_SECONDS, Occupancy, due_at, source_of
from deployments.runs.recovery import Executed
from deployments.runs.remembering_client import IDENTIFIER, RememberingClient
from deployments.runs.rounds import RecoveryRounds, give_back
from deployments.runs.work_pool import base_job_template
from deployments.sources import editor_schema
from deployments.worker.configuration import WarmJobConfiguration
from deployments.worker.notifications import Bell, listen
from deployments.worker.runners import Runners
from tasks.flow_runs import read_runs
from tasks.hints import ChangeHint
from tasks.run_states import COALESCED, COMPLETED, REFUSED, SKIPPED

if TYPE_CHECKING:
    from deployments.watch.thread import WatcherThread

_STOP_SECONDS = 12.0
"""Time for stopped runs: longer than the runner takes to abandon one."""
_SOON = 0.02
_COMMIT_SECONDS = (0.03, 0.17)
_READ_NOTHING = (SKIPPED.name, REFUSED.name, COALESCED.name)


class WarmWorkerResult(BaseWorkerResult):
    """The result of a run that Prefect's base class requires."""


class WarmWorker(BaseWorker[WarmJobConfiguration, BaseVariables, WarmWorkerResult]):
    """Receives runs by the server's events, admits them, sends them to a runner, and sets the states that it leaves open."""

    type = "warm"
    job_configuration = WarmJobConfiguration
    _display_name = "Warm"
    _description = (
        "Executes flow runs in one process with Prefect and the flows already imported, so that they start immediately."
    )

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Every run would get two lines about its submission.
        logging.getLogger("prefect.flow_runs.worker").setLevel(logging.WARNING)
        # A slow poll finds every run before it is due, and a timer starts it when it is due.
        self._prefetch_seconds = max(self._prefetch_seconds, 5 + 2 * get_current_settings().worker.query_seconds)
        self._runners = Runners(self._logger.warning, self._duty)
        self._bell = Bell()
        self._looking = asyncio.Lock()
        self._listening = False
        self._live = LiveRuns(
            lambda: self._submitting_flow_run_ids,
            lambda: self._runners.identities,
            partial(give_back, Home.default()),
            self._logger.warning,
        )
        self._occupancy: Occupancy
        self._rounds: RecoveryRounds | None = None
        self._seen: set[UUID] = set()
        self._duties: set[asyncio.Task[None]] = set()
        self.home: Home | None = None
        """The home of this worker, for which it writes the status file and corrects runs and syncs that died."""
        self.membership: Membership | None = None
        """The host of this worker, if its home has joined others."""
        self.watcher: WatcherThread | None = None
        """Starts after the set-up and stops with the worker. Only the worker of a home's own pool has one."""

    @classmethod
    def get_default_base_job_template(cls) -> dict[str, Any]:
        """The template of a pool of this type, whichever process creates the pool."""
        return base_job_template()

    async def setup(self) -> None:
        """Start the runner while the worker reports to the Prefect server."""
        self._occupancy = Occupancy(self._limit, self.home, self._live.blame.is_suspect, self._logger.info)
        self._duty(self._start_runner())
        await self._exit_stack.enter_async_context(RememberingClient().context())
        await super().setup()
        if self.home is not None:
            self._rounds = RecoveryRounds(
                self.home,
                Executed(self._work_pool_name, self.membership.name if self.membership else ""),
                self._live.ids,
                self._live.has_ended,
                self._looking,
                self._logger.warning,
            )
            if self.membership:
                # Before its first run, which the others would take for dead.
                await self._rounds.beat_once()
                self._duty(self._rounds.beat())
            await self._rounds.first(self.client)
            self._duty(self._rounds.run(self.client))
            self._duty(self._rounds.follow())
            self._duty(asyncio.to_thread(editor_schema.write, self.home))
        self._duty(self._look_when_rung())
        self._duty(self._adapt())
        if self.watcher is not None:
            self.watcher.start()

    async def teardown(self, *exc_info: Any) -> None:
        """Take no more runs, stop the live runs, then the runner."""
        if self.watcher is not None:
            await asyncio.to_thread(self.watcher.stop)
        self._bell.silence()
        for duty in self._duties:
            duty.cancel()
        try:
            await super().teardown(*exc_info)
        finally:
            with anyio.CancelScope(shield=True):
                await self._runners.close()
                if self._rounds is not None:
                    await self._rounds.reclaim()
                    if self.membership:
                        await self._rounds.beat_once(is_last=True)

    async def get_and_submit_flow_runs(self) -> list[FlowRun]:
        """Poll for runs to start and runs to cancel that no event reported."""
        scheduled = await self._look()
        await self._find_cancelled()
        return scheduled

    async def run(
        self,
        flow_run: FlowRun,
        configuration: WarmJobConfiguration,
        task_status: anyio.abc.TaskStatus[Any] | None = None,
    ) -> WarmWorkerResult:
        """Execute the run in its runner, wait for its end, and correct the states that it left open."""
        self._occupancy.learn(flow_run, configuration.of_deployment)
        source = _compared(flow_run) if self.watcher else None
        hint = self.watcher.changes.take(source) if self.watcher and source else None
        changed = hint if flow_run.parameters.get("changed_only") else None
        state = None
        try:
            state = await self._execute(flow_run, configuration.entrypoint, changed, task_status)
        finally:
            if self.watcher and source and state != COMPLETED.name:
                # A run with another end may have missed changes, so all paths count as changed. If it read no items, only its
                # own hint is recorded again.
                self.watcher.changes.give_back(source, hint if state in _READ_NOTHING else None)
        # The state is set already. With a status code Prefect would set it again, less precisely.
        return WarmWorkerResult(identifier=f"{IDENTIFIER}{flow_run.id}", status_code=0)

    async def _execute(
        self,
        flow_run: FlowRun,
        entrypoint: str,
        changed: ChangeHint | None,
        task_status: anyio.abc.TaskStatus[Any] | None,
    ) -> str | None:
        """Execute the run. Returns the name of its final state."""
        end = await self._runners.start(flow_run, entrypoint, changed)
        try:
            with self._live.executing(flow_run.id, source_of(flow_run) or flow_run.name, end):
                self._publish()
                if task_status:
                    # Without the identifier: the runner's client reports it, with the name of the run.
                    task_status.started()
                ended = await self._until_finished(flow_run.id, end)
                self._publish()
                with anyio.CancelScope(shield=True):
                    state = await self._finish(flow_run, ended)
                if self._rounds is not None and (source := source_of(flow_run)):
                    self._rounds.ended(source, state)
        finally:
            self._publish()
            if self._occupancy.has_waiting:
                self._bell.ring()
        return state

    async def _finish(self, flow_run: FlowRun, ended: RunEnd) -> str | None:
        """Correct the states that a run left open, and resume it if it crashed. Returns the name of its final state."""
        ending = await self._live.ending(flow_run.id, ended)
        state = await recovery.finish(self.client, flow_run.id, ending)
        if self._live.was_cancelled(flow_run.id) and state is not None and state.type is StateType.CRASHED:
            # It was cancelled while its crash was recorded.
            state = await recovery.finish(self.client, flow_run.id, replace(ending, was_cancelled=True))
        if state is not None and state.name == COMPLETED.name:
            self._live.completed(flow_run.id)
        elif state is not None and state.type is StateType.CRASHED and flow_run.deployment_id is not None:
            # If the server does not answer now, a recovery round resumes the source.
            with contextlib.suppress(httpx.HTTPError):
                if source := await recovery.resume(self.client, flow_run.deployment_id):
                    self._logger.warning(str(source))
        return None if state is None else state.name

    async def kill_infrastructure(
        self,
        infrastructure_pid: str,
        configuration: WarmJobConfiguration,  # noqa: ARG002 - of the base class
        grace_seconds: int = 30,
    ) -> None:
        """Stop a run by the identifier that `run` reported. Raises InfrastructureNotFound if it is not running here."""
        run = UUID(infrastructure_pid.removeprefix(IDENTIFIER)) if infrastructure_pid.startswith(IDENTIFIER) else None
        if run is None or (end := self._live.end_of(run)) is None:
            raise InfrastructureNotFound(f"this worker does not execute {infrastructure_pid}")
        self._cancel(run)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(end), grace_seconds)

    async def _look(self) -> list[FlowRun]:
        """Start the due runs that get slots, and set the timer for the others. Returns the runs seen for the first time."""
        async with self._looking:
            if not self._has_successfully_synced:
                return await super().get_and_submit_flow_runs()
            if not self._listening:
                self._listening = True
                self._duty(
                    listen(self.work_pool.id, self._bell, self._cancel, self._deployments_changed, self._logger.warning)
                )
            self._last_polled_time = datetime.now(UTC)
            scheduled = await self._get_scheduled_flow_runs()
            now = datetime.now(UTC)
            due = [entry for entry in scheduled if (due_at(entry.flow_run) - now).total_seconds() < _SOON]
            if later := [due_at(entry.flow_run) for entry in scheduled if entry not in due]:
                self._bell.ring_at(min(later))
            chosen = await self._occupancy.choose(due, self._live.ids(), self.work_pool, self.client)
            self._publish()
            await self._submit_scheduled_flow_runs(flow_run_response=chosen)
            new = [entry.flow_run for entry in scheduled if entry.flow_run.id not in self._seen]
            self._seen = {entry.flow_run.id for entry in scheduled}
            return new

    async def _propose_submitting_state(self, flow_run: FlowRun) -> None:
        """Skip this state: it costs the server 25 ms, and the run soon reports `Running`."""

    async def _give_worker_labels_to_flow_run(self, flow_run_id: UUID) -> None:
        """Name the host that executes a run, if others could. Other labels are not read, and delay the start."""
        if self.membership and self.membership.takes_any:
            await self.client.update_flow_run_labels(flow_run_id, {HOST_LABEL: self.membership.name})

    def _emit_flow_run_submitted_event(self, configuration: BaseJobConfiguration) -> Event | None:
        """Emit no event at the start and the end of a run: its states have the same information, and each event is 8 rows."""

    async def _start_runner(self) -> None:
        await self._runners.prepare()
        self._publish()

    async def _look_when_rung(self) -> None:
        while True:
            is_reported = await self._bell.rung()
            try:
                scheduled = await self._look()
                for pause in _COMMIT_SECONDS:
                    if scheduled or not is_reported:
                        break
                    # The server emits a run's event before its transaction is committed.
                    await asyncio.sleep(pause)
                    scheduled = await self._look()
            except httpx.HTTPError:
                # The slow poll tries again, and stops the worker if the server stays unreachable.
                self._logger.warning("Looking for runs failed; trying again", exc_info=True)

    async def _adapt(self) -> None:
        """Adapt the number of slots to the load of the machine."""
        while True:
            await asyncio.sleep(READING_SECONDS)
            is_larger = self._occupancy.adapt()
            self._publish()
            if is_larger:
                self._bell.ring()

    async def _find_cancelled(self) -> None:
        """Stop the cancelled runs that no event reported."""
        if not self._live.executed:
            return
        cancelling = {"id": {"any_": list(self._live.executed)}, "state": {"type": {"any_": [StateType.CANCELLING]}}}
        for run in await read_runs(self.client, cancelling):
            self._cancel(run.id)

    def _deployments_changed(self) -> None:
        if self._rounds is not None:
            self._rounds.changed()
        if self.watcher is not None:
            self.watcher.look()

    def _cancel(self, run: UUID) -> None:
        if self._live.cancel(run):
            self._runners.cancel(run)

    async def _until_finished(self, run: UUID, end: asyncio.Future[RunEnd]) -> RunEnd:
        try:
            return await asyncio.shield(end)
        except asyncio.CancelledError:
            # The worker is stopping. Runs that do not stop in time are killed with the runner.
            self._cancel(run)
            with anyio.CancelScope(shield=True), contextlib.suppress(TimeoutError):
                return await asyncio.wait_for(asyncio.shield(end), _STOP_SECONDS)
            return "did not stop when its worker stopped"

    def _publish(self) -> None:
        runners = self._runners
        self._occupancy.publish(self._live.executed, runners.identities, runners.problem, runners.busy_parsers)

    def _duty(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._duties.add(task)
        task.add_done_callback(self._done)

    def _done(self, duty: asyncio.Task[None]) -> None:
        self._duties.discard(duty)
        if not duty.cancelled() and (error := duty.exception()) is not None:
            # The slow poll and the other parts continue without it.
            self._logger.error("A component of the worker failed unexpectedly; restart the worker", exc_info=error)


def _compared(flow_run: FlowRun) -> str | None:
    """Return the source that a run compares with the library; None for other flows, and for a sync by a plan."""
    return None if flow_run.parameters.get("plan") else source_of(flow_run)
