"""Accidents: find a sync in progress, its processes, kill them, and simulate a reboot."""

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
from catchment.runtime.worker_status import WorkerStatus
from deployments.server.processes import descendants
from tests.acceptance.person import PROJECT, Person
from tests.hits import find_hits
from tests.waiting import until

ALTERED = {"PYTHONPATH": str(PROJECT / "tests" / "altered")}
"""The environment of a system that imports `tests/altered` in all its processes."""
UNHURRIED = ALTERED | {"REST_SECONDS": "0.5"}
"""The environment of a system in which a small sync of a source with the preset `local` can be interrupted midway."""

FREQUENT_CHECKS = ALTERED | {"FREQUENT_CHECKS": "5"}
"""The environment of a system that checks every five seconds for stopped processes, lost runs, free space in Prefect's
database, folders to watch again, and changes that no sync answered.
"""


def in_the_middle(person: Person, name: str, vault: Path, notes: int, *how: str) -> None:
    """Wait until the first sync of a source is half done: some of its notes are in the library, others are not."""
    person("add", "obsidian", vault, "--name", name, *how).ok()
    person("sync", name).ok()
    assert until(lambda: brought_in(person, name)) < notes


def brought_in(person: Person, name: str) -> int:
    """Return the number of the source's notes in the library, read directly because commands are slower."""
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        return ledger.queue.counts()[name].get(JobState.SUCCEEDED, 0)


def saved_and_found(person: Person, vault: Path) -> None:
    """Save a note and check that a search soon finds it exactly once."""
    word = f"zq{uuid4().hex}"
    note = next(vault.rglob("*.md"))
    draft = note.with_name(f".{note.name}.tmp")
    draft.write_text(f"{note.read_text()}\n{word}\n")
    draft.replace(note)
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        until(lambda: len(find_hits(ledger, word)), lambda hits: hits == 1)


def executing(person: Person, name: str) -> list[psutil.Process]:
    """Return the runner of the source's current run and its child processes."""
    (run,) = [run for run in person.runs_of(name) if run["state_type"] == "RUNNING"]
    home = Home(person.home)
    places = until(lambda: WorkerStatus.read(home), lambda found: found is not None and run["id"] in found.runs)
    assert places is not None and places.runner is not None
    runner = psutil.Process(pid_of(places.runner))
    return [runner, *descendants(runner.pid)]


def parsers(person: Person, name: str) -> list[psutil.Process]:
    """Return the parser processes of the runner, which are the children of its fork server."""
    runner, *below = executing(person, name)
    found = [process for process in below if process.ppid() != runner.pid]
    assert found
    return found


def kill(process: psutil.Process) -> None:
    """Kill a process unless it has exited."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()


def reboot(person: Person) -> None:
    """Simulate a reboot: every recorded process belongs to an earlier boot, and its pid is reused."""
    this = identity()
    earlier = f"{'0' * len(this.partition(':')[0])}:{this.partition(':')[2]}"
    with closing(sqlite3.connect(person.home / "ledger.db")) as ledger, ledger:
        # Between two batches, no job has an owner.
        ledger.execute("UPDATE jobs SET owner = ? WHERE owner IS NOT NULL", (earlier,))
        assert ledger.execute("UPDATE syncs SET owner = ? WHERE outcome IS NULL", (earlier,)).rowcount
    state = person.home / "run" / "up.json"
    state.write_text(json.dumps(json.loads(state.read_text()) | {"identity": earlier, "pid": os.getpid()}))
    # A partial file of the server, left by a dead process; another process has its pid now.
    (person.home / "prefect" / "concurrency_leases" / "expirations.lock").write_text(str(os.getpid()))
