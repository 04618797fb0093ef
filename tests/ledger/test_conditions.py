"""The conditions that count as wrong, from a real ledger and the reports of the processes: each reason code is reached."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from catchment.errors import (
    CatchmentError,
    LedgerCorrupt,
    LedgerUnavailable,
    LoginFailed,
    NotFound,
    SourceUnavailable,
    TryAgain,
    split_remedy,
)
from catchment.ledger import Outcome, Source
from catchment.model import Priority
from catchment.pacing import HostLimits
from catchment.pacing.limits import RateReport
from catchment.pacing.metered import Ask, Report
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.watch_status import Watching, WatchState
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.catalogue import JOBS
from catchment.telemetry.incidents import FAIL, OK, WARN, Condition, ReasonCode, Verdict, problems, reason_of
from catchment.views.health import RESTART, HealthReport
from catchment.views.telemetry.conditions import (
    LatestSyncs,
    of_last_check,
    of_ledger,
    of_ledger_each_minute,
    of_machine,
    of_queue,
    waiting_jobs,
)
from tests.ledger.test_quarantine import fail
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, notes

GONE = SourceUnavailable("mail: no answer; check its address")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def latest(world: World) -> LatestSyncs:
    return {source.id: world.ledger.syncs.recent(source.id) for source in world.ledger.sources.all()}


def found(world: World, home: Home) -> dict[tuple[ReasonCode, str], Condition]:
    judged = (of_ledger, of_ledger_each_minute)
    conditions = [one for each in judged for one in each(world.ledger, home, latest(world))]
    return {one.key: one for one in problems(conditions)}


def synced(
    world: World, outcome: Outcome, error: CatchmentError | None = None, source: Source | None = None, **figures: int
) -> None:
    """End a sync: the open one, or a new one of another source."""
    world.clock.forward(minutes=1)
    sync = world.begin(source) if source or not world.ledger.syncs.is_open(world.sync.id) else world.sync
    cause = reason_of(error) if error else None
    world.ledger.syncs.end(sync.id, outcome, figures, str(error) if error else None, cause)


def of_the_machine(world: World, home: Home, *, is_up: bool = True, **errors: CatchmentError) -> list[Condition]:
    now = world.clock.moment
    judged = [*of_machine(home, errors, now, is_up=is_up)]
    return problems((*judged, *of_last_check(home, judged, now)))


def worker(world: World, home: Home, **more: Any) -> None:
    WorkerStatus(identity(), world.clock.moment, 4, 4, 0.1, 0.1, 0, **more).write(home)


# Syncs


def test_nothing_is_wrong_after_a_good_sync(world: World, home: Home) -> None:
    world.ingest(*notes(3))
    synced(world, "completed", succeeded=3)
    assert found(world, home) == {}


def test_failed_sync_is_known_by_the_class_of_its_error(world: World, home: Home) -> None:
    synced(world, "failed", GONE)
    (condition,) = found(world, home).values()
    remedy = "check its address, then: catchment sources test notes"
    assert condition == Condition(
        "source notes", WARN, "mail: no answer", remedy, ReasonCode.SOURCE_UNREACHABLE, "source:notes"
    )
    synced(world, "completed", succeeded=1)
    assert found(world, home) == {}


@pytest.mark.parametrize(("error", "is_told"), [(GONE, False), (None, False), (LoginFailed("mail: refused"), True)])
def test_failure_after_a_good_sync_counts_when_it_repeats_or_stays(
    world: World, home: Home, error: CatchmentError | None, is_told: bool
) -> None:
    synced(world, "completed")
    synced(world, "failed", error)
    assert bool(found(world, home)) is is_told
    synced(world, "completed")
    synced(world, "failed", error)
    world.clock.forward(hours=2, minutes=1)
    assert found(world, home), "no good sync followed"
    synced(world, "failed", error)
    assert found(world, home)
    synced(world, "completed")
    for number in range(3):
        assert bool(found(world, home)) is (is_told and number > 0)
        synced(world, "failed", error)
    assert found(world, home), "the third in a row"


def test_cancelled_or_running_sync_does_not_hide_a_failed_one(world: World, home: Home) -> None:
    synced(world, "failed", GONE)
    synced(world, "cancelled")
    assert set(found(world, home)) == {(ReasonCode.SOURCE_UNREACHABLE, "source:notes")}
    world.ledger.syncs.begin(world.source.id, run=None, owner=identity(), code_version="1", alive=lambda _: False)
    assert set(found(world, home)) == {(ReasonCode.SOURCE_UNREACHABLE, "source:notes")}


@pytest.mark.parametrize(
    ("verdict", "read", "is_wrong"),
    [
        (FAIL, "source:notes", True),
        (WARN, "source:notes", False),
        (OK, "source:notes", False),
        (OK, "", True),
    ],
)
def test_later_check_tells_that_a_source_can_be_read_again(
    world: World, home: Home, verdict: Verdict, read: str, is_wrong: bool
) -> None:
    """`read`: the source that the check has read; the check contacts no host."""
    synced(world, "failed", GONE)
    ended = world.clock.moment
    finding = Condition("source notes", verdict, "last sync failed", subject=read)
    report = HealthReport.of((finding,), ended + timedelta(seconds=1))
    report.write(home)
    assert bool(found(world, home)) is is_wrong
    replace(report, at=ended - timedelta(seconds=1)).write(home)
    assert found(world, home), "an earlier check says nothing"


def test_sync_after_a_failed_check_tells_that_a_source_can_be_read(world: World, home: Home) -> None:
    synced(world, "completed", succeeded=1)
    gone = Condition("source notes", FAIL, "folder not found", "", ReasonCode.SOURCE_UNREACHABLE, "source:notes")
    HealthReport.of((gone,), world.clock.moment + timedelta(seconds=1)).write(home)

    def present() -> list[Condition]:
        judged = [*of_ledger(world.ledger, home, latest(world))]
        return problems((*judged, *of_last_check(home, judged, world.clock.moment)))

    assert present() == [gone]
    synced(world, "completed", succeeded=1)
    assert present() == []


def test_held_source_names_its_cause_until_it_is_resumed(world: World, home: Home) -> None:
    synced(world, "quarantined", GONE)
    HealthReport.of((Condition("source notes", WARN, "is read"),), world.clock.moment + timedelta(1)).write(home)
    (condition,) = found(world, home).values()
    assert condition.reason is ReasonCode.SOURCE_UNREACHABLE
    assert condition.remedy == "check its address, then: catchment sources test notes"
    world.ledger.sources.hold("notes", "catchment", "it crashed the runner twice")
    synced(world, "completed", source=world.ledger.sources.put("plots", "github", Priority.NORMAL))
    world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    world.ledger.sources.hold("mail", "catchment", "it crashed the runner twice")
    assert (ReasonCode.SOURCE_HELD, "source:mail") in found(world, home)


def test_source_held_after_its_process_ended_names_why(world: World, home: Home) -> None:
    synced(world, "crashed")
    world.ledger.sources.hold("notes", "worker", "it ended its runner twice")
    (condition,) = found(world, home).values()
    assert condition.problem == "it ended its runner twice"


def test_paused_source_is_not_wrong(world: World, home: Home) -> None:
    synced(world, "failed", GONE)
    world.ledger.sources.pause("notes", "operator:anna", "moving house")
    assert found(world, home) == {}


def test_crashed_sync_counts_until_another_continues(world: World, home: Home) -> None:
    synced(world, "crashed", CatchmentError("unexpected KeyError"))
    (condition,) = found(world, home).values()
    assert (condition.reason, condition.message) == (ReasonCode.SYNC_FAILED, "unexpected KeyError")
    assert condition.remedy == "catchment sync notes", "a test of the source starts no sync after a crash"
    synced(world, "crashed")
    assert set(found(world, home)) == {(ReasonCode.SYNC_FAILED, "source:notes")}
    world.ledger.syncs.begin(world.source.id, run=None, owner=identity(), code_version="1", alive=lambda _: False)
    assert found(world, home) == {}


def test_open_sync_of_a_dead_process_is_stuck(world: World, home: Home) -> None:
    (condition,) = found(world, home).values()
    assert (condition.key, condition.remedy) == ((ReasonCode.SYNC_STUCK, "source:notes"), RESTART)


def test_open_sync_is_stuck_without_a_finished_item_for_long(world: World, home: Home) -> None:
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.ledger.syncs.begin(
        world.source.id, run=None, owner=identity(), code_version="1", alive=lambda _: False
    )
    world.see(*notes(3))
    world.clock.forward(minutes=29)
    assert found(world, home) == {}
    world.clock.forward(minutes=2)
    assert set(found(world, home)) == {(ReasonCode.SYNC_STUCK, "source:notes")}
    world.ledger.measures.tally.add(JOBS, 1, world.source.id, outcome="succeeded")
    world.ledger.measures.flush()
    assert found(world, home) == {}


# Items


def test_many_items_that_no_parser_reads_mean_a_broken_parser(world: World, home: Home) -> None:
    jobs = fail(world, *(f"{n}.pdf" for n in range(5)), failure=PARSE_ERROR)
    synced(world, "completed", quarantined=5, succeeded=1)
    (condition,) = found(world, home).values()
    assert (condition.reason, condition.subject) == (ReasonCode.PARSER_BROKEN, "source:notes")
    assert condition.message == "5 of the latest 6 items failed (parse_error)"
    synced(world, "completed")
    assert found(world, home), "a sync without items says nothing about parsers"
    world.ledger.quarantine.retry(jobs, "operator:anna")
    synced(world, "completed", succeeded=5)
    assert found(world, home) == {}


@pytest.mark.parametrize(("bad", "good"), [(4, 0), (5, 6), (50, 1_000)])
def test_few_items_that_fail_are_no_incident(world: World, home: Home, bad: int, good: int) -> None:
    fail(world, *(f"{n}.pdf" for n in range(4)), failure=PARSE_ERROR)
    synced(world, "completed", quarantined=bad, succeeded=good)
    assert found(world, home) == {}


def test_items_that_fail_for_other_reasons_are_rising_failures(world: World, home: Home) -> None:
    jobs = fail(world, *(f"{n}.md" for n in range(5)), failure=TIMEOUT)
    synced(world, "completed", quarantined=5)
    (condition,) = found(world, home).values()
    assert condition.reason is ReasonCode.FAILURES_RISING
    world.ledger.quarantine.discard(jobs, "operator:anna", "not needed")
    assert found(world, home) == {}


def test_held_deletions_wait_for_a_decision(world: World, home: Home) -> None:
    world.ingest(*notes(30))
    world.lose(*(item.locator for item in notes(15)))
    world.settle()
    synced(world, "completed")
    (condition,) = found(world, home).values()
    assert condition.key == (ReasonCode.DELETIONS_HELD, "source:notes")
    assert condition.message.startswith("15 deletions wait for a decision: ")


@pytest.mark.parametrize(
    ("before", "waiting", "is_wrong"),
    [(0, 1_000, True), (1_000, 1_000, True), (1_000, 1_200, True), (1_001, 1_000, False), (0, 999, False)],
)
def test_backlog_that_does_not_fall_is_wrong(before: int, waiting: int, is_wrong: bool) -> None:
    assert [one.reason for one in of_queue(waiting, before)] == [ReasonCode.BACKLOG_GROWING] * is_wrong


def test_jobs_wait_after_the_first_sync_of_a_source(world: World) -> None:
    world.see(*notes(3))
    for outcome, waiting in (("cancelled", 0), ("completed", 3), ("failed", 3)):
        synced(world, outcome)
        assert waiting_jobs(world.ledger, latest(world)) == waiting
    world.ledger.sources.pause("notes", "operator:anna", "moving house")
    assert waiting_jobs(world.ledger, latest(world)) == 0


# Hosts and consents


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        (RateReport(retry_after=60), "api.example.org requested a pause"),
        (RateReport(limit=10, remaining=0, resets_in=600), "the hourly quota of api.example.org is used up"),
        (RateReport(limit=10, remaining=5, resets_in=600), None),
    ],
)
def test_host_that_limits_requests_is_told(world: World, home: Home, rates: RateReport, message: str | None) -> None:
    synced(world, "completed")
    world.ledger.pacing.report(HostLimits("api.example.org", "me"), Report(rates=[rates]))
    conditions = found(world, home)
    assert [one.message for one in conditions.values()] == ([message] if message else [])
    assert set(conditions) <= {(ReasonCode.HOST_THROTTLED, "host:api.example.org")}


def test_pause_of_one_of_many_hosts_is_no_trouble(world: World, home: Home) -> None:
    synced(world, "completed")
    limits, report = HostLimits("blog.example.org", every=1.0), Report(rates=[RateReport(retry_after=60)])
    world.ledger.pacing.report(limits, report)
    assert found(world, home) == {}


def test_slow_host_is_told_while_it_is_asked(world: World, home: Home) -> None:
    synced(world, "completed")
    limits, ask = HostLimits("mail.example.org"), Report(answers=2, slow=2)
    for _ in range(3):
        world.clock.forward(seconds=6)
        world.ledger.pacing.take(Ask(limits, "notes", "me", 1, intake=True), ask, None)
    ticket, _ = world.ledger.pacing.ask(limits, "notes", identity())
    assert set(found(world, home)) == {(ReasonCode.HOST_THROTTLED, "host:mail.example.org")}
    world.ledger.pacing.release(ticket)
    assert found(world, home) == {}


@pytest.mark.parametrize(
    ("age", "message"),
    [
        (timedelta(days=20), None),
        (timedelta(days=25), "consent expires on 2026-12-20"),
        (timedelta(days=31), "consent expired"),
    ],
)
def test_consent_is_told_a_week_before_it_ends(world: World, home: Home, age: timedelta, message: str | None) -> None:
    synced(world, "completed")
    now = world.clock.moment
    world.ledger.consents.give(world.source.id, ["content"], "anna", now + timedelta(days=30))
    world.clock.forward(days=age.days)
    assert [one.message for one in found(world, home).values()] == ([message] if message else [])


def test_missing_consent_is_told(world: World, home: Home) -> None:
    synced(world, "completed")
    world.ledger.consents.ask(world.source.id, ["content"])
    (condition,) = found(world, home).values()
    assert (condition.message, condition.remedy) == ("no consent given", "catchment consent give notes")


# The machine


def reasons(conditions: Sequence[Condition]) -> list[ReasonCode]:
    return [condition.reason for condition in conditions]


def test_running_system_is_well(world: World, home: Home) -> None:
    worker(world, home)
    assert of_the_machine(world, home) == []


def test_worker_that_does_not_report_is_silent(world: World, home: Home) -> None:
    assert reasons(of_the_machine(world, home)) == [ReasonCode.WORKER_SILENT]
    assert of_the_machine(world, home, is_up=False) == []
    worker(world, home)
    world.clock.forward(minutes=1)
    assert reasons(of_the_machine(world, home)) == [ReasonCode.WORKER_SILENT]
    worker(world, home, problem="the runner crashed")
    (condition,) = of_the_machine(world, home)
    assert condition.problem == "the runner crashed several times in a row"


@pytest.mark.parametrize("part", ["server", "events"])
def test_server_that_does_not_respond_is_silent(world: World, home: Home, part: str) -> None:
    worker(world, home)
    assert reasons(of_the_machine(world, home, **{part: TryAgain("x")})) == [ReasonCode.SERVER_SILENT]
    assert of_the_machine(world, home, is_up=False, **{part: TryAgain("x")}) == []


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LedgerUnavailable("ledger: busy; wait"), ReasonCode.LEDGER_UNWRITABLE),
        (TryAgain("no response within 2 s"), ReasonCode.LEDGER_UNWRITABLE),
        (LedgerCorrupt("ledger: damaged; restore"), ReasonCode.LEDGER_DAMAGED),
    ],
)
def test_ledger_that_cannot_be_written_is_told(
    world: World, home: Home, error: CatchmentError, code: ReasonCode
) -> None:
    worker(world, home)
    assert reasons(of_the_machine(world, home, ledger=error)) == [code]
    assert reasons(of_the_machine(world, home, lease=error)) == [code]


def test_missing_ledger_is_not_wrong(world: World, home: Home) -> None:
    worker(world, home)
    assert of_the_machine(world, home, ledger=NotFound("no ledger")) == []


def test_full_disk_also_excuses_an_old_report_of_the_worker(
    world: World, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker(world, home)
    world.clock.forward(minutes=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=99_000_000))
    assert reasons(of_the_machine(world, home)) == [ReasonCode.DISK_FULL]


def test_partly_watched_source_is_told(world: World, home: Home) -> None:
    worker(world, home)
    states: Mapping[str, WatchState] = {
        "notes": WatchState(Watching.LIMITED, "on NFS", "add a schedule"),
        "papers": WatchState(Watching.WATCHING),
    }
    watch_status.write(home, states)
    assert of_the_machine(world, home) == [
        Condition("watch notes", WARN, "on NFS", "add a schedule", ReasonCode.WATCH_LIMITED, "source:notes")
    ]


@pytest.mark.parametrize(
    "code",
    [
        ReasonCode.LOGIN_EXPIRING,
        ReasonCode.SETTINGS_INVALID,
        ReasonCode.MEANING_STALLED,
        ReasonCode.UPKEEP_FAILED,
        ReasonCode.SOURCE_UNREACHABLE,
    ],
)
def test_checks_that_are_not_ok_are_conditions_while_they_are_recent(
    world: World, home: Home, code: ReasonCode
) -> None:
    worker(world, home)
    finding = Condition("x", WARN, "it is bad; last good 5 min ago", "do this", code, "source:mail")
    HealthReport.of((finding, replace(finding, verdict=OK, subject="source:other")), world.clock.moment).write(home)
    assert of_the_machine(world, home) == [finding]
    assert finding.problem == "it is bad"
    world.clock.forward(minutes=7)
    worker(world, home)
    assert of_the_machine(world, home) == []


def test_what_is_judged_more_often_is_not_taken_from_the_last_check(world: World, home: Home) -> None:
    worker(world, home)
    codes = {
        "disk": ReasonCode.DISK_FULL,
        "server": ReasonCode.SERVER_SILENT,
        "worker": ReasonCode.WORKER_SILENT,
        "ledger": ReasonCode.LEDGER_UNWRITABLE,
    }
    report = tuple(Condition(probe, FAIL, "bad", "", code) for probe, code in codes.items())
    HealthReport.of(report, world.clock.moment).write(home)
    assert of_the_machine(world, home) == []


@pytest.mark.parametrize(
    ("message", "problem", "remedy"),
    [
        ("notes: folder not found; mount its disk", "notes: folder not found", "mount its disk"),
        ("no answer (timed out; 3 times); try again", "no answer (timed out; 3 times)", "try again"),
        ("run `a; b`; then c", "run `a; b`", "then c"),
        ("refused (a (b; c); d); e; f", "refused (a (b; c); d)", "e; f"),
        ("odd (name; remedy", "odd (name", "remedy"),
        ("only (a; b)", "only (a; b)", ""),
        ("nothing to do", "nothing to do", ""),
    ],
)
def test_remedy_begins_behind_the_first_semicolon_outside_of_parentheses(
    message: str, problem: str, remedy: str
) -> None:
    assert split_remedy(message) == (problem, remedy)
