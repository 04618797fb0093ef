"""Read the pages, comments, links and form fields of a PDF with PDFium, the reader of Chromium.

PDFium follows damaged page trees and decodes the strings of annotations (ISO 32000-2, 7.9.2.2).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from catchment.content.normalize.html import html
from catchment.content.normalize.office.pdf.columns import vertical_text
from catchment.content.normalize.office.pdf.direction import ordered_text
from catchment.content.normalize.office.pdf.form import fields, form_of, is_xfa
from catchment.content.normalize.office.pdf.gaps import parted
from catchment.content.normalize.office.pdf.glyphs import install_glyphs
from catchment.content.normalize.office.pdf.pdfium_calls import string

MAX_NOTES = 10_000
_MAX_MISSING = 1_000
"""Missing pages in a row after which the file ends; each costs 18 µs, and a /Count may be any number."""
_MAX_OBJECTS, _MAX_DEPTH = 1_000, 3
"""The objects of a page, also within others, that are searched for an image."""
_MOST_OF_STAMP, _LEAST_SCAN = 60, 500_000
"""Words that a stamp or an archive adds to a scan, and pixels of a page that was scanned with 72 dots per inch."""
_CATALOG = re.compile(rb"\b(\d{1,9} \d{1,5}) obj\s*<<[^<>]{0,1000}/Type\s*/Catalog\b")
_HYPHEN = re.compile("[\x02\ufffe](?:\r?\n)?")
"""The mark of PDFium for a hyphen at the end of a line."""


class PdfPages:
    """The pages of a PDF and its annotations. Raises PdfiumError if PDFium cannot open the file."""

    def __init__(self, data: bytes) -> None:
        self._document = _opened(data)
        self.title, self.author = map(self._document.get_metadata_value, ("Title", "Author"))
        self.count = len(self._document)
        """The number of pages that the file has or claims to have."""
        self.texts: dict[int, str] = {}
        """The plain text of each page that can be opened."""
        self.vertical: set[int] = set()
        """The pages with columns of vertical text."""
        self.right_to_left: set[int] = set()
        """The pages with words from right to left, in the order of reading."""
        self.pictures: set[int] = set()
        """The pages without text that show an image, and those with a stamp on one."""
        self.notes: list[tuple[str, str]] = []
        """A label and the words of each comment or link, at most MAX_NOTES."""
        self.fields: dict[tuple[str, str], None] = {}
        """Name and value of each form field, at most MAX_NOTES. The value is empty if it is text of the page."""
        self.forms: set[int] = set()
        """The pages with form fields."""
        self.files = 0
        with form_of(self._document) as form:
            for number, page in self._opened_pages():
                text = page.get_textpage()
                self._add_text(number, text)
                if _is_scan(page, len(self.texts[number].split())):
                    self.pictures.add(number)
                self._add_notes(number, page)
                self._add_fields(number, fields(form, page, text))
        self.is_unread_form = is_xfa(self._document) and not self.fields
        self.count = min(self.count, max(self.texts, default=0) + _MAX_MISSING)

    def parted(self, number: int) -> list[list[str]]:
        """Return the words of a page that have wide gaps between them, row by row."""
        page = self._document[number - 1]
        rows = list(parted(page.get_textpage()))
        page.close()
        return rows

    def _opened_pages(self) -> Iterator[tuple[int, Any]]:
        """Yield the existing pages; each is open until the next is requested."""
        from pypdfium2 import PdfiumError

        missing = 0
        for number in range(1, self.count + 1):
            try:
                page = self._document[number - 1]
            except PdfiumError:
                missing += 1
                if missing >= _MAX_MISSING:
                    return
                continue
            missing = 0
            yield number, page
            page.close()

    def _add_text(self, number: int, text: Any) -> None:
        plain = _HYPHEN.sub("", text.get_text_range()).strip()
        columns = vertical_text(text, plain)
        if columns is not None:
            self.vertical.add(number)
        elif (ordered := ordered_text(text, plain)) is not None:
            self.right_to_left.add(number)
            plain = ordered
        self.texts[number] = plain if columns is None else columns

    def _add_fields(self, number: int, rows: Iterator[tuple[str, str]]) -> None:
        first = next(rows, None)
        if first is not None:
            self.forms.add(number)
            self.fields |= dict.fromkeys(islice(chain((first,), rows), MAX_NOTES - len(self.fields)))

    def _add_notes(self, number: int, page: Any) -> None:
        """Add the comments and links of a page. Replies to a comment are comments too."""
        import pypdfium2.raw as pdfium

        for index in range(pdfium.FPDFPage_GetAnnotCount(page)):
            if len(self.notes) >= MAX_NOTES:
                return
            annotation = pdfium.FPDFPage_GetAnnot(page, index)
            kind = pdfium.FPDFAnnot_GetSubtype(annotation)
            if kind == pdfium.FPDF_ANNOT_FILEATTACHMENT:
                self.files += 1
            elif kind not in (pdfium.FPDF_ANNOT_POPUP, pdfium.FPDF_ANNOT_WIDGET):
                label = "Link" if kind == pdfium.FPDF_ANNOT_LINK else "Comment"
                self.notes += ((f"{label} on page {number}: ", words) for words in _words(annotation, page))
            pdfium.FPDFPage_CloseAnnot(annotation)


def _is_scan(page: Any, words: int) -> bool:
    """Return whether the text of a page is on images among its first objects or their parts, apart from a stamp."""
    import pypdfium2.raw as pdfium

    if words > _MOST_OF_STAMP:
        return False
    objects = islice(page.get_objects(max_depth=_MAX_DEPTH), _MAX_OBJECTS)
    pixels = [_pixels(each) for each in objects if each.type == pdfium.FPDF_PAGEOBJ_IMAGE]
    return sum(pixels) >= _LEAST_SCAN if words else bool(pixels)


def _pixels(image: Any) -> int:
    import pypdfium2.raw as pdfium

    width, height = ctypes.c_uint(), ctypes.c_uint()
    pdfium.FPDFImageObj_GetImagePixelSize(image, width, height)
    return width.value * height.value


def _opened(data: bytes) -> Any:
    """Open a PDF. Without a /Count, PDFium counts the pages itself; if it finds more than the file claims, it is right."""
    from pypdfium2 import PdfDocument, PdfiumError

    install_glyphs()
    try:
        PdfDocument(data)
    except PdfiumError:
        if (root := _CATALOG.search(data)) is None:
            raise
        data += b"\ntrailer << /Root %s R >>\n" % root[1]  # the end of a truncated file
    claimed, counted = PdfDocument(data), PdfDocument(data.replace(b"/Count", b"/C0unt"))
    return counted if len(counted) > len(claimed) else claimed


def _words(annotation: Any, page: Any) -> Iterator[str]:
    """Yield the words of an annotation and the address of its link."""
    words = _string(annotation, b"Contents")
    if not words and (rich := _string(annotation, b"RC")):
        words = " ".join(html(rich.encode(), encoding="utf-8").text.split())
    yield from filter(None, (words, _address(annotation, page)))


def _string(annotation: Any, key: bytes) -> str:
    import pypdfium2.raw as pdfium

    return " ".join(string(pdfium.FPDFAnnot_GetStringValue, annotation, key).split())


def _address(annotation: Any, page: Any) -> str:
    import pypdfium2.raw as pdfium

    action = pdfium.FPDFLink_GetAction(pdfium.FPDFAnnot_GetLink(annotation))
    if not action:
        return ""
    size = pdfium.FPDFAction_GetURIPath(page.pdf, action, None, 0)
    buffer = ctypes.create_string_buffer(size)
    pdfium.FPDFAction_GetURIPath(page.pdf, action, buffer, size)
    return " ".join(buffer.value.decode("utf-8", "replace").split())
