"""Storage of failures: the quarantine entry of a job, and the cluster of failures with the same cause."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sqlalchemy import delete, select, update

from catchment.errors import FailureClass, ItemError
from catchment.ledger.db.database import Writing, among, as_map
from catchment.ledger.db.schema import quarantine, syncs
from catchment.records.rows import FailureInfo
from catchment.telemetry.catalogue import FAILURES

_PARTICULARS = re.compile(r"""'[^']*'|"[^"]*"|\b\w*\d\w*\b""")
_FRAME = re.compile(r'File "[^"]*?([^"/\\]+)", line \d+, in (\S+)')


def describe(error: ItemError) -> FailureInfo:
    """Return the failure described by an exception."""
    message = " ".join(str(error).split())
    helps = error.failure_class is not FailureClass.PERMANENT
    return FailureInfo(error.reason, error.failure_class, type(error).__name__, message, "", helps)


def cluster_of(failure: FailureInfo) -> str:
    """Return a key shared by failures with the same cause.

    Combines the reason, the error, the code location, and the message without quoted text and numbers.
    """
    frames = _FRAME.findall(failure.traceback)
    location = ":".join(frames[-1]) if frames else ""
    gist = _PARTICULARS.sub("*", failure.message)
    return hashlib.sha256("\n".join((failure.reason, failure.error, location, gist)).encode()).hexdigest()[:12]


def count(writing: Writing, source_id: int, failure: FailureInfo) -> None:
    """Count a failed attempt."""
    writing.tally.add(FAILURES, 1, source_id, reason=failure.reason, failure_class=failure.failure_class)


def quarantine_rows(writing: Writing, failed: Iterable[tuple[Mapping[str, Any], FailureInfo]]) -> None:
    """Create the entries of newly quarantined jobs, and count their failures. Notes of earlier entries are kept."""
    failed = list(failed)
    if not failed:
        return
    for job, failure in failed:
        count(writing, job["source_id"], failure)
    earlier = among(writing, quarantine.c.job_id, [job["id"] for job, _ in failed])
    notes = as_map(writing.execute(select(quarantine.c.job_id, quarantine.c.notes).where(earlier)))
    writing.execute(delete(quarantine).where(earlier))
    source_ids = {job["source_id"] for job, _ in failed}
    open_syncs = select(syncs.c.source_id, syncs.c.run, syncs.c.circumstances).where(
        syncs.c.source_id.in_(source_ids), syncs.c.outcome.is_(None)
    )
    sync_of = {row.source_id: (row.run, row.circumstances) for row in writing.execute(open_syncs)}
    rows = [
        {
            "job_id": job["id"],
            "reason": failure.reason.value,
            "failure_class": failure.failure_class.value,
            "error": failure.error,
            "message": failure.message,
            "traceback": failure.traceback,
            "retry_helps": failure.retry_helps,
            "cluster": cluster_of(failure),
            "first_failed_at": job["failed_at"] or writing.now,
            "last_failed_at": writing.now,
            "notes": notes.get(job["id"]),
            "run": sync_of.get(job["source_id"], (None, None))[0],
            "resolved_at": None,
            "resolution": None,
            "circumstances": sync_of.get(job["source_id"], (None, None))[1],
        }
        for job, failure in failed
    ]
    writing.insert_named(quarantine, rows)


def resolve(writing: Writing, job_ids: Collection[int], resolution: str) -> None:
    """Close the entries of these jobs. Closed entries are no longer listed."""
    writing.execute(
        update(quarantine)
        .where(among(writing, quarantine.c.job_id, job_ids), quarantine.c.resolved_at.is_(None))
        .values(resolved_at=writing.now, resolution=resolution)
    )
