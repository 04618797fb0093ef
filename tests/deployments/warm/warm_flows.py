"""Flows that live, die and linger as the tests of the warm worker tell them. Each test run has a copy of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
from typing import Any

from prefect import flow
from prefect.settings import get_current_settings
from prefect.states import Completed, State

ANSWER = "the first answer"
CALLS: list[int] = []


@flow
async def answer() -> State[Any]:
    return Completed(message=ANSWER)


@flow
async def level_and_calls() -> State[Any]:
    CALLS.append(1)
    return Completed(message=f"{get_current_settings().logging.level} {os.environ.get('MINE')} {len(CALLS)}")


@flow
async def linger(mark: str = "", seconds: float = 60) -> None:
    if mark:
        # A process that knows nothing of Prefect, in the same group as the run.
        subprocess.Popen(["sleep", mark])
    await asyncio.sleep(seconds)


@flow
async def die(number: int) -> None:
    os.kill(os.getpid(), number)
    await asyncio.sleep(60)


@flow
async def leave(code: int) -> None:
    os._exit(code)


@flow
async def swell(megabytes: int) -> None:
    held = b"x" * (megabytes * 1_000_000)
    await asyncio.sleep(60)
    del held
