"""Failed and stopped steps: which can be repeated, and the state that the next sync finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from catchment.contracts import Known
from catchment.errors import LedgerUnavailable, LoginFailed, StaleLease, Stopped
from catchment.ledger import Ledger
from catchment.model import Change, JobState
from catchment.settings import Home, Policy, Priority
from catchment.sync import fair_share
from catchment.sync.preflight import Permit
from catchment.sync.source_sync import SourceSync, open_sync
from tests.engine.hostile import Hostile
from tests.ledger.test_closed_sync import dump
from tests.waiting import until

_SECONDS = 30


@pytest.fixture
def reads(tmp_path: Path) -> Path:
    """Return the folder in which the connector counts its reads of each file."""
    (tmp_path / "reads").mkdir()
    return tmp_path / "reads"


@pytest.fixture
def sync(home: Home, tmp_path: Path, reads: Path) -> Iterator[SourceSync]:
    """A sync that has listed ten notes."""
    with syncing(home, notes(tmp_path)) as sync:
        sync.discover()
        yield sync


def notes(place: Path) -> Path:
    """A folder with ten notes."""
    folder = place / "folder"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.md").write_text(f"Note {number}")
    return folder


@contextmanager
def syncing(home: Home, folder: Path, kind: type[Hostile] = Hostile) -> Iterator[SourceSync]:
    with open_sync(home, kind(Hostile.settings(root=folder)), "papers", Policy(), Priority.NORMAL) as sync:
        yield sync


def claimed(sync: SourceSync) -> int:
    token = sync.claim(100)
    assert token is not None
    return token


def test_failed_step_can_be_repeated(sync: SourceSync, monkeypatch: pytest.MonkeyPatch) -> None:
    token = claimed(sync)

    def full(*_: object) -> None:
        raise LedgerUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sync._ledger.queue, "deliver", full)
        with pytest.raises(LedgerUnavailable):
            sync.process(token)
    assert sync.process(token)["delivered"] == 10


def test_failure_not_recorded_by_the_ledger_is_recorded_on_repetition(
    sync: SourceSync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder" / "bad.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    sync.discover()
    token = claimed(sync)

    def busy(*_: object, **__: object) -> None:
        raise LedgerUnavailable("the ledger is busy")

    with monkeypatch.context() as patch:
        patch.setattr(sync._ledger.queue, "fail", busy)
        with pytest.raises(LedgerUnavailable):
            sync.process(token)
    assert sync.process(token)["delivered"] == 10
    assert sync.finish("completed")["quarantined"] == 1
    counts = sync._ledger.queue.counts()["papers"]
    assert (counts[JobState.QUARANTINED], counts[JobState.RUNNING]) == (1, 0)


def test_batch_of_a_removed_source_ends_quietly_despite_a_failed_item(sync: SourceSync, tmp_path: Path) -> None:
    (tmp_path / "folder" / "bad.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    sync.discover()
    token = claimed(sync)
    sync._ledger.sources.remove("papers", "anna", "")
    assert sync.process(token)["delivered"] == 0
    assert sync.claim(10) is None
    assert sync.permit.ended
    assert sync.troubles == {}


class Interrupting(Hostile):
    """A folder that stops its sync after the third listed change."""

    stop: ClassVar[Callable[[], None]]

    def changes(self, known: Known, *, deep: bool = False) -> Iterator[Change]:
        for number, change in enumerate(super().changes(known, deep=deep)):
            if number == 3:
                type(self).stop()
            yield change


def test_stopped_sync_releases_its_leases_and_the_next_resumes(home: Home, tmp_path: Path, reads: Path) -> None:
    folder = notes(tmp_path)
    with syncing(home, folder) as sync:
        sync.discover()
        first, second = sync.claim(4), sync.claim(4)
        assert first is not None and second is not None
        sync.process(first)
        sync.stop("asked to stop")
        with pytest.raises((Stopped, StaleLease)):
            sync.process(second)
        assert sync.claim(4) is None
        sync.finish("cancelled")
    with closing(Ledger.open(home.database_url)) as ledger:
        [last] = ledger.syncs.recent()
        assert (last.outcome, last.error, last.summary["succeeded"]) == ("cancelled", "asked to stop", 4)
        counts = ledger.queue.counts()["papers"]
        assert (counts[JobState.SUCCEEDED], counts[JobState.PENDING], counts[JobState.RUNNING]) == (4, 6, 0)
    with syncing(home, folder) as sync:
        sync.discover()
        assert sync.process(claimed(sync))["delivered"] == 6
        assert sync.finish("completed")["succeeded"] == 6


def test_sync_stops_between_two_changes_without_deletions(home: Home, tmp_path: Path, reads: Path) -> None:
    folder = notes(tmp_path)
    with syncing(home, folder) as sync:
        sync.discover()
        sync.process(claimed(sync))
        sync.finish("completed")
    (folder / "0.md").unlink()
    for number in range(10):
        (folder / f"new {number}.md").write_text(f"New {number}")
    with syncing(home, folder, Interrupting) as sync:
        Interrupting.stop = lambda: sync.stop("asked to stop")
        with pytest.raises(Stopped):
            sync.discover()
        assert (sync.progress.deleted, sync.finish("cancelled")["deleted"]) == (0, 0)


def test_sync_that_waits_for_a_slot_stops_at_once(home: Home, tmp_path: Path, reads: Path) -> None:
    folder = notes(tmp_path)
    queue = fair_share.QUEUE
    holders = [queue.join("others", 8, Priority.NORMAL) for _ in range(fair_share.SLOTS)]
    with syncing(home, folder) as sync, ExitStack() as held, ThreadPoolExecutor(1) as threads:
        sync.discover()
        token = claimed(sync)
        for holder in holders:
            held.callback(holder.close)
            held.enter_context(holder.step())
        waiting = threads.submit(sync.process, token)
        until(lambda: sync._share in queue._waiting)
        sync.stop("asked to stop")
        with pytest.raises(StaleLease):
            waiting.result(_SECONDS)


def test_wait_for_a_host_ends_when_the_sync_is_stopped(home: Home, tmp_path: Path, reads: Path) -> None:
    with syncing(home, notes(tmp_path)) as sync, ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(sync.permit.sleep, 600)
        sync.stop("asked to stop")
        with pytest.raises(Stopped):
            waiting.result(_SECONDS)


def test_sync_that_was_closed_by_another_process_writes_nothing(
    home: Home, sync: SourceSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = sync.claim(3), sync.claim(3)
    assert first is not None and second is not None
    sync.normalize(first)
    with closing(Ledger.open(home)) as ledger:
        assert ledger.syncs.close_dead(lambda _: False) == 1
        ledger.syncs.begin(sync.source.id, run=None, owner="other", code_version="1", alive=lambda _: False)
        before = dump(ledger)
        # The sync looked just before it was closed.
        monkeypatch.setattr(Permit, "holds", lambda _: True)
        for step in (sync.discover, sync.discovery.settle, lambda: sync.claim(3), sync.update_eta):
            with pytest.raises(StaleLease):
                step()
            assert dump(ledger) == before, step
        assert sync.process(first)["delivered"] == sync.process(second)["delivered"] == 0
        sync.renew()
        sync.finish("failed", LoginFailed("refused"))
        sync.close()
        assert dump(ledger) == before
