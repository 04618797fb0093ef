"""`up` when it cannot work: one line with the remedy, the right exit code, and nothing started."""

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
    """What was started instead of the real server."""
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
    said = cli("up", "--detach")
    assert (said.code, said.out, said.err.count("\n"), "backup" in said.err) == (1, "", 1, True), said
    assert (file.read_bytes(), started) == (damaged, [])


def test_a_ledger_of_a_newer_program_is_said(cli: Cli, filled: Path, started: list[str]) -> None:
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger:
        ledger.execute("UPDATE revision SET version_num = '9999'")
        ledger.commit()
    said = cli("up")
    assert (said.code, said.err.count("\n"), started) == (1, 1, []), said


def test_a_full_disk_is_said(cli: Cli, filled: Path, started: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "disk_is_full", lambda: True)
    said = cli("up", "--detach")
    assert said.code == 10
    assert said.err == "catchment: the disk is full and Catchment cannot write its state; make room and try again\n"
    assert started == []


def test_without_a_ledger_it_starts_and_makes_none(cli: Cli, state: Path, started: list[str]) -> None:
    assert cli("up").code == 0
    assert (len(started), (state / "ledger.db").exists()) == (1, False)
