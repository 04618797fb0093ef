"""Limits of watching: system limits, unreadable folders, network disks, and lost events."""

from __future__ import annotations

import errno
import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from watchdog.observers.inotify_c import CallbackId, InotifyFD, Mask, WatchCallback, WatchDescriptor

from catchment.runtime.home import Home
from catchment.runtime.system.disks import network_disk
from catchment.runtime.watch_status import Watching, read
from deployments.watch import source as source_module
from deployments.watch import watcher as watcher_module
from deployments.watch.tree import WatchEvent, WatchTree
from tests.deployments.watch.conftest import StandinServer, add_source, state_of, watching
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.usefixtures("swift")


class Scarce(InotifyFD):
    """An inotify instance that grants a number of watches, and refuses folders of one name."""

    grants = 1_000_000
    refuses = b"private"

    def add_callback(self, path: bytes, mask: Mask, callback: WatchCallback, id_: CallbackId) -> WatchDescriptor:
        if len(self._watch_for_wd) >= self.grants:
            raise OSError(errno.ENOSPC, "inotify watch limit reached")
        if path.endswith(self.refuses):
            return WatchDescriptor(-1)
        return super().add_callback(path, mask, callback, id_)


class Slow(InotifyFD):
    """An inotify instance that is not read before `may_read` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_read = threading.Event()

    def run(self) -> None:
        self.may_read.wait()
        super().run()


@pytest.fixture
def scarce() -> Iterator[Scarce]:
    descriptor = Scarce()
    descriptor.start()
    yield descriptor
    descriptor.stop()
    descriptor.join()


def told(signs: queue.Queue[str | WatchEvent], wanted: str | WatchEvent) -> None:
    """Wait for this event of the tree."""
    while signs.get(timeout=PATIENCE) != wanted:
        pass


def test_folders_above_the_limit_are_watched_when_it_is_raised(tmp_path: Path, scarce: Scarce) -> None:
    for number in range(10):
        (tmp_path / str(number)).mkdir()
    scarce.grants = 4
    signs: queue.Queue[str | WatchEvent] = queue.Queue()
    tree = WatchTree(scarce, tmp_path, lambda folder: True, signs.put)
    tree.start()
    assert tree.exhausted
    assert tree.folders == 4
    scarce.grants = 1_000
    tree.start()
    assert not tree.exhausted
    assert tree.folders == 11
    (tmp_path / "9" / "note.md").touch()
    told(signs, "9/note.md")


def test_source_above_the_limit_is_limited_and_partly_watched(
    home: Home, root: Path, standin: StandinServer, scarce: Scarce
) -> None:
    scarce.grants = 1
    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=lambda: scarce) as lines:
        until(lambda: len(standin.events) == 1)
        (root / "top.md").write_text("at the top")
        until(lambda: len(standin.events) == 2)
    assert lines == [
        "notes: limited: the limit of inotify watches is reached (watched folders: 1); "
        "sudo sysctl fs.inotify.max_user_watches=524288; until then the schedule finds the rest"
    ]


def test_watcher_reports_before_the_first_walk(home: Home, root: Path, standin: StandinServer, scarce: Scarce) -> None:
    was_listed = threading.Event()

    def open_late() -> Scarce:
        assert was_listed.wait(PATIENCE)
        return scarce

    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=open_late):
        try:
            until(lambda: read(home) is not None)
        finally:
            was_listed.set()
        until(lambda: state_of(home, "notes"))


def test_missing_inotify_instance_is_reported(home: Home, root: Path, standin: StandinServer) -> None:
    def refuse() -> InotifyFD:
        raise OSError(errno.EMFILE, "inotify instance limit reached")

    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=refuse):
        until(lambda: len(standin.events) == 1)
        until(lambda: state_of(home, "notes"))
        state = state_of(home, "notes")
    assert state is not None
    assert state.state is Watching.LIMITED
    assert "max_user_instances" in state.remedy


def test_unreadable_folder_is_counted_and_watched_later(
    home: Home, root: Path, standin: StandinServer, scarce: Scarce
) -> None:
    (root / "private").mkdir()
    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=lambda: scarce):
        until(lambda: state_of(home, "notes"))
        state = state_of(home, "notes")
        assert state is not None
        assert (state.state, state.reason) == (Watching.LIMITED, "unreadable folders: 1")
        (root / "private").rename(root / "public")
        until(lambda: len(standin.events) == 2)
        (root / "public" / "note.md").touch()
        until(lambda: len(standin.events) == 3)


def test_unreadable_root_is_reported_and_watched_later(
    home: Home, root: Path, standin: StandinServer, scarce: Scarce, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "_CHECK", 0.05)
    refused = root.rename(root.parent / "private")
    add_source(home, "notes", refused)
    with watching(home, standin, open_descriptor=lambda: scarce) as lines:
        until(lambda: lines)
        assert lines[0].startswith("notes: limited: folder not readable; ")
        until(lambda: len(standin.events) == 1)
        scarce.refuses = b"nothing"
        until(lambda: len(standin.events) == 2)
        (refused / "note.md").touch()
        until(lambda: len(standin.events) == 3)


def test_dropped_events_start_a_sync_and_watch_new_folders(home: Home, root: Path, standin: StandinServer) -> None:
    pair = [root / "a.md", root / "b.md"]
    for file in pair:
        file.touch()
    slow = Slow()
    slow.start()
    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=lambda: slow):
        until(lambda: len(standin.events) == 1)
        room = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
        for number in range(room + 10):
            os.utime(pair[number % 2])
        (root / "late").mkdir()
        slow.may_read.set()
        # The remaining events reach the watcher in several batches, each of which may start a sync.
        until(lambda: len(standin.events) >= 2)
        until(lambda: (state := state_of(home, "notes")) and state.folders == 3)
        before = len(standin.events)
        (root / "late" / "note.md").touch()
        until(lambda: len(standin.events) > before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_dead_inotify_thread_is_replaced(
    home: Home, root: Path, standin: StandinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "_CHECK", 0.05)
    dying = Slow()
    monkeypatch.setattr(dying, "read_events", None)
    descriptors = [InotifyFD(), dying]
    descriptors[0].start()
    dying.start()
    add_source(home, "notes", root)
    with watching(home, standin, open_descriptor=descriptors.pop) as lines:
        until(lambda: len(standin.events) == 1)
        dying.may_read.set()
        until(lambda: len(standin.events) == 2)
        (root / "note.md").touch()
        until(lambda: len(standin.events) == 3)
    assert "the watching thread died; watching restarts" in lines


def test_unanswered_events_are_reported(
    home: Home, root: Path, standin: StandinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.watch.debounce._FIRST_ANSWER", 0.05)
    standin.forgets = True
    add_source(home, "notes", root)
    with watching(home, standin) as lines:
        until(lambda: any("no sync starts" in line for line in lines))
        standin.forgets = False
        until(lambda: (state := state_of(home, "notes")) and state.state is Watching.WATCHING)


def test_network_disk_is_reported(
    home: Home, root: Path, standin: StandinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_module, "network_disk", lambda path: "NFS")
    add_source(home, "notes", root)
    with watching(home, standin) as lines:
        until(lambda: lines)
    assert lines[0].startswith("notes: limited: on NFS, which does not report changes by other computers; ")


@pytest.mark.parametrize(
    ("number", "name"), [(0x6969, "NFS"), (0xFF534D42, "SMB"), (0xEF53, None), (0x9123683E, None), (None, None)]
)
def test_network_file_systems_are_known_by_magic_number(
    number: int | None, name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.runtime.system.disks.file_system", lambda path: number)
    assert network_disk(tmp_path) == name


def test_local_disk_is_no_network_disk(tmp_path: Path) -> None:
    assert network_disk(tmp_path) is None
    assert network_disk(tmp_path / "absent") is None


def test_completely_watched_folder_is_walked_once(
    home: Home, root: Path, standin: StandinServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[WatchTree] = []
    start = WatchTree.start

    def counted(tree: WatchTree) -> None:
        walks.append(tree)
        start(tree)

    monkeypatch.setattr(WatchTree, "start", counted)
    monkeypatch.setattr(source_module, "network_disk", lambda path: "NFS")
    for interval in ("_CHECK", "_COMPLETE"):
        monkeypatch.setattr(watcher_module, interval, 0.02)
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        (root / "note.md").touch()
        until(lambda: len(standin.events) == 2)
    assert len(walks) == 1
