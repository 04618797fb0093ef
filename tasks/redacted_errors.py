"""Errors without private details, for Prefect: it logs the exceptions of a task with all their causes."""

from __future__ import annotations

import asyncio
import contextvars
import functools
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar

from prefect.client.schemas.objects import State
from prefect.exceptions import FailedRun
from prefect.transactions import get_transaction

from catchment.errors import CatchmentError, RateLimited, SourceError, StaleLease, Stopped
from catchment.telemetry.incidents import reason_of
from tasks.run_states import CANCELLED, FAILED, WAITING

P = ParamSpec("P")
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


def ends_with_state(step: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R | State[Any]]]:
    """Let a task or subflow that raises Reported return a state with the reason instead: Prefect logs no traceback then.

    `finished` raises the error again.
    """

    @functools.wraps(step)
    async def run_step(*arguments: P.args, **named: P.kwargs) -> R | State[Any]:
        try:
            return await step(*arguments, **named)
        except Reported as error:
            if (transaction := get_transaction()) is not None:
                # Prefect would cache the state as the result of the task.
                transaction.write_on_commit = False
            state = _ending(error)
            state.data = error
            return state

    return run_step


async def finished(step: Callable[..., Any], *arguments: Any) -> Any:
    """Run a task or a subflow, and return its result. Raises its error; a failure that is only a state is returned.

    None if the server has the end, but its response was lost: to the repeated report, it answers with a state without data.
    """
    state: State[Any] = await step(*arguments, return_state=True)
    if state.is_completed() and state.data is None:
        return None
    end = await state.aresult(raise_on_failure=False)
    if isinstance(end, Exception) and not isinstance(end, FailedRun):
        raise end
    return end


def _ending(reported: Reported) -> State[Any]:
    match reported.error:
        case Stopped() | StaleLease():
            return CANCELLED.because("The sync was stopped; the next one continues")
        case RateLimited():
            return WAITING.because("Rate limit of the host; continues in another run")
        case SourceError():
            return FAILED.because(f"{reason_of(reported.error).help} ({reported.args[0]})")
    return FAILED.because(str(reported))
