"""Sources that share the machine: a turn that goes round, and a place that is given up for others and taken again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

import pytest

from catchment.errors import StaleLease
from catchment.ledger import Ledger, Source
from catchment.ledger.limits.turns import Standing, Turns
from catchment.model import Item, JobState, Priority, RawContent
from catchment.places import Places
from catchment.runtime import process
from catchment.runtime.heartbeat import Pulse
from catchment.settings import Home
from catchment.sync import session
from catchment.sync.fair_share import Turn
from catchment.sync.session import SourceSync, open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.waiting import until

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
def syncing(home: Home, folder: Path, kind: type[LocalFiles] = LocalFiles) -> Iterator[SourceSync]:
    connector = kind(LocalFilesSettings(root=folder))
    with open_sync(home, connector, "papers", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.may_yield = True
        yield sync


@pytest.fixture
def crowd(home: Home, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say that so many runs wait for a place; a sync has had its own for long enough at once."""
    monkeypatch.setattr(session, "_PLACE_SECONDS", 0.0)

    def say(waiting: int) -> None:
        Places(process.identity(), datetime.now(UTC), 1, 1, 0.5, 0.5, 1, waiting).write(home)

    return say


def work(sync: SourceSync, batch: int = 10) -> None:
    while (token := sync.claim(batch)) is not None:
        sync.deliver(token)


def counts(home: Home) -> dict[JobState, int]:
    with closing(Ledger.open(home.database_url)) as ledger:
        return {state: n for state, n in ledger.queue.counts()["papers"].items() if n}


def test_a_sync_yields_its_place_and_the_next_one_goes_on_without_listing_first(
    home: Home, folder: Path, crowd: Callable[[int], None]
) -> None:
    with syncing(home, folder) as sync:
        sync.discover()
        token = sync.claim(10)
        assert token is not None
        sync.deliver(token)
        crowd(1)
        assert sync.claim(10) is None
        assert sync.yields and not sync.unlisted
        assert sync.end_yielded()["succeeded"] == 10
    assert counts(home) == {JobState.SUCCEEDED: 10, JobState.PENDING: 50}
    crowd(0)
    (folder / "0" / "new.md").write_text("Written meanwhile")
    with syncing(home, folder) as sync:
        assert sync.continues
        work(sync)
        assert sync.progress.succeeded == 60
        sync.discover()
        work(sync)
        assert not sync.yields
        assert sync.end()["succeeded"] == 61
    assert counts(home) == {JobState.SUCCEEDED: 61}
    with syncing(home, folder) as sync:
        assert not sync.continues
        sync.discover()
        assert sync.end()["succeeded"] == 0


class Slow(LocalFiles):
    """A folder of which each file takes a tenth of a second."""

    fetch_in_parser: ClassVar[bool] = False

    def fetch(self, item: Item) -> RawContent:
        time.sleep(0.1)
        return super().fetch(item)


def test_a_batch_is_of_about_two_seconds_of_work(home: Home, folder: Path) -> None:
    with syncing(home, folder, Slow) as sync:
        sync.discover()
        first = sync.claim(5)
        assert first is not None
        sync.deliver(first)
        assert sync.claim(1_000) is not None
        assert counts(home)[JobState.RUNNING] < 50


def test_what_others_kept_a_batch_waiting_does_not_make_the_next_one_smaller(home: Home, folder: Path) -> None:
    with syncing(home, folder) as sync:
        sync.discover()
        for seconds in (0.0, 1.5):
            token = sync.claim(10)
            assert token is not None
            time.sleep(seconds)
            sync.deliver(token)
        assert sync.claim(1_000) is not None
        assert counts(home)[JobState.RUNNING] == 40


def test_a_listing_that_yields_loses_nothing_and_deletes_nothing(
    home: Home, folder: Path, crowd: Callable[[int], None]
) -> None:
    with syncing(home, folder) as sync:
        sync.discover()
        work(sync)
        sync.end()
    for n in range(3):
        (folder / f"more {n}").mkdir()
        (folder / f"more {n}" / "note.md").write_text(f"More {n}")
    (folder / "0" / "0.md").unlink()
    crowd(1)
    with syncing(home, folder) as sync:
        sync.discover()
        assert sync.yields and sync.unlisted
        assert sync.progress.deleted == 0
        sync.end_yielded()
    crowd(0)
    with syncing(home, folder) as sync:
        work(sync)
        sync.discover()
        work(sync)
        assert sync.end()["deleted"] == 1
    with closing(Ledger.open(home.database_url)) as ledger:
        assert len(ledger.library.search("More")) == 3
        assert ledger.check() == []


def test_a_sync_that_is_done_does_not_yield(home: Home, folder: Path, crowd: Callable[[int], None]) -> None:
    with syncing(home, folder) as sync:
        sync.discover()
        work(sync)
        crowd(5)
        assert sync.claim(10) is None
        assert not sync.yields
        sync.end()


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        yield ledger


def turn(ledger: Ledger, name: str) -> Turn:
    """The turn of a source, where one source works at a time."""
    source: Source = ledger.sources.put(name, "local_files", Priority.NORMAL)
    sync = ledger.syncs.begin(source.id, run=None, owner=process.identity(), code_version="1", alive=process.alive)
    return Turn(Turns(ledger._store, cap=1), sync, 4, Pulse(_SECONDS))


def test_a_source_at_work_gives_way_between_two_steps(ledger: Ledger) -> None:
    busy, small = turn(ledger, "busy"), turn(ledger, "small")
    stop, at_work = threading.Event(), threading.Event()
    together: list[str] = []
    inside: list[str] = []

    def step(name: str, of: Turn) -> None:
        with of.taken():
            inside.append(name)
            together.extend(inside if len(set(inside)) > 1 else [])
            at_work.set()
            stop.wait(0.01)
            inside.remove(name)

    def work_on() -> None:
        while not stop.is_set():
            step("busy", busy)

    worker = threading.Thread(target=work_on)
    worker.start()
    try:
        assert at_work.wait(_SECONDS)
        for _ in range(2):
            step("small", small)
    finally:
        stop.set()
        small.close()
        worker.join(_SECONDS)
        busy.close()
    assert not worker.is_alive()
    assert together == []
    assert ledger.turns.standings() == []


def test_who_waits_for_a_turn_that_is_kept_after_all_goes_on(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    another = Standing(9, 9, process.identity(), "local_files", 4, 1, 0, counts_until=1)
    anothers, entered = threading.Event(), threading.Event()
    monkeypatch.setattr("catchment.sync.fair_share._ACCOUNT_SECONDS", 0.0)
    monkeypatch.setattr("catchment.sync.fair_share._LOOK_SECONDS", 0.01)
    monkeypatch.setattr(Turn, "_others", lambda _self: [another])
    monkeypatch.setattr(Turns, "account", lambda *_, **__: anothers.is_set())
    busy = turn(ledger, "busy")

    def enter() -> None:
        with busy.taken():
            entered.set()

    with busy.taken():
        anothers.set()
        until(lambda: busy._gives_way)
        waiting = threading.Thread(target=enter, daemon=True)
        waiting.start()
        assert not entered.wait(0.2)
        anothers.clear()
        assert entered.wait(_SECONDS)
    waiting.join(_SECONDS)
    busy.close()


def test_who_waits_for_a_turn_is_told_when_the_sync_ends(ledger: Ledger) -> None:
    holder, waits = turn(ledger, "holder"), turn(ledger, "waits")
    told: list[BaseException] = []

    def wait() -> None:
        try:
            with waits.taken():
                pass
        except StaleLease as error:
            told.append(error)

    with holder.taken():
        waiting = threading.Thread(target=wait)
        waiting.start()
        while not any(one.waits_since for one in ledger.turns.standings()):
            threading.Event().wait(0.01)
        waits.close()
        waiting.join(_SECONDS)
    holder.close()
    assert len(told) == 1
