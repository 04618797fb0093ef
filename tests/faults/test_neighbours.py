"""Concurrent commands: several `up` and `down` at once, and the daily clean-up during a sync."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.notes import generate
from catchment.runtime.home import Home
from deployments.server.client import api
from deployments.server.running import running, state_file
from tests.acceptance.person import COMMAND, Person, commands
from tests.waiting import until

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1_500), pytest.mark.long]

_FEW = 20
_UPS = 3
_PATIENCE = 400
"""Seconds allowed for an operation that takes a few on an idle machine."""


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Person, list[tuple[int, str]]]]:
    """Run `up --detach` several times at once; return the user and the output of each command."""
    person = Person(tmp_path_factory.mktemp("neighbours") / "home")
    started = [typed(person, "up", "--detach") for _ in range(_UPS)]
    try:
        yield person, [said(process) for process in started]
    finally:
        person("down")
    assert person.left() == []


@pytest.fixture(scope="module")
def person(together: tuple[Person, list[tuple[int, str]]]) -> Person:
    return together[0]


def typed(person: Person, *words: str) -> subprocess.Popen[str]:
    """Start a command without waiting for it."""
    return subprocess.Popen(
        [COMMAND, *words],
        env=person.environment,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and output of a command."""
    out, _ = process.communicate(timeout=_PATIENCE)
    return process.returncode, out


def all_is_well(person: Person, name: str, notes: int) -> None:
    """Check that every note is in the library once, the ledger is sound, and no dead run is considered active."""
    source = person.source(name)
    unfinished = {state: number for state, number in source["jobs"].items() if number and state != "succeeded"}
    assert (source["documents"], unfinished) == (notes, {})
    listed = person("jobs", "list", "--source", name, "--limit", "10000", "--json").ok().json
    assert len(listed) == len({job["item"] for job in listed}) == notes
    person("ledger", "check", "--deep").ok()
    until(person.seem_to_run, lambda found: found == [])


def test_concurrent_ups_start_one_system(
    together: tuple[Person, list[tuple[int, str]]],
) -> None:
    person, told = together
    for code, line in told:
        assert (code, "running: http" in line) == (0, True), line

    def supervisors() -> list[str]:
        return [line for line in commands(person.processes()) if "deployments.supervisor.detached" in line]

    until(supervisors, lambda found: len(found) == 1)
    until(lambda: person("status", "--json").ok().json["server"]["answers"], bool)


def test_manual_sync_and_daily_clean_up_do_not_block_each_other(person: Person, tmp_path: Path) -> None:
    generate(tmp_path / "vault", _FEW)
    person("add", "obsidian", tmp_path / "vault", "--name", "few").ok()
    with api(person.running) as client:
        query = {"deployments": {"name": {"any_": ["upkeep"]}}}
        (upkeep,) = client.post("/deployments/filter", json=query).raise_for_status().json()
        made = client.post(f"/deployments/{upkeep['id']}/create_flow_run", json={"state": {"type": "SCHEDULED"}})
        run = made.raise_for_status().json()["id"]
    person.sync_when_ready("few")
    all_is_well(person, "few", _FEW)

    def state() -> str:
        with api(person.running) as client:
            return str(client.get(f"/flow_runs/{run}").raise_for_status().json()["state_type"])

    assert until(state, lambda found: found not in ("SCHEDULED", "PENDING", "RUNNING")) == "COMPLETED"


def test_up_waits_for_concurrent_downs_and_starts(person: Person) -> None:
    before = person.running
    home = Home(person.home)
    downs = [typed(person, "down")]

    def is_stopping() -> bool:
        found = running(home)
        return found is None or found.stopping

    until(is_stopping, bool)
    downs.append(typed(person, "down"))
    up = typed(person, "up", "--detach")
    (first, stopped), (second, or_nothing) = map(said, downs)
    assert (first, stopped) == (0, "stopped\n")
    assert (second, or_nothing in ("stopped\n", "Catchment was not running\n")) == (0, True), or_nothing
    code, told = said(up)
    assert code == 0, told
    assert told.startswith("Catchment is running: "), told
    assert json.loads(state_file(home).read_text())["pid"] != before.pid
    assert person("status", "--json").ok().json["server"]["running"]
