"""Buckets, host slots, breakers and rules as stored and shared: real ledgers, real processes, an adjustable clock."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path

import pytest

from catchment.errors import BadInput, LoginFailed, RateLimited, SourceUnavailable
from catchment.ledger import Ledger
from catchment.ledger.db.monotonic_clock import MonotonicClock
from catchment.ledger.jobs.queue import Queue
from catchment.ledger.limits.pacing import Pacing
from catchment.ledger.limits.throttles import Throttles
from catchment.model import Priority
from catchment.pacing import HostLimits, RateProfile, RateReport
from catchment.pacing.boot_clock import ClockReading
from catchment.pacing.metered import Answer, Ask, Metered, Report
from catchment.pacing.operator_rules import Rule
from catchment.pacing.waits import WaitKind
from catchment.runtime import process
from tests.ledger.world import START, Clock, World, jobs_of, notes
from tests.waiting import PATIENCE

pytestmark = pytest.mark.databases

ROOT = Path(__file__).parents[2]
LIMITS = HostLimits("example.org", "ada")
ME = process.identity()


class Uptime:
    """A monotonic clock: seconds since a boot."""

    def __init__(self) -> None:
        self.boot, self.seconds = "first", 1_000.0

    def __call__(self) -> ClockReading:
        return ClockReading(self.boot, int(self.seconds * 1_000_000))


@pytest.fixture
def uptime() -> Uptime:
    return Uptime()


@pytest.fixture
def pacing(world: World, uptime: Uptime) -> Pacing:
    return Pacing(world.ledger._store, MonotonicClock(uptime))


def take(pacing: Pacing, number: int = 1, limits: HostLimits = LIMITS, *, intake: bool = False) -> Answer:
    return pacing.take(Ask(limits, "notes", ME, number, intake), Report(), None)


def drained(pacing: Pacing, limits: HostLimits = LIMITS) -> int:
    """Take tokens until none are left; return their number."""
    number = 0
    while take(pacing, limits=limits).charge is not None:
        number += 1
    return number


def test_bucket_is_shared_and_survives_its_processes(world: World, uptime: Uptime) -> None:
    assert drained(Pacing(world.ledger._store, MonotonicClock(uptime))) == 50
    if world.url.startswith("sqlite"):
        world.reopen()
    again = Pacing(world.ledger._store, MonotonicClock(uptime))
    assert take(again) == Answer(None, pytest.approx(0.1, abs=1e-5), "rate")
    uptime.seconds += 0.5
    assert drained(again) == 5
    assert drained(again, HostLimits("example.org", "bob")) == 50


def test_killed_process_returns_no_tokens(sqlite_url: str, tmp_path: Path) -> None:
    code = (
        "import os, signal, sys\n"
        "from catchment.runtime import process\n"
        "from catchment.ledger import Ledger\n"
        "from catchment.pacing import HostLimits\n"
        "from catchment.pacing.metered import Metered\n"
        "pace = Metered(Ledger.open(sys.argv[1]).pacing, HostLimits('example.org', per_hour=100), 'mail', process.identity())\n"
        "with pace.transfer(cost=40): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, sqlite_url], cwd=ROOT, check=False).returncode == -9
    with closing(Ledger.open(sqlite_url, monotonic=lambda: ClockReading("after", 0))) as ledger:
        # For this ledger the machine has rebooted since, so the clock continues from the time of the kill.
        [bucket] = ledger.pacing.buckets()
        assert bucket.left == 50
        [place] = ledger.pacing.places()
        ticket, has_it = ledger.pacing.ask(HostLimits("example.org", at_once=1), "mail", ME)
        assert has_it and ticket != place.ticket and [p.ticket for p in ledger.pacing.places()] == [ticket]


@pytest.mark.parametrize("jump", [3_600, -3_600])
def test_setting_the_clock_neither_refills_nor_blocks_buckets(pacing: Pacing, clock: Clock, jump: int) -> None:
    drained(pacing)
    pacing.report(LIMITS, Report(rates=[RateReport(retry_after=60)]))
    clock.now += jump
    answer = take(pacing)
    assert answer.charge is None and (answer.why, answer.wait) == ("host", pytest.approx(60, abs=0.01))
    found = pacing.not_before("notes", LIMITS, ME)
    assert found is not None and found.until and abs((found.until - clock.moment).total_seconds() - 60) < 0.01


@pytest.mark.parametrize("jump", [3_600, -3_600])
def test_time_continues_across_a_reboot_after_a_clock_change(
    world: World, pacing: Pacing, uptime: Uptime, clock: Clock, jump: int
) -> None:
    pacing.report(LIMITS, Report(rates=[RateReport(retry_after=300)]))
    clock.now += jump
    take(pacing)
    uptime.boot, uptime.seconds = "second", 20.0
    clock.forward(seconds=100)
    after = Pacing(world.ledger._store, MonotonicClock(uptime))
    assert take(after).wait == pytest.approx(200, abs=2)


def test_elapsed_time_after_a_reboot_is_at_least_the_uptime(
    world: World, pacing: Pacing, uptime: Uptime, clock: Clock
) -> None:
    pacing.report(LIMITS, Report(rates=[RateReport(retry_after=300)]))
    uptime.boot, uptime.seconds = "second", 120.0
    clock.now -= 86_400
    assert take(Pacing(world.ledger._store, MonotonicClock(uptime))).wait == pytest.approx(180, abs=0.01)


def test_one_budget_serves_all_sources_of_a_login_up_to_nine_tenths(pacing: Pacing, uptime: Uptime) -> None:
    limits = HostLimits("api.example.org", "token", RateProfile.MAXIMUM, per_hour=1_000)
    got = [pacing.take(Ask(limits, source, ME, 10, False), Report(), None).charge for source in ("notes", "mail") * 60]
    assert sum(charge.number for charge in got if charge) == 900
    found = pacing.not_before("notes", limits, ME)
    assert found is not None and found.kind is WaitKind.HOST_QUOTA
    uptime.seconds += 3_600
    assert pacing.not_before("notes", limits, ME) is None
    pacing.report(limits, Report(rates=[RateReport(limit=1_000, remaining=101, resets_in=60)]))
    assert take(pacing, 1, limits).charge is not None
    assert take(pacing, 1, limits).wait == pytest.approx(60, abs=0.01)


def test_failures_slow_intake_but_not_draining(pacing: Pacing, uptime: Uptime) -> None:
    take(pacing)
    pacing.report(LIMITS, Report(answers=9, throttled=1))
    uptime.seconds += 5
    assert take(pacing, 1, intake=True).charge is not None
    [bucket] = pacing.buckets()
    assert (bucket.multiplier, bucket.tokens) == (0.5, 48)
    take(pacing, 1)
    assert pacing.buckets()[0].tokens == 47


def test_full_queue_slows_intake_and_empty_queue_does_not(pacing: Pacing, uptime: Uptime) -> None:
    seen = []
    for fill in (0.9, 0.5, 0.1):
        uptime.seconds += 5
        pacing.take(Ask(LIMITS, "notes", ME, 1, True), Report(answers=1), lambda fill=fill: fill)
        seen.append(pacing.buckets()[0].multiplier)
        # A new bucket is examined after five seconds.
    assert seen == [1.0, 1.0, 1.2]
    uptime.seconds += 5
    pacing.take(Ask(LIMITS, "notes", ME, 1, True), Report(answers=1), lambda: 0.9)
    assert pacing.buckets()[0].multiplier == 0.6


# Host slots


def overlap(logs: list[Path], ends: dict[Path, int], host: str) -> int:
    """Return the maximum number of concurrent transfers with a host. A transfer cut short by a kill ends with its
    process.
    """
    steps: list[tuple[int, int]] = []
    for log in logs:
        lines = [line.split() for line in log.read_text().splitlines() if line.endswith(f" {host}")]
        steps += [(int(at), 1 if sign == "+" else -1) for sign, at, _ in lines]
        open_ones = sum(1 if sign == "+" else -1 for sign, *_ in lines)
        steps += [(ends.get(log, 0), -1)] * open_ones
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    assert now == 0
    return most


@pytest.mark.full
def test_concurrency_cap_holds_across_processes_despite_a_kill(sqlite_url: str, tmp_path: Path) -> None:
    """Twenty jobs in four processes. One host allows one transfer at a time, the other two; each job makes three with
    either.
    """
    logs = [tmp_path / f"{number}.log" for number in range(4)]
    started = []
    for number, log in enumerate(logs):
        # The first process keeps its slot until it is killed.
        seconds = "30" if number == 0 else "0.01"
        command = [sys.executable, "-m", "tests.ledger.polite", sqlite_url, str(log), "5", "3", seconds]
        started.append(subprocess.Popen(command, cwd=ROOT))
    victim, *others = started
    while not (logs[0].exists() and logs[0].read_text()):
        assert victim.poll() is None
        time.sleep(0.01)
    ends = {logs[0]: time.monotonic_ns()}
    victim.kill()
    victim.wait()
    assert [child.wait(PATIENCE) for child in others] == [0, 0, 0]
    assert [log.read_text().count("-") for log in logs[1:]] == [30, 30, 30]
    assert overlap(logs, ends, "1") == 1
    assert overlap(logs, ends, "2") <= 2
    with closing(Ledger.inspect(sqlite_url)) as ledger:
        assert [one for one in ledger.pacing.places() if process.alive(one.owner)] == []


def test_slots_are_granted_in_request_order(pacing: Pacing) -> None:
    two, one = HostLimits("example.org", at_once=2), HostLimits("example.org", at_once=1)
    first, has_first = pacing.ask(two, "notes", ME)
    second, has_second = pacing.ask(one, "notes", ME)
    third, has_third = pacing.ask(two, "notes", ME)
    assert (has_first, has_second, has_third) == (True, False, False)
    assert pacing.wanted("example.org") and not pacing.wanted("elsewhere")
    pacing.release(first)
    assert (pacing.granted(second), pacing.granted(third)) == (True, True)
    pacing.release(first)
    assert len(pacing.places()) == 2


# Metered


@pytest.fixture
def pace(world: World, pacing: Pacing) -> Iterator[Metered]:
    pace = Metered(pacing, LIMITS, "notes", ME, sleep=lambda _: None)
    yield pace
    pace.close()
    assert pacing.places() == []


def test_transfer_takes_its_tokens_and_releases_its_slot(pacing: Pacing, pace: Metered) -> None:
    for cost in (1, 3):
        with pace.transfer(cost):
            assert len(pacing.places()) == 1
        assert pacing.places() == []
    assert (int(pacing.buckets()[0].tokens), pace.requests) == (46, 4)
    assert not [thread for thread in threading.enumerate() if thread.name == "pace"]


def test_transfer_without_cost_to_the_host_is_refunded(pacing: Pacing, pace: Metered) -> None:
    for _ in range(200):
        with pace.transfer() as transfer:
            transfer.refund()
    pace.close()
    assert (pacing.buckets()[0].tokens, pace.requests) == (50, 0)


def test_discovery_thread_pays_more_than_a_draining_thread(pacing: Pacing, pace: Metered, uptime: Uptime) -> None:
    pacing.report(LIMITS, Report(throttled=1))
    uptime.seconds += 5

    def drain() -> None:
        with pace.transfer():
            pass

    with pace.intake():
        with pace.transfer():
            pass
        beside = threading.Thread(target=drain)
        beside.start()
        beside.join()
    pace.close()
    assert (pacing.buckets()[0].tokens, pace.requests) == (50 - 2 - 1, 2)


def test_wait_request_of_a_host_stops_every_process_at_once(pacing: Pacing, pace: Metered) -> None:
    other = Metered(pacing, LIMITS, "mail", ME)
    with closing(other):
        with pytest.raises(RateLimited), pace.transfer():
            raise RateLimited("example.org", 90)
        with pytest.raises(RateLimited) as refused, other.transfer():
            pass
        assert refused.value.retry_after == pytest.approx(90, abs=0.01)
        with pytest.raises(RateLimited), pace.transfer():
            pass
    assert pacing.breakers() == []


def test_short_wait_is_slept_and_a_longer_one_is_refused(pacing: Pacing, uptime: Uptime) -> None:
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        uptime.seconds += seconds

    with closing(Metered(pacing, LIMITS, "notes", ME, sleep=sleep)) as pace:
        for _ in range(60):
            with pace.transfer():
                pass
        assert sum(waited) == pytest.approx(1, abs=0.2)
        pacing.report(LIMITS, Report(rates=[RateReport(retry_after=4)]))
        with pace.transfer(cost=20):
            pass
        assert sum(waited) == pytest.approx(5, abs=0.3)
        pacing.report(LIMITS, Report(rates=[RateReport(retry_after=6)]))
        with pytest.raises(RateLimited), pace.transfer(cost=20):
            pass


def test_five_failures_open_the_breakers_and_one_success_closes_them(
    world: World, pacing: Pacing, pace: Metered, uptime: Uptime
) -> None:
    for _ in range(5):
        with pytest.raises(SourceUnavailable, match="gone"), pace.transfer():
            raise SourceUnavailable("gone")
    with pytest.raises(SourceUnavailable, match="repeated failures"), pace.transfer():
        pass
    found = pacing.not_before("mail", LIMITS, ME)
    assert found is not None and found.kind is WaitKind.HOST_FAILURES
    assert {row.key: row.position for row in pacing.breakers()} == {
        "host:example.org": "open",
        "source:notes": "open",
    }
    uptime.seconds += 60
    assert pacing.not_before("mail", LIMITS, ME) is None
    someone = Metered(pacing, LIMITS, "notes", process.identity(1), sleep=lambda _: None)
    with closing(someone), pytest.raises(SourceUnavailable), someone.transfer():
        pass
    with pace.transfer():
        pass
    assert pacing.breakers() == []
    with world.ledger._store.read() as reading:
        told = [row.event for row in reading.connection.exec_driver_sql("SELECT event FROM history ORDER BY id")]
    assert told.count("breaker opened") == told.count("breaker closed") == 2


def test_a_refused_login_stops_its_source_alone_until_it_is_resumed(
    world: World, pacing: Pacing, pace: Metered
) -> None:
    with pytest.raises(LoginFailed), pace.transfer():
        raise LoginFailed("wrong password; set another")
    assert pacing.not_before("notes", LIMITS, ME) == WaitKind.LOGIN.of("notes")
    assert pacing.not_before("mail", LIMITS, ME) is None
    [row] = pacing.breakers()
    assert (row.key, row.locked, row.until) == ("source:notes", True, None)
    world.ledger.sources.resume("notes", "operator")
    assert pacing.breakers() == []


def test_failure_of_one_item_does_not_count_against_the_host(pacing: Pacing, pace: Metered) -> None:
    for _ in range(6):
        with pytest.raises(KeyError), pace.transfer():
            raise KeyError
    assert pacing.breakers() == []


# Several hosts of one source


@pytest.fixture
def scattered(pacing: Pacing, uptime: Uptime) -> Iterator[Metered]:
    """The pace of a source with transfers that name their hosts. Its waits advance the clock."""

    def sleep(seconds: float) -> None:
        uptime.seconds += seconds

    with closing(Metered(pacing, None, "notes", ME, sleep=sleep)) as pace:
        yield pace


def test_trouble_of_one_host_leaves_the_others_and_the_source_alone(
    pacing: Pacing, scattered: Metered, uptime: Uptime
) -> None:
    gone, busy, well = (HostLimits(f"{name}.example.org", every=0.5) for name in ("gone", "busy", "well"))
    for _ in range(5):
        with pytest.raises(SourceUnavailable, match="away"), scattered.transfer(at=gone):
            raise SourceUnavailable("away")
    with pytest.raises(SourceUnavailable, match="repeated") as refused, scattered.transfer(at=gone):
        pass
    assert refused.value.retry_after == pytest.approx(60, abs=0.01)
    with pytest.raises(RateLimited), scattered.transfer(at=busy):
        raise RateLimited("busy.example.org", 90)
    with pytest.raises(RateLimited) as told, scattered.transfer(at=busy):
        pass
    assert (told.value.host, told.value.retry_after) == ("busy.example.org", pytest.approx(90, abs=0.01))
    with pytest.raises(LoginFailed), scattered.transfer(at=well):
        raise LoginFailed("not for us")
    with scattered.transfer(at=well):
        pass
    assert pacing.not_before("notes", None, ME) is None
    assert [row.key for row in pacing.breakers()] == ["host:gone.example.org"]
    uptime.seconds += 60
    with scattered.transfer(at=gone):
        pass
    assert pacing.breakers() == []


def test_host_is_never_asked_sooner_than_it_wants(pacing: Pacing, scattered: Metered, uptime: Uptime) -> None:
    calm = HostLimits("calm.example.org", every=2.5)
    begun = []
    # Good responses for a minute: other hosts would get faster requests by now.
    for _ in range(25):
        with scattered.transfer(at=calm):
            begun.append(uptime.seconds)
    apart = [later - earlier for earlier, later in pairwise(begun)]
    assert apart == [pytest.approx(2.5, abs=0.001)] * 24
    assert [row.multiplier > 1 for row in pacing.buckets()] == [True]
    # A refunded request may be sent at once, and no thread waits for a host that requires a minute.
    with pytest.raises(SourceUnavailable), scattered.transfer(at=calm) as transfer:
        transfer.refund()
        raise SourceUnavailable("no such name")
    with scattered.transfer(at=calm):
        assert uptime.seconds == pytest.approx(begun[-1] + 2.5, abs=0.001)
    # Refusals slow it down, in threads of the connector, too.
    pacing.report(slow := HostLimits("slow.example.org", every=1.0), Report(throttled=1))
    uptime.seconds += 5
    began = uptime.seconds
    for _ in range(3):
        with scattered.transfer(at=slow):
            pass
    assert uptime.seconds - began == pytest.approx(4, abs=0.01)
    rare = HostLimits("rare.example.org", every=60)
    for wait in (None, 60, 48):
        before = uptime.seconds
        if wait is None:
            with scattered.transfer(at=rare):
                pass
            continue
        with pytest.raises(RateLimited) as told, scattered.transfer(at=rare):
            pass
        assert (told.value.retry_after, uptime.seconds) == (pytest.approx(wait, abs=0.01), before)
        uptime.seconds += 12
    assert pacing.places() == []


def test_hosts_not_asked_for_two_days_are_forgotten_unless_they_pause(pacing: Pacing, uptime: Uptime) -> None:
    for host in ("old", "busy", "asked"):
        pacing.failed(HostLimits(host), None, login=False)
        take(pacing, limits=HostLimits(host, "ada"))
    pacing.report(HostLimits("busy", "ada"), Report(rates=[RateReport(retry_after=180_000)]))
    uptime.seconds += 2 * 86_400 - 1
    take(pacing, limits=HostLimits("asked", "ada"))
    assert pacing.purge() == 0
    uptime.seconds += 2
    assert pacing.purge() == 1
    assert [row.key.partition("#")[0] for row in pacing.buckets()] == ["asked", "busy"]
    assert [row.key for row in pacing.breakers()] == ["host:asked", "host:busy"]


@pytest.mark.full
def test_host_is_never_above_its_rate_whoever_asks(sqlite_url: str) -> None:
    """Two processes of three threads each send requests to a real server, which permits one every tenth of a second."""
    seen: list[float] = []

    class Asked(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(time.monotonic())
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        threading.Thread(target=server.serve_forever).start()
        command = [sys.executable, "-m", "tests.ledger.asking", sqlite_url, str(server.server_port), "3", "5", "0.1"]
        askers = [subprocess.Popen(command, cwd=ROOT) for _ in range(2)]
        assert [asker.wait(PATIENCE) for asker in askers] == [0, 0]
        server.shutdown()
    assert len(seen) == 30
    # Without a common limit, it would take half as long. A delay on the way of the first request shortens it.
    assert max(seen) - min(seen) > 0.75 * 29 * 0.1


# Rules


@pytest.fixture
def throttles(world: World, uptime: Uptime) -> Throttles:
    return Throttles(world.ledger._store, MonotonicClock(uptime))


def test_a_pause_or_a_window_of_any_scope_blocks_a_source(throttles: Throttles, pacing: Pacing, clock: Clock) -> None:
    assert throttles.blocked("notes") is None
    throttles.put("kind:obsidian", Rule(blackouts=("11:00-13:00 UTC",)), "operator", "")
    assert throttles.blocked("notes") == WaitKind.BLACKOUT.of("notes", START + timedelta(hours=1))
    assert take(pacing).why == "rule"
    clock.forward(hours=1)
    assert throttles.blocked("notes") is None and take(pacing).charge is not None
    throttles.put("all", Rule(paused=True), "operator", "the line is bad")
    assert throttles.blocked("notes") == WaitKind.RULE.of("notes")
    throttles.put("all", Rule(), "operator", "")
    assert throttles.blocked("notes") is None


def test_rules_are_in_the_history_and_an_invalid_rule_is_refused(world: World, throttles: Throttles) -> None:
    throttles.put("source:notes", Rule(per_hour=5), "ada", "too much")
    throttles.put("source:notes", Rule(per_hour=5), "ada", "again")
    throttles.put("source:notes", Rule(per_hour=5, paused=True), "ada", "")
    with pytest.raises(BadInput):
        throttles.put("source:notes", Rule(blackouts=("soon",)), "ada", "")
    throttles.put("source:notes", Rule(), "ada", "")
    with world.ledger._store.read() as reading:
        rows = reading.connection.exec_driver_sql(
            "SELECT event, actor, reason, source_id FROM history ORDER BY id"
        ).all()
    assert [row.event for row in rows[1:]] == ["throttle set", "paused", "throttle cleared"]
    assert (rows[1].actor, rows[1].source_id) == ("ada", world.source.id)
    assert rows[1].reason == "source:notes: per hour 5, before: nothing; too much"
    assert throttles.all() == []


def test_rule_limits_the_rate_and_the_slots_of_a_host(throttles: Throttles, pacing: Pacing) -> None:
    fast = HostLimits("example.org", profile=RateProfile.MAXIMUM, at_once=3)
    throttles.put("kind:obsidian", Rule(profile=RateProfile.CONSERVATIVE, at_once=1), "operator", "")
    assert drained(pacing, fast) == 50
    assert [pacing.ask(fast, "notes", ME)[1] for _ in range(2)] == [True, False]


def test_quotas_limit_started_and_running_jobs(world: World, throttles: Throttles, uptime: Uptime) -> None:
    queue = Queue(world.ledger._store, MonotonicClock(uptime))
    world.see(*notes(20))
    throttles.put("all", Rule(per_hour=8), "operator", "")
    throttles.put("kind:obsidian", Rule(active=5), "operator", "")
    first = queue.claim(world.source.id, 100, owner=ME)
    assert len(first.jobs) == 5
    assert queue.claim(world.source.id, 100, owner=ME).jobs == ()
    assert throttles.next_allowed(world.source.id) == START + timedelta(seconds=60)
    queue.release(first.token)
    assert len(jobs_of(queue.claim(world.source.id, 100, owner=ME))) == 3
    assert throttles.next_allowed(world.source.id) == START + timedelta(hours=1)
    assert [(row.scope, row.begun) for row in throttles.all()] == [("all", 8), ("kind:obsidian", 8)]
    uptime.seconds += 3_600
    assert throttles.next_allowed(world.source.id) is None
    assert len(jobs_of(queue.claim(world.source.id, 100, owner=ME))) == 2


def test_a_removed_source_leaves_no_rule_and_no_breaker(world: World, throttles: Throttles, pacing: Pacing) -> None:
    throttles.put("source:notes", Rule(active=1), "operator", "")
    pacing.failed(LIMITS, "notes", login=True)
    world.ledger.sources.remove("notes", "operator", "")
    assert throttles.all() == [] and pacing.breakers() == []
    world.source = world.ledger.sources.put("notes", "obsidian", Priority.NORMAL)
