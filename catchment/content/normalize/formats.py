"""Detect the type of a file from its first bytes and its name, and map each type to a reader.

To support a new format, extend the table here. Content takes precedence over the name; the name distinguishes types with
equal signatures (plain text, zip files, old Office files).
"""

from __future__ import annotations

import re
from enum import StrEnum

from catchment.content.normalize.decode import is_text


class Reader(StrEnum):
    """The reader of a type."""

    NOTE = "note"
    CANVAS = "canvas"
    NOTEBOOK = "notebook"
    TEXT = "text"
    HTML = "html"
    MAIL = "mail"
    OFFICE = "office"
    IMAGE = "image"
    ARCHIVE = "archive"


UNKNOWN = "application/octet-stream"
CANVAS = "application/x-jsoncanvas"
MAIL = "message/rfc822"

_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"

# For each reader, lines of a media type and its file extensions.
_TABLE: dict[Reader, str] = {
    Reader.NOTE: "text/markdown md markdown mdown mkd mkdn mdx qmd rmd",
    Reader.CANVAS: f"{CANVAS} canvas",
    Reader.NOTEBOOK: "application/x-ipynb+json ipynb",
    Reader.HTML: """
        text/html html htm
        application/xhtml+xml xhtml xht""",
    Reader.MAIL: f"{MAIL} eml",
    Reader.TEXT: """
        text/plain txt text log conf cfg ini properties env lst nfo me
        text/csv csv
        text/tab-separated-values tsv tab
        text/calendar ics ifb
        text/vcard vcf
        text/vtt vtt
        application/x-subrip srt
        text/x-org org
        text/x-rst rst
        text/x-asciidoc adoc asciidoc
        text/x-textile textile
        text/x-wiki wiki mediawiki
        text/x-typst typ typst
        text/x-tex tex latex ltx sty cls
        text/x-bibtex bib
        application/x-research-info-systems ris
        application/json json jsonl ndjson geojson json5 webmanifest map
        application/yaml yaml yml base
        application/toml toml
        application/xml xml xsl xslt xsd rss atom opml kml gpx dbk plist wsdl
        text/x-diff diff patch
        text/css css scss sass less
        text/x-python py pyw pyi
        text/javascript js mjs cjs jsx
        text/typescript ts tsx mts cts
        text/x-c c h
        text/x-c++ cc cpp cxx hpp hh hxx
        text/x-csharp cs
        text/x-java java
        text/x-kotlin kt kts
        text/x-scala scala
        text/x-go go
        text/x-rust rs
        text/x-swift swift
        text/x-dart dart
        text/x-php php
        text/x-ruby rb
        text/x-perl pl pm
        text/x-lua lua
        text/x-r r
        text/x-julia jl
        text/x-haskell hs
        text/x-ocaml ml mli
        text/x-clojure clj cljs edn
        text/x-elixir ex exs
        text/x-erlang erl hrl
        text/x-lisp el lisp scm
        text/x-sql sql
        text/x-sh sh bash zsh fish
        text/x-powershell ps1
        text/x-batch bat cmd
        text/x-vue vue svelte astro
        text/x-graphql graphql gql
        text/x-proto proto
        text/x-terraform tf hcl
        text/x-nix nix
        text/x-cmake cmake
        text/x-makefile mk mak
        text/x-fortran f f90
        text/x-asm s asm
        text/x-vim vim""",
    Reader.OFFICE: f"""
        application/pdf pdf
        application/rtf rtf
        application/epub+zip epub
        application/x-fictionbook+xml fb2
        application/msword doc dot
        application/vnd.ms-excel xls xlt
        application/vnd.ms-powerpoint ppt pps pot
        application/vnd.ms-outlook msg
        application/vnd.wordperfect wpd
        application/x-hwp hwp
        application/haansofthwpx hwpx
        {_OOXML}.wordprocessingml.document docx
        {_OOXML}.wordprocessingml.template dotx
        application/vnd.ms-word.document.macroEnabled.12 docm
        application/vnd.ms-word.template.macroEnabled.12 dotm
        {_OOXML}.spreadsheetml.sheet xlsx
        {_OOXML}.spreadsheetml.template xltx
        application/vnd.ms-excel.sheet.macroEnabled.12 xlsm
        application/vnd.ms-excel.template.macroEnabled.12 xltm
        application/vnd.ms-excel.sheet.binary.macroEnabled.12 xlsb
        {_OOXML}.presentationml.presentation pptx
        {_OOXML}.presentationml.slideshow ppsx
        {_OOXML}.presentationml.template potx
        application/vnd.ms-powerpoint.presentation.macroEnabled.12 pptm
        application/vnd.ms-powerpoint.slideshow.macroEnabled.12 ppsm
        application/vnd.ms-powerpoint.template.macroEnabled.12 potm
        {_ODF}.text odt
        {_ODF}.text-template ott
        {_ODF}.spreadsheet ods
        {_ODF}.spreadsheet-template ots
        {_ODF}.presentation odp
        {_ODF}.presentation-template otp
        application/x-iwork-pages-sffpages pages
        application/x-iwork-numbers-sffnumbers numbers
        application/x-iwork-keynote-sffkey key""",
    Reader.IMAGE: """
        image/png png
        image/jpeg jpg jpeg jpe
        image/gif gif
        image/webp webp
        image/bmp bmp
        image/svg+xml svg
        image/tiff tif tiff
        image/heic heic heif
        image/avif avif""",
    Reader.ARCHIVE: """
        application/zip zip
        application/x-tar tar
        application/gzip gz tgz svgz""",
}

_ROWS = [(reader, row.split()) for reader, rows in _TABLE.items() for row in rows.strip().split("\n")]
READERS: dict[str, Reader] = {row[0]: reader for reader, row in _ROWS}
ENDINGS: dict[str, str] = {ending: row[0] for _, row in _ROWS for ending in row[1:]}

NOTES = frozenset(kind for kind, reader in READERS.items() if reader in (Reader.NOTE, Reader.CANVAS, Reader.NOTEBOOK))
"""The types whose text is written in Obsidian's Markdown."""
SOURCE_TEXT = frozenset(kind for kind, reader in READERS.items() if reader is Reader.TEXT)
"""The types whose text is kept unchanged and is not Markdown."""

_NOT_ONLY_TEXT = (Reader.OFFICE, Reader.IMAGE, Reader.ARCHIVE, Reader.CANVAS, Reader.MAIL)
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"%PDF-", "application/pdf"),
    (b"{\\rtf", "application/rtf"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"\x1f\x8b", "application/gzip"),
)
_PACKED = {"gz": "", "tgz": ".tar", "svgz": ".svg"}
"""The extensions of gzip files, with the extension of the file inside."""
_ZIP, _OLE = b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_EMPTY_ZIP = b"PK\x05\x06"
_ISO_BRANDS = {b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heic", b"avif": "image/avif"}
_OLE_PARTS = (
    ("__substg1.0_", "application/vnd.ms-outlook"),
    ("WordDocument", "application/msword"),
    ("PowerPoint Document", "application/vnd.ms-powerpoint"),
    ("Workbook", "application/vnd.ms-excel"),
)
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_ZIPPED = re.compile(r"application/(?:epub\+zip|zip|haansofthwpx|x-iwork|vnd\.(?:openxml|oasis|ms-.*12))")
_OLD_OFFICE = frozenset(kind for _, kind in _OLE_PARTS) | {"application/x-hwp"}
_SHARED_ENDING = re.compile(
    r"application/(?:msword$|rtf$|x-iwork|vnd\.wordperfect$|vnd\.ms-(?:powerpoint|excel|outlook)$)"
)
_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*(?:<!--.{0,500}?-->\s*)?<(?:!doctype\s+html|html[\s>])", re.IGNORECASE | re.DOTALL
)
_BY_NAME = {"makefile": "text/x-makefile", "dockerfile": "text/x-sh", "cmakelists.txt": "text/x-cmake"}
_TAR_MAGIC = slice(257, 262)


def media_type(data: bytes, name: str) -> str:
    """Return the IANA media type of a file; `application/octet-stream` if it is unknown.

    The extension of a binary format decides for content without a signature, so that a damaged file is reported as damaged
    and not read as text. Exceptions are extensions that text files also use (`.dot`, `.pot`, `.key`).
    """
    claimed = _claimed(name)
    if signed := _signed(data, claimed):
        return signed
    if not is_text(data):
        return claimed if READERS.get(claimed) in _NOT_ONLY_TEXT else UNKNOWN
    if (
        READERS.get(claimed) is not Reader.NOTE
        and claimed not in SOURCE_TEXT - {"text/plain"}
        and _HTML_START.match(data)
    ):
        return "application/xhtml+xml" if claimed == "application/xhtml+xml" else "text/html"
    return "text/plain" if claimed == UNKNOWN or _SHARED_ENDING.match(claimed) else claimed


def uncompressed(name: str) -> str:
    """Return the name of the file inside a gzip file of this name."""
    stem, dot, ending = name.rpartition(".")
    return stem + _PACKED[ending.lower()] if dot and ending.lower() in _PACKED else name


def _claimed(name: str) -> str:
    base = name.rpartition("/")[2].lower()
    ending = base.rpartition(".")[2] if "." in base else ""
    return _BY_NAME.get(base) or ENDINGS.get(ending, UNKNOWN)


def _signed(data: bytes, claimed: str) -> str | None:
    """Return the type by a signature in the content, or None."""
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    if data.startswith((_ZIP, _EMPTY_ZIP)):
        return _zipped(data, claimed)
    if data.startswith(_OLE):
        return _ole(data, claimed)
    if is_text(data):
        return None  # in text the letters of a signature are words: "GIF89a is a format", "the ftyp box"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    if data[4:8] == b"ftyp":
        return _ISO_BRANDS.get(data[8:12], UNKNOWN)
    if data[_TAR_MAGIC] == b"ustar":
        return "application/x-tar"
    if data.startswith(b"BM") and claimed in ("image/bmp", UNKNOWN):
        return "image/bmp"
    return None


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
