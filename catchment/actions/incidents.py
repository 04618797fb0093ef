"""Acknowledge an incident."""

from __future__ import annotations

from catchment.actions.desk import Desk, E
from catchment.ledger import Incident


def acknowledge(desk: Desk[E], number: int, actor: str, reason: str = "") -> Incident:
    """Record that a person knows of an incident, with a note. It stays open until its cause is gone. Raises NotFound."""
    with desk.writing() as ledger:
        return ledger.incidents.acknowledge(number, actor, reason)
