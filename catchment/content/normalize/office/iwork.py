"""Read Pages, Numbers and Keynote files: XML (until 2009), archives (IWA, later versions), or else the PDF preview.

IWA is not a public format: a file consists of Snappy blocks, and each archive in it is a protocol buffer message. Described at
github.com/obriensp/iWorkFileFormat.
"""

from __future__ import annotations

from collections.abc import Iterator

from catchment.content.normalize import archives
from catchment.content.normalize.office.extraction import extracted
from catchment.content.normalize.office.pdf import pdf
from catchment.content.normalize.packages import LOCKED, Package, local_name
from catchment.errors import ParseError, ResourceExhausted, Skipped, SkipReason

_NUMBERS = "application/x-iwork-numbers-sffnumbers"
_PASSWORD_FILES = (".iwpv2", ".iwph", ".iwpv")
_XML = ("index.xml", "index.apxl")
_PREVIEW = "quicklook/preview.pdf"
_TEMPLATES = ("masterslide", "templateslide", "documentstylesheet", "themestylesheet")
_NO_TEXT = frozenset(
    {
        "stylesheet",
        "stylesheets",
        "master-slides",
        "master-slide",
        "section-prototypes",
        "prototype-drawables",
        "ghost-text",
    }
)
_VALUES = ("/sfa}s", "/sf}v", "/sf}cell-date")
"""The attributes of cells with a text, number or date."""
_STORAGES = (2001, 2005)
"""The types of archives that hold text (TSWP.StorageArchive)."""
_KINDS_WITHOUT_TEXT = (5, 7)
"""Table cells, which are read from the string lists of tables, and tables of contents."""
_LIST = 6005
"""The type of archives with the strings of a table (TST.TableDataList)."""
_MAX_BLOCK = 1 << 24


def text(data: bytes, media_type: str) -> tuple[str, list[str]]:
    """Return the text of a file and warnings.

    Raises ParseError if the file is encrypted, and Skipped if it has no known part.
    """
    package = Package(data)
    if any(name.endswith(_PASSWORD_FILES) for name in package.names):
        raise ParseError(LOCKED)
    for name in package.names:
        if name.rpartition("/")[2] in _XML:
            reader = _Paragraphs()
            package.feed(name, reader)
            return "\n\n".join(reader.paragraphs), []
    inner = [name for name in package.names if name.rpartition("/")[2] == "index.zip"]
    has_archives = inner or any(name.endswith(".iwa") for name in package.names)
    if has_archives and media_type == _NUMBERS:
        return extracted(data, media_type).content, []
    lines: list[str] = []
    warnings: list[str] = []
    if has_archives:
        lines, warnings = _of_archives(_opened(package, inner[0]) if inner else package)
    previews = [name for name in package.names if name.endswith(_PREVIEW)]
    if not lines and previews:
        return pdf(package.read(previews[0]), {}).text, ["only the preview was read"]
    if not lines and not has_archives:
        raise Skipped(SkipReason.UNSUPPORTED)
    return "\n\n".join(lines), warnings


def _opened(package: Package, name: str) -> Package:
    data = package.read(name)
    archives.refuse_bomb(data)
    return Package(data)


class _Paragraphs:
    """A target for `Package.feed` that collects paragraphs and, on one line, the values of the cells of a table."""

    def __init__(self) -> None:
        self.paragraphs: list[str] = []
        self._open: list[list[str]] = []
        self._cells: list[str] = []
        self._skipped = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = local_name(tag)
        if self._skipped or name in _NO_TEXT:
            self._skipped += 1
        elif name == "p":
            self._open.append([])
        elif name in ("br", "tab", "lnbr", "crbr", "pgbr") and self._open:
            self._open[-1].append(" ")
        elif name in ("workspace", "tabular-model"):
            self._add(
                next((text for key, text in attributes.items() if local_name(key) in ("workspace-name", "name")), "")
            )
        elif name in ("ct", "so", "rt", "n", "rn", "cell-date") and not self._open:
            self._cells += [
                value for key, text in attributes.items() if key.endswith(_VALUES) and (value := _value(text))
            ]

    def data(self, text: str) -> None:
        if self._open and not self._skipped:
            self._open[-1].append(text)

    def end(self, tag: str) -> None:
        name = local_name(tag)
        if self._skipped:
            self._skipped -= 1
        elif name == "p" and self._open:
            self._add("".join(self._open.pop()))
        elif name == "tabular-model":
            self._add("; ".join(self._cells))
            self._cells = []

    def doctype(self, _name: str, _public: str | None, _system: str | None) -> None:
        raise ParseError("the file has a document type definition")

    def _add(self, text: str) -> None:
        if words := " ".join(text.split()):
            self.paragraphs.append(words)


def _value(text: str) -> str:
    """Return the value of a cell; numbers are rounded to 15 digits, as in all spreadsheets."""
    try:
        return f"{float(text):.15g}"
    except ValueError:
        return " ".join(text.split())


def _of_archives(package: Package) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    damaged = 0
    for name in package.names:
        base = name.rpartition("/")[2]
        if not base.endswith(".iwa") or base.startswith(_TEMPLATES):
            continue
        try:
            for kind, message in _messages(_uncompressed(package.read(name))):
                texts = _texts(message) if kind in _STORAGES else _strings(message) if kind == _LIST else ()
                for each in texts:
                    lines += (
                        words for line in each.splitlines() if (words := " ".join(line.replace("\ufffc", "").split()))
                    )
        except (ParseError, ResourceExhausted):
            damaged += 1
    return lines, [f"unreadable parts: {damaged}"] if damaged else []


def _texts(message: bytes) -> Iterator[str]:
    fields = list(_fields(message))
    if not any(number == 1 and value in _KINDS_WITHOUT_TEXT for number, value in fields):
        yield from (
            value.decode("utf-8", "replace") for number, value in fields if number == 3 and isinstance(value, bytes)
        )


def _strings(message: bytes) -> Iterator[str]:
    """Yield the strings of a table's list: entries are in field 3, the string is in field 3 of each."""
    fields = list(_fields(message))
    if (1, 1) not in fields:  # lists of formats, styles and formulas
        return
    entries = [dict(_fields(entry)) for number, entry in fields if number == 3 and isinstance(entry, bytes)]
    for entry in sorted(entries, key=lambda entry: entry.get(1, 0) if isinstance(entry.get(1, 0), int) else 0):
        if isinstance(string := entry.get(3), bytes):
            yield string.decode("utf-8", "replace")


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of each message of the archives."""
    at = 0
    while at < len(data):
        length, at = _varint(data, at)
        infos = [value for number, value in _fields(data[at : at + length]) if number == 2 and isinstance(value, bytes)]
        at += length
        for info in infos:
            about = {number: value for number, value in _fields(info) if isinstance(value, int)}
            size = about.get(3, 0)
            yield about.get(1, 0), data[at : at + size]
            at += size


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a protocol buffer message. Raises ParseError for other data."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        match key & 7:
            case 0:
                value, at = _varint(message, at)
                yield key >> 3, value
            case 2:
                length, at = _varint(message, at)
                yield key >> 3, message[at : at + length]
                at += length
            case 1 | 5 as size:
                at += 8 if size == 1 else 4
            case _:
                raise ParseError("an archive in the file is damaged")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ParseError("an archive in the file is damaged")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def _uncompressed(data: bytes) -> bytes:
    """Return the decompressed archives: blocks of a type byte, three bytes of length, and raw Snappy data."""
    blocks, at, room = [], 0, archives.MAX_INFLATED
    while at + 4 <= len(data):
        length = int.from_bytes(data[at + 1 : at + 4], "little")
        block = _block(data[at + 4 : at + 4 + length], room)
        room -= len(block)
        blocks.append(block)
        at += 4 + length
    return b"".join(blocks)


def _block(data: bytes, room: int) -> bytes:
    """Decompress a raw Snappy block."""
    size, at = _varint(data, 0)
    if size > min(room, _MAX_BLOCK):
        raise ResourceExhausted(f"the archives unpack to more than {archives.MAX_INFLATED >> 20} MB (a fixed limit)")
    out = bytearray()
    while at < len(data) and len(out) <= size:
        tag = data[at]
        at += 1
        if tag & 3 == 0:
            length = tag >> 2
            if length >= 60:
                extra = length - 59
                length = int.from_bytes(data[at : at + extra], "little")
                at += extra
            out += data[at : at + length + 1]
            at += length + 1
            continue
        if tag & 3 == 1:
            length, width = (tag >> 2 & 7) + 4, 1
            offset = (tag >> 5) << 8 | int.from_bytes(data[at : at + 1], "little")
        else:
            length, width = (tag >> 2) + 1, 2 if tag & 3 == 2 else 4
            offset = int.from_bytes(data[at : at + width], "little")
        at += width
        if not 0 < offset <= len(out):
            raise ParseError("an archive in the file is damaged")
        start = len(out) - offset
        piece = bytes(out[start : start + length])
        out += (piece * (length // len(piece) + 1))[:length]
    if len(out) != size:
        raise ParseError("an archive in the file is damaged")
    return bytes(out)
