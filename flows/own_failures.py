"""The end of a failed run of any flow: a state with a reason, and a name.

A failure of Catchment itself (a lost server, a busy ledger, a full disk, missing memory) ends the run `Crashed`: the worker
resumes crashed runs (`deployments.runs.recovery`), and leaves failed ones to their schedules.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

import httpx
from prefect import Task
from prefect.client.schemas.objects import State, StateType
from prefect.runtime import flow_run

from catchment.errors import CatchmentError, FailureClass, HomeUnavailable, LedgerError
from tasks.coalesce import complete_waiting_runs
from tasks.redacted_errors import Reported
from tasks.report import name_run
from tasks.run_states import CRASHED, FAILED

P = ParamSpec("P")
R = TypeVar("R")


def resumable(work: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R | State[Any]]]:
    """Let the run of a flow that returns the result end with a name and a reason. Only a defect propagates, with its traceback.

    For the function that a flow calls: Prefect takes the version of a flow from the file of its function.
    """

    @functools.wraps(work)
    async def run(*arguments: P.args, **named: P.kwargs) -> R | State[Any]:
        try:
            return await work(*arguments, **named)
        except Exception as error:
            state = _state_after(error)
            end = "failed" if state is None else str(state.name).lower()
            # The failure may be one of the server.
            with suppress(httpx.HTTPError):
                await name_run(f"{str(flow_run.name).partition(':')[0]}: {end}")
            if state is None:
                raise
            return state

    return run


@resumable
async def of_background(work: Task[[], Any]) -> State[Any]:
    """Run the task of a flow that belongs to no source, and return the final state of its run."""
    await complete_waiting_runs()
    state: State[Any] = await work(return_state=True)  # type: ignore[misc]  # typed as not awaitable
    if state.type is StateType.FAILED:
        # No source is at fault, and a text or picture that is refused is no failure.
        return CRASHED.because(state.message)
    return State(type=state.type, name=state.name, message=state.message)


def _state_after(error: Exception) -> State[Any] | None:
    """Return the final state of a run, without the cause, which contains statements and paths. None after a defect."""
    match error:
        case CatchmentError() if not _is_ours(cause(error)):
            return FAILED.because(str(error))
        case CatchmentError():
            problem = str(error)
        case httpx.HTTPError():
            # From the Prefect server: connectors raise SourceError.
            problem = f"The Prefect server did not respond ({type(error).__name__})"
        case OSError() | MemoryError():
            problem = f"unexpected {type(error).__name__}"
        case _:
            return None
    return CRASHED.because(f"{problem}; the work continues in a new run")


def cause(error: Exception) -> Exception:
    """Return the error that a step raised."""
    return error.error if isinstance(error, Reported) and error.error is not None else error


def _is_ours(error: Exception) -> bool:
    return isinstance(error, LedgerError | HomeUnavailable) and error.failure_class is FailureClass.TRANSIENT
