"""The resources shared by the syncs of one process: batch sizes, one ledger, one thread that renews leases."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from catchment.errors import LedgerUnavailable, TryAgain
from catchment.ledger import Ledger
from catchment.model import Item, JobState, Priority, RawContent
from catchment.settings import Home
from catchment.sync.shared import Renewals, shared_ledger
from catchment.sync.source_sync import SourceSync, open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings

pytestmark = pytest.mark.full

_SECONDS = 30


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    for n in range(3):
        (folder / str(n)).mkdir(parents=True)
        for m in range(20):
            (folder / str(n) / f"{m}.md").write_text(f"Note {m} of {n}")
    return folder


@contextmanager
def syncing(
    home: Home, folder: Path, kind: type[LocalFiles] = LocalFiles, name: str = "papers"
) -> Iterator[SourceSync]:
    connector = kind(LocalFilesSettings(root=folder))
    with open_sync(home, connector, name, LocalFiles.policy, Priority.NORMAL) as sync:
        yield sync


def counts(home: Home) -> dict[JobState, int]:
    with closing(Ledger.open(home.database_url)) as ledger:
        return {state: n for state, n in ledger.queue.counts()["papers"].items() if n}


class Slow(LocalFiles):
    """A folder in which reading a file takes a tenth of a second."""

    fetch_in_parser: ClassVar[bool] = False

    def fetch(self, item: Item) -> RawContent:
        time.sleep(0.1)
        return super().fetch(item)


def test_batch_holds_about_two_seconds_of_work(home: Home, folder: Path) -> None:
    with syncing(home, folder, Slow) as sync:
        sync.discover()
        first = sync.claim(5)
        assert first is not None
        sync.process(first)
        assert sync.claim(1_000) is not None
        assert counts(home)[JobState.RUNNING] < 50


def test_waiting_for_other_syncs_does_not_shrink_the_next_batch(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        sync.discover()
        for seconds in (0.0, 1.5):
            token = sync.claim(10)
            assert token is not None
            time.sleep(seconds)
            sync.process(token)
        assert sync.claim(1_000) is not None
        assert counts(home)[JobState.RUNNING] == 40


def test_batches_are_smaller_while_another_sync_is_open(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.sync.source_sync._SHARED_BATCH", 7)
    with syncing(home, folder) as sync:
        sync.discover()
        with syncing(home, folder, name="others"):
            assert sync.claim(1_000) is not None
            assert counts(home)[JobState.RUNNING] == 7
        assert sync.claim(1_000) is not None
        assert counts(home)[JobState.RUNNING] == 60


def test_syncs_of_a_process_share_one_ledger_until_the_last_is_closed(home: Home, folder: Path) -> None:
    with syncing(home, folder) as one:
        with syncing(home, folder, name="others") as two:
            assert one._ledger is two._ledger
        one.discover()
        while (token := one.claim(100)) is not None:
            one.process(token)
        assert one.finish("completed")["succeeded"] == 60
    with shared_ledger(home) as later:
        assert later is not one._ledger


def test_concurrent_syncs_in_one_process_ingest_all_items(home: Home, folder: Path) -> None:
    names = [f"source-{n}" for n in range(4)]
    failed: list[Exception] = []

    def run(name: str) -> None:
        try:
            with syncing(home, folder, name=name) as sync:
                sync.discover()
                while (token := sync.claim(10)) is not None:
                    sync.normalize(token)
                    sync.process(token)
                sync.finish("completed")
        except Exception as error:  # noqa: BLE001 - shown by the test
            failed.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_SECONDS)
    assert failed == []
    with closing(Ledger.open(home.database_url)) as ledger:
        found = ledger.queue.counts()
        assert {name: found[name][JobState.SUCCEEDED] for name in names} == dict.fromkeys(names, 60)
        assert ledger.check() == []


def test_one_thread_renews_for_all_and_ends_with_the_last() -> None:
    renewals = Renewals(0.01)
    renewed = {name: threading.Event() for name in "ab"}
    with renewals.of(renewed["a"].set):
        with renewals.of(renewed["b"].set):
            assert renewed["a"].wait(_SECONDS) and renewed["b"].wait(_SECONDS)
            assert [thread.name for thread in threading.enumerate()].count("leases") == 1
        renewed["a"].clear()
        assert renewed["a"].wait(_SECONDS)
    assert "leases" not in [thread.name for thread in threading.enumerate()]
    with renewals.of(renewed["b"].set):
        renewed["b"].clear()
        assert renewed["b"].wait(_SECONDS)


def test_second_sync_of_a_source_in_one_process_is_refused(home: Home, folder: Path) -> None:
    with syncing(home, folder) as first:
        with pytest.raises(TryAgain), syncing(home, folder):
            pass
        assert first.finish("completed") is not None
    with syncing(home, folder) as second:
        second.finish("completed")


def test_sync_that_could_not_be_closed_does_not_block_its_source(
    home: Home, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise LedgerUnavailable("the disk is full; make room")

    with monkeypatch.context() as patch, syncing(home, folder) as sync:
        sync.discover()
        assert sync.claim(10) is not None
        patch.setattr(sync._ledger.queue, "release", full)
        patch.setattr(sync._ledger.syncs, "end", full)
        sync.close()
    with syncing(home, folder) as sync:
        sync.discover()
        while (token := sync.claim(100)) is not None:
            sync.process(token)
        assert sync.finish("completed")["succeeded"] == 60
    with closing(Ledger.open(home.database_url)) as ledger:
        assert [row.outcome for row in ledger.syncs.recent()] == ["completed", "crashed"]
