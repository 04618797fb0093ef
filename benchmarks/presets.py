"""`python -m benchmarks.presets [--quick]`: the effect of the number of parsers and the batch size, in all combinations.

For each combination: notes per second of a first sync, CPU seconds and peak memory of all its processes, and the duration of a
sync of one changed note in a small source at the same time. Prints a table for docs/measurements.md, and writes
build/presets.json.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine import sync
from benchmarks.measure import Case, hardware, once
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty
from catchment.settings import Home

_PARSERS, _BATCHES = (1, 2, 4, 8), (50, 250, 1_000)
_REST = 0.3


@dataclass(frozen=True)
class Cell:
    """Medians over the rounds; memory is measured in a separate round."""

    parsers: int
    batch: int
    notes_a_second: float
    slowest: float
    fastest: float
    cpu: float
    peak_mb: float
    save_seconds: float


def main() -> None:
    """Measure every combination in turn in each round."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.presets", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="500 notes and one round, instead of 4 000 and three")
    quick = parser.parse_args().quick
    with empty("presets") as place:
        cells = measure(place, 500 if quick else 4_000, 1 if quick else 3)
    report = {"hardware": hardware(), "cells": [asdict(cell) for cell in cells]}
    (BUILD / "presets.json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(cells))


def measure(place: Path, notes: int, rounds: int) -> list[Cell]:
    """Measure every combination once in each round, and memory in one more."""
    generate(place / "vault", notes)
    generate(place / "small", 5)
    pairs = [(parsers, batch) for batch in _BATCHES for parsers in _PARSERS]
    alone: dict[tuple[int, int], list[tuple[float, float]]] = {pair: [] for pair in pairs}
    beside: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
    memory = {pair: once(_case(place, *pair), look_at_memory=True).peak_mb for pair in pairs}
    for _ in range(rounds):
        for pair in pairs:
            time.sleep(_REST)
            alone[pair].append(_ingest(place, *pair))
            beside[pair] += _saves_beside(place, *pair)
    return [_cell(pair, notes, alone[pair], memory[pair], beside[pair]) for pair in pairs]


def table(cells: Sequence[Cell]) -> str:
    """Return the cells as a Markdown table."""
    head = f"| parsers | batch | notes a second | range | CPU s | peak MB | a save beside it, s |\n{'|---:' * 7}|"
    rows = (
        f"| {c.parsers} | {c.batch:,} | {c.notes_a_second:.0f} | {c.slowest:.0f}–{c.fastest:.0f} | {c.cpu:.1f} "
        f"| {c.peak_mb:.0f} | {c.save_seconds:.2f} |"
        for c in cells
    )
    return "\n".join((head, *rows))


def _cell(
    pair: tuple[int, int], notes: int, taken: Sequence[tuple[float, float]], memory: float, saves: Sequence[float]
) -> Cell:
    seconds = [work for work, _ in taken]
    cpu = statistics.median(used for _, used in taken)
    pace = (notes / statistics.median(seconds), notes / max(seconds), notes / min(seconds))
    return Cell(*pair, *pace, cpu, memory, statistics.median(saves))


def _case(place: Path, parsers: int, batch: int) -> Case:
    home = place / "home"
    shutil.rmtree(home, ignore_errors=True)
    command = [sys.executable, "-m", "benchmarks.presets", "ingest", *map(str, (place / "vault", home, parsers, batch))]
    return Case(f"{parsers} parsers, batches of {batch}", command)


def _ingest(place: Path, parsers: int, batch: int) -> tuple[float, float]:
    """Return the seconds of work and the CPU seconds of a first sync."""
    sample = once(_case(place, parsers, batch))
    return sample.work, sample.cpu


def _saves_beside(place: Path, parsers: int, batch: int) -> list[float]:
    """Return the durations of syncs of a small source with one changed note each, during the sync of the large source."""
    case = _case(place, parsers, batch)
    taken: list[float] = []
    with subprocess.Popen(case.command, stdout=subprocess.DEVNULL) as large:
        while large.poll() is None or not taken:
            note = next((place / "small").rglob("*.md"))
            note.write_text(f"{note.read_text(encoding='utf-8')}\nOne more line.\n", encoding="utf-8")
            taken.append(float(sync("obsidian", place / "small", Home(place / "home"), name="small")["seconds"]))
            time.sleep(_REST)
    return taken


def _print_ingest(vault: str, home: str, parsers: str, batch: str) -> None:
    figures: dict[str, Any] = sync("obsidian", Path(vault), Home(Path(home)), parsers=int(parsers), batch=int(batch))
    print(json.dumps(figures))


if __name__ == "__main__":
    if sys.argv[1:2] == ["ingest"]:
        _print_ingest(*sys.argv[2:])
    else:
        main()
