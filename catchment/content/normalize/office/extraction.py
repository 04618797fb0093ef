"""The interface to xberg, which reads most office formats. No OCR, no network, no cache.

xberg raises RuntimeError for every failure and a panic exception for bugs. Both are converted to ItemError here.
"""

from __future__ import annotations

import asyncio
import base64
import re
from dataclasses import dataclass
from functools import cache
from html import unescape
from typing import Any, NamedTuple, Self

from catchment.content.normalize.formats import HOLDERS
from catchment.content.normalize.packages import LOCKED, Package
from catchment.errors import ItemError, ParseError, ResourceExhausted

XLSB = "application/vnd.ms-excel.sheet.binary.macroEnabled.12"
_BLANK_LINES = re.compile(r"\n{3,}")
CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_INLINE_DATA = re.compile(
    r"!?\[([^\[\]\n]*)\]\((?:<data:[^<>\n]*>|data:(?:image/svg\+xml;base64,([\w+/=]*))?(?>(?:[^()\s]|\([^()\s]*\))*))\)"
)
_SVG_WORDS = re.compile(r"<(?:text|tspan|textPath)\b[^<>]*>([^<]*)")
_DAMAGED = "cannot be read as {}; open it in its own program and save it again"
_CELL_LIMIT, _LIMIT = "max_table_cells", "Security violation"
_PASSWORD = re.compile(r"encrypted|password", re.IGNORECASE)
_UNDERLINED = re.compile(r"\\<u\\>((?:(?!\\<u\\>).)*?)\\</u\\>")
_ADDRESS = re.compile(r"\]\((?:[^()\s\\]|\\.)+\)")
_ESCAPED = re.compile(r"\\([^\w\s|\\()])")
_STRUCK = re.compile(r"\\~\\~((?:(?!\\~\\~).)+?)( *)\\~\\~")
_NO_LOSS = ("ocr", "doc")
"""Readers with irrelevant warnings: text recognition is off, and `binary_texts` reads the notes of a .doc."""
_MAX_CELLS = 1_000_000
"""Cells of a spreadsheet; xberg takes 600 bytes for each, including empty cells between others."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata of a file; dates are in the notation of the file."""

    title: str | None = None
    authors: tuple[str, ...] = ()
    created: str | None = None
    modified: str | None = None
    keywords: tuple[str, ...] = ()
    subject: str | None = None
    language: str | None = None

    @classmethod
    def of_xberg(cls, metadata: Any) -> Self:
        """Convert the metadata of an xberg result."""
        return cls(
            title=metadata.title,
            authors=tuple(metadata.authors or filter(None, (metadata.created_by,))),
            created=metadata.created_at,
            modified=metadata.modified_at,
            keywords=tuple(metadata.keywords or ()),
            subject=metadata.subject,
            language=metadata.language,
        )

    @classmethod
    def of_package(cls, package: Package) -> Self:
        """Return the core properties of an OPC package; empty if they are missing or damaged."""
        parts = [relation.target for relation in package.relations() if relation.kind == "core-properties"]
        try:
            metadata = {each.tag: each.text or "" for part in parts[:1] for each in package.tree(part)}
        except (ParseError, ResourceExhausted):
            return cls()
        return cls(
            title=metadata.get("title"),
            authors=tuple(filter(None, (metadata.get("creator"),))),
            created=metadata.get("created"),
            modified=metadata.get("modified"),
            keywords=tuple(word.strip() for word in re.split("[,;]", metadata.get("keywords", ""))),
            subject=metadata.get("subject"),
            language=metadata.get("language"),
        )


class Extracted(NamedTuple):
    """The result of xberg: Markdown, metadata, the pages of a PDF by number, and warnings about omitted content."""

    content: str
    metadata: Any
    pages: dict[int, str]
    warnings: list[str]


def extracted(data: bytes, media_type: str) -> Extracted:
    """Read a file with xberg. Raises ParseError or ResourceExhausted."""
    import xberg

    source = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=media_type)
    try:
        outcome = asyncio.run(xberg.extract(source, _configuration(media_type == "application/pdf")))
    except Exception as error:  # a panic of xberg is not a RuntimeError
        raise _refusal(str(error), data, media_type) from error
    if outcome.errors or len(outcome.results) != 1:
        raise ParseError(_DAMAGED.format(media_type))
    result = outcome.results[0]
    content = _without_marks(result.content)
    pages = {page.page_number: _without_marks(page.content) for page in result.pages or ()}
    return Extracted(content, result.metadata, pages, _remarks(result, media_type))


def _without_marks(text: str) -> str:
    """Remove the escapes of xberg in the cells of tables: around underlined and struck text, and in addresses."""
    if "\\" not in text:
        return text
    return "\n".join(_unmarked(line) if line.startswith("|") else line for line in text.split("\n"))


def _unmarked(line: str) -> str:
    line = _ADDRESS.sub(lambda address: _ESCAPED.sub(r"\1", address[0]), line)
    return _STRUCK.sub(r"~~\1~~\2", _UNDERLINED.sub(r"\1", line))


def _remarks(result: Any, media_type: str) -> list[str]:
    """Return warnings about the content that xberg reports as omitted."""
    embedded = len(result.children or [])
    kinds: dict[str, None] = {}
    for warning in result.processing_warnings or []:
        if "embedded" in warning.source or "embedded" in warning.message:
            embedded += 1
        elif warning.source not in _NO_LOSS:
            kinds[f"some content was not read (reader: {warning.source})"] = None
    return [*([f"embedded files not read: {embedded}"] if embedded and not HOLDERS.match(media_type) else []), *kinds]


@cache
def _configuration(is_pdf: bool) -> Any:
    import xberg

    # By default xberg drops repeated lines as page headers, and with them stamps in the margin.
    everything = xberg.ContentFilterConfig(
        include_headers=True,
        include_footers=True,
        include_footnotes=True,
        include_watermarks=True,
        strip_repeating_text=False,
    )
    return xberg.ExtractionConfig(
        content_filter=everything if is_pdf else None,
        # xberg dies of fields that contain themselves; `pdf_form` reads fields.
        pdf_options=xberg.PdfConfig(extract_form_fields=False) if is_pdf else None,
        use_cache=False,
        disable_ocr=True,
        enable_quality_processing=False,
        output_format=xberg.OutputFormat("markdown"),
        # Bombs are rejected earlier; xberg's limit, a ratio of 100, rejects ordinary spreadsheets.
        security_limits=xberg.SecurityLimits(max_table_cells=_MAX_CELLS, max_compression_ratio=10_000),
    )


def _refusal(message: str, data: bytes, media_type: str) -> ItemError:
    """Return the error for a failure of xberg; only its message distinguishes causes."""
    if _CELL_LIMIT in message:
        return ResourceExhausted(
            f"the file has more than {_MAX_CELLS:,} cells (a fixed limit); save it as .xlsx or split it"
        )
    if _LIMIT in message:
        return ResourceExhausted("the file exceeds a fixed limit of the reader; split it or save it as PDF or text")
    if (media_type == "application/pdf" and b"/Encrypt" in data) or _PASSWORD.search(message):
        return ParseError(LOCKED)
    if media_type == XLSB:
        return ParseError("this binary workbook (.xlsb) cannot be read; save it as .xlsx")
    return ParseError(_DAMAGED.format(media_type))


def tidy(text: str) -> str:
    """Clean the text of xberg: remove control characters and embedded data, and convert line ends to LF."""
    text = _INLINE_DATA.sub(_image_words, text)
    lines = (line.rstrip() for line in CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def _image_words(image: re.Match[str]) -> str:
    """Replace an image or link with a data URL by its description and, for an SVG, its text."""
    try:
        drawing = base64.b64decode(image[2] or "").decode("utf-8", "replace")
    except ValueError:
        drawing = ""
    return " ".join(filter(None, (image[1], *(unescape(words).strip() for words in _SVG_WORDS.findall(drawing)))))
