"""Which files are wanted, and what happens to known ones when that changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

import pytest
from pydantic import ValidationError

from catchment.contracts import Known
from catchment.errors import SourceUnavailable
from catchment.model import Change, FailureClass, SkipReason, Tombstone
from connectors.folders.ignore import IgnoreRules
from connectors.folders.scan import Lister, Listing, ScannedFolder
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.connectors.memory_ledger import MemoryLedger

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
def test_an_ignore_file_of_many_stars_is_heeded_at_once(root: Path) -> None:
    name = "a" * 200
    deep = root.joinpath(*"a" * 200)
    deep.mkdir(parents=True)
    for folder in (root, deep):
        (folder / f"{name}.md").write_text("kept")
        (folder / f"{name}b").write_text("left out")
    (root / ".gitignore").write_text("*a*a*a*a*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/a/**/b\n")
    assert {locator.rpartition("/")[2] for locator in listed(root)} == {f"{name}.md"}


def test_a_line_of_an_ignore_file_that_is_no_pattern_is_passed_over(tree: Path) -> None:
    (tree / ".gitignore").write_text("[z-a]\n\\\n*.tmp\n")
    assert listed(tree) == {"a.md", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_letters_are_named_as_git_names_them(tree: Path) -> None:
    assert listed(tree, exclude=("[[:alpha:]].[!m][[:lower:]]*",)) == {"a.md", "build/out.md", "src/build/kept.md"}


def test_all_but_hidden_files_are_wanted(tree: Path) -> None:
    assert listed(tree) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_hidden_files_are_read_on_demand_but_never_gits_own(tree: Path) -> None:
    assert listed(tree, hidden=True) - listed(tree) == {".hidden/b.md", ".c.md"}


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


def test_a_line_of_an_ignore_file_ends_where_git_says_that_it_does(root: Path) -> None:
    for name in ("one\u2028two.md", "two.md", "three\x0cfour.md", "four.md", "five.md", "kept.md"):
        (root / name).write_text(name)
    (root / ".gitignore").write_bytes("one\u2028two.md\nthree\x0cfour.md\r\nfive.md\r\n".encode())
    assert listed(root) == {"two.md", "four.md", "kept.md"}


@pytest.mark.parametrize("exclude", [(), ("*.tmp",)])
def test_what_git_keeps_for_itself_is_never_content(tree: Path, exclude: tuple[str, ...]) -> None:
    (tree / "src" / ".git").write_text("gitdir: /elsewhere/.git/modules/src\n")
    assert {name for name in listed(tree, hidden=True, exclude=exclude) if ".git" in name.split("/")} == set()


def test_ignore_files_hold_from_their_folder_down_and_deeper_ones_win(tree: Path) -> None:
    (tree / ".gitignore").write_text("# comment\n*.md\n\\\n!/a.md\n")
    (tree / "src" / ".catchmentignore").write_text("!kept.md\n/a.txt\n")
    assert listed(tree) == {"a.md", "a.tmp", "src/build/kept.md"}
    assert listed(tree, gitignore=False) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md"}
    assert "src/a.txt" in listed(tree, ignore_file=None)


def test_the_settings_go_before_an_ignore_file(tree: Path) -> None:
    (tree / ".gitignore").write_text("!*.tmp\n")
    assert "a.tmp" not in listed(tree, exclude=["*.tmp"])


def test_what_has_the_name_of_an_ignore_file_and_is_none_is_as_if_it_were_not_there(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("*\n")
    (tree / ".gitignore").symlink_to(tmp_path / "elsewhere")
    (tree / ".catchmentignore").mkdir()
    (tree / "src" / ".gitignore").write_bytes(b"\xff\xfe*\xe9\n")
    assert listed(tree) == {"a.md", "a.tmp", "build/out.md", "src/build/kept.md", "src/a.txt"}


def test_a_folder_whose_ignore_file_cannot_be_read_is_not_listed(
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
    assert report.gone == set()
    assert set(report.failed) == {"src/"}
    assert ".gitignore cannot be read (permission denied)" in str(report.failed["src/"])
    ignore.chmod(0o644)
    assert ledger.sync(source(tree)).fetched == set()
    assert "src/secret.txt" not in ledger.documents()
    assert "src/" not in ledger.present()


@pytest.mark.parametrize("text", ["no-such-file\n" * 5_001, "a\n" * 500_000, "a*" * 500_000, "a*" * 90_000])
def test_ignore_file_over_the_bound_closes_its_folder_at_once(tree: Path, ledger: MemoryLedger, text: str) -> None:
    (tree / "src" / ".gitignore").write_text(f"{text}a.txt\n")
    began = time.process_time()
    report = ledger.sync(source(tree))
    assert time.process_time() - began < 2
    assert "file too large: more than 5,000 lines, 200 kB, or 4,096 characters in a line" in str(report.failed["src/"])
    assert "shorten it, or delete it" in str(report.failed["src/"])
    assert report.failed["src/"].failure_class is FailureClass.PERMANENT
    assert not {"src/a.txt", "src/build/kept.md"} & set(ledger.documents())


def test_ignore_file_over_the_bound_at_the_root_stops_the_sync(tree: Path, ledger: MemoryLedger) -> None:
    (tree / ".gitignore").write_text("a.md\n" * 5_001)
    with pytest.raises(SourceUnavailable, match=r"at the top .*\.gitignore .*5,000 lines.*; shorten it, or delete it"):
        ledger.sync(source(tree))
    assert ledger.documents() == {}


def test_ignore_file_at_the_bound_is_heeded(tree: Path, ledger: MemoryLedger) -> None:
    (tree / "src" / ".gitignore").write_text("no-such-file\n" * 4_999 + "a.txt\n")
    report = ledger.sync(source(tree))
    assert not report.failed
    assert "src/a.txt" not in ledger.documents() and "src/build/kept.md" in ledger.documents()


def test_nothing_is_listed_while_the_ignore_file_of_the_root_cannot_be_read(
    shared_root: Path, ledger: MemoryLedger, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    tree = with_files(shared_root)
    (tree / ".catchmentignore").write_text("a.md\n")
    (tree / ".catchmentignore").chmod(0)
    with unprivileged(), pytest.raises(SourceUnavailable, match="catchmentignore cannot be read"):
        ledger.sync(source(tree))
    assert ledger.documents() == {}


def test_an_item_that_is_excluded_later_leaves_as_a_decision_and_not_as_a_deletion(
    tree: Path, ledger: MemoryLedger
) -> None:
    ledger.sync(source(tree))
    (tree / ".catchmentignore").write_text("*.tmp\n/src/\n")
    report = ledger.sync(source(tree))
    assert report.gone == set()
    assert report.skipped == dict.fromkeys(("a.tmp", "src/a.txt", "src/build/kept.md"), SkipReason.EXCLUDED)
    assert ledger.sync(source(tree)).said == []
    (tree / ".catchmentignore").unlink()
    assert ledger.sync(source(tree)).fetched == {"a.tmp", "src/a.txt", "src/build/kept.md"}
    assert ledger.sync(source(tree)).said == []


def test_an_excluded_item_that_is_then_deleted_is_gone(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    ledger.sync(source(tree, exclude=["/src/", "*.tmp"]))
    (tree / "src" / "a.txt").unlink()
    (tree / "src" / "build" / "kept.md").unlink()
    (tree / "src" / "build").rmdir()
    (tree / "src").rmdir()
    (tree / "a.tmp").unlink()
    report = ledger.sync(source(tree, exclude=["/src/", "*.tmp"]))
    assert report.gone == {"src/a.txt", "src/build/kept.md", "a.tmp"}


def test_an_excluded_file_renamed_to_a_wanted_name_is_read(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    ledger.sync(source(tree, exclude=["*.tmp"]))
    (tree / "a.tmp").rename(tree / "wanted.md")
    report = ledger.sync(source(tree, exclude=["*.tmp"]))
    assert (report.moved, report.fetched) == ({}, {"wanted.md"})


def test_only_folders_that_changed_are_compared_with_the_ledger(tree: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    (tree / "src" / "a.txt").write_text("edited")
    known = ledger.known()
    list(source(tree).changes(known))
    assert known.asked == ["src"]


def test_why_a_path_is_not_listed_can_be_told(tree: Path) -> None:
    (tree / "src" / ".gitignore").write_text("*.txt\n")
    connector = source(tree, exclude=["/build/"], include=["*.md", "*.txt"])
    assert connector.why_not("a.md") is None
    assert connector.why_not("src/a.txt") == "excluded by src/.gitignore"
    assert connector.why_not("build/out.md") == "excluded by the source's settings"
    assert connector.why_not("a.tmp") == "not included by the source's settings"
    assert connector.why_not(".hidden/b.md") == "hidden"


def test_wrong_settings_are_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="root must be a full path, such as /home/me/Documents"):
        LocalFilesSettings(root=Path("Documents"))
    with pytest.raises(ValidationError, match="is not a pattern"):
        LocalFilesSettings(root=tmp_path, exclude=("!",))
    with pytest.raises(ValidationError, match="Extra inputs"):
        LocalFilesSettings.model_validate({"root": tmp_path, "exlude": []})
    assert LocalFilesSettings(root=Path("~/notes")).root == Path.home() / "notes"


def test_a_folder_that_lost_its_disk_keeps_what_is_known_of_it(tree: Path, ledger: MemoryLedger) -> None:
    """The mark says that another disk was mounted on `src`; making it so takes rights that a test may not have."""
    ledger.sync(source(tree))
    ledger.marks["src/"] += "@"
    (tree / "src").rename(tree.parent / "disk")
    (tree / "src").mkdir()
    report = ledger.sync(source(tree))
    assert (set(report.failed), report.gone) == ({"src/"}, set())
    assert ledger.sync(source(tree)).said == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())
    (tree / "src").rmdir()
    assert ledger.sync(source(tree)).gone == {"src/", "src/a.txt", "src/build/kept.md"}


class Unplugged(LocalFiles):
    """A source whose disk, which is mounted on `place`, goes away when the `last` file is told to be gone."""

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
    """The file that is listed last."""
    last = tree / "z/last.md"
    last.parent.mkdir()
    last.write_text("last")
    return last


def test_a_disk_that_goes_away_while_its_folder_is_looked_at_again_keeps_what_is_known_of_it(
    tree: Path, last: Path, ledger: MemoryLedger
) -> None:
    ledger.sync(source(tree))
    ledger.marks["src/"] += "@"
    (tree / "src/new.md").write_text("new")
    last.unlink()
    report = ledger.sync(unplugged(tree, tree / "src"))
    assert (set(report.failed), report.gone) == ({"src/"}, {"z/last.md"})
    assert ledger.sync(source(tree)).said == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())


@pytest.fixture
def disk(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `src`, as if another disk were mounted on it as long as there is something in it."""
    src, listed = tree / "src", Lister.list

    def list_there(lister: Lister, folder: ScannedFolder) -> Listing:
        listing = listed(lister, folder)
        if Path(folder.path).is_relative_to(src) and any(src.iterdir()):
            listing.device += 1
        return listing

    monkeypatch.setattr(Lister, "list", list_there)
    return src


def test_a_disk_that_is_back_as_it_was_is_no_failed_item(tree: Path, disk: Path, ledger: MemoryLedger) -> None:
    ledger.sync(source(tree))
    disk.rename(tree.parent / "disk")
    disk.mkdir()
    assert set(ledger.sync(source(tree)).failed) == {"src/"}
    disk.rmdir()
    (tree.parent / "disk").rename(disk)
    assert ledger.sync(source(tree)).gone == {"src/"}
    assert ledger.sync(source(tree)).said == []


def test_a_disk_that_goes_away_while_it_is_listed_keeps_what_is_below_it(
    tree: Path, disk: Path, ledger: MemoryLedger
) -> None:
    ledger.sync(source(tree))
    (disk / "last.md").write_text("last")
    ledger.sync(source(tree))
    (disk / "last.md").unlink()
    connector = unplugged(tree, disk)
    connector.last = "src/last.md"
    report = ledger.sync(connector)
    assert (set(report.failed), report.gone) == ({"src/"}, {"src/last.md"})
    assert ledger.sync(source(tree)).said == []
    assert {"src/a.txt", "src/build/kept.md"} <= set(ledger.documents())


def test_a_root_that_is_replaced_while_it_is_looked_at_again_ends_the_listing(
    tree: Path, last: Path, ledger: MemoryLedger
) -> None:
    ledger.sync(source(tree))
    (tree / "new.md").write_text("new")
    last.unlink()
    last.parent.rmdir()
    with pytest.raises(SourceUnavailable, match="was replaced while it was listed"):
        ledger.sync(unplugged(tree, tree))


def test_a_mounted_disk_is_recognised_as_one() -> None:
    lister = Lister(Path("/"), follow_links=False)
    top = lister.top(IgnoreRules())
    listing = lister.list(top)
    devices = top.enter("dev", listing)
    assert devices.device != lister.list(devices).device, "/dev is a file system of its own"
