"""The parts of `catchment demo` that start no process. tests/acceptance runs all of it."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from catchment.errors import TryAgain
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.runtime.process import alive
from console.start_stop import demo
from deployments.supervisor import supervisor
from tests.ledger.older import BEFORE_0014

if TYPE_CHECKING:
    from pathlib import Path

    from tests.console.conftest import Cli


def test_the_demo_leaves_the_library_of_a_person_alone(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str | None, str | None]] = []

    def up(*_given: object, **_options: object) -> int:
        seen.append((os.environ.get("CATCHMENT_HOME"), os.environ.get("CATCHMENT_DATABASE_URL")))
        raise TryAgain("that is enough")

    monkeypatch.setenv("CATCHMENT_DATABASE_URL", f"sqlite:///{tmp_path / 'mine.db'}")
    monkeypatch.setattr(supervisor, "up", up)
    assert cli("demo", "--exit", "--home", str(tmp_path / "demo")).code == 10
    assert seen == [(str(tmp_path / "demo"), None)]


def test_the_library_of_an_earlier_demo_is_migrated(cli: Cli, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(filled / "ledger.db")) as ledger, ledger:
        for statement in BEFORE_0014:
            ledger.execute(statement)
        ledger.execute("UPDATE revision SET version_num = '0013'")

    def up(*_given: object, **_options: object) -> int:
        raise TryAgain("that is enough")

    monkeypatch.setattr(supervisor, "up", up)
    response = cli("demo", "--exit", "--home", str(filled))
    assert (response.code, "migrated from revision 0013" in response.err) == (10, True)


def test_a_sync_that_told_nothing_is_shown_too(cli: Cli, filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Ledger.open(Home(filled).database_url)) as ledger:
        source = ledger.sources.get("notes").id
        ledger.syncs.begin(source, run=None, owner="nobody", code_version="1", alive=alive)
        ledger.syncs.close_dead(alive)
        ledger.sources.put("another", "local_files", Priority.NORMAL)
    demo._show(["notes", "another"])
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["notes", "2", "1", "1"] in rows
    assert ["another", "0", "0", "0"] in rows
