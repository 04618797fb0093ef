"""The supervisor kills processes that are stopped at two checks in a row."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from catchment.settings import Home
from deployments.supervisor.sweep import Sweep
from tests.waiting import PATIENCE


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def sweep(home: Home, monkeypatch: pytest.MonkeyPatch) -> Sweep:
    """A sweep that is due at every check."""
    monkeypatch.setattr("deployments.supervisor.sweep._SECONDS", 0.0)
    return Sweep(home)


def test_process_stopped_at_two_checks_is_killed(sweep: Sweep, child: subprocess.Popen[bytes]) -> None:
    stop(child)
    sweep.run_if_due()
    assert child.poll() is None
    sweep.run_if_due()
    assert child.wait(PATIENCE) == -signal.SIGKILL


def test_process_resumed_between_checks_is_kept(sweep: Sweep, child: subprocess.Popen[bytes]) -> None:
    stop(child)
    sweep.run_if_due()
    child.send_signal(signal.SIGCONT)
    sweep.run_if_due()
    stop(child)
    sweep.run_if_due()
    assert child.poll() is None


def stop(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGSTOP)
    while psutil.Process(child.pid).status() != psutil.STATUS_STOPPED:
        pass
