"""The worker's status file: the live runs and their runner, the limit of runs, and how many runs wait.

`status` shows it. Recovery, `down` and `doctor` take a run that it does not list for dead.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from catchment.runtime.home import Home
from catchment.runtime.process import alive


@dataclass(frozen=True, slots=True)
class Places:
    """What the worker last said. `worker` is its process identity, `at` aware UTC; `cpu` and `memory` go from 0 to 1.

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
    running: int
    waiting: int
    runner: str | None = None
    runs: tuple[str, ...] = ()

    @classmethod
    def read(cls, home: Home) -> Places | None:
        """What the living worker of this home last said; None when none lives. Takes 0.1 ms."""
        try:
            fields = json.loads(_file(home).read_bytes())
            places = cls(**{**fields, "at": datetime.fromisoformat(fields["at"]), "runs": tuple(fields["runs"])})
            return places if alive(places.worker) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # A file of another version, or one that a power cut left empty.
            return None

    def write(self, home: Home) -> None:
        """Replace what was said before; a reader sees either the old or the new. Not flushed to the disk."""
        path = _file(home)
        new = path.with_suffix(".new")
        with open(new, "w", encoding="utf-8", opener=_for_the_owner) as file:
            json.dump(asdict(self) | {"at": self.at.astimezone(UTC).isoformat()}, file)
        new.replace(path)


def live_runs(home: Home) -> frozenset[str]:
    """The flow runs that the worker of this home executes; none if the worker or its runner is gone."""
    places = Places.read(home)
    if places is None or places.runner is None or not alive(places.runner):
        return frozenset()
    return frozenset(places.runs)


def _file(home: Home) -> Path:
    return home.run / "worker.json"


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
