"""`python -m benchmarks.kept`: store the results of build/ in the repository; and compare new results with stored ones.

One file for each benchmark and hardware class, because results from different hardware cannot be compared.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.system import BUILD

RESULTS = Path(__file__).with_name("results")
_NAMES = ("bench", "latency", "million", "load", "presets")
_TOO_LONG = frozenset({"lines", "saves", "parts"})

Kept = Mapping[tuple[str, str], Mapping[str, float]]
"""Stored figures, by comparison and case name."""


def main() -> None:
    """Store the results of every benchmark in build/. Raises SystemExit if there are none."""
    found = [file for name in _NAMES if (file := BUILD / f"{name}.json").exists()]
    if not found:
        sys.exit("build/ has no results; run `make bench` first")
    for file in found:
        print(keep(file, RESULTS))


def keep(file: Path, results: Path) -> Path:
    """Store the figures of a run, without its long lists, under the date of the measurement. Returns the path."""
    report = json.loads(file.read_text(encoding="utf-8"))
    kept = {key: value for key, value in report.items() if key not in _TOO_LONG}
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date()
    target = results / f"{file.stem}-{hardware_class(report['hardware'])}-{day}.json"
    results.mkdir(exist_ok=True)
    target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return target


def hardware_class(machine: Mapping[str, Any]) -> str:
    """The class of hardware with comparable figures: processor, cores and Python version."""
    python = ".".join(str(machine["python"]).split(".")[:2])
    name = f"{machine['processor']} {machine['cores']} cores python {python}"
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def last(machine: Mapping[str, Any], results: Path) -> Kept:
    """Return the comparisons stored last for this hardware class; empty if there are none."""
    # The file name ends with the date.
    files = sorted(results.glob(f"bench-{hardware_class(machine)}-*.json"))
    if not files:
        return {}
    report = json.loads(files[-1].read_text(encoding="utf-8"))
    return {(one["comparison"], result["name"]): result for one in report["comparisons"] for result in one["results"]}


def against(result: Result, kept: Mapping[str, float] | None) -> str:
    """The ratio of the time to the stored one; with `~` if the ranges overlap, so that the difference may be chance."""
    if kept is None:
        return "new"
    overlap = result.fastest <= kept["slowest"] and kept["fastest"] <= result.slowest
    return f"{result.work / kept['work']:.2f}{'~' if overlap else ' '}"


def differences(title: str, results: Sequence[Result], kept: Kept) -> list[str]:
    """`against` for each result of a comparison; empty if no figures are stored."""
    return [against(result, kept.get((title, result.name))) for result in results] if kept else []


if __name__ == "__main__":
    main()
