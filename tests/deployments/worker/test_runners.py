"""Which runner executes a run, and what a package that leaves threads behind does to the runs of others."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from catchment.runtime.installation import OURS
from deployments.runner.messages import Heartbeat
from deployments.runner.preload import requested_modules
from deployments.runs.live_runs import Ending, LiveRuns, Loss, RunEnd
from deployments.worker import runner_process
from deployments.worker.runner_process import RunnerProcess
from deployments.worker.runners import Runners, package_of_flow
from tasks.activity import CountingExecutor
from tests.outside_packages import install, site_of
from tests.waiting import until

_SHELF = "catchment-shelf"


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[None]:
    """A package with the kind `shelf`."""
    with site_of(tmp_path) as site:
        install(site)
        yield


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runner processes that say nothing and do not exit."""
    program = tmp_path / "sleeper"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    real = asyncio.sleep
    monkeypatch.setattr(runner_process.asyncio, "sleep", lambda seconds: real(min(seconds, 0.01)))


@pytest.mark.parametrize(
    ("entrypoint", "package"),
    [
        ("flows.local_files.sync_local_files", OURS),
        ("flows.shelf.sync_shelf", _SHELF),
        ("flows.unknown.sync_unknown", OURS),
        ("flows.embed.embed", OURS),
        ("mine.shelf.sync_shelf", OURS),
    ],
)
@pytest.mark.usefixtures("shelf")
def test_only_syncs_of_a_package_have_its_runner(entrypoint: str, package: str) -> None:
    assert package_of_flow(entrypoint) == package


@pytest.mark.usefixtures("shelf")
def test_each_runner_imports_only_the_kinds_of_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CATCHMENT_PRELOAD", raising=False)
    assert {"flows", "flows.obsidian"} <= {*requested_modules()} and "flows.shelf" not in requested_modules()
    assert "flows.shelf" in requested_modules(_SHELF) and "flows" not in requested_modules(_SHELF)


@pytest.mark.usefixtures("shelf", "sleeper")
def test_runner_of_a_package_starts_with_its_first_run_and_ends_when_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lives() -> None:
        duties: list[asyncio.Task[None]] = []

        def duty(work: Coroutine[Any, Any, None]) -> None:
            duties.append(asyncio.create_task(work))

        runners = Runners(print, duty)
        starts = [asyncio.create_task(runners.prepare())]
        await _reached(lambda: runners.identities.keys() == {OURS})
        starts.append(asyncio.create_task(runners.start(_run(), "flows.shelf.sync_shelf", None)))  # type: ignore[arg-type]
        await _reached(lambda: runners.identities.keys() == {OURS, _SHELF})
        ours = runners.identities[OURS]
        for start in starts:
            start.cancel()
        monkeypatch.setattr(runner_process, "_IDLE_SECONDS", 0.0)
        await _reached(lambda: runners.identities == {OURS: ours})
        for task in duties:
            task.cancel()
        await runners.close()
        await _reached(lambda: runners.identities == {})

    asyncio.run(lives())


@pytest.mark.parametrize("package", [OURS, _SHELF])
@pytest.mark.usefixtures("sleeper")
def test_thread_that_never_returns_ends_the_runner_of_a_package_alone(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner_process, "_ABANDONED_SECONDS", -1.0)

    async def end() -> RunEnd:
        runner = RunnerProcess(print, package)
        asyncio.get_running_loop().call_soon(asyncio.ensure_future, runner.prepare())
        await _reached(lambda: runner.identity)
        process = runner._current
        assert process is not None
        other = process.start(_run(), "flows.shelf.sync_shelf", None)  # type: ignore[arg-type]
        process._handle(Heartbeat({}, 0))
        process.judge()
        process._handle(Heartbeat({}, 1))
        process.judge()
        if process._is_explained:
            await _reached(other.done)
        await runner.close()
        return await other

    loss = asyncio.run(end())
    assert isinstance(loss, Loss)
    explained = (True, "of catchment-shelf had a stopped run that never returns")
    assert (loss.is_explained, loss.cause) == (explained if package == _SHELF else (False, "the worker stopped"))


def test_runs_beside_an_abandoned_thread_are_interrupted_without_blame() -> None:
    (ending,), blamed = _endings({"mail": Loss("r", "was killed", (UUID(int=1),), {}, is_explained=True)})
    assert (ending.state.name, blamed) == ("Interrupted", [None])


def test_losses_of_two_runners_are_judged_apart() -> None:
    first, other = (Loss(f"r{number}", "died", (UUID(int=number),), {}) for number in (1, 2))
    endings, blamed = _endings({"mail": first, "shelf": other}, times=2)
    assert {ending.state.name for ending in endings} == {"Crashed"}
    assert blamed == ["mail", "shelf"], "each once"


def test_call_that_never_returns_is_counted_after_its_pool_was_dropped() -> None:
    from threading import Event

    from tasks import open_syncs

    returns = Event()
    pool = CountingExecutor(1, "dropped")
    open_syncs._executors[pool] = "run"
    pool.submit(returns.wait)
    pool.shutdown(wait=False)
    until(lambda: open_syncs.busy_threads([]) == 1)
    del pool
    assert (open_syncs.busy_threads([]), open_syncs.busy_threads(["run"])) == (1, 0)
    returns.set()
    until(lambda: open_syncs.busy_threads([]) == 0)


def _endings(ends: dict[str, Loss], times: int = 1) -> tuple[list[Ending], list[str | None]]:
    """Return the endings of a run of each source, and the blamed sources. `times`: how often each ending is asked for."""
    blamed: list[str | None] = []

    async def judged() -> list[Ending]:
        live = LiveRuns(set, dict, lambda _runner, culprit, _why: blamed.append(culprit), print)
        future: asyncio.Future[RunEnd] = asyncio.get_running_loop().create_future()
        with ExitStack() as stack:
            for name, loss in ends.items():
                stack.enter_context(live.executing(loss.runs[0], name, future))
            return [await live.ending(loss.runs[0], loss) for loss in [*ends.values()] * times]

    return asyncio.run(judged()), blamed


def _run() -> SimpleNamespace:
    return SimpleNamespace(id=uuid4())


async def _reached(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)
