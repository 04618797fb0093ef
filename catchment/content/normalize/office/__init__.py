"""Read text documents, spreadsheets, presentations, PDF, drawings and e-books.

xberg reads Word, binary formats, sheets of OpenDocument and EPUB. The modules here add the parts of a package that it
omits, and read the other types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from catchment.content.normalize import archives, formats
from catchment.content.normalize.decode import decode
from catchment.content.normalize.html import html
from catchment.content.normalize.language_detection import declared_language, language
from catchment.content.normalize.mail.outlook import outlook
from catchment.content.normalize.office import (
    compound,
    fiction_book,
    inline,
    iwork,
    mobipocket,
    note_marks,
    open_document,
    pdf,
    slides,
    unread,
    visio,
    workbooks,
)
from catchment.content.normalize.office.extraction import CONTROLS, XLSB, Extracted, Metadata, extracted, tidy
from catchment.content.normalize.office.open_document import flat
from catchment.content.normalize.office.rtf import RTF, rtf
from catchment.content.normalize.packages import LOCKED, Package
from catchment.errors import ParseError, ResourceExhausted
from catchment.model import RECOGNIZED, Document, PageText, time_of

_OOXML = "application/vnd.openxmlformats-officedocument"
_DOCX, _XLSX, _PPTX = (
    f"{_OOXML}.{kind}" for kind in ("wordprocessingml.document", "spreadsheetml.sheet", "presentationml.presentation")
)
_MAIN_PART = "word/document.xml"
"""The name under which xberg expects the main part of a Word document."""
_SEARCHES = {_DOCX: unread.of_document, XLSB: unread.of_binary_workbook}
_ODF = "application/vnd.oasis.opendocument."
_ODF_SHEETS = f"{_ODF}spreadsheet"
_IWORK = "application/x-iwork-"
_EPUB = "application/epub+zip"
_VISIO = "application/vnd.ms-visio."
_MAX_CHUNKS = 100
_HEAD = 1_024
_TIME = re.compile(r"\bDURATION: PT0*(\d+)H(\d\d)M(\d\d)S")
"""A time in a sheet of OpenDocument, as xberg writes it."""
_PRIVATE = re.compile("[\uf000-\uf0ff]")
"""Characters without a meaning outside of their font."""
_EMPTY = "no text found"


def office(data: bytes, media_type: str, recognized: Mapping[int, PageText]) -> Document:
    """Read an office file. Raises ParseError if it is damaged or encrypted, ResourceExhausted if it exceeds a limit."""
    if media_type == pdf.MEDIA_TYPE:
        return _pdf(data, recognized)
    kind = _basic_type(media_type)
    if kind.startswith(_ODF) and not data.startswith(b"PK") and b"<" in data[:_HEAD]:
        data = flat.packaged(data, kind)
    lines: list[tuple[str, str]] = []
    if data.startswith(b"PK"):
        archives.refuse_bomb(data)
    elif data.startswith(compound.SIGNATURE):
        data, lines = compound.prepared(data, kind)
    if media_type == "application/vnd.ms-outlook":
        message = extracted(data, media_type)
        return outlook(message.metadata, tidy(message.content), media_type)
    content, metadata, warnings = _content(data, kind)
    if lines:
        written = unread.Written(content)
        content = "\n\n".join((content, *(label + line for label, line in lines if not written.has(line))))
    text = tidy(content)
    if kind in (_DOCX, _PPTX):
        text = inline.ESCAPED_CONTROLS.sub(" ", text)
        if kind == _DOCX and (private := len(_PRIVATE.findall(text))):
            warnings = [*warnings, f"symbols of unknown fonts: {private}"]
    return _document(text, media_type, metadata, warnings if text else [*warnings, _EMPTY], _moment)


def _pdf(data: bytes, recognized: Mapping[int, PageText]) -> Document:
    content, metadata, warnings, unread_pages, pages = pdf.pdf(data, recognized)
    if unread_pages:
        warnings = [*warnings, f"pages whose text is a picture and not recognized yet: {pdf.ranges(unread_pages)}"]
    elif not content:
        warnings = [*warnings, _EMPTY]
    document = _document(tidy(content), pdf.MEDIA_TYPE, metadata, warnings, partial(pdf.moment, data))
    document = replace(document, pictures=tuple(unread_pages))
    if not pages:
        return document
    confidence = sum(recognized[page].confidence for page in pages) / len(pages)
    about: dict[str, Any] = {"confidence": round(confidence, 2)}
    if len(content) > sum(len(recognized[page].text) + len("\n\n") for page in pages):
        about["pages"] = pdf.ranges(pages)
        about["places"] = _places(document.text, [tidy(recognized[page].text) for page in pages])
    return replace(document, properties={**document.properties, RECOGNIZED: about})


def _places(text: str, parts: Iterable[str]) -> list[list[int]]:
    """Return start and end of each part in a text, in order; from the last one to the end for a part that is not as it was."""
    places, after = list[list[int]](), 0
    for part in parts:
        start = text.find(part, after)
        if start < 0:
            places.append([after, len(text)])
        else:
            after = start + len(part)
            places.append([start, after])
    return places


def _document(
    text: str, media_type: str, metadata: Metadata, warnings: list[str], moment: Callable[[str | None], datetime | None]
) -> Document:
    return Document(
        text=text,
        media_type=media_type,
        title=_words(metadata.title) or _first_heading(text),
        language=declared_language(metadata.language) or language(text),
        author=_words(", ".join(metadata.authors)),
        created=moment(metadata.created),
        modified=moment(metadata.modified),
        properties=_properties(metadata),
        warnings=tuple(warnings),
    )


def _content(data: bytes, media_type: str) -> tuple[str, Metadata, list[str]]:
    """Return text, metadata and warnings from the reader of the type."""
    if media_type.startswith((_ODF, _EPUB)) and data.startswith(b"PK") and _is_locked(Package(data)):
        raise ParseError(LOCKED)
    if media_type in (_XLSX, _PPTX):
        return _opc(Package(data), workbooks.text if media_type == _XLSX else _presentation)
    if media_type.startswith(_IWORK):
        text, warnings = iwork.text(data, media_type)
        return text, Metadata(), warnings
    if media_type == RTF:
        return rtf(data)
    if media_type == fiction_book.MEDIA_TYPE:
        return fiction_book.book(data)
    if media_type == mobipocket.MEDIA_TYPE:
        return *mobipocket.text(data), []
    if media_type.startswith(_ODF) and not media_type.startswith(_ODF_SHEETS):
        return _open_document(Package(data))
    if media_type.startswith(_VISIO):
        return _opc(Package(data), visio.text)
    return _extraction(data, media_type)


def _is_locked(package: Package) -> bool:
    """Return whether an ODF file has a password or an e-book has DRM."""
    if package.has("META-INF/rights.xml") or package.has("META-INF/sinf.xml"):
        return True
    manifest = "META-INF/manifest.xml"
    return package.has(manifest) and b"encryption-data" in package.read(manifest)


def _opc(package: Package, read: Callable[[Package], tuple[str, list[str]]]) -> tuple[str, Metadata, list[str]]:
    text, warnings = read(package)
    return text, Metadata.of_package(package), warnings


def _presentation(package: Package) -> tuple[str, list[str]]:
    parts = slides.in_order(package)
    text, warnings = slides.text(package, parts)
    beside = unread.of_slides(package, parts, text)
    return "\n\n".join(filter(None, (text, *beside.lines))), [*warnings, *beside.warnings]


def _open_document(package: Package) -> tuple[str, Metadata, list[str]]:
    text, warnings = open_document.text(package)
    beside = unread.of_open_document(package, text)
    text = "\n\n".join(filter(None, (text, *beside.lines)))
    return text, open_document.metadata(package), [*warnings, *beside.warnings]


def _extraction(data: bytes, media_type: str) -> tuple[str, Metadata, list[str]]:
    is_compound = data.startswith(compound.SIGNATURE)
    if is_compound:
        result = _of_compound(data, media_type)
    else:
        data, result = _of_package(data, media_type)
    text, metadata, warnings = tidy(result.content), Metadata.of_xberg(result.metadata), result.warnings
    search = _SEARCHES.get(media_type) or (
        partial(unread.of_open_document, has_sheets=True) if media_type.startswith(_ODF) else None
    )
    if search is None:
        return text, metadata, warnings
    package = Package(data)
    if media_type.startswith(_ODF):
        metadata, text = open_document.metadata(package), _TIME.sub(r"\1:\2:\3", text)
    beside = search(package, text)
    included, refused = _included(beside.chunks)
    return "\n\n".join(filter(None, (text, *included, *beside.lines))), metadata, [*beside.warnings, *refused]


def _of_package(data: bytes, media_type: str) -> tuple[bytes, Extracted]:
    """Read a file and return it as it was read: with inline elements and marks of notes as text, if it can be read so."""
    plain = inline.with_plain_text(data) if media_type == _DOCX or media_type.startswith(_ODF) else data
    readable, marks = note_marks.marked(plain) if media_type == _DOCX else (plain, {})
    try:
        result = extracted(_arranged(readable, media_type), media_type)
    except (ParseError, ResourceExhausted):
        if readable is data:
            raise
        return data, extracted(_arranged(data, media_type), media_type)
    return plain, result._replace(content=note_marks.numbered(result.content, marks))


def _of_compound(data: bytes, media_type: str) -> Extracted:
    """Read a compound file. If it ends before its sector table does, read the sectors that it has."""
    try:
        return extracted(data, media_type)
    except ParseError:
        result = extracted(compound.padded(data), media_type)
        if not tidy(result.content):
            raise
        return result._replace(warnings=[*result.warnings, "the file is truncated; text may be missing"])


def _included(chunks: list[tuple[str, bytes]]) -> tuple[list[str], list[str]]:
    """Return the texts of included files (altChunk), and a warning if some cannot be read."""
    texts, refused = [], 0
    for name, data in chunks[:_MAX_CHUNKS]:
        kind = formats.media_type(data, name)
        try:
            if formats.READERS.get(kind) is formats.Reader.HTML:
                texts.append(html(data, kind).text)
            elif formats.READERS.get(kind) is formats.Reader.TEXT:
                texts.append(decode(data).text)
            elif kind == RTF:
                texts.append(tidy(rtf(data)[0]))
            elif _basic_type(kind) == _DOCX:
                if data.startswith(b"PK"):
                    archives.refuse_bomb(data)
                texts.append(tidy(_of_package(data, _basic_type(kind))[1].content))
            else:
                refused += 1
        except (ParseError, ResourceExhausted):
            refused += 1
    refused += len(chunks[_MAX_CHUNKS:])
    return texts, [f"included files not read: {refused}"] if refused else []


def _basic_type(media_type: str) -> str:
    """Return the type of plain documents for templates, slideshows and files with macros; their format is the same."""
    if media_type == XLSB:
        return media_type
    for kind, family in ((_DOCX, "word"), (_XLSX, "excel"), (_PPTX, "powerpoint")):
        if media_type.startswith((kind.rpartition(".")[0], f"application/vnd.ms-{family}.")):
            return kind
    return media_type.removesuffix("-template")


def _arranged(data: bytes, media_type: str) -> bytes:
    """Return the package with its main part under the name that xberg expects. Other names are valid but rare."""
    return Package(data).with_main_part(_MAIN_PART) if media_type == _DOCX else data


def _first_heading(text: str) -> str | None:
    match = re.search(r"^#{1,6} +(.+)$", text, re.MULTILINE)
    return _words(match[1]) if match else None


def _words(text: str | None) -> str | None:
    return " ".join(CONTROLS.sub("", inline.ESCAPED_CONTROLS.sub(" ", text)).split()) or None if text else None


def _moment(text: str | None) -> datetime | None:
    return time_of(text.strip()) if text else None


def _properties(metadata: Metadata) -> dict[str, Any]:
    """Return the descriptive metadata: authors, keywords and subject."""
    values = {
        "authors": [name for each in metadata.authors if (name := _words(each))],
        "keywords": [word for each in metadata.keywords if (word := _words(each))],
        "subject": _words(metadata.subject),
    }
    return {key: value for key, value in values.items() if value}
