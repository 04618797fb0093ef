"""What the watcher hears is enough: after any history, looking only there leaves nothing for a look at everything."""

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
from connectors.local_files import LocalFiles, LocalFilesSettings
from deployments.watch.rules import FolderRules
from deployments.watch.tree import WatchEvent, WatchTree
from tests.connectors.memory_ledger import MemoryLedger
from tests.connectors.test_any_history import Step, on_disk, steps
from tests.deployments.watch.conftest import StandinServer, add_source, watching
from tests.waiting import PATIENCE, until

_LAST = "zz-the-last-thing-that-happens"


class Ear:
    """What a real tree of watches tells of a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._heard: SimpleQueue[str | WatchEvent] = SimpleQueue()
        self._count = 0

    def tell(self, sign: str | WatchEvent) -> None:
        self._heard.put(sign)

    def since(self) -> set[str | WatchEvent]:
        """All that was told since this was asked last."""
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
def test_after_any_history_looking_where_something_changed_leaves_nothing_to_find(
    descriptor: InotifyFD, rounds: list[list[Step]]
) -> None:
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
                    # As the watcher does: other folders may be wanted now.
                    tree.start()
                ledger.sync(connector, paths=None if decides else paths)
                assert ledger.documents() == on_disk(root)
                assert ledger.sync(connector).item_changes == []


def test_a_folder_that_is_moved_is_a_move_of_all_that_is_in_it(root: Path) -> None:
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


def test_a_folder_that_another_took_the_place_of_is_looked_at_whole(root: Path) -> None:
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    for name in ("one", "two"):
        (root / name / "below").mkdir(parents=True)
        (root / name / "below" / f"{name}.md").write_text(name)
    ledger.sync(connector)
    (root / "one").rename(root.parent / "elsewhere")
    (root / "two").rename(root / "one")
    ledger.sync(connector, paths={"one", "two"})
    assert ledger.documents() == on_disk(root)


def test_a_folder_that_is_gone_from_one_that_is_looked_at_whole_is_missed(root: Path) -> None:
    """As a copying program does it: it deletes a folder, and then sets the time of the one that it was in."""
    ledger, connector = MemoryLedger(), LocalFiles(LocalFilesSettings(root=root))
    (root / "Projects" / "Deep").mkdir()
    (root / "Projects" / "Deep" / "a.md").write_text("a")
    ledger.sync(connector)
    shutil.rmtree(root / "Projects" / "Deep")
    ledger.sync(connector, paths={"Projects", "Projects/Deep", "Projects/Deep/a.md"})
    assert ledger.documents() == on_disk(root)


def test_what_another_folder_took_the_place_of_is_moved_with_all_below_it(root: Path) -> None:
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


def test_a_folder_is_looked_at_whole_though_something_in_it_was_told_too(root: Path) -> None:
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


def test_only_the_folders_of_what_changed_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
        paths.update(changes.take("notes") or ())
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
    # A file that is moved is one change; one that is written is several.
    for name in ("new.md", "newer.md"):
        (root.parent / name).write_text(name)
    with watching(home, standin):
        until(lambda: standin.events)
        (root.parent / "new.md").rename(root / "new.md")
        until(lambda: len(standin.events) == 2)
        (root.parent / "newer.md").rename(root / "newer.md")
        until(lambda: standin.changes.take("notes") == {"newer.md"})
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
