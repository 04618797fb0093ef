"""The clock is set by hours in both directions while the system works: no loss, duplicate or stall."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks.notes import edit, generate
from catchment.ledger import Ledger
from catchment.model import JobState
from catchment.runtime.home import Home
from tests.acceptance.accidents import FREQUENT_CHECKS, UNHURRIED, saved_and_found
from tests.acceptance.person import Person, upright, without_meaning
from tests.faults.clock import WallClock
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NOTES = 60
_SMALL = 40
_LARGE, _WATCHED = "large", "watched"
_PLANNED_IN_AN_HOUR = 60


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> WallClock:
    return WallClock.make(tmp_path_factory.mktemp("clock"))


@pytest.fixture(scope="module")
def person(clock: WallClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    home = tmp_path_factory.mktemp("clock") / "home"
    with upright(without_meaning(Person(home, variables=clock.variables | UNHURRIED | FREQUENT_CHECKS))) as person:
        yield person
    assert person.left() == []


@pytest.fixture(scope="module")
def large(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault large enough for a sync that takes a while."""
    vault = tmp_path_factory.mktemp("large") / "vault"
    generate(vault, _NOTES)
    person("add", "obsidian", vault, "--name", _LARGE, "--set", "preset=local").ok()
    return vault


@pytest.fixture(scope="module")
def watched(person: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small watched vault that is synced every minute."""
    vault = tmp_path_factory.mktemp("watched") / "vault"
    generate(vault, _SMALL)
    person("add", "obsidian", vault, "--name", _WATCHED, "--every", "1m", "--watch").ok()
    until(lambda: person.source(_WATCHED)["documents"], lambda number: number == _SMALL)
    return vault


def test_set_forward_by_an_hour_in_the_middle_of_a_sync(
    person: Person, clock: WallClock, large: Path, watched: Path
) -> None:
    in_the_middle(person)
    before = {run["id"] for run in person.runs_of(_WATCHED) if run["start_time"]}
    clock.set(1)
    saved_and_found(person, watched)
    goes_on(person)
    settled(person)
    begun = [run for run in person.runs_of(_WATCHED) if run["start_time"] and run["id"] not in before]
    worked = [run for run in begun if run["state_name"] != "Coalesced"]
    assert len(worked) < _PLANNED_IN_AN_HOUR / 4, "the runs of the hour that never was came all at once"


def test_set_back_by_two_hours_in_the_middle_of_a_sync(
    person: Person, clock: WallClock, large: Path, watched: Path
) -> None:
    edit(large, _NOTES, 1)
    in_the_middle(person)
    clock.set(-1)
    saved_and_found(person, watched)
    goes_on(person)
    settled(person)
    (found,) = [finding for finding in person("doctor", "--json").json["findings"] if finding["probe"] == "clock"]
    assert found["verdict"] == "warn"
    # No test sets the system clock, which also dates files; these processes see file times an hour ahead.
    assert found["message"].startswith("the clock of the disk differs by +3600 s")
    # The schedule follows the new clock.
    until(lambda: planned_and_done(person), bool)


def test_killed_sync_resumes_after_the_clock_was_set_back(person: Person, large: Path, watched: Path) -> None:
    edit(large, _NOTES, 2)
    in_the_middle(person)
    for process in psutil.Process(person.running.worker_pid).children():
        os.kill(process.pid, signal.SIGKILL)
    goes_on(person)
    saved_and_found(person, watched)
    settled(person)


def in_the_middle(person: Person) -> None:
    """Wait until the sync of the large vault is half done."""
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        before = brought_in(ledger)
        person("sync", _LARGE).ok()
        until(lambda: brought_in(ledger), lambda number: number > before)


def brought_in(ledger: Ledger) -> int:
    """Return the number of succeeded jobs of the large vault, including those of earlier versions."""
    return len(ledger.queue.jobs(source=_LARGE, state=JobState.SUCCEEDED, limit=100_000))


def goes_on(person: Person) -> None:
    """Wait until every note of the large vault is current in the library and no job is left."""
    until(lambda: unfinished(person), lambda jobs: not jobs)
    source = person.source(_LARGE)
    assert source["documents"] == _NOTES
    with closing(Ledger.inspect(Home(person.home).database_url)) as ledger:
        done = [(job.item, job.version) for job in ledger.queue.jobs(source=_LARGE, limit=100_000)]
    assert len(done) == len(set(done)), "a version was made into a job twice"


def unfinished(person: Person) -> dict[str, int]:
    jobs = person.source(_LARGE)["jobs"]
    return {state: number for state, number in jobs.items() if number and state != "succeeded"}


def settled(person: Person) -> None:
    """Check that no dead run is considered active, no slot is held, and health reports no failure."""
    until(lambda: [name for name in person.seem_to_run() if _LARGE in name], lambda found: not found)
    person("ledger", "check", "--deep").ok()
    assert person.sync(_LARGE)["jobs"] == 0
    findings: list[dict[str, Any]] = until(
        lambda: person("health", "--json").json["findings"],
        lambda found: not any(f["verdict"] == "fail" for f in found),
    )
    assert {"server", "scheduler", "worker", "watcher"} <= {finding["probe"] for finding in findings}


def planned_and_done(person: Person) -> list[str]:
    """Return the scheduled runs that completed since the clock was set back."""
    query = {
        "deployments": {"name": {"any_": [_WATCHED]}},
        # The system clock is an hour behind the clock of this test.
        "flow_runs": {"start_time": {"before_": (datetime.now(UTC) - timedelta(minutes=30)).isoformat()}},
    }
    found = person.found("flow_runs", query)
    return [run["id"] for run in found if run["auto_scheduled"] and run["state_type"] == "COMPLETED"]
