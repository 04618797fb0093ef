"""`catchment health`: the state of every component."""

from __future__ import annotations

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


def show(found: Sequence[Condition], as_json: bool) -> int:
    """Print conditions with their remedies. Return the exit code."""
    from catchment.telemetry.incidents import worst

    verdict = worst(found)
    if as_json:
        findings = [render.picked(one, "probe", "verdict", "remedy") | {"said": one.message} for one in found]
        render.show_json({"verdict": verdict, "findings": findings})
    else:
        rows = [(one.probe, one.verdict, one.message + (f" → {one.remedy}" if one.remedy else "")) for one in found]
        render.show_table(("PROBE", "VERDICT", "FINDING"), rows, states={"VERDICT"})
    return int(verdict == "fail")
