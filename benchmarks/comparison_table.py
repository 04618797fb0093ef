"""The table of a comparison: each case relative to the baseline, and to the stored results."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.kept import Kept, differences
from benchmarks.measure import Result


def show(title: str, results: Sequence[Result], kept: Kept | None = None) -> None:
    """Print the results of a comparison. `× kept`: work relative to the stored result, with `~` if that may be chance."""
    yardstick = results[0]
    beside = differences(title, results, kept or {}) or [""] * len(results)
    print(title)
    print(f"  {'':34}{'work s':>9}{'range':>17}{'× first':>9}{'cpu s':>8}{'peak MB':>9}{'wall s':>9}{'× kept':>9}")
    for result, difference in zip(results, beside, strict=True):
        span = f"{result.fastest:.3f}–{result.slowest:.3f}"
        print(
            f"  {result.name:34}{result.work:9.3f}{span:>17}{result.work / yardstick.work:9.2f}"
            f"{result.cpu:8.2f}{result.peak_mb:9.0f}{result.wall:9.2f}{difference:>9}"
        )
        extra = {key: value for key, value in result.said.items() if key != "seconds"}
        if extra:
            print(f"    {', '.join(f'{key} {value:g}' for key, value in extra.items())}")
    print()
