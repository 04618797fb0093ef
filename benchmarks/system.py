"""A whole system of its own: server, worker and watcher, with sources of generated notes; and its processes by role."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.notes import generate
from catchment.settings import Home
from console.adding import Timing, commit, prepare
from deployments.runs import start_sync, wait
from deployments.server import Running, running
from deployments.supervisor import down, up


@contextmanager
def started(place: Path) -> Iterator[Home]:
    """A home in an empty folder, up until the end; the folder is removed then."""
    shutil.rmtree(place, ignore_errors=True)
    home = Home(place / "home")
    os.environ["CATCHMENT_HOME"] = str(home.path)
    up(home, detach=True, announce=print)
    try:
        yield home
    finally:
        down(home)
        shutil.rmtree(place)


def state_of(home: Home) -> Running:
    """What runs for a home. Raises SystemExit when nothing does."""
    state = running(home)
    if state is None:
        raise SystemExit("the system has ended; its logs say why")
    return state


def add_vault(home: Home, folder: Path, name: str, notes: int, *, watch: bool) -> None:
    """Add a vault of so many notes as a source, and bring it in."""
    generate(folder, notes)
    commit(prepare("obsidian", str(folder), name, {}, Timing(watch=watch)))
    state = state_of(home)
    wait(state, start_sync(state, "obsidian", name))


def by_role(state: Running) -> dict[psutil.Process, str]:
    """The processes of a system, each with what it is for; those of a run are `run`."""
    supervisor = psutil.Process(state.pid)
    roles = {supervisor: "supervisor"}
    for process in supervisor.children(recursive=True):
        words = process.cmdline()
        if "PREFECT__FLOW_RUN_ID" in process.environ() and "deployments.warm.forge" not in words:
            roles[process] = "run"
        elif "deployments.warm.forge" in words:
            roles[process] = "fork server" if process.parent() in roles else "run"
        elif "deployments.child" in words:
            roles[process] = words[words.index("deployments.child") + 1]
    return roles


def own_mb(process: psutil.Process) -> float:
    """Megabytes that a process has for itself, shared pages counted in parts."""
    return float(process.memory_full_info().pss) / 1e6
