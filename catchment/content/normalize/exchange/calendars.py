"""Read calendars (iCalendar, RFC 5545): files, and invitations in mail. Repetition stays a rule."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from catchment.content.normalize.exchange.content_lines import Component, Line, components
from catchment.errors import ParseError
from catchment.model import Document, time_of

_KINDS = ("VEVENT", "VTODO", "VJOURNAL")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?(/\w+)?$")
_MAX_EVENTS, _MAX_INVITATIONS, _MAX_PEOPLE = 10_000, 50, 200
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
_TIMES = frozenset({"DTSTART", "DTEND", "DUE", "COMPLETED", "RECURRENCE-ID", "RDATE", "EXDATE"})


def calendar(data: bytes, media_type: str) -> Document:
    """Return the events, tasks and journal entries of a calendar. A single one gives the document its title and dates."""
    parts = components(data, _KINDS)
    if "BEGIN" not in parts.outer:
        raise ParseError("no calendar: the file is truncated or of another type; export it again")
    events, outer = parts.inner, parts.outer
    single = events[0] if len(events) == 1 else {}
    files = sum(line.is_binary for event in events for line in event.get("ATTACH", ()))
    warnings = [f"attached files not read: {files}"] if files else []
    if len(events) > _MAX_EVENTS:
        warnings.append(f"only the first {_MAX_EVENTS:,} of {len(events):,} entries were read; split the calendar")
    return Document(
        text="\n\n".join(_entry("", event) for event in events[:_MAX_EVENTS]),
        media_type=media_type,
        title=_first(single, "SUMMARY") or _first(outer, "X-WR-CALNAME") or _first(outer, "NAME") or None,
        author=next((_person(line) for line in single.get("ORGANIZER", ())), None),
        created=_start(single),
        modified=time_of(_first(single, "LAST-MODIFIED")),
        warnings=tuple(warnings),
    )


def invitation(text: str) -> str:
    """Return each entry of a calendar in a message as a heading with a list of its fields; "" without any."""
    parts = components(text.encode("utf-8", "replace"), _KINDS)
    method = _METHODS.get(_first(parts.outer, "METHOD").upper(), "")
    return "\n\n".join(_entry(method, event) for event in parts.inner[:_MAX_INVITATIONS])


def _entry(method: str, event: Component) -> str:
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
    return "\n".join(lines).rstrip("\n")


def _start(event: Component) -> datetime | None:
    """Return the start of an event, or when a task is due. A time in an unknown zone counts as UTC."""
    line = next((event[name][0] for name in ("DTSTART", "DUE") if name in event), None)
    try:
        zone: tzinfo = ZoneInfo(line.parameters.get("TZID", "UTC").removeprefix("/")) if line else UTC
    except (LookupError, ValueError, OSError):
        zone = UTC
    return time_of(line.value, lambda text: _in(zone, datetime.fromisoformat(text))) if line else None


def _in(zone: tzinfo, moment: datetime) -> datetime:
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment


def _first(component: Component, name: str) -> str:
    return " ".join(component[name][0].text.split()) if name in component else ""


def _text(name: str, line: Line) -> str:
    if name in _TIMES:
        zone = line.parameters.get("TZID", "")
        return ", ".join(_time(value, zone) for value in line.value.split(",") if value)
    return _person(line) if name in ("ORGANIZER", "ATTENDEE") else line.text.strip()


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
