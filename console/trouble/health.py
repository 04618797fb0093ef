"""`catchment health`: the state of every component."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console import arguments, render, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from catchment.views.health import Finding


def health(as_json: arguments.Json = False) -> int:
    """Check every component.

    Checks the disk, ledger, server, scheduler, worker, web process, watcher and every source. Exits with 1 on failures,
    not on warnings.

    Example: catchment health --json
    """
    from deployments.health.checks import examine

    return show(examine(session.home()), as_json)


def show(findings: Sequence[Finding], as_json: bool) -> int:
    """Print findings with their remedies. Return the exit code."""
    from catchment.views.health import Verdict, worst

    verdict = worst(findings)
    if as_json:
        render.show_json({"verdict": verdict, "findings": [_plain(finding) for finding in findings]})
        return int(verdict is Verdict.FAIL)
    rows = [
        (finding.probe, finding.verdict.value, finding.message + (f" → {finding.remedy}" if finding.remedy else ""))
        for finding in findings
    ]
    render.show_table(("PROBE", "VERDICT", "FINDING"), rows, states={"VERDICT"})
    return int(verdict is Verdict.FAIL)


def _plain(finding: Finding) -> dict[str, Any]:
    return {
        "probe": finding.probe,
        "verdict": finding.verdict,
        "said": finding.message,
        "remedy": finding.remedy,
    }
