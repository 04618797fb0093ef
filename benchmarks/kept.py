"""`python -m benchmarks.kept`: keep the results in build/ in the repository; and how new ones differ from the last kept ones.

One file for each benchmark that was run, with the hardware in it and in its name: figures of another machine say nothing.
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
"""What was measured, by its comparison and its name."""


def main() -> None:
    """Keep what build/ has of every benchmark. Raises SystemExit where it has nothing."""
    found = [file for name in _NAMES if (file := BUILD / f"{name}.json").exists()]
    if not found:
        sys.exit("build/ has no results; run `make bench` first")
    for file in found:
        print(keep(file, RESULTS))


def keep(file: Path, results: Path) -> Path:
    """Write the figures of a run, without its long lists, under the day when they were measured; where to."""
    report = json.loads(file.read_text(encoding="utf-8"))
    kept = {key: value for key, value in report.items() if key not in _TOO_LONG}
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date()
    target = results / f"{file.stem}-{hardware_class(report['hardware'])}-{day}.json"
    results.mkdir(exist_ok=True)
    target.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return target


def hardware_class(machine: Mapping[str, Any]) -> str:
    """Machines of which the figures may be compared: processor, cores and Python."""
    python = ".".join(str(machine["python"]).split(".")[:2])
    said = f"{machine['processor']} {machine['cores']} cores python {python}"
    return re.sub(r"[^a-z0-9.]+", "-", said.lower()).strip("-")


def last(machine: Mapping[str, Any], results: Path) -> Kept:
    """The comparisons that were kept last on such a machine; empty where none were."""
    # The day is the end of the name.
    files = sorted(results.glob(f"bench-{hardware_class(machine)}-*.json"))
    if not files:
        return {}
    report = json.loads(files[-1].read_text(encoding="utf-8"))
    return {(one["comparison"], result["name"]): result for one in report["comparisons"] for result in one["results"]}


def against(result: Result, kept: Mapping[str, float] | None) -> str:
    """How many times the time that it took when it was kept; `~` where the ranges of both overlap, so that it may be chance."""
    if kept is None:
        return "new"
    overlap = result.fastest <= kept["slowest"] and kept["fastest"] <= result.slowest
    return f"{result.work / kept['work']:.2f}{'~' if overlap else ' '}"


def differences(title: str, results: Sequence[Result], kept: Kept) -> list[str]:
    """`against` for each result of a comparison; empty where nothing was kept at all."""
    return [against(result, kept.get((title, result.name))) for result in results] if kept else []


if __name__ == "__main__":
    main()
