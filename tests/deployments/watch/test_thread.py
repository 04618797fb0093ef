"""The watcher thread: its report, its restart after a crash, and its stop."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from catchment.runtime import child_process
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, read
from deployments.watch.thread import WatcherThread
from deployments.watch.watcher import Watcher
from tests.deployments.watch.conftest import StandinServer, add_source, state_of
from tests.waiting import until


@contextmanager
def started(home: Home) -> Iterator[WatcherThread]:
    thread = WatcherThread(home, logging.getLogger("watcher"))
    thread.start()
    try:
        yield thread
    finally:
        thread.stop()


def test_thread_records_changes_and_leaves_no_status(home: Home, root: Path, standin: StandinServer) -> None:
    (home.run / "dirty-notes.json").write_text("of an earlier version")
    add_source(home, "notes", root)
    with started(home) as thread:
        until(lambda: standin.events)
        thread.changes.take("notes")
        (root / "new.md").write_text("new")
        until(lambda: not thread.changes.is_taken("notes"))
        hint = thread.changes.take("notes")
        assert hint is not None
        assert hint.paths == {"new.md"}
        assert state_of(home, "notes") is not None
    assert read(home) is None
    assert list(home.run.glob("dirty-*")) == []


def test_crash_is_reported_logged_and_followed_by_a_full_comparison(
    home: Home,
    root: Path,
    standin: StandinServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def crash(_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(child_process, "_FIRST_SECONDS", 0.5)
    add_source(home, "notes", root)
    with started(home) as thread:
        until(lambda: standin.events)
        thread.changes.take("notes")
        with monkeypatch.context() as patch:
            patch.setattr(Watcher, "_report", crash)
            (root / "new.md").write_text("new")
            until(lambda: (state := state_of(home, "notes")) and state.state is Watching.LIMITED)
        until(lambda: (state := state_of(home, "notes")) and state.state is Watching.WATCHING)
        until(lambda: len(standin.events) >= 2)
        assert thread.changes.take("notes") is None
    assert "crashed" in caplog.text
