"""Errors as Prefect may see them: only the class. Prefect logs an exception of a task with all its causes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from catchment.errors import CatchmentError

R = TypeVar("R")


class Reported(CatchmentError):
    """A step failed. `error` is the original, for this process only; the message names its class and where to read on."""

    def __init__(self, name: str, error: CatchmentError | None = None) -> None:
        super().__init__(name)
        self.error = error

    def __str__(self) -> str:
        return f"{self.args[0]} (details: catchment status)"


async def in_thread(step: Callable[..., R], *arguments: Any, executor: Executor | None = None, **named: Any) -> R:
    """Call a step of the engine off the event loop. Raises Reported in place of any error of ours."""
    try:
        return await run(step, *arguments, executor=executor, **named)
    except CatchmentError as error:
        reported = Reported(type(error).__name__, error)
    raise reported


async def run(step: Callable[..., R], *arguments: Any, executor: Executor | None = None, **named: Any) -> R:
    """Call a step as `asyncio.to_thread` does, in a thread of this executor."""
    call = functools.partial(contextvars.copy_context().run, step, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(executor, call)
