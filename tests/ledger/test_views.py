"""The read model: the troubles that need a person, and the lists and pages about sources, syncs and jobs."""

from __future__ import annotations

import inspect
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest
from pydantic import TypeAdapter

from catchment.errors import BadInput, IllegalTransition, NotFound
from catchment.ledger import HeldFolder, JobFilter, Ledger
from catchment.model import Document, JobState, Priority
from catchment.runtime.home import Home
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.telemetry.incidents import FAIL, OK, Condition, ReasonCode
from catchment.views import library, sources, throttling, trouble
from catchment.views.health import HealthReport
from catchment.views.trouble import TroubleKind
from catchment.views.work import jobs, syncs
from deployments.health.incident_watch import IncidentWatch
from tests.ledger.test_quarantine import fail
from tests.ledger.world import PARSE_ERROR, START, TIMEOUT, World, delivered, locators, note, notes

DISK = Condition("disk", FAIL, "the disk is full", "make room", ReasonCode.DISK_FULL)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


def kinds(world: World, home: Home) -> list[tuple[TroubleKind, str]]:
    """Return the troubles after the conditions were judged."""
    IncidentWatch(
        home, lambda: world.ledger, lambda: nullcontext(world.ledger), dict, lambda _: None, is_up=False
    ).judge()
    view = trouble.trouble(world.ledger, home)
    urgent = [row for row in view.troubles if row.needs_person]
    assert view.number == len(urgent) == trouble.number(world.ledger)
    return [(row.kind, row.subject) for row in view.troubles]


# Trouble


def test_troubles_are_listed_worst_first(world: World, home: Home) -> None:
    world.ingest(*notes(30))
    (job,) = fail(world, "bad.pdf")
    fail(world, "slow.pdf", "slower.pdf", failure=TIMEOUT)
    world.lose(*(item.locator for item in notes(15)))
    world.settle()
    world.ledger.sources.put("mail", "imap", Priority.NORMAL)
    world.ledger.sources.hold("mail", "sync:1", "login refused")
    world.ledger.sources.put("plots", "github", Priority.NORMAL)
    world.ledger.sources.pause("plots", "operator:anna", "moving house")
    world.ledger.syncs.end(world.sync.id, "completed", {})
    slow, bad = (cluster.id for cluster in world.ledger.quarantine.clusters())
    assert world.ledger.quarantine.show(job).cluster == bad
    assert kinds(world, home) == [
        (TroubleKind.DELETIONS, "notes"),
        (TroubleKind.HELD, "mail"),
        (TroubleKind.CLUSTER, slow),
        (TroubleKind.CLUSTER, bad),
        (TroubleKind.PAUSED, "plots"),
    ]
    deletions, held, cluster, _, paused = trouble.trouble(world.ledger, home).troubles
    assert (held.title, held.reason, held.incident) == ("login refused", "source.held", 2)
    assert (paused.who, paused.why, paused.needs_person) == ("operator:anna", "moving house", False)
    assert (deletions.count, cluster.count, cluster.title) == (15, 2, f"slower.pdf and 1 more: {TIMEOUT.message}")


def test_without_trouble_the_time_of_the_last_check_is_known(world: World, home: Home) -> None:
    assert trouble.trouble(world.ledger, home) == trouble.TroubleView((), 0, None)
    HealthReport.of((replace(DISK, verdict=OK),), world.clock.moment).write(home)
    assert trouble.trouble(world.ledger, home) == trouble.TroubleView((), 0, world.clock.moment)


def test_paused_scope_and_blackout_are_named_with_their_actor(world: World, home: Home) -> None:
    from catchment.pacing.operator_rules import Rule

    world.ledger.throttles.put("all", Rule(paused=True), "operator:anna", "on the train")
    world.ledger.throttles.put("kind:obsidian", Rule(blackouts=("00:00-23:59 UTC",)), "operator:ben", "")
    paused, blackout = trouble.trouble(world.ledger, home).troubles
    assert (paused.kind, paused.subject, paused.who) == (TroubleKind.PAUSED, "all", "operator:anna")
    assert paused.why is not None and paused.why.endswith("; on the train")
    assert (blackout.kind, blackout.who, blackout.until is None) == (TroubleKind.BLACKOUT, "operator:ben", False)
    assert trouble.number(world.ledger) == 0


def test_source_switched_off_in_prefect_is_named_and_has_no_next_run(world: World, home: Home) -> None:
    # The server plans a run at the moment of the switch.
    planned = PlannedRun(datetime.now(UTC) + timedelta(days=1), "schedule")
    report = ServerReport(world.clock.moment, ("notes",), {"notes": (planned,)})
    (standing,) = sources.standings(world.ledger, home, report)
    assert (standing.state, standing.next_run) == ("paused", None)
    report.write(home)
    (row,) = trouble.trouble(world.ledger, home).troubles
    assert (row.kind, row.title, row.who) == (TroubleKind.PAUSED, "switched off in Prefect", None)


# Quarantine


def test_cluster_has_its_times_and_its_latest_item(world: World, home: Home) -> None:
    fail(world, "a.pdf")
    began = world.clock.moment
    world.clock.forward(hours=1)
    _, last = fail(world, "b.pdf", "c.pdf")
    (cluster,) = world.ledger.quarantine.clusters()
    view = trouble.cluster(world.ledger, cluster.id, limit=2)
    assert (view.cluster, view.entries.total) == (cluster, 3)
    assert (cluster.first, cluster.last, cluster.by_source) == (began, world.clock.moment, {"notes": 3})
    assert (cluster.example, cluster.item) == (last, "c.pdf")
    assert [entry.item for entry in view.entries.rows] == ["c.pdf", "b.pdf"]
    rest = trouble.cluster(world.ledger, cluster.id, after=view.entries.next).entries
    assert ([entry.item for entry in rest.rows], rest.next) == (["a.pdf"], None)
    with pytest.raises(NotFound, match="no item is in quarantine for this cause"):
        trouble.cluster(world.ledger, "other")


def test_parts_of_the_quarantine_have_the_order_of_the_whole(world: World) -> None:
    quarantine = world.ledger.quarantine
    for number in range(3):
        fail(world, f"{number}.pdf", f"{number}.txt", failure=TIMEOUT if number else PARSE_ERROR)
        world.clock.forward(minutes=1)
    (job,) = (entry.job for entry in quarantine.list() if entry.item == "0.pdf")
    quarantine.retry([job], "anna")
    world.ledger.queue.fail(world.claim().token, job, TIMEOUT, retry_at=None)
    rows, after = [], None
    while True:
        part = quarantine.page(after=after, limit=4)
        rows += part.rows
        if (after := part.next) is None:
            break
    assert rows == quarantine.list()
    assert quarantine.page(reason=TIMEOUT.reason).total == 5
    assert quarantine.matching(reason=PARSE_ERROR.reason) == [e.job for e in quarantine.list(None, PARSE_ERROR.reason)]
    with pytest.raises(BadInput, match="not a key of this list"):
        quarantine.page(after="soon")


def test_entry_is_shown_beside_the_last_good_version(world: World) -> None:
    world.ingest(note("a.md", size=900))
    world.see(note("a.md", "v2", size=5))
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    view = trouble.entry(world.ledger, batch.jobs[0].id)
    assert view.good is not None and view.item is not None
    assert (view.good.title, view.good.opening, view.item.size) == ("a", "What a says in v1", 5)
    (job,) = fail(world, "never.md")
    assert trouble.entry(world.ledger, job).good is None


def test_held_deletions_are_counted_by_folder_and_named(world: World) -> None:
    with pytest.raises(NotFound, match="notes: no held deletions"):
        trouble.deletions(world.ledger, "notes")
    world.ingest(*notes(8, folder="a"), *notes(8, folder="b/c"))
    world.lose(*(item.locator for item in (*notes(8, folder="a"), *notes(7, folder="b/c"))))
    world.settle()
    view = trouble.deletions(world.ledger, "notes", limit=9)
    assert view.folders.rows == (HeldFolder("a", 8), HeldFolder("b/c", 7))
    assert (view.hold.count, view.items.total, view.items.rows[8].title) == (15, 15, "0")
    rest = trouble.deletions(world.ledger, "notes", after=view.items.next).items
    assert [row.item for row in rest.rows] == [f"b/c/{n}.md" for n in range(1, 7)]
    inside = trouble.deletions(world.ledger, "notes", "b/c").items
    assert (inside.total, inside.rows[0].item) == (7, "b/c/0.md")


# Jobs


def test_jobs_are_filtered_in_parts_with_totals(world: World) -> None:
    world.ingest(*notes(3))
    fail(world, "a.pdf", "b.pdf")
    world.see(note("new.md"))
    view = jobs.jobs(world.ledger, JobFilter(state=JobState.SUCCEEDED), limit=2)
    assert dict(view.totals) == {JobState.SUCCEEDED: 3, JobState.QUARANTINED: 2, JobState.PENDING: 1}
    assert ([row.item for row in view.page.rows], view.page.total) == (["n/2.md", "n/1.md"], 3)
    rest = jobs.jobs(world.ledger, JobFilter(state=JobState.SUCCEEDED), after=view.page.next).page
    assert ([row.item for row in rest.rows], rest.next) == (["n/0.md"], None)
    by_reason = jobs.jobs(world.ledger, JobFilter("notes", reason="parse_error", kind="obsidian"))
    assert [row.item for row in by_reason.page.rows] == ["b.pdf", "a.pdf"]
    assert jobs.jobs(world.ledger, JobFilter(kind="imap")).page.total == 0
    with pytest.raises(NotFound, match="no such source"):
        jobs.jobs(world.ledger, JobFilter("other"))


def test_job_has_its_attempts_and_what_can_be_done(world: World) -> None:
    world.see(note("a.md"))
    began = world.clock.moment
    batch = world.claim()
    world.clock.forward(minutes=1)
    again = world.clock.moment + timedelta(minutes=5)
    world.ledger.queue.fail(batch.token, 1, TIMEOUT, retry_at=again)
    view = jobs.job(world.ledger, 1)
    assert (view.job.next_attempt, view.run, view.actions) == (again, "run-1", ("cancel", "prioritize"))
    world.clock.forward(minutes=5)
    world.claim()
    first, second = jobs.job(world.ledger, 1).attempts
    assert (first.number, first.started, first.outcome, first.reason) == (1, began, "retrying", "timeout")
    assert (second.number, second.ended) == (2, None)


def test_prioritized_job_is_claimed_first(world: World) -> None:
    world.see(*notes(3))
    last = world.ledger.queue.jobs()[0]
    world.ledger.queue.prioritize(last.job, "anna", "")
    assert locators(world.claim(1)) == [last.item]
    with pytest.raises(IllegalTransition, match="running, so it cannot be prioritized"):
        world.ledger.queue.prioritize(last.job, "anna", "")


def test_prioritized_retry_does_not_wait(world: World) -> None:
    world.see(note("a.md"))
    later = world.clock.moment + timedelta(hours=1)
    world.ledger.queue.fail(world.claim().token, 1, TIMEOUT, retry_at=later)
    assert world.claim().jobs == ()
    world.ledger.queue.prioritize(1, "anna", "needed now")
    assert locators(world.claim()) == ["a.md"]
    assert ("prioritized", "needed now") in [(e.event, e.reason) for e in world.ledger.history.of_job(1)]


# Syncs, sources and documents


def test_stages_of_a_sync_are_known_while_it_runs(world: World) -> None:
    world.see(*notes(5))
    found = world.clock.moment
    world.clock.forward(seconds=30)
    world.deliver(world.claim(3))
    fail(world, "bad.md")
    view = syncs.sync(world.ledger, world.sync.id)
    discover, normalize, _, deliver, embed = view.stages
    assert (discover.number, discover.ended, view.waiting) == (6, world.clock.moment, 0)
    assert (normalize.number, normalize.of, normalize.failed, normalize.started) == (3, 6, 3, found)
    assert (deliver.number, deliver.ended, embed.number) == (3, world.clock.moment, None)
    assert (view.changes.added, view.undo_refusal) == (3, "a sync of the source is running")
    world.ledger.syncs.end(
        world.sync.id, "completed", {"listed": 9, "read": 8, "parsed": 5, "reused": 1, "succeeded": 4}
    )
    discover, normalize, extract, *_ = syncs.sync(world.ledger, world.sync.id).stages
    assert (discover.number, normalize.number, normalize.of, extract.number) == (9, 6, 8, 4)


@pytest.mark.databases
def test_retried_items_are_closed_once_they_succeed(world: World) -> None:
    kept, retried = fail(world, "kept.pdf", "retried.pdf")
    world.clock.forward(hours=1)
    world.ledger.quarantine.retry([retried], "me")
    assert trouble.closed(world.ledger) == ()
    world.deliver(world.claim())
    [found] = trouble.closed(world.ledger)
    assert (found.title, found.how, found.count) == (PARSE_ERROR.message, "retried", 1)
    world.clock.forward(minutes=1)
    world.ledger.quarantine.discard([kept], "me", "")
    assert [one.how for one in trouble.closed(world.ledger)] == ["discarded", "retried"]
    world.clock.forward(hours=25)
    assert trouble.closed(world.ledger) == ()


def test_source_shows_its_backlog_and_what_it_holds(world: World, home: Home) -> None:
    world.ingest(note("a.md", size=70), note("b.md", size=30))
    world.ledger.syncs.end(world.sync.id, "completed", {"succeeded": 2})
    good, world.sync = world.sync.id, world.begin()
    world.clock.forward(hours=1)
    oldest = world.clock.moment
    world.see(note("c.md"))
    world.clock.forward(hours=1)
    world.see(note("d.md"))
    view = sources.source(world.ledger, home, "notes", "manual", {"priority": "high"})
    assert (view.line.oldest, view.line.standing.waiting) == (oldest, 2)
    assert view.line.last_good is not None and view.line.last_good.id == good
    assert (dict(view.types), view.size) == ({"text/markdown": 2}, 100)
    assert [row.id for row in view.syncs] == [world.sync.id, good]
    assert view.settings["priority"] == "high" and view.planned is None
    with pytest.raises(NotFound):
        sources.source(world.ledger, home, "other", "manual", {})


def test_latest_documents_come_in_parts(world: World) -> None:
    world.see(*notes(5))
    batch = world.claim()
    days = [START + timedelta(days=number % 2) if number < 4 else None for number in range(5)]
    done = [replace(world.done(job), modified=day) for job, day in zip(batch.jobs, days, strict=True)]
    world.ledger.queue.deliver(batch.token, done)
    first = world.ledger.library.latest(limit=3)
    rest = world.ledger.library.latest(after=first.next)
    assert [row.document for row in (*first.rows, *rest.rows)] == [4, 2, 3, 1]
    assert (first.total, rest.next, first.rows[0].opening) == (4, None, "What 3 says in v1")
    assert (world.ledger.library.sizes(), world.ledger.library.types()) == ({"notes": 5}, {"text/markdown": 5})


def test_latest_documents_omit_media_types(world: World) -> None:
    for number, media_type in enumerate(("text/markdown", "application/json", "text/x-python")):
        world.see(note(f"{number}.md"))
        batch = world.claim()
        document = Document(f"text {number}", media_type)
        done = replace(delivered(batch.jobs[0].id, document.text), document=document, modified=START)
        world.ledger.queue.deliver(batch.token, [done])
    latest = world.ledger.library.latest
    assert [row.media_type for row in latest(without=["application/json", "text/x-python"]).rows] == ["text/markdown"]
    assert (latest(without=["text/markdown"]).total, latest().total) == (2, 3)


@pytest.mark.parametrize("module", [jobs, library, sources, syncs, throttling, trouble])
def test_each_view_can_be_described_as_json(module: ModuleType) -> None:
    found = 0
    for name, view in inspect.getmembers(module, inspect.isfunction):
        if view.__module__ == module.__name__ and not name.startswith("_"):
            TypeAdapter(get_type_hints(view, localns={"Ledger": Ledger})["return"]).json_schema(mode="serialization")
            found += 1
    assert found
