"""The environment of a benchmark: a folder, and a separate system (server, worker) with its processes by role."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from benchmarks.notes import generate
from catchment.settings import Home
from console import session
from deployments.actions import sources
from deployments.actions.sources import NewSource
from deployments.runs.runs import start_sync, wait
from deployments.server.running import Running, running
from deployments.sources.entries import Timing
from deployments.supervisor.supervisor import down, up

BUILD = Path("build").absolute()
"""The folder for the work and the results of benchmarks."""


@contextmanager
def empty(name: str) -> Iterator[Path]:
    """Create an empty folder on the project's disk, deleting the leftovers of an interrupted benchmark."""
    place = BUILD / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    yield place
    shutil.rmtree(place)


@contextmanager
def started(home: Home) -> Iterator[Running]:
    """Run the system of a home for the duration of the block, also on SIGTERM or SIGHUP. Main thread only."""
    os.environ["CATCHMENT_HOME"] = str(home.path)
    before = {number: signal.signal(number, _exit) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        up(home, detach=True, announce=print)
        yield state_of(home)
    finally:
        down(home)
        for number, handler in before.items():
            signal.signal(number, handler)


def _exit(number: int, _frame: object) -> None:
    """Exit as after an error. A second signal must not interrupt the shutdown of the system."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def state_of(home: Home) -> Running:
    """Return the running system of a home. Raises SystemExit if it is not running."""
    state = running(home)
    if state is None:
        raise SystemExit("the system has ended; its logs say why")
    return state


def add_vault(home: Home, folder: Path, name: str, notes: int, *, watch: bool) -> None:
    """Add a vault of this number of notes as a source, and sync it."""
    generate(folder, notes)
    sources.add(session.desk(), NewSource("obsidian", str(folder), name, timing=Timing(watch=watch)), "benchmark")
    state = state_of(home)
    wait(state, start_sync(state, "obsidian", name))


_NAMES = frozenset({"server", "worker", "reclaim", "runner", "web"})


def by_role(state: Running) -> dict[psutil.Process, str]:
    """Return the processes of a system with their roles."""
    supervisor = psutil.Process(state.pid)
    roles = {supervisor: "supervisor"}
    for process in supervisor.children(recursive=True):
        # A process may exit meanwhile.
        with suppress(psutil.NoSuchProcess):
            if (name := process.name()) in _NAMES:
                roles[process] = name
    return roles


def own_mb(process: psutil.Process) -> float:
    """PSS of a process in MB (shared pages counted in parts)."""
    return float(process.memory_full_info().pss) / 1e6
