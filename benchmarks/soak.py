"""`python -m benchmarks.soak [--rounds N]`: run the long tests and two thousand syncs, in rounds of at most 20 minutes.

After each test and each block of syncs the tally is written to `.soak/tally.json`, and the next call continues after it.
The tests run first, with three times as many random faults as in an ordinary run. A test that the end of a round
interrupts is the first of the next round, and counts as unfinished when a whole round was not enough for it.

The syncs are of three small sources side by side, each after an edit of one note, in one home that is kept in `.soak`
until the end. The tally holds the megabytes on disk (Prefect's database, the ledger, the cache, the results, the logs)
and of each lasting process at the first and at the last look. The report adds the growth per thousand syncs, the rows in
Prefect's tables, the server's failed responses and the number of runs that did not complete.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil
import pytest

from benchmarks.notes import edit
from benchmarks.system import add_vault, by_role, started, state_of
from catchment.settings import Home
from deployments.runs.runs import start_sync, wait
from deployments.server.app import FAILED

FOLDER = Path(".soak").absolute()
_ROUND = 20 * 60
_TO_STOP = 60
"""Seconds at the end of a round in which an interrupted test stops its processes."""
_LEAST = 120
"""Seconds that a round must have left to start the system for syncs."""
_TESTS = ("-m", "faults or soak", "--times", "3", "--timeout", "0", "-p", "no:cacheprovider")
_SYNCS, _BLOCK = 2_000, 100
_SOURCES = ("one", "two", "three")
_NOTES = 30
_TABLES = ("flow_run", "flow_run_state", "task_run", "task_run_state", "log", "artifact", "events", "event_resources")


@dataclass
class Syncs:
    """The results of the syncs so far, and megabytes by file and process at the first and at the last look."""

    done: int = 0
    seconds: float = 0
    not_completed: int = 0
    first: dict[str, float] = field(default_factory=dict)
    last: dict[str, float] = field(default_factory=dict)


@dataclass
class Tally:
    """The state of a soak, kept in a file between rounds."""

    rounds: int = 0
    seconds: float = 0
    tests: dict[str, str] = field(default_factory=dict)
    """The outcome of each finished test, by its node ID."""
    tests_done: bool = False
    running: str = ""
    interrupted: str = ""
    """The test that the end of the last round interrupted."""
    syncs: Syncs = field(default_factory=Syncs)

    @classmethod
    def read(cls, folder: Path) -> Tally:
        """Return the tally of a folder; a new one when it has none."""
        file = folder / "tally.json"
        if not file.exists():
            return cls()
        kept = json.loads(file.read_text())
        return cls(**{**kept, "syncs": Syncs(**kept["syncs"])})

    def write(self, folder: Path) -> None:
        """Replace the tally of a folder."""
        folder.mkdir(exist_ok=True)
        new = folder / "tally.json.new"
        new.write_text(json.dumps(asdict(self), indent=1))
        new.replace(folder / "tally.json")

    @property
    def is_done(self) -> bool:
        return self.tests_done and self.syncs.done >= _SYNCS

    @property
    def failures(self) -> list[str]:
        """The tests that failed or did not finish within a round."""
        return [test for test, outcome in self.tests.items() if outcome not in ("passed", "skipped")]


def main(rounds: int | None, folder: Path = FOLDER) -> int:
    """Run `rounds` rounds, or all that remain, and print the tally after each. Returns 1 if a test or sync has failed."""
    tally = Tally.read(folder)
    while not tally.is_done and rounds != 0:
        rounds = None if rounds is None else rounds - 1
        tally = one_round(folder)
        print(report(tally), flush=True)
    if tally.is_done:
        print(json.dumps(asdict(tally.syncs), indent=1))
        print(f"done; to start again, remove {folder}")
    return 1 if tally.failures or tally.syncs.not_completed else 0


def one_round(folder: Path, seconds: float = _ROUND, tests: tuple[str, ...] = _TESTS) -> Tally:
    """Continue for one round: with the tests, then, if time is left, with the syncs."""
    before = time.monotonic()
    tally = Tally.read(folder)
    tally.rounds += 1
    tally.write(folder)
    if not tally.tests_done:
        run_tests(folder, before + seconds - _TO_STOP, tests)
    tally = Tally.read(folder)
    left = before + seconds - time.monotonic()
    if tally.tests_done and tally.syncs.done < _SYNCS and left > _LEAST:
        _run_syncs(tally, folder, before + seconds - _TO_STOP)
    tally.seconds += time.monotonic() - before
    tally.write(folder)
    return tally


def report(tally: Tally) -> str:
    """Return the tally in a few lines."""
    outcomes = ", ".join(f"{number} {outcome}" for outcome, number in sorted(Counter(tally.tests.values()).items()))
    state = "all tests" if tally.tests_done else "tests so far"
    lines = [f"round {tally.rounds}, {tally.seconds / 60:.0f} minutes; {state}: {outcomes or 'none'}"]
    lines += [f"  {tally.tests[test]}: {test}" for test in tally.failures]
    lines.append(f"syncs: {tally.syncs.done} of {_SYNCS}, {tally.syncs.not_completed} not completed")
    return "\n".join(lines)


def run_tests(folder: Path, until: float, arguments: tuple[str, ...]) -> None:
    """Run the remaining tests in a child process until a time of the monotonic clock."""
    tally = Tally.read(folder)
    process = multiprocessing.get_context("spawn").Process(target=_in_process, args=(folder, until, arguments))
    process.start()
    assert process.pid is not None
    process.join(until - time.monotonic())
    if process.is_alive():
        # Like Ctrl-C: the test is interrupted, and its fixtures stop their processes.
        os.kill(process.pid, signal.SIGINT)
        process.join(_TO_STOP)
    if process.is_alive():
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.join()
    known = len(tally.tests)
    tally = Tally.read(folder)
    if not tally.tests_done and not tally.running and len(tally.tests) == known:
        raise SystemExit("soak: pytest ended before the first test; its output above says why")
    if tally.running:
        # A second interruption means that the test was the first of a round, and had the whole round.
        if tally.running == tally.interrupted:
            tally.tests[tally.running] = "unfinished"
        tally.interrupted, tally.running = tally.running, ""
        tally.write(folder)


def _in_process(folder: Path, until: float, arguments: tuple[str, ...]) -> None:
    raise SystemExit(pytest.main(list(arguments), plugins=[_Recorder(folder, until)]))


class _Recorder:
    """A pytest plug-in that skips finished tests, writes each outcome to the tally, and stops at the end of the round."""

    def __init__(self, folder: Path, until: float) -> None:
        self._folder, self._until = folder, until
        self._tally = Tally.read(folder)
        self._outcome = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        left = [item for item in items if item.nodeid not in self._tally.tests]
        items[:] = sorted(left, key=lambda item: item.nodeid != self._tally.interrupted)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._outcome, self._tally.running = "passed", nodeid
        self._tally.write(self._folder)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._outcome != "failed" and report.outcome != "passed":
            self._outcome = report.outcome

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        self._tally.tests[item.nodeid], self._tally.running = self._outcome, ""
        self._tally.write(self._folder)
        if time.monotonic() >= self._until:
            item.session.shouldstop = "the round is over"
        return result

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)
        self._tally.tests_done = ended and not session.shouldstop
        self._tally.write(self._folder)


def _run_syncs(tally: Tally, folder: Path, until: float) -> None:
    """Start the system of the kept home and sync until a time of the monotonic clock, or until all syncs are done."""
    place, syncs = folder / "syncs", tally.syncs
    if not syncs.first:
        # A round that was killed while it added the sources leaves a home with some of them.
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(exist_ok=True)
    with started(home := Home(place / "home")):
        if not syncs.first:
            for name in _SOURCES:
                add_vault(home, place / name, name, _NOTES, watch=False)
            syncs.first = _look(home)
            tally.write(folder)
        while syncs.done < _SYNCS and time.monotonic() < until:
            before = time.monotonic()
            number = min(_BLOCK, _SYNCS - syncs.done)
            begun, failed = _work(home, number, until)
            syncs.done += begun
            syncs.not_completed += failed
            syncs.seconds += time.monotonic() - before
            syncs.last = _look(home)
            tally.write(folder)
    if syncs.done >= _SYNCS:
        growth = {
            name: round((size - syncs.first[name]) * 1_000 / syncs.done, 2)
            for name, size in syncs.last.items()
            if name in syncs.first
        }
        figures = {"kb_for_each_sync": growth, "answers_failed": _answers_failed(home), "rows": _rows(home)}
        print(json.dumps(figures, indent=1))
        shutil.rmtree(place)


def _work(home: Home, number: int, until: float) -> tuple[int, int]:
    """Do up to `number` syncs of all sources in parallel. Returns how many were started, and how many did not complete."""
    left, lock, is_over = iter(range(number)), threading.Lock(), threading.Event()

    def one(name: str) -> tuple[int, int]:
        begun = failed = 0
        while time.monotonic() < until and not is_over.is_set():
            with lock:
                if next(left, None) is None:
                    break
            edit(home.path.with_name(name), 1, 1)
            state = state_of(home)
            begun += 1
            failed += wait(state, start_sync(state, "obsidian", name)).state_type != "COMPLETED"
        return begun, failed

    with ThreadPoolExecutor(len(_SOURCES)) as pool:
        try:
            done = list(pool.map(one, _SOURCES))
        finally:
            is_over.set()
    return sum(begun for begun, _ in done), sum(failed for _, failed in done)


def _look(home: Home) -> dict[str, float]:
    """Sizes in MB: of files with their write-ahead logs, and of the processes."""
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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--rounds", type=int, help="how many rounds at most (default: until all is done)")
    raise SystemExit(main(parser.parse_args().rounds))
