"""Detect the type of a file from its first bytes and its name, and map each type to a reader.

To support a new format, extend `media_types.txt`. Content takes precedence over the name; the name distinguishes types with
equal signatures (plain text, zip files, old Office files). A text is recognized by its root element, its first line or its
mail headers.
"""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path

from catchment.content.normalize.decode import encoding_by_mark, is_text


class Reader(StrEnum):
    """The reader of a type."""

    NOTE = "note"
    CANVAS = "canvas"
    NOTEBOOK = "notebook"
    TEXT = "text"
    HTML = "html"
    MAIL = "mail"
    EXCHANGE = "exchange"
    OFFICE = "office"
    IMAGE = "image"
    ARCHIVE = "archive"


UNKNOWN = "application/octet-stream"
CANVAS = "application/x-jsoncanvas"
MAIL, MAILBOX, SAVED_PAGE = "message/rfc822", "application/mbox", "multipart/related"
OUTLOOK = "application/vnd.ms-outlook"
HTML, XHTML = "text/html", "application/xhtml+xml"
GZIP = "application/gzip"
HOLDERS = re.compile(
    r"multipart/related|application/(?:pdf|vnd\.openxmlformats.*|vnd\.ms-(?:word|excel|powerpoint)\..*12)"
)
"""The types of documents and pages whose attached or embedded files are documents of their own."""

READERS: dict[str, Reader] = {}
ENDINGS: dict[str, str] = {}
"""The media types by file extension."""
_ROOTS: dict[str, str] = {}
"""The media types by root element, as written with its prefix."""
_FIRST_WORDS: dict[str, str] = {}


def _read_table() -> None:
    reader = Reader.NOTE
    for line in Path(__file__).with_name("media_types.txt").read_text("ascii").splitlines():
        kind, *marks = line.split() or [""]
        if kind.endswith(":"):
            reader = Reader(kind[:-1])
        elif kind and kind != "#":
            READERS[kind] = reader
            for mark in marks:
                table = {"<": _ROOTS, "^": _FIRST_WORDS}.get(mark[0], ENDINGS)
                table[mark.lstrip("<^")] = kind


_read_table()

NOTES = frozenset(kind for kind, reader in READERS.items() if reader in (Reader.NOTE, Reader.CANVAS, Reader.NOTEBOOK))
"""The types with text in Obsidian's Markdown."""
CONTAINERS = frozenset(kind for kind, reader in READERS.items() if reader is Reader.ARCHIVE) - {GZIP} | {MAILBOX}
"""The types of files whose only text is the list of the files inside."""
SOURCE_TEXT = frozenset(kind for kind, reader in READERS.items() if reader is Reader.TEXT)
"""The types that are not Markdown. Their lines are kept, but `markup` rewrites the titles and code blocks of some."""

_ANY_TEXT = frozenset({"text/plain", "application/xml"})
_ONLY_TEXT = frozenset({"application/x-bibtex", "application/x-research-info-systems"})
_NOT_ONLY_TEXT = (Reader.OFFICE, Reader.IMAGE, Reader.ARCHIVE, Reader.CANVAS, Reader.MAIL, Reader.EXCHANGE)
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x1f\x8b", GZIP),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed"),
    (b"\xffWPC", "application/vnd.wordperfect"),
    (b"WARC/1.", "application/warc"),
)
_PACKED = {"gz": "", "tgz": ".tar", "svgz": ".svg"}
"""The extensions of gzip files, with the extension of the file inside."""
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_EMPTY_ZIP = b"PK\x05\x06"
_ISO_BRANDS = {b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heic", b"avif": "image/avif"}
_OLE_PARTS = (
    ("__substg1.0_", OUTLOOK),
    ("WordDocument", "application/msword"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("Workbook", "application/vnd.ms-excel"),
)
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_ZIPPED = re.compile(r"application/(?:epub\+zip|zip|haansofthwpx|x-iwork|vnd\.(?:openxml|oasis|ms-visio|ms-.*12))")
_OLD_OFFICE = frozenset(kind for _, kind in _OLE_PARTS) | {"application/x-hwp"}
_SHARED_ENDING = re.compile(
    r"application/(?:msword$|rtf$|x-iwork|vnd\.wordperfect$|vnd\.ms-(?:powerpoint|excel|outlook)$)"
)
_HEAD = 8_192
_LEAD = 64
"""Bytes in which an RTF file starts: some programs write a mark or blank lines before it."""
_XHTML_NAMESPACE = "http://www.w3.org/1999/xhtml"
_ROOT = re.compile(
    r"\s*+(?>(?:(?:<\?[^>]*+>|<!--.*?-->)\s*+)*)<(?:!doctype\s++)?([a-z][\w:.-]*+)(?=[\s/>])", re.IGNORECASE | re.DOTALL
)
_ODF_TYPE = re.compile(r"office:mimetype\s*=\s*[\"']([\w./-]+)")
_FRAGMENT = frozenset({"html", "head", "meta", "style", "body", "center", "div", "font", "p", "table"})
"""The first elements of HTML that programs name like an office file."""
_CLIPPING = re.compile(r"[^\n]+\n- [^\n]*\|[^\n]*\n\r?\n(?s:.*?)^={10}\s*$", re.MULTILINE)
"""The first entry of the highlights of a Kindle."""
_MAILBOX_START = re.compile(r"From [^\n]*\d\d:\d\d[^\n]*\n[!-9;-~]+:")
_SECOND_MAIL = re.compile(rb"\n\r?\nFrom [^\n]*\d\d:\d\d[^\n]*\n[!-9;-~]+:")
_HEADERS = re.compile(r"(?:\d+[ \t]*\r?\n)?(?>(?:[!-9;-~]++:|[ \t])[^\n]*+\n)+")
_HEADER = re.compile(r"^([!-9;-~]+):", re.MULTILINE)
_TRANSPORTED = frozenset({"message-id", "received", "return-path", "to"})
_PRINTED = frozenset({"from", "date", "subject"})
"""The headers of a message that a mail program saved as text."""
_SAVED = re.compile(
    r"^(?:snapshot-)?content-location:|^content-type:\s*multipart/related\b", re.IGNORECASE | re.MULTILINE
)
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/_-]{60,}+=*\s*+)*+[A-Za-z0-9+/_-]*+=*\s*")
_LEAST_BASE64, _LEAST_LETTERS = 1_024, 40
_BY_NAME = {"makefile": "text/x-makefile", "dockerfile": "text/x-sh", "cmakelists.txt": "text/x-cmake"}
_TAR_MAGIC = slice(257, 262)


def media_type(data: bytes, name: str) -> str:
    """Return the IANA media type of a file; `application/octet-stream` if it is unknown.

    The extension of a binary format decides for content without a signature, so that a damaged file is reported as damaged
    and not read as text. Exceptions are extensions that text files also use (`.dot`, `.pot`, `.key`).
    """
    claimed = type_by_name(name)
    if signed := _signed(data, claimed):
        return signed
    if not is_text(data):
        # A page with a NUL character is one for browsers, too.
        if (written := _written(data, claimed, is_unclear=False)) in (HTML, XHTML):
            return written
        return claimed if READERS.get(claimed) in _NOT_ONLY_TEXT and claimed not in _ONLY_TEXT else UNKNOWN
    if claimed == MAIL and data.startswith(b"From ") and _SECOND_MAIL.search(data):
        return MAILBOX
    if READERS.get(claimed) is Reader.NOTE or claimed in SOURCE_TEXT - _ANY_TEXT:
        return claimed
    is_unclear = claimed == UNKNOWN or _SHARED_ENDING.match(claimed) is not None
    if written := _written(data, claimed, is_unclear=is_unclear):
        return written
    if is_unclear or claimed == "text/plain":
        return UNKNOWN if _is_base64(data) else "text/plain"
    return claimed


def uncompressed(name: str) -> str:
    """Return the name of the file inside a gzip file of this name."""
    stem, dot, ending = name.rpartition(".")
    return stem + _PACKED[ending.lower()] if dot and ending.lower() in _PACKED else name


def type_by_name(name: str) -> str:
    """Return the media type that a file name claims; `application/octet-stream` if it claims none."""
    base = name.rpartition("/")[2].lower()
    endings = base.split(".")[1:]
    claims = ENDINGS.get(".".join(endings[-2:])), ENDINGS.get("".join(endings[-1:]))  # "tar.gz", "gz"
    return _BY_NAME.get(base) or claims[0] or claims[1] or UNKNOWN


def _signed(data: bytes, claimed: str) -> str | None:
    """Return the type by a signature in the content, or None."""
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data[:_LEAD].lstrip(b"\xef\xbb\xbf\r\n\t ").startswith(b"{\\rtf"):
        return "application/rtf"
    if data.startswith((_ZIP, _EMPTY_ZIP)):
        return _zipped(data, claimed)
    if data.startswith(_OLE):
        return _ole(data, claimed)
    if is_text(data):
        return None  # in text the letters of a signature are words: "GIF89a is a format", "the ftyp box"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[60:68] in (b"BOOKMOBI", b"TEXtREAd"):
        return "application/x-mobipocket-ebook"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _ISO_BRANDS.get(data[8:12], UNKNOWN)
    if data[_TAR_MAGIC] == b"ustar":
        return "application/x-tar"
    if data.startswith(b"BM") and claimed in ("image/bmp", UNKNOWN):
        return "image/bmp"
    return None


def _written(data: bytes, claimed: str, *, is_unclear: bool) -> str | None:
    """Return the type of a text by its root element, its first word or its mail headers, or None."""
    head = data[:_HEAD].decode(encoding_by_mark(data) or "latin-1", "replace").removeprefix("\ufeff")
    if root := _ROOT.match(head):
        if root[1].lower() == "html":
            is_xml = head.lstrip().startswith("<?xml") and _XHTML_NAMESPACE in head
            return XHTML if is_xml or claimed == XHTML else HTML
        if root[1] == "office:document" and (declared := _ODF_TYPE.search(head)) and declared[1] in READERS:
            return declared[1]
        return _ROOTS.get(root[1]) or (HTML if is_unclear and root[1].lower() in _FRAGMENT else None)
    start = head.lstrip()[:20].upper()
    if word := next((word for word in _FIRST_WORDS if start.startswith(word)), None):
        return _FIRST_WORDS[word]
    if _CLIPPING.match(head):
        return "application/x-kindle-clippings"
    return _mail(head) if claimed not in ("application/xml", MAIL) else None


def _mail(head: str) -> str | None:
    """Return the type of a text with mail headers: a mailbox, a page saved by a browser, or a message; else None."""
    if _MAILBOX_START.match(head):
        return MAILBOX
    headers = _HEADERS.match(head)
    names = {name.lower() for name in _HEADER.findall(headers[0])} if headers else set()
    # Exports of a wiki have the ID of a message, but no sender.
    is_sent = names & (_TRANSPORTED if "from" in names else _TRANSPORTED - {"message-id"})
    if headers and "mime-version" in names and not is_sent and _SAVED.search(headers[0]):
        return SAVED_PAGE
    is_mail = names >= _PRINTED or ("from" in names and names & {*_TRANSPORTED, "mime-version"} - {"to"})
    return MAIL if is_mail else None


def _is_base64(data: bytes) -> bool:
    """Return whether a text is binary data in base64."""
    head = data[:_HEAD]
    return len(head) >= _LEAST_BASE64 and len(set(head)) >= _LEAST_LETTERS and _BASE64.fullmatch(head) is not None


def _zipped(data: bytes, claimed: str) -> str:
    from catchment.content.normalize.packages import declared_type

    if (declared := declared_type(data)) in READERS:
        return declared
    return claimed if _ZIPPED.match(claimed) else "application/zip"


def _ole(data: bytes, claimed: str) -> str:
    if claimed in _OLD_OFFICE or (_ZIPPED.match(claimed) and _ENCRYPTED_PACKAGE in data):
        return claimed
    for stream, kind in _OLE_PARTS:
        if stream.encode("utf-16-le") in data:
            return kind
    return UNKNOWN
