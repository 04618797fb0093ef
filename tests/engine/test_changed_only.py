"""A sync that looks only where something was told to have changed, and when that is not enough."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from catchment.dirty import Dirty, DirtyFile
from catchment.errors import LedgerUnavailable
from catchment.ledger import Ledger
from catchment.ledger.items.intake import Intake
from catchment.model import Priority
from catchment.settings import Home
from catchment.sync.plan import Followed, Plan
from catchment.sync.session import SourceSync, open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings


@pytest.fixture
def folder(home: Home, tmp_path: Path) -> Path:
    """A folder that was synced; since then both of its files have changed, of which one was told."""
    folder = tmp_path / "folder"
    for name in ("told", "untold"):
        (folder / name).mkdir(parents=True)
        (folder / name / "note.md").write_text(name)
    with syncing(home, folder) as sync:
        finish(sync)
    for name in ("told", "untold"):
        (folder / name / "note.md").write_text(f"{name} changed")
    tell(home, "told/note.md")
    return folder


@contextmanager
def syncing(home: Home, folder: Path, *, changed_only: bool = False) -> Iterator[SourceSync]:
    connector = LocalFiles(LocalFilesSettings(root=folder))
    with open_sync(home, connector, "papers", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discovery.changed_only = changed_only
        yield sync


def tell(home: Home, *paths: str, quiet_at: float = 0.0) -> None:
    DirtyFile(home, "papers").tell(Dirty(frozenset(paths), quiet_at))


def finish(sync: SourceSync) -> int:
    """Work to the end; how many jobs there were."""
    sync.discover()
    while (token := sync.claim(10)) is not None:
        sync.process(token)
    return sync.finish("completed")["jobs"]


def found(home: Home) -> list[str]:
    with closing(Ledger.inspect(home.database_url)) as ledger:
        return sorted(hit.item for hit in ledger.library.search("changed"))


def test_only_what_was_told_is_looked_at_and_the_rest_by_whoever_looks_at_everything(home: Home, folder: Path) -> None:
    with syncing(home, folder, changed_only=True) as sync:
        assert finish(sync) == 1
    assert found(home) == ["told/note.md"]
    assert DirtyFile(home, "papers").is_taken()
    with syncing(home, folder) as sync:
        assert finish(sync) == 1
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_a_sync_that_was_told_nothing_looks_at_everything(home: Home, folder: Path) -> None:
    DirtyFile(home, "papers").forget()
    with syncing(home, folder, changed_only=True) as sync:
        assert finish(sync) == 2


def test_a_sync_that_was_told_that_anything_may_have_changed_looks_at_everything(home: Home, folder: Path) -> None:
    DirtyFile(home, "papers").tell(Dirty(None, 0.0))
    with syncing(home, folder, changed_only=True) as sync:
        assert finish(sync) == 2


def test_a_sync_that_was_cut_short_is_followed_by_one_that_looks_at_everything(home: Home, folder: Path) -> None:
    with syncing(home, folder, changed_only=True) as sync:
        sync.discover()
    tell(home, "told/note.md")
    with syncing(home, folder, changed_only=True) as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_a_listing_that_failed_is_made_anew_of_everything(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise LedgerUnavailable("The ledger is locked by another process; try again")

    with syncing(home, folder, changed_only=True) as sync:
        with monkeypatch.context() as patch, pytest.raises(LedgerUnavailable):
            patch.setattr(Intake, "record", busy)
            sync.discover()
        tell(home, "untold/note.md")
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_an_undo_does_not_hide_that_the_sync_before_it_was_cut_short(home: Home, folder: Path) -> None:
    with syncing(home, folder, changed_only=True) as sync:
        sync.discover()
    with closing(Ledger.open(home.database_url)) as ledger:
        ledger.undo.undo(1, "anna", "", lambda _owner: False)
    tell(home, "told/note.md")
    with syncing(home, folder, changed_only=True) as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_what_a_plan_left_is_looked_at_by_the_next_sync(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        plan = Plan("papers", datetime.now(UTC), deep=False, said=frozenset(), steps=(), waiting=0)
        sync.discovery.through = Followed(plan, sync.progress)
        assert finish(sync) == 0
    with syncing(home, folder, changed_only=True) as sync:
        finish(sync)
    assert found(home) == ["told/note.md", "untold/note.md"]


def test_who_looks_at_everything_takes_note_of_what_was_told_too(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        finish(sync)
    assert DirtyFile(home, "papers").is_taken()


def test_a_sync_that_follows_a_plan_leaves_what_was_told_to_the_next(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        sync.discovery.through = lambda changes: (change for change in changes)
        sync.discover()
    assert not DirtyFile(home, "papers").is_taken()


def test_a_sync_knows_how_long_to_wait_for_quiet(home: Home, folder: Path) -> None:
    with syncing(home, folder, changed_only=True) as sync:
        assert sync.discovery.quiet_in() == 0
        tell(home, "told/note.md", quiet_at=time.monotonic() + 100)
        assert 50 < sync.discovery.quiet_in() <= 100
        sync.discover()
        assert sync.discovery.quiet_in() == 0


def test_a_file_that_a_power_cut_left_empty_tells_nothing(home: Home, folder: Path) -> None:
    (home.run / "dirty-papers.json").write_bytes(b"")
    with syncing(home, folder, changed_only=True) as sync:
        assert finish(sync) == 2


def test_nothing_is_left_of_what_was_told(home: Home) -> None:
    for ending in ("", ".taken", ".new"):
        (home.run / f"dirty-papers.json{ending}").write_text('{"paths": ["a diary.md"]')
    DirtyFile(home, "papers").forget()
    assert list(home.run.glob("dirty-*")) == []
