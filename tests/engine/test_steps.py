"""The steps of a batch when several ask for them: each is done once, and what failed may be asked for again."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from catchment.errors import LedgerUnavailable
from catchment.model import JobState
from catchment.settings import Home, Policy, Priority
from catchment.sync.session import SourceSync, open_sync
from tests.engine.hostile import Hostile


@pytest.fixture
def reads(tmp_path: Path) -> Path:
    """The folder in which the connector notes how often it read each file."""
    (tmp_path / "reads").mkdir()
    return tmp_path / "reads"


@pytest.fixture
def sync(home: Home, tmp_path: Path, reads: Path) -> Iterator[SourceSync]:
    """A sync that has listed ten notes."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(10):
        (folder / f"{number}.md").write_text(f"Note {number}")
    with open_sync(home, Hostile(Hostile.settings(root=folder)), "papers", Policy(), Priority.NORMAL) as sync:
        sync.discover()
        yield sync


def claimed(sync: SourceSync) -> int:
    token = sync.claim(100)
    assert token is not None
    return token


def test_what_was_worked_on_ahead_is_found_done(sync: SourceSync, reads: Path) -> None:
    token = claimed(sync)
    sync.run_ahead(token)
    assert sync.normalize(token)["read"] == sync.extract(token)["extracted"] == 10
    assert sync.deliver(token)["delivered"] == 10
    assert [path.stat().st_size for path in reads.iterdir()] == [1] * 10


def test_two_who_ask_at_the_same_time_get_the_same(sync: SourceSync, reads: Path) -> None:
    token = claimed(sync)
    with ThreadPoolExecutor(2) as threads:
        ahead, asked = threads.submit(sync.run_ahead, token), threads.submit(sync.normalize, token)
    assert ahead.result() is None
    assert asked.result()["read"] == 10
    assert [path.stat().st_size for path in reads.iterdir()] == [1] * 10
    assert sync.end()["succeeded"] == 10


def test_what_failed_ahead_fails_where_it_is_asked_for_and_may_be_asked_again(
    sync: SourceSync, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = claimed(sync)

    def full(*_: object) -> None:
        raise LedgerUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(sync._ledger.queue, "deliver", full)
        sync.run_ahead(token)
        with pytest.raises(LedgerUnavailable):
            sync.deliver(token)
    assert sync.deliver(token)["delivered"] == 10


def test_a_failure_that_the_ledger_could_not_take_is_told_when_it_is_asked_again(
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
            sync.deliver(token)
    assert sync.deliver(token)["delivered"] == 10
    assert sync.end()["quarantined"] == 1
    counts = sync._ledger.queue.counts()["papers"]
    assert (counts[JobState.QUARANTINED], counts[JobState.RUNNING]) == (1, 0)


def test_a_batch_whose_source_was_removed_ends_quietly_though_an_item_of_it_fails(
    sync: SourceSync, tmp_path: Path
) -> None:
    (tmp_path / "folder" / "bad.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    sync.discover()
    token = claimed(sync)
    sync._ledger.sources.remove("papers", "anna", "")
    assert sync.deliver(token)["delivered"] == 0
    assert sync.claim(10) is None
    assert sync.permit.ended
    assert sync.troubles == {}


def test_a_batch_of_many_jobs_is_left_to_who_asks(sync: SourceSync, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.sync.session._FEW", 9)
    token = claimed(sync)
    sync.run_ahead(token)
    assert sync.progress.read == 0
