"""The run slots of a worker: how many there are, which run gets the next one, and how many runs wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psutil
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun, WorkPool
from prefect.client.schemas.responses import WorkerFlowRunResponse
from prefect.exceptions import ObjectNotFound

from catchment.runtime.home import Home
from catchment.runtime.installation import OURS
from catchment.runtime.process import identity
from catchment.runtime.worker_status import WorkerStatus
from deployments.runs.admission import Limit, MachineReading, WaitingRun, admit
from deployments.sources.profile import Profile, profile
from tasks.flow_runs import read_runs
from tasks.run_states import AWAITING_SLOT

RUNS_AT_ONCE = 16
"""The default cap. Runs share one process and its CPU use, so one more run costs only the memory of its batch."""
READING_SECONDS = 2.0
_PUBLISH_SECONDS = 10.0
"""Maximum age of the published status while it does not change."""
_SUSPECTS = "suspects"
"""The kind of all runs that may have caused the loss of a runner, independent of their connectors."""


class Occupancy:
    """The run slots of one worker. `home`: where to write the status file (`WorkerStatus`); None writes none.

    `most`: the limit that the worker was started with; by default the limit of its pool, else `RUNS_AT_ONCE`. Runs of sources
    for which `is_suspect` is true start one at a time.
    """

    def __init__(
        self, most: int | None, home: Home | None, is_suspect: Callable[[str], bool], say: Callable[[str], None]
    ) -> None:
        self._most = most
        self._home = home.make() if home is not None else None
        self._is_suspect = is_suspect
        self._say = say
        self._worker = identity()
        # The first reading measures from here.
        psutil.cpu_times_percent(None)
        self._limit = Limit(most or RUNS_AT_ONCE)
        self._reading = MachineReading(0.0, 0.0, 0.0)
        self._flows: dict[UUID, str] = {}
        self._variables: dict[UUID, Mapping[str, Any]] = {}
        self._runs: dict[UUID, tuple[Profile, UUID | None]] = {}
        """The profile and the deployment of each run that is due or lives."""
        self.has_waiting = False
        """Whether a run was due and got no slot at the last choice."""
        self._lacking: list[FlowRun] = []
        self._published: WorkerStatus | None = None

    async def choose(
        self,
        scheduled: Sequence[WorkerFlowRunResponse],
        live: Set[UUID],
        pool: WorkPool,
        client: PrefectClient,
    ) -> list[WorkerFlowRunResponse]:
        """Return the due runs that get a slot now. `live` are the runs that have one."""
        self._limit.set_cap(min(filter(None, (self._most, pool.concurrency_limit)), default=RUNS_AT_ONCE))
        due = [entry for entry in scheduled if entry.flow_run.id not in live]
        for entry in due:
            run = entry.flow_run
            self._runs[run.id] = await self._profile(run, pool, client), run.deployment_id
        present = {*live, *(entry.flow_run.id for entry in due)}
        self._runs = {run: facts for run, facts in self._runs.items() if run in present}
        lines = [WaitingRun(entry, due_at(entry.flow_run), self._runs[entry.flow_run.id][0]) for entry in due]
        having = [self._runs[run][0] for run in live if run in self._runs]
        chosen = [line.run for line in admit(lines, having, self._limit)]
        waiting = [entry.flow_run for entry in due if entry not in chosen]
        self.has_waiting = bool(waiting)
        if pool.concurrency_limit is not None and len(live) + len(chosen) >= pool.concurrency_limit:
            # The server withholds the runs that exceed the pool's limit.
            overdue = {
                "state": {"type": {"any_": ["SCHEDULED"]}},
                "expected_start_time": {"before_": datetime.now(UTC)},
            }
            waiting = await read_runs(client, overdue, pool=pool.name)
        began = {*live, *(entry.flow_run.id for entry in chosen)}
        busy = {self._runs[run][1] for run in began if run in self._runs}
        self._lacking = [run for run in waiting if run.id not in began and not _waits_for_itself(run, busy)]
        return chosen

    def learn(self, run: FlowRun, variables: Mapping[str, Any]) -> None:
        """Store the current job variables of the run's deployment, for its next run."""
        if run.deployment_id is not None:
            self._variables[run.deployment_id] = variables

    def publish(self, live: Set[UUID], runners: Mapping[str, str], problem: str = "", busy_parsers: int = 0) -> None:
        """Publish the live runs, the runners by package, why one is restarted ever more slowly, and their busy parsers."""
        if self._home is None:
            return
        status = WorkerStatus(
            self._worker,
            datetime.now(UTC),
            self._limit.now,
            self._limit.cap,
            round(self._reading.cpu, 2),
            round(self._reading.memory, 2),
            len(self._lacking),
            runners.get(OURS),
            tuple(sorted(map(str, live))),
            problem,
            busy_parsers,
            tuple(sorted({source for run in self._lacking if (source := source_of(run))})),
            tuple(identity for package, identity in runners.items() if package != OURS),
        )
        # The disk may be full; the next reading, two seconds later, tries again.
        is_news = self._published is None or _differ(status, self._published)
        if is_news and status.write(self._home):
            self._published = status

    def adapt(self) -> bool:
        """Take a reading of the machine, every `READING_SECONDS`. Returns whether the number of slots has grown."""
        self._reading = _reading()
        before = self._limit.now
        if self._limit.heed(self._reading):
            self._say(
                f"Runs at once: {self._limit.now} of {self._limit.cap} "
                f"(processor {self._reading.cpu:.0%}, memory {self._reading.memory:.0%})"
            )
        return self._limit.now > before

    async def _profile(self, run: FlowRun, pool: WorkPool, client: PrefectClient) -> Profile:
        try:
            if run.flow_id not in self._flows:
                self._flows[run.flow_id] = (await client.read_flow(run.flow_id)).name
            if run.deployment_id is not None and run.deployment_id not in self._variables:
                self.learn(run, (await client.read_deployment(run.deployment_id)).job_variables)
        except ObjectNotFound:
            # It was deleted meanwhile, which its submission reports.
            return Profile("")
        of_deployment = self._variables[run.deployment_id] if run.deployment_id is not None else {}
        variables = {**_defaults(pool), **of_deployment, **(run.job_variables or {})}
        profile_of_flow = profile(self._flows[run.flow_id], run.parameters, variables)
        if (source := source_of(run)) is not None and self._is_suspect(source):
            return replace(profile_of_flow, kind=_SUSPECTS, at_once=1)
        return profile_of_flow


def source_of(run: FlowRun) -> str | None:
    """Return the source that a run syncs; None for other flows."""
    name = run.parameters.get("name")
    return name if isinstance(name, str) else None


def due_at(run: FlowRun) -> datetime:
    """Return the time at which a run is due."""
    return run.next_scheduled_start_time or run.expected_start_time or datetime.now(UTC)


def _waits_for_itself(run: FlowRun, busy: Set[UUID | None]) -> bool:
    """Whether a run waits for another run of its deployment, so that a free slot would not help it."""
    at_the_server = run.state is not None and run.state.name == AWAITING_SLOT.name
    return at_the_server or (run.deployment_id is not None and run.deployment_id in busy)


def _defaults(pool: WorkPool) -> dict[str, Any]:
    declared = pool.base_job_template.get("variables", {}).get("properties", {})
    return {name: field["default"] for name, field in declared.items() if field.get("default") is not None}


def _differ(now: WorkerStatus, published: WorkerStatus) -> bool:
    is_old = (now.at - published.at).total_seconds() > _PUBLISH_SECONDS
    volatile = {name: getattr(published, name) for name in ("at", "cpu", "memory", "busy_parsers")}
    return is_old or replace(now, **volatile) != published


def _reading() -> MachineReading:
    """Return the load of the machine since the last reading. Takes 0.1 ms.

    Low-priority work does not count: the runner and its parsers have a low priority, so syncs do not slow each other down.
    """
    cpu = psutil.cpu_times_percent(None)
    idle = cpu.idle + cpu.nice + getattr(cpu, "iowait", 0.0)
    return MachineReading(time.monotonic(), max(0.0, 1 - idle / 100), psutil.virtual_memory().percent / 100)
