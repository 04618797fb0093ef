"""Read bookmarks: of macOS (`.webloc`, property lists in XML or in binary form), and those that browsers export as a page."""

from __future__ import annotations

import plistlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from html import unescape
from itertools import islice
from xml.parsers.expat import ExpatError

from catchment.content.normalize.decode import charset_of, decode
from catchment.content.normalize.html import linked
from catchment.errors import ParseError
from catchment.model import Document, time_of

_TAG = re.compile(r"<(h3|a|dd|/?dl)\b((?>(?:[^<>\"]++|\"[^\"]*+\")*))>([^<]*)", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"(?<![\w-])([\w-]+)\s*=\s*\"([^\"]*)\"")
_NOT_LINKED = ("javascript:", "data:", "place:")
_MAX_ELEMENTS, _MAX_TAGS, _DEEPEST, _LONGEST = 100_000, 1_000, 8, 200


def bookmark(data: bytes, media_type: str) -> Document:
    """Return the address. Raises ParseError without an address."""
    try:
        values = plistlib.loads(data)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, ExpatError):
        values = None  # the library checks the syntax, but not the structure
    address = values.get("URL") if isinstance(values, dict) else None
    if not isinstance(address, str):
        raise ParseError("the bookmark is damaged; save it again")
    return Document(text=address, media_type=media_type)


def bookmarks(data: bytes, media_type: str) -> Document:
    """Return the links of each folder with day, tags and description, under the names of the folder and those around it."""
    text, warnings, properties = decode(data, charset_of(data))
    lines: list[str] = []
    folders, path, tags = {"": lines}, [""], dict[str, None]()
    elements = [*islice(_TAG.finditer(text), _MAX_ELEMENTS + 1)]
    warnings += ("the end of the bookmarks was not read; split the file",) if len(elements) > _MAX_ELEMENTS else ()
    for match in elements[:_MAX_ELEMENTS]:
        tag, fields = match[1].lower(), {key.lower(): unescape(value) for key, value in _ATTRIBUTE.findall(match[2])}
        words = " ".join(unescape(match[3]).split())
        if tag == "a":
            lines.append(_line(words, fields))
            tags |= dict.fromkeys(filter(None, map(str.strip, fields.get("tags", "").split(","))))
        elif tag == "dd":
            lines += [f"  {words}"] if words else []
        else:
            if tag == "dl":
                path.append("")
            elif tag == "/dl" and len(path) > 1:
                path.pop()
            path[-1] = words[:_LONGEST] if tag == "h3" else ""
            lines = folders.setdefault(" / ".join(filter(None, path[:_DEEPEST])), [])
    written = (((f"## {folder}\n\n" if folder else "") + "\n".join(held)) for folder, held in folders.items() if held)
    properties = {**properties, "tags": list(tags)[:_MAX_TAGS]} if tags else properties
    return Document("\n\n".join(written), media_type, properties=properties, warnings=warnings)


def _line(words: str, fields: Mapping[str, str]) -> str:
    address = fields.get("href", "").strip()
    is_link = address and not address.lower().startswith(_NOT_LINKED)
    added = time_of(fields.get("add_date", "").lstrip("0"), lambda seconds: datetime.fromtimestamp(int(seconds), UTC))
    facts = (f"{added:%Y-%m-%d}" if added else "", fields.get("tags", "").replace(",", ", "))
    return f"- {', '.join(filter(None, (linked(words or address, address) if is_link else words or address, *facts)))}"
