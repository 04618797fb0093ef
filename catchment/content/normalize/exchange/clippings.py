"""Read `My Clippings.txt`, the highlights and notes of a Kindle, in the language of the device."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import date

from catchment.content.normalize.decode import decode
from catchment.content.normalize.exchange.bibtex import spoken
from catchment.model import Document

_SEPARATOR = re.compile(r"^={10}[ \t]*$", re.MULTILINE)
_NOTE = re.compile(r"\b(?:note|notiz|nota|notitie|заметка)\b|メモ|笔记|筆記", re.IGNORECASE)
_AUTHORS = re.compile(r"\(((?:[^()]|\([^()]*\))*)\)\s*\Z")
_PLACE = re.compile(r"(\d{1,9})(?:[-–](\d{1,9}))?")
_MONTHS = "jan ene gen|feb fév fev|mar mär maa|apr avr abr|mai may mag mei|jun giu|jul lug|aug aoû ago|sep set|oct okt ott out"
_NAMES = [*_MONTHS.split("|"), "nov", "dec déc dez dic"]
_DAY = re.compile(
    r"(?P<year>\d{4})年(?P<month>\d{1,2})月(?P<day>\d{1,2})日"
    r"|(?:(?P<before>\d{1,2})\.?\s+(?:de\s+)?(?P<name>[^\W\d]+)\.?|(?P<first>[^\W\d]+)\s+(?P<after>\d{1,2}),)\s+(?:de\s+)?"
    r"(?P<of>\d{4})"
)


def clippings(data: bytes, media_type: str) -> Document:
    """Return the highlights of each book as quotations in their order in it, each note beside its highlight."""
    text, warnings, properties = decode(data)
    books: dict[str, dict[tuple[int, bool, str], None]] = {}
    damaged = 0
    for entry in _SEPARATOR.split(text.replace("\ufeff", "")):
        book, _, rest = entry.strip().partition("\n")
        about, _, words = rest.partition("\n")
        if book and not about.startswith("-"):
            damaged += 1
        elif words.strip():
            key = _clipping(about[1:].strip(), words.strip())
            books.setdefault(" ".join(book.split()), {})[key] = None
    written = [match[1] for book in books if (match := _AUTHORS.search(book))]
    authors = list(dict.fromkeys(spoken(name) for names in written for name in names.split(";")))
    parts = ("\n\n".join((f"## {book}", *(text for *_, text in sorted(entries)))) for book, entries in books.items())
    properties = {"authors": authors, **properties} if authors else properties
    warnings += (f"damaged clippings: {damaged}",) if damaged else ()
    return Document("\n\n".join(parts), media_type, properties=properties, warnings=warnings)


def _clipping(about: str, words: str) -> tuple[int, bool, str]:
    """Return the end of the place in the book, whether it is a note, and the text."""
    place, _, added = about.rpartition("|")
    is_note = _NOTE.search(place) is not None
    start, end = ([*_PLACE.findall(place)] or [("", "")])[-1]
    end = start[: max(0, len(start) - len(end))] + end  # an old Kindle writes 123-24
    quoted = words if is_note else "\n".join(f"> {line}".rstrip() for line in words.split("\n"))
    facts = (part.strip() for part in (*place.split("|"), _day(added)))
    return int(end or 0), is_note, f"{quoted}\n\n{', '.join(filter(None, facts))}"


def _day(added: str) -> str:
    """Return the date as in ISO 8601, or the words if they are in another language."""
    if match := _DAY.search(added[:200]):
        name = (match["name"] or match["first"] or "").lower().replace("jui", "ju")[:3]
        month = match["month"] or next((number for number, names in enumerate(_NAMES, 1) if name in names), 0)
        day = match["day"] or match["before"] or match["after"]
        with suppress(ValueError):
            return date(int(match["year"] or match["of"]), int(month), int(day)).isoformat()
    return added.strip()
