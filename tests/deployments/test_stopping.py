"""Stopping and killing `up`. Each test needs its own system."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from catchment.runtime.web_process import WebAddress
from catchment.settings import Home
from deployments.runs import runs
from deployments.server.client import api
from deployments.server.planned import read_report
from deployments.server.running import Running, running, starting
from deployments.sources.deploy import deploy
from deployments.supervisor import supervisor
from deployments.supervisor.supervisor import down
from tests.waiting import PATIENCE, have_exited, until

pytestmark = [pytest.mark.server, pytest.mark.long]

_PROJECT = Path(__file__).parents[2]
_FILE = """\
pull: []
deployments:
  - name: long
    entrypoint: tests.deployments.standin_flow.sync_standin
    parameters: {name: long, settings: {seconds: 300}}
    work_pool: {name: catchment}
    schedules: [{slug: main, interval: 3600, timezone: UTC}]
"""


@pytest.fixture
def start(home: Home, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Start `up` in the foreground of a child process, and wait until it is ready."""
    monkeypatch.setenv("PYTHONPATH", str(_PROJECT), prepend=os.pathsep)
    started = []

    def start_up() -> subprocess.Popen[bytes]:
        with (home.logs / "said").open("wb") as said:
            process = subprocess.Popen([sys.executable, "-m", "deployments.supervisor.detached"], stdout=said)
        started.append(process)
        until(lambda: running(home) is not None or process.poll() is not None)
        return process

    yield start_up
    down(home)
    for process in started:
        process.wait(PATIENCE)


def test_killed_up_leaves_no_process_and_no_active_run(
    home: Home, start: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    process = start()
    state = _running(home)
    run = _long_run(home, state, tmp_path)
    until(lambda: WebAddress.read(home))
    below = psutil.Process(process.pid).children(recursive=True)
    assert {"server", "worker", "web"} <= {child.name() for child in below}
    process.kill()
    _, left = psutil.wait_procs(below, timeout=10)
    assert left == []
    assert running(home) is None

    process = start()
    state = _running(home)
    assert state.port > 0
    until(lambda: runs.view(state, run).state_type == "CRASHED")

    run = runs.start_sync(state, "standin", "long")
    until(lambda: runs.view(state, run).state_type == "RUNNING")
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0
    assert have_exited(*below)
    overdue = _overdue(home)

    start()
    state = _running(home)
    assert runs.view(state, run).state_type == "CANCELLED"
    assert _planned(state)
    with api(state) as client:
        # The worker is ready before it has dropped the overdue runs.
        until(lambda: sum(client.get(f"/flow_runs/{one}").is_success for one in overdue) <= 1)
        assert sum(client.get(f"/flow_runs/{one}").is_success for one in overdue) == 1


def test_starting_system_is_stopped(
    home: Home, start: Callable[[], subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("tests.deployments.test_stopping.running", lambda home: starting(home) or None)
        process = start()
    assert running(home) is None

    assert down(home)

    assert process.wait(PATIENCE) == 0
    assert (starting(home), running(home), down(home)) == (None, None, False)


@pytest.mark.parametrize("seconds", [0.0, 1.6], ids=["while it is delayed", "while the server starts"])
def test_down_during_a_restart_ends_promptly(
    home: Home, start: Callable[[], subprocess.Popen[bytes]], seconds: float
) -> None:
    process = start()
    state = _running(home)
    for pid in (state.server_pid, state.worker_pid):
        os.kill(pid, signal.SIGKILL)
    until(lambda: "the server stopped" in (home.logs / "said").read_text())
    time.sleep(seconds)
    asked = time.monotonic()
    assert down(home)
    assert process.wait(0) == 0
    assert time.monotonic() - asked < supervisor._RUNS_END_SECONDS


def test_up_as_pid_1_becomes_ready_and_stops_on_a_signal(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no process namespace can be made here: {error}")
    monkeypatch.setenv("PYTHONPATH", str(_PROJECT), prepend=os.pathsep)
    program = """
import os, subprocess, sys
from deployments.supervisor.detached import main
assert os.getpid() == 1
# An orphan: pid 1 inherits it when its parent ends.
subprocess.run([sys.executable, "-c", "import subprocess; subprocess.Popen(['sleep', '0.1'])"], check=True)
sys.exit(main([]))
"""
    with (home.logs / "said").open("wb") as said:
        outside = subprocess.Popen([*inside, sys.executable, "-c", program], stdout=said, stderr=said)
    try:
        until(lambda: b"Catchment is running" in (home.logs / "said").read_bytes() or outside.poll() is not None)
        [up] = psutil.Process(outside.pid).children()
        until(lambda: all(child.status() != psutil.STATUS_ZOMBIE for child in up.children()))
        assert {"server", "worker"} <= {child.name() for child in up.children()}
        up.terminate()
        assert outside.wait(30) == 0, (home.logs / "said").read_text()
    finally:
        outside.kill()
        outside.wait()


def test_invalid_sources_file_is_reported_and_stops_no_process(
    home: Home, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    home.sources_file.write_text("deployments:\n  - nam: x\n")
    process = start()
    url = _running(home).url
    process.terminate()
    assert process.wait(PATIENCE) == 0
    assert running(home) is None
    told, ready, _page = (home.logs / "said").read_text().splitlines()
    assert "Z sources not deployed: sources.yaml line 2: unknown key nam; did you mean name?" in told
    assert ready.endswith(f"Z Catchment is running: {url}")


def _planned(state: Running) -> bool:
    heard = read_report(state, "long", 1)
    return heard is not None and "long" in heard.runs


def _long_run(home: Home, state: Running, folder: Path) -> str:
    file = folder / "prefect.yaml"
    file.write_text(_FILE)
    deploy(home, state, file=file)
    until(lambda: _planned(state))
    run = runs.start_sync(state, "standin", "long")
    until(lambda: runs.view(state, run).state_type == "RUNNING")
    return run


def _overdue(home: Home) -> list[str]:
    """Move the first two scheduled runs of `long` to the past, as after hours of downtime. Returns their IDs."""
    with contextlib.closing(sqlite3.connect(home.prefect / "prefect.db")) as database, database:
        planned = database.execute(
            "SELECT flow_run.id FROM flow_run JOIN deployment ON deployment.id = flow_run.deployment_id"
            " WHERE deployment.name = 'long' AND flow_run.state_type = 'SCHEDULED' ORDER BY expected_start_time LIMIT 2"
        ).fetchall()
        for hours, (run,) in enumerate(planned, 1):
            past = time.strftime("%Y-%m-%d %H:%M:%S.000000", time.gmtime(time.time() - 3_600 * hours))
            database.execute(
                "UPDATE flow_run SET expected_start_time = ?, next_scheduled_start_time = ? WHERE id = ?",
                (past, past, run),
            )
    assert len(planned) == 2
    return [run for (run,) in planned]


def _running(home: Home) -> Running:
    state = running(home)
    assert state is not None
    return state
