"""Temporary changes during an incomplete sync leave no trace, at any position in the listing, for any end of the sync."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from catchment.ledger import Ledger
from connectors.folders import diff, file_diff
from connectors.folders.scan import FolderListing, Lister, ScannedFolder
from tests.engine.disk import Disk
from tests.engine.whole import Disturbance, Engine

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600), pytest.mark.long]
FILES = ("a.md", "sub/a.md", "sub/b.md", "sub/deep/c.md", "sub/deep/d.md", "other/e.md")

_STEP = 3
"""Ordinary runs test every n-th position; longer runs test all."""

REFUSED: set[str] = set()
"""Folders that cannot be listed. File permissions do not stop root."""


def rename(old: str, new: str) -> Callable[[Disk], None]:
    return lambda disk: (disk.root / old).rename(disk.root / new) and None


def rule(text: str) -> Callable[[Disk], None]:
    return lambda disk: (disk.root / ".catchmentignore").write_text(text) and None


def no_rule(disk: Disk) -> None:
    (disk.root / ".catchmentignore").unlink()


def another_disk(disk: Disk) -> None:
    disk.put_another()
    disk.write("sub/a.md", "")


MEANWHILE = {
    "a folder has another name, and a file has changed": (
        lambda disk: [disk.edit("a.md", ""), rename("sub", "new")(disk)],
        rename("new", "sub"),
    ),
    "a folder has another name": (rename("sub", "new"), rename("new", "sub")),
    "a folder is in another one": (rename("sub", "other/sub"), rename("other/sub", "sub")),
    "two folders have each other's name": (
        lambda disk: [rename(*names)(disk) for names in (("sub", "aside"), ("other", "sub"), ("aside", "other"))],
        lambda disk: [rename(*names)(disk) for names in (("sub", "aside"), ("other", "sub"), ("aside", "other"))],
    ),
    "a file has another name": (rename("sub/a.md", "sub/new.md"), rename("sub/new.md", "sub/a.md")),
    "two files have each other's name": (
        lambda disk: disk.swap("sub/a.md", "sub/deep/c.md"),
        lambda disk: disk.swap("sub/a.md", "sub/deep/c.md"),
    ),
    "a folder is not wanted": (rule("sub\n"), no_rule),
    "a rule is in a folder": (
        lambda disk: (disk.root / "sub/.catchmentignore").write_text("*\n"),
        lambda disk: (disk.root / "sub/.catchmentignore").unlink(),
    ),
    "a rule in a folder is too long to be read": (
        lambda disk: (disk.root / "sub/.catchmentignore").write_bytes(b"#" * 2_000_000),
        lambda disk: (disk.root / "sub/.catchmentignore").unlink(),
    ),
    "a folder below may not be read": (lambda _disk: REFUSED.add("sub/deep"), lambda _disk: REFUSED.clear()),
    "another disk is mounted": (another_disk, Disk.bring_back),
    "a copy of the disk is mounted": (Disk.put_copy, Disk.put_copy),
}
ENDS = {
    "breaks off": lambda engine, at: engine.sync_disturbed("papers", at, Disturbance.BREAKS_OFF),
    "stops": lambda engine, at: engine.sync_disturbed("papers", at, Disturbance.STOPS),
    "is killed": lambda engine, at: engine.sync_killed("papers", at),
}


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    # The default would report so few files before the first checkpoint.
    monkeypatch.setattr(diff, "_CHANGES_PER_CHECKPOINT", 1)
    for module in (diff, file_diff):
        monkeypatch.setattr(module, "UNCHANGED_PER_CHECKPOINT", 1)
    list_it = Lister.list

    def list_or_refuse(lister: Lister, folder: ScannedFolder) -> FolderListing:
        if folder.relative in REFUSED:
            raise PermissionError(errno.EACCES, "may not be read")
        return list_it(lister, folder)

    monkeypatch.setattr(Lister, "list", list_or_refuse)
    REFUSED.clear()
    Ledger.open(f"sqlite:///{tmp_path}/empty.db").close()
    engine = Engine(tmp_path, tmp_path / "empty.db")
    yield engine
    assert engine.ledger.check(deep=True) == []
    engine.close()


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("what", MEANWHILE)
def test_temporary_changes_during_an_incomplete_sync_leave_no_trace(
    engine: Engine, what: str, how: str, times: int
) -> None:
    disk, (begin, undo) = engine.disks["papers"], MEANWHILE[what]
    step = _STEP if times == 1 else 1
    for place in FILES:
        disk.write(place, "")
    engine.sync("papers")
    came_to_it, places = True, count(random.randrange(step), step)
    while came_to_it:
        begin(disk)
        came_to_it = ENDS[how](engine, at := next(places))
        undo(disk)
        engine.sync("papers")
        library = {place: words for place, (_, words) in engine.shelf("papers").items()}
        assert library == {place: seen.words for place, seen in disk.files().items()}, f"it ended at {at}"
        assert not engine.missing("papers")
        assert engine.ledger.quarantine.list() == []
