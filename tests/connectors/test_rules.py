"""File selection by patterns and ignore files, and its effect on known items when it changes; mounted disks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from catchment.contracts import Known
from catchment.errors import FailureClass, SkipReason, SourceUnavailable
from catchment.model import Change, Tombstone
from connectors.contract.memory_ledger import MemoryLedger
from connectors.folders.ignore import IgnoreRules
from connectors.folders.scan import FolderListing, Lister, ScannedFolder
from connectors.local_files import LocalFiles, LocalFilesSettings

FILES = ("a.md", "a.tmp", "build/out.md", "src/build/kept.md", "src/a.txt", ".hidden/b.md", ".c.md", ".git/config")


@pytest.fixture
def tree(root: Path) -> Path:
    return with_files(root)


def with_files(root: Path) -> Path:
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return root


def source(root: Path, **settings: object) -> LocalFiles:
    return LocalFiles(LocalFilesSettings.model_validate({"root": root, **settings}))


def listed(root: Path, **settings: object) -> set[str]:
    ledger = MemoryLedger()
    ledger.sync(source(root, **settings))
    return set(ledger.documents())


@pytest.mark.timeout(20)
def test_ignore_file_with_many_stars_matches_quickly(root: Path) -> None:
    name = "a" * 200
    deep = root.joinpath(*"a" * 200)
    deep.mkdir(parents=True)
    for folder in (root, deep):
        (folder / f"{name}.md").write_text("kept")
        (folder / f"{name}b").write_text("left out")
    (root / ".gitignore").write_text("*a*a*a*a*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/a/**/b\n")
    assert {locator.rpartition("/")[2] for locator in listed(root)} == {f"{name}.md"}


def test_invalid_lines_of_an_ignore_file_are_skipped(tree: Path) -> None:
    (tree / ".gitignore").write_text("[z-a]\n\\\n*.tmp\n")
    assert listed(tree) == {"a.md", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_character_classes_in_exclude(tree: Path) -> None:
    assert listed(tree, exclude=("[[:alpha:]].[!m][[:lower:]]*",)) == {"a.md", "build/out.md", "src/build/kept.md"}


def test_hidden_files_are_excluded_by_default(tree: Path) -> None:
    assert listed(tree) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_hidden_files_can_be_included_except_gits_own(tree: Path) -> None:
    assert listed(tree, hidden=True) - listed(tree) == {".hidden/b.md", ".c.md"}


TEMPORARY = (
    *("~$Plan.docx", "~WRL0001.tmp", ".~lock.Plan.odt#", "Plan.docx.sb-1a2b3c4d-AbCdEf", "#a.md#", ".#a.md", "a.md~"),
    *(".a.md.swp", "a.md.swp", ".a.md.kate-swp", ".goutputstream-X1Y2Z3", "a.md.tmp.12345", "a.md.tmp"),
    *(".syncthing.a.md.tmp", "~syncthing~a.md.tmp", ".a.md.icloud", "._a.md", ".DS_Store", "Thumbs.db", "desktop.ini"),
    *("a.pdf.crdownload", "Unconfirmed 388.crdownload", "a.docx.part", "a.PARTIAL", "a.aria2", "a.opdownload", "a.!ut"),
    *(
        "a.pdf.filepart",
        "a.pdf.dtapart",
        "a.pdf.ffs_tmp",
        "a.!qB",
        "a.!bt",
        "a.jc!",
        "a.bc!",
        "a.pdf.download",
        ".nfs0001",
        ".fuse_hidden0001",
    ),
)


@pytest.mark.parametrize("hidden", [False, True])
def test_temporary_files_of_other_programs_are_excluded(root: Path, hidden: bool) -> None:
    kept = {"a.md.bak", "a.md.orig", "a.tmp", "v1.2.tmp", "#1.md", "~a.md", "a~1.md", "part.md", "sketch.swf"}
    for name in (*TEMPORARY, *kept):
        (root / name).write_text(name)
    assert listed(root, hidden=hidden) == kept
    connector = source(root, hidden=hidden)
    assert {connector.why_not(name) for name in TEMPORARY} == {"a temporary file of another program"}
    assert {connector.why_not(name) for name in kept} == {None}


def test_folder_of_a_download_is_excluded_and_other_folders_have_any_name(root: Path) -> None:
    for name in ("plan.pdf.download/plan.pdf", "old~/a.md", "violin.part/b.md", "#c#/c.md"):
        (root / name).parent.mkdir()
        (root / name).write_text(name)
    assert listed(root) == {"old~/a.md", "violin.part/b.md", "#c#/c.md"}
    assert source(root).why_not("plan.pdf.download/plan.pdf") == "a temporary file of another program"


def test_temporary_file_is_read_when_it_gets_its_name(root: Path, ledger: MemoryLedger) -> None:
    (root / "plan.md.part").write_text("half")
    assert ledger.sync(source(root)).item_changes == []
    (root / "plan.md.part").rename(root / "plan.md")
    assert ledger.sync(source(root)).fetched == {"plan.md"}


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (["*.md"], [], {"a.md", "build/out.md", "src/build/kept.md"}),
        (["*.md", "!kept.md"], [], {"a.md", "build/out.md"}),
        (["src/**"], [], {"src/build/kept.md", "src/a.txt"}),
        ([], ["/build/", "*.tmp"], {"a.md", "src/build/kept.md", "src/a.txt"}),
        ([], ["build/"], {"a.md", "a.tmp", "src/a.txt"}),
        (["*.md"], ["src"], {"a.md", "build/out.md"}),
    ],
)
def test_patterns_include_and_exclude(tree: Path, include: list[str], exclude: list[str], expected: set[str]) -> None:
    assert listed(tree, include=include, exclude=exclude) == expected


def test_lines_of_an_ignore_file_end_as_in_git(root: Path) -> None:
    for name in ("one\u2028two.md", "two.md", "three\x0cfour.md", "four.md", "five.md", "kept.md"):
        (root / name).write_text(name)
    (root / ".gitignore").write_bytes("one\u2028two.md\nthree\x0cfour.md\r\nfive.md\r\n".encode())
    assert listed(root) == {"two.md", "four.md", "kept.md"}


@pytest.mark.parametrize("exclude", [(), ("*.tmp",)])
def test_gits_own_data_is_never_content(tree: Path, exclude: tuple[str, ...]) -> None:
    (tree / "src" / ".git").write_text("gitdir: /elsewhere/.git/modules/src\n")
    assert {name for name in listed(tree, hidden=True, exclude=exclude) if ".git" in name.split("/")} == set()


def test_deeper_ignore_files_override_others(tree: Path) -> None:
    (tree / ".gitignore").write_text("# comment\n*.md\n\\\n!/a.md\n")
    (tree / "src" / ".catchmentignore").write_text("!kept.md\n/a.txt\n")
    assert listed(tree) == {"a.md", "a.tmp", "src/build/kept.md"}
    assert listed(tree, gitignore=False) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md"}
    assert "src/a.txt" in listed(tree, ignore_file=None)


def test_settings_override_ignore_files(tree: Path) -> None:
    (tree / ".gitignore").write_text("!*.tmp\n")
    assert "a.tmp" not in listed(tree, exclude=["*.tmp"])


def test_links_and_folders_named_like_ignore_files_are_ignored(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("*\n")
    (tree / ".gitignore").symlink_to(tmp_path / "elsewhere")
    (tree / ".catchmentignore").mkdir()
    (tree / "src" / ".gitignore").write_bytes(b"\xff\xfe*\xe9\n")
    assert listed(tree) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_folder_with_unreadable_ignore_file_is_not_listed(
    shared_root: Path, ledger: MemoryLedger, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    tree = with_files(shared_root)
    ignore = tree / "src" / ".gitignore"
    ignore.write_text("secret.txt\n")
    ledger.sync(source(tree))
    (tree / "src" / "secret.txt").write_text("not for the library")
    (tree / "new.md").write_text("new")
    ignore.chmod(0)
    with unprivileged():
        report = ledger.sync(source(tree))
    assert report.fetched == {"new.md"}
    assert report.deleted == set()
    assert set(report.failed) == {"src/"}
    assert ".gitignore cannot be read (permission denied)" in str(report.failed["src/"])
    ignore.chmod(0o644)
    assert ledger.sync(source(tree)).fetched == set()
    assert "src/secret.txt" not in ledger.documents()
    assert "src/" not in ledger.present()


@pytest.mark.parametrize("text", ["no-such-file\n" * 5_001, "a\n" * 500_000, "a*" * 500_000, "a*" * 90_000])
def test_folder_with_oversized_ignore_file_is_not_listed(tree: Path, ledger: MemoryLedger, text: str) -> None:
    (tree / "src" / ".gitignore").write_text(f"{text}a.txt\n")
    began = time.process_time()
    report = ledger.sync(source(tree))
    assert time.process_time() - began < 2
    assert "file too large: more than 5,000 lines, 200 kB, or 4,096 characters in a line" in str(report.failed["src/"])
    assert "shorten it, or delete it" in str(report.failed["src/"])
    assert report.failed["src/"].failure_class is FailureClass.PERMANENT
    assert not {"src/a.txt", "src/build/kept.md"} & set(ledger.documents())


def test_oversized_ignore_file_at_the_root_stops_the_sync(tree: Path, ledger: MemoryLedger) -> None:
    (tree / ".gitignore").write_text("a.md\n" * 5_001)
    with pytest.raises(SourceUnavailable, match=r"\.gitignore .*5,000 lines.*; shorten it, or delete it"):
        ledger.sync(source(tree))
    assert ledger.documents() == {}


def test_largest_allowed_ignore_file_is_used(tree: Path, ledger: MemoryLedger) -> None:
    (tree / "src" / ".gitignore").write_text("no-such-file\n" * 4_999 + "a.txt\n")
    report = ledger.sync(source(tree))
    assert not report.failed
    assert "src/a.txt" not in ledger.documents() and "src/build/kept.md" in ledger.documents()


def test_unreadable_ignore_file_at_the_root_stops_the_sync(
    shared_root: Path, ledger: MemoryLedger, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    tree = with_files(shared_root)
    (tree / ".catchmentignore").write_text("a.md\n")
    (tree / ".catchmentignore").chmod(0)
    with unprivileged(), pytest.raises(SourceUnavailable, match="catchmentignore cannot be read"):
        ledger.sync(source(tree))
    assert ledger.documents() == {}


def test_excluding_a_known_item_skips_it_without_deleting(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    (tree / ".catchmentignore").write_text("*.tmp\n/src/\n")
    report = ledger.sync(source(tree))
    assert report.deleted == set()
    assert report.skipped == dict.fromkeys(("a.tmp", "src/a.txt", "src/build/kept.md"), SkipReason.EXCLUDED)
    assert ledger.sync(source(tree)).item_changes == []
    (tree / ".catchmentignore").unlink()
    assert ledger.sync(source(tree)).fetched == {"a.tmp", "src/a.txt", "src/build/kept.md"}
    assert ledger.sync(source(tree)).item_changes == []


def test_deleting_an_excluded_item_is_a_deletion(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    ledger.sync(source(tree, exclude=["/src/", "*.tmp"]))
    (tree / "src" / "a.txt").unlink()
    (tree / "src" / "build" / "kept.md").unlink()
    (tree / "src" / "build").rmdir()
    (tree / "src").rmdir()
    (tree / "a.tmp").unlink()
    report = ledger.sync(source(tree, exclude=["/src/", "*.tmp"]))
    assert report.deleted == {"src/a.txt", "src/build/kept.md", "a.tmp"}


def test_excluded_file_renamed_to_an_included_name_is_read(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    ledger.sync(source(tree, exclude=["*.tmp"]))
    (tree / "a.tmp").rename(tree / "wanted.md")
    report = ledger.sync(source(tree, exclude=["*.tmp"]))
    assert (report.moved, report.fetched) == ({}, {"wanted.md"})


def test_unchanged_folders_are_not_compared_with_the_ledger(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    (tree / "src" / "a.txt").write_text("edited")
    known = ledger.known()
    list(source(tree).changes(known))
    assert known.asked == ["src"]


def test_why_not_names_the_rule(tree: Path) -> None:
    (tree / "src" / ".gitignore").write_text("*.txt\n")
    connector = source(tree, exclude=["/build/"], include=["*.md", "*.txt"])
    assert connector.why_not("a.md") is None
    assert connector.why_not("src/a.txt") == "excluded by src/.gitignore"
    assert connector.why_not("build/out.md") == "excluded by the source's settings"
    assert connector.why_not("a.tmp") == "not included by the source's settings"
    assert connector.why_not(".hidden/b.md") == "hidden"


def test_invalid_settings_are_rejected_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="root must be a full path, such as /home/me/Documents"):
        LocalFilesSettings(root=Path("Documents"))
    with pytest.raises(ValidationError, match="not a pattern"):
        LocalFilesSettings(root=tmp_path, exclude=("!",))
    with pytest.raises(ValidationError, match="Extra inputs"):
        LocalFilesSettings.model_validate({"root": tmp_path, "exlude": []})
    assert LocalFilesSettings(root=Path("~/notes")).root == Path.home() / "notes"


def test_unmounted_folder_keeps_its_known_items(tree: Path, ledger: MemoryLedger) -> None:
    """The mark claims that `src` was a mount point; mounting a real disk needs privileges that tests may lack."""
    ledger.sync(source(tree))
    ledger.marks["src/"] += "@"
    (tree / "src").rename(tree.parent / "disk")
    (tree / "src").mkdir()
    report = ledger.sync(source(tree))
    assert (set(report.failed), report.deleted) == ({"src/"}, set())
    assert ledger.sync(source(tree)).item_changes == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())
    (tree / "src").rmdir()
    assert ledger.sync(source(tree)).deleted == {"src/", "src/a.txt", "src/build/kept.md"}


class Unplugged(LocalFiles):
    """A source on a disk, mounted at `place`, that is removed when the source reports the deletion of the file `last`."""

    settings: ClassVar = LocalFilesSettings
    place: Path
    last = "z/last.md"

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        for change in super().changes(known, deep=deep):
            yield change
            if change == Tombstone(self.last):
                self.place.rename(self._tree.root.with_name("disk"))
                self.place.mkdir()


def unplugged(root: Path, place: Path) -> Unplugged:
    connector = Unplugged(LocalFilesSettings(root=root))
    connector.place = place
    return connector


@pytest.fixture
def last(tree: Path) -> Path:
    """The file listed last."""
    last = tree / "z/last.md"
    last.parent.mkdir()
    last.write_text("last")
    return last


def test_disk_unmounted_before_the_second_look_keeps_its_items(tree: Path, last: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    ledger.marks["src/"] += "@"
    (tree / "src/new.md").write_text("new")
    last.unlink()
    report = ledger.sync(unplugged(tree, tree / "src"))
    assert (set(report.failed), report.deleted) == ({"src/"}, {"z/last.md"})
    assert ledger.sync(source(tree)).item_changes == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())


@pytest.fixture
def disk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `src`, treated as a mount point while it contains anything."""
    src, listed = tree / "src", Lister.list

    def list_there(lister: Lister, folder: ScannedFolder) -> FolderListing:
        listing = listed(lister, folder)
        if Path(folder.path).is_relative_to(src) and any(src.iterdir()):
            listing.device += 1
        return listing

    monkeypatch.setattr(Lister, "list", list_there)
    return src


def test_remounted_disk_clears_the_failure(tree: Path, disk: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    disk.rename(tree.parent / "disk")
    disk.mkdir()
    assert set(ledger.sync(source(tree)).failed) == {"src/"}
    disk.rmdir()
    (tree.parent / "disk").rename(disk)
    assert ledger.sync(source(tree)).deleted == {"src/"}
    assert ledger.sync(source(tree)).item_changes == []


def test_disk_unmounted_during_listing_keeps_its_items(tree: Path, disk: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    (disk / "last.md").write_text("last")
    ledger.sync(source(tree))
    (disk / "last.md").unlink()
    connector = unplugged(tree, disk)
    connector.last = "src/last.md"
    report = ledger.sync(connector)
    assert (set(report.failed), report.deleted) == ({"src/"}, {"src/last.md"})
    assert ledger.sync(source(tree)).item_changes == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())


def test_root_replaced_before_the_second_look_stops_the_sync(tree: Path, last: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    (tree / "new.md").write_text("new")
    last.unlink()
    last.parent.rmdir()
    with pytest.raises(SourceUnavailable, match="replaced during the listing"):
        ledger.sync(unplugged(tree, tree))


def test_mount_point_is_recognised() -> None:
    lister = Lister(Path("/"), follow_links=False)
    top = lister.top(IgnoreRules())
    listing = lister.list(top)
    devices = top.enter("dev", listing)
    assert devices.device != lister.list(devices).device, "/dev is a separate file system"
