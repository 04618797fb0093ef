"""What only the server knows of the sources: their next runs, and which of their deployments are paused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from deployments.server.client import Client, api
from deployments.server.environment import POOL
from deployments.server.running import Running, running

_SECONDS = 2.0
_PAGE = 100
_PAGES = 5
"""Pages read. A source whose next run is after these has none here; that takes hundreds of earlier runs."""


def ask(state: Running, source: str | None = None, runs: int = 5) -> ServerReport | None:
    """Return the pauses and the next runs of all sources, or of one; at most so many runs of each.

    Returns None if the server does not answer in time.
    """
    now = datetime.now(UTC)
    which = {"tags": {"all_": ["source"]}} if source is None else {"name": {"any_": [source]}}
    try:
        with api(state, timeout=_SECONDS) as client:
            return ServerReport(now, _paused(client, which), _next_runs(client, which, source, runs))
    except TryAgain:
        return None


def latest(home: Home, source: str | None = None, runs: int = 0) -> ServerReport | None:
    """Return what the server says now, as `ask`; without an answer, what it last told the worker, or None.

    The report of the worker is up to a minute old, so it may not show the effect of the last command.
    """
    state = running(home)
    return (ask(state, source, runs) if state else None) or ServerReport.read(home)


def _paused(client: Client, which: dict[str, Any]) -> tuple[str, ...]:
    query = {"deployments": {**which, "paused": {"eq_": True}}}
    found = client.post("/deployments/filter", json=query).raise_for_status().json()
    return tuple(sorted(one["name"] for one in found))


def _next_runs(
    client: Client, which: dict[str, Any], source: str | None, most: int
) -> dict[str, tuple[PlannedRun, ...]]:
    query = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "work_pools": {"name": {"any_": [POOL]}},
        "deployments": which,
        "sort": "EXPECTED_START_TIME_ASC",
        "limit": _PAGE if source is None else most,
    }
    soonest: dict[str, tuple[PlannedRun, ...]] = {}
    for page in range((_PAGES if source is None else 1) if most else 0):
        found = client.post("/flow_runs/filter", json={**query, "offset": page * _PAGE}).raise_for_status().json()
        for run in found:
            name = str(run["parameters"].get("name", ""))
            soonest[name] = (*soonest.get(name, ()), _planned(run))[:most]
        if len(found) < _PAGE:
            break
    return soonest


def _planned(run: dict[str, Any]) -> PlannedRun:
    why = "schedule" if run["auto_scheduled"] else "retry" if run["name"].endswith(": retries") else "asked for"
    return PlannedRun(datetime.fromisoformat(run["expected_start_time"]), why)
