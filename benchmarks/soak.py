"""`python -m benchmarks.soak [--syncs 2000]`: real syncs of small changing sources, as fast as they go; what grows with them.

Three sources are synced side by side, each after a line was added to one of its notes. Ten times on the way it prints the
megabytes on the disk of Prefect's database, the ledger, the cache, the results and the logs, and the resident memory of each
process that stays. At the end: the rows in Prefect's tables, what a sync adds to each file, how many answers the server
failed at, and how many runs did not complete.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from benchmarks.notes import edit
from benchmarks.system import add_vault, by_role, empty, started, state_of
from catchment.settings import Home
from deployments.runs.runs import start_sync, wait
from deployments.server.app import FAILED

_SOURCES = ("one", "two", "three")
_NOTES = 30
_LOOKS = 10
_TABLES = ("flow_run", "flow_run_state", "task_run", "task_run_state", "log", "artifact", "events", "event_resources")


def main(syncs: int) -> None:
    """Start a system of its own, let it work, and print what it takes."""
    with empty("soak") as place, started(home := Home(place / "home")):
        for name in _SOURCES:
            add_vault(home, place / name, name, _NOTES, watch=False)
        begun, before = time.monotonic(), _look(home)
        _print(0, 0.0, before)
        failed = 0
        for look in range(1, _LOOKS + 1):
            failed += _work(home, syncs // _LOOKS)
            _print(look * (syncs // _LOOKS), time.monotonic() - begun, after := _look(home))
        done = syncs // _LOOKS * _LOOKS
        growth = {name: round((after[name] - before[name]) * 1_000 / done, 2) for name in before}
        report = {
            "syncs": done,
            "seconds": round(time.monotonic() - begun),
            "not_completed": failed,
            "answers_failed": _answers_failed(home),
            "kb_for_each_sync": growth,
            "rows": _rows(home),
        }
    print(json.dumps(report, indent=1))


def _work(home: Home, syncs: int) -> int:
    """So many syncs, of all sources side by side; how many did not complete."""
    left, lock = itertools.count(1), threading.Lock()

    def one(name: str) -> int:
        failed = 0
        while True:
            with lock:
                if next(left) > syncs:
                    return failed
            edit(home.path.with_name(name), 1, 1)
            state = state_of(home)
            failed += wait(state, start_sync(state, "obsidian", name)).state_type != "COMPLETED"

    with ThreadPoolExecutor(len(_SOURCES)) as pool:
        return sum(pool.map(one, _SOURCES))


def _look(home: Home) -> dict[str, float]:
    """Megabytes: of files with their logs of changes, and of the processes."""
    sizes = {
        "prefect": _size(home.prefect, "prefect.db*"),
        "ledger": _size(home.path, "ledger.db*"),
        "cache": _size(home.path, "cache.db*"),
        "results": _size(home.prefect / "storage", "**/*"),
        "logs": _size(home.logs, "*"),
    }
    for process, role in by_role(state_of(home)).items():
        if role != "run":
            sizes[role] = process.memory_info().rss / 1e6
    return sizes


def _size(folder: Path, pattern: str) -> float:
    return sum(path.stat().st_size for path in folder.glob(pattern) if path.is_file()) / 1e6


def _rows(home: Home) -> dict[str, int]:
    with closing(sqlite3.connect(home.prefect / "prefect.db")) as database:
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _TABLES}


def _answers_failed(home: Home) -> int:
    logs = [path.read_text(encoding="utf-8", errors="replace") for path in home.logs.glob("server.log*")]
    return sum(log.count(FAILED) for log in logs)


def _print(syncs: int, seconds: float, figures: dict[str, float]) -> None:
    if syncs == 0:
        print("".join(f"{name:>12}" for name in ("syncs", "s", *figures)))
    print(f"{syncs:12}{seconds:12.0f}" + "".join(f"{figure:12.1f}" for figure in figures.values()), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--syncs", type=int, default=2_000, help="how many in all (default: %(default)s)")
    main(parser.parse_args().syncs)
