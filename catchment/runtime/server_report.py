"""The server's plans for the sources, in a file that can be read without Prefect and while the server is down.

The worker writes it. Only the server knows the next runs, and the pauses that were set in the Prefect UI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from catchment.runtime.reports import ProcessReport


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A scheduled run, at an aware time. `why` is "schedule", "retry" (of items) or "asked for"."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class ServerReport(ProcessReport):
    """The answer of the server at the time `at`.

    Attributes:
        paused: Sources with a deployment that is switched off in Prefect.
        runs: The next runs of each source that has any, soonest first.
        on: The host on which each source runs, or "any"; empty in a home that runs alone.
    """

    file: ClassVar = "server.json"
    at: datetime
    paused: tuple[str, ...] = ()
    runs: Mapping[str, tuple[PlannedRun, ...]] = field(default_factory=dict)
    on: Mapping[str, str] = field(default_factory=dict)

    def coming(self, source: str, now: datetime) -> list[PlannedRun]:
        """Return the next runs of a source, except runs that became due since the report."""
        return [run for run in self.runs.get(source, ()) if run.at > now or run.at <= self.at]
