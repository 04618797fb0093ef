"""The reports that processes publish to others, such as the run slots of the worker."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from catchment.runtime.process import identity
from catchment.runtime.reports import ProcessReport
from catchment.runtime.server_report import PlannedRun
from catchment.runtime.watch_status import Watching
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


@dataclass(frozen=True, slots=True)
class _Sample(ProcessReport):
    file: ClassVar = "sample.json"
    name: str
    at: datetime
    share: float
    plans: Mapping[str, tuple[PlannedRun, ...]]
    state: Watching | None = None


def test_report_is_read_as_it_was_written(home: Home) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for state in (None, Watching.GONE):
        sample = _Sample("é", at, 1, {"notes": (PlannedRun(at, "schedule"),)}, state)
        assert sample.write(home)
        assert _Sample.read(home) == sample


@pytest.mark.parametrize(
    "changed",
    [
        {"name": 3},
        {"name": None},
        {"at": 5},
        {"at": "soon"},
        {"share": "0.5"},
        {"plans": []},
        {"plans": {"notes": [{"at": "2026-01-01T00:00:00+00:00"}]}},
        {"plans": {"notes": 4}},
        {"state": "unknown"},
        {"later": True},
    ],
)
def test_report_of_another_version_is_none(home: Home, changed: dict[str, object]) -> None:
    fields = {"name": "a", "at": "2026-01-01T00:00:00+00:00", "share": 0.5, "plans": {}}
    _Sample.path(home).write_text(json.dumps(fields))
    assert _Sample.read(home) is not None
    _Sample.path(home).write_text(json.dumps(fields | changed))
    assert _Sample.read(home) is None


def test_report_on_a_bad_disk_stops_nothing(home: Home) -> None:
    _Sample.path(home).mkdir()
    assert not _Sample("a", datetime.now(UTC), 0.5, {}).write(home)
    assert _Sample.read(home) is None
