"""`python -m benchmarks [--quick]`: run every comparison, print a table, and write build/bench.json."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

from benchmarks.measure import Result, hardware, in_turn
from benchmarks.plan import Comparison, comparisons

_BUILD = Path("build")


def main() -> None:
    """Measure in turn, the yardstick first in every group."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="2 000 notes and medians of three, instead of 10 000 and five"
    )
    quick = parser.parse_args().quick
    place = (_BUILD / "bench").absolute()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    machine = hardware()
    print("{processor}, {cores} cores, {memory_gb} GB, {system}, Python {python}\n".format_map(machine))
    report = []
    for comparison in comparisons(place, notes=2_000 if quick else 10_000):
        results = in_turn(comparison.cases, comparison.rounds or (3 if quick else 5))
        _print(comparison, results)
        report.append({"comparison": comparison.title, "results": [result.as_json() for result in results]})
    (_BUILD / "bench.json").write_text(json.dumps({"hardware": machine, "comparisons": report}, indent=2) + "\n")
    shutil.rmtree(place)


def _print(comparison: Comparison, results: list[Result]) -> None:
    yardstick = results[0]
    print(comparison.title)
    print(f"  {'':34}{'work s':>9}{'range':>17}{'× first':>9}{'cpu s':>8}{'peak MB':>9}{'wall s':>9}")
    for result in results:
        span = f"{result.fastest:.3f}–{result.slowest:.3f}"
        print(
            f"  {result.name:34}{result.work:9.3f}{span:>17}{result.work / yardstick.work:9.2f}"
            f"{result.cpu:8.2f}{result.peak_mb:9.0f}{result.wall:9.2f}"
        )
        extra = {key: value for key, value in result.said.items() if key != "seconds"}
        if extra:
            print(f"    {', '.join(f'{key} {value:g}' for key, value in extra.items())}")
    print()


if __name__ == "__main__":
    main()
