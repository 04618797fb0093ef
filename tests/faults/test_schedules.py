"""Schedules around daylight-saving changes, planned repeatedly as the server does."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from prefect.server.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule

pytestmark = pytest.mark.faults

_HOUR = timedelta(hours=1)
CHANGES = {
    "spring in Berlin": ("Europe/Berlin", datetime(2027, 3, 28, 1, tzinfo=UTC)),
    "autumn in Berlin": ("Europe/Berlin", datetime(2027, 10, 31, 1, tzinfo=UTC)),
    "spring in New York": ("America/New_York", datetime(2027, 3, 14, 7, tzinfo=UTC)),
    "autumn in New York": ("America/New_York", datetime(2027, 11, 7, 6, tzinfo=UTC)),
}
_LOOKS = [timedelta(minutes=minutes) for minutes in (-3_000, -1_500, -130, -70, -20, 0, 20, 70, 130, 1_500)]
"""The times at which the server plans, relative to the change."""


@pytest.fixture(params=CHANGES.values(), ids=CHANGES.keys())
def change(request: pytest.FixtureRequest) -> tuple[str, datetime]:
    """A time zone and the moment of its clock change."""
    found: tuple[str, datetime] = request.param
    return found


@pytest.mark.parametrize(
    "line",
    ["30 1 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *"],
)
def test_daily_cron_schedule_runs_once_a_day(change: tuple[str, datetime], line: str) -> None:
    zone, moment = change
    comes_once_a_day(planned(CronSchedule(cron=line, timezone=zone), moment))


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY;BYHOUR=1;BYMINUTE=30;BYSECOND=0",
        "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;BYSECOND=0",
    ],
)
def test_daily_recurrence_rule_runs_once_a_day(change: tuple[str, datetime], rule: str) -> None:
    zone, moment = change
    comes_once_a_day(planned(RRuleSchedule(rrule=rule, timezone=zone), moment))


@pytest.mark.parametrize(
    ("line", "step"), [("*/15 * * * *", _HOUR / 4), ("0 * * * *", _HOUR), ("0 */2 * * *", 2 * _HOUR)]
)
def test_hourly_cron_schedule_repeats_no_time_and_skips_at_most_an_hour(
    change: tuple[str, datetime], line: str, step: timedelta
) -> None:
    zone, moment = change
    runs = planned(CronSchedule(cron=line, timezone=zone), moment)
    assert len({(run.date(), run.time()) for run in runs}) == len(runs)
    assert longest_pause(runs, moment, step) <= step + _HOUR


@pytest.mark.parametrize("step", [_HOUR / 4, _HOUR, 24 * _HOUR])
def test_interval_is_extended_by_at_most_an_hour(change: tuple[str, datetime], step: timedelta) -> None:
    zone, moment = change
    added = datetime(2027, 1, 1, 2, 30, tzinfo=ZoneInfo(zone))
    runs = planned(IntervalSchedule(interval=step, timezone=zone, anchor_date=added), moment)
    assert longest_pause(runs, moment, step) <= step + _HOUR


def planned(schedule: CronSchedule | RRuleSchedule | IntervalSchedule, change: datetime) -> list[datetime]:
    """Return every run that the server plans around the change, in local time."""
    zone = ZoneInfo(schedule.timezone or "UTC")

    async def looks() -> set[datetime]:
        lists = [await schedule.get_dates(n=_ahead(schedule), start=change + look) for look in _LOOKS]
        return {run.astimezone(UTC) for one in lists for run in one}

    return [run.astimezone(zone) for run in sorted(asyncio.run(looks()))]


def _ahead(schedule: CronSchedule | RRuleSchedule | IntervalSchedule) -> int:
    """Return the number of runs that the server plans: three, or those of an hour."""
    frequent = (isinstance(schedule, CronSchedule) and "*/15" in schedule.cron) or (
        isinstance(schedule, IntervalSchedule) and schedule.interval < _HOUR
    )
    return 5 if frequent else 3


def comes_once_a_day(runs: list[datetime]) -> None:
    days = [run.date() for run in runs]
    assert len(days) >= 4
    assert [later - day for day, later in pairwise(days)] == [timedelta(days=1)] * (len(days) - 1)


def longest_pause(runs: list[datetime], change: datetime, step: timedelta) -> timedelta:
    """Return the longest time without a run around the change."""
    around = [run.astimezone(UTC) for run in runs]
    if step < 12 * _HOUR:
        around = [run for run in around if change - 2 * _HOUR <= run <= change + 2 * _HOUR + step]
    return max(later - run for run, later in pairwise(around))
