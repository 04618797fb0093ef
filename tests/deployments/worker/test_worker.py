"""The worker and its runner with a real server: runs start, finish, crash and are cancelled without leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from catchment.runtime.process import pid_of
from catchment.runtime.worker_status import WorkerStatus
from deployments.server.environment import POOL
from tests.deployments.worker.conftest import Pool
from tests.waiting import PATIENCE, have_exited, until

pytestmark = pytest.mark.server


def lasting(pool: Pool, mark: str = "") -> str:
    """Start a run that lasts a minute, and wait for the process that it marks."""
    run = pool.run("linger", mark=mark)
    pool.await_state(run, "RUNNING")
    until(lambda: not mark or _marked(mark))
    return run


def runner_of(pool: Pool) -> psutil.Process:
    """Return the runner process of a pool's worker."""
    places = until(lambda: (found := WorkerStatus.read(pool.home)) and found.runner and found)
    assert places.runner is not None
    return psutil.Process(pid_of(places.runner))


def working_runner_of(pool: Pool) -> psutil.Process:
    """Return the runner process of a pool's worker, after it has imported the flows and completed a run."""
    return psutil.Process(int(pool.await_state(pool.run("process_id"), "COMPLETED")["state"]["message"]))


def _places(pool: Pool, figure: str) -> int | None:
    places = WorkerStatus.read(pool.home)
    return None if places is None else int(getattr(places, figure))


def _live(pool: Pool) -> set[str]:
    places = WorkerStatus.read(pool.home)
    return set() if places is None else set(places.runs)


def _marked(mark: str) -> list[psutil.Process]:
    return [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


def test_run_completes(pool: Pool) -> None:
    run = pool.await_state(pool.run("answer"), "COMPLETED")

    assert run["state"]["message"] == "the first answer"
    assert run["infrastructure_pid"] == f"run:{run['id']}"


def test_suspended_run_ends_before_its_next_subflow(pool: Pool) -> None:
    run = pool.run("many_parts")
    pool.await_state(run, "RUNNING")

    suspended = {"state": {"type": "PAUSED", "name": "Suspended"}, "force": True}
    pool.client.post(f"/flow_runs/{run}/set_state", json=suspended).raise_for_status()

    until(lambda: not _live(pool))
    assert pool.read(run)["state"]["name"] == "Suspended"


def test_deleted_flow_of_a_subflow_is_registered_again(pool: Pool) -> None:
    pool.await_state(pool.run("many_parts", seconds=0.1), "COMPLETED")
    flow = pool.client.get("/flows/name/linger").raise_for_status().json()["id"]
    pool.client.delete(f"/flows/{flow}").raise_for_status()

    refused = pool.await_state(pool.run("many_parts", seconds=0.1), "FAILED")
    assert "409" in refused["state"]["message"]
    pool.await_state(pool.run("many_parts", seconds=0.1), "COMPLETED")


def test_run_whose_end_the_server_refused_is_a_crash(pool: Pool) -> None:
    run = pool.run("unreported")

    crashed = until(lambda: (found := pool.read(run)) and found["state_type"] == "CRASHED" and found)
    assert crashed["state"]["message"].startswith("The run could not report its state")
    of_run = {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}}
    [subflow] = pool.client.post("/flow_runs/filter", json=of_run).raise_for_status().json()
    assert subflow["state_type"] == "FAILED", "its own state was reported"


def test_all_runs_share_one_process(pool: Pool) -> None:
    first, second = (pool.await_state(pool.run("process_id"), "COMPLETED") for _ in range(2))

    assert first["state"]["message"] == second["state"]["message"]


def test_logs_of_concurrent_runs_are_not_mixed(pool: Pool) -> None:
    runs = {word: pool.run("log_lines", word=word, lines=40) for word in ("oak", "elm", "ash")}
    for run in runs.values():
        pool.await_state(run, "COMPLETED")

    for word, run in runs.items():
        query = {"logs": {"flow_run_id": {"any_": [run]}}, "limit": 200}

        def lines(query: dict[str, object] = query, word: str = word) -> list[str] | None:
            found = pool.client.post("/logs/filter", json=query).raise_for_status().json()
            words = [line["message"].split()[0] for line in found if line["name"] == "prefect.flow_runs"]
            ours = [found for found in words if found in runs]
            return ours if ours.count(word) == 40 else None

        assert set(until(lines)) == {word}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killed_runner_crashes_its_runs_with_the_signal(pool: Pool, number: signal.Signals) -> None:
    state = pool.await_state(pool.run("die", number=int(number)), "CRASHED")["state"]

    assert number.name in state["message"]


@pytest.mark.parametrize("code", [0, 3])
def test_runner_that_exits_crashes_its_runs(pool: Pool, code: int) -> None:
    state = pool.await_state(pool.run("leave", code=code), "CRASHED")["state"]

    assert f"code {code}" in state["message"]


def test_cancelled_run_ends_cancelled_with_its_subflows(pool: Pool) -> None:
    run = pool.run("parent")
    of_run = {"flow_runs": {"parent_flow_run_id": {"any_": [run]}}}

    def subflow() -> dict[str, str] | None:
        found = pool.client.post("/flow_runs/filter", json=of_run).raise_for_status().json()
        return found[0] if found and found[0]["state_type"] != "PENDING" else None

    assert until(subflow)["state_type"] == "RUNNING"
    pool.cancel(run)

    pool.await_state(run, "CANCELLED")
    until(lambda: subflow()["state_type"] == "CANCELLED")  # type: ignore[index]
    assert "Crashed" not in pool.states(run)[-1]


def test_run_with_hanging_thread_is_cancelled_and_runner_replaced(other_pool: Pool) -> None:
    run = other_pool.run("block_thread", seconds=600)
    other_pool.await_state(run, "RUNNING")
    runner = runner_of(other_pool)

    other_pool.cancel(run)

    other_pool.await_state(run, "CANCELLED")
    assert other_pool.await_state(other_pool.run("answer"), "COMPLETED")
    until(lambda: have_exited(runner))


def test_runs_execute_concurrently(pool: Pool) -> None:
    first, second = lasting(pool), lasting(pool)
    until(lambda: {first, second} <= _live(pool))

    pool.cancel(first)
    pool.await_state(first, "CANCELLED")
    assert pool.read(second)["state_type"] == "RUNNING"
    pool.cancel(second)
    pool.await_state(second, "CANCELLED")
    until(lambda: not {first, second} & _live(pool))


def test_full_pool_starts_the_next_run_when_one_ends(pool: Pool) -> None:
    pool.limit(1)
    try:
        run = lasting(pool)
        waiting = pool.run("answer")
        until(lambda: _places(pool, "waiting") == 1)
        assert (_places(pool, "running"), _places(pool, "limit"), _places(pool, "cap")) == (1, 1, 1)
        pool.cancel(run)
        pool.await_state(waiting, "COMPLETED")
        until(lambda: _places(pool, "running") == 0 and _places(pool, "waiting") == 0)
    finally:
        pool.limit(None)

    assert pool.read(waiting)["start_time"] > pool.read(run)["end_time"]


def test_kind_at_its_limit_lets_other_runs_pass(pool: Pool) -> None:
    alone = {"at_once": 1}
    first = pool.run_with("linger", alone)
    pool.await_state(first, "RUNNING")
    waiting = pool.run_with("linger", alone, seconds=0)

    pool.await_state(pool.run("answer"), "COMPLETED")

    assert pool.read(waiting)["state_type"] == "SCHEDULED"
    # It waits for a run of the same deployment, so a free run slot does not help it.
    assert _places(pool, "waiting") == 0
    pool.cancel(first)
    pool.await_state(waiting, "COMPLETED")


def test_run_of_the_near_future_starts_when_due(pool: Pool) -> None:
    due = datetime.now(UTC) + timedelta(seconds=2)

    run = pool.await_state(pool.run_later("answer", due.isoformat()), "COMPLETED")

    assert datetime.fromisoformat(run["start_time"]) >= due


def test_changed_code_is_used_once_the_runner_is_idle(pool: Pool) -> None:
    before = pool.flows.read_text(encoding="utf-8")
    runner = working_runner_of(pool)
    pool.flows.write_text(before.replace("the first answer", "another answer"), encoding="utf-8")
    try:
        until(lambda: have_exited(runner))
        after = pool.await_state(pool.run("answer"), "COMPLETED")
    finally:
        pool.flows.write_text(before, encoding="utf-8")

    assert after["state"]["message"] == "another answer"


def test_broken_code_crashes_its_run_and_not_the_worker(other_pool: Pool) -> None:
    pool = other_pool
    before = pool.flows.read_text(encoding="utf-8")
    runner = working_runner_of(pool)
    pool.flows.write_text(before + "\nthis is no Python\n", encoding="utf-8")
    try:
        until(lambda: have_exited(runner))
        pool.await_state(pool.run("answer"), "CRASHED", "FAILED")
    finally:
        pool.flows.write_text(before, encoding="utf-8")

    def answered() -> bool:
        run = pool.run("answer")
        return until(lambda: (found := pool.read(run))["end_time"] and found)["state_type"] == "COMPLETED"

    until(answered)


def test_sync_flow_is_refused_with_the_remedy(pool: Pool) -> None:
    state = pool.await_state(pool.run("blocking"), "CRASHED")["state"]

    assert "work pool of type process" in state["message"]


def test_stopped_worker_leaves_no_process_and_no_run(other_pool: Pool) -> None:
    mark = f"9{uuid.uuid4().int % 10**9}"
    run = lasting(other_pool, mark)
    runner = runner_of(other_pool)

    other_pool.stop_worker()

    assert have_exited(runner)
    assert _marked(mark) == []
    assert other_pool.read(run)["state_type"] in ("CRASHED", "CANCELLED")


def test_killed_worker_leaves_no_process(other_pool: Pool) -> None:
    mark = f"9{uuid.uuid4().int % 10**9}"
    run = lasting(other_pool, mark)
    runner = runner_of(other_pool)

    assert other_pool.worker is not None
    other_pool.worker.kill()
    other_pool.worker.wait()

    until(lambda: have_exited(runner))
    until(lambda: not _marked(mark))
    assert run not in _live(other_pool)


def test_killed_runner_is_replaced(pool: Pool) -> None:
    run = lasting(pool)
    runner = runner_of(pool)

    runner.kill()

    assert "SIGKILL" in pool.await_state(run, "CRASHED")["state"]["message"]
    pool.await_state(pool.run("answer"), "COMPLETED")


def test_process_worker_of_prefect_runs_the_same_deployment(other_pool: Pool) -> None:
    run = other_pool.run("answer")
    other_pool.await_state(run, "COMPLETED")
    other_pool.stop_worker()

    again = other_pool.run_with("answer", {"at_once": 3})
    stock = other_pool.prefect("worker", "start", "--pool", other_pool.name, "--type", "process", "--run-once")

    assert stock.wait(PATIENCE) == 0
    assert other_pool.read(again)["state"]["message"] == "the first answer"


def test_prefect_commands_know_the_type_in_a_plain_shell(pool: Pool, tmp_path: Path) -> None:
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
