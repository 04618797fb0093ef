"""How a run ends after a failure: resumed if Catchment itself failed, failed otherwise. Without a server."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import httpx
import pytest

from catchment.errors import (
    CatchmentError,
    HomeUnavailable,
    IllegalTransition,
    LedgerCorrupt,
    LedgerUnavailable,
    NotFound,
    SchemaMismatch,
    SourceUnavailable,
    StaleLease,
)
from flows.own_failures import resumable
from tasks.redacted_errors import Reported


def _ended(error: BaseException) -> Any:
    @resumable
    async def run() -> None:
        try:
            raise ValueError("a statement with private words")
        except ValueError:
            raise error  # noqa: B904 - with a context

    return asyncio.run(run())


@pytest.mark.parametrize(
    "error",
    [
        LedgerUnavailable("the ledger is locked; try again"),
        StaleLease("another claim has the lease"),
        HomeUnavailable("the disk is full; make room"),
        Reported("LedgerUnavailable", LedgerUnavailable("locked")),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("silent"),
        MemoryError(),
        OSError(errno.EAGAIN, "Resource temporarily unavailable", "/private/path"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_failure_of_catchment_itself_crashes_the_run(error: Exception) -> None:
    state = _ended(error)
    assert (state.type.value, state.name) == ("CRASHED", "Crashed")
    assert str(state.message).endswith("; the work continues in a new run")
    assert "private" not in str(state.message)


@pytest.mark.parametrize(
    "error",
    [
        LedgerCorrupt("damaged; restore a backup"),
        SchemaMismatch("newer; install a newer Catchment"),
        IllegalTransition("succeeded to pending"),
        Reported("LedgerCorrupt", LedgerCorrupt("damaged")),
        SourceUnavailable("the folder is missing; mount its disk"),
        NotFound("no such plan; make another"),
        KeyError("a defect"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_failures_propagate_without_their_causes(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        _ended(error)
    assert raised.value.__suppress_context__ == isinstance(error, CatchmentError)
