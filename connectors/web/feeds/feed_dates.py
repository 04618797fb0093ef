"""Read the dates of feed entries, which are written in every notation."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, cast

import feedparser

from catchment.model import time_of

_MOST = 100
_MOST_FAILURES = 100
"""Dates of a feed that are searched for words of all languages in vain."""
_UNIX = re.compile(r"[0-9]{9,10}(?:\.[0-9]+)?|[0-9]{12,13}")
_MONTH = re.compile(r"[12][0-9]{3}(?:-[0-9]{2})?")
_MILLISECONDS = 1e11
"""Larger numbers count milliseconds: as seconds they would be after the year 5000."""
_END_OF_DAY = re.compile(r"\b24:00(:00(?:\.0+)?)?")
_LEAP_SECOND = re.compile(r"(:[0-5][0-9]):60\b")
_NAMED_UTC = re.compile(r"(?<=[0-9]) ?(?:UTC|GMT|Z)$")
_UNKNOWN_IN_FEEDS = re.compile(
    r"[^\x00-\x7f]|[0-9] ?[ap]\.?m\b|\b(?!UTC?$|GMT$|MET$|[AECMP](?:[SD]?T)$)[a-z]{3,5}$", re.IGNORECASE
)
"""Hours of half a day, other alphabets, and other zones than those of America."""
_IN_WORDS = re.compile(r"(?=.*[0-9])(?:.*[^\W\d_]{3}|.*[^\x00-\x7f])", re.DOTALL)
_LANGUAGES = (
    "en de fr es it pt nl pl ru uk cs sk hr sr hu ro bg el tr sv da nb fi et lv lt ar he fa hi ja zh ko vi th id"
)
"""All two hundred take seconds to load, and 10 ms for each date."""
_NO_DATE = datetime.fromtimestamp(0, UTC)
"""The date that some programs write if they have none."""
_LEAST = 8


class FeedDates:
    """The dates of one feed."""

    def __init__(self) -> None:
        self._failures = 0

    def moment_of(self, date: Any) -> datetime | None:
        """Return a time, aware UTC; None if the feed states none. A number is Unix time."""
        text = (str(date) if isinstance(date, str | int | float) else "").strip()[:_MOST]
        if _UNIX.fullmatch(text):
            return time_of(float(text), _unix)
        # A day before the first is "0000-00-00" of a database in another zone.
        if text.startswith("-") or (len(text) < _LEAST and not _MONTH.fullmatch(text)):
            return None
        text, shift = _LEAP_SECOND.sub(r"\1:59", text), timedelta()
        if _END_OF_DAY.search(text):
            text, shift = _END_OF_DAY.sub(lambda match: "00:00" + ":00" * bool(match[1]), text), timedelta(days=1)
        date_time = time_of(text, _iso) or time_of(text, _in_feeds) or self._in_words(text)
        date_time = date_time or time_of(text, parsedate_to_datetime)
        if date_time is None or date_time == _NO_DATE:
            return None
        return time_of(date_time, lambda moment: moment.replace(microsecond=0) + shift)

    def _in_words(self, text: str) -> datetime | None:
        """Read a date in the words of any language, or with a zone of any country."""
        if self._failures >= _MOST_FAILURES or not _IN_WORDS.match(text):
            return None
        moment = time_of(text, _in_language)
        self._failures += moment is None
        return moment


def _unix(number: float) -> datetime:
    return datetime.fromtimestamp(int(number / 1_000 if number > _MILLISECONDS else number), UTC)


def _iso(text: str) -> datetime:
    return datetime.fromisoformat(_NAMED_UTC.sub("+00:00", text))


def _in_feeds(text: str) -> datetime:
    """Read the date formats of most feeds, also with years of two digits or without seconds."""
    if _UNKNOWN_IN_FEEDS.search(text):
        raise ValueError(text)
    fields = feedparser.datetimes._parse_date(text)
    return datetime(*fields[:6]) if fields else parsedate_to_datetime(text)  # noqa: DTZ001 - in UTC


def _in_language(text: str) -> datetime:
    moment = _reader().get_date_data(text).date_obj
    if moment is None:
        raise ValueError(text)
    return cast(datetime, moment)


@cache
def _reader() -> Any:
    from dateparser.date import DateDataParser

    return DateDataParser(_LANGUAGES.split(), settings={"STRICT_PARSING": True, "PARSERS": ["absolute-time"]})
