"""`python -m benchmarks.million [--quick | --items N]`: a very large number of small notes through the engine.

Prints a line every ten seconds: the notes in the library, notes per second, the p99 of the claims since the last line
(including their wait for writers), the memory of all processes and the size of the ledger. Then measures a sync without
changes, and claims without concurrent writers with the same number of pending jobs. Writes build/million.json. Needs 1.9 KB of
disk space per note.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.claims import measure as claims_alone
from benchmarks.generated import Generated, GeneratedSettings
from benchmarks.measure import hardware, tree_mb
from benchmarks.system import BUILD, empty
from catchment.settings import Home
from catchment.sync.source_sync import SourceSync, open_sync

ITEMS, QUICK = 1_000_000, 20_000
_BATCH = 1_000
_CLAIMED_ALONE = 50
_LINE_SECONDS = 10.0


def main() -> None:
    """Measure once, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.million", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} items")
    parser.add_argument("--items", type=int, default=ITEMS, help="how many (default: %(default)s)")
    asked = parser.parse_args()
    with empty("million") as place:
        report = {"hardware": hardware(), **measure(place, QUICK if asked.quick else asked.items)}
    (BUILD / "million.json").write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps({key: value for key, value in report.items() if key != "lines"}))


def measure(place: Path, items: int) -> dict[str, Any]:
    """Sync the notes to a ledger in an empty folder, then sync again without changes."""
    home = Home(place)
    print(f"{'s':>6}{'items':>11}{'a second':>10}{'claim p99 ms':>14}{'MB memory':>11}{'MB on disk':>12}", flush=True)
    with _opened(home, items) as sync, _Lines(sync, home) as lines:
        begun = time.perf_counter()
        sync.discover()
        listed = time.perf_counter() - begun
        with ThreadPoolExecutor(2) as two:
            list(two.map(_work, [sync, sync], [lines.claims, lines.claims]))
        seconds = time.perf_counter() - begun
        done = sync.finish("completed")["succeeded"]
    if done != items:
        raise SystemExit(f"{items - done} of {items} notes are not in the library")
    with _opened(home, items) as sync, _Lines(sync, home) as again:
        begun = time.perf_counter()
        found = sync.discover().listed
        unchanged = time.perf_counter() - begun
        sync.finish("completed")
    if found:
        raise SystemExit(f"{found} notes that did not change were taken for changed ones")
    memory = [line["memory_mb"] for line in lines.figures]
    return {
        "items": items,
        "seconds": seconds,
        "listing_seconds": listed,
        "items_a_second": items / (seconds - listed),
        "claims_with_their_wait_ms": percentiles([taken for _, taken in lines.claims]),
        "claims_alone_ms": claims_alone(place / "claims.db", items, _CLAIMED_ALONE),
        "memory_mb": {"first_quarter": max(memory[: len(memory) // 4 + 1]), "all": max(memory)},
        "disk_mb": lines.figures[-1]["disk_mb"],
        "unchanged": {"seconds": unchanged, "memory_mb": max(line["memory_mb"] for line in again.figures)},
        "lines": lines.figures,
    }


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return median, p99 and maximum; empty for no values."""
    if len(milliseconds) < 2:
        return {name: max(milliseconds, default=0.0) for name in ("p50", "p99", "max")}
    cuts = statistics.quantiles(milliseconds, n=100, method="inclusive")
    return {"p50": cuts[49], "p99": cuts[98], "max": max(milliseconds)}


@contextmanager
def _opened(home: Home, items: int) -> Iterator[SourceSync]:
    settings = GeneratedSettings(notes=items)
    connector = Generated(settings)
    with open_sync(home, connector, "notes", settings.policy(connector.policy), settings.priority) as sync:
        yield sync


def _work(sync: SourceSync, claims: list[tuple[float, float]]) -> None:
    """Process jobs until none is waiting. Appends the time and the milliseconds of each claim."""
    while True:
        begun = time.perf_counter()
        token = sync.claim(_BATCH)
        if token is None:
            return
        claims.append((begun, (time.perf_counter() - begun) * 1_000))
        sync.process(token)


class _Lines(threading.Thread):
    """Prints a progress line every ten seconds, and at the end."""

    def __init__(self, sync: SourceSync, home: Home) -> None:
        super().__init__(daemon=True)
        self._sync = sync
        self._home = home
        self._done = threading.Event()
        self._begun = self._before = time.perf_counter()
        self._had = 0
        self.claims: list[tuple[float, float]] = []
        self.figures: list[dict[str, float]] = []

    def run(self) -> None:
        while not self._done.wait(_LINE_SECONDS):
            self._say()

    def __enter__(self) -> _Lines:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        self.join()
        self._say()

    def _say(self) -> None:
        now, done = time.perf_counter(), self._sync.progress.succeeded
        line = {
            "seconds": now - self._begun,
            "items": done,
            "items_a_second": (done - self._had) / (now - self._before),
            "claim_p99_ms": percentiles([taken for at, taken in self.claims if at >= self._before])["p99"],
            "memory_mb": tree_mb(os.getpid()),
            "disk_mb": sum(file.stat().st_size for file in self._home.path.glob("*.db*")) / 1e6,
        }
        self._before, self._had = now, done
        self.figures.append(line)
        print(
            "{seconds:6.0f}{items:11,}{items_a_second:10.0f}{claim_p99_ms:14.1f}{memory_mb:11.0f}{disk_mb:12.0f}".format_map(
                line
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
