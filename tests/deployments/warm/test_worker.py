"""The warm worker with a real server: runs begin, end, crash, are cancelled, and leave nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest

from catchment.places import Places
from deployments.server.environment import POOL
from deployments.supervisor.processes import executing_flow_runs
from tests.deployments.warm.conftest import Pool, process
from tests.waiting import PATIENCE, gone, until

pytestmark = pytest.mark.server


def _lasting(pool: Pool, mark: str = "") -> tuple[str, psutil.Process]:
    """A run that lasts, and its process."""
    run = pool.run("linger", mark=mark)
    pool.await_state(run, "RUNNING")
    started = until(lambda: pool.read(run) if pool.read(run)["infrastructure_pid"] else None)
    return run, process(started)


def _places(pool: Pool, figure: str) -> int | None:
    places = Places.read(pool.home)
    return None if places is None else int(getattr(places, figure))


def _marked(mark: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


def test_a_run_completes_and_shows_what_it_used(pool: Pool) -> None:
    run = pool.run("answer")

    assert pool.await_state(run, "COMPLETED")["state"]["message"] == "the first answer"
    [table] = until(lambda: pool.artifacts(run))
    for figure in ("waited", "took", "CPU", "peak memory", "read from disk", "written to disk"):
        assert figure in str(table["data"])


def test_a_run_has_the_settings_of_its_deployment_and_nothing_of_the_run_before(pool: Pool) -> None:
    messages = [
        pool.await_state(pool.run_with("level_and_calls", {"env": env}), "COMPLETED")["state"]["message"]
        for env in ({"PREFECT_LOGGING_LEVEL": "ERROR", "MINE": "1"}, {})
    ]

    assert messages == ["ERROR 1 1", "INFO None 1"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_run_that_is_killed_crashes_with_the_name_of_the_signal(pool: Pool, number: signal.Signals) -> None:
    state = pool.await_state(pool.run("die", number=int(number)), "CRASHED")["state"]

    assert number.name in state["message"]


def test_a_run_that_takes_more_memory_than_it_may_is_ended_and_the_state_says_so(pool: Pool) -> None:
    state = pool.await_state(pool.run_with("swell", {"memory_mb": 256}, megabytes=600), "CRASHED")["state"]

    assert re.search(r"used [2-9]\d\d\.\d MB of 256\.0 MB allowed; raise resources\.memory_mb", state["message"])


def test_a_run_that_lasts_yields_to_the_rest_of_the_machine(pool: Pool) -> None:
    run, process = _lasting(pool)

    until(lambda: process.nice() == 10 and process.ionice().value == 7)

    pool.cancel(run)
    pool.await_state(run, "CANCELLED")


@pytest.mark.parametrize("code", [0, 3])
def test_a_process_that_ends_without_a_result_is_a_crash(pool: Pool, code: int) -> None:
    state = pool.await_state(pool.run("leave", code=code), "CRASHED")["state"]

    assert f"exit code {code}" in state["message"]


def test_a_cancelled_run_ends_and_is_not_called_a_crash(pool: Pool) -> None:
    run, process = _lasting(pool)

    pool.cancel(run)

    pool.await_state(run, "CANCELLED")
    until(lambda: gone(process))
    assert "Crashed" not in pool.states(run)


def test_runs_go_on_side_by_side_in_processes_of_their_own(pool: Pool) -> None:
    (first, one), (second, two) = _lasting(pool), _lasting(pool)

    assert one.pid != two.pid
    assert {first, second} <= executing_flow_runs()

    pool.cancel(first)
    pool.await_state(first, "CANCELLED")
    assert pool.read(second)["state_type"] == "RUNNING"
    pool.cancel(second)
    pool.await_state(second, "CANCELLED")
    until(lambda: not {first, second} & executing_flow_runs())


def test_a_pool_that_is_full_starts_the_next_run_when_one_ends(pool: Pool) -> None:
    pool.limit(1)
    try:
        run, _ = _lasting(pool)
        waiting = pool.run("answer")
        until(lambda: _places(pool, "waiting") == 1)
        assert (_places(pool, "running"), _places(pool, "limit"), _places(pool, "cap")) == (1, 1, 1)
        pool.cancel(run)
        pool.await_state(waiting, "COMPLETED")
        until(lambda: _places(pool, "running") == 0 and _places(pool, "waiting") == 0)
    finally:
        pool.limit(None)

    assert pool.read(waiting)["start_time"] > pool.read(run)["end_time"]


def test_more_runs_than_there_are_places_wait_and_none_fails(other_pool: Pool) -> None:
    cap = until(lambda: _places(other_pool, "cap"))
    lasting = [_lasting(other_pool)[0] for _ in range(cap)]
    waiting = other_pool.run("answer")

    until(lambda: _places(other_pool, "waiting") == 1)

    assert other_pool.read(waiting)["state_type"] == "SCHEDULED"
    other_pool.cancel(lasting[0])
    other_pool.await_state(waiting, "COMPLETED")


def test_a_kind_of_run_that_has_its_number_leaves_the_places_to_others(pool: Pool) -> None:
    alone = {"at_once": 1}
    lasting = pool.run_with("linger", alone)
    pool.await_state(lasting, "RUNNING")
    waiting = pool.run_with("linger", alone, seconds=0)

    pool.await_state(pool.run("answer"), "COMPLETED")

    assert pool.read(waiting)["state_type"] == "SCHEDULED"
    # It waits for one of its own kind, which a place would not help.
    assert _places(pool, "waiting") == 0
    pool.cancel(lasting)
    pool.await_state(waiting, "COMPLETED")


def test_a_run_of_the_near_future_starts_when_it_is_due(pool: Pool) -> None:
    due = datetime.now(UTC) + timedelta(seconds=2)

    run = pool.await_state(pool.run_later("answer", due.isoformat()), "COMPLETED")

    assert datetime.fromisoformat(run["start_time"]) >= due


def test_an_edit_of_the_code_is_in_the_next_run(pool: Pool) -> None:
    lasting, _ = _lasting(pool)
    before = pool.flows.read_text(encoding="utf-8")
    pool.flows.write_text(before.replace("the first answer", "another answer"), encoding="utf-8")
    try:
        after = pool.await_state(pool.run("answer"), "COMPLETED")
    finally:
        pool.flows.write_text(before, encoding="utf-8")

    assert after["state"]["message"] == "another answer"
    assert pool.read(lasting)["state_type"] == "RUNNING"
    pool.cancel(lasting)
    pool.await_state(lasting, "CANCELLED")


def test_code_that_cannot_be_imported_fails_its_run_and_not_the_worker(pool: Pool) -> None:
    before = pool.flows.read_text(encoding="utf-8")
    pool.flows.write_text(before + "\nthis is no Python\n", encoding="utf-8")
    try:
        pool.await_state(pool.run("answer"), "CRASHED", "FAILED")
    finally:
        pool.flows.write_text(before, encoding="utf-8")

    assert pool.await_state(pool.run("answer"), "COMPLETED")


def test_a_worker_that_is_stopped_leaves_no_process_and_no_run(other_pool: Pool) -> None:
    mark = f"9{uuid.uuid4().int % 10**9}"
    run, process = _lasting(other_pool, mark)

    other_pool.stop_worker()

    assert gone(process)
    assert _marked(mark) == []
    assert other_pool.read(run)["state_type"] == "CRASHED"


def test_a_worker_that_is_killed_leaves_no_process(other_pool: Pool) -> None:
    mark = f"9{uuid.uuid4().int % 10**9}"
    run, process = _lasting(other_pool, mark)
    below = _below(other_pool)

    assert other_pool.worker is not None
    other_pool.worker.kill()
    other_pool.worker.wait()

    until(lambda: gone(process, *below))
    until(lambda: not _marked(mark))
    assert run not in executing_flow_runs()


def test_a_fork_server_that_is_killed_is_replaced(pool: Pool) -> None:
    mark = f"9{uuid.uuid4().int % 10**9}"
    run, process = _lasting(pool, mark)

    for forge in _below(pool):
        forge.kill()

    assert "SIGKILL" in pool.await_state(run, "CRASHED")["state"]["message"]
    until(lambda: gone(process) and not _marked(mark))
    pool.await_state(pool.run("answer"), "COMPLETED")


def _below(pool: Pool) -> list[Any]:
    assert pool.worker is not None
    return psutil.Process(pool.worker.pid).children()


def test_the_process_worker_of_prefect_runs_the_same_deployment(other_pool: Pool) -> None:
    run = other_pool.run("answer")
    other_pool.await_state(run, "COMPLETED")
    other_pool.stop_worker()

    again = other_pool.run_with("answer", {"memory_mb": 256, "cores": 0.4, "at_once": 3})
    stock = other_pool.prefect("worker", "start", "--pool", other_pool.name, "--type", "process", "--run-once")

    assert stock.wait(PATIENCE) == 0
    assert other_pool.read(again)["state"]["message"] == "the first answer"


def test_in_a_plain_shell_the_commands_of_prefect_know_the_type(pool: Pool, tmp_path: Path) -> None:
    name = f"plain-{uuid.uuid4().hex[:8]}"
    plain = {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "PREFECT_API_URL": pool.environment["PREFECT_API_URL"],
        "PREFECT_API_AUTH_STRING": pool.environment["PREFECT_API_AUTH_STRING"],
    }

    def prefect(*words: str) -> None:
        command = [str(Path(sys.executable).with_name("prefect")), *words]
        done = subprocess.run(command, env=plain, cwd=tmp_path, capture_output=True, text=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr

    prefect("work-pool", "create", name, "--type", "warm")
    prefect("worker", "start", "--pool", name, "--type", "warm", "--run-once")

    made = pool.client.get(f"/work_pools/{name}").raise_for_status().json()
    ours = pool.client.get(f"/work_pools/{POOL}").raise_for_status().json()
    assert (made["type"], made["base_job_template"]) == ("warm", ours["base_job_template"])
    [worker] = pool.client.post(f"/work_pools/{name}/workers/filter", json={}).raise_for_status().json()
    assert worker["status"] in ("ONLINE", "OFFLINE")
