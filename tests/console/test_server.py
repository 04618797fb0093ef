"""`catchment up` when it cannot start: one line with the remedy and the exit code."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console import session
from deployments.supervisor import supervisor

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


def test_without_a_ledger_it_starts_and_makes_none(cli: Cli, state: Path, started: list[str]) -> None:
    assert cli("up").code == 0
    assert (len(started), (state / "ledger.db").exists()) == (1, False)
