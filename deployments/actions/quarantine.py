"""Retry, discard and annotate quarantined items: chosen ones, or all that match a filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from catchment.errors import BadInput, NotFound, Reason, Refused
from catchment.ledger import Ledger
from deployments.actions.desk import Desk

MISSING = "missing at the source; see `catchment quarantine list` and `catchment deletions list`"
_TOLERANCE = 10
"""The number of matching items may differ by a tenth from the number that the operator saw."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Quarantined items: the named jobs, or, without any, all entries of the source, cause and cluster.

    `expected`: the number of matching entries that the operator saw. If it has changed by more than a tenth, the action is
    refused.
    """

    jobs: Sequence[int] = ()
    source: str | None = None
    cause: Reason | None = None
    cluster: str | None = None
    expected: int | None = None

    def chosen(self, ledger: Ledger) -> list[int]:
        """Return the jobs. Raises NotFound for an unknown source, Refused for another number than expected, BadInput."""
        if self.jobs:
            if self.source or self.cause or self.cluster:
                raise BadInput("jobs: name jobs or a filter, not both")
            return sorted(set(self.jobs))
        if self.source:
            ledger.sources.get(self.source)
        matches = ledger.quarantine.matching(self.source, self.cause, self.cluster)
        if self.expected is not None and abs(len(matches) - self.expected) * _TOLERANCE > self.expected:
            problem = f"{len(matches)} items match now instead of {self.expected}"
            raise Refused(f"quarantine: {problem}; nothing was changed, look again and repeat")
        return matches


def retry(desk: Desk, selection: Selection, actor: str, reason: str = "") -> tuple[int, int]:
    """Queue quarantined items again, to be processed by the next sync of their source.

    Return the number of items, and the number of items that cannot be retried.

    Raises NotFound for an unknown source, or if none of the jobs can be retried; Refused by `Selection`.
    """
    with desk.writing() as ledger:
        job_numbers = selection.chosen(ledger)
        number = ledger.quarantine.retry(job_numbers, actor, reason or None)
    if selection.jobs and not number:
        raise NotFound(f"JOB: none is in quarantine, or they are {MISSING}")
    return number, len(job_numbers) - number


def discard(desk: Desk, selection: Selection, actor: str, reason: str = "") -> int:
    """Discard quarantined items until they change; their documents stay. Return their number.

    Raises NotFound or IllegalTransition, without any change, if a job is not in quarantine; Refused by `Selection`.
    """
    with desk.writing() as ledger:
        return ledger.quarantine.discard(selection.chosen(ledger), actor, reason)


def note(desk: Desk, selection: Selection, text: str, actor: str) -> int:
    """Add a note to quarantined items. Return their number. Raises NotFound, Refused or BadInput."""
    if not text.strip():
        raise BadInput("note: empty; write a text")
    with desk.writing() as ledger:
        return ledger.quarantine.note(selection.chosen(ledger), text, actor)


def purge(desk: Desk, older_than: timedelta, actor: str, reason: str = "purged") -> int:
    """Discard entries whose last failure is older than this, and forget closed ones. Return their number."""
    with desk.writing() as ledger:
        return ledger.quarantine.purge(older_than, actor, reason)
