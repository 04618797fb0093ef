"""The inotify watches of one tree while folders are added, moved and removed."""

from __future__ import annotations

import os
import queue
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from watchdog.observers.inotify_c import CallbackId, InotifyFD, WatchDescriptor

from deployments.watch.tree import RemovedFolder, WatchEvent, WatchTree
from tests.waiting import PATIENCE

Signs = queue.Queue[str | WatchEvent]


@pytest.fixture
def signs() -> Signs:
    return queue.Queue()


@pytest.fixture
def tree(root: Path, signs: Signs) -> Iterator[WatchTree]:
    descriptor = InotifyFD()
    descriptor.start()
    tree = WatchTree(descriptor, root, lambda folder: not folder.rpartition("/")[2].startswith("."), signs.put)
    tree.start()
    yield tree
    descriptor.stop()
    descriptor.join()


def told(signs: Signs, wanted: str | WatchEvent) -> list[str | WatchEvent]:
    """Wait for this event of the tree. Returns the events before it."""
    before = []
    while (sign := signs.get(timeout=PATIENCE)) != wanted:
        before.append(sign)
    return before


def test_moved_folder_is_reported_at_its_new_path(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / "Projects" / "Deep").mkdir()
    told(signs, "Projects/Deep")
    (root / "Projects").rename(root / "Archive")
    told(signs, "Archive")
    (root / "Archive" / "Deep" / "note.md").touch()
    assert not [sign for sign in told(signs, "Archive/Deep/note.md") if str(sign).startswith("Projects/")]
    assert tree.folders == 3


def test_folder_moved_out_is_no_longer_watched(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / "Projects").rename(root.parent / "Projects")
    told(signs, "Projects")
    assert tree.folders == 1


def test_folder_moved_over_an_empty_one_is_watched(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / "Empty").mkdir()
    told(signs, "Empty")
    (root / "Projects").rename(root / "Empty")
    (root / "marker.md").touch()
    told(signs, "marker.md")
    (root / "Empty" / "new.md").touch()
    told(signs, "Empty/new.md")


def move_away(root: Path) -> None:
    root.rename(root.parent / "elsewhere")


@pytest.mark.parametrize("lose", [move_away, shutil.rmtree])
def test_loss_of_the_root_is_reported_at_once(
    lose: Callable[[Path], None], root: Path, tree: WatchTree, signs: Signs
) -> None:
    lose(root)
    told(signs, WatchEvent.ROOT)


def test_excluded_folders_are_not_watched(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / ".git" / "objects").mkdir(parents=True)
    (root / ".git" / "objects" / "pack").touch()
    (root / "marker.md").touch()
    assert not [sign for sign in told(signs, "marker.md") if str(sign).startswith(".git/")]
    assert tree.folders == 2


def test_reading_a_file_emits_no_event(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / "Projects" / "Plan.md").read_text()
    list(root.rglob("*"))
    (root / "marker.md").touch()
    assert told(signs, "marker.md") == []


def test_folder_links_are_not_followed_except_the_root(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root.parent / "elsewhere").mkdir()
    (root / "link").symlink_to(root.parent / "elsewhere")
    told(signs, "link")
    assert tree.folders == 2
    (root.parent / "alias").symlink_to(root)
    descriptor = InotifyFD()
    descriptor.start()
    other: Signs = queue.Queue()
    WatchTree(descriptor, root.parent / "alias", lambda folder: True, other.put).start()
    (root / "Projects" / "new.md").touch()
    told(other, "Projects/new.md")
    descriptor.stop()
    descriptor.join()


def test_non_utf8_name_is_reported_as_by_os(root: Path, tree: WatchTree, signs: Signs) -> None:
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.md")).touch()
    told(signs, os.fsdecode(b"caf\xe9.md"))


def test_two_trees_on_the_same_folders_are_independent(root: Path) -> None:
    descriptor = InotifyFD()
    descriptor.start()
    outer: Signs = queue.Queue()
    inner: Signs = queue.Queue()
    first = WatchTree(descriptor, root, lambda folder: True, outer.put)
    second = WatchTree(descriptor, root / "Projects", lambda folder: True, inner.put)
    first.start()
    second.start()
    (root / "Projects" / "a.md").touch()
    told(outer, "Projects/a.md")
    told(inner, "a.md")
    first.stop()
    (root / "Projects" / "b.md").touch()
    told(inner, "b.md")
    descriptor.stop()
    descriptor.join()


def test_folder_moved_out_is_reported_as_removed_folder(root: Path, tree: WatchTree, signs: Signs) -> None:
    (root / "Projects" / "Plan.md").rename(root.parent / "Plan.md")
    (root / "Projects").rename(root.parent / "Projects")
    gone = [signs.get(timeout=PATIENCE) for _ in range(2)]
    assert [(sign, isinstance(sign, RemovedFolder)) for sign in gone] == [
        ("Projects/Plan.md", False),
        ("Projects", True),
    ]


def test_unreadable_folder_leaves_no_callback(root: Path, signs: Signs) -> None:
    kept: set[object] = set()

    class Refusing:
        """Return -1, as watchdog does if access is refused."""

        def add_callback(self, path: bytes, _mask: object, _callback: object, id_: CallbackId) -> WatchDescriptor:
            kept.add(id_)
            return WatchDescriptor(-1 if path.endswith(b"Projects") else 1)

        def remove_callbacks(self, callbacks: list[tuple[WatchDescriptor, CallbackId]]) -> None:
            kept.difference_update(id_ for _, id_ in callbacks)

    tree = WatchTree(Refusing(), root, lambda folder: True, signs.put)
    for _ in range(3):
        tree.start()
    assert (tree.unreadable, len(kept)) == (1, 1)


def test_stopped_tree_emits_no_events(root: Path, tree: WatchTree, signs: Signs) -> None:
    tree.stop()
    tree.stop()
    assert tree.folders == 0
    (root / "note.md").touch()
    tree.start()
    (root / "marker.md").touch()
    assert told(signs, "marker.md") == []
