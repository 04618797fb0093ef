"""Syncs: a list, and one sync as stages with its changes in the library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from catchment.ledger import ChangeCounts, ChangeKind, Ledger, ListPage, PathChange, SyncRow, SyncWork
from catchment.model import JobState

_FAILED = (JobState.QUARANTINED, JobState.RETRYING)
_WAITING = (JobState.PENDING, JobState.RUNNING, JobState.RETRYING)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a sync: discover, normalize, extract, deliver or embed.

    Attributes:
        number, of: Items that passed it, and that reached it; None if the ledger does not know.
        failed: Items that failed in it.
        started, ended: As far as the ledger knows.
    """

    name: str
    number: int | None = None
    of: int | None = None
    failed: int = 0
    started: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class SyncView:
    """A sync.

    Attributes:
        waiting: Jobs that it found and that are not finished.
        changes: Number of paths in the library that it changed; 0 once its undo data has expired.
        undo_refusal: Why it cannot be undone now; None if it can.
        undone_by: The undo of this sync, if there is one.
    """

    sync: SyncRow
    stages: tuple[Stage, ...]
    waiting: int
    changes: ChangeCounts
    undo_refusal: str | None
    undone_by: int | None


@dataclass(frozen=True, slots=True)
class SyncAndChanges:
    """A sync, and a part of the paths that it added, changed, moved and deleted, by name."""

    sync: SyncView
    changes: Mapping[ChangeKind, ListPage[PathChange]]


def syncs(ledger: Ledger, source: str | None = None, *, after: str | None = None, limit: int = 50) -> ListPage[SyncRow]:
    """Return the syncs of a source or of all in parts, newest first. Raises NotFound."""
    return ledger.syncs.page(ledger.sources.get(source).id if source else None, after=after, limit=limit)


def sync(ledger: Ledger, number: int) -> SyncView:
    """Return a sync, running or ended. Raises NotFound."""
    row, work = ledger.syncs.get(number), ledger.syncs.work(number)
    return SyncView(
        row,
        _stages(row, work),
        sum(work.jobs.get(state, 0) for state in _WAITING),
        ledger.syncs.change_counts(number),
        ledger.undo.refusal(number),
        ledger.undo.undone_by(number),
    )


def sync_and_changes(
    ledger: Ledger, number: int, kind: ChangeKind | None = None, *, after: str | None = None, limit: int = 50
) -> SyncAndChanges:
    """Return a sync with the paths that it changed, at most `limit` of each kind. `kind`: only these. Raises NotFound."""
    view = sync(ledger, number)
    kinds = [kind] if kind else [each for each in ChangeKind if getattr(view.changes, each)]
    return SyncAndChanges(view, {each: ledger.syncs.changes(number, each, after=after, limit=limit) for each in kinds})


def _stages(row: SyncRow, work: SyncWork) -> tuple[Stage, ...]:
    """Return the stages: by the figures of a completed sync, or by the jobs of a running sync."""
    if row.is_undo:
        return ()
    listed, jobs = sum(work.jobs.values()), work.jobs
    figures = row.summary or {
        "listed": listed,
        "read": listed,
        "parsed": sum(jobs.get(state, 0) for state in JobState if state not in (*_WAITING, *_FAILED)),
        "succeeded": jobs.get(JobState.SUCCEEDED, 0),
        "quarantined": jobs.get(JobState.QUARANTINED, 0),
        "retrying": jobs.get(JobState.RETRYING, 0),
    }
    get = {name: figures.get(name, 0) for name in ("listed", "read", "parsed", "reused", "succeeded")}
    failed = figures.get("quarantined", 0) + figures.get("retrying", 0)
    read, parsed, stored = get["read"], get["parsed"] + get["reused"], get["succeeded"]
    return (
        Stage("discover", get["listed"], None, 0, row.began, work.last_found),
        Stage("normalize", parsed, read, failed, work.first_found),
        Stage("extract", stored, parsed),
        Stage("deliver", stored, parsed, 0, None, work.finished),
        Stage("embed"),
    )
