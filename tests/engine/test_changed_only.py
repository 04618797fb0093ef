"""Syncs restricted to reported paths, and the cases that require a full comparison."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.errors import LedgerUnavailable
from catchment.ledger import Ledger
from catchment.ledger.items.intake import Intake
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.plan import Plan, PlanFilter
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.hits import find_hits


@pytest.fixture
def folder(home: Home, tmp_path: Path) -> Path:
    """A synced folder; both of its files have changed since."""
    folder = tmp_path / "folder"
    for name in ("told", "untold"):
        (folder / name).mkdir(parents=True)
        (folder / name / "note.md").write_text(name)
    with syncing(home, folder) as sync:
        finish(sync)
    for name in ("told", "untold"):
        (folder / name / "note.md").write_text(f"{name} changed")
    return folder


@contextmanager
def syncing(home: Home, folder: Path, *changed: str) -> Iterator[SourceSync]:
    """Open a sync that compares only the reported paths; without paths it compares everything."""
    connector = LocalFiles(LocalFilesSettings(root=folder))
    with open_sync(home, connector, "papers", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discovery.changed = frozenset(changed) or None
        yield sync


def finish(sync: SourceSync) -> int:
    """Process all jobs; return their number."""
    sync.discover()
    while (token := sync.claim(10)) is not None:
        sync.process(token)
    return sync.finish("completed")["jobs"]


def found(home: Home) -> list[str]:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return sorted(hit.item for hit in find_hits(ledger, "changed"))


def test_sync_compares_only_the_reported_paths(home: Home, folder: Path) -> None:
    with syncing(home, folder, "told/note.md") as sync:
        assert finish(sync) == 1
    assert found(home) == ["told/note.md"]
    with syncing(home, folder) as sync:
        assert finish(sync) == 1
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_sync_without_reported_paths_compares_everything(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        assert finish(sync) == 2


def test_sync_after_an_interrupted_one_compares_everything(home: Home, folder: Path) -> None:
    with syncing(home, folder, "told/note.md") as sync:
        sync.discover()
    with syncing(home, folder, "told/note.md") as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_repeated_listing_compares_everything(home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise LedgerUnavailable("The ledger is locked by another process; try again")

    with syncing(home, folder, "told/note.md") as sync:
        with monkeypatch.context() as patch, pytest.raises(LedgerUnavailable):
            patch.setattr(Intake, "record", busy)
            sync.discover()
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_undo_does_not_hide_an_interrupted_sync(home: Home, folder: Path) -> None:
    with syncing(home, folder, "told/note.md") as sync:
        sync.discover()
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.undo.undo(1, "anna", "", lambda _owner: False)
    with syncing(home, folder, "told/note.md") as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_changes_left_by_a_plan_are_found_by_the_next_sync(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        plan = Plan("papers", datetime.now(UTC), deep=False, reports=frozenset(), steps=(), waiting=0)
        sync.discovery.through = PlanFilter(plan, sync.progress)
        assert finish(sync) == 0
    with syncing(home, folder, "told/note.md") as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_sync_by_a_plan_ignores_reported_paths(home: Home, folder: Path) -> None:
    with syncing(home, folder, "told/note.md") as sync:
        sync.discovery.through = lambda changes: (change for change in changes)
        sync.discover()
        assert sync.progress.jobs == 2
