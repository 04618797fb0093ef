"""Flows that wait, crash and hang, for the tests of the worker. Each test run has its own copy."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from typing import Any

import httpx
from prefect import flow, flow_engine, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, State

from tasks import hints
from tasks.run_states import SKIPPED

ANSWER = "the first answer"


@flow
async def answer() -> State[Any]:
    return Completed(message=ANSWER)


@flow
async def failing() -> None:
    raise ValueError


@flow
async def unreported() -> State[Any]:
    """Run a subflow that fails, and complete. The server refuses this state, as on a full disk, and accepts the next one."""
    await failing(return_state=True)
    propose, own = flow_engine.propose_state, flow_run.id

    async def refused(client: Any, state: State[Any], *, flow_run_id: Any, **named: Any) -> State[Any]:
        if str(flow_run_id) != own:
            return await propose(client, state, flow_run_id=flow_run_id, **named)
        flow_engine.propose_state = propose
        request = httpx.Request("POST", "http://127.0.0.1/")
        raise httpx.HTTPStatusError("full", request=request, response=httpx.Response(500, request=request))

    flow_engine.propose_state = refused
    return Completed()


@flow
async def process_id() -> State[Any]:
    return Completed(message=str(os.getpid()))


@flow
async def linger(mark: str = "", seconds: float = 60) -> None:
    if mark:
        # A process below the runner that does not use Prefect.
        subprocess.Popen(["sleep", mark])
    await asyncio.sleep(seconds)


@flow
async def parent(seconds: float = 60) -> None:
    await linger(seconds=seconds)


@flow
async def many_parts(seconds: float = 60) -> None:
    for _ in range(int(seconds / 0.1)):
        await linger(seconds=0.1)


@flow
async def block_thread(seconds: float) -> None:
    """Wait in a thread that cannot be cancelled."""
    await asyncio.to_thread(time.sleep, seconds)


@flow
async def die(number: int) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(60)


@flow
async def leave(code: int) -> None:
    os._exit(code)


@flow
async def log_lines(word: str, lines: int) -> None:
    for number in range(lines):
        get_run_logger().info("%s %d", word, number)
        await asyncio.sleep(0.01)


@flow
def blocking() -> None:
    """A synchronous flow, which would block all other runs of the runner."""


@flow
async def changed_paths(name: str, changed_only: bool = False, held: bool = False) -> State[Any]:
    """Take and report the paths that the worker passed with this run, as a sync does. A held source takes none."""
    if held:
        return SKIPPED.because("held")
    hint = hints.take(flow_run.id)
    return Completed(message=str(None if hint is None else sorted(hint.paths)))
