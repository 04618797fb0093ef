"""Jobs: the processing of each version of each item, and one job with its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from catchment.errors import NotFound
from catchment.ledger import Event, JobFilter, JobRow, Ledger, ListPage
from catchment.model import JobState

_ALL = JobFilter()
_ACTIONS: Mapping[JobState, tuple[str, ...]] = {
    JobState.PENDING: ("cancel", "prioritize"),
    JobState.RETRYING: ("cancel", "prioritize"),
    JobState.RUNNING: ("cancel",),
    JobState.QUARANTINED: ("retry", "discard", "note"),
}


@dataclass(frozen=True, slots=True)
class JobsView:
    """A part of the jobs, newest first. `totals`: the number by state of all that pass the filters but that of the state."""

    page: ListPage[JobRow]
    totals: Mapping[JobState, int]


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a job. `outcome` and `reason` are those of the event that ended it; None while it runs."""

    number: int
    worker: str
    started: datetime
    ended: datetime | None = None
    outcome: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """A job.

    Attributes:
        run: The ID of the Prefect run that found it, if known.
        attempts: Its attempts, oldest first.
        history: Its events, oldest first.
        actions: The actions that an operator can take now.
    """

    job: JobRow
    run: str | None
    attempts: tuple[Attempt, ...]
    history: tuple[Event, ...]
    actions: tuple[str, ...]


def jobs(
    ledger: Ledger,
    which: JobFilter = _ALL,
    *,
    after: str | None = None,
    limit: int = 50,
) -> JobsView:
    """Return a part of the jobs, newest first. Raises NotFound for an unknown source."""
    if which.source is not None:
        ledger.sources.get(which.source)
    return JobsView(*ledger.queue.page(which, after=after, limit=limit))


def job(ledger: Ledger, number: int) -> JobView:
    """Return a job with its attempts and its history. Raises NotFound."""
    row = ledger.queue.job(number)
    history = ledger.history.of_job(number)
    run = None
    with suppress(NotFound):
        run = ledger.syncs.get(row.sync_id or 0).run
    return JobView(
        row,
        run,
        attempts(history),
        tuple(history),
        _ACTIONS.get(row.state, ()) if row.current else (),
    )


def attempts(history: Iterable[Event]) -> tuple[Attempt, ...]:
    """Return the attempts in the events of a job, oldest first."""
    attempts: list[Attempt] = []
    states = {state.value for state in JobState}
    for event in history:
        if event.event == JobState.RUNNING:
            attempts.append(Attempt(event.attempt or len(attempts) + 1, event.actor, event.at))
        elif event.event in states and attempts and attempts[-1].ended is None:
            attempts[-1] = replace(attempts[-1], ended=event.at, outcome=event.event, reason=event.reason)
    return tuple(attempts)
