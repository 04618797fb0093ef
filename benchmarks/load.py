"""`python -m benchmarks.load [--quick]`: four sources of unequal size, 100,000 items in all, synced at the same time.

Uses the real server and worker. Prints a line every ten seconds: the items of each source in the library, items per second,
the memory of all processes and the size of the ledger. Finally prints a table and JSON, and writes build/load.json: when each
source was finished, how the fair queue shared its seconds (see benchmarks/fairness.py), and the peak memory of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fairness import judge
from benchmarks.measure import hardware, tree_mb
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty, started
from catchment.ledger import Ledger
from catchment.settings import Home
from console import session
from deployments.actions.sources import NewSource, add
from deployments.runs.runs import start_sync, wait

SIZES, QUICK = (80_000, 15_000, 4_000, 1_000), (10_000, 5_000, 2_500, 1_250)
_ALTERED = Path(__file__).parents[1] / "tests" / "altered"
_LOOK_SECONDS = 1.0
_LINE_SECONDS = 10.0
_MICROS = 1_000_000


def main() -> None:
    """Measure once, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="10 000, 5 000, 2 500 and 1 250 items")
    parser.add_argument("--sizes", type=int, nargs="+", help="items of each source, in place of the four")
    asked = parser.parse_args()
    sizes = asked.sizes or (QUICK if asked.quick else SIZES)
    with empty("load") as place:
        figures = measure(place, sizes)
    report = {"hardware": hardware(), **figures}
    (BUILD / "load.json").write_text(json.dumps(report, indent=2) + "\n")
    _print(report)


def measure(place: Path, sizes: Sequence[int]) -> dict[str, Any]:
    """Sync sources of these sizes at the same time, the largest requested first. `place` is an empty folder."""
    names = [f"notes-{number}" for number, _ in enumerate(sizes, 1)]
    home = Home(place / "home").make()
    steps = place / "steps"
    os.environ.update(CATCHMENT_HOME=str(home.path), PYTHONPATH=str(_ALTERED), RECORDED_STEPS=str(steps))
    for name, size in zip(names, sizes, strict=True):
        generate(place / name, size)
        add(session.desk(), NewSource("obsidian", str(place / name), name), "benchmark")
    with started(home) as server:
        with _Watcher(home, server.pid, names) as watcher:
            begun = time.time()
            runs = [start_sync(server, "obsidian", name) for name in names]
            ends = [wait(server, run) for run in runs]
        for end in ends:
            if end.state_type != "COMPLETED":
                raise SystemExit(f"the run {end.name} ended {end.state_name}: {end.message}")
    finished, syncs = _progress(home), _syncs(home, names)
    sources = [
        {
            "items": size,
            "in_the_library": finished[name][0],
            "began": syncs[name][0] - begun,
            "done": finished[name][1] - begun,
            "syncs": len(syncs[name]),
        }
        for name, size in zip(names, sizes, strict=True)
    ]
    return {"sources": sources, **asdict(judge(steps)), "peak_mb": watcher.peak_mb}


class _Watcher(threading.Thread):
    """Samples progress and the memory of all processes every second, and prints a line every ten seconds."""

    def __init__(self, home: Home, pid: int, names: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self._home = home
        self._pid = pid
        self._names = names
        self._begun = self._before = time.time()
        self._had = 0
        self._done = threading.Event()
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            self.peak_mb = max(self.peak_mb, tree_mb(self._pid))
            if time.time() - self._before >= _LINE_SECONDS:
                self._say()

    def _say(self) -> None:
        now, progress = time.time(), _progress(self._home)
        done = [progress[name][0] for name in self._names if name in progress]
        pace = (sum(done) - self._had) / (now - self._before)
        megabytes = sum(file.stat().st_size for file in self._home.path.glob("ledger.db*")) / 1e6
        print(
            f"{now - self._begun:6.0f} s  {' '.join(f'{count:,}' for count in done)}  {pace:.0f} a second  "
            f"{tree_mb(self._pid):.0f} MB memory  {megabytes:.0f} MB ledger",
            flush=True,
        )
        self._before, self._had = now, sum(done)

    def __enter__(self) -> _Watcher:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self.join()


def _progress(home: Home) -> dict[str, tuple[int, float]]:
    """Number of items of each source in the library, and the time at which the last one reached it."""
    rows = """SELECT s.name, count(*), max(j.finished_at) FROM jobs j JOIN sources s ON s.id = j.source_id
        WHERE j.state = 'succeeded' GROUP BY 1"""
    with closing(sqlite3.connect(home.path / "ledger.db")) as database:
        return {name: (items, last / _MICROS) for name, items, last in database.execute(rows)}


def _syncs(home: Home, names: Sequence[str]) -> dict[str, list[float]]:
    """The start times of the syncs of each source."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        rows = ledger.syncs.recent(limit=10_000)
    return {name: sorted(row.began.timestamp() for row in rows if row.source == name) for name in names}


def _print(report: dict[str, Any]) -> None:
    print("{processor}, {cores} cores, {memory_gb} GB, {system}, Python {python}\n".format_map(report["hardware"]))
    print(f"{'items':>10}{'began s':>10}{'done s':>10}{'runs':>6}")
    for source in report["sources"]:
        print("{items:10,}{began:10.1f}{done:10.1f}{syncs:6}".format_map(source))
    shares = zip(report["worked"], report["due"], strict=True)
    print(f"\nseconds of the fair queue: {', '.join(f'{worked:.1f} of {due:.1f} due' for worked, due in shares)}")
    print(
        "Jain's index {jain:.3f}; longest step {longest_step:.2f} s; peak memory of everything {peak_mb:.0f} MB".format_map(
            report
        )
    )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
