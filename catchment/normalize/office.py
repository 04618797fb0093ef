"""Word processors, spreadsheets, slides, PDF and books, by way of xberg; no OCR, no network, no cache.

xberg reports every failure as a bare RuntimeError; all of them become ParseError, with what can be told for sure.
"""

from __future__ import annotations

import asyncio
import re
from datetime import datetime
from functools import cache
from typing import Any

from catchment.errors import ParseError
from catchment.model import Document
from catchment.normalize import archives
from catchment.normalize.language import language
from catchment.normalize.markdown import iso_moment

_BLANK_LINES = re.compile(r"\n{3,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_PDF_TAIL = 4_096
_LOCKED = "it is encrypted; save a copy without a password"
_DAMAGED = "cannot be read as {}; open it in its own program and save it again"
_ENCRYPTED_OOXML = "EncryptedPackage".encode("utf-16-le")


def office(data: bytes, media_type: str) -> Document:
    """A document of an office format. Raises ParseError for a damaged or encrypted one, ResourceExhausted for a bomb."""
    if data.startswith(b"PK"):
        archives.refuse_bomb(data)
    if _ENCRYPTED_OOXML in data[:65_536]:
        raise ParseError(_LOCKED)
    found = _extracted(data, media_type)
    text = _tidy(found.content)
    if not text and media_type == "application/pdf" and b"%%EOF" not in data[-_PDF_TAIL:]:
        raise ParseError("the PDF ends too early; fetch or export it again")
    said = found.metadata
    title = _words(said.title)
    return Document(
        text=text,
        media_type=media_type,
        title=title or _first_heading(text),
        language=_language(said.language) or language(text),
        author=_words(", ".join(said.authors or ())) or _words(said.created_by),
        created=_moment(said.created_at),
        modified=_moment(said.modified_at),
        properties=_properties(said),
        warnings=() if text else ("no text in it; a scanned page needs text recognition, which is off",),
    )


@cache
def _configuration() -> Any:
    import xberg

    return xberg.ExtractionConfig(
        use_cache=False, disable_ocr=True, enable_quality_processing=False, output_format=xberg.OutputFormat("markdown")
    )


def _extracted(data: bytes, media_type: str) -> Any:
    import xberg

    source = xberg.ExtractInput(kind="bytes", bytes=data, mime_type=media_type)
    try:
        outcome = asyncio.run(xberg.extract(source, _configuration()))
    except RuntimeError as error:
        locked = media_type == "application/pdf" and b"/Encrypt" in data
        raise ParseError(_LOCKED if locked else _DAMAGED.format(media_type)) from error
    if outcome.errors or len(outcome.results) != 1:
        raise ParseError(_DAMAGED.format(media_type))
    return outcome.results[0]


def _tidy(text: str) -> str:
    lines = (line.rstrip() for line in _CONTROLS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).split("\n"))
    return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip("\n")


def _first_heading(text: str) -> str | None:
    found = re.search(r"^#{1,6} +(.+)$", text, re.MULTILINE)
    return _words(found[1]) if found else None


def _words(text: str | None) -> str | None:
    return " ".join(text.split()) or None if text else None


def _language(code: str | None) -> str | None:
    return code[:2].lower() if code and re.match(r"[A-Za-z]{2}(?:[-_]|$)", code) else None


def _moment(text: str | None) -> datetime | None:
    return iso_moment(text) if text else None


def _properties(said: Any) -> dict[str, Any]:
    """What the file's metadata says for a person; nothing that xberg adds about its own run."""
    values = {
        "authors": [name for each in said.authors or () if (name := _words(each))],
        "keywords": [word for each in said.keywords or () if (word := _words(each))],
        "subject": _words(said.subject),
    }
    return {key: value for key, value in values.items() if value}
