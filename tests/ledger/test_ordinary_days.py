"""Ordinary days of six sources with a real ledger: failures that heal by themselves open no incident; others do."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

from catchment.errors import CatchmentError, LoginFailed, SourceUnavailable, TryAgain
from catchment.ledger import Source, Sync
from catchment.model import Priority
from catchment.pacing import HostLimits
from catchment.pacing.limits import RateReport
from catchment.pacing.metered import Report
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.watch_status import Watching, WatchState
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.catalogue import JOBS
from catchment.telemetry.incidents import OK, WARN, Condition, reason_of
from catchment.views.health import HealthReport
from tests.ledger.test_incidents import Watched
from tests.ledger.world import World, notes

_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_HOSTS = {"mail": "imap", "repo": "github", "blog": "web"}
_FOLDERS = {"vault": "obsidian", "papers": "local_files"}
_STEP = 50.0
"""Seconds between two judgements: fewer than a sleep of the machine."""
_WATCHING = WatchState(Watching.WATCHING)
_AWAY = SourceUnavailable("mail.example.org: cannot connect (host name not found); check the network")


class Days:
    """Six sources, of which one is read for the first time, on a machine that sleeps. Time passes from event to event."""

    def __init__(self, watched: Watched, seed: int) -> None:
        self.watched, self.world, self.random = watched, watched.world, Random(seed)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()
        self._reported = self._asleep_until = self._offline_until = 0.0
        watched.watch._is_up = True
        ledger = self.world.ledger
        ledger.syncs.end(self.world.sync.id, "completed", {})
        self.sources = {
            name: ledger.sources.put(name, kind, Priority.NORMAL) for name, kind in (_HOSTS | _FOLDERS).items()
        }
        for name, source in self.sources.items():
            ledger.syncs.end(self.world.begin(source).id, "completed", {"succeeded": 40})
            self.at(self.random.uniform(0, 900), lambda name=name: self.sync(name))  # type: ignore[misc]
        self.watch()
        self.first_sync()

    @property
    def opened(self) -> list[str]:
        """The incidents that opened, by reason and subject."""
        return [f"{one.reason} {one.subject}" for one in self.watched.told if one.closed_at is None]

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Let an event happen after some seconds; after the end of a sleep if the machine sleeps then."""
        heapq.heappush(self._events, (self.world.clock.now + seconds, next(self._number), event))

    def live(self, days: float) -> None:
        """Let days pass, each with sleeps, outages of the network and slow hosts."""
        for day in range(round(days)):
            for hour, hours in ((0.0, 7.5), (9 + self.random.random(), 0.6), (13.0, self.random.uniform(0.2, 3))):
                self.at(day * _DAY + hour * _HOUR, lambda hours=hours: self.sleep(hours * _HOUR))  # type: ignore[misc]
            for hour in (8.7, 11.3, 18.0 + self.random.random()):
                self.at(day * _DAY + hour * _HOUR, lambda: self.lose_network(self.random.uniform(20, 700)))
            for hour in (8.0, 10.5, 17.0, 21.0):
                self.at(day * _DAY + hour * _HOUR, self.slow_host)
            self.at(day * _DAY + 12 * _HOUR, self.restart_server)
        self.pass_(days * _DAY)

    def pass_(self, seconds: float) -> None:
        """Let time pass, with a judgement at each event and at least every 50 seconds."""
        clock, end = self.world.clock, self.world.clock.now + seconds
        while clock.now < end:
            following = self._events[0][0] if self._events else end
            clock.forward(seconds=max(0.01, min(_STEP, following - clock.now, end - clock.now)))
            while self._events and self._events[0][0] <= clock.now:
                heapq.heappop(self._events)[2]()
            self.report()
            self.watched.watch.judge()

    def report(self) -> None:
        """Write the reports of the worker and the checks, in their intervals."""
        moment, home = self.world.clock.moment, self.watched.home
        WorkerStatus(identity(), moment, 4, 4, 0.1, 0.1, 0).write(home)
        if self.world.clock.now - self._reported > 300:
            self._reported = self.world.clock.now
            late = Condition("scheduler", WARN, "1 run is late, the oldest by 24 min", "see the load")
            read = [Condition(f"source {name}", OK, "can be read", subject=f"source:{name}") for name in _FOLDERS]
            HealthReport.of((late, *read), moment).write(home)

    def watch(self, mail: WatchState = _WATCHING) -> None:
        watch_status.write(self.watched.home, {"vault": _WATCHING, "mail": mail})

    def sync(self, name: str, error: CatchmentError | None = None) -> None:
        """Sync a source for a while, and again after its interval."""
        source, random = self.sources[name], self.random
        self.at(_HOUR if name == "blog" else 15 * _MINUTE, lambda: self.sync(name))
        last = self.world.ledger.syncs.last(source.id)
        if last is not None and last.outcome is None:
            return  # The machine slept, and both became due.
        sync = self.world.begin(source)
        is_away = name in _HOSTS and self.world.clock.now < self._offline_until
        # One in a hundred fails for another reason.
        failure = error or (_AWAY if is_away or (name in _HOSTS and random.random() < 0.01) else None)
        self.at(random.uniform(1, 200 if name in _HOSTS else 5), lambda: self.end(source, sync, failure))

    def end(self, source: Source, sync: Sync, error: CatchmentError | None) -> None:
        syncs, random = self.world.ledger.syncs, self.random
        if error is None:
            failing = random.choice((0, 0, 0, 0, 1, 3))
            syncs.end(sync.id, "completed", {"succeeded": random.randrange(12), "retrying": failing})
        elif random.random() < 0.2 and not isinstance(error, LoginFailed):
            syncs.end(sync.id, "crashed", {})
        else:
            outcome = "quarantined" if isinstance(error, LoginFailed) else "failed"
            syncs.end(sync.id, outcome, {}, str(error), reason_of(error))

    def sleep(self, seconds: float) -> None:
        """Sleep. Then the network takes a while, and the planned syncs start soon, each at its own time."""
        clock = self.world.clock
        clock.forward(seconds=seconds)
        self._offline_until = clock.now + self.random.uniform(2, 40)
        self._events = [
            (max(moment, clock.now + self.random.uniform(1, 45)), number, event)
            for moment, number, event in self._events
        ]
        heapq.heapify(self._events)
        self.lose_network(self._offline_until - clock.now)

    def lose_network(self, seconds: float) -> None:
        """Be without the network. The mailbox is watched again at most 80 seconds later."""
        self._offline_until = self.world.clock.now + seconds
        self.watch(WatchState(Watching.LIMITED, f"{_AWAY}", "until then the schedule finds changes"))
        self.at(seconds + self.random.uniform(1, 80), self.watch)

    def slow_host(self) -> None:
        """Let a host ask for a pause again and again, for at most half an hour."""
        limits, pause = HostLimits("api.example.org", "me"), Report(rates=[RateReport(retry_after=65)])
        for minute in range(self.random.randrange(30)):
            self.at(minute * _MINUTE, lambda: self.world.ledger.pacing.report(limits, pause))

    def restart_server(self) -> None:
        """Kill the server, which is back within a minute."""
        self.watched.errors["server"] = TryAgain("no response within 2 s")
        self.at(45, self.watched.errors.clear)

    def first_sync(self) -> None:
        """Read a source for the first time, for six hours, in which many jobs wait."""
        ledger = self.world.ledger
        self.world.sync = self.world.begin()
        self.world.see(*notes(30))

        def finish() -> None:
            batch = self.world.claim(1)
            if batch.jobs:
                self.world.deliver(batch)
                ledger.measures.tally.add(JOBS, 1, self.world.source.id, outcome="succeeded")
                ledger.measures.flush()
                self.at(12 * _MINUTE, finish)
            else:
                ledger.syncs.end(self.world.sync.id, "completed", {"succeeded": 30})

        finish()


@pytest.fixture
def watched(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(world.ledger, "alive", lambda _owner: True)
    return Watched(world, Home(tmp_path / "home").make())


def test_ordinary_day_has_no_problem(watched: Watched) -> None:
    days = Days(watched, seed=0)
    days.live(1)
    assert days.opened == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1, 5))
def test_two_ordinary_days_have_no_problem(watched: Watched, seed: int) -> None:
    """Eight days in all."""
    days = Days(watched, seed)
    days.live(2)
    assert days.opened == []


def test_refused_login_is_told_with_the_next_judgement_and_closes_with_a_sync(watched: Watched) -> None:
    days = Days(watched, seed=5)
    days.pass_(_HOUR)
    days.sync("mail", LoginFailed("mail.example.org: login refused; check user and password"))
    days.watch(WatchState(Watching.LIMITED, "login refused", "store it"))
    days.pass_(250)
    assert days.opened == ["login.refused source:mail"]
    watched.world.ledger.sources.resume("mail", "anna")
    watched.world.ledger.syncs.end(watched.world.begin(days.sources["mail"]).id, "completed", {})
    watched.watch.judge()
    assert watched.open == []
    days.watch()
    days.pass_(_HOUR)
    assert days.opened == ["login.refused source:mail"], "its watch and its failed syncs are no problems of their own"


def test_host_that_stays_away_is_one_problem(watched: Watched) -> None:
    days = Days(watched, seed=6)
    days.pass_(_HOUR)
    days.lose_network(timedelta(hours=3).total_seconds())
    days.pass_(_HOUR)
    away = [each for each in days.opened if each.endswith("source:mail")]
    assert away == ["source.unreachable source:mail"]
