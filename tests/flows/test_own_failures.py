"""How a run ends after a failure: resumed if Catchment itself failed, failed otherwise; always with a reason and a name."""

from __future__ import annotations

import asyncio
import errno
import logging
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.client.schemas.objects import State
from prefect.states import Completed

from catchment import errors
from catchment.errors import (
    CatchmentError,
    HomeUnavailable,
    IllegalTransition,
    LedgerCorrupt,
    LedgerUnavailable,
    LoginFailed,
    NotFound,
    RateLimited,
    SchemaMismatch,
    SourceError,
    SourceUnavailable,
    StaleLease,
)
from catchment.ledger import Ledger
from catchment.model import SkipReason
from catchment.settings import Home
from catchment.telemetry.incidents import reason_of
from connectors.local_files import LocalFilesSettings
from flows.own_failures import resumable
from flows.sync import bring_up_to_date
from tasks.redacted_errors import Reported, finished


def _every_class(root: type[CatchmentError] = CatchmentError) -> list[type[CatchmentError]]:
    below = (kind for kind in root.__subclasses__() if kind.__module__ == errors.__name__)
    return [root, *(found for kind in below for found in _every_class(kind))]


def _instance(kind: type[CatchmentError]) -> CatchmentError:
    if kind is errors.Skipped:
        return errors.Skipped(SkipReason.UNSUPPORTED)
    if kind is errors.Ambiguous:
        return errors.Ambiguous("notes: a problem; a remedy", ("#1 notes: a.md", "#2 notes: b.md"))
    return RateLimited("host") if kind is RateLimited else kind("notes: a problem; a remedy")


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
    ],
    ids=lambda error: type(error).__name__,
)
def test_other_failures_fail_the_run_with_their_message(error: CatchmentError) -> None:
    state = _ended(error)
    assert (state.type.value, state.name, state.message) == ("FAILED", "Failed", str(error))


@pytest.mark.parametrize(("state", "result"), [(Completed(data=7), 7), (Completed(), None)])
def test_end_that_the_server_knows_without_its_result_is_no_failure(state: State[int], result: int | None) -> None:
    """The response to the first report was lost; the server answers the second one with its stored state."""

    async def step(*, return_state: bool) -> State[int]:
        assert return_state
        return state

    assert asyncio.run(finished(step)) == result


def test_defect_propagates_with_its_traceback() -> None:
    with pytest.raises(KeyError):
        _ended(KeyError("a defect"))


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that runs are given. Without a run on the server, none would arrive."""
    given: list[str] = []

    async def name(name: str, _error: SourceError | None = None) -> None:
        given.append(name)

    monkeypatch.setattr("flows.sync.name_run", name)
    monkeypatch.setattr("flows.sync.name_failed_run", name)
    monkeypatch.setattr("flows.own_failures.name_run", name)
    monkeypatch.setattr("flows.sync.get_run_logger", logging.getLogger)
    return given


@pytest.mark.parametrize("kind", _every_class(), ids=lambda kind: kind.__name__)
def test_every_error_before_a_sync_ends_it_with_name_and_reason(
    kind: type[CatchmentError], tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = _instance(kind)

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("tasks.open_syncs._require_identity", fail)

    state = asyncio.run(bring_up_to_date("local_files", "notes", LocalFilesSettings(root=tmp_path), deep=False))

    assert isinstance(state, State)
    assert str(error) in str(state.message)
    assert re.search(": (failed|crashed|refused|skipped)", names[-1])


@pytest.mark.parametrize(
    "kind",
    [
        *(CatchmentError, HomeUnavailable, LedgerUnavailable, LoginFailed, RateLimited, SourceError, SourceUnavailable),
        *(StaleLease, errors.Ambiguous, errors.Skipped),
    ],
    ids=lambda kind: kind.__name__,
)
def test_error_during_a_sync_is_told_to_the_ledger(
    kind: type[CatchmentError], home: Home, tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = _instance(kind)

    async def fail(*_: object, **__: object) -> None:
        raise Reported(kind.__name__, error)

    monkeypatch.setattr("flows.sync._sync", fail)

    state = asyncio.run(bring_up_to_date("local_files", "notes", LocalFilesSettings(root=tmp_path), deep=False))

    assert isinstance(state, State)
    reason = reason_of(error).help if isinstance(error, SourceError) else kind.__name__
    assert reason in str(state.message) or state.name == "Waiting"
    assert re.search(": (failed|crashed|held|waiting)", names[-1])
    with closing(Ledger.open(home.database_url)) as ledger:
        last = ledger.syncs.last(ledger.sources.get("notes").id)
    assert last is not None
    assert last.error == str(error)
    outcomes = {RateLimited: "yielded", LoginFailed: "quarantined"}
    assert last.outcome == outcomes.get(kind, "failed" if isinstance(error, SourceError) else "crashed")
