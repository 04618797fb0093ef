"""The counts of a transaction: each figure once, by source, and only if the transaction is committed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from catchment.errors import AccessDenied, FailureClass, Reason, StaleLease
from catchment.ledger import FailureInfo
from catchment.ledger.db.database import Store
from catchment.model import Failure, JobState
from catchment.pacing import HostLimits, RateProfile
from catchment.pacing.metered import Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.telemetry import catalogue
from catchment.telemetry.catalogue import Metric
from catchment.telemetry.tally import Figure
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, note

LIMITS = HostLimits("mail.example.org", profile=RateProfile.CONSERVATIVE, per_hour=100)
UNKNOWN = FailureInfo(Reason.UNKNOWN, FailureClass.UNKNOWN, "Unexpected", "odd")


def figures(world: World, metric: Metric) -> dict[tuple[str, ...], Figure]:
    """Return the stored figures of a metric by label values. All belong to the source of the world."""
    found = {key[1:]: figure for key, figure in world.ledger.measures.totals().items() if key[0] == metric.name}
    assert {(kind, priority) for _, kind, priority in found} <= {("obsidian", "normal")}
    return {labels: figure for (labels, *_), figure in found.items()}


def values(world: World, metric: Metric) -> dict[tuple[str, ...], float]:
    return {labels: figure.total for labels, figure in figures(world, metric).items()}


def fail(world: World, failure: FailureInfo, *, after: float | None = None) -> int:
    """Claim the only job, and fail it; `after` seconds it is due again."""
    [job] = (batch := world.claim()).jobs
    retry_at = None if after is None else world.clock.moment + timedelta(seconds=after)
    world.ledger.queue.fail(batch.token, job.id, failure, retry_at=retry_at)
    return job.id


def test_jobs_are_counted_by_outcome_and_their_wait_by_bucket(world: World) -> None:
    world.see(note("a.md"), note("b.md"))
    world.clock.forward(seconds=3)
    world.deliver(world.claim())
    assert values(world, catalogue.JOBS) == {("succeeded",): 2}
    wait = figures(world, catalogue.JOB_WAIT)[()]
    assert (wait.n, wait.total, wait.buckets.index(2)) == (2, 6, catalogue.BOUNDS.index(5))


def test_failed_attempts_are_counted_by_reason_and_class(world: World) -> None:
    world.see(note("a.md"))
    fail(world, TIMEOUT, after=30)
    world.clock.forward(seconds=31)
    fail(world, PARSE_ERROR)
    assert values(world, catalogue.FAILURES) == {("timeout", "transient"): 1, ("parse_error", "permanent"): 1}
    assert values(world, catalogue.RETRY_DELAY) == {("timeout",): 30}
    assert values(world, catalogue.JOBS) == {("retrying",): 1, ("quarantined",): 1}


def test_item_that_the_listing_cannot_read_is_a_failed_attempt(world: World) -> None:
    world.record(Failure(note("a.md"), AccessDenied("no permission")))
    assert values(world, catalogue.FAILURES) == {("permission_denied", "permanent"): 1}


def test_success_after_failures_counts_with_the_last_reason(world: World) -> None:
    world.see(note("a.md"), note("b.md"))
    batch = world.claim()
    first, second = batch.jobs
    world.ledger.queue.fail(batch.token, first.id, TIMEOUT, retry_at=world.clock.moment)
    world.ledger.queue.deliver(batch.token, [world.done(second)])
    fail(world, UNKNOWN)
    world.ledger.quarantine.retry([first.id], "ada")
    world.deliver(world.claim())
    assert values(world, catalogue.RECOVERED) == {("unknown",): 1}


def test_job_that_killed_its_process_too_often_is_a_failed_attempt(world: World) -> None:
    world.see(note("a.md"))
    world.claim(owner="dead")
    world.ledger.queue.recover(world.source.id, lambda _: False, 1)
    assert values(world, catalogue.FAILURES) == {("process_killed", "transient"): 1}


def test_refused_delivery_counts_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.see(note("a.md"))
    batch = world.claim()
    with monkeypatch.context() as patch:
        patch.setattr("catchment.ledger.jobs.delivery._settle_quarantine", _broken)
        with pytest.raises(StaleLease):
            world.deliver(batch)
    assert values(world, catalogue.JOBS) == {}


def test_figures_outside_of_a_failed_transaction_are_kept(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = world.ledger.measures.tally
    tally.add(catalogue.BYTES_READ, 7, world.source.id)
    store: Store = world.ledger._store
    with pytest.raises(StaleLease), store.write():
        _broken()
    tally.add(catalogue.BYTES_READ, 5, world.source.id)
    world.ledger.measures.flush()
    world.ledger.measures.flush()
    assert values(world, catalogue.BYTES_READ) == {(): 12}


def test_quota_is_hit_only_while_it_holds_jobs_back(world: World) -> None:
    world.ledger.throttles.put("all", Rule(per_hour=2), "ada", "")
    world.see(note("a.md"), note("b.md"))
    world.deliver(world.claim())
    world.claim()
    assert values(world, catalogue.LIMITED) == {}
    world.see(note("c.md"))
    world.claim()
    assert values(world, catalogue.LIMITED) == {("quota",): 1}


def test_each_limit_of_a_host_is_counted_when_it_makes_a_sync_wait(world: World) -> None:
    pacing = world.ledger.pacing

    def ask(cost: int = 1, report: Report | None = None) -> str:
        return pacing.take(Ask(LIMITS, "notes", "me", cost, False), report or Report("notes"), None).why

    ask(50)
    assert ask(20) == "rate"
    world.clock.forward(seconds=60)
    ask(40)
    world.clock.forward(seconds=60)
    assert ask() == "host"
    assert ask(report=Report("notes", throttled=2)) == "host"
    world.ledger.throttles.put("all", Rule(paused=True), "ada", "")
    assert ask() == "rule"
    world.ledger.throttles.put("all", Rule(), "ada", "")
    for _ in range(5):
        pacing.failed(LIMITS, "notes", login=False)
    assert ask() == "breaker"
    assert values(world, catalogue.LIMITED) == {("rate",): 1, ("host",): 4, ("rule",): 1, ("breaker",): 1}


def test_sync_that_may_not_start_has_hit_a_limit(world: World) -> None:
    pacing = world.ledger.pacing
    assert pacing.not_before("notes", LIMITS, "me") is None
    assert values(world, catalogue.LIMITED) == {}
    pacing.take(Ask(LIMITS, "notes", "me", 90, False), Report("notes"), None)
    assert pacing.not_before("notes", LIMITS, "me") is not None
    for _ in range(5):
        pacing.failed(LIMITS, "notes", login=False)
    assert pacing.not_before("notes", LIMITS, "me") is not None
    assert values(world, catalogue.LIMITED) == {("host",): 1, ("breaker",): 1}


def test_backlog_has_the_open_states_and_the_oldest_job(world: World) -> None:
    assert world.ledger.queue.backlogs() == {}
    world.see(note("a.md"))
    oldest = world.clock.moment
    fail(world, TIMEOUT, after=30)
    world.clock.forward(seconds=5)
    world.see(note("b.md"), note("c.md"))
    world.claim(1)
    backlog = world.ledger.queue.backlogs()[world.source.id]
    assert backlog.jobs == {JobState.PENDING: 1, JobState.RUNNING: 1, JobState.RETRYING: 1}
    assert backlog.oldest == oldest
    assert world.ledger.queue.oldest() == {"notes": oldest}


def _broken(*_: object) -> None:
    raise StaleLease("as after a lost lease")
