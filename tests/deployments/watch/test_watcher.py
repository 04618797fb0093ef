"""What a person does to files, and the syncs that are asked for: real folders, and a stand-in for the server."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from catchment.home import Home
from tests.deployments.watch.conftest import (
    StandinServer,
    add_source,
    until,
    watching,
)


def in_place(root: Path) -> None:
    (root / "Projects" / "Plan.md").write_text("another plan")


def by_rename(root: Path) -> None:
    """As vim, VS Code and Obsidian save: beside it, then over it."""
    beside = root / "Projects" / ".Plan.md.swp"
    beside.write_text("another plan")
    beside.replace(root / "Projects" / "Plan.md")


def moved_in(root: Path) -> None:
    outside = root.parent / "outside.md"
    outside.write_text("from elsewhere")
    outside.rename(root / "outside.md")


def folder_moved_in(root: Path) -> None:
    (root.parent / "outside").mkdir()
    (root.parent / "outside" / "note.md").write_text("from elsewhere")
    (root.parent / "outside").rename(root / "inside")


def folder_moved(root: Path) -> None:
    (root / "Projects").rename(root / "Archive")


def moved_out(root: Path) -> None:
    (root / "Projects" / "Plan.md").rename(root.parent / "Plan.md")


def deleted(root: Path) -> None:
    (root / "Projects" / "Plan.md").unlink()


def folder_deleted(root: Path) -> None:
    shutil.rmtree(root / "Projects")


def ignore_file_written(root: Path) -> None:
    (root / "Projects" / ".catchmentignore").write_text("Plan.md")


def edited_without_a_trace(root: Path) -> None:
    """Same size, same time of writing: only the time of the change tells."""
    plan = root / "Projects" / "Plan.md"
    before = plan.stat()
    plan.write_text("nalp")
    os.utime(plan, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        in_place,
        by_rename,
        moved_in,
        folder_moved_in,
        folder_moved,
        moved_out,
        deleted,
        folder_deleted,
        ignore_file_written,
        edited_without_a_trace,
    ],
)
def test_a_change_is_followed_by_one_sync(
    change: Callable[[Path], None], home: Home, root: Path, standin: StandinServer
) -> None:
    add_source(home, "notes", root)
    with watching(home):
        until(lambda: len(standin.events) == 1, "the first look at a source is a sync")
        change(root)
        until(lambda: len(standin.events) == 2, "the change was not noticed")
        # A change elsewhere is asked for apart, so that a third event of the first one would show.
        (root / "marker.md").write_text("marker")
        until(lambda: len(standin.events) == 3, "the marker was not noticed")
    assert standin.events == ["notes"] * 3
