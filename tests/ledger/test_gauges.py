"""The gauges: the present figures of the ledger, the home and the worker, summed by connector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catchment import __version__
from catchment.ledger import Incident
from catchment.model import Priority
from catchment.pacing import HostLimits
from catchment.pacing.metered import Ask, Report
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.worker_status import WorkerStatus
from catchment.telemetry import catalogue
from catchment.telemetry.catalogue import BY_NAME, Metric
from catchment.views.telemetry.gauges import current, gauges, sample
from tests.ledger.world import PARSE_ERROR, TIMEOUT, World, note

LIMITS = HostLimits("mail.example.org", per_hour=100)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def values(world: World, home: Home, metric: Metric, unsaved: Sequence[Incident] = ()) -> dict[tuple[str, ...], float]:
    """Return the values of a metric that are not 0, by labels."""
    found = [one for one in current(world.ledger, home, unsaved) if one.metric is metric]
    assert found
    return {tuple(one.labels.values()): one.figure.total for one in found if one.figure.total}


def test_queue_and_quarantine_are_counted_by_connector(world: World, home: Home) -> None:
    world.see(note("a.md"), note("b.md"), note("c.md"))
    batch = world.claim(2)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.ledger.queue.fail(batch.token, batch.jobs[1].id, TIMEOUT, retry_at=world.clock.moment + timedelta(hours=1))
    world.clock.forward(seconds=90)
    world.ledger.sources.put("more", "obsidian", Priority.LOW)
    world.ledger.sources.put("mail", "imap", Priority.LOW)
    world.ledger.sources.pause("mail", "ada", "")
    assert values(world, home, catalogue.QUEUE) == {("obsidian", "pending"): 1, ("obsidian", "retrying"): 1}
    assert values(world, home, catalogue.QUEUE_AGE) == {("obsidian",): 90}
    assert values(world, home, catalogue.IN_QUARANTINE) == {("obsidian", "parse_error"): 1}
    assert values(world, home, catalogue.SOURCES) == {("obsidian", "active"): 2, ("imap", "paused"): 1}


def test_limits_show_open_breakers_and_the_smallest_quota(world: World, home: Home) -> None:
    assert values(world, home, catalogue.REMAINING) == {(): 1}
    world.ledger.pacing.take(Ask(LIMITS, "notes", "me", 45, False), Report("notes"), None)
    for _ in range(5):
        world.ledger.pacing.failed(LIMITS, "notes", login=False)
    assert values(world, home, catalogue.REMAINING) == {(): 0.45}
    assert values(world, home, catalogue.BREAKERS) == {("source",): 1, ("host",): 1}


def test_machine_worker_and_incidents_are_shown(world: World, home: Home) -> None:
    assert values(world, home, catalogue.RUNS) == {}
    now = datetime.now(UTC)
    WorkerStatus(identity(), now, 3, 4, 0, 0, 2, runs=("a",), busy_parsers=2).write(home)
    assert values(world, home, catalogue.RUNS) == {("running",): 1, ("waiting",): 2, ("limit",): 3}
    assert values(world, home, catalogue.PARSERS_BUSY) == {(): 2}
    assert values(world, home, catalogue.BUILD) == {(__version__,): 1}
    assert values(world, home, catalogue.DISK_FREE)[()] > 0
    world.ledger.incidents.save([Incident(0, "disk.full", "", world.clock.moment, None, "", "", ())])
    assert values(world, home, catalogue.INCIDENTS) == {("disk.full",): 1}
    (stored,) = world.ledger.incidents.open()
    unsaved = [replace(stored, closed_at=world.clock.moment), replace(stored, id=0, reason="ledger.unwritable")]
    assert values(world, home, catalogue.INCIDENTS, unsaved) == {("ledger.unwritable",): 1}


def test_passages_are_embedded_or_wait(world: World, home: Home) -> None:
    world.ingest(note("a.md"), note("b.md"))
    assert values(world, home, catalogue.PASSAGES) == {("waiting",): 2}


def test_every_gauge_of_the_catalogue_is_read(world: World, home: Home) -> None:
    WorkerStatus(identity(), datetime.now(UTC), 1, 1, 0, 0, 0).write(home)
    read = {name for (name, _, _), _ in gauges(world.ledger, home)}
    expected = {metric.name for metric in BY_NAME.values() if metric.kind is catalogue.Kind.GAUGE}
    only_when_present = {catalogue.INCIDENTS.name, catalogue.BREAKERS.name, catalogue.IN_QUARANTINE.name}
    only_when_present |= {
        catalogue.SINKS.name,
        catalogue.COPIES.name,
        catalogue.MACHINE_UP.name,
        catalogue.MACHINE_BEAT.name,
    }
    assert expected - read <= only_when_present


def test_sample_stores_the_mean_of_each_source(world: World, home: Home) -> None:
    world.see(note("a.md"), note("b.md"))
    sample(world.ledger, home)
    world.deliver(world.claim(1))
    sample(world.ledger, home)
    points = world.ledger.measures.points(catalogue.QUEUE, world.clock.moment, timedelta(minutes=1), apart=True)
    pending = [point for point in points if point.labels == ("pending",)]
    assert [(point.source_id, point.figure.n, point.figure.total) for point in pending] == [(world.source.id, 2, 3)]
    stored = {name for name, *_ in world.ledger.measures.totals()}
    assert not stored & {metric.name for metric in BY_NAME.values() if metric.kind is catalogue.Kind.GAUGE}
