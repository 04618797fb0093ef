"""`python -m benchmarks.telemetry [--quick]`: the cost of the metrics. Writes build/telemetry.json.

A first ingest with the counting and without it, and, with 100,000 jobs in the queue and the figures of a year: one scrape of
`/metrics`, the gauges, the sample of each minute, and the merging of old figures, in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.comparison_table import show
from benchmarks.engine import sync
from benchmarks.measure import Case, hardware, in_turn
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty
from catchment.ledger import Ledger
from catchment.ledger.db.database import Writing
from catchment.model import Item, Priority, Upsert
from catchment.runtime import process
from catchment.settings import Home
from catchment.telemetry.exposition import prometheus
from catchment.telemetry.tally import Tally
from catchment.views.telemetry.gauges import current, gauges, sample

_SOURCES, _JOBS, _AT_ONCE = 10, 100_000, 5_000
_SPANS = ((60, 180), (300, 540), (3_600, 672), (86_400, 370))
"""Length in seconds and number of the spans that the ledger keeps."""
_BUSY_SERIES = 20
"""Series of a source with a figure in each eighth span: as of a source that is synced every half hour."""
_ROUNDS = 20


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.telemetry", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 notes and medians of three")
    quick = parser.parse_args().quick
    with empty("telemetry") as place:
        vault, homes = place / "vault", [place / name for name in ("without", "with")]
        generate(vault, 2_000 if quick else 10_000)
        command = [sys.executable, "-m", "benchmarks.telemetry", "ingest"]
        cases = [
            Case(f"{home.name} counting", [*command, home.name, str(vault), str(home)], prepare=_remover(home))
            for home in homes
        ]
        results = in_turn(cases, 3 if quick else 7)
        show("First ingest, the engine alone", results)
        costs = _costs(Home(place / "full").make())
    report = {"hardware": hardware(), "ingest": [result.as_json() for result in results], "milliseconds": costs}
    (BUILD / "telemetry.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(costs))


def ingest(counting: str, vault: Path, home: Path) -> dict[str, Any]:
    """Ingest a vault. "without": without any counting."""
    if counting == "without":
        for owner, method in ((Tally, "add"), (Writing, "write_measures")):
            setattr(owner, method, lambda *_arguments, **_labels: None)
    return sync("obsidian", vault, Home(home))


def _costs(home: Home) -> dict[str, float]:
    with closing(Ledger.open(home)) as ledger:
        rows = _fill(ledger)
        return {
            "jobs": _JOBS,
            "rows": rows,
            "scrape": _median(lambda: prometheus(current(ledger, home))),
            "totals": _median(ledger.measures.totals),
            "gauges": _median(lambda: gauges(ledger, home)),
            "sample": _median(lambda: sample(ledger, home)),
            "roll": _median(ledger.measures.roll),
        }


def _median(step: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        step()
        times.append((time.perf_counter() - begun) * 1_000)
    return round(statistics.median(times), 2)


def _fill(ledger: Ledger) -> int:
    """Return the number of rows with figures."""
    sources = [ledger.sources.put(f"notes-{number}", "obsidian", Priority.NORMAL) for number in range(_SOURCES)]
    sync = ledger.syncs.begin(
        sources[0].id, run=None, owner=process.identity(), code_version="bench", alive=process.alive
    )
    for start in range(0, _JOBS, _AT_ONCE):
        items = (Item(f"{n // 100}/{n}.md", str(n // 100), "1", size=2_000) for n in range(start, start + _AT_ONCE))
        ledger.intake.record(sync.id, [Upsert(item) for item in items], {})
    now, rows, until = int(ledger.now().timestamp()), [], 0
    for length, count in _SPANS:
        for span in range(count):
            at = (now - until - span * length) // length * length
            for source in sources:
                if not (span + source.id) % 8:
                    rows += [
                        ("catchment.job.duration", f"stage={series}", source.id, at, length, 9, 1.5, *[1] * 14)
                        for series in range(_BUSY_SERIES)
                    ]
                rows += [
                    ("catchment.queue.jobs", f"state={state}", source.id, at, length, 1, 3.0, *[0] * 14)
                    for state in ("pending", "running", "retrying")
                ]
        until += length * count
    with ledger._store.write() as writing:
        for start in range(0, len(rows), _AT_ONCE):
            marks = ", ".join("?" * len(rows[0]))
            statement = f"INSERT OR IGNORE INTO measures VALUES ({marks})"
            writing.connection.exec_driver_sql(statement, rows[start : start + _AT_ONCE])
    return len(rows)


def _remover(home: Path) -> Callable[[], None]:
    def remove() -> None:
        for file in home.glob("*.db*"):
            file.unlink()

    return remove


if __name__ == "__main__":
    if sys.argv[1:2] == ["ingest"]:
        print(json.dumps(ingest(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))))
    else:
        main()
