"""Killed in the middle of a sync, whatever it is that dies: the next sync goes on, and every note is in the library once."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from benchmarks.notes import generate
from catchment.home import Home
from catchment.ledger import Ledger
from catchment.model import JobState
from tests.acceptance.person import Person, until, upright

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

_NOTES = 3_000
_ACTIVE = ("PENDING", "RUNNING", "CANCELLING")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "vault"
    generate(folder, _NOTES)
    return folder


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with upright(Person(tmp_path_factory.mktemp("kills") / "home")) as person:
        yield person
    assert person.left() == []


def in_the_middle(person: Person, name: str, vault: Path) -> None:
    """Return in the middle of the first sync of a source: some of its notes are in the library, and some are not."""
    person("up", "--detach").ok()
    person("sources", "add", "obsidian", vault, "--name", name).ok()
    person("sync", name).ok()
    ledger = Ledger.inspect(Home(person.home).database_url)
    try:
        until(lambda: ledger.queue.counts()[name].get(JobState.SUCCEEDED, 0), bool, seconds=60)
    finally:
        ledger.close()


def interrupted(person: Person, name: str) -> None:
    """Make sure that the accident came in time."""
    jobs = person.source(name)["jobs"]
    assert 0 < jobs["succeeded"] < _NOTES, jobs


def all_is_well(person: Person, name: str) -> None:
    """Every note is in the library once, the ledger is sound, and no sync seems to run that does not."""
    source = person.source(name)
    assert source["documents"] == _NOTES
    unfinished = {state: number for state, number in source["jobs"].items() if number and state != "succeeded"}
    assert unfinished == {}
    listed = person("jobs", "list", "--source", name, "--limit", "10000", "--json").ok().json
    assert len(listed) == len({job["item"] for job in listed}) == _NOTES
    person("ledger", "check", "--deep").ok()
    assert [run["name"] for run in person.runs(*_ACTIVE) if run["deployment_id"]] == []
    assert person.sync(name)["jobs"] == 0


def test_the_worker_is_killed(person: Person, vault: Path) -> None:
    in_the_middle(person, "worker", vault)
    os.killpg(person.running.worker_pid, signal.SIGKILL)
    interrupted(person, "worker")
    person.sync_when_ready("worker")
    all_is_well(person, "worker")


def test_the_server_is_killed(person: Person, vault: Path) -> None:
    in_the_middle(person, "server", vault)
    os.kill(person.running.server_pid, signal.SIGKILL)
    interrupted(person, "server")
    person.sync_when_ready("server")
    all_is_well(person, "server")


def test_everything_is_killed(person: Person, vault: Path) -> None:
    in_the_middle(person, "all", vault)
    supervisor = person.running.pid
    for process in sorted(person.processes(), key=lambda process: process.pid != supervisor):
        kill(process)
    assert person.left() == []
    interrupted(person, "all")
    assert not person("status", "--json").ok().json["server"]["running"]
    person("sync", "all", "--wait").refused(10, "catchment up --detach")
    person("up", "--detach").ok()
    person.sync_when_ready("all")
    all_is_well(person, "all")


def test_the_flow_run_alone_is_killed(person: Person, vault: Path) -> None:
    in_the_middle(person, "run", vault)
    (run,) = [run for run in person.runs("RUNNING") if run["name"].startswith("run:")]
    executing = [one for one in person.processes() if environment(one).get("PREFECT__FLOW_RUN_ID") == run["id"]]
    assert executing
    for process in executing:
        kill(process)
    interrupted(person, "run")
    person.sync_when_ready("run")
    all_is_well(person, "run")


def test_no_part_of_a_killed_run_seems_to_go_on(person: Person, vault: Path) -> None:
    in_the_middle(person, "parts", vault)
    os.killpg(person.running.worker_pid, signal.SIGKILL)
    person.sync_when_ready("parts")
    assert [run["name"] for run in person.runs(*_ACTIVE)] == []


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.kill()
