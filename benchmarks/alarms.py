"""`python -m benchmarks.alarms [SEED]`: false alarms of the baselines in 2 x 15 simulated quiet weeks, and detected faults.

A person with ten sources: notes and folders by day, mail in bursts, repositories, an archive with a large import now and then.
Nights are idle, weekends are slow, the laptop sleeps on some nights, some weekdays are holidays, and hosts are slow for an hour
now and then. The figures pass the rollups of a ledger; each hour is judged as the web process judges it.
"""

from __future__ import annotations

import gc
import random
import shutil
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.system import empty
from catchment.ledger import Ledger
from catchment.model import Priority
from catchment.telemetry.catalogue import JOBS, QUEUE, SYNC_DURATION
from catchment.views.telemetry.anomalies import hour_of, hourly, judged

_SEED = 1
_WARM_UP_WEEKS, _WEEKS = 5, 15
_TRIALS, _FAULT_HOURS = 3, 8
_READ_DAYS = 2
_START = 1_767_571_200
"""Monday, 2026-01-05, 00:00 UTC."""
_HOUR, _WEEK = 3_600, 168
_SAMPLES = 60


@dataclass(frozen=True)
class SimulatedSource:
    """A source.

    Attributes:
        rate: Changed items in a busy hour.
        burst: Unevenness of the changes: 0 evenly, 3 in rare heaps.
        seconds: Median time of a sync.
        day, weekend: Share of the rate by night, and at weekends.
        is_watched: Its syncs follow its changes; others run every 15 minutes.
        imports: Large imports a week.
    """

    name: str
    kind: str
    rate: float
    burst: float
    seconds: float
    night: float = 0.0
    weekend: float = 0.3
    is_watched: bool = False
    imports: float = 0.0


SOURCES = (
    SimulatedSource("notes", "obsidian", 6, 1.0, 0.4, is_watched=True),
    SimulatedSource("journal", "obsidian", 1, 0.5, 0.3, weekend=1.0, is_watched=True),
    SimulatedSource("papers", "local_files", 0.5, 2.0, 1.5, imports=0.1),
    SimulatedSource("projects", "local_files", 15, 1.5, 0.8, is_watched=True),
    SimulatedSource("mail", "imap", 30, 0.6, 3.0, night=0.1),
    SimulatedSource("work-mail", "imap", 60, 0.5, 4.0, night=0.05, weekend=0.05),
    SimulatedSource("lists", "imap", 20, 1.5, 2.5, night=0.6, weekend=0.7, imports=0.05),
    SimulatedSource("code", "github", 10, 1.2, 5.0, night=0.1, weekend=0.15),
    SimulatedSource("upstream", "github", 8, 2.0, 6.0, night=0.7, weekend=0.5),
    SimulatedSource("archive", "local_files", 0.05, 3.0, 8.0, imports=0.15),
)


@dataclass(frozen=True)
class Fault:
    """A fault of one source."""

    name: str
    source: str
    metric: str
    """The metric in which it should be seen."""


FAULTS = (
    Fault("latency x 5", "mail", "duration"),
    Fault("latency x 5", "code", "duration"),
    Fault("30 % failures", "work-mail", "failures"),
    Fault("30 % failures", "mail", "failures"),
    Fault("throughput 0", "work-mail", "throughput"),
    Fault("throughput 0", "mail", "throughput"),
    Fault("backlog + 200/h", "lists", "backlog"),
    Fault("backlog + 200/h", "projects", "backlog"),
)


class SimulatedLife:
    """A ledger, and the person's sources hour by hour."""

    def __init__(self, file: Path, seed: int, now: float = _START) -> None:
        self.now = now
        self._file = file
        self.ledger = self._opened()
        self._random = random.Random(seed)
        self._waiting: Counter[str] = Counter()
        self._slow: dict[str, float] = {}
        self._is_holiday = self._is_asleep = False
        self.ids = {one.name: self.ledger.sources.put(one.name, one.kind, Priority.NORMAL).id for one in SOURCES}

    def copy(self, file: Path) -> None:
        """Copy the ledger."""
        self.ledger.close()
        shutil.copy(self._file, file)
        self.ledger = self._opened()

    def _opened(self) -> Ledger:
        return Ledger.open(f"sqlite:///{self._file}", clock=lambda: self.now)

    @property
    def moment(self) -> datetime:
        """The present."""
        return datetime.fromtimestamp(self.now, UTC)

    def judged(self, hours: int) -> list[set[tuple[str, str]]]:
        """Return the metrics and sources with an anomaly, for each of the last hours.

        An hour is compared with the same hours of other weeks, so one reading serves for some days.
        """
        names, last = {0: "", **{number: name for name, number in self.ids.items()}}, hour_of(self.moment)
        series = hourly(self.ledger, self.moment)
        return [{(one.metric, one.source) for one in judged(series, names, hour)} for hour in range(last - hours, last)]

    def day(self, hours: int = 24, fault: Fault | None = None) -> None:
        """Let a day or some hours pass, with a fault or without one."""
        for _ in range(hours):
            self._hour(fault)

    def _hour(self, fault: Fault | None = None) -> None:
        since_start = int(self.now - _START) // _HOUR
        hour, weekday = since_start % 24, since_start // 24 % 7
        if not hour:
            self._is_holiday = weekday < 5 and self._random.random() < 0.04
            self._is_asleep = self._random.random() < 0.4
        rest = weekday > 4 or self._is_holiday
        if not (self._is_asleep and 1 <= hour < 7):
            for one in SOURCES:
                self._work(one, hour, rest, fault if fault and fault.source == one.name else None)
        self.now += _HOUR - 1
        self.ledger.measures.flush()
        self.now += 1

    def _work(self, one: SimulatedSource, hour: int, rest: bool, fault: Fault | None) -> None:
        chance, tally, number = self._random, self.ledger.measures.tally, self.ids[one.name]
        by_day = one.night if hour < 7 or hour > 22 else 1.0 if 9 <= hour < 18 else 0.5
        mean = one.rate * by_day * (one.weekend if rest else 1.0) * _gamma(chance, one.burst)
        items = _poisson(chance, mean)
        if chance.random() < one.imports / _WEEK:
            items += chance.randrange(2_000, 8_000)
        slow = self._slow.get(one.name, 1.0)
        if slow == 1.0:
            self._slow[one.name] = chance.uniform(2, 4) if chance.random() < 1 / (2 * _WEEK) else 1.0
        else:
            self._slow[one.name] = slow if chance.random() < 0.3 else 1.0
        failing = 0.007
        match fault.name if fault else "":
            case "latency x 5":
                slow *= 5
            case "30 % failures":
                failing = 0.3
            case "throughput 0":
                items = 0
            case "backlog + 200/h":
                self._waiting[one.name] += 200
        failed = sum(chance.random() < failing for _ in range(items))
        if failed:
            tally.add(JOBS, failed, number, outcome="retrying")
        if items > failed:
            tally.add(JOBS, items - failed, number, outcome="succeeded")
        syncs = min(items, 20) if one.is_watched else 4
        for _ in range(syncs):
            took = one.seconds * slow * chance.lognormvariate(0, 0.4) + 0.02 * items / syncs
            outcome = "completed" if chance.random() < 0.998 else "failed"
            tally.add(SYNC_DURATION, took, number, outcome=outcome)
        # A worker takes some 30 jobs a second, so a large import waits for some minutes of the hour.
        mean_waiting = self._waiting[one.name] + items * items / 60 / _HOUR
        tally.add(QUEUE, mean_waiting, number, times=_SAMPLES, state="pending")
        for state in ("running", "retrying"):
            tally.add(QUEUE, 0, number, times=_SAMPLES, state=state)


@dataclass
class Measured:
    """False alarms by metric and source, and the hours until each fault was detected (None: not within eight)."""

    alarms: Counter[tuple[str, str]] = field(default_factory=Counter)
    delays: dict[Fault, list[int | None]] = field(default_factory=dict)


def main(seed: int = _SEED) -> None:
    """Measure two lives at the same time, and print the figures."""
    began = time.monotonic()
    with empty("alarms") as place, ProcessPoolExecutor(2) as processes:
        halves = list(processes.map(_measured, (place / "one.db", place / "two.db"), (seed, seed + 1_000)))
    alarms = halves[0].alarms + halves[1].alarms
    weeks, number = 2 * _WEEKS, alarms.total()
    print(f"{weeks} quiet weeks, seed {seed}: {number} false alarms, {number / weeks:.2f} a week")
    for (metric, source), times in alarms.most_common():
        print(f"    {metric:12}{source or 'all':12}{times}")
    for fault in FAULTS:
        delays = [delay for half in halves for delay in half.delays[fault]]
        seen = sorted(delay for delay in delays if delay is not None)
        after = f", after {seen[len(seen) // 2]} h (median)" if seen else ""
        print(f"{fault.name} of {fault.source}: detected {len(seen)} of {len(delays)}{after}")
    print(f"{time.monotonic() - began:.0f} s")


def _measured(file: Path, seed: int) -> Measured:
    """Live some quiet weeks, and see each fault from some Tuesdays on."""
    # A reading makes a hundred thousand objects and no garbage.
    gc.set_threshold(200_000, 50, 50)
    life, measured, quiet = SimulatedLife(file, seed), Measured(), list[Path]()
    known: set[tuple[str, str]] = set()
    for day in range(1, (_WARM_UP_WEEKS + _WEEKS) * 7 + 1):
        life.day()
        if day > _WARM_UP_WEEKS * 7 and day % _READ_DAYS == 0:
            for present in life.judged(_READ_DAYS * 24):
                measured.alarms.update(present - known)
                known = present
        if day % 7 == 1:
            life.ledger.measures.roll()
            if day > _WARM_UP_WEEKS * 7 and len(quiet) < _TRIALS:
                quiet.append(file.with_suffix(f".{day}"))
                life.copy(quiet[-1])
    life.ledger.close()
    for fault in FAULTS:
        measured.delays[fault] = [_delay(copy, fault, seed + trial) for trial, copy in enumerate(quiet)]
    return measured


def _delay(quiet: Path, fault: Fault, seed: int) -> int | None:
    """Return the hours from the start of a fault, at 9 on a Tuesday, until it is detected."""
    file = quiet.with_suffix(".fault")
    shutil.copy(quiet, file)
    life = SimulatedLife(file, seed, _START + int(quiet.suffix[1:]) * 24 * _HOUR)
    life.day(9)
    life.day(_FAULT_HOURS, fault)
    present = life.judged(_FAULT_HOURS)
    life.ledger.close()
    return next((hours for hours, found in enumerate(present, 1) if (fault.metric, fault.source) in found), None)


def _gamma(chance: random.Random, burst: float) -> float:
    """Return a factor with the mean 1 and the variance `burst`."""
    return chance.gammavariate(1 / burst, burst) if burst else 1.0


def _poisson(chance: random.Random, mean: float) -> int:
    """Return a number of random events: exact for few, by the normal distribution for many."""
    if mean > 50:
        return max(0, round(chance.gauss(mean, mean**0.5)))
    number, left = 0, chance.expovariate(1)
    while left < mean:
        number, left = number + 1, left + chance.expovariate(1)
    return number


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else _SEED)
