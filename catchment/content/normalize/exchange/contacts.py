"""Read contacts (vCard 2.1, 3.0 and 4.0; RFC 6350). Pictures, sounds and keys are left out."""

from __future__ import annotations

import re

from catchment.content.normalize.exchange.content_lines import Component, Line, components
from catchment.errors import ParseError
from catchment.model import Document, time_of

_MAX_CONTACTS = 10_000
_LABELS = {
    "NICKNAME": "Nickname",
    "ORG": "Organization",
    "TITLE": "Title",
    "ROLE": "Role",
    "EMAIL": "Mail",
    "TEL": "Phone",
    "IMPP": "Chat",
    "ADR": "Address",
    "URL": "Web",
    "X-SOCIALPROFILE": "Profile",
    "BDAY": "Birthday",
    "ANNIVERSARY": "Anniversary",
    "X-ABDATE": "Date",
    "RELATED": "Related",
    "X-ABRELATEDNAMES": "Related",
    **{f"X-{name}": name.capitalize() for name in ("SPOUSE", "MANAGER", "ASSISTANT")},
    **dict.fromkeys(("X-AIM", "X-ICQ", "X-JABBER", "X-MSN", "X-SKYPE", "X-SKYPE-USERNAME", "X-YAHOO"), "Chat"),
    "X-PHONETIC-FIRST-NAME": "Spoken",
    "X-PHONETIC-LAST-NAME": "Spoken",
    "CATEGORIES": "Categories",
    "NOTE": "",
}
_STRUCTURED = {"ORG": ", ", "ADR": ", ", "NICKNAME": ", "}
_DAY = re.compile(r"(\d{4}|--)-?(\d\d)-?(\d\d)(?:T.*)?$")
_WITH_TYPE = frozenset({"EMAIL", "TEL", "ADR", "IMPP", "URL", "RELATED", "X-SOCIALPROFILE"})
_OWN_LABEL = "X-ABLABEL"
_BUILT_IN = re.compile(r"_\$!<(.*)>!\$_\Z")
"""How Apple writes its own labels, such as Spouse."""
_NO_TYPE = frozenset({"internet", "pref", "voice", "x-internet"})


def contacts(data: bytes, media_type: str) -> Document:
    """Return each contact as a heading with its fields. A single one gives the document its title and its date."""
    parts = components(data, ("VCARD",))
    cards = parts.inner
    if not cards:
        raise ParseError("no contact: the file is truncated or of another type; export it again")
    files = sum(line.is_binary for contact in cards for lines in contact.values() for line in lines)
    warnings = [*parts.warnings, *([f"pictures, sounds and keys not read: {files}"] if files else [])]
    if len(cards) > _MAX_CONTACTS:
        warnings.append(f"only the first {_MAX_CONTACTS:,} of {len(cards):,} contacts were read; split the file")
    single = cards[0] if len(cards) == 1 else {}
    return Document(
        text="\n\n".join(map(_contact, cards[:_MAX_CONTACTS])),
        media_type=media_type,
        title=_name(single) or None,
        modified=time_of(single["REV"][0].value) if "REV" in single else None,
        warnings=tuple(warnings),
    )


def _contact(contact: Component) -> str:
    lines = [f"## {_name(contact) or 'Contact'}", ""]
    own_labels = {
        line.group: _BUILT_IN.sub(r"\1", line.text.strip()) for line in contact.get(_OWN_LABEL, ()) if line.group
    }
    for name, label in _LABELS.items():
        for line in contact.get(name, ()):
            text = "" if line.is_binary else _text(name, line)
            if text and line.group in own_labels:
                text = f"{text} ({own_labels[line.group]})"
            if text:
                lines += [f"- {label}: {' '.join(text.split())}"] if label else ["", text]
    return "\n".join(lines).rstrip("\n")


def _name(contact: Component) -> str:
    """Return the formatted name, or else the parts of the name in the order of speech, the organization or the mail."""
    for line in contact.get("FN", ()):
        if name := " ".join(line.text.split()):
            return name
    for line in contact.get("N", ()):
        family, given_name, middle, prefix, suffix = (*line.fields, "", "", "", "", "")[:5]
        if name := " ".join(" ".join((prefix, given_name, middle, family, suffix)).split()):
            return name
    others = (_text(name, line) for name in ("ORG", "EMAIL", "TEL") for line in contact.get(name, ()))
    return next(filter(None, others), "")


def _text(name: str, line: Line) -> str:
    if name in ("BDAY", "ANNIVERSARY", "X-ABDATE") and (day := _DAY.match(line.value)):
        return f"{day[1]}-{day[2]}-{day[3]}" if day[1] != "--" else f"--{day[2]}-{day[3]}"
    text = ", ".join(filter(None, map(str.strip, line.fields))) if name in _STRUCTURED else line.text.strip()
    types = (each.strip().lower() for each in line.parameters.get("TYPE", "").split(","))
    kinds = list(dict.fromkeys(each for each in types if each and each not in _NO_TYPE)) if name in _WITH_TYPE else []
    return f"{text} ({', '.join(kinds)})" if text and kinds else text
