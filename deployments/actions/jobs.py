"""Cancel and prioritize a job."""

from __future__ import annotations

from deployments.actions.desk import Desk


def cancel(desk: Desk, job: int, actor: str, reason: str = "") -> None:
    """Cancel an unfinished job. Its item is processed again only when it changes. Raises NotFound or IllegalTransition."""
    with desk.writing() as ledger:
        ledger.queue.cancel(job, actor, reason)


def prioritize(desk: Desk, job: int, actor: str, reason: str = "") -> None:
    """Let a waiting job be the next of its source, without a pause before a retry. Raises NotFound or IllegalTransition."""
    with desk.writing() as ledger:
        ledger.queue.prioritize(job, actor, reason)
