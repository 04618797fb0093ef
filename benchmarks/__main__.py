"""`python -m benchmarks [--quick]`: run every comparison, print a table, and write build/bench.json.

The table also shows the change since the last stored results from the same hardware (`python -m benchmarks.kept`).
"""

from __future__ import annotations

import argparse
import json

from benchmarks.comparison_table import show
from benchmarks.comparisons import comparisons
from benchmarks.kept import RESULTS, last
from benchmarks.measure import hardware, in_turn
from benchmarks.system import BUILD, empty


def main() -> None:
    """Run the comparisons. The cases of each are measured in turn, the baseline first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="2 000 notes and medians of three, instead of 10 000 and five"
    )
    quick = parser.parse_args().quick
    machine = hardware()
    print("{processor}, {cores} cores, {memory_gb} GB, {system}, Python {python}\n".format_map(machine))
    kept = last(machine, RESULTS)
    report = []
    with empty("bench") as place:
        for comparison in comparisons(place, notes=2_000 if quick else 10_000):
            results = in_turn(comparison.cases, comparison.rounds or (3 if quick else 5))
            show(comparison.title, results, kept)
            report.append({"comparison": comparison.title, "results": [result.as_json() for result in results]})
    (BUILD / "bench.json").write_text(json.dumps({"hardware": machine, "comparisons": report}, indent=2) + "\n")


if __name__ == "__main__":
    main()
