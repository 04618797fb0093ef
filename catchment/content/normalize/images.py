"""Read the size, Exif fields and embedded text of images. Text on a picture is recognized later, as a page of its own.

Embedded text is the text of an SVG, the text chunks of a PNG with the diagram that draw.io stores there, and XMP in any format
(ISO 16684-1).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from html import escape, unescape
from urllib.parse import unquote

from catchment.content.normalize.decode import declared_encoding, decode, is_text
from catchment.content.normalize.exchange import diagrams
from catchment.content.normalize.html import fragment
from catchment.content.normalize.language_detection import language
from catchment.content.normalize.packages import tree
from catchment.content.pictures.drawing import count_pages, refuse_large
from catchment.content.pictures.exif import photograph
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import RECOGNIZED, Document, PageText

_SVG_TEXT = re.compile(r"<(title|desc)[^<>]*>([^<]*)<")
_SVG_WORDS = re.compile(r"<(text|flowRoot|foreignObject)\b[^<>]*(?<!/)>")
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_PREFIX = re.compile(r"(?<=<)(/?)svg:")
_TAG = re.compile(r"</?(?:(?:tspan|textPath|flowSpan|a)\b(?![^<>]*\s(?:x|y|dy)\s*=)[^<>]*()|[^<>]*)>")
"""A tag in a text; the group is set if it may be within a word."""
_DIAGRAM = re.compile(r"<svg\b[^<>]*\scontent\s*=\s*(?:\"([^\"<>]*)\"|'([^'<>]*)')")
_XMP_START, _XMP_END, _MAX_XMP = b"<x:xmpmeta", b"</x:xmpmeta>", 1 << 20
_PNG_WORDS = {
    "Title": "title",
    "Author": "author",
    "Description": "description",
    "Comment": "description",
    "mxfile": "diagram",
}
_MAX_CHUNKS = 10_000
_LEAST_SIDE = 120
_DRAWABLE = frozenset(f"image/{kind}" for kind in ("png", "jpeg", "gif", "bmp", "webp", "tiff", "heic", "avif"))
_SVG_SIZE = re.compile(r"<svg\b[^>]*")
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def image(data: bytes, media_type: str, recognized: Mapping[int, PageText]) -> Document:
    """Read an image into a document. `recognized`: the text on its pages, of which only a TIFF has several.

    Raises ParseError if the file ends before the fields with its size, or its picture cannot be read, and ResourceExhausted if
    it is too large to be decoded.
    """
    if media_type == "image/svg+xml":
        return _drawing(data)
    measure = _MEASURES.get(media_type)
    size = measure(data) if measure else None
    if measure and size is None:
        if is_text(data):
            raise ParseError("the file is text and not an image; correct its extension")
        raise ParseError("the image is damaged or truncated; fetch or export it again")
    if size:
        refuse_large(*size)
    if failed := [page.problem for page in recognized.values() if page.problem]:
        raise ParseError(failed[0])
    created, properties = photograph(data, media_type)
    properties |= {"height": size[1], "width": size[0]} if size else {}
    words = _png_words(data) if media_type == "image/png" else {}
    words |= _xmp(data)
    if "keywords" in words:
        properties["keywords"] = words["keywords"].split("\n")
    diagram, warnings = _diagram(words.get("diagram", ""))
    pages = _pages(data, media_type, size)
    read = [recognized[page] for page in pages if page in recognized and recognized[page].text]
    if read:
        properties[RECOGNIZED] = {"confidence": round(sum(page.confidence for page in read) / len(read), 2)}
    warnings = (*warnings, *dict.fromkeys(page.warning for page in recognized.values() if page.warning))
    written = "\n\n".join(page.text for page in read)
    return Document(
        text="\n\n".join(filter(None, (words.get("description", ""), diagram, written))),
        media_type=media_type,
        title=words.get("title"),
        author=words.get("author"),
        created=created,
        language=language(written) if written else None,
        properties=dict(sorted(properties.items())),
        warnings=warnings,
        pictures=tuple(page for page in pages if page not in recognized),
    )


def _pages(data: bytes, media_type: str, size: tuple[int, int] | None) -> range:
    """Return the numbers of the pages with a picture on which text may be legible. Icons and buttons are too small."""
    if media_type not in _DRAWABLE or (size and (min(size) < _LEAST_SIDE or max(size) < 2 * _LEAST_SIDE)):
        return range(0)
    return range(1, 1 + (count_pages(data) if media_type == "image/tiff" else 1))


def _diagram(written: str) -> tuple[str, tuple[str, ...]]:
    """Return the labels of the diagram that draw.io stores in a picture, and a warning if it is damaged."""
    if "mxfile" not in written:
        return "", ()
    try:
        return diagrams.labels(unquote(written).encode("utf-8", "replace")), ()
    except (ParseError, ResourceExhausted):
        return "", ("the diagram in the picture cannot be read",)


def _xmp(data: bytes) -> dict[str, str]:
    """Return title, description, author and keywords (one per line) from the XMP of an image."""
    start = data.find(_XMP_START)
    end = data.find(_XMP_END, start, start + _MAX_XMP) if start >= 0 else -1
    if end < 0:
        return {}
    try:
        root = tree(data[start : end + len(_XMP_END)])
    except (ParseError, ResourceExhausted):
        return {}
    fields: dict[str, str] = {}
    for name, key in (
        ("title", "title"),
        ("description", "description"),
        ("creator", "author"),
        ("subject", "keywords"),
    ):
        lists = (element.iter("li") for element in root.iter(name))
        values = dict.fromkeys(text for each in lists for item in each if (text := " ".join((item.text or "").split())))
        if values:
            fields[key] = ("\n" if key == "keywords" else ", ").join(values)
    return fields


def _png_words(data: bytes) -> dict[str, str]:
    """Return title, description, author and diagram from the text chunks of a PNG, compressed or not."""
    fields: dict[str, str] = {}
    place = 8
    for _ in range(_MAX_CHUNKS):
        length, kind = _big(data, place, 4), data[place + 4 : place + 8]
        if not kind or kind == b"IEND":
            break
        if kind in (b"tEXt", b"zTXt", b"iTXt"):
            name, _, content = data[place + 8 : place + 8 + length].partition(b"\0")
            key = _PNG_WORDS.get(name.decode("latin-1"))
            if key and key not in fields and (words := " ".join(_chunk_text(kind, content).split())):
                fields[key] = words
        place += 12 + length
    return fields


def _chunk_text(kind: bytes, content: bytes) -> str:
    """Return the text of a chunk after its keyword, at most 1 MiB if it is compressed; "" if it is damaged."""
    is_compressed = kind == b"zTXt" or (kind == b"iTXt" and content[:1] == b"\1")
    if kind == b"iTXt":
        content = content[2:].split(b"\0", 2)[-1]
    if is_compressed:
        try:
            content = zlib.decompressobj().decompress(content[kind == b"zTXt" :], _MAX_XMP)
        except zlib.error:
            return ""
    return content.decode("utf-8" if kind == b"iTXt" else "latin-1", "replace")


def _drawing(data: bytes) -> Document:
    text, warnings, _ = decode(data, declared_encoding(data))
    text = _CDATA.sub(lambda section: escape(section[1]), _PREFIX.sub(r"\1", text))
    if not _SVG_SIZE.search(text):
        raise ParseError("the drawing has no svg element; export it again")
    fields: dict[str, str] = {}
    for match in _SVG_TEXT.finditer(text):  # the title of the drawing precedes those of its shapes
        fields.setdefault(match[1], " ".join(unescape(match[2]).split()))
    _, *marked = _SVG_WORDS.split(_without_fallbacks(text))
    labels = (
        _label(name, label.partition(f"</{name}")[0]) for name, label in zip(marked[::2], marked[1::2], strict=True)
    )
    content = _DIAGRAM.search(text)
    diagram, damage = _diagram(unescape(content[1] or content[2])) if content else ("", ())
    lines = dict.fromkeys(filter(None, (fields.get("desc", ""), *((diagram,) if diagram else labels))))
    return Document("\n".join(lines), "image/svg+xml", fields.get("title") or None, warnings=(*warnings, *damage))


def _without_fallbacks(text: str) -> str:
    """Remove the fallback of a drawing for readers without HTML: the rest of a `switch` after the HTML."""
    before, *switches = text.split("<switch")
    parts = [before]
    for each in switches:
        inside, end, after = each.partition("</switch")
        html, closing, _ = inside.rpartition("</foreignObject>")
        parts.append((html + closing or inside) + end + after)
    return "<switch".join(parts)


def _label(name: str, label: str) -> str:
    if name == "foreignObject":
        return " ".join(fragment(label).split())
    words = unescape(_TAG.sub(lambda tag: " " if tag[1] is None else "", label))
    return " ".join(words.split())


def _png(data: bytes) -> tuple[int, int] | None:
    return (_big(data, 16, 4), _big(data, 20, 4)) if data[12:16] == b"IHDR" and len(data) >= 24 else None


def _gif(data: bytes) -> tuple[int, int] | None:
    return (_little(data, 6, 2), _little(data, 8, 2)) if len(data) >= 10 else None


def _bmp(data: bytes) -> tuple[int, int] | None:
    return (_little(data, 18, 4), abs(int.from_bytes(data[22:26], "little", signed=True))) if len(data) >= 26 else None


def _webp(data: bytes) -> tuple[int, int] | None:
    if len(data) < 30:
        return None
    match data[12:16]:
        case b"VP8X":
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case b"VP8L":
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


def _jpeg(data: bytes) -> tuple[int, int] | None:
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        kind = data[place + 1]
        if kind in _FRAMES:
            return _big(data, place + 7, 2), _big(data, place + 5, 2)
        place += 1 if kind == 0xFF else 2 + (_big(data, place + 2, 2) if not 0xD0 <= kind <= 0xD8 else 0)
    return None


_MEASURES: dict[str, Callable[[bytes], tuple[int, int] | None]] = {
    "image/png": _png,
    "image/gif": _gif,
    "image/bmp": _bmp,
    "image/webp": _webp,
    "image/jpeg": _jpeg,
}


def _big(data: bytes, place: int, length: int) -> int:
    return int.from_bytes(data[place : place + length], "big")


def _little(data: bytes, place: int, length: int) -> int:
    return int.from_bytes(data[place : place + length], "little")
