"""Turn raw content into documents: detect the type and convert the text to Markdown. Pure functions: no files, no network.

`formats` detects types and maps each to a reader; every reader has a module; those of other packages are in `content.readers`.
Libraries are imported on first use, so a process that reads only notes stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from catchment.content.normalize.decode import declared_encoding, decode
from catchment.content.normalize.formats import GZIP, HTML, READERS, XHTML, Reader, media_type, uncompressed
from catchment.content.normalize.language_detection import language, language_of
from catchment.content.normalize.markdown import markdown
from catchment.content.normalize.markup import KINDS, as_markdown, headings, without_code
from catchment.content.normalize.titles import declared_title, title_of
from catchment.content.readers import reader_for
from catchment.errors import ParseError, Skipped, SkipReason
from catchment.model import SUMMARY_END, Document, PageText, RawContent

__all__ = ["NORMALIZER", "normalize", "unpacked"]

NORMALIZER = "15"
"""The version of the normalizer. It changes when the document of any content changes, through our code or a library."""

_MAX_DEPTH = 2
"""Levels of gzip files in each other that are unpacked."""


def normalize(raw: RawContent, recognized: Mapping[int, PageText] = MappingProxyType({})) -> Document:
    """Read content into a document. The same bytes with the same type of name and address always give the same document, except
    that a page has no date in the future. `recognized`: the text on the pictures of its pages, by number.

    Ignores `title`, `modified` and `metadata`: they belong to the item, and several items may share a content. Raises
    ParseError if the content is damaged or encrypted, ResourceExhausted for a decompression bomb, and Skipped (unsupported)
    for a type without text.
    """
    if raw.summary:
        return _with_summary(raw)
    return _read(raw.data, raw.name, raw.media_type, raw.encoding, raw.address, recognized)


def unpacked(raw: RawContent) -> tuple[bytes, str]:
    """Return the content that `normalize` reads, of a gzip file that of the file in it, and its media type.

    Raises the same errors for a damaged gzip file.
    """
    return _unpacked(raw.data, raw.name, raw.media_type)[:2]


def _with_summary(raw: RawContent) -> Document:
    from catchment.content.normalize.html.summaries import joined

    parts = (part.encode("utf-8", "replace") for part in raw.summary.split(SUMMARY_END))
    summaries = [_read(part, "summary.html", HTML, "utf-8", raw.address, {}) for part in parts]
    try:
        page = normalize(replace(raw, summary=""))
    except (ParseError, Skipped) as error:
        page = Document("", unpacked(raw)[1], warnings=(str(error),))
    return joined(page, summaries)


def _kind(data: bytes, name: str, hint: str | None) -> str:
    kind = media_type(data, name)
    if (kind, hint) == (HTML, XHTML):
        return XHTML
    return hint if kind == "text/plain" and "." not in name and hint in READERS else kind


def _unpacked(data: bytes, name: str, hint: str | None) -> tuple[bytes, str, Callable[[], Document] | None]:
    """Return content and media type of a file, and what reads it, if that is of another package.

    Of a gzip file, also inside another one, those of the file in it.
    """
    kind = _kind(data, name, hint)
    for _ in range(_MAX_DEPTH):
        if kind != GZIP or not data:
            break
        from catchment.content.normalize.archives import inflated

        data, name = inflated(data), uncompressed(name)
        kind = _kind(data, name, None)
    if reader := reader_for(data, name, is_ours=kind in READERS):
        return data, reader.media_type, partial(reader.read, data, name)
    return data, kind, None


def _read(
    data: bytes, name: str, hint: str | None, encoding: str | None, address: str, recognized: Mapping[int, PageText]
) -> Document:
    data, kind, read = _unpacked(data, name, hint)
    if read:
        return replace(read(), media_type=kind)
    reader = READERS.get(kind)
    if reader is None:
        raise Skipped(SkipReason.UNSUPPORTED)
    if not data:
        return Document(text="", media_type=kind, warnings=("the file is empty",) if reader is Reader.OFFICE else ())
    match reader:
        case Reader.NOTE:
            return markdown(data, encoding)
        case Reader.TEXT:
            declared = declared_encoding(data)
            return _text(data, kind, *((encoding, declared) if address else (declared, encoding)))
        case Reader.ARCHIVE:  # its files are listed; a gzip file is in too many others
            raise Skipped(SkipReason.UNSUPPORTED)
        case Reader.HTML if address:
            from catchment.content.normalize.html.main_text import web_page

            return web_page(data, address, kind, encoding=encoding)
        case Reader.HTML:
            from catchment.content.normalize.html import html

            return html(data, kind, encoding=encoding)
    return _structured(data, kind, reader, recognized)


def _structured(data: bytes, kind: str, reader: Reader, recognized: Mapping[int, PageText]) -> Document:
    """Read with the module of the reader, imported here on first use."""
    match reader:
        case Reader.MAIL:
            from catchment.content.normalize.mail.message_files import message_file

            return message_file(data, kind)
        case Reader.EXCHANGE:
            from catchment.content.normalize.exchange import exchange

            return exchange(data, kind)
        case Reader.CANVAS:
            from catchment.content.normalize.canvas import canvas

            return canvas(data)
        case Reader.NOTEBOOK:
            from catchment.content.normalize.notebook import notebook

            return notebook(data)
        case Reader.IMAGE:
            from catchment.content.normalize.images import image

            return image(data, kind, recognized)
    from catchment.content.normalize.office import office

    return office(data, kind, recognized)


def _text(data: bytes, kind: str, *declared: str | None) -> Document:
    text, warnings, properties = decode(data, *declared)
    if kind not in KINDS:
        code = language(text) if kind == "text/plain" else None
        return Document(text, kind, language=code, properties=properties, warnings=warnings)
    text = as_markdown(text, kind)
    prose = without_code(text)
    title = declared_title(prose, kind) or title_of((int(each.detail), each.value) for each in headings(text))
    return Document(text, kind, title, language_of(prose, kind), properties=properties, warnings=warnings)
