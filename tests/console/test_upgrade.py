"""A home of each earlier revision: the first change migrates it without loss and keeps copies of the old files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from catchment.ledger.db import schema
from tests.faults.versions import kept, kept_revisions

if TYPE_CHECKING:
    from tests.console.conftest import Cli

pytestmark = pytest.mark.full


def _history(file: Path) -> list[Any]:
    with closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT hash FROM history ORDER BY 1").fetchall()


@pytest.mark.parametrize("revision", [revision for revision in kept_revisions() if revision != schema.REVISION])
def test_home_of_an_earlier_revision_keeps_documents_history_and_sources(
    cli: Cli, state: Path, vault: Path, revision: str
) -> None:
    assert cli("add", "obsidian", str(vault), "--name", "notes").code == 0
    for file in state.glob("ledger.db*"):
        file.unlink()
    kept(revision, state)
    file = state / "sources.yaml"
    first = file.read_text().replace("version: 2\n", "")
    file.write_text(first)
    before = _history(state / "ledger.db")
    assert "migrate it with" in cli("status").err

    changed = cli("sources", "set", "notes", "--every", "2h")
    assert changed.code == 0, changed
    copy = state / f"ledger-{revision}.backup.db"
    assert f"migrated from revision {revision} to {schema.REVISION}; the previous one is in {copy}" in changed.err
    assert _history(copy) == before
    assert set(before) <= set(_history(state / "ledger.db"))
    assert (state / "sources.yaml.version-0").read_text() == first

    assert cli("audit", "verify").code == 0
    assert cli("ledger", "check").code == 0
    assert len(cli("search", "says", "--words", "--limit", "100", "--json").json) == 29
    assert cli("sources", "show", "notes", "--json").json["schedule"] == "every 2 h"
    (standing,) = cli("status", "--json").json["sources"]
    assert (standing["documents"], standing["jobs"]["quarantined"]) == (30, 1)

    # Back: a program of that time refuses the home as this one refuses a later one, and the copy restores it.
    with closing(sqlite3.connect(state / "ledger.db")) as database, database:
        database.execute("UPDATE revision SET version_num = '9999'")
    refused = cli("status")
    assert (refused.code, "install a newer version" in refused.err) == (1, True)
    assert cli("restore", str(copy)).code == 0
    assert cli("search", "says", "--words", "--json").code == 0
