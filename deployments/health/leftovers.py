"""Leftovers of a crash: files, processes, and runs and concurrency slots in Prefect. Finds them, and removes some."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil

from catchment.runtime.home import Home
from catchment.runtime.membership import Membership, executes
from catchment.runtime.watch_status import WatchReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition
from deployments.server.client import Client, api, everything
from deployments.server.environment import POOL
from deployments.server.running import Running, running, starting, state_file
from tasks.run_states import ACTIVE, AWAITING_RETRY

_STILL_FOR = timedelta(minutes=1)
"""After this time in its state, a run without a process is neither starting nor just finished."""

_MEND = "catchment check --mend"
_SLOT = "deployment:"
_OURS = ("deployments.",)
"""Prefixes of the modules that run as our processes."""


def files(home: Home) -> Condition:
    """Whether `run` has files of processes that no longer exist."""
    if stale := _stale(home):
        problem = f"{', '.join(path.name for path in stale)}: left by a process that has exited; harmless"
        return Condition("locks", WARN, problem, _MEND)
    return Condition("locks", OK, "no locks or files of exited processes")


def remove_files(home: Home) -> None:
    """Remove the files of processes that no longer exist. Idempotent."""
    for path in _stale(home):
        path.unlink(missing_ok=True)


def _stale(home: Home) -> list[Path]:
    if starting(home) is not None:
        return []
    recorded = {
        state_file(home): running(home),
        **{kind.path(home): kind.read(home) for kind in (WatchReport, WorkerStatus)},
    }
    return [path for path, state in recorded.items() if state is None and path.exists()]


def processes(home: Home, pids: Iterable[int]) -> Condition:
    """Whether processes of this home remain while Catchment is not running. `pids` are the processes of this home."""
    left = sorted(pids)
    if running(home) is not None or not left:
        return Condition("processes", OK, "none left over")
    kill = f"kill {' '.join(map(str, left))}"
    if starting(home) is not None:
        problem = "Catchment is starting, or hangs during the start"
        return Condition("processes", WARN, problem, f"wait two minutes; if nothing happens: {kill}")
    return Condition("processes", WARN, f"{len(left)} still running although Catchment is stopped", kill)


def by_home() -> dict[Path, list[int]]:
    """The pids of this user's Catchment processes (supervisors, servers, workers and runners), by home."""
    processes: dict[Path, list[int]] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            home = process.environ().get("CATCHMENT_HOME")
            if home and process.pid != os.getpid() and any(word.startswith(_OURS) for word in process.cmdline()):
                processes.setdefault(Path(home), []).append(process.pid)
    return processes


def in_prefect(home: Home, state: Running) -> list[Condition]:
    """Whether the server counts runs without a process, or slots without a run. Raises TryAgain."""
    with api(state) as client:
        active, leaks = _active(client, home), _leaks(client)
    conditions = [_runs(WorkerStatus.read(home), active)]
    if leaks:
        slots = "slot is" if len(leaks) == 1 else "slots are"
        problem = f"{len(leaks)} concurrency {slots} held by no run; runs that need them never start"
        conditions.append(Condition("slots", FAIL, problem, _MEND))
    else:
        conditions.append(Condition("slots", OK, "no leaked concurrency slots"))
    return conditions


def release_slots(state: Running) -> None:
    """Release the concurrency slots that no run holds. Idempotent. Raises TryAgain."""
    with api(state) as client:
        for number, used in _leaks(client).items():
            client.patch(f"/v2/concurrency_limits/{number}", json={"active_slots": used}).raise_for_status()


def _runs(worker: WorkerStatus | None, active: list[dict[str, Any]]) -> Condition:
    """Whether the worker executes every run that the server has counted as active for a minute."""
    now = datetime.now(UTC)
    if worker is not None and not worker.is_current(now):
        problem = "the worker cannot record which runs it executes, so dead runs are not detected"
        return Condition("runs", WARN, problem, "make room on the disk of the home folder")
    executing = worker.runs if worker is not None else ()
    lost = Counter(
        run["state_name"]
        for run in active
        if run["id"] not in executing and now - datetime.fromisoformat(run["state"]["timestamp"]) > _STILL_FOR
    )
    if not lost:
        return Condition("runs", OK, "the worker executes all active runs")
    problem = f"no worker executes {', '.join(f'{number} {name}' for name, number in lost.items())}"
    restart = "wait a minute for the worker to correct them; otherwise: catchment down && catchment up --detach"
    return Condition("runs", FAIL, problem, restart)


def _active(client: Client, home: Home) -> list[dict[str, Any]]:
    waiting = {"operator": "or_", "type": {"any_": ACTIVE}, "name": {"any_": [AWAITING_RETRY.name]}}
    query = {"flow_runs": {"state": waiting}, "work_pools": {"name": {"any_": [POOL]}}}
    runs, host = everything(client, "flow_runs", query), Membership.of(home)
    return [run for run in runs if not host or executes(host.name, run["work_queue_name"], run["labels"])]


def _leaks(client: Client) -> dict[str, int]:
    """The limits with too many slots in two counts: a run may finish between the two requests of one count."""
    first, second = _counted(client), _counted(client)
    return {number: used for number, used in second.items() if number in first}


def _counted(client: Client) -> dict[str, int]:
    """The limits with more slots than active runs, by ID, and the number of these runs."""
    limits = [limit for limit in everything(client, "v2/concurrency_limits", {}) if limit["name"].startswith(_SLOT)]
    active = everything(client, "flow_runs", {"flow_runs": {"state": {"type": {"any_": ACTIVE}}}})
    runs = Counter(run["deployment_id"] for run in active)
    return {
        limit["id"]: used
        for limit in limits
        if limit["active_slots"] > (used := runs[limit["name"].removeprefix(_SLOT)])
    }
