"""The worker's status file: live runs and their runner, the concurrency limit, and the number of waiting runs.

`status`, `health` and `doctor` display it. The worker never reads it back, so it works even if the file cannot be written.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from catchment.runtime.home import Home
from catchment.runtime.process import alive

_STALE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The worker's latest report.

    Attributes:
        worker: Identity of the worker process.
        at: Time of the report, aware UTC.
        limit: Current maximum of concurrent runs.
        cap: Upper bound of `limit`.
        cpu, memory: Load of the machine, 0 to 1. `cpu` excludes low-priority (niced) processes.
        waiting: Number of due runs that lack only a run slot.
        runner: Identity of the process that executes `runs`.
        problem: Why the runner is restarted ever more slowly; empty if it is not.
        busy_parsers: Number of parser processes that work.
    """

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

    @property
    def running(self) -> int:
        """Number of live runs."""
        return len(self.runs)

    def is_current(self, now: datetime) -> bool:
        """Return whether the report is recent. The worker writes one every ten seconds unless the disk is full."""
        return abs(now - self.at) < _STALE

    @classmethod
    def read(cls, home: Home) -> WorkerStatus | None:
        """Return the latest report, or None if no worker is alive. Takes 0.1 ms."""
        try:
            fields = json.loads(_path(home).read_bytes())
            status = cls(**{**fields, "at": datetime.fromisoformat(fields["at"]), "runs": tuple(fields["runs"])})
            return status if alive(status.worker) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Written by another version, or truncated by a power cut.
            return None

    def write(self, home: Home) -> None:
        """Replace the report atomically. Not flushed to disk."""
        path = _path(home)
        temporary = path.with_suffix(".new")
        with open(temporary, "w", encoding="utf-8", opener=_private) as file:
            json.dump(asdict(self) | {"at": self.at.astimezone(UTC).isoformat()}, file)
        temporary.replace(path)


def _path(home: Home) -> Path:
    return home.run / "worker.json"


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
