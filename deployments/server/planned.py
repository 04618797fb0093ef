"""The next run of each source, as scheduled on the server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from catchment.errors import TryAgain
from deployments.server.client import api
from deployments.server.environment import POOL
from deployments.server.running import Running

_SECONDS = 2.0
_PAGE = 100
_PAGES = 5
"""Pages read. A source whose next run is after these has none here; that takes hundreds of earlier runs."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A scheduled run, at an aware time. `why` is "schedule", "retry" (of items) or "asked for"."""

    source: str
    at: datetime
    why: str

    def as_json(self) -> dict[str, Any]:
        """The fields in JSON output, except the source."""
        return {"at": self.at, "why": self.why}


def planned(state: Running, name: str, most: int) -> list[PlannedRun] | None:
    """Return the next runs of a source, at most `most`, soonest first; None if the server does not answer in time."""
    found = _ask(state, {"deployments": {"name": {"any_": [name]}}, "limit": most})
    return None if found is None else [_planned(run) for run in found]


def next_runs(state: Running) -> dict[str, PlannedRun] | None:
    """Return the next run of each source that has one; None if the server does not answer in time."""
    soonest: dict[str, PlannedRun] = {}
    for page in range(_PAGES):
        found = _ask(state, {"limit": _PAGE, "offset": page * _PAGE})
        if found is None:
            return None
        for run in map(_planned, found):
            soonest.setdefault(run.source, run)
        if len(found) < _PAGE:
            break
    return soonest


def _ask(state: Running, which: dict[str, Any]) -> list[dict[str, Any]] | None:
    query = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "work_pools": {"name": {"any_": [POOL]}},
        "sort": "EXPECTED_START_TIME_ASC",
        **which,
    }
    try:
        with api(state, timeout=_SECONDS) as client:
            found: list[dict[str, Any]] = client.post("/flow_runs/filter", json=query).raise_for_status().json()
    except TryAgain:
        return None
    return found


def _planned(run: dict[str, Any]) -> PlannedRun:
    name = str(run["parameters"].get("name", ""))
    why = "schedule" if run["auto_scheduled"] else "retry" if run["name"].endswith(": retries") else "asked for"
    return PlannedRun(name, datetime.fromisoformat(run["expected_start_time"]), why)
