"""Objectives, anomalies, trends and retries of a ledger with figures."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from catchment.errors import ConfigError, NotFound
from catchment.model import Priority
from catchment.runtime.home import Home
from catchment.telemetry.catalogue import FAILURES, JOBS, QUEUE, RECOVERED, RETRY_DELAY, SAVE_TO_FOUND, SYNC_DURATION
from catchment.telemetry.objectives import OBJECTIVES, ObjectiveStatus
from catchment.views.telemetry.anomalies import anomalies
from catchment.views.telemetry.objectives import objectives, settings
from catchment.views.telemetry.retries import retries
from catchment.views.telemetry.trends import TrendRange, trends
from tests.ledger.world import World

HOUR = timedelta(hours=1)


def statuses(world: World) -> dict[str, str]:
    found = objectives(world.ledger, OBJECTIVES, world.ledger.now())
    return {state.objective.name: state.status.value for state in found}


def synced(world: World, outcome: str, times: int = 1, seconds: float = 2.0) -> None:
    """Count syncs of five minutes, each a minute apart."""
    for _ in range(times):
        world.ledger.measures.tally.add(SYNC_DURATION, seconds, world.source.id, outcome=outcome)
        world.ledger.measures.flush()
        world.clock.forward(minutes=1)


def waiting(world: World, jobs: float, minutes: int = 60) -> None:
    """Count a backlog for some minutes."""
    for _ in range(minutes // 5):
        for state, number in (("pending", jobs), ("running", 0), ("retrying", 0)):
            world.ledger.measures.tally.add(QUEUE, number, world.source.id, times=5, state=state)
        world.ledger.measures.flush()
        world.clock.forward(minutes=5)


def test_failed_syncs_burn_and_stopped_ones_do_not_count(world: World) -> None:
    for outcome in ("cancelled", "yielded", "first"):
        synced(world, outcome, times=20, seconds=4_000)
    assert set(statuses(world).values()) == {"insufficient data"}
    synced(world, "completed", times=20)
    assert statuses(world)["syncs"] == "met"
    synced(world, "failed", times=4)
    assert statuses(world) | {"backlog": "", "changes": ""} == {
        "syncs": "burning",
        "duration": "met",
        "backlog": "",
        "changes": "",
    }


def test_slow_syncs_and_late_changes_burn_beyond_their_bound(world: World) -> None:
    synced(world, "completed", times=20, seconds=300)
    for _ in range(20):
        world.ledger.measures.tally.add(SAVE_TO_FOUND, 2.0, world.source.id)
    world.ledger.measures.flush()
    assert (statuses(world)["duration"], statuses(world)["changes"]) == ("met", "met")
    world.clock.forward(hours=25)
    synced(world, "completed", times=20, seconds=301)
    world.ledger.measures.tally.add(SAVE_TO_FOUND, 2.1, world.source.id, times=20)
    world.ledger.measures.flush()
    assert (statuses(world)["duration"], statuses(world)["changes"]) == ("burning", "burning")


def test_backlog_burns_only_after_the_first_sync(world: World) -> None:
    waiting(world, 5_000, minutes=90)
    assert statuses(world)["backlog"] == "met", "jobs of a source that was never synced do not count"
    world.ledger.syncs.end(world.sync.id, "completed", {})
    world.clock.forward(minutes=5)
    waiting(world, 400, minutes=30)
    assert statuses(world)["backlog"] == "met"
    waiting(world, 1_000, minutes=90)
    assert statuses(world)["backlog"] == "burning"


def test_objectives_are_settings_of_the_home(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert settings(home) == OBJECTIVES
    home.alerts_file.write_text("desktop: true\nobjectives: {syncs: {target: 0.9}, duration: {above: 60}}\n")
    changed = {objective.name: objective for objective in settings(home)}
    assert (changed["syncs"].target, changed["duration"].above, changed["duration"].target) == (0.9, 60, 0.95)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("objectives: {sync: {target: 0.9}}", "objectives: sync: no such objective"),
        ("objectives: {syncs: {target: 1}}", "objectives: syncs.target: must be from 0.5"),
        ("objectives: {syncs: {target: '9'}}", "objectives: syncs.target: must be a number"),
        ("objectives: {syncs: {above: 3}}", "objectives: syncs.above: no such setting"),
        ("objectives: {duration: {above: 7}}", "objectives: duration.above: unknown bound; choose 0.005"),
        ("objectives: {backlog: {above: 0}}", "objectives: backlog.above: must be greater"),
        ("objectives: {syncs: 3}", "objectives: syncs: must have the keys"),
        ("objectives: [syncs]", "objectives: must name objectives"),
        ("objectives: [", "cannot be read"),
        ("- syncs", "cannot be read"),
    ],
)
def test_wrong_setting_of_an_objective_is_refused_by_name(tmp_path: Path, text: str, problem: str) -> None:
    home = Home(tmp_path)
    home.alerts_file.write_text(text)
    with pytest.raises(ConfigError, match=rf"^alerts.yaml: {problem}"):
        settings(home)


def hours(world: World, number: int, *, jobs: int = 40, seconds: float = 2.0, is_awake: bool = True) -> None:
    """Let hours pass, in which items are stored and syncs take some time."""
    tally, source = world.ledger.measures.tally, world.source.id
    for hour in range(number):
        if is_awake:
            for state in ("pending", "running", "retrying"):
                tally.add(QUEUE, 0, source, times=60, state=state)
            if jobs:
                tally.add(JOBS, jobs + hour % 5, source, outcome="succeeded")
            tally.add(SYNC_DURATION, seconds + 0.01 * (hour % 7), source, times=4, outcome="completed")
            world.ledger.measures.flush()
        world.clock.forward(hours=1)


def unusual(world: World) -> list[tuple[str, str, str]]:
    found = anomalies(world.ledger, world.ledger.now())
    return [(one.metric, one.source, one.direction) for one in found]


def test_slow_source_is_unusual_from_the_second_hour_until_it_recovers(world: World) -> None:
    hours(world, 120)
    assert unusual(world) == []
    hours(world, 1, seconds=12)
    assert unusual(world) == []
    began = world.ledger.now() - HOUR
    hours(world, 2, seconds=12)
    every, own = anomalies(world.ledger, world.ledger.now())
    assert (every.source, own.source, own.metric, own.direction) == ("", "notes", "duration", "high")
    assert own.since == began.replace(minute=0, second=0, microsecond=0)
    assert (own.value, own.baseline) == (pytest.approx(12, rel=0.01), pytest.approx(2, rel=0.05))
    assert own.text == "the time of a sync is unusually high"
    hours(world, 1)
    assert unusual(world) == []


def test_idle_source_is_unusual_unless_the_machine_slept_or_it_is_paused(world: World) -> None:
    hours(world, 120)
    hours(world, 6, is_awake=False)
    hours(world, 1)
    assert unusual(world) == []
    hours(world, 4, jobs=0)
    assert unusual(world) == [("throughput", "notes", "low")]
    world.ledger.sources.pause("notes", "ada", "")
    assert unusual(world) == []


def test_idle_sources_are_usual_when_the_person_is_away(world: World) -> None:
    """First both sources are idle, then only one of them."""
    other = world.ledger.sources.put("mail", "imap", Priority.NORMAL)

    def both(number: int, jobs: int, others: int) -> None:
        for _ in range(number):
            for state in ("pending", "running", "retrying"):
                world.ledger.measures.tally.add(QUEUE, 0, other.id, times=60, state=state)
            if others:
                world.ledger.measures.tally.add(JOBS, others, other.id, outcome="succeeded")
            hours(world, 1, jobs=jobs)

    both(120, 40, 50)
    both(4, 0, 0)
    assert unusual(world) == []
    both(3, 0, 50)
    assert unusual(world) == [("throughput", "notes", "low")]


def test_trends_are_in_equal_steps_up_to_now(world: World) -> None:
    hours(world, 130)
    hours(world, 3, seconds=12, jobs=70)
    found = trends(world.ledger, TrendRange.DAY, "notes", world.ledger.now() - timedelta(seconds=1))
    assert len(found.steps) == 24
    assert found.steps[-1] == (world.ledger.now() - HOUR).replace(minute=0, second=0, microsecond=0)
    by_name = {trend.name: trend for trend in found.trends}
    assert [int(value or 0) for value in by_name["throughput"].values[-4:]] == [44, 70, 71, 72]
    assert by_name["latency"].values == (None,) * 24
    duration = by_name["duration"]
    assert (duration.values[-1], duration.half[-1]) == (pytest.approx(19.25), pytest.approx(12.5))
    month = trends(world.ledger, TrendRange.MONTH, None, world.ledger.now())
    assert sum(value or 0 for value in month.trends[0].values) == sum(40 + hour % 5 for hour in range(130)) + 213
    with pytest.raises(NotFound):
        trends(world.ledger, TrendRange.DAY, "nope", world.ledger.now())


def test_trend_marks_the_unusual_hours(world: World) -> None:
    hours(world, 130)
    hours(world, 3, seconds=12)
    hours(world, 2)
    found = trends(world.ledger, TrendRange.DAY, "notes", world.ledger.now())
    marked = {trend.name: trend.unusual for trend in found.trends}
    assert marked == dict.fromkeys(marked, ()) | {"duration": (18, 19, 20)}
    assert {trend.unusual for trend in trends(world.ledger, TrendRange.HOUR, None, world.ledger.now()).trends} == {()}


def test_retries_are_counted_by_kind_and_reason(world: World) -> None:
    tally, source = world.ledger.measures.tally, world.source.id
    tally.add(FAILURES, 5, source, reason="timeout", failure_class="transient")
    for seconds in (10, 20, 30, 60):
        tally.add(RETRY_DELAY, seconds, source, reason="timeout")
    tally.add(RECOVERED, 3, source, reason="timeout")
    tally.add(FAILURES, 2, source, reason="parse_error", failure_class="permanent")
    world.ledger.measures.flush()
    timeout, parse = retries(world.ledger, world.ledger.now())
    assert (timeout.kind, timeout.reason, timeout.failed, timeout.delay) == ("obsidian", "timeout", 5, 30)
    assert (timeout.recovered, timeout.quarantined, timeout.share) == (3, 1, 0.75)
    assert (parse.failed, parse.delay, parse.recovered, parse.quarantined, parse.share) == (2, None, 0, 2, 0)
    world.clock.forward(days=62)
    assert retries(world.ledger, world.ledger.now()) == ()


def test_statuses_have_names_for_scripts() -> None:
    assert [status.value for status in ObjectiveStatus] == ["met", "burning", "insufficient data"]
