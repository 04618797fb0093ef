"""Read the Exif fields of photographs: time, camera and place. The embedded thumbnail is left out.

The place is private: it is part of the document, and of no message.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from catchment.model import time_of

if TYPE_CHECKING:
    from PIL.Image import Exif

_BEFORE = rb"(?:(?<=\A....)|(?<=Exif\0\0....)|(?<=eXIf....)|(?<=EXIF........)|(?<=\0{4}....))"
"""What precedes the fields in a TIFF, in a JPEG or HEIC, a PNG, a WebP and an AVIF. It is tested second, which is fast."""
_STARTS = [re.compile(order + _BEFORE, re.DOTALL) for order in (rb"II\*\0", rb"MM\0\*")]
_DAMAGE = (struct.error, ArithmeticError, AttributeError, LookupError, OSError, SyntaxError, TypeError, ValueError)
"""Pillow checks the syntax of the fields, but not their types."""
_EXIF, _GPS, _MAKE, _MODEL, _TAKEN, _ZONE = 0x8769, 0x8825, 0x010F, 0x0110, 0x9003, 0x9011
_OFFSET = re.compile(r"[+-]\d\d:\d\d\Z")


def photograph(data: bytes, media_type: str) -> tuple[datetime | None, dict[str, Any]]:
    """Return the time at which a picture was taken (UTC without a zone), and its other fields as properties.

    `taken` is the time on the spot, `latitude` and `longitude` are in degrees. Damaged fields are left out.
    """
    start = min((match.start() for order in _STARTS if (match := order.search(data))), default=-1)
    if start < 0:
        return None, {}
    from PIL.Image import Exif

    fields = Exif()
    try:
        with catch_warnings(action="ignore"):
            fields.load(data if media_type == "image/tiff" else data[start : start + (1 << 20)])
            details, place = fields.get_ifd(_EXIF), fields.get_ifd(_GPS)
            make, model = _text(fields, _MAKE), _text(fields, _MODEL)
    except _DAMAGE:
        return None, {}
    offset, written = _text(details, _ZONE), _text(details, _TAKEN)[:19]
    offset = offset if _OFFSET.match(offset) else ""
    notation = "%Y:%m:%d %H:%M:%S" + "%z" * bool(offset)
    moment = time_of(written + offset, lambda stamp: datetime.strptime(stamp, notation))  # noqa: DTZ007 - UTC without a zone
    # Cameras without a place write 0° 0°.
    degrees = {"latitude": _degrees(place, 1, "S", 90), "longitude": _degrees(place, 3, "W", 180)}
    properties: dict[str, Any] = {
        "camera": model if model.lower().startswith(make.lower()) else f"{make} {model}",
        "taken": f"{written[:10].replace(':', '-')}T{written[11:]}{offset}" if moment else "",
        **(degrees if any(degrees.values()) and None not in degrees.values() else {}),
    }
    return moment, {name: value for name, value in properties.items() if value != ""}


def _text(fields: Mapping[int, Any] | Exif, tag: int) -> str:
    value = fields.get(tag)
    return " ".join(value.replace("\0", " ").split())[:200] if isinstance(value, str) else ""


def _degrees(fields: Mapping[int, Any], tag: int, negative: str, most: int) -> float | None:
    try:
        degrees, minutes, seconds = (float(part) for part in fields[tag + 1])
    except _DAMAGE:
        return None
    value = degrees + minutes / 60 + seconds / 3_600
    signed = -value if _text(fields, tag).upper() == negative else value
    return round(signed, 6) if 0 <= value <= most else None
