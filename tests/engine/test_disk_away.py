"""Operator decisions survive the temporary absence of a disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catchment.errors import SourceUnavailable
from catchment.ledger import Ledger
from catchment.model import Change, Checkpoint, Skip
from catchment.runtime import process
from tests.engine.disk import Disk
from tests.engine.whole import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    Ledger.open(f"sqlite:///{tmp_path}/empty.db").close()
    engine = Engine(tmp_path, tmp_path / "empty.db")
    yield engine
    assert engine.ledger.check(deep=True) == []
    engine.close()


@pytest.fixture
def disk(engine: Engine) -> Disk:
    disk = engine.disks["papers"]
    disk.write("a.md", "")
    engine.sync("papers")
    return disk


def be_away_for_a_sync(engine: Engine, disk: Disk) -> None:
    disk.put_another()
    assert engine.sync("papers")["held"]
    disk.bring_back()
    engine.sync("papers")


def test_undone_addition_stays_removed_when_its_disk_returns(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    engine.sync("papers")
    last = engine.ledger.syncs.last(engine.source("papers").id)
    assert last is not None
    engine.ledger.undo.undo(last.id, "anna", "", process.alive)
    be_away_for_a_sync(engine, disk)
    assert engine.shelf("papers").keys() == {"a.md"}


def test_discarded_item_is_not_retried_when_its_disk_returns(engine: Engine, disk: Disk) -> None:
    disk.write("board.canvas", "")
    disk.break_("board.canvas", "")
    engine.sync("papers")
    (entry,) = engine.ledger.quarantine.list()
    engine.ledger.quarantine.discard([entry.job], "anna", "not worth it")
    be_away_for_a_sync(engine, disk)
    assert engine.ledger.quarantine.list() == []


def test_pending_item_is_read_when_its_disk_returns(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    with engine.syncing("papers") as sync:
        sync.discover()
    be_away_for_a_sync(engine, disk)
    assert engine.shelf("papers").keys() == {"a.md", "b.md"}


def test_pending_item_is_read_after_its_held_deletion_is_dropped(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    with engine.syncing("papers") as sync:
        sync.discover()
    disk.put_another()
    engine.sync("papers")
    engine.ledger.intake.drop_hold(engine.source("papers").id, "anna", "it was the cable")
    disk.bring_back()
    engine.sync("papers")
    assert engine.shelf("papers").keys() == {"a.md", "b.md"}


def interrupted(changes: Iterator[Change]) -> Iterator[Change]:
    """Yield the changes, then fail after the last checkpoint."""
    yield from changes
    raise SourceUnavailable("the disk does not answer any more")


def test_folder_renamed_during_an_interrupted_sync_keeps_its_documents(engine: Engine, disk: Disk) -> None:
    disk.write("sub/b.md", "")
    engine.sync("papers")
    before = engine.shelf("papers")
    (disk.root / "sub").rename(disk.root / "other")
    with engine.syncing("papers") as sync, pytest.raises(SourceUnavailable):
        sync.discovery.through = interrupted
        sync.discover()
    (disk.root / "other").rename(disk.root / "sub")
    engine.sync("papers")
    assert engine.shelf("papers") == before


def test_rule_active_only_during_an_interrupted_sync_omits_no_item(
    engine: Engine, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_some_is_left_out(changes: Iterator[Change]) -> Iterator[Change]:
        left_out = False
        for change in changes:
            yield change
            left_out = left_out or isinstance(change, Skip)
            if left_out and isinstance(change, Checkpoint):
                raise SourceUnavailable("the disk does not answer any more")

    monkeypatch.setattr("connectors.folders.diff._CHANGES_PER_CHECKPOINT", 1)
    for name in ("b.md", "c.md"):
        disk.write(f"sub/{name}", "")
    engine.sync("papers")
    before = engine.shelf("papers")
    rules = disk.root / ".catchmentignore"
    rules.write_text("sub/*.md\n")
    with engine.syncing("papers") as sync, pytest.raises(SourceUnavailable):
        sync.discovery.through = until_some_is_left_out
        sync.discover()
    rules.unlink()
    engine.sync("papers")
    assert engine.shelf("papers") == before


def test_disk_vanishing_during_reads_is_not_an_item_failure(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    disk.write("sub/b.md", "")
    with engine.syncing("papers") as sync:
        sync.discover()
        token = sync.claim(10)
        assert token is not None
        elsewhere = disk.root.rename(disk.root.with_name("unplugged"))
        with pytest.raises(SourceUnavailable) as gone:
            sync.process(token)
        sync.finish("failed", gone.value)
        assert sync.outcome != "quarantined"
    assert engine.ledger.queue.waiting(engine.source("papers").id).ready == 2
    elsewhere.rename(disk.root)
    engine.sync("papers")
    assert engine.shelf("papers").keys() == {"a.md", "b.md", "sub/b.md"}
