"""Why a source or an item waits: each kind is given by the one function, and listed in the documents in its order."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from catchment.ledger import WHOLE, ItemRow
from catchment.pacing.limits import HostLimits, RateReport
from catchment.pacing.metered import Ask, Report
from catchment.pacing.operator_rules import Rule
from catchment.pacing.waits import Wait, WaitKind
from catchment.runtime.home import Home
from catchment.runtime.process import identity
from catchment.runtime.server_report import PlannedRun, ServerReport
from catchment.runtime.worker_status import WorkerStatus
from catchment.views import waits
from tasks.run_states import (
    AWAITING_SLOT,
    COALESCED,
    CRASHED,
    INTERRUPTED,
    QUARANTINED,
    RETRYING_LATER,
    SKIPPED,
    WAITING,
)
from tests.ledger.world import TIMEOUT, World, note, notes

LIMITS = HostLimits("host.example.org")
DOCUMENT = Path(__file__).parents[2] / "docs" / "waiting.md"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").make()


@pytest.fixture
def world(world: World) -> World:
    """A library with a source that may be read."""
    world.ledger.consents.give(world.source.id, frozenset({WHOLE}), "configuration", None)
    return world


def working(home: Home, world: World, *lacking: str) -> None:
    """Write the report of a worker."""
    WorkerStatus(identity(), world.clock.moment, 3, 4, 0, 0, len(lacking), lacking=lacking).write(home)


def fail_often(world: World, source: str | None) -> None:
    for _ in range(5):
        world.ledger.pacing.failed(LIMITS, source, login=False)


def use_quota(world: World) -> None:
    world.ledger.throttles.put("source:notes", Rule(per_hour=2), "operator", "")
    world.see(*notes(3))
    world.claim()


OF_SOURCES: dict[WaitKind, Callable[[World, Home], object]] = {
    WaitKind.PAUSED: lambda world, _: world.ledger.sources.pause("notes", "operator", "moving house"),
    WaitKind.SWITCHED_OFF: lambda world, home: ServerReport(world.clock.moment, paused=("notes",)).write(home),
    WaitKind.HELD: lambda world, _: world.ledger.sources.hold("notes", "sync:1", "folder not found"),
    WaitKind.CONSENT: lambda world, _: world.ledger.consents.withdraw(world.source.id, {WHOLE}, "operator"),
    WaitKind.RULE: lambda world, _: world.ledger.throttles.put("all", Rule(paused=True), "operator", ""),
    WaitKind.BLACKOUT: lambda world, _: world.ledger.throttles.put(
        "all", Rule(blackouts=("00:00-24:00",)), "operator", ""
    ),
    WaitKind.LOGIN: lambda world, _: world.ledger.pacing.failed(LIMITS, "notes", login=True),
    WaitKind.FAILURES: lambda world, _: fail_often(world, "notes"),
    WaitKind.QUOTA: lambda world, _: use_quota(world),
    WaitKind.SLOT: lambda world, home: working(home, world, "notes"),
}
"""The causes that make a source wait. `MACHINE` needs several hosts (test_hosts_seen)."""


@pytest.mark.parametrize("kind", OF_SOURCES, ids=str)
def test_each_wait_of_a_source_has_its_cause_and_its_remedy(world: World, home: Home, kind: WaitKind) -> None:
    assert waits.of_sources(world.ledger, home, None) == {"notes": ()}
    OF_SOURCES[kind](world, home)
    (found,) = waits.of_sources(world.ledger, home, ServerReport.read(home))["notes"]
    assert (found.kind, found.subject) == (kind, "notes")
    assert found.why and found.remedy.count("`") != 1 and "{}" not in found.remedy
    if found.until:
        assert found.until > world.clock.moment
    world.see(note("new.md"))
    assert found in waits.of_item(world.ledger, home, item(world, "new.md"))


def test_waits_come_in_the_order_in_which_they_must_end(world: World, home: Home) -> None:
    for kind, begin in OF_SOURCES.items():
        if kind not in (WaitKind.SWITCHED_OFF, WaitKind.HELD, WaitKind.BLACKOUT, WaitKind.FAILURES):
            begin(world, home)
    found = [wait.kind for wait in waits.of_sources(world.ledger, home, None)["notes"]]
    assert len(found) == 6 and found == sorted(found, key=[*WaitKind].index)


def test_sync_is_refused_for_the_wait_that_is_shown(world: World, home: Home) -> None:
    world.ledger.pacing.failed(LIMITS, "notes", login=True)
    (shown,) = waits.of_sources(world.ledger, home, None)["notes"]
    assert world.ledger.pacing.not_before("notes", LIMITS, "me") == shown
    assert str(shown) == ("notes: throttled (login refused); correct the login, then: catchment sources resume notes")
    world.ledger.sources.resume("notes", "operator")
    fail_often(world, "other")
    refused = world.ledger.pacing.not_before("notes", LIMITS, "me")
    assert refused is not None and refused.kind is WaitKind.HOST_FAILURES


def test_sync_is_refused_while_its_host_demands_it(world: World) -> None:
    asked = world.ledger.pacing
    asked.report(LIMITS, Report(rates=[RateReport(retry_after=60)]))
    refused = asked.not_before("notes", LIMITS, "me")
    assert refused is not None and refused.kind is WaitKind.HOST_PAUSE
    limits = HostLimits("api.example.org", per_hour=10)
    while asked.take(Ask(limits, "notes", "me", 1, False), Report("notes"), None).charge:
        pass
    refused = asked.not_before("notes", limits, "me")
    assert refused is not None and refused.kind is WaitKind.HOST_QUOTA


def item(world: World, locator: str) -> ItemRow:
    (row,) = world.ledger.intake.find(locator)
    return row


def test_item_waits_for_its_retry_its_deletion_or_its_turn(world: World, home: Home) -> None:
    world.ingest(*notes(20))
    assert waits.of_item(world.ledger, home, item(world, "n/1.md")) == ()
    world.see(note("late.md"))
    assert waits.of_item(world.ledger, home, item(world, "late.md")) == (WaitKind.STOPPED.of("notes"),)
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.sync = world.ledger.syncs.begin(
        world.source.id, run="run-2", owner=identity(), code_version="1", alive=world.ledger.alive
    )
    (turn,) = waits.of_item(world.ledger, home, item(world, "late.md"))
    assert (turn.kind, turn.until) == (WaitKind.SYNC, None)
    again = world.clock.moment + timedelta(minutes=5)
    batch = world.claim()
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, TIMEOUT, retry_at=again)
    assert waits.of_item(world.ledger, home, item(world, "late.md")) == (WaitKind.RETRY.of("notes", again),)
    world.lose(*(each.locator for each in notes(15)))
    world.settle()
    assert waits.of_item(world.ledger, home, item(world, "n/1.md")) == (WaitKind.DELETION.of("notes"),)


def test_item_waits_for_the_start_or_the_next_sync_of_its_source(world: World, home: Home) -> None:
    world.see(note("late.md"))
    world.ledger.syncs.end(world.sync.id, "completed", {})
    assert waits.of_item(world.ledger, home, item(world, "late.md")) == (WaitKind.STOPPED.of("notes"),)
    working(home, world)
    at = world.clock.moment + timedelta(hours=1)
    ServerReport(world.clock.moment, runs={"notes": (PlannedRun(at, "schedule"),)}).write(home)
    (found,) = waits.of_item(world.ledger, home, item(world, "late.md"))
    assert (found.kind, found.until) == (WaitKind.SYNC, at)


def test_wait_is_a_sentence() -> None:
    wait = Wait(WaitKind.PAUSED, "papers", "moving house", None, "resume it")
    assert wait.sentence() == "paused (moving house)"
    assert WaitKind.HELD.of("papers").sentence() == "held"


def test_document_lists_the_kinds_in_their_order() -> None:
    rows = r"^\| `(\w+)` \| `([^`|]+)` \| [^|]+ \| [^|]+ \| [^|]+ \|$"
    listed = re.findall(rows, DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed == [(kind.value, kind.label) for kind in WaitKind]


def test_document_names_each_state_of_a_run_that_waits() -> None:
    text = DOCUMENT.read_text(encoding="utf-8").partition("\n## States of runs\n")[2]
    waiting = (AWAITING_SLOT, SKIPPED, WAITING, COALESCED, CRASHED, INTERRUPTED, QUARANTINED, RETRYING_LATER)
    assert [state.name for state in waiting if f"`{state.name}`" not in text] == []


def test_unfinished_deletion_is_finished_by_revoking_again(home: Home, world: World) -> None:
    world.ledger.consents.withdraw(world.source.id, frozenset({WHOLE}), "operator", "")
    (wait,) = waits.of_sources(world.ledger, home, None)["notes"][:1]
    assert (wait.kind, wait.remedy) == (WaitKind.CONSENT, "run: catchment consent revoke notes")
