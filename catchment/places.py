"""The worker's status file: the live runs and their runner, the limit of runs, and how many runs wait.

`status`, `health` and `doctor` show it. The worker itself never reads it, so nothing depends on whether it can be written.
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
class Places:
    """What the worker last reported. `worker` is its process identity, `at` aware UTC; `cpu` and `memory` go from 0 to 1.

    `limit` is how many runs may live at once now, `cap` the most that may ever; `cpu` is how busy the machine is with work
    of ordinary priority. `waiting` counts runs that are due and lack nothing but a place. `runner` is the process identity of
    the runner that executes `runs`.
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

    @property
    def running(self) -> int:
        """How many runs live."""
        return len(self.runs)

    def is_current(self, now: datetime) -> bool:
        """Whether the worker wrote this lately. It does so every ten seconds, unless the disk is full."""
        return abs(now - self.at) < _STALE

    @classmethod
    def read(cls, home: Home) -> Places | None:
        """What the living worker of this home last reported; None without a living one. Takes 0.1 ms."""
        try:
            fields = json.loads(_file(home).read_bytes())
            places = cls(**{**fields, "at": datetime.fromisoformat(fields["at"]), "runs": tuple(fields["runs"])})
            return places if alive(places.worker) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # A file of another version, or one that a power cut left empty.
            return None

    def write(self, home: Home) -> None:
        """Replace the last report; a reader sees either the old or the new. Not flushed to the disk."""
        path = _file(home)
        new = path.with_suffix(".new")
        with open(new, "w", encoding="utf-8", opener=_for_the_owner) as file:
            json.dump(asdict(self) | {"at": self.at.astimezone(UTC).isoformat()}, file)
        new.replace(path)


def _file(home: Home) -> Path:
    return home.run / "worker.json"


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
