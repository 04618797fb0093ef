"""Convert invitations (text/calendar, RFC 5545) to Markdown."""

from __future__ import annotations

import re

_FOLD = re.compile(r"\r?\n[ \t]")
_LINE = re.compile(r"([A-Za-z-]{1,40})((?>(?:;(?>(?:[^:;\"]++|\"[^\"\n]*+\")*))*)):(.*)")
_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d(Z?))?$")
_NAME = re.compile(r";CN=(?:\"([^\"]*)\"|([^;:]*))", re.IGNORECASE)
_ZONE = re.compile(r";TZID=\"?([^;:\"]{1,80})", re.IGNORECASE)
_ESCAPES = {"n": "\n", "N": "\n"}
_MAX_EVENTS = 50
_MAX_PEOPLE = 200

_METHODS = {
    "REQUEST": "Invitation",
    "CANCEL": "Cancelled",
    "REPLY": "Reply to an invitation",
    "COUNTER": "Other time proposed",
}
_LABELS = {
    "DTSTART": "Starts",
    "DTEND": "Ends",
    "DUE": "Due",
    "RRULE": "Repeats",
    "LOCATION": "Where",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "STATUS": "Status",
    "DESCRIPTION": "",
}


def invitation(text: str) -> str:
    """Return each event or task as a heading with a list of its fields; "" for a calendar without any."""
    method, events, event, depth = "", [], dict[str, list[str]](), 0
    for line in _FOLD.sub("", text).split("\n"):
        match = _LINE.match(line.strip())
        if match is None:
            continue
        name, parameters, value = match[1].upper(), match[2], match[3].strip()
        if name == "METHOD":
            method = _METHODS.get(value.upper(), "")
        elif name == "BEGIN" and (depth or value.upper() in ("VEVENT", "VTODO")):
            event = event if depth else {}
            depth += 1
        elif name == "END" and depth:
            depth -= 1
            if not depth:
                events.append(event)
        elif depth == 1:
            event.setdefault(name, []).append(_value(name, parameters, value))
    if depth:  # the calendar is truncated
        events.append(event)
    return "\n\n".join(_lines(method, event) for event in events[:_MAX_EVENTS])


def _lines(method: str, event: dict[str, list[str]]) -> str:
    title = " ".join(event.get("SUMMARY", ["Event"])[0].split())
    lines = [f"## {method}: {title}" if method else f"## {title}", ""]
    for name, label in _LABELS.items():
        values = [value for value in event.get(name, [])[:_MAX_PEOPLE] if value]
        if values and label:
            lines.append(f"- {label}: {', '.join(' '.join(value.split()) for value in values)}")
        elif values:
            lines += ["", values[0]]
    return "\n".join(lines)


def _value(name: str, parameters: str, value: str) -> str:
    if name in ("DTSTART", "DTEND", "DUE"):
        return _time(value, _ZONE.search(parameters))
    value = re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), value)
    if name in ("ORGANIZER", "ATTENDEE"):
        address = value[7:] if value.lower().startswith("mailto:") else value
        match = _NAME.search(parameters)
        person = ((match[1] or match[2] or "").strip()) if match else ""
        return f"{person} <{address}>" if person and person != address else address
    return value


def _time(value: str, zone: re.Match[str] | None) -> str:
    match = _TIME.match(value)
    if match is None:
        return value
    day = f"{match[1]}-{match[2]}-{match[3]}"
    if match[4] is None:
        return day
    return f"{day} {match[4]}:{match[5]}" + (" UTC" if match[6] else f" ({zone[1]})" if zone else "")
