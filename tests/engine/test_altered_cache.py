"""Cache entries altered by a power failure; their text must not enter the library."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from catchment.settings import Home, Policy, Priority
from catchment.sync.source_sync import open_sync
from tests.engine.papers import Papers


@pytest.mark.parametrize(
    "altered", ["replace(CAST(value AS TEXT), 'The pump', 'The lamp')", "x'ff' || substr(value, 2)", "x''"]
)
def test_altered_cache_text_does_not_enter_the_library(home: Home, tmp_path: Path, altered: str) -> None:
    papers = Papers(home, tmp_path / "papers")
    for n in range(3):
        papers.write(f"{n}.md", f"The pump number {n} drips")
    with open_sync(home, papers.connector, "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(250)
        assert token is not None
        sync.normalize(token)
    with closing(sqlite3.connect(home.cache)) as database, database:
        database.execute(f"UPDATE OR IGNORE entries SET value = CAST({altered} AS BLOB)")
    summary = papers.sync()
    assert summary["succeeded"] == 3
    assert papers.documents() == {f"{n}.md": f"The pump number {n} drips" for n in range(3)}
