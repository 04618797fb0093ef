"""Kill one component during a sync: the sync resumes without intervention, and every note is ingested once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.notes import generate
from deployments.runs.runs import start_sync
from tests.acceptance import accidents
from tests.acceptance.accidents import FREQUENT_CHECKS, UNHURRIED, brought_in, executing, kill, parsers, reboot
from tests.acceptance.person import Person, upright
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NOTES = 60


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "vault"
    generate(folder, _NOTES)
    return folder


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with upright(Person(tmp_path_factory.mktemp("kills") / "home", variables=UNHURRIED | FREQUENT_CHECKS)) as person:
        yield person
    assert person.left() == []


def in_the_middle(person: Person, name: str, vault: Path) -> None:
    """Wait until the first sync of a source is half done."""
    person("up", "--detach").ok()
    accidents.in_the_middle(person, name, vault, _NOTES, "--set", "preset=local")


def interrupted(person: Person, name: str) -> None:
    """Check that the accident interrupted the sync."""
    jobs = person.source(name)["jobs"]
    assert 0 < jobs["succeeded"] < _NOTES, jobs


def goes_on(person: Person, name: str) -> None:
    """Wait for an automatic run, and until it has ingested everything."""
    until(lambda: person.states_of(name)[1:], lambda before: before == ["CRASHED"])
    ended = until(lambda: person.states_of(name), lambda found: found[:1] == ["COMPLETED"])
    assert ended == ["COMPLETED", "CRASHED"]


def all_is_well(person: Person, *names: str) -> None:
    """Check that every note is in the library once, the ledger is sound, and no dead run is considered active."""
    for name in names:
        source = person.source(name)
        assert source["documents"] == _NOTES
        unfinished = {state: number for state, number in source["jobs"].items() if number and state != "succeeded"}
        assert unfinished == {}
        listed = person("jobs", "list", "--source", name, "--limit", "10000", "--json").ok().json
        assert len(listed) == len({job["item"] for job in listed}) == _NOTES
    person("ledger", "check", "--deep").ok()
    until(person.seem_to_run, lambda found: found == [])
    # The source's slot was released: the next sync starts at once.
    assert person.sync(names[-1])["jobs"] == 0


def test_killed_worker(person: Person, vault: Path) -> None:
    in_the_middle(person, "worker", vault)
    os.killpg(person.running.worker_pid, signal.SIGKILL)
    interrupted(person, "worker")
    goes_on(person, "worker")
    all_is_well(person, "worker")


def test_killed_server(person: Person, vault: Path) -> None:
    in_the_middle(person, "server", vault)
    os.kill(person.running.server_pid, signal.SIGKILL)
    until(lambda: person.states_of("server"), lambda found: found[:1] == ["COMPLETED"])
    all_is_well(person, "server")


def test_killed_runner_of_four_syncs(person: Person, vault: Path) -> None:
    names = ("oak", "elm", "ash", "fir")
    for name in names:
        person("add", "obsidian", vault, "--name", name, "--set", "preset=local").ok()
    for name in names:
        start_sync(person.running, "obsidian", name)
    until(lambda: all(brought_in(person, name) for name in names))
    worker = person.running.worker_pid
    interrupted = [name for name in names if brought_in(person, name) < _NOTES]
    kill(executing(person, interrupted[-1])[0])
    assert len(interrupted) > 1
    for name in interrupted:
        goes_on(person, name)
        listed = person("jobs", "list", "--source", name, "--limit", "10000", "--json").ok().json
        assert {job["attempts"] for job in listed} == {1}, (
            "no source is known to be the cause, so none counts an attempt"
        )
    all_is_well(person, *names)
    assert person.running.worker_pid == worker


def test_killed_parsers_of_a_run(person: Person, vault: Path) -> None:
    in_the_middle(person, "parsers", vault)
    for process in parsers(person, "parsers"):
        kill(process)
    until(lambda: person.states_of("parsers"), lambda found: found == ["COMPLETED"])
    all_is_well(person, "parsers")


def test_stalled_run_is_terminated_and_resumed(person: Person, vault: Path) -> None:
    in_the_middle(person, "still", vault)
    for process in executing(person, "still"):
        process.suspend()
    interrupted(person, "still")
    goes_on(person, "still")
    all_is_well(person, "still")


def test_killed_supervisor(person: Person, vault: Path) -> None:
    in_the_middle(person, "supervisor", vault)
    os.kill(person.running.pid, signal.SIGKILL)
    assert person.left() == []
    interrupted(person, "supervisor")
    assert not person("status", "--json").ok().json["server"]["running"]
    person("sync", "supervisor", "--wait").refused(10, "catchment up --detach")
    person("up", "--detach").ok()
    goes_on(person, "supervisor")
    all_is_well(person, "supervisor")


def test_kill_of_all_processes_and_reboot(person: Person, vault: Path) -> None:
    in_the_middle(person, "all", vault)
    supervisor = person.running.pid
    for process in sorted(person.processes(), key=lambda process: process.pid != supervisor):
        kill(process)
    assert person.left() == []
    interrupted(person, "all")
    reboot(person)
    person("up", "--detach").ok()
    goes_on(person, "all")
    all_is_well(person, "all")


def test_moving_the_home_stops_all_its_processes(person: Person, tmp_path: Path) -> None:
    assert person.processes()
    person.home.rename(tmp_path / "elsewhere")
    until(person.processes, lambda found: not found)
    person.home.mkdir()
    assert not person("status", "--json").ok().json["server"]["running"]
