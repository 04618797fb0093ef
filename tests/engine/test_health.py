"""The health probes: their inputs and verdicts."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from catchment.errors import LoginFailed, SourceUnavailable
from catchment.ledger import Ledger
from catchment.pacing.waits import WaitKind
from catchment.runtime.home import Home
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry.incidents import Condition, ReasonCode, Verdict, worst
from catchment.views import health
from catchment.views.health import LastCheck

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL


def ago(**length: float) -> datetime:
    return NOW - timedelta(**length)


class Usage(NamedTuple):
    free: float


@pytest.mark.parametrize(
    ("up", "started", "is_alive", "responds", "verdict", "message"),
    [
        (ago(hours=1), ago(minutes=59), True, True, OK, "responds"),
        (ago(hours=1), ago(minutes=3), True, True, OK, "responds; restarted 3 min ago"),
        (ago(hours=1), ago(minutes=59), True, False, WARN, "does not respond; searches use words only"),
        (ago(hours=1), ago(minutes=59), False, False, WARN, "not running; searches use words only"),
        (ago(minutes=1), ago(hours=1), False, False, OK, "starting; until then, searches use words only"),
        (ago(minutes=1), None, False, False, OK, "starting; until then, searches use words only"),
        (ago(minutes=3), None, False, False, WARN, "not running; searches use words only"),
    ],
)
def test_web_process_is_checked(
    up: datetime, started: datetime | None, is_alive: bool, responds: bool, verdict: Verdict, message: str
) -> None:
    found = health.web(up, started, is_alive, responds, NOW)
    assert (found.verdict, found.message) == (verdict, message)
    assert bool(found.remedy) is (verdict is WARN or "restarted" in message)


@pytest.mark.parametrize(("free", "verdict"), [(5.1e9, OK), (4.9e9, WARN), (0.2e9, WARN), (0.05e9, FAIL)])
def test_the_disk_warns_below_5_gb_and_fails_when_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: float, verdict: Verdict
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(free))
    found = health.disk(tmp_path)
    assert (found.verdict, bool(found.remedy)) == (verdict, verdict is not OK)


def test_missing_home_fails_the_disk_probe(tmp_path: Path) -> None:
    found = health.disk(tmp_path / "unmounted")
    assert found.verdict is FAIL
    assert "create it" in found.remedy and "mount" in found.remedy, "it may be the first time, or the disk"


def test_intact_ledger_passes_and_damaged_ledger_fails_with_remedy(home: Home) -> None:
    def checked(last: LastCheck | None = None) -> Condition:
        return health.ledger(health.opened(home), last, NOW)

    assert checked().verdict is OK
    Ledger.open(home.database_url).close()
    assert checked().message == "OK; integrity check runs daily (none yet)"
    assert checked(LastCheck(ago(hours=3), 0)).message.endswith("integrity check passed 3 h ago")
    assert checked(LastCheck(ago(hours=3), 2)).verdict is FAIL
    differs = checked(LastCheck(ago(hours=3), 0, 1))
    assert (differs.verdict, differs.remedy) == (FAIL, "catchment audit verify")
    (home.path / "ledger.db").write_bytes(b"this was a ledger\n" * 1000)
    assert (checked().verdict, "backup" in checked().remedy) == (FAIL, True)


def test_integrity_check_result_is_remembered(home: Home) -> None:
    assert LastCheck.read(home) is None
    LastCheck(datetime.now(UTC), 3, 4).write(home)
    found = LastCheck.read(home)
    assert found is not None
    assert (found.broken, found.differences) == (3, 4)
    assert [path.name for path in home.run.iterdir() if path.suffix != ".lock"] == ["ledger-check.json"]


@pytest.mark.parametrize(
    ("running", "answers", "verdict"), [(True, True, OK), (True, False, FAIL), (False, False, FAIL)]
)
def test_server_without_a_response_fails(running: bool, answers: bool, verdict: Verdict) -> None:
    assert health.server(running, answers).verdict is verdict


@pytest.mark.parametrize(
    ("plan", "verdict", "message"),
    [
        ((0, 0, []), OK, "no run planned"),
        ((2, 9, [NOW + timedelta(minutes=4)]), OK, "next run in 4 min"),
        ((2, 9, [ago(seconds=50)]), OK, "on time"),
        ((2, 9, [ago(seconds=70), ago(minutes=9)]), WARN, "2 runs are late, the oldest by 9 min"),
        ((2, 0, []), WARN, "no run is planned"),
    ],
)
def test_late_scheduler_is_a_warning(plan: tuple[int, int, list[datetime]], verdict: Verdict, message: str) -> None:
    found = health.scheduler(*plan, NOW)
    assert (found.verdict, message in found.message) == (verdict, True), found


@pytest.mark.parametrize(
    ("heard", "verdict"), [(None, FAIL), (ago(seconds=91), FAIL), (ago(seconds=89), OK), (ago(seconds=-2), OK)]
)
def test_worker_without_a_heartbeat_for_90_seconds_fails(heard: datetime | None, verdict: Verdict) -> None:
    assert health.worker(heard, None, NOW).verdict is verdict


def test_worker_reports_its_run_limit() -> None:
    fewer = WorkerStatus("", NOW, limit=1, cap=4, cpu=0.9, memory=0.5, waiting=2, runs=("run",))
    message = "online; 1 running, 2 waiting, at most 1 at once (reduced from 4: processor 90%, memory 50% in use)"
    assert health.worker(NOW, fewer, NOW).message == message


@pytest.mark.parametrize(("wanted", "alive", "verdict"), [(0, False, OK), (1, True, OK), (2, False, WARN)])
def test_missing_watcher_matters_only_to_watched_sources(wanted: int, alive: bool, verdict: Verdict) -> None:
    assert health.watcher(wanted, alive).verdict is verdict


def standing(**more: Any) -> Condition:
    fields = {"name": "notes", "wait": None, "trouble": None, "last_good": ago(minutes=3)}
    return health.source(**{**fields, **more}, now=NOW)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (standing(), Condition("source notes", OK, "can be read; last good sync 3 min ago", subject="source:notes")),
        (standing(last_good=None), Condition("source notes", OK, "can be read; never synced", subject="source:notes")),
        (standing(is_read=False), Condition("source notes", OK, "last good sync 3 min ago")),
        (
            standing(wait=WaitKind.PAUSED.of("notes"), trouble=SourceUnavailable("Vault is gone")),
            Condition("source notes", OK, "paused; last good sync 3 min ago", "catchment sources resume notes"),
        ),
        (
            standing(wait=WaitKind.SWITCHED_OFF.of("notes")),
            Condition(
                "source notes",
                WARN,
                "paused (switched off in Prefect); last good sync 3 min ago",
                "catchment sources resume notes",
            ),
        ),
        (
            standing(trouble=SourceUnavailable("Vault is gone; mount its disk")),
            Condition(
                "source notes",
                FAIL,
                "Vault is gone; last good sync 3 min ago",
                "mount its disk",
                ReasonCode.SOURCE_UNREACHABLE,
                "source:notes",
            ),
        ),
        (
            standing(trouble=LoginFailed("the login was refused")),
            Condition(
                "source notes",
                FAIL,
                "the login was refused; last good sync 3 min ago",
                "catchment sources test notes",
                ReasonCode.LOGIN_REFUSED,
                "source:notes",
            ),
        ),
        (
            standing(
                wait=WaitKind.HELD.of("notes"), known=Condition("source notes", FAIL, "held: it crashed", "resume it")
            ),
            Condition(
                "source notes",
                FAIL,
                "held: it crashed; last good sync 3 min ago",
                "resume it",
                subject="source:notes",
            ),
        ),
        (
            standing(known=Condition("watch notes", WARN, "on NFS", "add a schedule", ReasonCode.WATCH_LIMITED)),
            Condition(
                "source notes", WARN, "on NFS; last good sync 3 min ago", "add a schedule", subject="source:notes"
            ),
        ),
    ],
)
def test_source_verdict_is_its_first_problem(one: Condition, expected: Condition) -> None:
    assert one == expected


def test_overall_verdict_is_the_worst_finding() -> None:
    findings = [Condition("one", OK, ""), Condition("two", FAIL, ""), Condition("three", WARN, "")]
    assert [worst(findings[:n]) for n in range(4)] == [OK, OK, FAIL, FAIL]
    assert worst(findings[::2]) is WARN
