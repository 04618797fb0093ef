"""Retry quarantined items. The other actions on them are methods of `Ledger.quarantine`, since they need no selection."""

from __future__ import annotations

from collections.abc import Sequence

from catchment.actions.desk import Desk, E
from catchment.errors import NotFound, Reason

MISSING = "missing at the source; see `catchment quarantine list` and `catchment deletions list`"


def retry(
    desk: Desk[E],
    actor: str,
    reason: str = "",
    *,
    jobs: Sequence[int] = (),
    source: str | None = None,
    cause: Reason | None = None,
    cluster: str | None = None,
) -> tuple[int, int]:
    """Queue quarantined items again, to be processed by the next sync of their source.

    Args:
        jobs: The jobs to retry; without any, all entries of the source, cause and cluster.

    Return the number of items, and of those that cannot be retried.

    Raises NotFound for an unknown source, or if none of the jobs can be retried.
    """
    with desk.writing() as ledger:
        if source:
            ledger.sources.get(source)
        chosen = jobs or [entry.job for entry in ledger.quarantine.list(source, cause, cluster)]
        number = ledger.quarantine.retry(chosen, actor, reason or None)
    if jobs and not number:
        raise NotFound(f"JOB: none is in quarantine, or they are {MISSING}")
    return number, len(set(chosen)) - number
