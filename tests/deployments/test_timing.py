from __future__ import annotations

from datetime import timedelta

import pytest

from catchment.errors import BadInput
from catchment.model import in_words
from deployments.sources.schedules import check_cron, local_zone, seconds
from deployments.sources.sources_file import schedule_of


@pytest.mark.parametrize(("written", "meant"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86400), ("1W", 604800)])
def test_interval_is_a_number_and_a_unit(written: str, meant: int) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize("written", ["", "15", "m", "5s", "-1h", "1.5h", "15 minutes", "1h30m"])
def test_invalid_interval_is_refused_with_examples(written: str) -> None:
    with pytest.raises(ValueError, match="15m"):
        seconds(written)


@pytest.mark.parametrize(
    "line",
    [
        "* * * * *",
        "0 7 * * 1-5",
        "*/15 0,12 1 jan-mar MON",
        "5/10 4 L 1 1".replace("L", "31"),
        "0 0 * * 7",
        "0 0 29 2 *",
        "0 0 31 */3 *",
        "0 0 29 feb MON",
    ],
)
def test_cron_lines_are_read(line: str) -> None:
    assert check_cron(line) == line


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of the month"),
        ("* * * foo *", "month"),
        ("* * * * 8", "day of the week"),
        ("*/0 * * * *", "minute"),
        ("1- * * * *", "minute"),
        ("* * * *", "five fields"),
        ("@daily", "five fields"),
        ("0 0 30 2 *", "never occurs"),
        ("0 0 30 2 MON", "never occurs"),
        ("0 0 31 4 0-6", "never occurs"),
        ("0 0 31 2,apr,JUN-6,9/5 *", "never occurs"),
    ],
)
def test_invalid_cron_line_names_the_field(line: str, field: str) -> None:
    with pytest.raises(ValueError, match=field):
        check_cron(line)


def test_each_option_gives_one_schedule_with_slug_and_time_zone() -> None:
    every, cron, rrule = (
        schedule_of(every="15m")[0],
        schedule_of(cron="0 7 * * *")[0],
        schedule_of(rrule="FREQ=DAILY")[0],
    )
    assert every.interval == timedelta(minutes=15)
    assert (cron.cron, rrule.rrule) == ("0 7 * * *", "FREQ=DAILY")
    assert {schedule.slug for schedule in (every, cron, rrule)} == {"main"}
    assert {schedule.timezone for schedule in (every, cron, rrule)} == {local_zone()}
    assert schedule_of() == ()


@pytest.mark.parametrize(
    "asked",
    [
        {"every": "5"},
        {"every": "999999w"},
        {"cron": "x"},
        {"rrule": "FREQ=NEVER"},
        {"rrule": "?"},
        {"rrule": "FREQ=DAILY;INTERVAL=0"},
        {"rrule": "RRULE:FREQ=DAILY\nEXRULE:freq=daily;interval=-1"},
        {"rrule": "FREQ=SECONDLY"},
        {"rrule": "FREQ=MINUTELY;INTERVAL=5"},
        {"rrule": "FREQ=DAILY;UNTIL=20301231T000000Z"},
        {"rrule": "FREQ=HOURLY;BYMINUTE=0,30"},
        {"rrule": "FREQ=DAILY;BYHOUR=8,9,10,11,12;BYMINUTE=0,10,20,30,40,50"},
        {"rrule": "DTSTART:19000101T000000\nRRULE:FREQ=HOURLY"},
        {"rrule": "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"},
        {"rrule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;COUNT=3"},
        {"rrule": "FREQ=DAILY;BYSETPOS=5"},
        {"rrule": "FREQ=DAILY;BYMONTH=1;BYYEARDAY=200"},
        {"rrule": "FREQ=HOURLY;BYMONTH=4;BYMONTHDAY=31;UNTIL=20301231T000000"},
        {"rrule": "FREQ=WEEKLY;BYMONTH=1;BYYEARDAY=200"},
        {"rrule": "FREQ=MONTHLY;BYDAY=1MO;BYMONTHDAY=20"},
        {"rrule": "DTSTART:20210101T000000\nRRULE:FREQ=YEARLY;INTERVAL=4;BYMONTH=2;BYMONTHDAY=29"},
        {"every": "5m", "cron": "* * * * *"},
    ],
)
def test_invalid_schedule_is_bad_input(asked: dict[str, str]) -> None:
    with pytest.raises(BadInput):
        schedule_of(**asked)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=HOURLY;INTERVAL=2",
        "FREQ=HOURLY",
        "FREQ=HOURLY;BYHOUR=9,10,11,12;BYMINUTE=0,15,30,45",
        "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;INTERVAL=3;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO",
        "DTSTART:20240229T070000\nRRULE:FREQ=YEARLY",
        "FREQ=WEEKLY;BYDAY=SU;BYHOUR=3;BYMINUTE=0;BYSECOND=0",
        "DTSTART:19700101T000000\nRRULE:FREQ=DAILY",
        "FREQ=DAILY;COUNT=3",
        "FREQ=DAILY;UNTIL=20191231T000000",
        "FREQ=DAILY;INTERVAL=999999999",
        "FREQ=DAILY;UNTIL=20301231T000000",
        "DTSTART:20260101T070000Z\nRRULE:FREQ=DAILY;UNTIL=20301231T000000Z",
        "DTSTART;TZID=Europe/Berlin:20260101T070000\nRRULE:FREQ=WEEKLY;BYDAY=MO",
    ],
)
def test_valid_recurrence_rule_is_unchanged(rule: str) -> None:
    assert schedule_of(rrule=rule)[0].rrule == rule


def test_time_zone_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", ":Asia/Kolkata")
    assert local_zone() == "Asia/Kolkata"
    monkeypatch.setenv("TZ", "../../etc/passwd")
    assert local_zone() != "../../etc/passwd"


def test_interval_is_named_exactly() -> None:
    lengths = {"90 s": 90, "15 min": 900, "90 min": 5_400, "2 h": 7_200, "36 h": 129_600, "1 d": 86_400}
    assert [in_words(length, exact=True) for length in lengths.values()] == list(lengths)
