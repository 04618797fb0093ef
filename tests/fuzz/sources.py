"""Sync a folder of files through the parser pool; measure the outcome of each file and the peak memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.settings import Home, LimitChanges, Limits, Policy, RetryPolicy
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings

_EVERY = 0.02
_AT_ONCE = 10


def become(home: Home, folder: Path, limits: Limits) -> dict[str, str]:
    """Return the outcome of each file: "document", "skipped", or the reason of its only quarantine entry."""
    policy = Policy(retry=RetryPolicy(backoff="immediate", attempts=2), limits=limits)
    connector = LocalFiles(LocalFilesSettings(root=folder, limits=LimitChanges(**limits.model_dump())))
    with open_sync(home, connector, "bombs", policy, Priority.NORMAL) as sync:
        sync.discover()
        while (token := sync.claim(_AT_ONCE)) is not None:
            sync.process(token)
        for job in list(sync.troubles):
            while (trouble := sync.process_alone(job)) and trouble.retry_at is not None:
                pass
        sync.finish("completed")
    ledger = Ledger.open(home.database_url)
    try:
        assert ledger.check() == []
        entries = ledger.quarantine.list()
        assert len({entry.item for entry in entries}) == len(entries), "one entry for each file"
        states = {row.item: str(row.state) for row in ledger.queue.jobs(limit=10_000)}
        ended = {name: "document" if state == "succeeded" else state for name, state in states.items()}
        return ended | {entry.item: str(entry.reason) for entry in entries}
    finally:
        ledger.close()


@contextmanager
def peak_memory() -> Iterator[dict[str, int]]:
    """Return the peak memory in bytes of any descendant process, as `parser`, and of this process, as `own`."""
    most, ended = {"parser": 0, "own": 0}, threading.Event()

    def look() -> None:
        own = psutil.Process()
        while not ended.wait(_EVERY):
            most["own"] = max(most["own"], own.memory_info().rss)
            for child in own.children(recursive=True):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    most["parser"] = max(most["parser"], child.memory_info().rss)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield most
    finally:
        ended.set()
        watcher.join()
