"""Errors without private details, for Prefect: it logs the exceptions of a task with all their causes."""

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
    """A failed step. The message has only the name of the error class; `error` is the original, for this process only."""

    def __init__(self, name: str, error: CatchmentError | None = None) -> None:
        super().__init__(name)
        self.error = error

    def __str__(self) -> str:
        return f"{self.args[0]} (details: catchment status)"


async def in_thread(step: Callable[..., R], *arguments: Any, executor: Executor | None = None, **named: Any) -> R:
    """Run a step of the engine in a thread. Raises Reported instead of a CatchmentError."""
    try:
        return await run(step, *arguments, executor=executor, **named)
    except CatchmentError as error:
        reported = Reported(type(error).__name__, error)
    raise reported


async def run(step: Callable[..., R], *arguments: Any, executor: Executor | None = None, **named: Any) -> R:
    """Run a step in a thread of `executor`, as `asyncio.to_thread` does."""
    call = functools.partial(contextvars.copy_context().run, step, *arguments, **named)
    return await asyncio.get_running_loop().run_in_executor(executor, call)
