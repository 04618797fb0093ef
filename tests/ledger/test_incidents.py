"""Incidents in a real ledger: how they are judged, stored, acknowledged and listed, and kept while it cannot be written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from catchment.errors import CatchmentError, LedgerUnavailable, LoginFailed, NotFound, SourceInvalid, TryAgain
from catchment.ledger import Incident, Ledger
from catchment.runtime import watch_status
from catchment.runtime.home import Home
from catchment.runtime.watch_status import Watching, WatchState
from catchment.telemetry.catalogue import SYNC_DURATION
from catchment.telemetry.incidents import Condition, ReasonCode, Verdict, reason_of
from catchment.views import trouble
from catchment.views.health import HealthReport
from catchment.views.telemetry import incidents
from catchment.views.trouble import TroubleKind
from deployments.health.incident_watch import IncidentWatch
from tests.ledger.test_quarantine import fail
from tests.ledger.world import World, notes

SILENT = {"server": TryAgain("no response within 2 s")}


class Watched:
    """A world and its watch. `pass_` judges every ten seconds."""

    def __init__(self, world: World, home: Home) -> None:
        self.world, self.home = world, home
        self.errors: dict[str, CatchmentError] = {}
        self.told: list[Incident] = []
        self.is_full = self.is_unreadable = False
        self.restart()

    def restart(self) -> None:
        self.watch = IncidentWatch(
            self.home,
            self._reading,
            self._writing,
            lambda: self.errors,
            self.told.append,
            is_up=False,
            clock=lambda: self.world.clock.moment,
            steady=lambda: self.world.clock.up,
        )

    def pass_(self, seconds: int = 60) -> None:
        for _ in range(seconds // 10):
            self.world.clock.forward(seconds=10)
            self.watch.judge()

    def fail(self) -> None:
        """Let the open sync fail."""
        error = SourceInvalid("mail.example.org: no answer; check its address")
        self.world.ledger.syncs.end(self.world.sync.id, "failed", {}, str(error), reason_of(error))

    @property
    def open(self) -> list[tuple[str, str]]:
        found = incidents.opened(self.world.ledger, self.watch.unsaved)
        return [(one.reason, one.subject) for one in found]

    @property
    def events(self) -> list[str]:
        return [moment.event for moment in self.world.ledger.incidents.get(1).timeline]

    def _reading(self) -> Ledger:
        if self.is_unreadable:
            raise LedgerUnavailable("ledger: locked; wait")
        return self.world.ledger

    @contextmanager
    def _writing(self) -> Iterator[Ledger]:
        if self.is_full:
            raise LedgerUnavailable("ledger: the disk is full; make room")
        yield self.world.ledger


@pytest.fixture
def watched(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    monkeypatch.setattr(world.ledger, "alive", lambda _owner: True)
    return Watched(world, Home(tmp_path / "home").make())


def test_failed_sync_opens_an_incident_that_a_good_one_closes(watched: Watched) -> None:
    watched.pass_()
    watched.fail()
    watched.pass_(10)
    assert watched.open == [("source.invalid", "source:notes")]
    assert watched.home.open_incidents.exists()
    watched.world.ledger.syncs.end(watched.world.begin().id, "completed", {})
    watched.pass_(30)
    assert watched.open == []
    assert not watched.home.open_incidents.exists()
    assert watched.events == ["opened", "closed"]
    assert [(one.id, one.closed_at is None) for one in watched.told] == [(1, True), (1, False)]


def test_refused_login_is_one_problem(watched: Watched) -> None:
    world, refused = watched.world, LoginFailed("mail.example.org: login refused; store the right password")
    world.ledger.syncs.end(world.sync.id, "quarantined", {}, str(refused), reason_of(refused))
    watch_status.write(watched.home, {"notes": WatchState(Watching.LIMITED, "login refused", "store it")})
    for outcome in ("completed", "failed"):
        world.ledger.measures.tally.add(SYNC_DURATION, 2.0, world.source.id, times=10, outcome=outcome)
    world.ledger.measures.flush()
    watched.pass_(360)
    assert watched.open == [("login.refused", "source:notes")]
    world.ledger.sources.resume("notes", "anna")
    world.ledger.syncs.end(world.begin().id, "completed", {})
    watch_status.write(watched.home, {"notes": WatchState(Watching.WATCHING)})
    watched.pass_(600)
    assert watched.open == [], "its failed syncs still count for the objective"


def test_incident_of_an_earlier_version_closes(watched: Watched) -> None:
    now = watched.world.clock.moment
    watched.world.ledger.incidents.save([Incident(0, "objective.burning", "objective:syncs", now, None, "", "", ())])
    watched.pass_(10)
    (closed,) = watched.world.ledger.incidents.closed().rows
    assert (closed.reason, watched.open) == ("objective.burning", [])


def test_backlog_opens_after_a_minute_without_a_fall(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.views.telemetry.conditions._MANY_JOBS", 3)
    watched.world.ledger.syncs.end(watched.world.sync.id, "completed", {})
    watched.world.sync = watched.world.begin()
    watched.world.see(*notes(5))
    watched.pass_(60)
    watched.world.deliver(watched.world.claim(1))
    watched.pass_(60)
    assert watched.open == []
    watched.pass_(20)
    assert watched.open == [("backlog.growing", "")]
    watched.world.deliver(watched.world.claim(2))
    watched.pass_(30)
    assert watched.open == []


def test_incident_survives_a_restart_of_the_process(watched: Watched) -> None:
    watched.fail()
    watched.pass_(10)
    watched.restart()
    watched.pass_()
    assert [one.id for one in incidents.opened(watched.world.ledger)] == [1]
    assert len(watched.told) == 1
    watched.world.ledger.syncs.end(watched.world.begin().id, "completed", {})
    watched.pass_(30)
    assert watched.open == []


def test_acknowledgement_is_kept_when_the_incident_changes(watched: Watched) -> None:
    watched.world.ingest(*notes(40))
    watched.world.lose(*(item.locator for item in notes(15)))
    watched.world.settle()
    watched.world.ledger.syncs.end(watched.world.sync.id, "completed", {})
    watched.pass_(10)
    watched.world.ledger.incidents.acknowledge(1, "anna", "the disk is away")
    watched.world.sync = watched.world.begin()
    watched.world.lose(*(item.locator for item in notes(20)))
    watched.world.settle()
    watched.world.ledger.syncs.end(watched.world.sync.id, "completed", {})
    watched.pass_(10)
    assert watched.events == ["opened", "acknowledged", "changed"]
    (shown,) = incidents.opened(watched.world.ledger)
    assert (shown.acknowledged_by, shown.note) == ("anna", "the disk is away")
    assert shown.message.startswith("20 deletions")
    watched.world.ledger.intake.drop_hold(watched.world.source.id, "anna", "")
    watched.pass_(30)
    assert watched.events == ["opened", "acknowledged", "changed", "closed"]


def test_incidents_live_in_memory_while_the_ledger_cannot_be_written(watched: Watched) -> None:
    watched.is_full = True
    watched.fail()
    watched.pass_(10)
    began = watched.world.clock.moment
    assert watched.world.ledger.incidents.open() == []
    assert watched.open == [("source.invalid", "source:notes")]
    assert [one.id for one in watched.told] == [0]
    watched.pass_(600)
    watched.is_full = False
    watched.pass_(10)
    (stored,) = watched.world.ledger.incidents.open()
    assert (stored.id, stored.opened_at) == (1, began)
    assert watched.watch.unsaved == ()


def test_incident_that_closed_meanwhile_is_stored_with_its_end(watched: Watched) -> None:
    watched.errors |= SILENT
    watched.watch._is_up = True
    watched.is_full = True
    watched.pass_(80)
    watched.errors.clear()
    watched.pass_(60)
    watched.is_full = False
    watched.pass_(10)
    closed = watched.world.ledger.incidents.closed().rows
    assert "server.silent" in [one.reason for one in closed]
    assert all(one.closed_at and one.closed_at > one.opened_at for one in closed)


def test_unreadable_ledger_is_an_incident_and_closes_no_other(watched: Watched) -> None:
    watched.fail()
    watched.pass_(10)
    watched.is_unreadable = watched.is_full = True
    watched.pass_(60)
    unsaved = incidents.opened(None, watched.watch.unsaved)
    assert [one.reason for one in unsaved] == ["ledger.unwritable"]
    assert unsaved[0].message == "ledger: locked"
    watched.is_unreadable = watched.is_full = False
    watched.pass_(60)
    assert watched.open == [("source.invalid", "source:notes")]


def test_nothing_is_judged_before_the_first_source(watched: Watched) -> None:
    def missing() -> Ledger:
        raise NotFound("no ledger")

    watched.watch._reading = missing
    with pytest.raises(NotFound):
        watched.pass_(10)


@pytest.mark.parametrize(("minutes", "way"), [(90, "forward"), (-90, "back")])
def test_set_clock_is_told_until_it_is_right_or_accepted(watched: Watched, minutes: int, way: str) -> None:
    watched.world.ledger.syncs.end(watched.world.sync.id, "completed", {})
    watched.pass_(30)
    watched.world.clock.set(minutes=minutes)
    watched.pass_(20)
    (shown,) = incidents.opened(watched.world.ledger)
    assert (shown.reason, shown.message) == ("clock.jumped", f"the clock was set {way} by 90 min")
    watched.world.clock.set(minutes=-minutes)
    watched.pass_(30)
    assert watched.open == []
    watched.world.clock.set(minutes=minutes)
    watched.pass_(880)
    assert watched.open
    watched.pass_(60)
    assert watched.open == []


def test_notes_of_messages_are_added_to_the_timeline(watched: Watched) -> None:
    watched.fail()
    watched.pass_(10)
    watched.watch.note(watched.told[0], "mail: sent (opened)")
    watched.pass_(10)
    assert watched.events == ["opened", "notified"]
    watched.world.ledger.syncs.end(watched.world.begin().id, "completed", {})
    watched.pass_(30)
    watched.watch.note(watched.told[1], "mail: sent (closed)")
    watched.pass_(10)
    assert watched.events == ["opened", "notified", "closed", "notified"]
    assert len(watched.world.ledger.incidents.closed().rows) == 1


def test_incident_names_the_syncs_and_items_concerned(watched: Watched) -> None:
    world = watched.world
    jobs = fail(world, *(f"{n}.pdf" for n in range(5)))
    world.ledger.syncs.end(world.sync.id, "completed", {"quarantined": 5})
    watched.pass_(10)
    shown = incidents.incident(world.ledger, 1)
    assert {entry.job for entry in shown.affects.items} == set(jobs)
    world.sync = world.begin()
    watched.fail()
    watched.pass_(10)
    shown = incidents.incident(world.ledger, 2)
    assert (shown.affects.syncs, shown.affects.runs) == ((2,), ("run-1",))
    with pytest.raises(NotFound, match="incidents list"):
        incidents.incident(world.ledger, 3)


def test_worst_incident_is_named_first_and_known_ones_last(watched: Watched) -> None:
    watched.fail()
    watched.pass_(10)
    watched.errors["ledger"] = LedgerUnavailable("ledger: busy; wait")
    watched.pass_(30)
    assert [reason for reason, _ in watched.open] == ["ledger.unwritable", "source.invalid"]
    found = incidents.opened(watched.world.ledger)
    assert "Catchment: ledger: busy, since" in incidents.sentence(found)
    assert incidents.sentence(found).endswith("; wait (and 1 more).")
    watched.world.ledger.incidents.acknowledge(2, "anna")
    assert [reason for reason, _ in watched.open] == ["source.invalid", "ledger.unwritable"]
    assert incidents.sentence(()) == "All is well."
    assert incidents.sentence((), 2) == "Runs well; 2 problems wait for you."


def test_closed_incidents_come_in_parts(watched: Watched) -> None:
    for _ in range(3):
        watched.world.clock.forward(minutes=1)
        watched.fail()
        watched.pass_(10)
        watched.world.ledger.syncs.end(watched.world.begin().id, "completed", {})
        watched.pass_(30)
        watched.world.sync = watched.world.begin()
    first = incidents.incidents(watched.world.ledger, limit=2)
    rest = incidents.incidents(watched.world.ledger, limit=2, after=first.closed.next)
    assert [one.id for one in (*first.closed.rows, *rest.closed.rows)] == [3, 2, 1]
    assert first.closed.total == 3


# Trouble


def test_trouble_that_is_an_incident_is_one_row(watched: Watched) -> None:
    world, home = watched.world, watched.home
    world.ingest(*notes(30))
    world.lose(*(item.locator for item in notes(15)))
    world.settle()
    world.ledger.syncs.end(world.sync.id, "completed", {})
    text = "no mailbox; last good sync 1 h ago"
    finding = Condition("source mail", Verdict.FAIL, text, "", ReasonCode.SOURCE_INVALID, "source:mail")
    HealthReport.of((finding,), world.clock.moment).write(home)
    watched.pass_(10)
    view = trouble.trouble(world.ledger, home)
    assert [(row.kind, row.subject, row.incident, row.reason) for row in view.troubles] == [
        (TroubleKind.DELETIONS, "notes", 1, "deletions.held"),
        (TroubleKind.INCIDENT, "2", 2, "source.invalid"),
    ]
    assert view.number == trouble.number(world.ledger) == 2


def test_source_that_is_not_read_is_a_row_of_its_own(watched: Watched) -> None:
    watched.fail()
    watched.pass_(10)
    (row,) = trouble.trouble(watched.world.ledger, watched.home).troubles
    assert (row.kind, row.subject, row.incident) == (TroubleKind.HELD, "notes", 1)
    assert row.title == "mail.example.org: no answer"
    assert trouble.number(watched.world.ledger) == 1
    watched.world.ledger.syncs.end(watched.world.begin().id, "completed", {})
    watched.pass_(30)
    (over,) = trouble.closed(watched.world.ledger)
    assert (over.title, over.incident) == ("notes: mail.example.org: no answer", 1)
    watched.world.clock.forward(days=2)
    assert trouble.closed(watched.world.ledger) == ()


def test_incident_of_items_is_the_row_of_their_cause(watched: Watched) -> None:
    fail(watched.world, *(f"{n}.pdf" for n in range(5)))
    watched.world.ledger.syncs.end(watched.world.sync.id, "completed", {"quarantined": 5})
    watched.pass_(10)
    assert watched.open == [("parser.broken", "source:notes")]
    (row,) = trouble.trouble(watched.world.ledger, watched.home).troubles
    assert (row.kind, row.incident) == (TroubleKind.CLUSTER, None)
    assert trouble.number(watched.world.ledger) == 1


def test_timeline_keeps_its_start_and_its_latest_entries(world: World) -> None:
    ledger, now = world.ledger, world.clock.moment
    (first,) = ledger.incidents.save([Incident(0, "disk.full", "", now, None, "full", "make room", ())])
    for n in range(80):
        world.clock.forward(seconds=1)
        ledger.incidents.acknowledge(first.id, "anna", str(n))
    timeline = ledger.incidents.get(first.id).timeline
    assert len(timeline) == 50
    assert (timeline[0].text, timeline[-1].text) == ("anna: 0", "anna: 79")
    assert timeline[1].at - timeline[0].at > timedelta(seconds=25)
    with pytest.raises(NotFound):
        ledger.incidents.acknowledge(99, "anna")
