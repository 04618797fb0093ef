"""Blackout windows: times of day during which no source is read, such as "22:00-06:00 mon-fri Europe/Berlin"."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from catchment.errors import BadInput

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2}):(\d{2})-(\d{1,2}):(\d{2})")
_MINUTE = timedelta(minutes=1)
_LONGEST = 8 * 24 * 60
"""Minutes to search: longer than a week, so that every window has ended by then unless they cover the whole week."""


@dataclass(frozen=True, slots=True)
class Window:
    """A daily window from `start` to `end`; past midnight if `end` is not later than `start`.

    `days` are the weekdays on which it starts (0 is Monday). Times are local to `zone`, or to the machine if None, and follow
    daylight-saving time.
    """

    start: time
    end: time
    days: frozenset[int] = frozenset(range(7))
    zone: tzinfo | None = None

    def covers(self, moment: datetime) -> bool:
        """Return whether the time lies in the window."""
        local = moment.astimezone(self.zone)
        clock, day = local.time(), local.weekday()
        if self.start < self.end:
            return day in self.days and self.start <= clock < self.end
        return (day in self.days and clock >= self.start) or ((day - 1) % 7 in self.days and clock < self.end)


def parse(text: str) -> Window:
    """Parse hours, then optionally days ("mon-fri,sun") and a time zone. Raises BadInput."""
    hours, *rest = text.split() or [""]
    match = _HOURS.fullmatch(hours)
    try:
        numbers = [int(part) for part in match.groups()] if match else []
        # 24:00 is a common notation for the end of a day.
        start, end = time(numbers[0], numbers[1]), time(numbers[2] % 24 if numbers[3] == 0 else numbers[2], numbers[3])
    except (IndexError, ValueError):
        raise BadInput(f"{text!r}: not a blackout window; example: '22:00-06:00 mon-fri Europe/Berlin'") from None
    days, zone = frozenset(range(7)), None
    if rest and rest[0].lower()[:3] in _DAYS:
        days = _days(rest.pop(0))
    if rest:
        zone = _zone(rest.pop(0))
    if rest:
        raise BadInput(f"{' '.join(rest)!r} : not expected in a blackout window; write hours, days, time zone")
    return Window(start, end, days, zone)


def blocked_until(windows: Collection[Window], now: datetime) -> datetime | None:
    """Return the end (aware UTC) of the windows that cover `now`, or None if none does.

    Adjoining windows count as one. Windows that cover the whole week are reported to end in eight days.
    """
    if not any(window.covers(now) for window in windows):
        return None
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    # Stepping by minutes is correct even on days that a DST change makes longer or shorter.
    for _ in range(_LONGEST):
        minute += _MINUTE
        if not any(window.covers(minute) for window in windows):
            break
    return minute


def _days(text: str) -> frozenset[int]:
    days: set[int] = set()
    for part in text.lower().split(","):
        first, _, last = part.partition("-")
        if first not in _DAYS or (last and last not in _DAYS):
            raise BadInput(f"{part!r}: not a day of the week; examples: mon, mon-fri, sat,sun")
        begin, end = _DAYS.index(first), _DAYS.index(last or first)
        days |= {day % 7 for day in range(begin, end + 1 if end >= begin else end + 8)}
    return frozenset(days)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadInput(f"{name!r}: not a time zone; example: Europe/Berlin") from None
