"""Unusual files and folders: names, times, sizes, types, links and permissions."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.errors import AccessDenied, FetchFailed, LoginFailed, Skipped, SourceInvalid, SourceUnavailable, Vanished
from catchment.model import Item, SkipReason
from catchment.settings import LimitChanges
from connectors.contract.memory_ledger import MemoryLedger
from connectors.folders.file import to_locator, to_path
from connectors.local_files import LocalFiles, LocalFilesSettings

AsNobody = Callable[[], AbstractContextManager[None]]


def source(root: Path, **settings: object) -> LocalFiles:
    return LocalFiles(LocalFilesSettings.model_validate({"root": root, **settings}))


NAMES = [
    "line\nbreak.md",
    "😀 smile.md",
    "-rf",
    "tab\there",
    'quote".md',
    "back\\slash",
    "%41",
    "ünï.md",
    "u\u0308.md",
    " ",
]


@pytest.mark.parametrize("name", NAMES)
def test_unusual_names_are_kept(ledger: MemoryLedger, root: Path, name: str) -> None:
    (root / name).write_text("x")
    (root / "folder").mkdir()
    ledger.sync(source(root))
    assert ledger.documents() == {name: b"x"}


def test_composed_and_decomposed_names_are_two_files(ledger: MemoryLedger, root: Path) -> None:
    (root / "\u00fc").write_text("composed")
    (root / "u\u0308").write_text("decomposed")
    ledger.sync(source(root))
    assert ledger.documents() == {"\u00fc": b"composed", "u\u0308": b"decomposed"}


def test_names_that_are_not_utf8_get_a_valid_locator(ledger: MemoryLedger, root: Path) -> None:
    folder = os.fsencode(root) + b"/caf\xe9"
    os.mkdir(folder)  # noqa: PTH102 - a Path cannot be made of bytes
    for name in (b"na\xefve.md", "\ufffdef".encode()):
        with open(folder + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(name)
    report = ledger.sync(source(root))
    assert ledger.documents() == {
        "caf\ufffde9/na\ufffdefve.md": b"na\xefve.md",
        "caf\ufffde9/\ufffd\ufffdef": "\ufffdef".encode(),
    }
    for locator in report.new:
        locator.encode()
    assert ledger.sync(source(root)).item_changes == []


@given(st.binary(max_size=12))
def test_locators_are_reversible(name: bytes) -> None:
    path = os.fsdecode(name)
    locator = to_locator(path)
    locator.encode()
    assert to_path(locator) == path


@given(st.lists(st.sampled_from([b"\xef\xbf\xbd", b"\xe9", b"e9", b"\xff", b"f"]), max_size=5))
def test_names_that_look_like_escapes_are_reversible(parts: list[bytes]) -> None:
    path = os.fsdecode(b"".join(parts))
    assert to_path(to_locator(path)) == path


def test_empty_file_is_an_item(ledger: MemoryLedger, root: Path) -> None:
    (root / "empty").touch()
    ledger.sync(source(root))
    assert ledger.documents() == {"empty": b""}


def test_two_hundred_nested_folders(ledger: MemoryLedger, root: Path) -> None:
    folder = root
    for _ in range(200):
        folder /= "down"
    folder.mkdir(parents=True)
    (folder / "bottom.md").write_text("x")
    ledger.sync(source(root))
    assert list(ledger.documents()) == ["down/" * 200 + "bottom.md"]


def test_path_that_is_too_long_for_the_system_fails_alone_and_says_so(
    ledger: MemoryLedger, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "near.md").write_text("near")
    with monkeypatch.context() as inside:
        inside.chdir(root)
        for _ in range(30):
            Path("n" * 240).mkdir()
            os.chdir("n" * 240)
        Path("far.md").write_text("far")
    report = ledger.sync(source(root))
    assert list(ledger.documents()) == ["near.md"]
    [problem] = {str(error) for error in report.failed.values()}
    assert problem == "the path is too long for the system; shorten the names of its folders"


def test_files_with_extreme_times_are_read(ledger: MemoryLedger, root: Path) -> None:
    for name, seconds in (("early", -(2**31)), ("late", 2**33)):
        (root / name).touch()
        os.utime(root / name, (seconds, seconds))
    ledger.sync(source(root))
    assert set(ledger.documents()) == {"early", "late"}
    assert ledger.sync(source(root)).item_changes == []


def test_file_over_the_size_limit_is_skipped(ledger: MemoryLedger, root: Path) -> None:
    (root / "small").write_bytes(b"x" * 900)
    with (root / "sparse").open("wb") as file:
        file.truncate(200_000_000)
    report = ledger.sync(source(root))
    assert report.skipped == {"sparse": SkipReason.TOO_LARGE}
    assert ledger.sync(source(root)).item_changes == []


def test_changed_size_limit_applies_to_unchanged_files(ledger: MemoryLedger, root: Path) -> None:
    (root / "file").write_bytes(b"x" * 2_000)
    small = LimitChanges(max_mb=0.001)
    ledger.sync(source(root))
    assert ledger.sync(source(root, limits=small)).skipped == {"file": SkipReason.TOO_LARGE}
    assert ledger.documents() == {}
    assert ledger.sync(source(root, limits=small)).item_changes == []
    assert ledger.sync(source(root)).fetched == {"file"}


def test_fetch_skips_a_file_over_the_size_limit(ledger: MemoryLedger, root: Path) -> None:
    (root / "file").write_bytes(b"x" * 2_000)
    ledger.sync(source(root), fetch=False)
    with pytest.raises(Skipped):
        source(root, limits=LimitChanges(max_mb=0.001)).fetch(ledger.rows["file"].item)


def test_pipes_sockets_and_links_are_skipped(ledger: MemoryLedger, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("file")
    (root / "file").write_text("x")
    with socket.socket(socket.AF_UNIX) as listener:
        previous = Path.cwd()
        os.chdir(root)  # socket paths are limited to about 100 bytes
        try:
            listener.bind("socket")
        finally:
            os.chdir(previous)
        report = ledger.sync(source(root))
    assert report.skipped == {
        "pipe": SkipReason.UNSUPPORTED,
        "socket": SkipReason.UNSUPPORTED,
        "link": SkipReason.EXCLUDED,
    }
    assert ledger.rows["pipe"].item.attributes == {"type": "pipe"}
    assert ledger.documents() == {"file": b"x"}
    assert ledger.sync(source(root)).item_changes == []


def test_file_replaced_by_a_pipe_or_link_is_not_read(ledger: MemoryLedger, root: Path) -> None:
    for name in ("a", "b"):
        (root / name).write_text("x")
    ledger.sync(source(root), fetch=False)
    for name in ("a", "b"):
        (root / name).unlink()
    os.mkfifo(root / "a")
    (root / "b").symlink_to("/etc/passwd")
    for name in ("a", "b"):
        with pytest.raises(Vanished):
            source(root).fetch(ledger.rows[name].item)


def test_folder_replaced_by_a_link_is_not_followed(ledger: MemoryLedger, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "in").mkdir()
    (root / "in" / "file").write_text("mine")
    (outside / "file").hardlink_to(root / "in" / "file")
    ledger.sync(source(root), fetch=False)
    (root / "in").rename(tmp_path / "was-in")
    (root / "in").symlink_to(outside)
    with pytest.raises(Vanished):
        source(root).fetch(ledger.rows["in/file"].item)


@pytest.mark.parametrize("locator", ["../secret", "a/../../secret", "/etc/passwd", "", "a//b", "."])
def test_no_locator_leads_out_of_the_root(root: Path, locator: str) -> None:
    (root.parent / "secret").write_text("x")
    for follow in (False, True):
        with pytest.raises(Vanished):
            source(root, follow_symlinks=follow).fetch(Item(locator, "", "1.1.1.1"))


def test_links_are_followed_only_inside_the_root_without_cycles(
    ledger: MemoryLedger, root: Path, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("not yours")
    (root / ".store").mkdir()
    (root / ".store" / "kept.md").write_text("kept")
    (root / "folder").mkdir()
    (root / "shown.md").symlink_to(".store/kept.md")
    (root / "store").symlink_to(".store")
    (root / "again").symlink_to("store")
    (root / "folder" / "up").symlink_to("..")
    (root / "self").symlink_to("self")
    (root / "out.md").symlink_to(tmp_path / "secret")
    (root / "out").symlink_to(tmp_path)
    report = ledger.sync(source(root, follow_symlinks=True))
    assert set(report.skipped) == {"folder/up", "self", "out.md", "out", "store"}
    assert ledger.documents() == {"shown.md": b"kept", "again/kept.md": b"kept"}
    assert ledger.sync(source(root, follow_symlinks=True)).item_changes == []


def test_unreadable_file_fails_alone(shared_root: Path, ledger: MemoryLedger, unprivileged: AsNobody) -> None:
    (shared_root / "open").write_text("x")
    (shared_root / "closed").write_text("x")
    (shared_root / "closed").chmod(0)
    with unprivileged():
        report = ledger.sync(source(shared_root))
    assert isinstance(report.failed["closed"], AccessDenied)
    assert ledger.documents() == {"open": b"x"}
    (shared_root / "closed").chmod(0o644)
    with unprivileged():
        assert ledger.sync(source(shared_root)).fetched == {"closed"}


@pytest.mark.parametrize("mode", [0, 0o444])
def test_unreadable_folder_fails_and_keeps_its_items(
    shared_root: Path, ledger: MemoryLedger, unprivileged: AsNobody, mode: int
) -> None:
    below = shared_root / "closed" / "below"
    below.mkdir(parents=True)
    (shared_root / "closed" / "kept").write_text("x")
    (below / "deep").write_text("x")
    with unprivileged():
        ledger.sync(source(shared_root))
        content = ledger.documents()
    (shared_root / "closed").chmod(mode)
    with unprivileged():
        report = ledger.sync(source(shared_root))
        assert report.failed
        assert all(isinstance(error, AccessDenied) for error in report.failed.values())
        assert report.deleted == set()
        assert ledger.documents() == content
        assert ledger.sync(source(shared_root)).item_changes == []
    (shared_root / "closed").chmod(0o755)
    with unprivileged():
        report = ledger.sync(source(shared_root))
        assert "closed/kept" not in report.deleted
        assert ledger.documents() == content
        assert set(ledger.present()) == set(content)


def test_unreadable_root_raises_login_failed(shared_root: Path, ledger: MemoryLedger, unprivileged: AsNobody) -> None:
    (shared_root / "inner").mkdir()
    (shared_root / "inner" / "file").write_text("x")
    inner = source(shared_root / "inner")
    (shared_root / "inner").chmod(0)
    with unprivileged():
        with pytest.raises(LoginFailed, match="permission denied"):
            inner.probe()
        with pytest.raises(LoginFailed, match="permission denied"):
            ledger.sync(inner)


def test_missing_root_and_root_that_is_a_file_are_rejected(root: Path) -> None:
    (root / "file").write_text("x")
    with pytest.raises(SourceInvalid, match="not a folder"):
        source(root / "file").probe()
    with pytest.raises(SourceUnavailable, match="mount its disk"):
        source(root / "nothing").probe()


def test_fetching_a_failed_folder_raises_fetch_failed(root: Path) -> None:
    (root / "folder").mkdir()
    with pytest.raises(FetchFailed, match="could not be listed"):
        source(root).fetch(Item("folder/", "folder", "unreadable.13"))


def test_root_may_be_a_link_with_any_name(ledger: MemoryLedger, root: Path, tmp_path: Path) -> None:
    (root / "file").write_text("x")
    (tmp_path / "way").symlink_to(root)
    ledger.sync(source(tmp_path / "way"))
    assert ledger.documents() == {"file": b"x"}
    assert ledger.sync(source(root, follow_symlinks=True)).item_changes == []
    root.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    assert source(tmp_path / os.fsdecode(b"caf\xe9")).probe() == "caf\ufffde9: folder with 1 entry at the top"


def test_root_replaced_during_listing_keeps_all_items(ledger: MemoryLedger, root: Path) -> None:
    for number in range(3):
        (root / f"folder{number}").mkdir()
        (root / f"folder{number}" / "file").write_text("x")
    connector = source(root)
    ledger.sync(connector)
    (root / "folder0" / "file").write_text("edited")
    changes = connector.changes(ledger.known())
    next(changes), next(changes)
    root.rename(root.with_name("unmounted"))
    root.mkdir()
    with pytest.raises(SourceUnavailable, match="replaced during the listing"):
        list(changes)


def test_home_is_never_listed(ledger: MemoryLedger, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "state").mkdir()
    (root / "state" / "ledger.db").write_text("x")
    (root / "file").write_text("x")
    monkeypatch.setenv("CATCHMENT_HOME", str(root / "state"))
    ledger.sync(source(root))
    assert set(ledger.documents()) == {"file"}


def test_links_into_home_are_not_followed(ledger: MemoryLedger, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / ".share" / "state").mkdir(parents=True)
    (root / ".share" / "state" / "ledger.db").write_text("x")
    (root / ".share" / "file").write_text("x")
    (root / "share").symlink_to(".share")
    (root / "straight").symlink_to(".share/state")
    (root / "ledger").symlink_to(".share/state/ledger.db")
    monkeypatch.setenv("CATCHMENT_HOME", str(root / ".share" / "state"))
    ledger.sync(source(root, follow_symlinks=True))
    assert set(ledger.documents()) == {"share/file"}


def test_file_being_written_is_read_when_complete(ledger: MemoryLedger, root: Path) -> None:
    with (root / "long.md").open("w") as file:
        file.write("the first half,")
        file.flush()
        ledger.sync(source(root))
        assert ledger.documents() == {}
        file.write(" and the second")
    ledger.sync(source(root))
    assert ledger.documents() == {"long.md": b"the first half, and the second"}


def test_idle_open_log_file_is_read(ledger: MemoryLedger, root: Path) -> None:
    with (root / "service.log").open("w") as file:
        file.write("started")
        file.flush()
        os.utime(file.fileno(), (1_000_000_000, 1_000_000_000))
        ledger.sync(source(root))
    assert ledger.documents() == {"service.log": b"started"}
