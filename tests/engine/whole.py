"""The whole engine driven without a server: real files, a real ledger, a clock that the test moves."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import event

from catchment.contracts import Known
from catchment.errors import CatchmentError, SourceUnavailable, Stopped, TryAgain
from catchment.ledger import Ledger, Source
from catchment.ledger.admin import backup as backups
from catchment.model import Change, Priority
from catchment.parser_pool import Failed, ParserPool
from catchment.settings import Home, Limits, Policy, RetryPolicy
from catchment.sync.plan import Plan, PlanFilter, make_plan
from catchment.sync.preflight import WHOLE
from catchment.sync.prove import Proven, prove, repair
from catchment.sync.revoke import Extent, PurgeProof, revoke
from catchment.sync.source_sync import SourceSync, open_sync
from tests.engine.disk import Disk, Words, words_of

RETRY = timedelta(minutes=10)
POLICY = Policy(
    retry=RetryPolicy(
        backoff="fixed", attempts=2, initial=RETRY.total_seconds(), maximum=RETRY.total_seconds(), jitter=0
    )
)
ALL = Extent(frozenset({WHOLE}), lambda _locator: True, whole=True)

T = TypeVar("T")
R = TypeVar("R")


class Disturbance(Enum):
    """The outcome of a listing that is disturbed midway."""

    GOES_ON = auto()
    BREAKS_OFF = auto()
    STOPS = auto()


Shelf = dict[str, tuple[int, Words]]
"""The library contents of a source: the document number and words of each path."""


_SHELF = """
    SELECT items.locator, documents.id, contents.text FROM documents JOIN items ON items.id = documents.item_id
    JOIN contents ON contents.id = documents.content_id JOIN sources ON sources.id = documents.source_id
    WHERE documents.removed_at IS NULL AND sources.name = ?
"""
_MISSING = """
    SELECT locator FROM items JOIN sources ON sources.id = items.source_id
    WHERE items.state = 'missing' AND sources.name = ?
"""


class InProcess(ParserPool):
    """Runs tasks in the calling process; killed parsers are tested elsewhere."""

    def run(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        limits: Limits,
        heard: Callable[[], None] = lambda: None,
        abandoned: threading.Event | None = None,
    ) -> Iterator[tuple[int, R | Failed]]:
        for index, task in enumerate(tasks):
            try:
                outcome: R | Failed = function(task)
            except CatchmentError as error:
                outcome = Failed(error, "")
            yield index, outcome


class Engine:
    """A home with a ledger and its source folders. `empty` is the ledger template."""

    def __init__(self, folder: Path, empty: Path) -> None:
        self.home = Home(folder / "home").make()
        self._file = Path(self.home.database_url.removeprefix("sqlite:///"))
        shutil.copyfile(empty, self._file)
        self.disks = {name: Disk(folder / name, vault=name == "vault") for name in ("papers", "vault")}
        self._backups = folder
        self._ahead = timedelta()
        self._open()
        for name, disk in self.disks.items():
            self.ledger.sources.put(name, disk.connector.kind, Priority.NORMAL)

    def _open(self) -> None:
        self.ledger = Ledger.open(self.home.database_url, clock=self._clock)

    def close(self) -> None:
        self.ledger.close()

    def reopen(self) -> None:
        self.close()
        self._open()

    def forward(self, by: timedelta) -> None:
        self._ahead += by

    def _clock(self) -> float:
        return time.time() + self._ahead.total_seconds()

    def source(self, name: str) -> Source:
        return self.ledger.sources.get(name)

    def shelf(self, name: str) -> Shelf:
        """Return the library contents of a source."""
        with self.ledger._store.read() as reading:
            rows = reading.connection.exec_driver_sql(_SHELF, (name,)).all()
        assert len({place for place, *_ in rows}) == len(rows)
        return {place: (number, words_of(text)) for place, number, text in rows}

    def missing(self, name: str) -> set[str]:
        """Return the paths of items with a held deletion."""
        with self.ledger._store.read() as reading:
            return {place for (place,) in reading.connection.exec_driver_sql(_MISSING, (name,))}

    # Syncs

    @contextmanager
    def syncing(self, name: str) -> Iterator[SourceSync]:
        connector, pool = self.disks[name].connector, InProcess(1)
        with open_sync(self.home, connector, name, POLICY, Priority.NORMAL, ledger=self.ledger, pool=pool) as sync:
            yield sync

    def sync(
        self, name: str, *, deep: bool = False, told: frozenset[str] | None = None, plan: Plan | None = None
    ) -> dict[str, int]:
        """Run one sync from listing to last item. `told` restricts it to these paths, as the watcher does."""
        with self.syncing(name) as sync:
            sync.discovery.changed = told
            if plan is not None:
                sync.discovery.through = PlanFilter(plan, sync.progress)
            try:
                sync.discover(deep=deep)
            except CatchmentError as error:
                sync.finish("failed", error)
                raise
            return finish(sync)

    def sync_disturbed(self, name: str, at: int, end: Disturbance, happen: Callable[[], object] = lambda: None) -> bool:
        """Sync, and disturb the listing after `at` changes; return whether the listing reached that point."""
        with self.syncing(name) as sync:
            listed, happened = sync._bench.connector.changes, False

            def disturbed(known: Known, *, deep: bool) -> Iterator[Change]:
                nonlocal happened
                for said, change in enumerate(listed(known, deep=deep)):
                    if said == at:
                        happen()
                        happened = True
                        if end is Disturbance.STOPS:
                            sync.stop("asked to stop")
                        if end is Disturbance.BREAKS_OFF:
                            raise SourceUnavailable("not there just now")
                    yield change

            sync._bench.connector.changes = disturbed  # type: ignore[method-assign]
            try:
                sync.discover()
            except SourceUnavailable as error:
                sync.finish("failed", error)
            except Stopped:
                sync.finish("cancelled")
            else:
                finish(sync)
            return happened

    def sync_together(self) -> None:
        """Sync both sources at once, alternating between their batches."""
        with ExitStack() as stack:
            syncs = [stack.enter_context(self.syncing(name)) for name in self.disks]
            for sync in syncs:
                sync.discover()
            for name in self.disks:
                with pytest.raises(TryAgain), self.syncing(name):
                    pass
            working = list(syncs)
            while working:
                sync = working.pop(0)
                if (token := sync.claim(2)) is not None:
                    sync.process(token)
                    working.append(sync)
            for sync in syncs:
                finish(sync)

    def sync_killed(self, name: str, at: int) -> bool:
        """Sync in a child process that is killed before commit number `at`; return whether it was killed."""
        self.close()
        child = os.fork()
        if child == 0:
            try:
                self._open()
                _kill_at_commit(self.ledger, at)
                self.sync(name)
                os._exit(0)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        self._open()
        assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
        return os.WIFSIGNALED(status)

    def plan(self, name: str) -> Plan:
        return make_plan(self.home, self.ledger, self.source(name), self.disks[name].connector, POLICY)

    def prove(self, name: str) -> Proven:
        return prove(self.home, self.ledger, self.source(name), self.disks[name].connector, POLICY)

    def repair(self, name: str, proven: Proven) -> int:
        return repair(self.ledger, self.source(name), proven, "anna")

    # Operator actions

    def revoke(self, name: str) -> PurgeProof:
        return revoke(self.home, self.ledger, self.source(name), ALL, "anna")

    def agree(self, name: str) -> None:
        self.ledger.consents.give(self.source(name).id, {WHOLE}, "anna", None)

    def back_up(self, number: int) -> Path:
        file = self._backups / f"backup {number}.db"
        assert self.ledger.back_up(file, {}) == []
        return file

    def restore(self, file: Path) -> None:
        """Restore the ledger as `catchment restore` does."""
        self.close()
        for ending in ("", "-wal", "-shm"):
            self.home.cache.with_name(self.home.cache.name + ending).unlink(missing_ok=True)
        assert backups.restore(f"sqlite:///{self._file}", file).broken == []
        self._open()

    def tidy(self) -> None:
        """Run the daily clean-up."""
        self.ledger.intake.purge()
        self.ledger.undo.purge(1_000_000)


def finish(sync: SourceSync) -> dict[str, int]:
    """Process all batches, then each failing item alone."""
    while (token := sync.claim(250)) is not None:
        sync.process(token)
    for job in sync.jobs_to_process_alone(100):
        sync.process_alone(job)
    return sync.finish("completed")


def _kill_at_commit(ledger: Ledger, at: int) -> None:
    left = iter(range(at))

    def commits(_connection: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(ledger._store.engine, "commit", commits)
