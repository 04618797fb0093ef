"""A disk that is away for a while changes nothing: what was decided stands when it is back."""

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


def test_what_an_undo_took_out_does_not_come_back_with_its_disk(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    engine.sync("papers")
    last = engine.ledger.syncs.last(engine.source("papers").id)
    assert last is not None
    engine.ledger.undo.undo(last.id, "anna", "", process.alive)
    be_away_for_a_sync(engine, disk)
    assert engine.shelf("papers").keys() == {"a.md"}


def test_what_was_discarded_is_not_tried_again_when_its_disk_is_back(engine: Engine, disk: Disk) -> None:
    disk.write("board.canvas", "")
    disk.break_("board.canvas", "")
    engine.sync("papers")
    (entry,) = engine.ledger.quarantine.list()
    engine.ledger.quarantine.discard(entry.job, "anna", "not worth it")
    be_away_for_a_sync(engine, disk)
    assert engine.ledger.quarantine.list() == []


def test_what_waited_when_its_disk_went_away_is_read_when_it_is_back(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    with engine.syncing("papers") as sync:
        sync.discover()
    be_away_for_a_sync(engine, disk)
    assert engine.shelf("papers").keys() == {"a.md", "b.md"}


def test_what_waited_is_read_though_its_deletion_was_held_and_the_hold_dropped(engine: Engine, disk: Disk) -> None:
    disk.write("b.md", "")
    with engine.syncing("papers") as sync:
        sync.discover()
    disk.put_another()
    engine.sync("papers")
    engine.ledger.intake.drop_hold(engine.source("papers").id, "anna", "it was the cable")
    disk.bring_back()
    engine.sync("papers")
    assert engine.shelf("papers").keys() == {"a.md", "b.md"}


def broken_off(changes: Iterator[Change]) -> Iterator[Change]:
    """A listing that cannot go on after its last checkpoint."""
    yield from changes
    raise SourceUnavailable("the disk does not answer any more")


def test_a_folder_that_was_renamed_only_while_a_sync_broke_off_keeps_its_documents(engine: Engine, disk: Disk) -> None:
    disk.write("sub/b.md", "")
    engine.sync("papers")
    before = engine.shelf("papers")
    (disk.root / "sub").rename(disk.root / "other")
    with engine.syncing("papers") as sync, pytest.raises(SourceUnavailable):
        sync.discovery.through = broken_off
        sync.discover()
    (disk.root / "other").rename(disk.root / "sub")
    engine.sync("papers")
    assert engine.shelf("papers") == before


def test_a_rule_that_held_only_while_a_sync_broke_off_leaves_nothing_out(
    engine: Engine, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_some_is_left_out(changes: Iterator[Change]) -> Iterator[Change]:
        left_out = False
        for change in changes:
            yield change
            left_out = left_out or isinstance(change, Skip)
            if left_out and isinstance(change, Checkpoint):
                raise SourceUnavailable("the disk does not answer any more")

    monkeypatch.setattr("connectors.folders.tree._CHANGES_PER_CHECKPOINT", 1)
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


def test_a_disk_that_goes_away_while_files_are_read_is_no_failure_of_the_files(engine: Engine, disk: Disk) -> None:
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
