"""Hosts that share a ledger on PostgreSQL: permission to write, liveness, and work that only one host does at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from catchment.errors import NotFound, Refused, StaleLease
from catchment.ledger import Ledger
from catchment.ledger.admin import transfer
from catchment.ledger.db import joined_hosts
from catchment.ledger.db.database import Store
from catchment.model import Priority, Tombstone, Upsert
from catchment.pacing import HostLimits, RateProfile
from catchment.pacing.breaker import FAILURES
from catchment.pacing.metered import Ask, Report
from catchment.runtime import process
from catchment.settings import Home
from tests.faults.clock import WallClock
from tests.ledger.world import Clock, delivered, note

pytestmark = pytest.mark.postgres
ROOT = Path(__file__).parents[2]
ONE = HostLimits("example.org", at_once=1)
TWENTY = HostLimits("example.org", profile=RateProfile.MAXIMUM, per_hour=20)


@dataclass
class Machine:
    """A home on a separate machine."""

    name: str
    home: Home
    ledger: Ledger
    patch: pytest.MonkeyPatch

    @contextmanager
    def here(self) -> Iterator[Ledger]:
        """Act as a process of this machine."""
        with self.patch.context() as patched:
            patched.setattr(process, "boot", lambda: self.name)
            yield self.ledger

    @property
    def owner(self) -> str:
        with self.here():
            return process.identity()

    def join(self) -> None:
        with self.here() as ledger:
            ledger.hosts.join(self.name, "operator:anna", takes_any=True, version="1")

    def beat(self) -> None:
        with self.here() as ledger:
            ledger.hosts.beat()

    def asks_slot(self) -> tuple[int, bool]:
        with self.here() as ledger:
            return ledger.pacing.ask(ONE, "notes", self.owner)

    def takes(self) -> bool:
        with self.here() as ledger:
            return ledger.pacing.take(Ask(ONE, "notes", self.owner, 1, False), Report(), None).charge is not None


@pytest.fixture
def machine(
    empty_postgres: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], Machine]]:
    """Return a function that makes a machine, with the ledger of the others."""
    monkeypatch.setenv("CATCHMENT_DATABASE_URL", empty_postgres)
    monkeypatch.setattr(joined_hosts, "_KNOWN_SECONDS", -1.0)
    made: list[Machine] = []

    def make(name: str) -> Machine:
        home = Home(tmp_path / name).make()
        made.append(Machine(name, home, Ledger.open(home, clock=clock, monotonic=clock.steady), monkeypatch))
        return made[-1]

    yield make
    for one in made:
        one.ledger.close()
    with closing(Ledger.open(empty_postgres)) as ledger, ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DELETE FROM counters WHERE name = 'home'")


@pytest.fixture
def two(machine: Callable[[str], Machine]) -> tuple[Machine, Machine]:
    """Two joined machines that beat."""
    attic, cellar = machine("attic"), machine("cellar")
    for one in (attic, cellar):
        one.join()
        one.beat()
    return attic, cellar


def add(one: Machine, name: str) -> None:
    with one.here() as ledger:
        ledger.sources.put(name, "obsidian", Priority.NORMAL)


def test_hosts_write_to_a_sink_as_one_home_and_one_looks_at_it(two: tuple[Machine, Machine]) -> None:
    attic, cellar = two
    outbox = attic.ledger.outbox
    sink = outbox.add("copy", "folder", "/nowhere", None, "anna")
    second = outbox.add("second", "folder", "/nowhere", None, "anna")
    sink = outbox.compare(sink, stamp := outbox.new_stamp(sink))
    for one in two:
        assert one.ledger.outbox.is_own(sink, stamp)
        assert not one.ledger.outbox.is_own(second, stamp)
    assert (outbox.is_served_here(sink), cellar.ledger.outbox.is_served_here(sink)) == (True, False)


def test_ledger_is_shared_from_the_first_join_until_the_last_leave(machine: Callable[[str], Machine]) -> None:
    attic, cellar, guest = machine("attic"), machine("cellar"), machine("guest")
    add(attic, "notes")
    assert not attic.ledger.hosts.is_shared
    with pytest.raises(Refused, match="run `catchment join` there first"):
        cellar.join()
    attic.join()
    cellar.join()
    cellar.join()
    add(cellar, "papers")
    add(attic, "letters")
    with pytest.raises(Refused, match="this home is not one of them; run `catchment join`"):
        add(guest, "mail")
    with pytest.raises(Refused, match="run `catchment join`"):
        guest.ledger.adopt("operator:anna")
    with pytest.raises(Refused, match="attic: another host has this name"):
        guest.ledger.hosts.join("attic", "operator:anna", takes_any=False, version="1")
    with pytest.raises(Refused, match="first run `catchment leave` on each"):
        attic.ledger.move("sqlite:////nowhere/ledger.db")
    cellar.beat()
    with pytest.raises(Refused, match="cellar: still at work"):
        attic.ledger.hosts.leave("operator:anna", name="cellar")
    cellar.ledger.hosts.leave("operator:anna")
    with pytest.raises(Refused, match="not one of them"):
        add(cellar, "mail")
    with pytest.raises(NotFound, match="catchment hosts"):
        attic.ledger.hosts.leave("operator:anna", name="cellar")
    attic.ledger.hosts.leave("operator:anna")
    add(attic, "mail")
    with pytest.raises(Refused, match="belongs to another home"):
        add(cellar, "mail")


def test_host_is_silent_without_a_beat_and_stopped_when_it_says_so(two: tuple[Machine, Machine], clock: Clock) -> None:
    attic, cellar = two
    clock.forward(seconds=39)
    assert attic.ledger.alive(cellar.owner) and [host.is_alive for host in attic.ledger.hosts.all()] == [True, True]
    clock.forward(seconds=2)
    attic.beat()
    [me, other] = attic.ledger.hosts.all()
    assert (me.is_me, me.is_alive, me.silent_for) == (True, True, None)
    assert (other.is_me, other.is_alive, other.silent_for) == (False, False, timedelta(seconds=41))
    assert not attic.ledger.alive(cellar.owner)
    cellar.ledger.hosts.end_beat()
    assert [host.silent_for for host in attic.ledger.hosts.all()] == [None, None]


def test_processes_before_a_reboot_of_a_host_are_dead(two: tuple[Machine, Machine]) -> None:
    attic, cellar = two
    before = cellar.owner
    cellar.patch.setattr(cellar, "name", "rebooted")
    cellar.beat()
    assert attic.ledger.alive(cellar.owner) and not attic.ledger.alive(before)


def test_silent_host_loses_its_sync_and_can_write_nothing_more_for_it(
    two: tuple[Machine, Machine], clock: Clock
) -> None:
    attic, cellar = two
    with cellar.here() as ledger:
        source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        lost = ledger.syncs.begin(source.id, run=None, owner=cellar.owner, code_version="1", alive=ledger.alive)
        ledger.intake.record(lost.id, [Upsert(note("kept.md"))], {"": "1"})
        batch = ledger.queue.claim(source.id, 1, owner=cellar.owner)
    with attic.here() as ledger:
        assert ledger.syncs.close_dead(ledger.alive) == 0
        clock.forward(seconds=41)
        assert ledger.syncs.close_dead(ledger.alive) == 1
        ledger.syncs.begin(source.id, run=None, owner=attic.owner, code_version="1", alive=ledger.alive)
    late = Tombstone("kept.md")
    for write in (
        lambda: cellar.ledger.intake.record(lost.id, [late], {"": "0"}),
        lambda: cellar.ledger.intake.settle(lost.id),
        lambda: cellar.ledger.syncs.expect(lost.id, clock.moment),
        lambda: cellar.ledger.syncs.end(lost.id, "completed", {}),
        lambda: cellar.ledger.queue.claim(source.id, 1, owner=cellar.owner, sync_id=lost.id),
    ):
        with pytest.raises(StaleLease):
            write()
    [job] = batch.jobs
    assert cellar.ledger.queue.deliver(batch.token, [delivered(job.id, "late")]).stale == [job.id]


def test_command_on_a_host_without_a_worker_keeps_its_sync(two: tuple[Machine, Machine], clock: Clock) -> None:
    attic, cellar = two
    clock.forward(hours=1)
    attic.beat()
    with cellar.here() as ledger:
        source = ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        ledger.syncs.begin(source.id, run=None, owner=cellar.owner, code_version="1", alive=ledger.alive)
    clock.forward(minutes=9)
    assert attic.ledger.syncs.close_dead(attic.ledger.alive) == 0
    clock.forward(minutes=2)
    assert attic.ledger.syncs.close_dead(attic.ledger.alive) == 1


def test_slot_of_a_live_host_is_kept_and_that_of_a_silent_one_is_freed(
    two: tuple[Machine, Machine], clock: Clock
) -> None:
    attic, cellar = two
    assert cellar.asks_slot()[1]
    ticket, is_granted = attic.asks_slot()
    with attic.here() as ledger:
        assert not is_granted and not ledger.pacing.granted(ticket)
        clock.forward(seconds=41)
        assert ledger.pacing.granted(ticket)


def test_only_the_prober_of_a_live_host_asks_a_failing_host(two: tuple[Machine, Machine], clock: Clock) -> None:
    attic, cellar = two
    for _ in range(FAILURES):
        cellar.ledger.pacing.failed(ONE, "notes", login=False)
    clock.forward(minutes=30)
    attic.beat()
    cellar.beat()
    assert cellar.takes()
    assert not attic.takes()
    clock.forward(seconds=41)
    attic.beat()
    assert attic.takes()


def test_backup_of_a_shared_ledger_is_without_its_hosts(two: tuple[Machine, Machine], tmp_path: Path) -> None:
    attic, cellar = two
    add(attic, "notes")
    attic.ledger.purging.ask_hosts(attic.ledger.sources.all()[0].id)
    with closing(Store(f"sqlite:///{tmp_path}/copy.db")) as copy:
        transfer.move(attic.ledger._store, copy)
        with copy.read() as reading:
            assert reading.execute(select(joined_hosts.hosts)).all() == []
            assert reading.execute(select(joined_hosts.host_purges)).all() == []
    with closing(Ledger.open(f"sqlite:///{tmp_path}/copy.db")) as ledger:
        assert [source.name for source in ledger.sources.all()] == ["notes"]
    assert len(cellar.ledger.hosts.all()) == 2


def test_purge_is_complete_when_every_other_host_has_done_its_part(two: tuple[Machine, Machine]) -> None:
    attic, cellar = two
    add(attic, "notes")
    [source] = attic.ledger.sources.all()
    attic.ledger.purging.ask_hosts(source.id)
    attic.ledger.purging.ask_hosts(source.id)
    assert attic.ledger.purging.asked_of_me() == {}
    assert attic.ledger.purging.unfinished() == {"notes": ("cellar",)}
    assert cellar.ledger.purging.asked_of_me() == {source.id: "notes"}
    cellar.ledger.purging.done_here(source.id)
    assert attic.ledger.purging.unfinished() == {} == cellar.ledger.purging.asked_of_me()
    attic.ledger.purging.ask_hosts(source.id)
    cellar.ledger.hosts.end_beat()
    attic.ledger.hosts.leave("operator:anna", name="cellar")
    assert attic.ledger.purging.unfinished() == {}


def test_only_one_process_is_alone_and_its_death_frees_the_purpose(empty_postgres: str) -> None:
    code = f"""
import sys
from catchment.ledger import Ledger
with Ledger.open({empty_postgres!r}).alone("embed") as is_alone:
    print(is_alone, flush=True)
    sys.stdin.read()
"""
    with closing(Ledger.open(empty_postgres)) as ledger:
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None and other.stdout.readline() == "True\n"
            with ledger.alone("embed") as is_alone, ledger.alone("upkeep") as for_another_purpose:
                assert (is_alone, for_another_purpose) == (False, True)
            os.kill(other.pid, signal.SIGKILL)
        while not _gets(ledger):
            pass
        assert _gets(ledger)


def _gets(ledger: Ledger) -> bool:
    with ledger.alone("embed") as is_alone:
        return is_alone


def test_machines_with_clocks_an_hour_apart_have_one_time(empty_postgres: str, tmp_path: Path) -> None:
    """Both together are granted nine tenths of the requests that a host permits in an hour."""
    ahead = WallClock.make(tmp_path)
    ahead.set(hours=1)
    code = f"""
from catchment.ledger import Ledger
from tests.ledger.test_joined_hosts import took
ledger = Ledger.open({empty_postgres!r})
print(ledger.now().timestamp(), took(ledger), flush=True)
"""
    with closing(Ledger.open(empty_postgres)) as ledger:
        before = ledger.now().timestamp()
        here = took(ledger)
        out = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=os.environ | ahead.variables, capture_output=True, check=True
        )
        there, more = map(float, out.stdout.split())
        after = ledger.now().timestamp()
        assert before <= there <= after
        assert (here, more, took(ledger)) == (18, 0, 0)


def took(ledger: Ledger) -> int:
    """Return how many of 40 requests were granted."""
    asked = (ledger.pacing.take(Ask(TWENTY, "notes", "me", 1, False), Report(), None) for _ in range(40))
    return sum(answer.charge is not None for answer in asked)
