"""Read calendars (iCalendar, RFC 5545): files, with the dates of their series, and invitations in mail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from catchment.content.normalize.exchange import recurrence
from catchment.content.normalize.exchange.content_lines import Component, Line, components
from catchment.errors import ParseError
from catchment.model import Document, time_of

_KINDS = ("VEVENT", "VTODO", "VJOURNAL")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?(/\w+)?$")
_MAX_EVENTS, _MAX_INVITATIONS, _MAX_PEOPLE = 10_000, 50, 200
_MAX_SERIES, _MAX_RULE, _MAX_NAMED = 1_000, 500, 1_000
_UNTIL = re.compile(r"UNTIL=([0-9TZ]{8,16})")
_METHODS = {
    "REQUEST": "Invitation",
    "CANCEL": "Cancelled",
    "REPLY": "Reply to an invitation",
    "COUNTER": "Other time proposed",
}
_LABELS = {
    "DTSTART": "Starts",
    "DTEND": "Ends",
    "DURATION": "Lasts",
    "DUE": "Due",
    "COMPLETED": "Completed",
    "RECURRENCE-ID": "Instead of",
    "RRULE": "Repeats",
    "RDATE": "Also",
    "EXDATE": "Except",
    "LOCATION": "Where",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "CONTACT": "Contact",
    "STATUS": "Status",
    "CATEGORIES": "Categories",
    "URL": "Link",
    "CONFERENCE": "Conference",
    "ATTACH": "Attached",
    "DESCRIPTION": "",
    "COMMENT": "",
}
_PEOPLE = ("ORGANIZER", "ATTENDEE")
_TIMES = frozenset({"DTSTART", "DTEND", "DUE", "COMPLETED", "RECURRENCE-ID", "RDATE", "EXDATE"})


def calendar(data: bytes, media_type: str) -> Document:
    """Return the events, tasks and journal entries of a calendar. A single one gives the document its title and dates."""
    parts = components(data, _KINDS)
    if "BEGIN" not in parts.outer:
        raise ParseError("no calendar: the file is truncated or of another type; export it again")
    events, outer = parts.inner, parts.outer
    single = events[0] if len(events) == 1 else {}
    files = sum(line.is_binary for event in events for line in event.get("ATTACH", ()))
    warnings = [*parts.warnings, *([f"attached files not read: {files}"] if files else [])]
    if len(events) > _MAX_EVENTS:
        warnings.append(f"only the first {_MAX_EVENTS:,} of {len(events):,} entries were read; split the calendar")
    series = [event for event in events[:_MAX_EVENTS] if "RRULE" in event]
    if len(series) > _MAX_SERIES:
        warnings.append(f"series without their dates: {len(series) - _MAX_SERIES:,}; split the calendar")
    changed: dict[str, set[Any]] = {}
    for event in events:  # an entry that replaces or cancels a date of a series has the same ID
        changed.setdefault(_first(event, "UID"), set()).update(_moments(event.get("RECURRENCE-ID", ())))
    dates = {id(event): ", ".join(_dates(event, changed[_first(event, "UID")])) for event in series[:_MAX_SERIES]}
    people = dict.fromkeys(_person(line) for event in events for name in _PEOPLE for line in event.get(name, ()))
    return Document(
        text="\n\n".join(_entry("", event, dates.get(id(event), "")) for event in events[:_MAX_EVENTS]),
        media_type=media_type,
        title=_first(single, "SUMMARY") or _first(outer, "X-WR-CALNAME") or _first(outer, "NAME") or None,
        author=next((_person(line) for line in single.get("ORGANIZER", ())), None),
        created=_start(single),
        modified=time_of(_first(single, "LAST-MODIFIED")),
        properties={"attendees": list(people)[:_MAX_NAMED]} if people else {},
        warnings=tuple(warnings),
    )


def invitation(text: str) -> str:
    """Return each entry of a calendar in a message as a heading with a list of its fields; "" without any."""
    parts = components(text.encode("utf-8", "replace"), _KINDS)
    method = _METHODS.get(_first(parts.outer, "METHOD").upper(), "")
    return "\n\n".join(_entry(method, event) for event in parts.inner[:_MAX_INVITATIONS])


def _entry(method: str, event: Component, dates: str = "") -> str:
    title = _first(event, "SUMMARY") or "Event"
    lines = [f"## {method}: {title}" if method else f"## {title}", ""]
    for name, label in _LABELS.items():
        texts = [
            text for line in event.get(name, ())[:_MAX_PEOPLE] if not line.is_binary and (text := _text(name, line))
        ]
        if texts and label:
            lines.append(f"- {label}: {', '.join(' '.join(text.split()) for text in texts)}")
        elif texts:
            lines += ["", "\n\n".join(texts)]
    lines += ["", f"Dates: {dates}"] if dates else []  # last, because they are many
    return "\n".join(lines).rstrip("\n")


def _dates(event: Component, changed: set[Any]) -> Iterator[str]:
    """Yield the dates of a series, in its own time zone."""
    start, rule = next(_moments(event.get("DTSTART", ())), None), event["RRULE"][0].value
    if start is None or len(rule) > _MAX_RULE:
        return
    last = _UNTIL.search(rule.upper()) or ("", "")
    until = next(_moments([replace(event["DTSTART"][0], value=last[1])]), None)
    left_out = set(_moments(event.get("EXDATE", ())))
    for day in recurrence.days(rule, date(start.year, start.month, start.day)):
        moment = start.replace(day.year, day.month, day.day)
        is_after = until and (moment > until if type(moment) is type(until) else f"{day:%Y%m%d}" > last[1][:8])
        if not is_after and left_out.isdisjoint((moment, day)) and changed.isdisjoint((moment, day)):
            yield day.isoformat()


def _moments(lines: Iterable[Line]) -> Iterator[Any]:
    """Yield the dates and aware times of a field."""
    for line in lines:
        for text in line.value.split(","):
            with suppress(ValueError):
                yield date.fromisoformat(text) if len(text) == 8 else _in(_zone(line), datetime.fromisoformat(text))


def _start(event: Component) -> datetime | None:
    """Return the start of an event, or when a task is due. A time in an unknown zone counts as UTC."""
    line = next((event[name][0] for name in ("DTSTART", "DUE") if name in event), None)
    return time_of(line.value, lambda text: _in(_zone(line), datetime.fromisoformat(text))) if line else None


def _zone(line: Line) -> tzinfo:
    try:
        return ZoneInfo(line.parameters.get("TZID", "UTC").removeprefix("/"))
    except (LookupError, ValueError, OSError):
        return UTC


def _in(zone: tzinfo, moment: datetime) -> datetime:
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment


def _first(component: Component, name: str) -> str:
    return " ".join(component[name][0].text.split()) if name in component else ""


def _text(name: str, line: Line) -> str:
    if name in _TIMES:
        zone = line.parameters.get("TZID", "")
        return ", ".join(_time(value, zone) for value in line.value.split(",") if value)
    return _person(line) if name in _PEOPLE else line.text.strip()


def _person(line: Line) -> str:
    address = line.text[7:] if line.text.lower().startswith("mailto:") else line.text
    name = line.parameters.get("CN", "").strip()
    return f"{name} <{address}>" if name and address and name != address else address or name


def _time(value: str, zone: str) -> str:
    match = _TIME.match(value)
    if match is None:
        return value
    day = f"{match[1]}-{match[2]}-{match[3]}"
    if match[4] is None:
        return day
    return f"{day} {match[4]}:{match[5]}" + (" UTC" if match[6] else f" ({zone})" if zone else "") + (match[7] or "")
