"""A sync of a host-based source: its preflight checks, the resources it holds, and its end when the host demands a
wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from typing import ClassVar

import pytest

from catchment.errors import FetchFailed, LoginFailed, NotNow, RateLimited, SourceError, SourceUnavailable
from catchment.ledger import BucketRow, Ledger
from catchment.model import Change, Checkpoint, Item, Priority, RawContent
from catchment.pacing import HostLimits, Pace
from catchment.pacing.operator_rules import Rule
from catchment.pacing.waits import WaitKind
from catchment.settings import Home, Policy
from catchment.sync.eta import MeasuredPace as Measured
from catchment.sync.eta import completion_time, estimate
from catchment.sync.preflight import WHOLE
from catchment.sync.source_sync import SourceSync, open_sync
from catchment.views.throttling import hosts, overview
from catchment.views.waits import breakers, of_limits
from connectors.local_files import LocalFiles, LocalFilesSettings

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class Remote(LocalFiles):
    """A folder that is rate limited like a host. Listing it raises `trouble`, if set."""

    kind: ClassVar[str] = "remote"
    fetch_in_parser: ClassVar[bool] = False
    trouble: SourceError | None = None
    refused_from: int | None = None
    allowed: int = 1_000

    def __init__(self, settings: LocalFilesSettings) -> None:
        super().__init__(settings)
        self.pace = Pace()

    def limits(self) -> HostLimits:
        return HostLimits("files.example.org", per_hour=self.allowed)

    def changes(self, known: object, *, deep: bool = False) -> Iterator[Change]:
        with self.pace.transfer():
            if self.trouble:
                raise self.trouble
            found = list(super().changes(known, deep=deep))  # type: ignore[arg-type]
        yield from found

    def fetch(self, item: Item) -> RawContent:
        with self.pace.transfer():
            if self.refused_from is not None and self.pace.requests > self.refused_from:
                raise RateLimited("files.example.org", 3_600)
            return super().fetch(item)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    folder = tmp_path / "folder"
    folder.mkdir()
    for n in range(20):
        (folder / f"note {n}.md").write_text(f"Note number {n}")
    return Remote(Remote.settings(root=folder))


@pytest.fixture
def ledger(home: Home) -> Iterator[Ledger]:
    with closing(Ledger.open(home.database_url)) as ledger:
        source = ledger.sources.put("papers", "remote", Priority.NORMAL)
        ledger.consents.give(source.id, {WHOLE}, "operator", None)
        yield ledger


def syncing(home: Home, remote: Remote) -> AbstractContextManager[SourceSync]:
    return open_sync(home, remote, "papers", Policy(), Priority.NORMAL)


def full_sync(home: Home, remote: Remote) -> dict[str, int]:
    with syncing(home, remote) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        return sync.finish("completed")


def test_requests_are_counted_and_all_slots_released(home: Home, remote: Remote, ledger: Ledger) -> None:
    summary = full_sync(home, remote)
    assert (summary["succeeded"], summary["requests"]) == (20, 21)
    assert ledger.pacing.places() == []
    [bucket] = ledger.pacing.buckets()
    assert (bucket.allowed, bucket.left) == (1_000, 900 - 21)


def test_sync_yields_on_a_wait_request_and_resumes_later(home: Home, remote: Remote, ledger: Ledger) -> None:
    remote.trouble = RateLimited("files.example.org", 3_600)
    with syncing(home, remote) as sync:
        with pytest.raises(RateLimited) as told:
            sync.discover()
        sync.finish("failed", told.value)
        assert sync.outcome != "quarantined"
        back = sync.next_retry()
    source = ledger.sources.get("papers")
    assert (source.failures, source.state) == (0, "active")
    with pytest.raises(NotNow) as refused, syncing(home, remote):
        pass
    assert refused.value.until is not None and back is not None
    assert abs(refused.value.until - back) < timedelta(seconds=30)
    assert "requested by the host" in str(refused.value)


def test_items_fetched_before_a_wait_request_are_delivered(home: Home, remote: Remote, ledger: Ledger) -> None:
    remote.refused_from = 8
    with syncing(home, remote) as sync:
        sync.discover()
        token = sync.claim(250)
        assert token is not None
        sync.normalize(token)
        with pytest.raises(RateLimited) as told:
            sync.process(token)
        sync.finish("failed", told.value)
    counts = ledger.queue.counts()["papers"]
    assert (counts["succeeded"], counts["pending"]) == (7, 13)
    assert ledger.pacing.places() == []
    last = ledger.syncs.last(sync.source.id)
    assert last is not None and last.outcome == "yielded" and last.expected is not None
    assert timedelta(minutes=59) < last.expected - datetime.now(UTC) < timedelta(hours=2)


def test_items_withheld_by_the_host_are_not_counted_as_read(
    home: Home, remote: Remote, ledger: Ledger, tmp_path: Path
) -> None:
    for n in range(20):
        (tmp_path / "folder" / f"note {n}.md").write_text(f'password: "k7#Qz!m2Lp9@Vx4w{n}"')
    remote.refused_from = 8
    with syncing(home, remote) as sync:
        sync.discover()
        token = sync.claim(250)
        assert token is not None
        for _ in range(2):
            with pytest.raises(RateLimited):
                sync.process(token)
        assert (sync.progress.read, sync.progress.succeeded, sync.progress.masked) == (7, 7, 7)


def test_yielding_sync_counts_earlier_abandoned_items(
    home: Home, remote: Remote, ledger: Ledger, tmp_path: Path
) -> None:
    (tmp_path / "folder" / "a.pdf").write_bytes(b"%PDF-1.7\nthis is no PDF")
    remote.refused_from = 8
    with syncing(home, remote) as sync:
        sync.discover()
        token = sync.claim(250)
        assert token is not None
        with pytest.raises(RateLimited) as told:
            sync.process(token)
        sync.finish("failed", told.value)
    last = ledger.syncs.last(sync.source.id)
    assert last is not None
    assert (last.outcome, last.summary["succeeded"], last.summary["quarantined"]) == ("yielded", 6, 1)


def test_claims_stay_within_the_hourly_host_limit(home: Home, remote: Remote, ledger: Ledger) -> None:
    remote.allowed = 10
    with syncing(home, remote) as sync:
        sync.discover()
        while (token := sync.claim(5)) is not None:
            sync.process(token)
        later = sync.next_retry()
        assert sync.finish("completed")["succeeded"] == 8
    assert later is not None and timedelta(minutes=59) < later - datetime.now(UTC) <= timedelta(hours=1)
    with ledger._store.read() as reading:
        attempts = reading.connection.exec_driver_sql("SELECT max(attempt) FROM jobs WHERE state = 'pending'").scalar()
    assert attempts == 0


def test_host_with_five_failures_blocks_all_its_sources(home: Home, remote: Remote, ledger: Ledger) -> None:
    for _ in range(5):
        ledger.pacing.failed(remote.limits(), "another", login=False)
    with pytest.raises(NotNow, match="repeated failures of its host") as refused, syncing(home, remote):
        pass
    assert refused.value.until is not None
    assert timedelta() < refused.value.until - datetime.now(UTC) <= timedelta(seconds=60)
    ledger.pacing.reset("host:files.example.org", "operator")
    assert full_sync(home, remote)["succeeded"] == 20


def test_refused_login_is_not_retried_until_the_source_is_resumed(home: Home, remote: Remote, ledger: Ledger) -> None:
    remote.trouble = LoginFailed("the password was refused; set another")
    with syncing(home, remote) as sync:
        with pytest.raises(LoginFailed) as refused:
            sync.discover()
        sync.finish("failed", refused.value)
        assert sync.outcome == "quarantined"
    with pytest.raises(NotNow, match="held"), syncing(home, remote):
        pass
    remote.trouble = None
    ledger.sources.resume("papers", "operator")
    assert full_sync(home, remote)["succeeded"] == 20


class Scattered(Remote):
    """Notes on one host each. One of the hosts requests a pause."""

    def limits(self) -> None:  # type: ignore[override]
        return None

    def changes(self, known: object, *, deep: bool = False) -> Iterator[Change]:
        yield from LocalFiles.changes(self, known, deep=deep)  # type: ignore[arg-type]
        yield Checkpoint(again=NOW)

    def fetch(self, item: Item) -> RawContent:
        host = f"{PurePath(item.locator).stem.replace(' ', '')}.example.org"
        try:
            with self.pace.transfer(at=HostLimits(host, every=0.001)):
                if host == "note7.example.org":
                    raise RateLimited(host, 3_600)
                return LocalFiles.fetch(self, item)
        except RateLimited as error:
            raise FetchFailed("try later") from error


def test_source_of_several_hosts_completes_without_the_one_that_asks_for_a_pause(
    home: Home, remote: Remote, ledger: Ledger, tmp_path: Path
) -> None:
    scattered = Scattered(remote.settings(root=tmp_path / "folder"))
    with syncing(home, scattered) as sync:
        sync.discover()
        while (token := sync.claim(250)) is not None:
            sync.process(token)
        assert sync.update_eta() is None
        assert sync.next_retry() == NOW
        summary = sync.finish("completed")
        assert sync.next_retry() == NOW
    assert (summary["succeeded"], summary["requests"], summary["retrying"]) == (19, 20, 1)
    for _ in range(5):
        ledger.pacing.failed(HostLimits("note8.example.org", every=0.001), None, login=False)
    # They stop no source: they are listed on request, and are no trouble.
    assert [one.host for one in overview(ledger).hosts] == ["note7.example.org"]
    assert [one.name for one in overview(ledger).breakers if one.opened] == ["host:note8.example.org"]
    assert (
        hosts(ledger) == []
        and breakers(ledger) == {}
        and not any(of_limits(ledger).values())
        and len(ledger.pacing.buckets()) == 20
    )
    # Neither a listing that ends early nor the pause of a host keeps the next sync from its start.
    with syncing(home, scattered) as sync:
        sync.finish("completed")


def test_blackout_reports_the_earliest_sync_time(home: Home, remote: Remote, ledger: Ledger) -> None:
    now = datetime.now(UTC)
    around = f"{now - timedelta(hours=1):%H:%M}-{now + timedelta(hours=1):%H:%M} UTC"
    ledger.throttles.put("kind:remote", Rule(blackouts=(around,)), "operator", "")
    with pytest.raises(NotNow, match="blackout window") as refused, syncing(home, remote):
        pass
    assert refused.value.until is not None
    assert timedelta(minutes=58) < refused.value.until - now <= timedelta(minutes=61)
    ledger.throttles.put("kind:remote", Rule(paused=True), "operator", "")
    with pytest.raises(NotNow, match="pause") as refused, syncing(home, remote):
        pass
    assert refused.value.until is None


def test_blocked_sources_are_reported_by_name(home: Home, remote: Remote, ledger: Ledger) -> None:
    ledger.sources.put("other", "obsidian", Priority.NORMAL)
    assert not any(of_limits(ledger).values())
    ledger.pacing.failed(remote.limits(), "papers", login=True)
    ledger.throttles.put("kind:obsidian", Rule(paused=True), "operator", "")
    assert of_limits(ledger) == {"papers": (WaitKind.LOGIN.of("papers"),), "other": (WaitKind.RULE.of("other"),)}
    ledger.sources.resume("papers", "operator")
    for _ in range(5):
        ledger.pacing.failed(remote.limits(), "papers", login=False)
    (found,) = of_limits(ledger)["papers"]
    assert found.kind is WaitKind.FAILURES
    assert found.until is not None and found.until > datetime.now(UTC)


def test_quota_defers_the_remainder_to_the_next_hour(home: Home, remote: Remote, ledger: Ledger) -> None:
    ledger.throttles.put("source:papers", Rule(per_hour=12), "operator", "")
    with syncing(home, remote) as sync:
        sync.discover()
        while (token := sync.claim(5)) is not None:
            sync.process(token)
        later = sync.next_retry()
        assert sync.finish("completed")["succeeded"] == 12
    assert later is not None and timedelta(minutes=59) < later - datetime.now(UTC) <= timedelta(hours=1)


def test_eta_of_pending_jobs_uses_measured_rates(home: Home, remote: Remote, ledger: Ledger, tmp_path: Path) -> None:
    source = ledger.sources.get("papers")
    assert estimate(ledger, source, remote.limits(), NOW) is None
    full_sync(home, remote)
    (tmp_path / "folder" / "new.md").write_text("New")
    with syncing(home, remote) as sync:
        sync.discover()
        assert estimate(ledger, source, remote.limits(), NOW) is not None
        assert sync.update_eta() is not None
        token = sync.claim(5)
        assert token is not None
        sync.process(token)
        assert sync.update_eta() is None


def test_eta_includes_running_jobs_and_is_available_from_the_ledger(home: Home, remote: Remote, ledger: Ledger) -> None:
    with syncing(home, remote) as sync:
        sync.discover()
        first, second = sync.claim(5), sync.claim(250)
        assert first is not None and second is not None
        assert sync.update_eta() is None, "nothing was measured yet"
        sync.process(first)
        moment = sync.update_eta()
        running = ledger.syncs.last(sync.source.id)
        assert moment is not None and running is not None
        assert (running.outcome, running.expected) == (None, moment)


def test_first_eta_of_a_sync_uses_rates_of_earlier_syncs() -> None:
    earlier = Measured(seconds=0.1, requests=1.0, jobs=5_000)
    assert Measured(9.0, 2.0, 1).after(earlier).seconds == pytest.approx(0.1 + 8.9 / 101)
    assert Measured(0.5, 1.0, 9_900).after(earlier).seconds == pytest.approx(0.496)
    assert Measured(9.0, 2.0, 1).after(None).seconds == 9.0


@pytest.mark.parametrize(
    ("jobs", "left", "expected"),
    [
        (100, 4_500, timedelta(seconds=10)),
        (4_500, 4_500, timedelta(seconds=450)),
        (4_600, 4_500, timedelta(minutes=30, seconds=10)),
        (9_000 + 100, 4_500, timedelta(minutes=90, seconds=10)),
        (100, 0, timedelta(minutes=30, seconds=10)),
    ],
)
def test_eta_respects_the_host_budget_per_hour(jobs: int, left: int, expected: timedelta) -> None:
    budget = BucketRow("h", 10, 50, 50, 1.0, None, 5_000, left, NOW + timedelta(minutes=30))
    found = completion_time(NOW, jobs, Measured(seconds=0.1, requests=1.0), budget) - NOW
    assert abs(found - expected) < timedelta(seconds=1)


def test_unreachable_host_counts_as_a_failed_sync(home: Home, remote: Remote, ledger: Ledger) -> None:
    remote.trouble = SourceUnavailable("the host does not answer; check the network")
    with syncing(home, remote) as sync:
        with pytest.raises(SourceUnavailable) as gone:
            sync.discover()
        sync.finish("failed", gone.value)
    assert ledger.sources.get("papers").failures == 1
    assert {row.key for row in ledger.pacing.breakers()} == {"host:files.example.org", "source:papers"}
