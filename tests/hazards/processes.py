"""Hazards of processes and the machine in the middle of a sync, and the outcome of that sync."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import psutil

from tests.acceptance.accidents import executing, in_the_middle, kill, parsers, reboot
from tests.acceptance.person import COMMAND, Person, upright
from tests.faults.clock import WallClock
from tests.hazards.catchment import held
from tests.hazards.folders import note, on_disk, write
from tests.hazards.model import Area, Hazard, Verdict, judge
from tests.waiting import until

_NOTES = 4_000
_SOON = 120
_AWAY = 20
_DAY = 24


@dataclass(frozen=True)
class Machine:
    """A user with a system that can be killed, the vault that it reads, and the clock of all its processes."""

    person: Person
    vault: Path
    clock: WallClock

    def after(self, accident: Callable[[Machine, str], None]) -> Verdict:
        """Cause an accident during the first sync; return the problems after the sync has recovered."""
        name = f"s{uuid4().hex[:8]}"
        self.person("up", "--detach").ok()
        in_the_middle(self.person, name, self.vault, _NOTES)
        accident(self, name)
        return self.seen(name)

    def seen(self, name: str) -> Verdict:
        """Wait for every note; return the remaining problems, also on a timeout."""
        truth = on_disk(self.vault)
        until(lambda: self.unfinished(name), lambda jobs: not jobs, seconds=_SOON, must=False)
        verdict = judge(truth, held(self.person, name, lambda locator, _title: locator))
        verdict.expect(self.person("ledger", "check").code == 0, "the ledger is not sound")
        active = until(self.going(name), lambda found: not found, seconds=_SOON, must=False)
        verdict.expect(not active, f"{len(active)} runs seem to go on")
        verdict.expect(self.person("sync", name, "--wait").code == 0, "the next sync failed")
        return verdict

    def unfinished(self, name: str) -> bool:
        """Return whether a source has unfinished work."""
        source = self.person.source(name)
        left = sum(source["jobs"][state] for state in ("pending", "running", "retrying"))
        return bool(left) or source["documents"] < _NOTES

    def active(self, name: str) -> Callable[[], list[str]]:
        return lambda: [run for run in self.person.seem_to_run() if name in run]


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Yield a machine with a separate clock and a vault."""
    vault = folder / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    for number in range(_NOTES):
        write(vault, f"{number // 100}/note {number}.md", note(f"note{number}x"))
    clock = WallClock.make(folder)
    with upright(Person(folder / "home", variables=clock.variables)) as person:
        yield Machine(person, vault, clock)


def the_run_is_killed(at: Machine, name: str) -> None:
    for process in executing(at.person, name):
        kill(process)


def the_parsers_are_killed(at: Machine, name: str) -> None:
    for process in parsers(at.person, name):
        kill(process)


def the_run_stands_still(at: Machine, name: str) -> None:
    for process in executing(at.person, name):
        process.suspend()


def the_runner_is_killed(at: Machine, _name: str) -> None:
    for process in psutil.Process(at.person.running.worker_pid).children():
        kill(process)


def the_worker_is_killed(at: Machine, _name: str) -> None:
    os.killpg(at.person.running.worker_pid, signal.SIGKILL)


def the_server_is_killed(at: Machine, _name: str) -> None:
    os.kill(at.person.running.server_pid, signal.SIGKILL)


def the_server_is_away(at: Machine, _name: str) -> None:
    server = psutil.Process(at.person.running.server_pid)
    server.suspend()
    time.sleep(_AWAY)
    server.resume()


def the_supervisor_is_killed(at: Machine, _name: str) -> None:
    os.kill(at.person.running.pid, signal.SIGKILL)
    until(at.person.left, lambda left: not left)
    at.person("up", "--detach").ok()


def the_machine_starts_anew(at: Machine, _name: str) -> None:
    supervisor = at.person.running.pid
    for process in sorted(at.person.processes(), key=lambda process: process.pid != supervisor):
        kill(process)
    until(at.person.left, lambda left: not left)
    reboot(at.person)
    at.person("up", "--detach").ok()


def it_is_stopped_and_started(at: Machine, name: str) -> None:
    at.person("down").ok()
    at.person("up", "--detach").ok()
    at.person.sync_when_ready(name)


def it_is_asked_for_ten_times(at: Machine, name: str) -> None:
    for _ in range(10):
        at.person("sync", name).ok()


def the_clock_is_set(at: Machine, _name: str, hours: int) -> None:
    at.clock.set(hours)


def two_starts_at_once(at: Machine) -> Verdict:
    at.person("down").ok()
    starts = [
        subprocess.Popen(
            [COMMAND, "up", "--detach"], env=at.person.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    codes = sorted(start.wait(_SOON) for start in starts)
    verdict = Verdict()
    verdict.expect(codes in ([0, 0], [0, 10]), f"ended with {codes}")
    servers = [one for one in at.person.processes() if one.name() == "server"]
    verdict.expect(len(servers) == 1, f"{len(servers)} servers")
    return verdict


def _hazard(name: str, expected: str, accident: Callable[[Machine, str], None]) -> Hazard[Machine]:
    return Hazard(name, expected, lambda at: at.after(accident))


AREA = Area(
    "processes",
    machine,
    (
        _hazard("the run of a sync is killed", "continues by itself", the_run_is_killed),
        _hazard("the parsers are killed", "continues", the_parsers_are_killed),
        _hazard("the run is stopped (SIGSTOP)", "terminated, then continues", the_run_stands_still),
        _hazard("the runner is killed", "continues by itself", the_runner_is_killed),
        _hazard("the worker is killed", "continues by itself", the_worker_is_killed),
        _hazard("the server is killed", "continues by itself", the_server_is_killed),
        _hazard("the server is away for 20 s", "continues by itself", the_server_is_away),
        _hazard("the supervisor is killed", "continues after `up`", the_supervisor_is_killed),
        _hazard("the machine restarts", "continues after `up`", the_machine_starts_anew),
        _hazard("`down` in the middle", "continues after `up`", it_is_stopped_and_started),
        _hazard("ten more sync requests", "each note once", it_is_asked_for_ten_times),
        Hazard("two `up` at once", "one system", two_starts_at_once),
        _hazard("the clock is set a day forward", "continues", partial(the_clock_is_set, hours=_DAY)),
        _hazard("the clock is set two days back", "continues", partial(the_clock_is_set, hours=-_DAY)),
    ),
)
