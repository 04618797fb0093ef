"""`up --detach`: failed starts and the log of starts."""

from __future__ import annotations

import contextlib

import psutil
import pytest

from catchment.errors import TryAgain
from catchment.settings import Home
from deployments.server.logs import LOG_BYTES
from deployments.server.running import running
from deployments.supervisor import start_detached
from deployments.supervisor.supervisor import up

pytestmark = pytest.mark.server


def test_failed_start_leaves_no_process(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_detached, "_START_SECONDS", 2.0)
    with pytest.raises(TryAgain, match="did not start in time"):
        up(home, detach=True, announce=print)
    assert running(home) is None
    assert processes(home) == []


def test_start_log_is_rotated(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    log = home.make().logs / "up.log"
    log.write_bytes(b"said long ago\n" * (LOG_BYTES // 10))
    monkeypatch.setattr(start_detached, "_START_SECONDS", 0.0)
    with pytest.raises(TryAgain):
        up(home, detach=True, announce=print)
    assert b"long ago" in log.with_suffix(".log.1").read_bytes()
    assert b"long ago" not in log.read_bytes()


def processes(home: Home) -> list[str]:
    """Return the processes of a home."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("CATCHMENT_HOME") == str(home.path):
                found.append(" ".join(process.cmdline()))
    return found
