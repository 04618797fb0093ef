"""The next runs of the sources and the pauses of their deployments, as only the server knows them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catchment.errors import TryAgain
from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, host_for
from catchment.runtime.server_report import PlannedRun, ServerReport
from deployments.server.client import Client, api, everything
from deployments.server.environment import POOL
from deployments.server.running import Running, running

RETRIES = ": retries"
"""End of the names of planned retries."""
BACKFILL = ": backfill "
"""Part of the names of runs for a backfill, before its number."""
_SECONDS = 2.0
_SYNCS = {"name": {"like_": "sync-"}}
"""The flows of sources."""
_PAGE = 100
_PAGES = 5
"""Pages read. They lack the next run of a source only if hundreds of other runs are planned before it."""


def read_report(state: Running, source: str | None = None, runs: int = 5) -> ServerReport | None:
    """Return the pauses and the next runs of all sources, or of one; at most so many runs of each.

    Returns None if the server does not answer in time.
    """
    now = datetime.now(UTC)
    named: dict[str, Any] = {} if source is None else {"name": {"any_": [source]}}
    try:
        with api(state, timeout=_SECONDS) as client:
            deployed = everything(client, "deployments", {"flows": _SYNCS, "deployments": named})
            paused = tuple(sorted(deployment["name"] for deployment in deployed if _is_switched_off(deployment)))
            return ServerReport(now, paused, _next_runs(client, named, runs), _on(deployed) if state.server else {})
    except TryAgain:
        return None


def latest_report(home: Home, source: str | None = None, runs: int = 0) -> ServerReport | None:
    """Return a new report as `read_report` does or, if the server does not answer, the last one of the worker; else None.

    The worker's report is up to two minutes old, so it may not show the effect of the last command.
    """
    state = running(home)
    return (read_report(state, source, runs) if state else None) or ServerReport.read(home)


def own_queues(home: Home) -> dict[str, Any]:
    """Return the filter of the runs and deployments that this host may execute; empty in a home that runs alone."""
    host = Membership.of(home)
    return {"work_pool_queues": {"name": {"any_": host.queues}}} if host else {}


def _is_switched_off(deployment: dict[str, Any]) -> bool:
    """Return whether a deployment starts no run by itself: it is paused, or each of its schedules is, and it is not watched."""
    schedules, tags = deployment["schedules"], deployment["tags"]
    is_idle = bool(schedules) and not any(schedule["active"] for schedule in schedules)
    return deployment["paused"] or (is_idle and not any(tag.startswith("watch") for tag in tags))


def _on(deployed: list[dict[str, Any]]) -> dict[str, str]:
    return {deployment["name"]: host_for(str(deployment["work_queue_name"])) for deployment in deployed}


def _next_runs(client: Client, named: dict[str, Any], most: int) -> dict[str, tuple[PlannedRun, ...]]:
    query = {
        "flow_runs": {"state": {"type": {"any_": ["SCHEDULED"]}}},
        "work_pools": {"name": {"any_": [POOL]}},
        "flows": _SYNCS,
        "deployments": named,
        "sort": "EXPECTED_START_TIME_ASC",
        "limit": most if named else _PAGE,
    }
    soonest: dict[str, tuple[PlannedRun, ...]] = {}
    for page in range((1 if named else _PAGES) if most else 0):
        rows = client.post("/flow_runs/filter", json={**query, "offset": page * _PAGE}).raise_for_status().json()
        for run in rows:
            name = str(run["parameters"].get("name", ""))
            soonest[name] = (*soonest.get(name, ()), _planned(run))[:most]
        if len(rows) < _PAGE:
            break
    return soonest


def _planned(run: dict[str, Any]) -> PlannedRun:
    why = "schedule" if run["auto_scheduled"] else "retry" if run["name"].endswith(RETRIES) else "asked for"
    return PlannedRun(datetime.fromisoformat(run["expected_start_time"]), why)
