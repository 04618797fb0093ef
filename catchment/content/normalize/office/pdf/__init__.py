"""Read a PDF with two readers: xberg, which recognizes headings and tables, and PDFium for the text that xberg loses.

xberg refuses a file for one bad page, confuses the pages of a damaged page tree, reads columns of vertical text as rows
and Arabic words backwards, maps the codes of some fonts to wrong characters, and adds the values of form fields, even
passwords, to a page of few words.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import count, groupby
from typing import NamedTuple

from catchment.content.normalize.office.extraction import Metadata, extracted
from catchment.content.normalize.office.pdf.direction import RIGHT_TO_LEFT
from catchment.content.normalize.office.pdf.gaps import divided
from catchment.content.normalize.office.pdf.legibility import Legibility, legibility
from catchment.content.normalize.office.pdf.pdfium import MAX_NOTES, PdfPages
from catchment.errors import ParseError
from catchment.model import PageText, time_of

MEDIA_TYPE = "application/pdf"
_TAIL = 4_096
_TIME = re.compile(rb"\(D:(\d{14})([+-])([01]\d|2[0-3])'?([0-5]\d)?")
_WORD = re.compile(r"[^\W_]+")
_MAX_RANGES = 20
_XFA = "the form was not read: it is an XFA form; print it to a PDF with its own program"
_LEGIBLE = Legibility(0, 0)
_UNCHECKED = "form fields, comments, links and the order of pages were not read: the file is damaged"


class PdfText(NamedTuple):
    """The text of a PDF. `unread`: the pages whose text is not recognized yet; `read`: those with recognized text."""

    text: str
    metadata: Metadata
    warnings: list[str]
    unread: list[int]
    read: list[int]


def pdf(data: bytes, recognized: Mapping[int, PageText]) -> PdfText:
    """Read a PDF, with the recognized text of pages. Raises ParseError if it is encrypted, truncated or damaged."""
    second = _second_reader(data)
    try:
        first = extracted(data, MEDIA_TYPE)
        pages, metadata, warnings = first.pages, Metadata.of_xberg(first.metadata), first.warnings
    except ParseError:
        if second is None or not any(second.texts.values()):
            raise
        pages, metadata, warnings = {}, Metadata(second.title, (second.author,)), []
    unchecked = list(pages.values()), [_UNCHECKED], list[int](), list[int]()
    texts, remarks, unread, read = _complete(pages, second, recognized) if second else unchecked
    content = "\n\n".join(filter(None, (text.strip("\n") for text in texts)))
    if not content.strip() and b"%%EOF" not in data[-_TAIL:]:
        raise ParseError("the PDF is truncated; fetch or export it again")
    notes: dict[str, None] = {}
    if second:
        notes = dict.fromkeys(label + words for label, words in second.notes if words not in content)
        notes["\n".join(_entry(name, value) for name, value in second.fields if value)] = None
        if max(len(second.notes), len(second.fields)) >= MAX_NOTES:
            remarks.append(f"only the first {MAX_NOTES:,} comments, links and form fields were read (a fixed limit)")
        if second.is_unread_form:
            remarks.append(_XFA)
        if second.files:
            remarks.append(f"attached files not read: {second.files}")
    if RIGHT_TO_LEFT.search(content):
        remarks.append("words of right-to-left lines may be out of order")
    return PdfText("\n\n".join(filter(None, (content, *notes))), metadata, [*warnings, *remarks], unread, read)


def _entry(name: str, value: str) -> str:
    """Return a form field as an entry of a list. Its further lines are indented."""
    lines = "\n  ".join(filter(None, map(str.strip, value.splitlines())))
    return f"- {name}: {lines}" if name else f"- {lines}"


def _second_reader(data: bytes) -> PdfPages | None:
    from pypdfium2 import PdfiumError

    try:
        return PdfPages(data)
    except PdfiumError:
        return None


def _complete(
    pages: dict[int, str], second: PdfPages, recognized: Mapping[int, PageText]
) -> tuple[list[str], list[str], list[int], list[int]]:
    """Return the texts of all pages, warnings, and the pages whose text is not recognized yet, and is recognized.

    The warnings name pages that PDFium replaced or cannot open, and doubtful pages.
    """
    words = {number: _words(text) for number, text in second.texts.items()}
    origins: dict[str, int] = {}
    for number, written in words.items():
        origins.update((word, 0 if word in origins else number) for word in written)
    texts: list[str] = []
    replaced: list[int] = []
    unreadable: list[int] = []
    doubtful: list[int] = []
    unread, read, textless, failed = list[int](), list[int](), list[int](), list[str]()
    for number in range(1, max(second.count, *pages, 0) + 1):
        text, plain = pages.get(number, ""), second.texts.get(number)
        written, judged = _words(text), legibility(text)
        others = {origins.get(word, 0) for word in written} - {0}
        is_other = number not in others and any(2 * len(written & words[other]) > len(written) for other in others)
        if plain is None:
            text = "" if is_other else text
            unreadable += [] if text.strip() else [number]
        elif number in second.forms and _has_more(text, plain) and not (plainly := legibility(plain)).is_doubtful:
            text, judged = plain, plainly
            replaced += [number] if text else []
        elif (is_turned := _is_turned(number, written, words[number], second)) or not _agree(written, words[number]):
            plainly = legibility(plain)
            is_better = is_turned or _is_clearer(plainly, judged)
            if is_better or ((is_other or not text.strip()) and not plainly.is_doubtful):
                text, judged = plain, plainly
                replaced += [number] if text else []
            elif not written:
                judged = plainly
        text = divided(text, plain, partial(second.parted, number)) if plain else text
        if judged.is_doubtful or number in second.pictures:
            page = recognized.get(number)
            failed += [f"page {number}: {page.warning}"] if page and page.lacks else []
            if page is None:
                unread.append(number)
            elif page.text:
                is_stamp = not judged.is_doubtful and not _words(text) <= _words(page.text)
                text = f"{text.strip()}\n\n{page.text}" if is_stamp else page.text
                judged = _LEGIBLE
                read.append(number)
            elif page.problem:
                failed.append(f"page {number}: its text could not be recognized: {page.problem}")
            elif not text.strip():
                textless.append(number)
        texts.append(text)
        doubtful += [number] if judged.is_doubtful else []
    remarks = {
        "pages read by PDFium, without headings and tables: ": replaced,
        "pages missing or damaged: ": unreadable,
        "pages whose text may be wrong (fonts without a correct Unicode mapping): ": doubtful,
        "pages without legible text: ": textless,
    }
    warnings = [label + ranges(numbers) for label, numbers in remarks.items() if numbers]
    return texts, [*warnings, *failed[:_MAX_RANGES]], unread, read


def _has_more(text: str, other: str) -> bool:
    """Return whether a text has letters or digits that another has not, or not as often. Spaces and ligatures do not count."""
    letters, others = (Counter(filter(str.isalnum, unicodedata.normalize("NFKC", each))) for each in (text, other))
    return not letters <= others


def _is_turned(number: int, words: set[str], others: set[str], second: PdfPages) -> bool:
    """Return whether xberg reads a page in a wrong direction: vertical text, or right-to-left words spelled otherwise."""
    return number in second.vertical or (
        number in second.right_to_left and any(map(RIGHT_TO_LEFT.search, others - words))
    )


def _agree(words: set[str], others: set[str]) -> bool:
    """Return whether two readers have most words of a page in common."""
    return 2 * len(words & others) >= max(len(words), len(others)) > 0


def _is_clearer(second: Legibility, first: Legibility) -> bool:
    """Return whether PDFium finds many more words. Those of xberg are preferred, because they have headings and tables."""
    return 2 * second.words > 3 * first.words


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text))


def ranges(numbers: list[int]) -> str:
    """Return numbers in ascending order as text, such as `2, 5-7`."""
    place = count()
    runs = [list(run) for _, run in groupby(numbers, key=lambda number: number - next(place))]
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs[:_MAX_RANGES]]
    return ", ".join(shown) + (", and more" if len(runs) > _MAX_RANGES else "")


def moment(data: bytes, text: str | None) -> datetime | None:
    """Return a time of the metadata with the zone in the file, which xberg omits."""
    read = time_of(text.strip()) if text else None
    if read is None:
        return None
    digits = read.strftime("%Y%m%d%H%M%S").encode()
    written = next((match for match in _TIME.finditer(data) if match[1] == digits), None)
    if written is None:
        return read
    ahead = timedelta(hours=int(written[3]), minutes=int(written[4] or 0))
    zone = timezone(ahead if written[2] == b"+" else -ahead)
    return time_of(read, lambda naive: naive.replace(tzinfo=zone))
