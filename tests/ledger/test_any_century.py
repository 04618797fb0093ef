"""Timestamps in any century: a system clock beyond 2038, and files, notes and mail with any year."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import BigInteger

from catchment.ledger import ConsentState
from catchment.ledger.db.schema import metadata
from catchment.model import Document, Priority
from catchment.pacing import HostLimits, RateReport
from catchment.pacing.metered import Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.runtime import process
from tests.documents import document_named
from tests.ledger.world import PARSE_ERROR, TIMEOUT, Clock, World, jobs_of, note, notes

pytestmark = pytest.mark.databases

_MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> Clock:
    """A clock beyond the range of 31-bit and 32-bit seconds."""
    clock = Clock()
    clock.now = datetime(2107, 1, 1, 12, tzinfo=UTC).timestamp()
    return clock


def test_jobs_wait_fail_and_finish_in_any_century(world: World) -> None:
    begun = world.clock.moment
    world.see(*notes(3))
    batch = world.claim(lease=timedelta(minutes=5))
    first, second, third = jobs_of(batch)
    world.ledger.queue.fail(batch.token, first, TIMEOUT, retry_at=begun + _MINUTE)
    world.ledger.queue.fail(batch.token, second, PARSE_ERROR, retry_at=None)
    assert world.claim().jobs == ()
    next_at = world.ledger.queue.waiting(world.source.id).next_at
    assert next_at is not None and abs(next_at - begun - _MINUTE) < timedelta(seconds=1)
    world.clock.forward(minutes=6)
    assert world.ledger.queue.recover(world.source.id, lambda _: True, 3).released == 1
    batch = world.claim()
    assert sorted(jobs_of(batch)) == [first, third]
    world.deliver(batch)
    (entry,) = world.ledger.quarantine.list()
    assert entry.first_failed == begun
    assert next(event.at for event in world.ledger.history.of_job(third)) == begun
    world.ledger.syncs.expect(world.sync.id, begun + timedelta(hours=1))
    (sync,) = world.ledger.syncs.recent()
    assert sync.began == begun


def test_retention_periods_expire_in_any_century(world: World) -> None:
    world.ingest(*notes(3))
    world.lose("n/0.md")
    world.settle()
    assert (world.ledger.intake.purge(), len(world.found("says"))) == (0, 2)
    world.clock.forward(days=31)
    assert world.ledger.intake.purge() == 1
    until = world.clock.moment + timedelta(days=1)
    world.ledger.consents.give(world.source.id, {"files"}, "operator:anna", until)
    (consent,) = world.ledger.consents.all("notes")
    assert (consent.expires, consent.state) == (until, ConsentState.GIVEN)
    world.clock.forward(days=2)
    assert world.ledger.consents.all("notes")[0].state is ConsentState.EXPIRED


def test_host_limits_and_rules_apply_in_any_century(world: World) -> None:
    limits, me = HostLimits("example.org"), process.identity()
    world.ledger.pacing.report(
        limits, Report(rates=[RateReport(retry_after=60, limit=10, remaining=0, resets_in=3_600)])
    )
    assert world.ledger.pacing.take(Ask(limits, "notes", me, 1, False), Report(), None).wait == pytest.approx(60)
    found = world.ledger.pacing.not_before("notes", limits, me)
    assert found is not None and found.until is not None and found.until > world.clock.moment
    world.ledger.throttles.put("all", Rule(per_hour=1, blackouts=("00:00-24:00",)), "operator:anna", "test")
    blocked = world.ledger.throttles.blocked("notes")
    assert blocked is not None and blocked.until is not None and blocked.until > world.clock.moment
    other = world.ledger.sources.put("other", "obsidian", Priority.NORMAL)
    world.begin(other)
    assert world.ledger.check() == []


def test_files_and_documents_can_have_any_year(world: World) -> None:
    moments = [datetime(year, 1, 2, 3, 4, 5, tzinfo=UTC) for year in (1, 1601, 1969, 2040, 9999)]
    world.see(*(note(f"of {moment.year}.md", modified=moment, size=2**40) for moment in moments))
    batch = world.claim()
    assert [job.item.modified for job in batch.jobs] == moments
    said = [Document(f"words of {at.year}", "text/markdown", created=at, modified=at) for at in moments]
    of_each = zip(batch.jobs, said, strict=True)
    world.ledger.queue.deliver(batch.token, [replace(world.done(job, one.text), document=one) for job, one in of_each])
    for moment in moments:
        shown = document_named(world.ledger, f"of {moment.year}.md")
        assert (shown.content.created, shown.content.modified) == (moment, moment)


def test_every_timestamp_column_has_64_bits() -> None:
    moments = {"at", "due", "not_before", "until", "since", "opened", "hour", "created", "modified", "sent", "ahead"}
    for table in metadata.tables.values():
        for column in table.columns:
            if column.name.endswith(("_at", "_until", "_since", "_ahead")) or column.name in moments:
                assert isinstance(column.type, BigInteger), f"{table.name}.{column.name}"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00Z"])
def test_date_of_the_first_or_last_day_can_be_shown_in_any_zone(world: World, text: str) -> None:
    moment = datetime.fromisoformat(text)
    world.see(note("odd.md"))
    (job,) = (batch := world.claim()).jobs
    document = Document("words", "text/markdown", created=moment, modified=moment)
    world.ledger.queue.deliver(batch.token, [replace(world.done(job, "words"), document=document, modified=moment)])
    shown = document_named(world.ledger, "odd.md")
    assert shown.modified is not None and shown.content.created is not None
    for hours in (-14, 14):
        zone = timezone(timedelta(hours=hours))
        for at in (shown.modified, shown.content.created, shown.content.modified or shown.modified):
            assert abs(at.astimezone(zone).year - moment.year) <= 1
