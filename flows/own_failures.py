"""Failures of Catchment itself: a lost server, a busy ledger, a full disk, missing memory, a process that was killed.

A run with such a failure ends `Crashed`, whatever its flow: the worker resumes crashed runs (`deployments.runs.recovery`), and
leaves failed ones to their schedules.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, TypeVar

import httpx
from prefect.client.schemas.objects import State

from catchment.errors import CatchmentError, HomeUnavailable, LedgerError
from catchment.model import FailureClass
from tasks.redacted_errors import Reported
from tasks.run_states import CRASHED

P = ParamSpec("P")
R = TypeVar("R")


def resumable(work: Callable[P, Awaitable[R]]) -> Callable[P, Awaitable[R | State[Any]]]:
    """Let the run of a flow that returns the result end `Crashed` after a failure of Catchment itself. Other errors propagate.

    For the function that a flow calls: Prefect takes the version of a flow from the file of its function.
    """

    @functools.wraps(work)
    async def run(*arguments: P.args, **named: P.kwargs) -> R | State[Any]:
        try:
            return await work(*arguments, **named)
        except CatchmentError as error:
            if not _is_ours(cause(error)):
                # Without the cause, which contains statements and paths that Prefect would log.
                raise error from None
            problem = str(error)
        except httpx.HTTPError as error:
            # From the Prefect server: connectors raise SourceError.
            problem = f"The Prefect server did not respond ({type(error).__name__})"
        except (OSError, MemoryError) as error:
            problem = f"unexpected {type(error).__name__}"
        return CRASHED.because(f"{problem}; the work continues in a new run")

    return run


def cause(error: Exception) -> Exception:
    """Return the error that a step raised."""
    return error.error if isinstance(error, Reported) and error.error is not None else error


def _is_ours(error: Exception) -> bool:
    return isinstance(error, LedgerError | HomeUnavailable) and error.failure_class is FailureClass.TRANSIENT
