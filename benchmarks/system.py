"""Where a benchmark works: a folder, and a whole system of its own (server, worker), its processes by role."""

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
from console.sources.consent import agreement
from console.sources.source_lifecycle import Timing, commit, prepare
from deployments.runs.runs import start_sync, wait
from deployments.server.running import Running, running
from deployments.supervisor.supervisor import down, up

BUILD = Path("build").absolute()
"""Where a benchmark works and leaves its figures."""


@contextmanager
def empty(name: str) -> Iterator[Path]:
    """A new folder on the disk of the project; what a benchmark that was stopped has left of it goes."""
    place = BUILD / name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    yield place
    shutil.rmtree(place)


@contextmanager
def started(home: Home) -> Iterator[Running]:
    """The system of a home, up until the block ends, also by SIGTERM or SIGHUP. Main thread only."""
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
    """Leave as after an error; a second signal must not keep the system from being stopped."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def state_of(home: Home) -> Running:
    """What runs for a home. Raises SystemExit when nothing does."""
    state = running(home)
    if state is None:
        raise SystemExit("the system has ended; its logs say why")
    return state


def add_vault(home: Home, folder: Path, name: str, notes: int, *, watch: bool) -> None:
    """Add a vault of so many notes as a source, and bring it in."""
    generate(folder, notes)
    entry = prepare("obsidian", str(folder), name, {}, Timing(watch=watch))
    commit(entry, agreement(entry, given=True))
    state = state_of(home)
    wait(state, start_sync(state, "obsidian", name))


_NAMES = frozenset({"server", "worker", "reclaim", "runner"})


def by_role(state: Running) -> dict[psutil.Process, str]:
    """The processes of a system, by their names."""
    supervisor = psutil.Process(state.pid)
    roles = {supervisor: "supervisor"}
    for process in supervisor.children(recursive=True):
        # A run may end meanwhile.
        with suppress(psutil.NoSuchProcess):
            if (name := process.name()) in _NAMES:
                roles[process] = name
    return roles


def own_mb(process: psutil.Process) -> float:
    """Megabytes that a process has for itself, shared pages counted in parts."""
    return float(process.memory_full_info().pss) / 1e6
