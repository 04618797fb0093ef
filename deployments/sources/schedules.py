"""Validation of schedules: intervals, cron lines, recurrence rules and time zones."""

from __future__ import annotations

import os
import re
from calendar import monthrange
from datetime import MAXYEAR, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
SHORTEST, LONGEST = 10, 3_650 * 86_400
"""Limits of an interval in seconds. At most ten years: the server finds no date beyond the calendar."""
_TIMES_A_DAY, _AS_OF, _YEARS = 24, 2040, 20
"""A recurrence rule may have 24 times a day, counted over twenty years until 2040."""
_RULE_PART = re.compile(r"\b(FREQ|INTERVAL)=([^;\s]+)")
_CRON_PART = re.compile(r"(?:(?P<all>\*)|(?P<start>[a-z]+|\d+)(?:-(?P<end>[a-z]+|\d+))?)(?:/(?P<step>\d+))?")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LEAP_YEAR = 2024
_CALENDAR_YEARS = 400
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)


def seconds(every: str) -> int:
    """Return the seconds of an interval such as "90s", "15m", "2h", "1d". Raises ValueError with the remedy."""
    match = re.fullmatch(r"(\d{1,6})\s*([smhdw])", every.strip().lower())
    if match is None or not SHORTEST <= int(match[1]) * _SECONDS[match[2]] <= LONGEST:
        raise ValueError("invalid interval; write a number and a unit, from 10s to 3650d: 90s, 15m, 2h, 1d")
    return int(match[1]) * _SECONDS[match[2]]


def check_cron(line: str) -> str:
    """Return a valid cron line of five fields. Raises ValueError naming the invalid field, or for dates that do not exist."""
    parts = line.split()
    if len(parts) != len(_FIELDS):
        raise ValueError(
            'invalid cron line; write five fields: minute, hour, day, month, day of the week, as in "0 7 * * 1-5"'
        )
    numbers = []
    for field, (name, low, high, names) in zip(parts, _FIELDS, strict=True):
        try:
            numbers.append(_numbers(field.lower(), low, high, names))
        except ValueError:
            raise ValueError(f"cron line: the {name} must be in {low}-{high}; see crontab(5)") from None
    _, _, days, months, _ = numbers
    # By crontab(5) a day of the week would be an alternative to the date, but the server finds no date for it either.
    if min(days) > max(monthrange(_LEAP_YEAR, month)[1] for month in months):
        raise ValueError("cron line: the date never occurs, like 30 February; correct the day or the month")
    return line


def check_rrule(rule: str) -> str:
    """Return a valid recurrence rule (RFC 5545). Raises ValueError.

    The server enumerates all times of a rule from its start, or from 2020, in its only thread. A rule that never advances
    would block it forever, and a rule for each minute would block it for most of a minute at every check. For a rule without
    any existing date it tries all days until the year 9999, which takes 10 s.
    """
    from dateutil.rrule import rrulestr

    try:
        # With a start, as on the server. Otherwise an end in UTC (`UNTIL=…Z`) is not compared with anything.
        read: Any = rrulestr(rule, dtstart=datetime(2020, 1, 1))  # noqa: DTZ001 - the server's start has no zone either
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        example = "FREQ=WEEKLY;BYDAY=MO, and where it ends UNTIL=20301231T000000, in the schedule's time zone"
        raise ValueError(f"not a recurrence rule (RFC 5545); example: {example}") from None
    for name, value in _RULE_PART.findall(rule.upper()):
        # Prefect's server enumerates all times since the start in its event loop: 21 s for a rule of every five minutes.
        if name == "FREQ" and value in ("SECONDLY", "MINUTELY"):
            raise ValueError("a recurrence rule cannot repeat more often than hourly; use an interval: --every 15m")
        if name == "INTERVAL" and int(value) < 1:
            raise ValueError("recurrence rule: INTERVAL must be at least 1")
    for part in getattr(read, "_rrule", [read]):
        times = _times_a_day(part)
        if times > _TIMES_A_DAY:
            raise ValueError(
                "a recurrence rule may have at most 24 times a day; for more, use an interval: --every 15m"
            )
        if times * (_AS_OF - part._dtstart.year) > _TIMES_A_DAY * _YEARS:
            raise ValueError("recurrence rule: DTSTART is too long ago; use a later one, or none")
        if not _ever_occurs(part):
            raise ValueError("recurrence rule: the dates never occur, like 30 February; correct the days or months")
    return rule


def _times_a_day(rule: Any) -> float:
    hours = len(rule._byhour) if rule._byhour else 24 / rule._interval
    return float(hours * len(rule._byminute or "1") * len(rule._bysecond or "1"))


def _ever_occurs(rule: Any) -> bool:
    """Whether a rule ever has a time. Searches to the end of the calendar, which repeats every 400 years."""
    start = rule._dtstart
    late = start.replace(year=start.year + (MAXYEAR - start.year) // _CALENDAR_YEARS * _CALENDAR_YEARS)
    return next(iter(rule.replace(dtstart=late, until=None, count=None)), None) is not None


def check_zone(name: str) -> str:
    """Return the name of a time zone unchanged. Raises ValueError."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise ValueError("not a time zone; examples: Europe/Berlin, UTC") from None
    return name


def local_zone() -> str:
    """The name of this machine's time zone; UTC if it is unknown."""
    configured = os.environ.get("TZ", "").removeprefix(":")
    linked = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
    for name in (configured, linked):
        if name:
            try:
                return check_zone(name)
            except ValueError:
                continue
    return "UTC"


def _numbers(field: str, low: int, high: int, names: tuple[str, ...]) -> set[int]:
    """Return the numbers that a field of a cron line includes. Raises ValueError."""
    numbers: set[int] = set()
    for part in field.split(","):
        match = _CRON_PART.fullmatch(part)
        if match is None:
            raise ValueError(part)
        start, end, step = match["start"], match["end"], int(match["step"] or 1)
        first = low if match["all"] else _number(start, low, names)
        last = _number(end, low, names) if end else high if match["all"] or match["step"] else first
        if not low <= first <= high or not low <= last <= high:
            raise ValueError(part)
        # A range with its end before its start wraps around. A step of 0 is a ValueError, too.
        rest = [] if first <= last else range(low, last + 1)
        numbers.update([*range(first, (high if rest else last) + 1), *rest][::step])
    return numbers


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text) + low if text in names else int(text)
