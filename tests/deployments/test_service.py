"""The supervisor's services on a machine without free processes or disk space, and the supervisor lock."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from typing import Any

import pytest

from catchment.errors import TryAgain
from catchment.runtime.child_process import PARENT_VARIABLE, RestartPause
from catchment.runtime.process import identity
from catchment.settings import Home
from deployments.runs.occupancy import Occupancy
from deployments.server.logs import BoundedLog
from deployments.server.prefect_database import shrink
from deployments.server.running import kept_down, lock_file, starting
from deployments.supervisor import supervisor
from deployments.supervisor.service import Service, StartPatience
from tests.waiting import until


def test_refused_process_is_reported_and_tried_again_later(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", none_left)
    service = Service(
        "watcher", ("-c", "pass"), {"PREFECT_HOME": str(home.path)}, BoundedLog(home.logs / "watcher.log")
    )
    with pytest.raises(TryAgain, match=r"the watcher could not be started \(Resource temporarily unavailable\)"):
        service.start()
    assert service.process is None
    assert service.pause.left > 0


def test_supervisor_imports_nothing_heavy() -> None:
    program = "import sys, deployments.supervisor.detached; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert {"prefect", "sqlalchemy", "pydantic", "httpx", "yaml", "typer"}.isdisjoint(loaded)


def test_child_learns_its_parents_pid_and_ends_with_another_parent(home: Home) -> None:
    program = f"import os; os.environ['{PARENT_VARIABLE}'] = PID; "
    program += "from catchment.runtime.child_process import become_child; become_child('child'); print('lives')"
    said = [
        subprocess.run([sys.executable, "-c", program.replace("PID", pid)], capture_output=True, text=True, check=False)
        for pid in ("str(os.getppid())", "'1'")
    ]
    assert [(one.returncode, one.stdout) for one in said] == [(0, "lives\n"), (1, "")]


def test_worker_continues_while_its_status_file_cannot_be_written(home: Home) -> None:
    occupancy = Occupancy(2, home, lambda _: False, print)
    (home.run / "worker.new").mkdir()
    occupancy.adapt()
    occupancy.publish(set(), {})
    (home.run / "worker.new").rmdir()
    occupancy.publish(set(), {})
    assert json.loads((home.run / "worker.json").read_text())["cap"] == 2


def test_status_file_names_our_runner_and_those_of_packages(home: Home) -> None:
    Occupancy(2, home, lambda _: False, print).publish(set(), {"catchment-shelf": "theirs", "catchment": "ours"})
    written = json.loads((home.run / "worker.json").read_text())
    assert (written["runner"], written["package_runners"]) == ("ours", ["theirs"])


def test_worker_of_another_pool_writes_no_status_file(home: Home) -> None:
    occupancy = Occupancy(2, None, lambda _: False, print)
    occupancy.adapt()
    occupancy.publish(set(), {})
    assert [file.name for file in home.run.iterdir() if file.suffix == ".json"] == []


def test_database_damaged_at_runtime_is_not_touched(home: Home) -> None:
    file = home.prefect / "prefect.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE kept (words TEXT)")
    file.write_bytes(b"no database" * 1_000)
    assert shrink(home) == 0


def test_reading_the_lock_does_not_prevent_a_start(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[str | None] = []

    class Supervisor:
        def __init__(self, *_: object) -> None:
            """Do nothing."""

        def supervise(self) -> None:
            begun.append(starting(home))

    monkeypatch.setattr(supervisor, "_Supervisor", Supervisor)
    with lock_file(home).open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.05, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        assert supervisor.up(home, announce=begun.append) == 0
    assert begun == [identity()]


def test_up_is_refused_during_a_restore(home: Home) -> None:
    with kept_down(home, "restore"), pytest.raises(TryAgain, match="a restore is running"):
        assert starting(home) is None
        supervisor.up(home, announce=print)


def test_stop_signal_right_after_the_lock_is_honoured(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[bool] = []

    class Supervisor:
        def __init__(self, *given: Any) -> None:
            self.end = given[-1]

        def supervise(self) -> None:
            wanted.append(self.end.is_made())

    def asked_meanwhile(*_: object) -> contextlib.AbstractContextManager[None]:
        assert starting(home)
        os.kill(os.getpid(), signal.SIGTERM)
        return contextlib.nullcontext()

    monkeypatch.setattr(supervisor, "_Supervisor", Supervisor)
    monkeypatch.setattr(supervisor, "listen", asked_meanwhile)
    assert supervisor.up(home, announce=print) == 0
    assert wanted == [True]


def test_service_restarts_while_its_pid_cannot_be_recorded(home: Home) -> None:
    class Standing:
        role, process, pause, pid = "worker", None, RestartPause(), 7
        starts = 0

        def died(self) -> None:
            """Return None: the exit was reported already."""

        def start(self) -> None:
            self.starts += 1

    (home.run / "up.json").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as of_page:
        Standing.pause.begin()
        one = supervisor._Supervisor(home, listening, [of_page], None, print, supervisor._StopRequest())
        worker: Any = Standing()
        living: Any = Standing()
        living.process = living
        one._server, one._worker = living, worker
        one._answers = lambda: True  # type: ignore[method-assign]
        one._revive()
    assert worker.starts == 1


@pytest.mark.parametrize(
    ("processor", "lines", "end"),
    [(0.0, 0, 121), (0.004, 0, 121), (0.5, 0, 901), (0.0, 1, 901)],
    ids=["hangs", "polls", "computes", "logs"],
)
def test_start_waits_while_the_child_makes_progress(processor: float, lines: int, end: int) -> None:
    now = 0
    patience = StartPatience(lambda: (processor * now, lines * now), lambda: now)
    while not patience.is_over():
        now += 1
    assert now == end


def test_busy_child_and_its_lines_count_as_progress(home: Home) -> None:
    code = "print('importing', flush=True)\nwhile True: pass"
    environment = {**os.environ, "PREFECT_HOME": str(home.path)}
    service = Service("worker", ("-c", code), environment, BoundedLog(home.logs / "worker.log"))
    assert service.progress() == (0.0, 0)
    service.start()
    try:
        until(lambda: service.progress()[0] > 0.1 and service.progress()[1] == 1)
    finally:
        service.end(grace=0)
