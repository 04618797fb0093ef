"""The pages of Catchment in the Prefect UI: `python -m deployments.health.page` runs the checks once, and publishes the result.

These are artifacts without a run: the health, the library, and the quarantine of each source, which syncs publish, too. The
health is also in `run/health.json`, which can be read while the server is down.

Exits with 1 if a check fails, or the result could not be published.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import partial

import sinks
from catchment.errors import CatchmentError, LedgerError, NotFound
from catchment.ledger import Ledger
from catchment.runtime.child_process import become_child
from catchment.runtime.home import Home
from catchment.sync import supply
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, worst
from catchment.views.health import HealthReport
from deployments.health.checks import PROBE_SECONDS, examine, within
from deployments.server.client import api, everything, read_blocks_of
from deployments.server.running import Running, running
from tasks.artifacts import (
    DONE,
    ENDED_EARLY,
    NOTHING,
    SHOWN,
    MarkdownText,
    artifact_key,
    as_text,
    library,
    quarantine,
    table,
)

_WORST_FIRST = (FAIL, WARN, OK)


def main() -> int:
    """Run and publish the checks. Returns 0 if all pass."""
    become_child("health")
    home = Home.default()
    _look_at_sinks(home)
    findings = examine(home)
    HealthReport.of(findings, datetime.now(UTC)).write(home)
    try:
        if state := running(home):
            publish(home, state, findings)
    except CatchmentError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0 if worst(findings) is OK else 1


def _look_at_sinks(home: Home) -> None:
    """Notice idle sinks that are away or were put back from a copy. Takes up to ten seconds."""
    if state := running(home):
        read_blocks_of(state)
    names = Ledger.ask(home, lambda ledger: [sink.name for sink in ledger.outbox.all() if sink.is_idle], list[str]())
    within(PROBE_SECONDS, {name: partial(_look_at, home, name) for name in names})


def _look_at(home: Home, name: str) -> None:
    # It may be removed meanwhile, and the findings report a ledger that cannot be written.
    with suppress(NotFound, LedgerError), closing(Ledger.inspect(home)) as ledger:
        supply.look(home, ledger, name, sinks.opened)


def publish(home: Home, state: Running, findings: Sequence[Condition]) -> None:
    """Bring the artifacts up to date, also the progress of killed syncs. Replaces the latest versions. Raises TryAgain."""
    artifacts = {"health": of_health(findings, datetime.now(UTC))}
    over: dict[str, str] = {}
    # The findings report a ledger that cannot be read.
    with suppress(CatchmentError), closing(Ledger.inspect(home)) as ledger:
        artifacts["library"] = library(ledger, home)
        for source in ledger.sources.all():
            page = ledger.quarantine.page(source.name, limit=SHOWN)
            artifacts[artifact_key(source.name, "quarantine")] = quarantine(home, source.name, page)
            if (last := ledger.syncs.last(source.id)) is None or last.outcome is not None:
                over[artifact_key(source.name, "progress")] = f"{source.name}: {ENDED_EARLY}"
    with api(state) as client:
        query = {"artifacts": {"key": {"any_": [*artifacts, *over]}}}
        present = {row["key"]: row for row in everything(client, "artifacts/latest", query)}
        for key, text in artifacts.items():
            if (row := present.get(key)) is None:
                if text.data != NOTHING:
                    body = {"key": key, "type": "markdown", **text._asdict()}
                    client.post("/artifacts/", json=body).raise_for_status()
            elif (row["data"], row["description"]) != text:
                client.patch(f"/artifacts/{row['latest_id']}", json=text._asdict()).raise_for_status()
        for key, description in over.items():
            if (row := present.get(key)) and row["data"] != DONE and row["description"] != description:
                client.patch(f"/artifacts/{row['latest_id']}", json={"description": description}).raise_for_status()


def of_health(findings: Sequence[Condition], now: datetime) -> MarkdownText:
    """Return the findings as a table, worst first, and when they were made."""
    ordered = sorted(findings, key=lambda condition: _WORST_FIRST.index(condition.verdict))
    rows = [
        [as_text(cell) for cell in (condition.probe, condition.verdict, condition.message, condition.remedy)]
        for condition in ordered
    ]
    text = table(("probe", "verdict", "finding", "remedy"), rows)
    numbers = Counter(condition.verdict for condition in findings)
    counts = ", ".join(f"{numbers[verdict]} {verdict}" for verdict in _WORST_FIRST if numbers[verdict])
    again = "Rechecked every 5 minutes (every minute while something fails)."
    return MarkdownText(f"{text}\n\n{again}", f"Health: {counts}; last checked {now:%Y-%m-%d %H:%M:%S} UTC")


if __name__ == "__main__":
    sys.exit(main())
