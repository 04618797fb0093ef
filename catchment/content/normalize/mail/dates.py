"""Read the date of a message: as RFC 5322 and ISO 8601 write it, and as mail programs wrote it instead. Never fails."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from catchment.content.normalize.mail.words import uncommented
from catchment.model import time_of

# Notations beyond RFC 5322: `+01:00`, `GMT+0100` (JavaScript), ISO 8601, a leap second, and 24:00 for the end of a day.
_ZONE = re.compile(r"(\d\d:\d\d(?::\d\d)?)[ \t]*(?:GMT|UTC?)?[ \t]*([+-]\d\d):?(\d\d)(?!\d)", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?![\d-])")
_ISO_SPACE = re.compile(r"(?<=\d)\s+(?=[+-]\d)")
_LEAP_SECOND = re.compile(r"(\d\d:\d\d):60(?!\d)")
_MIDNIGHT = re.compile(r"(?<![\d:])24:00(?=:00|[^:\d]|\Z)")
_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# The days around the epochs of Unix and classic Mac OS, which programs without a clock write.
_NO_TIME = (
    (datetime(1969, 12, 31, tzinfo=UTC), datetime(1970, 1, 3, tzinfo=UTC)),
    (datetime(1903, 12, 31, tzinfo=UTC), datetime(1904, 1, 3, tzinfo=UTC)),
)

_CLOCK = re.compile(
    r"(?<![\d:])(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?(?:\s*([ap])\.?m\b\.?)?(?:\s*((?:gmt|utc?)?\s*[+-]\d\d:?\d\d|[a-z]{1,4}\b))?"
)
_HALF_OF_DAY = re.compile(r"\d\s*[ap]\.?m\b", re.IGNORECASE)
_OF = r"[\s,.-]*(?:de\s+)?"
_DAY_AND_NAME = re.compile(rf"(?<!\d)(\d\d?)(?:er|[oa])?{_OF}([^\W\d_]{{3,15}}){_OF}(\d{{4}}|\d\d)(?![\d:])")
_NAME_AND_DAY = re.compile(r"([^\W\d_]{3,15})\.?\s+(\d\d?)(?:st|nd|rd|th)?[\s,]+(\d{4})(?![\d:])")
_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})\s*[-/.年년]\s*(\d\d?)\s*[-/.月월]\s*(\d\d?)(?!\d)")
_NUMBERS = re.compile(r"(?<!\d)(\d\d?)([-/.])(\d\d?)\2(\d{4})(?!\d)")
# The first letters of the months, without accents: English, German, French, Spanish, Italian, Dutch, Portuguese, Polish,
# Turkish, Russian and Arabic. Four letters where three are two months.
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            "jan ene gen sty oca янв ينا", "feb fev lut sub фев فبر", "mar maa mrt мар مار", "apr abr avr kwi nis апр ابر",
            "may mai mei mag maj мая маи ماي", "jun juin giu cze haz июн يون", "jul juil lug lip tem июл يول",
            "aug aou ago sie agu авг اغس", "sep set wrz eyl сен سبت", "oct okt ott out paz eki окт اكت",
            "nov lis kas ноя نوف", "dec dez dic gru ara дек ديس",
        ),
        1,
    )
    for name in names.split()
}  # fmt: skip
_ENGLISH = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def moment(value: str) -> datetime | None:
    """Return the time that a date field names, in aware UTC; None for other text and implausible dates.

    Month names may be in eleven languages. A date without a zone is in UTC, one without a time at midnight. Of two numbers
    that may both be the month (`03/04/2014`), neither is guessed.
    """
    value = _LEAP_SECOND.sub(r"\1:59", uncommented(value[:200])[0].strip())
    value, days = _MIDNIGHT.subn("00:00", value, 1)
    # The standard library ignores AM and PM.
    date = None if _HALF_OF_DAY.search(value) else _standard(value)
    date = date or _standard(_rewritten(value))
    if date is None or not _EARLIEST <= date < _LATEST or any(first <= date < last for first, last in _NO_TIME):
        return None
    return date + timedelta(days)


def _standard(value: str) -> datetime | None:
    if _ISO.match(value):
        return time_of(_ISO_SPACE.sub("", value))
    return time_of(_ZONE.sub(r"\1 \2\3", value), parsedate_to_datetime)


def _rewritten(value: str) -> str:
    """Return the date in the notation of RFC 5322, or "" without a date."""
    bare = "".join(c for c in unicodedata.normalize("NFKD", value.lower()) if not unicodedata.combining(c))
    value = unicodedata.normalize("NFC", bare)
    clock = _CLOCK.search(value)
    date = _date(value)
    if date is None:
        return ""
    hour, minute, second, half, zone = clock.groups("") if clock else ("0", "00", "", "", "")
    if half:
        hour = str(int(hour) % 12 + (12 if half == "p" else 0))
    year, month, day = date
    return f"{day} {_ENGLISH[month - 1]} {year} {hour:0>2}:{minute}:{second or '00'} {zone}" if 1 <= month <= 12 else ""


def _date(value: str) -> tuple[str, int, str] | None:
    """Return year, month and day."""
    if match := _YEAR_FIRST.search(value):
        return match[1], int(match[2]), match[3]
    if match := _NUMBERS.search(value):
        first, second = int(match[1]), int(match[3])
        if match[2] == "." or first > 12 or first == second:
            return match[4], second, match[1]
        return (match[4], first, match[3]) if second > 12 else None
    for pattern, name, day in ((_DAY_AND_NAME, 2, 1), (_NAME_AND_DAY, 1, 2)):
        for match in pattern.finditer(value):
            if month := _MONTHS.get(match[name][:4]) or _MONTHS.get(match[name][:3]):
                return match[3], month, match[day]
    return None
