"""`python -m benchmarks.load [--quick]`: four sources of unequal size, 100,000 items in all, synced at the same time.

Uses the real server and worker. Prints a line every ten seconds: the items of each source in the library, items per second,
Jain's index so far, the memory of all processes and the size of the ledger. Finally prints a table and JSON, and writes
build/load.json: when each source was finished, Jain's index (see benchmarks/fairness.py), and the peak memory of all processes.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fairness import Look, judge
from benchmarks.measure import hardware, tree_mb
from benchmarks.notes import generate
from benchmarks.system import BUILD, empty, started
from catchment.ledger import Ledger
from catchment.settings import Home
from console.sources.consent import agreement
from console.sources.source_lifecycle import Timing, commit, prepare
from deployments.runs.runs import start_sync, wait

SIZES, QUICK = (80_000, 15_000, 4_000, 1_000), (10_000, 5_000, 2_500, 1_250)
_LOOK_SECONDS = 1.0
_LOOKS_PER_LINE = 10
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
    os.environ["CATCHMENT_HOME"] = str(home.path)
    for name, size in zip(names, sizes, strict=True):
        generate(place / name, size)
        entry = prepare("obsidian", str(place / name), name, {}, Timing())
        commit(entry, agreement(entry, given=True))
    with started(home) as server:
        with _Watcher(home, server.pid, dict(zip(names, sizes, strict=True))) as watcher:
            begun = time.time()
            runs = [start_sync(server, "obsidian", name) for name in names]
            ends = [wait(server, run) for run in runs]
        for end in ends:
            if end.state_type != "COMPLETED":
                raise SystemExit(f"the run {end.name} ended {end.state_name}: {end.message}")
    finished, syncs = _finished(home, names), _syncs(home, names)
    sources = [
        {
            "items": size,
            "in_the_library": len(finished[name]),
            "began": syncs[name][0] - begun,
            "done": finished[name][-1] - begun,
            "syncs": len(syncs[name]),
        }
        for name, size in zip(names, sizes, strict=True)
    ]
    return {"sources": sources, **asdict(judge(watcher.looks)), "peak_mb": watcher.peak_mb}


class _Watcher(threading.Thread):
    """Samples progress and the memory of all processes every second, and prints a line every ten seconds."""

    def __init__(self, home: Home, pid: int, sizes: Mapping[str, int]) -> None:
        super().__init__(daemon=True)
        self._home = home
        self._pid = pid
        self._sizes = sizes
        self._begun = self._before = time.time()
        self._had = 0
        self._done = threading.Event()
        self.looks: list[Look] = []
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self._done.wait(_LOOK_SECONDS):
            done = dict(zip(self._sizes, _counts(self._home, list(self._sizes)), strict=True))
            active = frozenset(name for name, items in done.items() if 0 < items < self._sizes[name])
            self.looks.append(Look(done, active))
            self.peak_mb = max(self.peak_mb, tree_mb(self._pid))
            if len(self.looks) % _LOOKS_PER_LINE == 0:
                self._say(list(done.values()))

    def _say(self, done: Sequence[int]) -> None:
        now = time.time()
        pace = (sum(done) - self._had) / (now - self._before)
        megabytes = sum(file.stat().st_size for file in self._home.path.glob("ledger.db*")) / 1e6
        fair = judge(self.looks).jain
        print(
            f"{now - self._begun:6.0f} s  {' '.join(f'{count:,}' for count in done)}  {pace:.0f} a second  Jain {fair:.3f}  "
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


def _counts(home: Home, names: Sequence[str]) -> list[int]:
    """Number of items of each source in the library."""
    counts = "SELECT s.name, count(*) FROM jobs j JOIN sources s ON s.id = j.source_id WHERE j.state = 'succeeded' GROUP BY 1"
    with closing(sqlite3.connect(home.path / "ledger.db")) as database:
        found = dict(database.execute(counts))
    return [found.get(name, 0) for name in names]


def _finished(home: Home, names: Sequence[str]) -> dict[str, list[float]]:
    """The times at which the items of each source reached the library."""
    with closing(Ledger.inspect(home.database_url)) as ledger:
        sources = {source.name: source for source in ledger.sources.all()}
    times = "SELECT finished_at FROM jobs WHERE source_id = ? AND state = 'succeeded' ORDER BY finished_at"
    with closing(sqlite3.connect(home.path / "ledger.db")) as database:
        return {name: [moment / _MICROS for (moment,) in database.execute(times, [sources[name].id])] for name in names}


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
    print(
        "\nJain's index {jain:.3f} over what each source had of what it was due; the least had {least:.0%}\n"
        "peak memory of everything {peak_mb:.0f} MB".format_map(report)
    )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
