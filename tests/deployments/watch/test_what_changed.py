"""The changed paths suffice: after any history, comparing only them finds the same changes as a full comparison."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watchdog.observers.inotify_c import InotifyFD

from catchment.contracts import Watchable
from catchment.runtime.home import Home
from connectors.contract.memory_ledger import MemoryLedger
from connectors.local_files import LocalFiles, LocalFilesSettings
from deployments.watch.rules import FolderRules
from deployments.watch.tree import WatchEvent, WatchTree
from tests.connectors.test_any_history import Step, on_disk, steps
from tests.deployments.watch.conftest import StandinServer, add_source, watching
from tests.waiting import PATIENCE, until

_LAST = "zz-the-last-thing-that-happens"


class Ear:
    """The changed paths that a real tree of watches reports for a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._heard: SimpleQueue[str | WatchEvent] = SimpleQueue()
        self._count = 0

    def tell(self, sign: str | WatchEvent) -> None:
        self._heard.put(sign)

    def since(self) -> set[str | WatchEvent]:
        """Return the paths reported since the last call."""
        self._count += 1
        last = f"{_LAST}-{self._count}"
        (self.root / last).touch()
        (self.root / last).unlink()
        told: set[str | WatchEvent] = set()
        while (sign := self._heard.get(timeout=PATIENCE)) != last:
            told.add(sign)
        return {sign for sign in told if isinstance(sign, WatchEvent) or not sign.startswith(_LAST)}


@contextmanager
def listening(
    descriptor: InotifyFD, root: Path, home: Home, settings: LocalFilesSettings
) -> Iterator[tuple[Ear, WatchTree]]:
    ear = Ear(root)
    tree = WatchTree(descriptor, root, FolderRules("local_files", settings, home).watches, ear.tell)
    tree.start()
    try:
        yield ear, tree
    finally:
        tree.stop()


@pytest.fixture(scope="module")
def descriptor() -> Iterator[InotifyFD]:
    descriptor = InotifyFD()
    descriptor.start()
    yield descriptor
    descriptor.stop()


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(rounds=st.lists(st.lists(steps, min_size=1, max_size=6), min_size=1, max_size=5))
def test_changed_paths_suffice_after_any_history(descriptor: InotifyFD, rounds: list[list[Step]]) -> None:
    ledger = MemoryLedger()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "root"
        root.mkdir()
        wanted = LocalFilesSettings(root=root)
        connector = LocalFiles(wanted)
        ledger.sync(connector)
        with listening(descriptor, root, Home(Path(name) / "home"), wanted) as (ear, tree):
            for todo in rounds:
                for step, place, argument in todo:
                    step(root, place, argument)
                heard = ear.since()
                paths = {sign for sign in heard if isinstance(sign, str)}
                assert paths == heard
                decides = any(path.rpartition("/")[2] == ".catchmentignore" for path in paths)
                if decides:
                    # As the watcher does, because the set of included folders may have changed.
                    tree.start()
                ledger.sync(connector, paths=None if decides else paths)
                assert ledger.documents() == on_disk(root)
                assert ledger.sync(connector).item_changes == []


def test_moved_folder_moves_all_its_items(root: Path) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    (root / "Archive").mkdir()
    (root / "Projects" / "Deep").mkdir()
    (root / "Projects" / "Deep" / "a.md").write_text("a")
    ledger.sync(connector)
    (root / "Projects").rename(root / "Archive" / "Projects")
    report = ledger.sync(connector, paths={"Projects", "Archive/Projects"})
    assert report.moved == {
        "Projects/Plan.md": "Archive/Projects/Plan.md",
        "Projects/Deep/a.md": "Archive/Projects/Deep/a.md",
    }
    assert report.deleted == report.new == set()


def test_replaced_folder_is_compared_completely(root: Path) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    for name in ("one", "two"):
        (root / name / "below").mkdir(parents=True)
        (root / name / "below" / f"{name}.md").write_text(name)
    ledger.sync(connector)
    (root / "one").rename(root.parent / "elsewhere")
    (root / "two").rename(root / "one")
    ledger.sync(connector, paths={"one", "two"})
    assert ledger.documents() == on_disk(root)


def test_removed_folder_in_a_compared_one_is_found(root: Path) -> None:
    """Change folders as a copying program does: delete one, then set the modification time of its parent."""
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    (root / "Projects" / "Deep").mkdir()
    (root / "Projects" / "Deep" / "a.md").write_text("a")
    ledger.sync(connector)
    shutil.rmtree(root / "Projects" / "Deep")
    ledger.sync(connector, paths={"Projects", "Projects/Deep", "Projects/Deep/a.md"})
    assert ledger.documents() == on_disk(root)


def test_displaced_folder_is_moved_with_all_items(root: Path) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    for name in ("one/below", "two"):
        (root / name).mkdir(parents=True)
        (root / name / "note.md").write_text(name)
    ledger.sync(connector)
    (root / "one").rename(root / "old")
    (root / "two").rename(root / "one")
    report = ledger.sync(connector, paths={"one", "old", "two"})
    assert report.moved == {"one/below/note.md": "old/below/note.md", "two/note.md": "one/note.md"}
    assert report.deleted == report.new == set()


def test_folder_is_compared_completely_despite_changed_paths(root: Path) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    for name in ("one", "two"):
        (root / name / "between" / "below").mkdir(parents=True)
        (root / name / "between" / "below" / "note.md").write_text(name)
    ledger.sync(connector)
    shutil.rmtree(root / "one")
    (root / "two").rename(root / "one")
    (root / "one" / "between" / "new.md").write_text("new")
    ledger.sync(connector, paths={"one", "two", "one/between/new.md"})
    assert ledger.documents() == on_disk(root)


def test_only_folders_of_changed_paths_are_listed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    for number in range(5):
        (root / f"{number}").mkdir()
        (root / f"{number}" / "note.md").write_text("note")
    ledger.sync(connector)
    for number in range(5):
        (root / f"{number}" / "note.md").write_text("changed")
    assert isinstance(connector, Watchable)
    assert ledger.sync(connector, paths={"3/note.md"}).changed == {"3/note.md"}
    assert ledger.sync(connector).changed == {"0/note.md", "1/note.md", "2/note.md", "4/note.md"}


def test_changed_paths_are_kept_until_a_run_takes_them(home: Home, root: Path, standin: StandinServer) -> None:
    add_source(home, "notes", root)
    changes = standin.changes
    paths: set[str] = set()

    def taken() -> set[str]:
        hint = changes.take("notes")
        paths.update(hint.paths if hint else ())
        return paths

    with watching(home, standin):
        until(lambda: standin.events and changes.is_taken("notes"))
        standin.immediate = False
        (root / "Projects" / "Plan.md").write_text("changed")
        (root / "new.md").write_text("new")
        until(lambda: taken() == {"Projects/Plan.md", "new.md"})
        (root / "later.md").write_text("later")
        until(lambda: "later.md" in taken())
        (root / ".catchmentignore").write_text("*.txt\n")
        until(lambda: not changes.is_taken("notes") and changes.take("notes") is None)


def test_no_trailing_event_when_a_run_took_the_changes(home: Home, root: Path, standin: StandinServer) -> None:
    add_source(home, "notes", root, quiet=2.0)
    # A moved file is one change; a written file is several.
    for name in ("new.md", "newer.md"):
        (root.parent / name).write_text(name)
    with watching(home, standin):
        until(lambda: standin.events)
        (root.parent / "new.md").rename(root / "new.md")
        until(lambda: len(standin.events) == 2)
        (root.parent / "newer.md").rename(root / "newer.md")
        until(lambda: (hint := standin.changes.take("notes")) is not None and hint.paths == {"newer.md"})
        before = standin.looks
        time.sleep(2.5)
        assert standin.looks == before


def test_changes_after_the_start_of_a_run_lead_to_a_trailing_event(
    home: Home, root: Path, standin: StandinServer
) -> None:
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: standin.events)
        standin.immediate = False
        (root / "new.md").write_text("new")
        until(lambda: len(standin.events) == 2)
        standin.turn("RUNNING")
        standin.turn("PENDING")
        (root / "newer.md").write_text("newer")
        until(lambda: standin.looks >= 4)
        assert len(standin.events) == 2, "the worker is still starting the run before"
        standin.turn("COMPLETED")
        until(lambda: len(standin.events) == 3)
