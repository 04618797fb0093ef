"""Releasing the jobs of dead processes, decided by the running processes and not by a clock."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from catchment.ledger import Ledger, Source
from catchment.model import Item, JobState, Priority, Upsert
from catchment.runtime.process import alive, identity
from catchment.settings import Home
from connectors.obsidian import ObsidianSettings
from deployments.runs import rounds
from deployments.runs.rounds import give_back
from deployments.sources.sources_file import SourceEntry, SourcesFile

_JOBS = 5


def reclaim(home: Home) -> int:
    return rounds.reclaim(home, lambda owner, run: False)


@pytest.fixture
def process() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start processes that wait, and kill them after the test."""
    started = []

    def start() -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_home_without_ledger_has_no_jobs_to_release(home: Home) -> None:
    assert reclaim(home) == 0
    give_back(home, "gone:1:1", None, None)
    assert not (home.path / "ledger.db").exists()


def test_dead_process_releases_its_jobs_and_its_sync_is_closed(
    home: Home, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    worker = process()
    source = at_work(home, "notes", identity(worker.pid), batch=_JOBS)
    assert reclaim(home) == 0
    assert jobs(home, source) == {JobState.RUNNING: _JOBS}
    worker.kill()
    worker.wait()
    assert reclaim(home) == _JOBS
    assert jobs(home, source) == {JobState.PENDING: _JOBS}
    assert outcome(home, source) == "crashed"
    assert reclaim(home) == 0


def test_same_pid_and_start_after_a_reboot_is_another_process(
    home: Home, process: Callable[[], subprocess.Popen[bytes]]
) -> None:
    boot, _, rest = identity(process().pid).partition(":")
    before_the_reboot = f"{'0' * len(boot)}:{rest}"
    assert alive(f"{boot}:{rest}")
    assert not alive(before_the_reboot)
    source = at_work(home, "notes", before_the_reboot, batch=_JOBS)
    assert reclaim(home) == _JOBS
    assert outcome(home, source) == "crashed"


def test_running_process_keeps_jobs_with_an_expired_lease(home: Home) -> None:
    source = at_work(home, "notes", identity(), batch=_JOBS, lease=timedelta(hours=-1))
    assert reclaim(home) == 0
    assert jobs(home, source) == {JobState.RUNNING: _JOBS}
    assert outcome(home, source) is None


@pytest.mark.parametrize(("attempts", "state"), [(1, JobState.QUARANTINED), (2, JobState.PENDING)])
def test_isolated_job_of_a_dead_process_uses_up_its_attempts(
    home: Home, tmp_path: Path, attempts: int, state: JobState
) -> None:
    settings = ObsidianSettings.model_validate({"root": tmp_path, "retry": {"attempts": attempts}})
    file = SourcesFile.load(home.sources_file)
    file.add(SourceEntry("notes", "obsidian", settings))
    file.save()
    source = at_work(home, "notes", "gone:1:1", batch=1)
    assert reclaim(home) == 1
    assert jobs(home, source) == {JobState.PENDING: _JOBS - 1} | {state: _JOBS if attempts == 2 else 1}


def test_sync_that_its_living_owner_no_longer_executes_is_closed(home: Home) -> None:
    executed, ended = (at_work(home, name, identity(), batch=_JOBS) for name in ("executed", "ended"))

    rounds.reclaim(home, lambda owner, run: owner == identity() and run == "run of ended")

    assert (outcome(home, executed), jobs(home, executed)) == (None, {JobState.RUNNING: _JOBS})
    assert (outcome(home, ended), jobs(home, ended)) == ("crashed", {JobState.PENDING: _JOBS})


def test_attempts_are_given_back_except_those_of_the_culprit(home: Home) -> None:
    culprit, innocent = (at_work(home, name, "gone:1:1", batch=1) for name in ("culprit", "innocent"))
    alive_elsewhere = at_work(home, "elsewhere", identity(), batch=1)

    give_back(home, "gone:1:1", "culprit", None)
    reclaim(home)

    assert attempts(home, culprit) == {0: _JOBS - 1, 1: 1}
    assert attempts(home, innocent) == {0: _JOBS}
    assert jobs(home, alive_elsewhere)[JobState.RUNNING] == 1
    assert (outcome(home, culprit), outcome(home, innocent)) == ("crashed", "crashed")
    with closing(Ledger.inspect(home.database_url)) as ledger:
        assert ledger.check(deep=True) == []


def test_culprit_is_held_with_the_reason(home: Home) -> None:
    at_work(home, "notes", "gone:1:1", batch=1)

    give_back(home, "gone:1:1", "notes", "the runner was killed")

    with closing(Ledger.inspect(home.database_url)) as ledger:
        found = ledger.sources.get("notes")
        assert (found.state, found.state_reason) == ("held", "the runner was killed")
        assert ledger.check() == []


def at_work(home: Home, name: str, owner: str, *, batch: int, lease: timedelta = timedelta(hours=1)) -> Source:
    """A source in the middle of a sync by this process, with pending jobs and a claimed batch."""
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.put(name, "obsidian", Priority.NORMAL)
        sync = ledger.syncs.begin(source.id, run=f"run of {name}", owner=owner, code_version="1", alive=alive)
        items = [Item(f"{number}.md", "", "1") for number in range(_JOBS)]
        ledger.intake.record(sync.id, [Upsert(item) for item in items], {})
        assert len(ledger.queue.claim(source.id, batch, owner=owner, lease=lease).jobs) == batch
        return source


def jobs(home: Home, source: Source) -> dict[JobState, int]:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        counts = ledger.queue.counts()[source.name]
        return {state: number for state, number in counts.items() if number}


def outcome(home: Home, source: Source) -> str | None:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        last = ledger.syncs.last(source.id)
        assert last is not None
        return last.outcome


def attempts(home: Home, source: Source) -> dict[int, int]:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return dict(Counter(job.attempts for job in ledger.queue.jobs(source=source.name)))
