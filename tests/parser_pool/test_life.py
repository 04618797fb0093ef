"""The life of the pool: start, sharing, early exit, closing and crashes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import spawn
from pathlib import Path
from tempfile import NamedTemporaryFile

import psutil
import pytest

from catchment.errors import Reason, TryAgain, Unexpected
from catchment.parser_pool import Failed, ParserPool
from catchment.settings import Limits
from tests.parser_pool import jobs
from tests.parser_pool.processes import is_gone, processes
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def wait_for_number(path: Path) -> int:
    until(lambda: path.exists() and path.read_text() != "")
    return int(path.read_text())


def test_processes_are_started_on_first_use(pool: ParserPool) -> None:
    assert list(pool.run(jobs.double, [], Limits())) == []
    unstarted = pool.run(jobs.double, [1], Limits())
    assert processes() == []
    assert next(unstarted) == (0, 2)
    assert len(processes()) == 2, "the server and the one worker that one task needs"


def test_workers_are_replaced_before_they_grow_old(pool: ParserPool) -> None:
    outcomes = list(pool.run(jobs.identify, range(12_000), Limits()))
    assert len(outcomes) == 12_000
    assert len({pid for _, pid in outcomes}) >= 3


def test_a_worker_that_has_grown_is_replaced(pool: ParserPool) -> None:
    with ParserPool(1) as one:
        assert [size for _, size in one.run(jobs.grow, [300], Limits())] == [300]
        assert [type(pid) for _, pid in one.run(jobs.identify, [None], Limits())] == [int]
        assert [size for _, size in one.run(jobs.grow, [10, 10], Limits())] == [10, 10]


def test_worker_that_keeps_an_open_archive_is_kept() -> None:
    """Of a zip file of 100,000 files, each file once had a process of its own, which opened it for 3 s."""
    with ParserPool(1) as one:
        assert len({pid for _, pid in one.run(jobs.keep, [100, 0, 0], Limits())}) == 1
        assert len({pid for _, pid in one.run(jobs.keep, [100, 0], Limits())}) == 2, "it may not keep two"


def test_worker_that_maps_a_large_library_is_kept() -> None:
    """The library that reads a PDF has 100 MB: each file once had a process of its own."""
    # On the disk: a mapped file in memory counts as memory in use.
    with NamedTemporaryFile(dir="/var/tmp") as file, ParserPool(1) as one:
        file.truncate(100 << 20)
        processes = [pid for _, pid in one.run(jobs.map_file, [file.name] * 3, Limits())]
    assert len(set(processes)) == 1


def test_two_threads_share_one_pool_and_get_their_own_results(pool: ParserPool) -> None:
    def double_all(start: int) -> dict[int, int | Failed]:
        return dict(pool.run(jobs.double, range(start, start + 2_000), Limits()))

    with ThreadPoolExecutor(3) as threads:
        for start, outcomes in zip((0, 10_000, 20_000), threads.map(double_all, (0, 10_000, 20_000)), strict=True):
            assert outcomes == {index: (start + index) * 2 for index in range(2_000)}


def test_a_short_run_does_not_wait_for_the_end_of_a_long_one(pool: ParserPool) -> None:
    long = pool.run(jobs.double, range(20_000), Limits())
    next(long)
    assert next(pool.run(jobs.double, [21], Limits())) == (0, 42)
    assert sum(1 for _ in long) == 19_999


def test_a_flood_of_slow_tasks_does_not_starve_another_caller(tmp_path: Path) -> None:
    with ParserPool(1) as one:
        flood = one.run(jobs.sleep, [0.0] * 500 + [0.3] * 40, Limits())

        def take() -> None:
            with contextlib.suppress(TryAgain):
                list(flood)

        thread = threading.Thread(target=take)
        taken = [next(flood) for _ in range(505)]
        thread.start()
        assert dict(one.run(jobs.double, [1, 2], Limits())) == {0: 2, 1: 4}
        assert thread.is_alive(), "the flood was finished first"
        assert len({index for index, _ in taken}) == 505
        one.close()
        thread.join()


def test_a_caller_that_takes_slowly_is_not_flooded(pool: ParserPool, tmp_path: Path) -> None:
    tasks = [str(tmp_path / str(index)) for index in range(200)]
    slow = pool.run(jobs.mark_and_return_a_megabyte, tasks, Limits())
    next(slow)
    assert sum(1 for _ in pool.run(jobs.double, range(5_000), Limits())) == 5_000
    assert len(list(tmp_path.iterdir())) < 150
    assert sum(1 for _ in slow) == 199


def test_leaving_a_run_early_stops_its_tasks(pool: ParserPool, tmp_path: Path) -> None:
    outcomes = pool.run(jobs.announce, [str(tmp_path / "a"), str(tmp_path)], Limits())
    failed = next(outcomes)[1]
    assert isinstance(failed, Failed), "the one that cannot write fails at once"
    pid = wait_for_number(tmp_path / "a")
    assert isinstance(outcomes, Iterator)
    outcomes.close()  # type: ignore[attr-defined]
    until(lambda: is_gone(pid))
    assert dict(pool.run(jobs.double, [1, 2], Limits())) == {0: 2, 1: 4}


def test_closing_ends_a_run_and_every_process(tmp_path: Path) -> None:
    pool = ParserPool(2)
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            list(pool.run(jobs.announce, [str(tmp_path / "a")], Limits()))
        except TryAgain as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    pid = wait_for_number(tmp_path / "a")
    pool.close()
    thread.join()
    assert [str(error) for error in ended] == ["the parser processes were stopped; try again"]
    assert is_gone(pid)
    assert processes() == []
    with pytest.raises(TryAgain):
        next(pool.run(jobs.double, [1], Limits()))
    pool.close()


def test_a_killed_parent_leaves_no_process(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    command = [sys.executable, "-m", "tests.parser_pool.parent", *paths]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert {int(Path(path).read_text()) for path in paths} < set(pids)
        assert len(pids) == 4, "the resource tracker, the fork server and two parser processes"
        parent.kill()
        until(lambda: all(is_gone(pid) for pid in pids))
        assert parent.stderr.read() == ""


def test_a_killed_server_costs_only_the_tasks_that_were_running(pool: ParserPool, tmp_path: Path) -> None:
    tasks = [str(tmp_path / "a"), str(tmp_path / "b")]
    outcomes = pool.run(jobs.announce, tasks, Limits())
    taken: list[tuple[int, object]] = []
    thread = threading.Thread(target=lambda: taken.extend(outcomes))
    thread.start()
    pids = [wait_for_number(Path(path)) for path in tasks]
    psutil.Process(pids[0]).parent().kill()  # type: ignore[union-attr]
    thread.join()
    assert sorted(index for index, _ in taken) == [0, 1]
    assert all(isinstance(o, Failed) and o.error.reason is Reason.PROCESS_KILLED for _, o in taken)
    assert dict(pool.run(jobs.double, range(100), Limits())) == {n: n * 2 for n in range(100)}


def test_a_module_that_cannot_be_preloaded_is_named() -> None:
    with ParserPool(1, preload=("catchment.no_such_module",)) as pool:
        for _ in range(2):
            with pytest.raises(Unexpected, match=r"cannot import catchment\.no_such_module"):
                next(pool.run(jobs.double, [1], Limits()))


def test_a_pool_without_any_process_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "get_executable", lambda: b"/nonexistent/python")
    with ParserPool(2) as pool, pytest.raises(TryAgain, match="no parser process can be started"):
        next(pool.run(jobs.double, [1], Limits()))


def test_function_that_cannot_be_imported_is_refused_at_once(pool: ParserPool) -> None:
    with pytest.raises(AttributeError):
        pool.run(lambda task: task, [1], Limits())
    assert processes() == []


def test_task_environment_is_minimal(pool: ParserPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", "abc")
    ((_, around),) = pool.run(jobs.surroundings, [None], Limits())
    assert isinstance(around, dict)
    assert around["umask"] == 0o077
    assert around["stdin"] == ""
    assert "SOME_TOKEN" not in around["environment"]
    assert around["adjustment"] == "500"
    assert [name.split(":")[0] for name in around["descriptors"]] == ["/dev/null", "/dev/null", "pipe", "socket"]
    assert around["prefect"] == []


def test_workers_are_killed_even_if_the_server_is_stopped_by_a_signal(pool: ParserPool, tmp_path: Path) -> None:
    thread = threading.Thread(target=lambda: list(pool.run(jobs.announce, [str(tmp_path / "a")], Limits())))
    thread.start()
    pid = wait_for_number(tmp_path / "a")
    os.kill(psutil.Process(pid).ppid(), signal.SIGTERM)
    thread.join()
    until(lambda: is_gone(pid))


def test_an_abandoned_call_frees_its_tasks_and_wakes_its_caller(pool: ParserPool, tmp_path: Path) -> None:
    abandoned = threading.Event()
    errors: list[str] = []

    def wait() -> None:
        try:
            list(pool.run(jobs.announce, [str(tmp_path / str(n)) for n in range(10)], Limits(), abandoned=abandoned))
        except TryAgain as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    pids = [wait_for_number(path) for path in tmp_path.iterdir()]
    abandoned.set()
    thread.join()
    assert errors == ["the parser was abandoned; try again"]
    assert dict(pool.run(jobs.double, [1, 2], Limits())) == {0: 2, 1: 4}
    until(lambda: all(is_gone(pid) for pid in pids))


def test_a_short_task_of_an_abandoned_call_keeps_its_process(pool: ParserPool, tmp_path: Path) -> None:
    path = tmp_path / "a"
    with ParserPool(1) as one:
        ((_, pid),) = one.run(jobs.identify, [None], Limits())
        abandoned = threading.Event()
        outcomes = one.run(jobs.wait_for, [str(path)], Limits(), abandoned=abandoned)

        def abandon() -> None:
            until(path.exists)
            abandoned.set()

        thread = threading.Thread(target=abandon)
        thread.start()
        with pytest.raises(TryAgain):
            next(outcomes)
        path.unlink()
        thread.join()
        assert list(one.run(jobs.identify, [None], Limits())) == [(0, pid)]


def test_a_process_that_dies_idle_costs_no_task(pool: ParserPool) -> None:
    for _ in range(5):
        ((_, pid),) = pool.run(jobs.identify, [None], Limits())
        assert isinstance(pid, int)
        os.kill(pid, signal.SIGKILL)
        assert dict(pool.run(jobs.double, range(4), Limits())) == {n: n * 2 for n in range(4)}


def test_threads_of_an_event_loop_share_a_pool(pool: ParserPool) -> None:
    async def all_of_them() -> list[dict[int, object]]:
        def double(start: int) -> dict[int, object]:
            return dict(pool.run(jobs.double, range(start, start + 200), Limits()))

        return await asyncio.gather(*(asyncio.to_thread(double, start) for start in (0, 1_000, 2_000, 3_000)))

    pool.start()
    for start, outcomes in zip((0, 1_000, 2_000, 3_000), asyncio.run(all_of_them()), strict=True):
        assert outcomes == {index: (start + index) * 2 for index in range(200)}


_UNGUARDED = """
import os, signal, sys
from catchment.parser_pool import ParserPool
from catchment.settings import Limits
from tests.parser_pool import jobs
print("imported")
with ParserPool(2) as pool:
    pool.start()
    if "interrupted" in sys.argv:
        signal.signal(signal.SIGINT, lambda *_: None)
        os.killpg(0, signal.SIGINT)
    print(*pool.run(jobs.main_module, [None], Limits()))
    if "interrupted" in sys.argv:
        os.killpg(0, signal.SIGINT)
    print(*pool.run(jobs.double, [21], Limits()))
"""


@pytest.mark.parametrize("shell", ['exec "$@"', 'exec "$@" <&-', 'exec "$@" interrupted'])
def test_a_script_is_not_imported_by_its_parsers(tmp_path: Path, shell: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(_UNGUARDED)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = ["sh", "-c", shell, "sh", sys.executable, str(script)]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,
        check=False,
    )
    assert (ended.stdout, ended.stderr) == ("imported\n(0, None)\n(0, 42)\n", "")
