"""The run slots that the worker publishes to other processes."""

from __future__ import annotations

import stat
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from catchment.runtime.process import identity
from catchment.runtime.worker_status import WorkerStatus
from catchment.settings import Home


def _places(worker: str) -> WorkerStatus:
    return WorkerStatus(worker, datetime(2026, 1, 1, tzinfo=UTC), limit=1, cap=2, cpu=0.5, memory=0.25, waiting=3)


def test_last_published_slots_are_read(home: Home) -> None:
    _places("before").write(home)
    said = _places(identity())

    said.write(home)

    assert WorkerStatus.read(home) == said
    files = {file.name: stat.S_IMODE(file.stat().st_mode) for file in home.run.iterdir() if file.suffix != ".lock"}
    assert files == {"worker.json": 0o600}


def test_slots_are_unknown_without_a_live_worker(home: Home) -> None:
    assert WorkerStatus.read(home) is None
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as worker:
        _places(identity(worker.pid)).write(home)
        assert WorkerStatus.read(home) is not None
    assert WorkerStatus.read(home) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"worker": 1, "at": "now"}', '{"at": "2026-01-01T00:00:00+00:00"}'])
def test_damaged_slot_file_is_ignored(home: Home, text: str) -> None:
    (home.run / "worker.json").write_text(text)

    assert WorkerStatus.read(home) is None
