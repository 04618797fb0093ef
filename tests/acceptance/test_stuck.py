"""Live processes without progress: a sync blocked by a lock, a server without responses. Each is replaced, and work
resumes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.notes import generate
from catchment.runtime.home import Home
from catchment.runtime.web_process import is_live
from tests.acceptance.person import PROJECT, Person, upright, without_meaning
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NOTES = 300
_SILENT = 60


@pytest.fixture(scope="module")
def stuck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a file selects the process to block."""
    return tmp_path_factory.mktemp("stuck")


@pytest.fixture(scope="module")
def person(stuck: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    faults = {"PYTHONPATH": str(PROJECT / "tests" / "faults" / "stuck"), "STUCK": str(stuck)}
    with upright(without_meaning(Person(tmp_path_factory.mktemp("up") / "home", variables=faults))) as person:
        yield person
    assert person.left() == []


def test_sync_blocked_by_a_lock_is_terminated_and_resumed(person: Person, stuck: Path, tmp_path: Path) -> None:
    generate(tmp_path / "vault", _NOTES)
    (stuck / "sync").touch()
    impatient = ("--set", "limits.stall_seconds=2")
    person("add", "obsidian", tmp_path / "vault", "--name", "notes", *impatient).ok()
    person("sync", "notes").ok()
    until(lambda: person.source("notes")["jobs"]["running"], bool)
    until(lambda: person.states_of("notes"), lambda states: "CRASHED" in states)
    (stuck / "sync").unlink()

    def reason() -> str:
        (crashed,) = [run for run in person.runs_of("notes") if run["state_type"] == "CRASHED"]
        return str(crashed["state"]["message"])

    # Prefect's engine marks the run as crashed first; the worker adds the reason when the runner reports its exit.
    until(reason, lambda message: "made no progress" in message)
    until(lambda: person.states_of("notes")[:1], lambda latest: latest == ["COMPLETED"])
    source = person.source("notes")
    assert (source["documents"], source["jobs"]["succeeded"]) == (_NOTES, _NOTES)
    person("ledger", "check", "--deep").ok()


def test_unresponsive_server_is_replaced(person: Person, stuck: Path, tmp_path: Path) -> None:
    generate(tmp_path / "vault", _NOTES)
    before = person.running.server_pid
    (stuck / "server").touch()
    until(lambda: person("health", "--json").json["verdict"], lambda verdict: verdict == "fail")
    (stuck / "server").unlink()
    until(lambda: person.running.server_pid, lambda pid: pid != before)
    assert "the server is unresponsive" in (person.home / "logs" / "up.log").read_text()
    person("add", "obsidian", tmp_path / "vault", "--name", "later").ok()
    person.sync_when_ready("later")
    assert person.source("later")["documents"] == _NOTES


def test_unresponsive_web_process_is_replaced(person: Person, stuck: Path) -> None:
    home = Home(person.home)
    until(lambda: is_live(home))
    (stuck / "web").touch()
    until(lambda: not is_live(home))
    until(lambda: "the web is unresponsive" in (person.home / "logs" / "up.log").read_text())
    (stuck / "web").unlink()
    until(lambda: is_live(home))
