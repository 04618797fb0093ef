"""The server's plans for the sources, in a file that can be read without Prefect and while the server is down.

The worker writes it. Only the server knows the next runs, and the pauses that were set in the Prefect UI.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime

from catchment.runtime import atomic_files
from catchment.runtime.home import Home

_FILE = "server.json"
SWITCHED_OFF = "switched off in Prefect"
"""The reason of a pause that was set in the Prefect UI, not by a command."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A scheduled run, at an aware time. `why` is "schedule", "retry" (of items) or "asked for"."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class ServerReport:
    """The answer of the server at the time `at`.

    Attributes:
        paused: Sources whose deployment is switched off in Prefect.
        runs: The next runs of each source that has any, soonest first.
        on: The host on which each source runs, or "any"; empty in a home that runs alone.
    """

    at: datetime
    paused: tuple[str, ...] = ()
    runs: Mapping[str, tuple[PlannedRun, ...]] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)

    def coming(self, source: str, now: datetime) -> list[PlannedRun]:
        """Return the next runs of a source, without those that came due since the report."""
        return [run for run in self.runs.get(source, ()) if run.at > now or run.at <= self.at]

    @classmethod
    def read(cls, home: Home) -> ServerReport | None:
        """Return the latest report, of any age; None without one."""
        try:
            fields = json.loads((home.run / _FILE).read_bytes())
            runs = {name: tuple(map(_run, rows)) for name, rows in fields["runs"].items()}
            return cls(datetime.fromisoformat(fields["at"]), tuple(fields["paused"]), runs, fields["on"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            # Written by another version.
            return None

    def write(self, home: Home) -> None:
        """Replace the report. A full disk is ignored: the report ages until the next one."""
        with suppress(OSError):
            atomic_files.write(home.run / _FILE, json.dumps(asdict(self), default=datetime.isoformat).encode())


def _run(fields: Mapping[str, str]) -> PlannedRun:
    return PlannedRun(datetime.fromisoformat(fields["at"]), fields["why"])
