"""The worker's status file: live runs and their runner, the concurrency limit, and the number of waiting runs.

`status` and `check` display it. The worker never reads it back, so it works even if the file cannot be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from catchment.runtime.process import alive
from catchment.runtime.reports import ProcessReport

_STALE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class WorkerStatus(ProcessReport):
    """The worker's latest report.

    Attributes:
        worker: Identity of the worker process.
        at: Time of the report, aware UTC.
        limit: Current maximum of concurrent runs.
        cap: Upper bound of `limit`.
        cpu, memory: Load of the machine, 0 to 1. `cpu` excludes low-priority (niced) processes.
        waiting: Number of due runs that lack only a run slot.
        runner: Identity of the process that executes `runs`, except those of kinds of source of other packages.
        problem: Why a runner is restarted ever more slowly; empty if it is not.
        busy_parsers: Number of parser processes that work.
        lacking: The sources with a run that lacks only a run slot.
        package_runners: Identities of the processes that execute the runs of other packages.
    """

    file: ClassVar = "worker.json"
    worker: str
    at: datetime
    limit: int
    cap: int
    cpu: float
    memory: float
    waiting: int
    runner: str | None = None
    runs: tuple[str, ...] = ()
    problem: str = ""
    busy_parsers: int = 0
    lacking: tuple[str, ...] = ()
    package_runners: tuple[str, ...] = ()

    @property
    def running(self) -> int:
        """Number of live runs."""
        return len(self.runs)

    def is_current(self, now: datetime) -> bool:
        """Return whether the report is recent. The worker writes one every ten seconds unless the disk is full."""
        return abs(now - self.at) < _STALE

    @property
    def is_valid(self) -> bool:
        """Whether the worker is alive."""
        return alive(self.worker)
