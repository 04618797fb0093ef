"""Moves, edits and deletions on a real file system."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from catchment.errors import StillChanging
from connectors.contract.memory_ledger import MemoryLedger, MemoryReport
from connectors.folders import file
from connectors.local_files import LocalFiles, LocalFilesSettings


class Folder:
    """A folder source with its ledger."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = MemoryLedger()

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def sync(self, *, deep: bool = False) -> MemoryReport:
        return self.ledger.sync(LocalFiles(LocalFilesSettings(root=self.root)), deep=deep)

    def number(self, locator: str) -> int:
        return self.ledger.rows[locator].number

    def text(self, locator: str) -> str:
        return self.ledger.documents()[locator].decode()


@pytest.fixture
def folder(root: Path) -> Folder:
    folder = Folder(root)
    for name in ("a.md", "b.md", "sub/c.md", "sub/deep/d.md"):
        folder.write(name, f"text of {name}")
    folder.sync()
    return folder


def test_recreated_root_is_a_different_root(folder: Folder) -> None:
    before = folder.ledger.root
    for _ in range(3):
        shutil.rmtree(folder.root)
        folder.root.mkdir()
        folder.sync()
        assert folder.ledger.root != before
        before = folder.ledger.root


def test_renamed_file_is_moved_without_reading_it(folder: Folder) -> None:
    number = folder.number("a.md")
    (folder.root / "a.md").rename(folder.root / "renamed.md")
    report = folder.sync()
    assert report.moved == {"a.md": "renamed.md"}
    assert (report.fetched, report.deleted, folder.number("renamed.md")) == (set(), set(), number)


@pytest.mark.parametrize(("old", "new"), [("a.md", "sub/a.md"), ("sub/deep/d.md", "d.md"), ("a.md", "A.md")])
def test_file_moved_between_folders_or_cases_is_moved(folder: Folder, old: str, new: str) -> None:
    (folder.root / old).rename(folder.root / new)
    report = folder.sync()
    assert (report.moved, report.fetched) == ({old: new}, set())


@pytest.mark.parametrize("name", ["before", "zzz"])
def test_moved_folder_moves_its_files(folder: Folder, name: str) -> None:
    (folder.root / "sub").rename(folder.root / name)
    report = folder.sync()
    assert report.moved == {"sub/c.md": f"{name}/c.md", "sub/deep/d.md": f"{name}/deep/d.md"}
    assert (report.fetched, report.deleted) == (set(), set())
    assert not [mark for mark in folder.ledger.marks if mark.startswith("sub/")]


def test_file_moved_into_a_new_folder_is_moved(folder: Folder) -> None:
    (folder.root / "new" / "er").mkdir(parents=True)
    (folder.root / "a.md").rename(folder.root / "new/er/a.md")
    assert folder.sync().moved == {"a.md": "new/er/a.md"}


def test_moved_and_edited_file_is_read_again(folder: Folder) -> None:
    (folder.root / "a.md").rename(folder.root / "moved.md")
    (folder.root / "moved.md").write_text("other text")
    assert folder.sync().fetched == {"moved.md"}
    assert folder.text("moved.md") == "other text"


def test_atomic_save_is_an_edit_of_the_same_item(folder: Folder) -> None:
    number = folder.number("a.md")
    folder.write("a.md.new", "saved").rename(folder.root / "a.md")
    report = folder.sync()
    assert (report.changed, report.new, report.deleted) == ({"a.md"}, set(), set())
    assert (folder.number("a.md"), folder.text("a.md")) == (number, "saved")


def test_swapped_names_swap_the_contents(folder: Folder) -> None:
    (folder.root / "a.md").rename(folder.root / "x")
    (folder.root / "b.md").rename(folder.root / "a.md")
    (folder.root / "x").rename(folder.root / "b.md")
    assert folder.sync().changed == {"a.md", "b.md"}
    assert folder.text("a.md") == "text of b.md"


def test_edit_with_same_size_and_time_is_detected(folder: Folder) -> None:
    path = folder.root / "a.md"
    before = path.stat()
    path.write_text("TEXT OF a.md")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert folder.sync().changed == {"a.md"}
    assert folder.text("a.md") == "TEXT OF a.md"


def test_edit_right_after_reading_is_detected(folder: Folder) -> None:
    for turn in range(10):
        (folder.root / "a.md").write_text(f"turn {turn}")
        folder.sync()
        assert folder.text("a.md") == f"turn {turn}"


def test_reading_waits_for_the_clock_tick_after_a_write(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        """A clock that starts 5 ms after the last write and advances only in `sleep`."""

        now = 0
        slept = 0.0

        def time_ns(self) -> int:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.slept += seconds
            self.now += round(seconds * 1e9)

    path, clock = folder.write("a.md", "written just now"), Clock()
    monkeypatch.setattr(file, "time", clock)
    clock.now = path.stat().st_ctime_ns + 5_000_000
    folder.sync()
    assert clock.slept == pytest.approx(0.015, abs=0.005)
    os.utime(path, ns=(1_700_000_000_000_000_000, 1_700_000_000_000_000_000))
    clock.now, clock.slept = 1_700_000_000_500_000_000, 0.0
    folder.sync()
    assert clock.slept == pytest.approx(1.5), (
        "times in whole seconds may come from a clock that ticks every two seconds"
    )


def test_new_file_with_an_old_time_is_detected(folder: Folder) -> None:
    os.utime(folder.write("old.md", "from long ago"), (0, 0))
    assert folder.sync().new == {"old.md"}
    assert folder.text("old.md") == "from long ago"


def test_deleted_file_that_returns_is_the_same_item(folder: Folder) -> None:
    number = folder.number("a.md")
    (folder.root / "a.md").unlink()
    assert folder.sync().deleted == {"a.md"}
    folder.write("a.md", "back again")
    assert folder.sync().new == {"a.md"}
    assert (folder.number("a.md"), folder.text("a.md")) == (number, "back again")


def test_deleted_folder_removes_its_files_and_marks(folder: Folder) -> None:
    (folder.root / "sub/deep/d.md").unlink()
    (folder.root / "sub/deep").rmdir()
    assert folder.sync().deleted == {"sub/deep/d.md"}
    assert set(folder.ledger.marks) == {"/", "sub/"}


def test_files_with_equal_content_are_separate_items(folder: Folder) -> None:
    folder.write("copy.md", "text of a.md")
    assert folder.sync().new == {"copy.md"}
    (folder.root / "a.md").unlink()
    assert folder.sync().deleted == {"a.md"}
    assert folder.text("copy.md") == "text of a.md"


def test_reused_inode_is_not_a_move(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unpacked packages share one fixed time, and common file systems reuse an inode at once."""
    fixed = (499_162_500, 499_162_500)
    os.utime(folder.write("package-1", "one"), fixed)
    folder.sync()
    old = (folder.root / "package-1").stat()
    (folder.root / "package-1").unlink()
    for attempt in range(200):
        path = folder.write(f"package-{attempt + 2}", "two")
        os.utime(path, fixed)
        if path.stat().st_ino == old.st_ino:
            break
    report = folder.sync()
    assert report.moved == {}
    assert folder.text(path.name) == "two"


def test_hard_links_are_separate_items_and_can_move(folder: Folder) -> None:
    (folder.root / "twin.md").hardlink_to(folder.root / "a.md")
    assert "twin.md" in folder.sync().new
    (folder.root / "twin.md").rename(folder.root / "sub/twin.md")
    assert folder.sync().moved == {"twin.md": "sub/twin.md"}
    assert folder.text("a.md") == folder.text("sub/twin.md") == "text of a.md"


def test_file_replaced_by_a_folder_and_back(folder: Folder) -> None:
    (folder.root / "a.md").unlink()
    folder.write("a.md/inside.md", "inside")
    report = folder.sync()
    assert (report.deleted, report.new) == ({"a.md"}, {"a.md/inside.md"})
    (folder.root / "a.md/inside.md").unlink()
    (folder.root / "a.md").rmdir()
    folder.write("a.md", "a file again")
    report = folder.sync()
    assert (report.deleted, report.new) == ({"a.md/inside.md"}, {"a.md"})
    assert folder.text("a.md") == "a file again"


def test_file_that_grows_while_it_is_read_is_retried(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder.write("growing.log", "first")
    read = file.read_all

    def read_while_it_grows(handle: int, size: int) -> bytes:
        with path.open("a") as writer:
            writer.write(" more")
        return read(handle, size)

    monkeypatch.setattr("connectors.local_files.read_all", read_while_it_grows)
    report = folder.sync()
    assert isinstance(report.failed["growing.log"], StillChanging)
    assert "growing.log" not in folder.ledger.documents()
    monkeypatch.undo()
    folder.sync()
    assert folder.text("growing.log") == "first more"


def test_file_changed_after_listing_waits_for_the_next_listing(folder: Folder) -> None:
    connector = LocalFiles(LocalFilesSettings(root=folder.root))
    folder.write("a.md", "second")
    folder.ledger.sync(connector, fetch=False)
    folder.write("a.md", "third, and longer")
    with pytest.raises(StillChanging):
        connector.fetch(folder.ledger.rows["a.md"].item)
    folder.sync()
    assert folder.text("a.md") == "third, and longer"


def test_deep_listing_detects_changes_without_new_times(folder: Folder) -> None:
    """Disk damage changes neither time nor size. The test changes the hash in the ledger instead."""
    folder.ledger.rows["a.md"].content_hash = "0" * 64
    assert folder.sync().item_changes == []
    report = folder.sync(deep=True)
    assert (report.changed, report.fetched) == ({"a.md"}, {"a.md"})
    assert folder.sync(deep=True).item_changes == []
    folder.ledger.marks.clear()
    assert folder.sync().item_changes == []
    (folder.root / "a.md").write_text("edited later")
    assert folder.sync().fetched == {"a.md"}


@pytest.mark.parametrize("way", ["whole", "late"])
def test_contents_are_compared_weekly_without_change_times(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    week = 7 * 24 * 3_600
    monkeypatch.setattr("connectors.folders.file.file_system", lambda path: 0x4D44)
    monkeypatch.setattr("connectors.folders.diff.time.time", lambda: 3_000.5 * week)
    assert folder.sync().item_changes == [], "the first listing compares all contents once"
    folder.ledger.rows["sub/c.md"].content_hash = "0" * 64
    monkeypatch.setattr("connectors.folders.diff.time.time", lambda: 3_000.9 * week)
    assert folder.sync().item_changes == []
    monkeypatch.setattr("connectors.folders.diff.time.time", lambda: 3_001.1 * week)
    if way == "late":
        folder.write("sub/new.md", "a folder with a new file is listed twice")
    assert folder.sync().changed == {"sub/c.md"}
    assert folder.sync().item_changes == []


def test_emptied_root_differs_from_a_replaced_root(folder: Folder) -> None:
    before = folder.ledger.root
    for path in sorted(folder.root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.sync()
    assert folder.ledger.root == before
    folder.root.rmdir()
    folder.root.with_name("taken").mkdir()  # may take the old root's inode, so that the new root gets another
    folder.root.mkdir()
    folder.sync()
    assert folder.ledger.root != before
