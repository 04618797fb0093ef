"""Stopping under load, a temporarily unavailable server, and a database of bounded size."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from benchmarks.notes import edit, generate
from catchment.runtime.home import Home
from deployments.server.running import running
from tests.acceptance.accidents import FREQUENT_CHECKS, UNHURRIED, in_the_middle
from tests.acceptance.person import COMMAND, Person, commands, without_meaning
from tests.waiting import until

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

_NOTES = 100
_SMALL = 20
_SYNCS = 25
_PATIENCE = 30


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vault") / "vault"
    generate(folder, _NOTES)
    return folder


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    person = without_meaning(Person(tmp_path_factory.mktemp("recovery") / "home", variables=UNHURRIED))
    yield person
    person("down")
    assert person.left() == []


def by_ctrl_c(person: Person) -> None:
    os.kill(person.running.pid, signal.SIGINT)


def by_down(person: Person) -> None:
    person("down").ok()


@pytest.mark.parametrize("stop", [by_ctrl_c, by_down], ids=["ctrl-c", "down"])
def test_stop_under_load_leaves_no_process_running(person: Person, vault: Path, stop: Callable[[Person], None]) -> None:
    name = stop.__name__.replace("_", "-")
    with foreground(person) as up:
        in_the_middle(person, name, vault, _NOTES, "--set", "preset=local")
        below = up.children(recursive=True)
        stop(person)
        assert up.wait(_PATIENCE) == 0
    assert commands(process for process in below if process.is_running()) == []
    assert person.left() == []
    assert running(Home(person.home)) is None
    jobs = person.source(name)["jobs"]
    assert jobs["succeeded"] < _NOTES, "the stop came too late"
    assert jobs["running"] == 0
    assert believed_to_run(person) == {"flow_run": 0, "task_run": 0}
    person("ledger", "check").ok()
    person("sources", "remove", name, "--yes").ok()


def test_sync_continues_during_a_server_outage(person: Person, vault: Path) -> None:
    person("up", "--detach").ok()
    in_the_middle(person, "away", vault, _NOTES, "--set", "preset=local")
    server = psutil.Process(person.running.server_pid)
    server.suspend()
    time.sleep(10)
    server.resume()
    until(lambda: person.states_of("away"), lambda found: found[:1] == ["COMPLETED"])
    assert person.source("away")["documents"] == _NOTES
    assert person.running.server_pid == server.pid
    until(person.seem_to_run, lambda found: found == [])


def test_old_runs_leave_the_prefect_database_and_the_file_shrinks(person: Person, tmp_path: Path) -> None:
    generate(tmp_path / "vault", _SMALL)
    person("up", "--detach").ok()
    person("add", "obsidian", tmp_path / "vault", "--name", "often").ok()
    for _ in range(_SYNCS):
        edit(tmp_path / "vault", 1, 1)
        person.sync("often")
    person("down").ok()
    database = person.home / "prefect" / "prefect.db"
    age(database, days=8)
    # The new system schedules runs of its flows and makes embeddings.
    ended_long_ago = "end_time < datetime('now', '-2 days')"
    assert rows(database, "flow_run", ended_long_ago) >= _SYNCS
    full = database.stat().st_size
    replace(person, variables=FREQUENT_CHECKS)("up", "--detach").ok()
    until(lambda: rows(database, "flow_run", ended_long_ago), lambda number: number == 0)
    until(lambda: rows(database, "events", "occurred < datetime('now', '-2 days')"), lambda number: number == 0)
    assert rows(database, "task_run", "flow_run_id NOT IN (SELECT id FROM flow_run)") == 0
    assert rows(database, "task_run_state", "task_run_id NOT IN (SELECT id FROM task_run)") == 0
    until(lambda: database.stat().st_size, lambda size: size < full - 400_000)
    assert person.sync("often")["jobs"] == 0


@contextmanager
def foreground(person: Person) -> Iterator[psutil.Popen]:
    """Run `catchment up` in a terminal until it is ready."""
    with psutil.Popen([COMMAND, "up"], env=person.environment, cwd="/", stdout=subprocess.DEVNULL) as process:
        try:
            until(lambda: running(Home(person.home)), bool)
            yield process
        except BaseException:
            process.terminate()
            raise


def believed_to_run(person: Person) -> dict[str, int]:
    """Return the runs and tasks that a stopped server would consider active after a restart."""
    active = "state_type IN ('PENDING', 'RUNNING', 'CANCELLING') OR state_name = 'AwaitingRetry'"
    with closing(sqlite3.connect(person.home / "prefect" / "prefect.db")) as database:
        return {
            table: database.execute(f"SELECT count(*) FROM {table} WHERE {active}").fetchone()[0]
            for table in ("flow_run", "task_run")
        }


def rows(database: Path, table: str, which: str = "true") -> int:
    with closing(sqlite3.connect(database)) as connection:
        number: int = connection.execute(f"SELECT count(*) FROM {table} WHERE {which}").fetchone()[0]
        return number


def age(database: Path, *, days: int) -> None:
    """Shift all recorded events back by this number of days."""
    moments = (("flow_run", "end_time"), ("events", "occurred"), ("event_resources", "occurred"))
    with closing(sqlite3.connect(database)) as connection, connection:
        for table, moment in moments:
            earlier = f"strftime('%Y-%m-%d %H:%M:%f', {moment}, '-{days} days') || '000'"
            connection.execute(f"UPDATE {table} SET {moment} = {earlier} WHERE {moment} IS NOT NULL")
