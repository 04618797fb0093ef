"""Accidents: a sync that is caught in the middle, the processes it consists of, their end, and a machine that starts anew."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psutil

from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.runtime.home import Home
from catchment.runtime.process import identity, pid_of
from catchment.worker_status import WorkerStatus
from deployments.supervisor.processes import descendants
from tests.acceptance.person import PROJECT, Person
from tests.waiting import until

UNHURRIED = {"PYTHONPATH": str(PROJECT / "tests" / "unhurried")}
"""Set for a system in which the sync of a source whose preset is `local` is caught in the middle however small it is."""


def in_the_middle(person: Person, name: str, vault: Path, notes: int, *how: str) -> None:
    """Return in the middle of the first sync of a source: some of its notes are in the library, and some are not."""
    person("sources", "add", "obsidian", vault, "--name", name, *how).ok()
    person("sync", name).ok()
    assert until(lambda: brought_in(person, name)) < notes


def brought_in(person: Person, name: str) -> int:
    """How many notes of a source are in the library, asked without a command, which takes its time."""
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        return ledger.queue.counts()[name].get(JobState.SUCCEEDED, 0)


def saved_and_found(person: Person, vault: Path) -> None:
    """A note that is saved now is found soon, once."""
    word = f"zq{uuid4().hex}"
    note = next(vault.rglob("*.md"))
    draft = note.with_name(f".{note.name}.tmp")
    draft.write_text(f"{note.read_text()}\n{word}\n")
    draft.replace(note)
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        until(lambda: len(ledger.library.search(word)), lambda hits: hits == 1)


def executing(person: Person, name: str) -> list[psutil.Process]:
    """The runner that executes the run of a source, and the processes below it."""
    (run,) = [run for run in person.runs_of(name) if run["state_type"] == "RUNNING"]
    home = Home(person.home)
    places = until(lambda: WorkerStatus.read(home), lambda found: found is not None and run["id"] in found.runs)
    assert places is not None and places.runner is not None
    runner = psutil.Process(pid_of(places.runner))
    return [runner, *descendants(runner.pid)]


def parsers(person: Person, name: str) -> list[psutil.Process]:
    """The parser processes of the runner: those below its fork server."""
    runner, *below = executing(person, name)
    found = [process for process in below if process.ppid() != runner.pid]
    assert found
    return found


def kill(process: psutil.Process) -> None:
    """End a process at once, if it has not ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def reboot(person: Person) -> None:
    """Let every process that the home knows be one of an earlier boot, whose pid and start another one has by now."""
    this = identity()
    earlier = f"{'0' * len(this.partition(':')[0])}:{this.partition(':')[2]}"
    with closing(sqlite3.connect(person.home / "ledger.db")) as ledger, ledger:
        # Between two batches no job has an owner.
        ledger.execute("UPDATE jobs SET owner = ? WHERE owner IS NOT NULL", (earlier,))
        assert ledger.execute("UPDATE syncs SET owner = ? WHERE outcome IS NULL", (earlier,)).rowcount
    state = person.home / "run" / "up.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"identity": earlier, "pid": os.getpid()}))
    # What the server was about to write, left by a process whose pid is another's now.
    (person.home / "prefect" / "concurrency_leases" / "expirations.lock").write_text(str(os.getpid()))
