"""Changes to files and the syncs that follow, on real folders with a stand-in for the server."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from catchment.ledger import WHOLE, Ledger
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, read
from connectors.local_files import LocalFilesSettings
from deployments.sources.sources_file import SourceEntry, SourcesFile
from deployments.watch import watcher as watcher_module
from tests.deployments.watch.conftest import (
    HOURLY,
    StandinServer,
    add_source,
    announced,
    serving,
    state_of,
    watching,
)
from tests.waiting import until


def in_place(root: Path) -> None:
    (root / "Projects" / "Plan.md").write_text("another plan")


def by_rename(root: Path) -> None:
    """Save like vim, VS Code and Obsidian: write another file, and rename it."""
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
    """Write a file of the same size and modification time: only its change time differs."""
    plan = root / "Projects" / "Plan.md"
    before = plan.stat()
    plan.write_text("nalp")
    os.utime(plan, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.usefixtures("swift")
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
def test_change_starts_a_sync(change: Callable[[Path], None], home: Home, root: Path, standin: StandinServer) -> None:
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        change(root)
        until(lambda: len(standin.events) == 2)


@pytest.mark.usefixtures("swift")
def test_folder_moved_out_starts_a_sync_with_any_patterns(home: Home, root: Path, standin: StandinServer) -> None:
    """Delete a folder as a file manager does: move it to the trash."""
    file = SourcesFile.load(home.sources_file)
    settings = LocalFilesSettings(root=root, include=("*.md",))
    file.add(SourceEntry("notes", "local_files", settings, HOURLY, watch=True))
    file.save()
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        (root / "Projects").rename(root.parent / "Projects")
        until(lambda: len(standin.events) == 2)


def test_one_save_starts_one_sync(home: Home, root: Path, standin: StandinServer) -> None:
    plan = root / "Projects" / "Plan.md"
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        # As vim does: test the folder, rename the old file to a backup, write the new file, delete the backup.
        (plan.parent / "4913").touch()
        (plan.parent / "4913").unlink()
        plan.rename(plan.parent / "Plan.md~")
        plan.write_text("another plan")
        plan.chmod(0o600)
        (plan.parent / "Plan.md~").unlink()
        until(lambda: len(standin.events) == 2)
        deleted(root)
        until(lambda: len(standin.events) == 3)
    assert standin.events == ["notes"] * 3


def looked_again(standin: StandinServer) -> None:
    """Wait until the watcher has read the server's runs, and so has decided, twice more."""
    before = standin.looks
    until(lambda: standin.looks >= before + 2)


def test_long_quiet_period_delays_only_the_changes_after_the_first(
    home: Home, root: Path, standin: StandinServer
) -> None:
    patient = root.parent / "patient"
    patient.mkdir()
    add_source(home, "patient", patient, quiet=120.0)
    add_source(home, "notes", root, quiet=0.0)
    with watching(home, standin):
        until(lambda: sorted(standin.events) == ["notes", "patient"])
        (patient / "first.md").write_text("first")
        until(lambda: standin.events.count("patient") == 2)
        (patient / "second.md").write_text("second")
        (root / "note.md").write_text("third")
        until(lambda: standin.events.count("notes") > 1)
    assert standin.events.count("patient") == 2


@pytest.mark.usefixtures("swift")
def test_burst_during_a_sync_starts_one_further_sync(home: Home, root: Path, standin: StandinServer) -> None:
    standin.immediate = False
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: standin.runs)
        standin.turn("RUNNING")
        for number in range(20):
            (root / f"{number}.md").write_text("burst")
        looked_again(standin)
        assert len(standin.events) == 1, "a sync goes on, and the next one waits for its end"
        standin.turn("COMPLETED")
        until(lambda: len(standin.events) == 2)
        before = standin.looks
        (root / "later.md").write_text("while the second one waits to begin")
        until(lambda: standin.looks > before)
        standin.turn("RUNNING")
        (root / "latest.md").write_text("while the second one goes on")
        looked_again(standin)
        standin.turn("COMPLETED")
        until(lambda: len(standin.events) == 3)


@pytest.mark.usefixtures("swift")
def test_last_sync_of_an_unzipped_folder_is_complete(home: Home, root: Path, standin: StandinServer) -> None:
    archive = root.parent / "many.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for number in range(2_000):
            file.writestr(f"many/{number % 40}/deep/{number}.md", f"note {number}")
    seen: list[int] = []
    standin.on_event = lambda: seen.append(sum(len(files) for _, _, files in os.walk(root)))
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: seen)
        with zipfile.ZipFile(archive) as file:
            file.extractall(root)
        until(lambda: seen[-1] == 2_001)
        (root / "many" / "7" / "deep" / "new.md").write_text("in a folder just made")
        until(lambda: seen[-1] == 2_002)
        state = state_of(home, "notes")
    assert state is not None
    assert state.folders == 1 + 1 + 1 + 2 * 40


@pytest.mark.usefixtures("swift")
def test_changes_during_a_server_outage_start_a_sync_later(home: Home, root: Path) -> None:
    standin = StandinServer()
    add_source(home, "notes", root)
    with watching(home, standin) as lines:
        until(lambda: lines)
        assert lines == ["notes: watching"]
        with serving(standin), announced(home, standin.port):
            until(lambda: len(standin.events) == 1)
        in_place(root)
        with serving(standin), announced(home, standin.port):
            until(lambda: len(standin.events) == 2)


@pytest.mark.usefixtures("swift")
def test_returning_root_is_watched_again(home: Home, root: Path, standin: StandinServer, often: None) -> None:
    add_source(home, "notes", root)
    with watching(home, standin) as lines:
        until(lambda: len(standin.events) == 1)
        root.rename(root.parent / "elsewhere")
        until(lambda: (state := state_of(home, "notes")) and state.state is Watching.GONE)
        (root.parent / "elsewhere").rename(root)
        until(lambda: len(standin.events) == 2)
        in_place(root)
        until(lambda: len(standin.events) == 3)
    assert [line.partition(";")[0] for line in lines] == [
        "notes: watching",
        "notes: gone: folder not found",
        "notes: watching",
    ]


def test_root_with_a_moved_parent_is_gone(home: Home, root: Path, standin: StandinServer, often: None) -> None:
    vault = root / "Projects"
    add_source(home, "notes", vault)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        root.rename(root.parent / "elsewhere")
        until(lambda: (state := state_of(home, "notes")) and state.state is Watching.GONE)


@pytest.mark.usefixtures("swift")
def test_wake_from_sleep_starts_a_full_comparison(
    home: Home, root: Path, standin: StandinServer, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_source(home, "notes", root)
    with watching(home, standin):
        until(lambda: len(standin.events) == 1)
        monkeypatch.setattr(watcher_module, "_asleep", lambda: 3_600.0)
        until(lambda: len(standin.events) == 2)
        in_place(root)
        until(lambda: len(standin.events) == 3)


@pytest.mark.usefixtures("swift")
def test_source_without_schedule_is_synced_periodically(
    home: Home, root: Path, standin: StandinServer, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watcher_module, "_FALLBACK", 0.1)
    add_source(home, "notes", root, schedules=())
    with watching(home, standin):
        until(lambda: len(standin.events) >= 3)


@pytest.mark.usefixtures("swift")
def test_sources_are_added_and_removed_while_watching(
    home: Home, root: Path, standin: StandinServer, often: None, tmp_path: Path
) -> None:
    (tmp_path / "papers").mkdir()
    add_source(home, "notes", root)
    with watching(home, standin) as lines:
        until(lambda: standin.events == ["notes"])
        add_source(home, "papers", tmp_path / "papers")
        until(lambda: standin.events == ["notes", "papers"])
        assert len(standin.automations) == 2
        good = home.sources_file.read_text()
        home.sources_file.write_text("deployments: [")
        until(lambda: lines[-1].startswith("sources.yaml not applied, watching as before: sources.yaml line 1"))
        home.sources_file.write_text(good)
        file = SourcesFile.load(home.sources_file)
        file.remove("notes")
        file.save()
        until(lambda: set(read(home) or {}) == {"papers"})
        until(lambda: len(standin.automations) == 1)


@pytest.mark.usefixtures("swift", "often")
def test_folder_without_consent_is_not_watched(home: Home, root: Path, standin: StandinServer) -> None:
    add_source(home, "notes", root)
    with closing(Ledger.open(home)) as ledger, watching(home, standin):
        source = ledger.sources.put("notes", "local_files", Priority.NORMAL).id
        ledger.consents.give(source, {WHOLE}, "operator", None)
        until(lambda: state_of(home, "notes"))
        until(lambda: standin.events)
        ledger.consents.withdraw(source, {WHOLE}, "operator")
        until(lambda: state_of(home, "notes") is None)
        seen = len(standin.events)
        (root / "New.md").write_text("new")
        time.sleep(0.3)
        own_descriptors = [file.read_text() for file in Path("/proc/self/fdinfo").iterdir() if file.exists()]
        assert (len(standin.events), "inotify wd:" in "".join(own_descriptors)) == (seen, False)
        ledger.purging.end(source, {WHOLE}, "operator")
        ledger.consents.give(source, {WHOLE}, "operator", None)
        until(lambda: len(standin.events) > seen)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the watcher check its sources many times a second."""
    monkeypatch.setattr(watcher_module, "_CHECK", 0.05)
