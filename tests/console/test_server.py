"""`catchment up` when it cannot start: one line with the remedy and the exit code."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catchment.runtime.home import Home
from console import session
from deployments.server.running import Running, record, supervisor_lock
from deployments.supervisor import supervisor
from tests.console.standin import serving

if TYPE_CHECKING:
    from tests.console.conftest import Cli


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the starts of the server in place of starting it."""
    begun: list[str] = []

    def up(home: object, **options: object) -> int:
        begun.append(str(home))
        return 0

    monkeypatch.setattr(supervisor, "up", up)
    return begun


def test_a_damaged_ledger_is_said_and_left_as_it_is(cli: Cli, filled: Path, started: list[str]) -> None:
    file = filled / "ledger.db"
    file.write_bytes(file.read_bytes()[:20_000])
    damaged = file.read_bytes()
    response = cli("up", "--detach")
    assert (response.code, response.out, response.err.count("\n"), "backup" in response.err) == (1, "", 1, True), (
        response
    )
    assert (file.read_bytes(), started) == (damaged, [])


def test_a_ledger_of_a_newer_program_is_said(cli: Cli, filled: Path, started: list[str]) -> None:
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger:
        ledger.execute("UPDATE revision SET version_num = '9999'")
        ledger.commit()
    response = cli("up")
    assert (response.code, response.err.count("\n"), started) == (1, 1, []), response


def test_a_full_disk_is_said(cli: Cli, filled: Path, started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "disk_is_full", lambda: True)
    response = cli("up", "--detach")
    assert response.code == 10
    assert response.err == "catchment: the disk is full and Catchment cannot write its state; make room and try again\n"
    assert started == []


def test_up_at_another_port_is_refused_while_it_runs(cli: Cli, filled: Path) -> None:
    with serving(filled):
        refused = cli("up", "--port", "1")
    assert (refused.code, "port 1: Catchment runs on port" in refused.err, "catchment down" in refused.err) == (
        5,
        True,
        True,
    )


def test_up_in_the_background_waits_for_a_system_that_starts(filled: Path) -> None:
    home, said = Home(filled), list[str]()
    state = Running(1, os.getpid(), datetime.now(UTC), 0, 0, "")
    with supervisor_lock(home):
        timer = threading.Timer(0.3, record, (home, state))
        timer.start()
        assert supervisor.up(home, detach=True, port=1, announce=said.append) == 0
        timer.join()
    assert (said[0], said[-1]) == (
        "Catchment is already starting",
        "Catchment is already running: http://127.0.0.1:1",
    )


def test_without_a_ledger_it_starts_and_makes_none(cli: Cli, state: Path, started: list[str]) -> None:
    assert cli("up").code == 0
    assert (len(started), (state / "ledger.db").exists()) == (1, False)
