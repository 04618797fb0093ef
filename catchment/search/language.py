"""The query language: words, "phrases", prefix*, -without, this OR that, and filters such as `tag:bridge after:2025-03`.

Words and phrases are any text and never an error. A filter is a known name, a colon and a value, which may be quoted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase

from catchment.errors import BadInput
from catchment.ledger import HAS, TASK, UNANSWERED, AnyOf, Filter, FilterName, Query, Term, plain_words
from catchment.model import duration
from catchment.search.widen import is_near

_PATTERNS = {
    "note": "text/markdown %/x-ipynb+json %/enex+xml %/x-kindle-clippings",
    "mail": "message/rfc822 %/vnd.ms-outlook %/mbox",
    "pdf": "%/pdf",
    "word": "%/msword% %/vnd.ms-word% %/%wordprocess% %/%opendocument.text% %/rtf %/%wordperfect %/%hwp% %/x-iwork-pages%",
    "sheet": "%/vnd.ms-excel% %/%spreadsheetml% %/%opendocument.spread% %/x-iwork-numbers% text/csv text/tab-separated-values",
    "slides": "%/vnd.ms-powerpoint% %/%presentationml% %/%opendocument.presentation% %/x-iwork-keynote%",
    "book": "%/epub+zip %/x-mobipocket-ebook %/x-fictionbook+xml",
    "image": "image/%",
    "drawing": "%/vnd.ms-visio% %/%opendocument.graphics% %/vnd.jgraph% %/vnd.excalidraw% %/gliffy%",
    "code": "text/x-% text/css text/javascript text/typescript %/json %/xml %/yaml %/toml",
    "web": "text/html %/xhtml+xml multipart/related %/warc %/x-netscape-bookmarks",
    "text": "text/plain text/vcard text/vtt %/x-subrip %/x-webloc %/opml+xml %/x-bib% %/x-res% %/gpx+xml %/vnd.google-earth%",
    "canvas": "%/x-jsoncanvas",
    "calendar": "text/calendar",
    "archive": "%/zip %/x-tar %/gzip %/x-7z% %/vnd.rar %/zstd %/x-lzip %/vnd.ms-cab% %/x-cpio",
    **{kind: kind for kind in ("issue", "pull", TASK)},
}
TYPES: Mapping[str, tuple[str, ...]] = {name: tuple(patterns.split()) for name, patterns in _PATTERNS.items()}
"""The values of `type:`, with patterns of LIKE for the media types they stand for: for each of `media_types.txt`, one value.

Issues, pull requests and tasks are kinds, not media types: they have no slash. A media type itself is a value too.
"""
STATES: Mapping[str, tuple[str, ...]] = {
    "open": ("open",),
    "closed": ("closed", "merged"),
    "merged": ("merged",),
    UNANSWERED: (UNANSWERED,),
}
"""The values of `is:`, with the states of issues, pull requests, tasks and messages."""

_QUOTES = '"“”„‟«»＂'
_PART = re.compile(rf"(-?)[{_QUOTES}]([^{_QUOTES}]*)[{_QUOTES}]?(\*?)|(-?)([^\s{_QUOTES}]+)")
_BREAK = re.compile(r"[\W_]+")
_LONGEST = 1_000
"""Significant characters of a word or phrase."""
_MOST_TERMS = 50
"""Words, phrases, exclusions and filters of a query: more cost seconds, and the databases refuse hundreds."""
_TEXT = r"(?!(?:is|[a-z]*[A-Z][A-Za-z]*):(?:\s|$))"
"""As in: "the answer is: 42", or "Date: today"."""
_FILTER = re.compile(rf"(?<!\S)(-?){_TEXT}([A-Za-z]{{2,7}}):(?:[{_QUOTES}]([^{_QUOTES}]*)[{_QUOTES}]?|(\S*))")
_AFTER, _BEFORE, _SORT = "after", "before", "sort"
FILTERS = (*FilterName, _AFTER, _BEFORE, _SORT)
_SINGLE = (FilterName.SOURCE, FilterName.KIND, FilterName.TYPE, FilterName.LANG)
_EVER = (-(2**62), 2**62)
_DAYS = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_RELATIVE = re.compile(r"(this|last) (week|month|year)")
_LAST = re.compile(r"last (\d{1,4}) (day|week|month|year)s?")
_UNITS = {"day": 1, "week": 7, "month": 31, "year": 366}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def parse(text: str, sources: Mapping[str, str], now: datetime) -> Query:
    """Read a query.

    `text`: as `storable_text` returns it. `sources`: the kind of each source by its name. `now`: aware, in the time zone of the
    person. Raises BadInput for a filter that is misspelled, empty, or has a value that cannot be meant, and for more than
    `_MOST_TERMS` terms.
    """
    filters: list[Filter] = []
    words: list[str] = []
    position, newest_first = 0, False
    for match in _FILTER.finditer(text):
        minus, name, quoted, bare = match.groups()
        name = name.lower()
        if name not in FILTERS:
            close = [known for known in FILTERS[:-1] if min(len(name), len(known)) > 2 and is_near(name, known, 1)]
            if close:
                raise BadInput(
                    f'{name}: is not a filter; did you mean {close[0]}:? Quotes find it as text: "{match[0]}"'
                )
            continue
        value = (bare if quoted is None else quoted).strip()
        if not value:
            raise BadInput(f"{name}: needs a value, such as {name}:{_EXAMPLES[name]}")
        if name == _SORT:
            _known(name, value, ("date",))
        else:
            filters.append(_filter(name, value, bool(minus), sources, now))
        newest_first |= name == _SORT
        words.append(text[position : match.start()])
        position = match.end()
    words.append(text[position:])
    query = parse_words(" ".join(words))
    query = replace(query, filters=_joined(filters), newest_first=newest_first)
    number = sum(map(len, query.wanted)) + len(query.unwanted) + len(query.filters)
    if number > _MOST_TERMS:
        raise BadInput(f"query: {number} words and filters; use at most {_MOST_TERMS}, or quote words as a phrase")
    return query


def _joined(filters: Iterable[Filter]) -> tuple[Filter, ...]:
    """Join repeated filters of which a document has only one value: they find documents with any of the values."""
    joined: dict[object, Filter] = {}
    for each in filters:
        is_single = each.name in _SINGLE and not each.is_negated and TASK not in each.values
        before = joined.setdefault(each.name if is_single else each, each)
        if before != each:
            joined[each.name] = replace(before, values=tuple(dict.fromkeys((*before.values, *each.values))))
    return tuple(joined.values())


def parse_words(words: str) -> Query:
    """Read words, "phrases", prefix*, -without and this OR that. Ignores punctuation. Every text is valid."""
    parts = [_part(*match.groups()) for match in _PART.finditer(unicodedata.normalize("NFC", words))]
    alternatives: list[list[Term]] = []
    unwanted: list[Term] = []
    joins = False
    for part in parts:
        if part is None:
            joins = bool(alternatives)
            continue
        is_unwanted, term = part
        if not term.words:
            continue
        if is_unwanted:
            unwanted.append(term)
        elif joins:
            alternatives[-1].append(term)
            joins = False
        else:
            alternatives.append([term])
    groups: Iterable[AnyOf] = (tuple(dict.fromkeys(group)) for group in alternatives)
    return Query(tuple(dict.fromkeys(groups)), tuple(dict.fromkeys(unwanted)))


def sentence(text: str) -> str:
    """Return a query as a sentence: without filters, exclusions, `OR`, quotation marks and stars."""
    parts = [_part(*match.groups()) for match in _PART.finditer(without_filters(text))]
    return " ".join(part[1].text for part in parts if part is not None and not part[0])


def without_filters(text: str) -> str:
    """Return a query without its filters."""
    return _FILTER.sub(lambda match: " " if match[2].lower() in FILTERS else match[0], text)


def _part(minus: str, phrase: str, star: str, bare_minus: str, bare: str) -> tuple[bool, Term] | None:
    """Return whether a term is unwanted, and the term; None for OR."""
    if bare == "OR" and not bare_minus:
        return None
    text = (phrase if bare is None else bare).strip("*")
    begins = bool(star) or (bare or "").endswith("*")
    term = Term(text, begins, is_quoted=bare is None) if len(text) <= _LONGEST else _beginning(text)
    return bool(minus or bare_minus), term


def _beginning(text: str) -> Term:
    """Return the whole words at the start of a very long phrase, or the first characters of a very long word."""
    words = _BREAK.split(text[: _LONGEST + 1])
    last = words[-1]
    if not last or len(last) > _LONGEST or not plain_words(text[: _LONGEST + 1 - len(last)]):
        return Term(text[:_LONGEST], prefix=bool(last))
    return Term(text[: _LONGEST + 1 - len(last)], prefix=False)


def is_code(media_type: str) -> bool:
    """Return whether `type:code` finds documents of this type."""
    return _matches(media_type, TYPES["code"])


def type_of(media_type: str) -> str:
    """Return the value of `type:` that finds documents of this media type, which may be the media type itself."""
    return next((name for name, patterns in TYPES.items() if _matches(media_type, patterns)), media_type)


def _matches(media_type: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(media_type, pattern.replace("%", "*")) for pattern in patterns)


def written(text: str) -> tuple[str, ...]:
    """Return the filters of a query as they are written."""
    return tuple(match[0] for match in _FILTER.finditer(text) if match[2].lower() in FILTERS)


def _filter(name: str, value: str, is_negated: bool, sources: Mapping[str, str], now: datetime) -> Filter:
    if name in (_AFTER, _BEFORE, FilterName.DATE, FilterName.ADDED):
        begin, end = _span(name, value, now)
        times = {_AFTER: (begin, _EVER[1]), _BEFORE: (_EVER[0], begin)}.get(name, (begin, end))
        return Filter(FilterName.ADDED if name == FilterName.ADDED else FilterName.DATE, times, is_negated)
    known = FilterName(name)
    match known:
        case FilterName.SOURCE:
            _known(name, value, sources)
        case FilterName.KIND:
            _known(name, value, set(sources.values()))
        case FilterName.HAS:
            _known(name, value, HAS)
        case FilterName.IS:
            _known(name, value, STATES)
            return Filter(known, STATES[value.lower()], is_negated)
        case FilterName.TYPE if "/" not in value:
            _known(name, value, TYPES)
            return Filter(known, TYPES[value.lower()], is_negated)
        case FilterName.TAG:
            value = value.removeprefix("#")
        case FilterName.IN:
            value = value.strip("/")
    return Filter(known, (value.lower() if known is FilterName.HAS else value,), is_negated)


_EXAMPLES: Mapping[str, str] = {
    "source": "notes",
    "kind": "obsidian",
    "type": "pdf",
    "tag": "bridge",
    "title": "minutes",
    "path": "projects",
    "in": "Archive",
    "from": "maria",
    "to": "maria",
    "lang": "de",
    "has": "attachment",
    "date": "2025-03",
    "added": "today",
    "label": "bug",
    "is": "open",
    "sort": "date",
    "after": "2025",
    "before": '"last month"',
}


def _known(name: str, value: str, among: Iterable[str]) -> None:
    names = sorted(among)
    if value.lower() not in {each.lower() for each in names}:
        close = get_close_matches(value.lower(), names, 1)
        remedy = f"did you mean {name}:{close[0]}?" if close else f"it can be {', '.join(names) or 'nothing yet'}"
        raise BadInput(f"{name}:{value} is not known; {remedy}")


def nearest_name(condition: Filter, names: Collection[str], sources: Collection[str]) -> str | None:
    """Return the most similar tag or folder, as a filter; or the source that `in:` names instead of a folder."""
    name = condition.values[0].lower()
    if condition.name is FilterName.IN and (source := {each.lower(): each for each in sources}.get(name)):
        return f"{FilterName.SOURCE}:{source}"
    # A person may know only the last part of "water/flood".
    wholes = {each.rpartition("/")[2]: each for each in names}
    wholes |= {each: each for each in names}
    if not (close := get_close_matches(name, wholes, 1)):
        return None
    whole = wholes[close[0]]
    return f'{condition.name}:"{whole}"' if " " in whole else f"{condition.name}:{whole}"


def _span(name: str, value: str, now: datetime) -> tuple[int, int]:
    """The time that a date means, in microseconds since 1970: from the beginning of its first day to the end of its last."""
    today = now.date()
    words = value.lower()
    try:
        if words in ("today", "yesterday"):
            first = today - timedelta(days=words == "yesterday")
            last = first
        elif match := _RELATIVE.fullmatch(words):
            first, last = _whole(match[2], today)
            if match[1] == "last":
                first, last = _whole(match[2], first - timedelta(days=1))
        elif match := _LAST.fullmatch(words):
            first, last = today - timedelta(days=int(match[1]) * _UNITS[match[2]]), today
        elif (day_name := words.removeprefix("last ")) in _WEEKDAYS:
            first = last = today - timedelta(days=(today.weekday() - _WEEKDAYS.index(day_name)) % 7)
        elif match := _DAYS.fullmatch(words):
            year, month, day = (int(part) if part else None for part in match.groups())
            first = date(year or 1, month or 1, day or 1)
            last = first if day else _whole("month" if month else "year", first)[1]
        elif ago := duration(words):
            return round((now - ago).timestamp() * 1_000_000), _micros(today + timedelta(days=1), now)
        else:
            moment = datetime.fromisoformat(value)
            start = (moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).timestamp()
            return round(start * 1_000_000), round((start + 60) * 1_000_000)
        return _micros(first, now), _micros(last + timedelta(days=1), now)
    except (ValueError, OverflowError):
        raise BadInput(
            f"{name}:{value} is not a date; write 2025, 2025-03, 2025-03-14, 2025-03-14T15:00, today, monday, 7d, "
            '"last month" or "last 7 days"'
        ) from None


def _whole(unit: str, day: date) -> tuple[date, date]:
    """The first and the last day of the week, month or year that a day is in."""
    if unit == "week":
        first = day - timedelta(days=day.weekday())
        return first, first + timedelta(days=6)
    first = day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)
    beyond = first + timedelta(days=_UNITS[unit])
    return first, (beyond.replace(day=1) if unit == "month" else beyond.replace(month=1, day=1)) - timedelta(days=1)


def _micros(day: date, now: datetime) -> int:
    midnight = datetime(day.year, day.month, day.day, tzinfo=now.tzinfo)
    return round(midnight.timestamp() * 1_000_000)
