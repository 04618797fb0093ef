"""`catchment health`: the state of every component."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from console import arguments, render, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catchment.telemetry.incidents import Condition


def health(as_json: arguments.Json = False) -> int:
    """Check every component.

    Checks the disk, ledger, server, scheduler, worker, web process, watcher and every source. Exits with 1 on failures,
    not on warnings.

    Example: catchment health --json
    """
    from deployments.health.checks import examine

    return show(examine(session.home()), as_json)


def show(conditions: Sequence[Condition], as_json: bool) -> int:
    """Print conditions with their remedies. Return the exit code."""
    from catchment.views.health import HealthReport

    report = HealthReport.of(conditions, datetime.now(UTC))
    if as_json:
        render.show_json(report)
    else:
        rows = [
            (
                condition.probe,
                condition.verdict,
                condition.message + (f" → {condition.remedy}" if condition.remedy else ""),
            )
            for condition in conditions
        ]
        render.show_table(("PROBE", "VERDICT", "FINDING"), rows)
    return int(report.verdict == "fail")
