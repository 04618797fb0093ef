"""Complete the text of a PDF with comments, links and time zones, and detect truncated files."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from catchment.content.normalize.markdown import iso_moment
from catchment.content.normalize.office.extraction import Extracted
from catchment.errors import ParseError

_TAIL = 4_096
_TIME = re.compile(rb"\(D:(\d{14})([+-])([01]\d|2[0-3])'?([0-5]\d)?")
_ANNOTATIONS = re.compile(r"\n*^(?:## Annotations|Annotations:)$", re.MULTILINE)
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]{2}")
_MAX_LINES = 10_000


def text(result: Extracted, data: bytes) -> tuple[str, list[str]]:
    """Return the text with the comments and links that it lacks, and warnings. Raises ParseError if the file is truncated."""
    annotations, content = result.annotations, result.content
    if annotations and (sections := list(_ANNOTATIONS.finditer(content))):
        content = content[: sections[-1].start()]  # a list of annotations, mostly links without a URL
    if not content.strip() and b"%%EOF" not in data[-_TAIL:]:
        raise ParseError("the PDF is truncated; fetch or export it again")
    lines: dict[str, None] = {}
    files = 0
    for each in annotations[:_MAX_LINES]:
        words = " ".join((each.content or "").split())
        kind = str(each.annotation_type)
        if kind == "file_attachment":
            files += 1
        elif words and words not in content:
            lines[f"{'Link' if kind == 'link' else 'Comment'} on page {each.page_number}: {words}"] = None
    warnings = [f"attached files not read: {files}"] if files else []
    if _RIGHT_TO_LEFT.search(content):
        warnings.append("words of right-to-left lines may be out of order")
    return "\n\n".join(filter(None, (content.strip("\n"), *lines))), warnings


def moment(data: bytes, text: str | None) -> datetime | None:
    """Return a time of the metadata with the zone in the file, which xberg omits."""
    read = iso_moment(text) if text else None
    if read is None:
        return None
    digits = read.strftime("%Y%m%d%H%M%S").encode()
    written = next((match for match in _TIME.finditer(data) if match[1] == digits), None)
    if written is None:
        return read
    ahead = timedelta(hours=int(written[3]), minutes=int(written[4] or 0))
    try:
        return read - ahead if written[2] == b"+" else read + ahead
    except OverflowError:
        return None
