"""Expand the recurrence rules of calendars (RFC 5545, 3.3.10) that people use. The number of steps is bounded.

dateutil reads every rule, but looks until the year 9999 for a day that never comes, such as the 30th of February.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable, Iterator
from datetime import date
from itertools import groupby, islice

_MAX_DAYS, _MAX_OCCURRENCES, _YEAR = 731, 500, 366
_WEEKDAYS = ["MO", "TU", "WE", "TH", "FR", "SA", "SU"]
_PARTS = frozenset(("FREQ", "INTERVAL", "COUNT", "UNTIL", "BYMONTH", "BYMONTHDAY", "BYDAY", "BYSETPOS", "WKST"))


def days(rule: str, first: date) -> Iterator[date]:
    """Yield the days of a series in two years from the first, at most 500, without regard to UNTIL.

    A rule with other parts, such as hours or numbers of weeks, has none.
    """
    parts = dict(part.partition("=")[::2] for part in rule.upper().split(";") if part)
    try:
        names = ("BYMONTH", "BYMONTHDAY", "BYSETPOS")
        months, month_days, places = ([int(text) for text in parts.get(name, "").split(",") if text] for name in names)
        weekdays = [(int(day[:-2] or 0), _WEEKDAYS.index(day[-2:])) for day in parts.get("BYDAY", "").split(",") if day]
        week_start = _WEEKDAYS.index(parts.get("WKST", "MO"))
        interval, count = int(parts.get("INTERVAL", 1)), int(parts.get("COUNT", _MAX_OCCURRENCES))
    except ValueError:
        return
    periods: dict[str, Callable[[date], int]] = {
        "YEARLY": lambda day: day.year,
        "MONTHLY": lambda day: 12 * day.year + day.month,
        "WEEKLY": lambda day: (day.toordinal() - 1 - week_start) // 7,
        "DAILY": date.toordinal,
    }
    frequency = parts.get("FREQ", "")
    if frequency not in periods or not parts.keys() <= _PARTS or interval < 1 or count < 1:
        return
    if not month_days and not weekdays:
        months = months or ([first.month] if frequency == "YEARLY" else [])
        month_days = [first.day] if frequency in ("YEARLY", "MONTHLY") else []
        weekdays = [(0, first.weekday())] if frequency == "WEEKLY" else []
    if frequency in ("WEEKLY", "DAILY"):
        weekdays = [(0, weekday) for _, weekday in weekdays]

    def is_selected(day: date) -> bool:
        size, place = monthrange(day.year, day.month)[1], day.day
        if (months and day.month not in months) or (month_days and not {place, place - size - 1} & {*month_days}):
            return False
        if frequency == "YEARLY" and not months:
            size, place = 365 + isleap(day.year), day.timetuple().tm_yday
        numbers = (0, (place - 1) // 7 + 1, -((size - place) // 7) - 1)
        return not weekdays or any((number, day.weekday()) in weekdays for number in numbers)

    start, period = first.toordinal(), periods[frequency]
    last = min(start + _MAX_DAYS, date.max.toordinal())
    around = _YEAR if places else 0  # a place is one in a whole period
    every = map(date.fromordinal, range(max(1, start - around), min(last + around, date.max.toordinal()) + 1))
    selected = (day for day in every if not (period(day) - period(first)) % interval and is_selected(day))
    series = (day for _, group in groupby(selected, period) for day in _placed([*group], places))
    yield from islice((day for day in series if start <= day.toordinal() <= last), min(count, _MAX_OCCURRENCES))


def _placed(group: list[date], places: list[int]) -> list[date]:
    chosen = {(place - (place > 0)) % len(group) for place in places if 0 < abs(place) <= len(group)}
    return [group[place] for place in sorted(chosen)] if places else group
