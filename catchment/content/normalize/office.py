"""Word processors, spreadsheets, slides, PDF and books, by way of xberg; no OCR, no network, no cache.

xberg reports every failure as a bare RuntimeError; all of them become ParseError, with what can be told for sure.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cache, partial
from typing import Any

from catchment.content.normalize import archives
from catchment.content.normalize.language import language
from catchment.content.normalize.markdown import iso_moment
from catchment.errors import ParseError
from catchment.model import Document

_BLANK_LINES = re.compile(r"\n{3,}")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")
_PDF_TAIL = 4_096
_PDF_TIME = re.compile(rb"\(D:(\d{14})([+-])([01]\d|2[0-3])'?([0-5]\d)?")
_RTF_PAGE = re.compile(rb"\\ansicpg(\d{3,5})")
_RTF_LETTER = re.compile(r"\\u(-?\d{1,6}) ?(?:\\'[0-9A-Fa-f]{2}|[^\\])?|((?:\\'[0-9A-Fa-f]{2})+)")
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
    words, moment = _words, _moment
    if media_type == "application/rtf":
        words = partial(_rtf_words, data)
    elif media_type == "application/pdf":
        moment = partial(_pdf_moment, data)
    return Document(
        text=text,
        media_type=media_type,
        title=words(said.title) or _first_heading(text),
        language=_language(said.language) or language(text),
        author=words(", ".join(said.authors or ())) or words(said.created_by),
        created=moment(said.created_at),
        modified=moment(said.modified_at),
        properties=_properties(said, words),
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
    return " ".join(_CONTROLS.sub("", text).split()) or None if text else None


def _language(code: str | None) -> str | None:
    return code[:2].lower() if code and re.match(r"[A-Za-z]{2}(?:[-_]|$)", code) else None


def _moment(text: str | None) -> datetime | None:
    return iso_moment(text) if text else None


def _pdf_moment(data: bytes, text: str | None) -> datetime | None:
    """The same in the zone that the file names, which xberg leaves out."""
    moment = _moment(text)
    if moment is None:
        return None
    digits = moment.strftime("%Y%m%d%H%M%S").encode()
    said = next((found for found in _PDF_TIME.finditer(data) if found[1] == digits), None)
    if said is None:
        return moment
    ahead = timedelta(hours=int(said[3]), minutes=int(said[4] or 0))
    try:
        return moment - ahead if said[2] == b"+" else moment + ahead
    except OverflowError:
        return None


def _rtf_words(data: bytes, text: str | None) -> str | None:
    """The same with its letters beyond ASCII, which xberg leaves as RTF writes them."""
    page = _RTF_PAGE.search(data, 0, 4_096)

    def letter(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1]) % 0x10000)
        written = bytes.fromhex(found[2].replace("\\'", ""))
        try:
            return written.decode(f"cp{page[1].decode()}" if page else "cp1252", "replace")
        except LookupError:
            return written.decode("cp1252", "replace")

    read = _RTF_LETTER.sub(letter, text or "")
    return _words(read.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def _properties(said: Any, words: Callable[[str | None], str | None]) -> dict[str, Any]:
    """What the file's metadata says for a person; nothing that xberg adds about its own run."""
    values = {
        "authors": [name for each in said.authors or () if (name := words(each))],
        "keywords": [word for each in said.keywords or () if (word := words(each))],
        "subject": words(said.subject),
    }
    return {key: value for key, value in values.items() if value}
