from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

from deployments.server import logs
from deployments.server.logs import BoundedLog, LogFormat, log_line, message_of
from deployments.server.processes import end
from tests.waiting import PATIENCE, until

_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True)
print(child.pid, flush=True)
{then}
"""


def test_log_is_bounded_and_keeps_its_latest_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "LOG_BYTES", 1_000)
    process = subprocess.Popen([sys.executable, "-c", "for i in range(1000): print('line', i)"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    log = BoundedLog(tmp_path / "server.log")
    log.follow(process.stdout)
    process.wait()
    _until_written(tmp_path / "server.log", b"line 999\n")
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["server.log", "server.log.1"]
    assert sum(file.stat().st_size for file in files) < 3_000
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's device that is always full")
def test_full_disk_drops_log_lines_and_reports_their_number(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.symlink_to("/dev/full")
    says = "for i in range(3000): print('a line of some length', i)\nprint(input(), flush=True)"
    process = subprocess.Popen([sys.executable, "-uc", says], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    log = BoundedLog(path)
    log.follow(process.stdout)
    until(lambda: log._lost, lambda lost: lost >= 3_000)
    path.unlink()
    process.stdin.write(b"the last line\n")
    process.stdin.close()
    _until_written(path, b" the last line\n")
    assert [line[25:] for line in path.read_text().splitlines()] == [
        "(3000 lines lost: the disk was full)",
        "the last line",
    ]
    assert process.wait() == 0


def test_lines_begin_with_their_time_or_are_objects() -> None:
    at = datetime(2026, 11, 20, 10, 0, 0, 250_000, tzinfo=UTC)
    of_prefect = b"07:01:02.123 | WARNING | prefect.flow_runs - slow: 3 s\n"

    def logged(line: bytes) -> dict[str, str]:
        found: dict[str, str] = json.loads(log_line(line, at, "worker", LogFormat.JSON))
        return found

    assert log_line(of_prefect, at, "worker", LogFormat.TEXT) == b"2026-11-20T10:00:00.250Z " + of_prefect
    assert logged(of_prefect) == {
        "at": "2026-11-20T10:00:00.250Z",
        "process": "worker",
        "level": "WARNING",
        "logger": "prefect.flow_runs",
        "message": "slow: 3 s",
    }
    assert logged(b"ERROR:    no socket\n")["level"] == "ERROR"
    assert logged(b"\xff plain\n")["message"] == "\ufffd plain"
    for log_format in LogFormat:
        assert (
            message_of(log_line(b"the worker stopped\n", at, "up", log_format).decode().strip()) == "the worker stopped"
        )
    assert message_of("Traceback:") == "Traceback:"


def test_loss_of_the_runner_is_announced(tmp_path: Path) -> None:
    heard: list[str] = []
    lines = b"WARNING | The runner was killed by SIGKILL; restarting in 1 s\nThe runner waits\n"
    BoundedLog(tmp_path / "worker.log", heard.append)._pump(io.BytesIO(lines))
    assert heard == ["the runner was killed by SIGKILL; restarting in 1 s"]


@pytest.mark.parametrize("then", ["input()", "import signal; signal.signal(15, signal.SIG_IGN); input()"])
def test_stopping_a_process_kills_all_descendants(then: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _PARENT.format(then=then)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    end(process, grace=0.2)
    assert process.returncode is not None
    assert psutil.wait_procs([child], timeout=PATIENCE)[1] == []
    process.stdin.close()
    process.stdout.close()


def _until_written(path: Path, ending: bytes) -> None:
    until(lambda: path.exists() and path.read_bytes().endswith(ending))
