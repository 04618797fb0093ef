"""The dates of a series in a calendar are listed, without exceptions, and within limits."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr

from catchment.content.extract import extract
from catchment.content.normalize import normalize
from catchment.content.normalize.exchange.recurrence import days
from catchment.model import Document, EntityKind, RawContent


def _read(text: str | bytes, name: str) -> Document:
    return normalize(RawContent(text if isinstance(text, bytes) else text.encode(), name))


def _values(document: Document, kind: EntityKind) -> list[str]:
    return [entity.value for entity in extract(document).entities if entity.kind is kind]


def _calendar(*events: str) -> Document:
    inner = "".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT\n" for event in events)
    return _read(f"BEGIN:VCALENDAR\n{inner}END:VCALENDAR\n", "a.ics")


def _dates(*events: str) -> list[str]:
    line = next((line for line in _calendar(*events).text.split("\n") if line.startswith("Dates: ")), "Dates: ")
    return line.removeprefix("Dates: ").split(", ")


def test_dates_of_a_series_are_listed_without_exceptions() -> None:
    series = (
        "UID:1\nSUMMARY:Weekly\nDTSTART;TZID=Europe/Oslo:20260105T180000\nRRULE:FREQ=WEEKLY;UNTIL=20260209T170000Z\n"
        "EXDATE:20260112T170000Z\nORGANIZER;CN=Ada Berg:mailto:a@example.org\nATTENDEE;CN=Nils:mailto:n@example.org"
    )
    moved = "UID:1\nSUMMARY:Moved\nRECURRENCE-ID;TZID=Europe/Oslo:20260119T180000\nDTSTART:20260120T180000Z"
    assert _dates(series, moved) == ["2026-01-05", "2026-01-26", "2026-02-02", "2026-02-09"]
    document = _calendar(series, moved)
    assert _values(document, EntityKind.PERSON) == ["Ada Berg", "Nils"]
    assert {"2026-01-20", "2026-01-26"} <= set(_values(document, EntityKind.DATE))


@pytest.mark.parametrize(
    ("start", "rule", "dates"),
    [
        ("20240229", "FREQ=YEARLY;COUNT=9", ["2024-02-29"]),
        ("20240101", "FREQ=DAILY;UNTIL=20240103T120000Z", ["2024-01-01", "2024-01-02", "2024-01-03"]),
        ("20240101T080000", "FREQ=DAILY;UNTIL=20240102", ["2024-01-01", "2024-01-02"]),
        ("99991230T000000Z", "FREQ=DAILY", ["9999-12-30", "9999-12-31"]),
        ("00010101T000000", "freq=daily;count=2", ["0001-01-01", "0001-01-02"]),
        ("20240131", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1;COUNT=2", ["2024-01-31", "2024-02-29"]),
        *(
            ("20240101", rule, [""])
            for rule in (
                "FREQ=DAILY;BYSECOND=1,2",
                "FREQ=SECONDLY",
                "FREQ=DAILY;INTERVAL=0",
                "FREQ=DAILY;COUNT=x",
                "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
                "FREQ=MONTHLY;BYDAY=9XX",
                "COUNT",
                ";;=",
                "FREQ=YEARLY;BYMONTH=" + "1," * 900,
            )
        ),
        ("20240101", "FREQ=DAILY;INTERVAL=" + "9" * 400, ["2024-01-01"]),
        ("garbage", "FREQ=DAILY", [""]),
    ],
)
def test_dates_of_odd_series_are_bounded(start: str, rule: str, dates: list[str]) -> None:
    assert _dates(f"SUMMARY:Odd\nDTSTART:{start}\nRRULE:{rule}") == dates


def test_series_of_a_calendar_are_bounded() -> None:
    assert len(_dates("DTSTART:20240101\nRRULE:FREQ=DAILY")) == 500
    event = "DTSTART:20240101\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=1"
    assert _calendar(*[event] * 1_002).warnings == ("series without their dates: 2; split the calendar",)


def test_days_of_a_rule_are_those_of_dateutil() -> None:
    choose = random.Random(5)
    for _ in range(300):
        frequency = choose.choice(["YEARLY", "MONTHLY", "WEEKLY", "DAILY"])
        numbered = frequency in ("YEARLY", "MONTHLY")
        weekdays = choose.sample(["MO", "TU", "WE", "TH", "FR", "SA", "SU"], choose.randint(1, 5))
        ordinal = choose.choice(["", "1", "2", "-1", "4"]) if numbered else ""
        parts = [
            f"INTERVAL={choose.randint(1, 4)}",
            f"BYMONTH={','.join(map(str, choose.sample(range(1, 13), 3)))}",
            f"BYDAY={','.join(ordinal + day for day in weekdays)}",
            f"COUNT={choose.randint(1, 30)}",
            f"WKST={choose.choice(['SU', 'MO', 'WE'])}",
            *(["BYMONTHDAY=5,13,31,-1", f"BYSETPOS={choose.choice(['1', '-1', '1,-1'])}"] if numbered else []),
        ]
        chosen = [part for part in parts if choose.random() < 0.5]
        if not any(part.startswith(("BYDAY", "BYMONTH")) for part in chosen):
            chosen = [part for part in chosen if not part.startswith("BYSETPOS")]
        first = date(2024, 1, 1) + timedelta(choose.randint(0, 1_200))
        rule = ";".join((f"FREQ={frequency}", *chosen))
        last = datetime(first.year, first.month, first.day) + timedelta(731)  # noqa: DTZ001 - dateutil's days have no zone
        expected = rrulestr(rule, dtstart=last - timedelta(731))
        assert list(days(rule, first)) == [moment.date() for moment in islice(expected, 500) if moment <= last], rule
