"""Read the bookmarks of macOS (`.webloc`), property lists in XML or in binary form."""

from __future__ import annotations

import plistlib
from xml.parsers.expat import ExpatError

from catchment.errors import ParseError
from catchment.model import Document


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
