"""How the sandbox begins, shares, is left, is closed and dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from catchment.errors import TryAgain, Unexpected
from catchment.model import Reason
from catchment.sandbox import Failed, Sandbox
from catchment.settings import Limits
from tests.sandbox import jobs
from tests.sandbox.surroundings import processes
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def wait_for_number(path: Path) -> int:
    until(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE  # its new parent has not looked yet
    except psutil.NoSuchProcess:
        return True


def test_nothing_is_started_before_there_is_something_to_do(sandbox: Sandbox) -> None:
    assert list(sandbox.run(jobs.double, [], Limits())) == []
    unstarted = sandbox.run(jobs.double, [1], Limits())
    assert processes() == []
    assert next(unstarted) == (0, 2)
    assert len(processes()) == 2, "the server and the one worker that one task needs"


def test_workers_are_replaced_before_they_grow_old(sandbox: Sandbox) -> None:
    outcomes = list(sandbox.run(jobs.identify, range(12_000), Limits()))
    assert len(outcomes) == 12_000
    assert len({pid for _, pid in outcomes}) >= 3


def test_a_worker_that_has_grown_is_replaced(sandbox: Sandbox) -> None:
    with Sandbox(1) as one:
        assert [size for _, size in one.run(jobs.grow, [300], Limits())] == [300]
        assert [type(pid) for _, pid in one.run(jobs.identify, [None], Limits())] == [int]
        assert [size for _, size in one.run(jobs.grow, [10, 10], Limits())] == [10, 10]


def test_two_threads_share_one_sandbox_and_each_gets_its_own(sandbox: Sandbox) -> None:
    def double_all(start: int) -> dict[int, int | Failed]:
        return dict(sandbox.run(jobs.double, range(start, start + 2_000), Limits()))

    with ThreadPoolExecutor(3) as threads:
        for start, outcomes in zip((0, 10_000, 20_000), threads.map(double_all, (0, 10_000, 20_000)), strict=True):
            assert outcomes == {index: (start + index) * 2 for index in range(2_000)}


def test_a_short_run_does_not_wait_for_the_end_of_a_long_one(sandbox: Sandbox) -> None:
    long = sandbox.run(jobs.double, range(20_000), Limits())
    next(long)
    assert next(sandbox.run(jobs.double, [21], Limits())) == (0, 42)
    assert sum(1 for _ in long) == 19_999


def test_a_caller_that_takes_slowly_is_not_flooded(sandbox: Sandbox, tmp_path: Path) -> None:
    tasks = [str(tmp_path / str(index)) for index in range(200)]
    slow = sandbox.run(jobs.mark_and_return_a_megabyte, tasks, Limits())
    next(slow)
    assert sum(1 for _ in sandbox.run(jobs.double, range(5_000), Limits())) == 5_000
    assert len(list(tmp_path.iterdir())) < 150
    assert sum(1 for _ in slow) == 199


def test_leaving_a_run_early_stops_what_runs_of_it(sandbox: Sandbox, tmp_path: Path) -> None:
    outcomes = sandbox.run(jobs.announce, [str(tmp_path / "a"), str(tmp_path)], Limits())
    failed = next(outcomes)[1]
    assert isinstance(failed, Failed), "the one that cannot write fails at once"
    pid = wait_for_number(tmp_path / "a")
    assert isinstance(outcomes, Iterator)
    outcomes.close()  # type: ignore[attr-defined]
    until(lambda: is_gone(pid))
    assert dict(sandbox.run(jobs.double, [1, 2], Limits())) == {0: 2, 1: 4}


def test_closing_ends_a_run_and_every_process(tmp_path: Path) -> None:
    sandbox = Sandbox(2)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            list(sandbox.run(jobs.announce, [str(tmp_path / "a")], Limits()))
        except TryAgain as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    pid = wait_for_number(tmp_path / "a")
    sandbox.close()
    thread.join()
    assert [str(error) for error in ended] == ["the parser processes were stopped; run it again"]
    assert is_gone(pid)
    assert processes() == []
    with pytest.raises(TryAgain):
        next(sandbox.run(jobs.double, [1], Limits()))
    sandbox.close()


def test_a_killed_parent_leaves_no_process_even_if_a_fork_of_it_lives_on(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    command = [sys.executable, "-m", "tests.sandbox.parent", *paths]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        fork = int(parent.stdout.readline())
        pids = [int(Path(path).read_text()) for path in paths]
        pids.append(psutil.Process(pids[0]).ppid())
        assert pids[-1] != parent.pid
        parent.kill()
        until(lambda: all(is_gone(pid) for pid in pids))
        os.kill(fork, signal.SIGKILL)


def test_a_killed_server_costs_only_the_tasks_that_were_running(sandbox: Sandbox, tmp_path: Path) -> None:
    tasks = [str(tmp_path / "a"), str(tmp_path / "b")]
    outcomes = sandbox.run(jobs.announce, tasks, Limits())
    taken: list[tuple[int, object]] = []
    thread = threading.Thread(target=lambda: taken.extend(outcomes))
    thread.start()
    pids = [wait_for_number(Path(path)) for path in tasks]
    psutil.Process(pids[0]).parent().kill()  # type: ignore[union-attr]
    thread.join()
    assert sorted(index for index, _ in taken) == [0, 1]
    assert all(isinstance(o, Failed) and o.error.reason is Reason.PROCESS_KILLED for _, o in taken)
    assert dict(sandbox.run(jobs.double, range(100), Limits())) == {n: n * 2 for n in range(100)}


def test_a_forked_process_starts_its_own_workers_and_leaves_its_parents_alone(sandbox: Sandbox) -> None:
    ((_, ours),) = sandbox.run(jobs.identify, [None], Limits())
    child = os.fork()
    if child == 0:
        ((_, its),) = sandbox.run(jobs.identify, [None], Limits())
        sandbox.close()
        os._exit(0 if its != ours else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [pid for _, pid in sandbox.run(jobs.identify, [None], Limits())] == [ours]


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    with Sandbox(1, preload=("catchment.no_such_module",)) as sandbox:
        for _ in range(2):
            with pytest.raises(Unexpected, match=r"cannot import catchment\.no_such_module"):
                next(sandbox.run(jobs.double, [1], Limits()))


def test_no_process_to_be_had_is_said_and_not_tried_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with Sandbox(2) as sandbox, pytest.raises(TryAgain, match="no parser process can be started"):
        next(sandbox.run(jobs.double, [1], Limits()))


def test_a_function_that_cannot_be_found_again_is_refused_at_once(sandbox: Sandbox) -> None:
    with pytest.raises(AttributeError):
        sandbox.run(lambda task: task, [1], Limits())
    assert processes() == []


def test_a_task_finds_itself_in_modest_surroundings(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abc")
    ((_, around),) = sandbox.run(jobs.surroundings, [None], Limits())
    assert isinstance(around, dict)
    assert around["umask"] == 0o077
    assert around["stdin"] == ""
    assert "SOME_TOKEN" not in around["environment"]
    assert around["adjustment"] == "500"
    assert [name.split(":")[0] for name in around["descriptors"]] == ["/dev/null", "/dev/null", "pipe", "socket"]
    assert around["prefect"] == []


def test_workers_are_killed_even_if_the_server_is_stopped_by_a_signal(sandbox: Sandbox, tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: list(sandbox.run(jobs.announce, [str(tmp_path / "a")], Limits())))
    thread.start()
    pid = wait_for_number(tmp_path / "a")
    os.kill(psutil.Process(pid).ppid(), signal.SIGTERM)
    thread.join()
    until(lambda: is_gone(pid))
