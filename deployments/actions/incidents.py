"""Acknowledge an incident."""

from __future__ import annotations

from catchment.ledger import Incident
from deployments.actions.desk import Desk


def acknowledge(desk: Desk, number: int, actor: str, reason: str = "") -> Incident:
    """Record that a person knows of an incident, with a note. It stays open until its cause is solved. Raises NotFound."""
    with desk.writing() as ledger:
        return ledger.incidents.acknowledge(number, actor, reason)
