"""The pulse of a run as another process reads it, and what a sync does without one."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.parser_pool import ParserPool
from catchment.runtime.heartbeat import VARIABLE, Pulse, is_overdue, pulse_file
from catchment.settings import Home, Limits
from catchment.sync.session import open_sync
from connectors.local_files import LocalFiles, LocalFilesSettings
from tests.waiting import until

_STUCK = """
import sys, threading
from catchment.runtime.heartbeat import Pulse
pulse = Pulse(0.05)
pulse.beat()
print("beats", flush=True)
sys.stdin.readline()
with pulse.patient(60):
    print("is patient", flush=True)
    sys.stdin.readline()
print("is stuck", flush=True)
threading.Lock().acquire() and sys.stdin.readline()
"""


def until_overdue(file: Path) -> None:
    until(lambda: is_overdue(file))


def test_a_process_that_is_stuck_is_told_from_one_that_waits_for_what_takes_long() -> None:
    with pulse_file() as file:
        assert not is_overdue(file), "a run that keeps no pulse is left alone"
        with subprocess.Popen(
            [sys.executable, "-c", _STUCK],
            env={VARIABLE: str(file)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == "beats\n"
            until_overdue(file)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "is patient\n"
            assert not is_overdue(file)
            process.stdin.write("\n")
            process.stdin.flush()
            assert process.stdout.readline() == "is stuck\n"
            until_overdue(file)
            process.kill()
    assert not file.exists()


def test_the_longest_patience_of_all_that_goes_on_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    pulse = Pulse(0.0)
    assert not pulse.is_overdue(), "it has not begun"
    with pulse.patient(60):
        with pulse.patient(1):
            pulse.beat()
        assert not pulse.is_overdue()
    assert pulse.is_overdue()


def test_the_leases_of_a_sync_that_gets_nowhere_are_not_renewed(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    connector = LocalFiles(LocalFilesSettings(root=tmp_path / "notes"))
    policy = LocalFiles.policy.model_copy(update={"limits": Limits(stall_seconds=0.4)})
    with pulse_file() as file:
        monkeypatch.setenv(VARIABLE, str(file))
        with open_sync(home, connector, "notes", policy, Priority.NORMAL) as sync:
            sync.discover()
            assert sync.claim(1) is not None
            lease = until_of(home)
            sync.renew()
            renewed = until_of(home)
            assert renewed > lease
            until_overdue(file)
            sync.renew()
            assert until_of(home) == renewed


def test_a_run_that_hears_nothing_of_its_parsers_is_stuck_and_not_for_as_long_as_an_item_may_take(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("a")
    monkeypatch.delenv(VARIABLE, raising=False)
    stuck: dict[float, bool] = {}
    clock = time.monotonic

    def silent(_self: ParserPool, _function: object, _tasks: object, _limits: Limits, heard: Callable[[], None]) -> Any:
        heard()
        for seconds in (100.0, 600.0):
            with monkeypatch.context() as later:
                later.setattr(time, "monotonic", lambda seconds=seconds: clock() + seconds)
                stuck[seconds] = sync._bench.pulse.is_overdue()
        return iter(())

    monkeypatch.setattr(ParserPool, "run", silent)
    connector = LocalFiles(LocalFilesSettings(root=tmp_path / "notes"))
    with open_sync(home, connector, "notes", LocalFiles.policy, Priority.NORMAL) as sync:
        sync.discover()
        token = sync.claim(1)
        assert token is not None
        sync.normalize(token)
    assert stuck == {100.0: False, 600.0: True}


def until_of(home: Home) -> float:
    """Until when the one job that is worked on is leased."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        (job,) = ledger.queue.jobs(source="notes")
        assert job.lease_until is not None
        return job.lease_until.timestamp()
