"""The heartbeat of a sync, and the leases of a sync that makes no progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.errors import Stopped
from catchment.ledger import Ledger
from catchment.model import Change, Priority
from catchment.parser_pool import ParserPool
from catchment.runtime.heartbeat import ProgressDeadline
from catchment.settings import Home, Limits
from catchment.sync.source_sync import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.waiting import until


def test_longest_patience_of_all_open_blocks_counts() -> None:
    deadline = ProgressDeadline(0.0)
    assert not deadline.is_overdue(), "it has not begun"
    with deadline.allow(60):
        with deadline.allow(1):
            deadline.beat()
        assert not deadline.is_overdue()
    assert deadline.is_overdue()


def test_leases_of_a_sync_without_progress_are_not_renewed(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    connector = LocalFiles(LocalFilesSettings(root=tmp_path / "notes"))
    policy = LocalFiles.policy.model_copy(update={"limits": Limits(stall_seconds=0.4)})
    with open_sync(home, connector, "notes", policy, Priority.NORMAL) as sync:
        sync.discover()
        assert sync.claim(1) is not None
        lease = lease_expiry(home)
        sync.renew()
        renewed = lease_expiry(home)
        assert renewed > lease
        until(lambda: sync.is_overdue)
        sync.renew()
        assert lease_expiry(home) == renewed


def test_connector_that_returns_nothing_is_overdue_and_its_sync_fails(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    connector = LocalFiles(LocalFilesSettings(root=tmp_path / "notes"))
    policy = LocalFiles.policy.model_copy(update={"limits": Limits(stall_seconds=0.02)})
    with open_sync(home, connector, "notes", policy, Priority.NORMAL) as sync:

        def hangs(_self: LocalFiles, _known: object, *, deep: bool) -> Iterator[Change]:
            until(lambda: sync.is_overdue)
            raise Stopped("the run was cancelled")
            yield

        monkeypatch.setattr(LocalFiles, "changes", hangs)
        with pytest.raises(Stopped):
            sync.discover()
    with closing(Ledger.inspect(home.database_url)) as ledger:
        last = ledger.syncs.last(ledger.sources.get("notes").id)
        assert last is not None
        assert (last.outcome, "no progress" in str(last.error)) == ("failed", True)


def test_run_without_parser_progress_is_stuck_after_the_item_limit(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    stuck: dict[float, bool] = {}
    clock = time.monotonic

    def silent(_self: ParserPool, _function: object, _tasks: object, _limits: Limits, heard: Callable[[], None]) -> Any:
        heard()
        for seconds in (100.0, 600.0):
            with monkeypatch.context() as later:
                later.setattr(time, "monotonic", lambda seconds=seconds: clock() + seconds)
                stuck[seconds] = sync._bench.deadline.is_overdue()
        return iter(())

    monkeypatch.setattr(ParserPool, "run", silent)
    connector = LocalFiles(LocalFilesSettings(root=tmp_path / "notes"))
    with open_sync(home, connector, "notes", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(1)
        assert token is not None
        sync.normalize(token)
    assert stuck == {100.0: False, 600.0: True}


def lease_expiry(home: Home) -> float:
    """Return the lease expiry of the only running job."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        (job,) = ledger.queue.jobs(source="notes")
        assert job.lease_until is not None
        return job.lease_until.timestamp()
