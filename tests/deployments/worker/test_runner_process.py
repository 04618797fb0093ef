"""The worker's side of the runner, with real processes and without a server."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from uuid import uuid4

import pytest

from catchment.runtime import child_process
from catchment.settings import Home
from deployments.worker.runner_process import RunnerProcess

_RUN = uuid4()


def _exits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")


def _cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent")


@pytest.mark.parametrize(
    ("fail", "problem"),
    [
        (_exits_at_once, "the runner exited with code 1"),
        (_cannot_be_started, "the runner could not be started (No such file or directory)"),
    ],
)
def test_runner_that_never_lives_is_restarted_ever_later(
    monkeypatch: pytest.MonkeyPatch, fail: Callable[[pytest.MonkeyPatch], None], problem: str
) -> None:
    fail(monkeypatch)
    monkeypatch.setattr(child_process, "_FIRST_SECONDS", 0.01)
    warnings: list[str] = []

    async def deaths(runner: RunnerProcess, number: int) -> str:
        run = asyncio.create_task(runner.start(_RUN, "flows.embed.embed", None))
        while len(warnings) < number:
            await asyncio.sleep(0.005)
        assert not run.done(), "the run waits for a runner"
        problem = runner.problem
        await runner.close()
        return problem

    async def told() -> RunnerProcess:
        runner = RunnerProcess(warnings.append)
        assert await deaths(runner, 4) == problem
        return runner

    runner = asyncio.run(told())
    assert runner._pause.seconds == 0.01 * 2 ** (len(warnings) - 1)


@pytest.mark.full
def test_runner_starts_once_while_the_server_does_not_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{unheard.getsockname()[1]}/api")
        monkeypatch.setenv("PREFECT_HOME", str(home.prefect))
        monkeypatch.delenv("PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED", raising=False)

        async def lives() -> bool:
            runner = RunnerProcess(warnings.append)
            await runner.prepare()
            try:
                return runner.identity is not None
            finally:
                await runner.close()

        assert asyncio.run(lives())
    assert warnings == []
