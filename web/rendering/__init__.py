"""Turn the text of a document into safe HTML. Texts are untrusted: only `html_writer` makes tags and addresses.

Long documents are shown in parts. A part whose structure would take too much work is shown as plain text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup

from catchment.model import EntityKind
from catchment.search.language import is_code
from catchment.views.reading import ReadingView, TextKind
from web.rendering.html_writer import HtmlWriter, clean, document_address, file_address
from web.rendering.markdown_parser import Dialect, TooMuchWork, parse

__all__ = ["MOST_CHARACTERS", "body", "document_address", "file_address", "messages", "parts"]

MOST_CHARACTERS = 30_000
"""Length of a part: rendered in a tenth of a second, as a page of less than 60 kB."""
_MOST_BESIDE = 5_000
"""Maximum number of characters of each other message in a conversation."""
_MOST_STRETCHES = 200
_DOUBLE_MARK = re.compile(r"^([ \t]*)(?:[-*+] (\d{1,3})\\?(?=[.)] )|([-*+] )[•‣▪◦·–][ \t]+)", re.MULTILINE)
"""The mark of a list item whose text begins with its own mark, as in a PDF: the first of "- 1\\. ", the second of "- • "."""


def body(reading: ReadingView, part: int = 1) -> Markup:
    """Return a part of the text as HTML. Parts are counted from 1; too large a number returns the last part."""
    text, starts = reading.shown.content.text, _starts(reading)
    start = starts[max(0, min(part, len(starts)) - 1)]
    end = next((position for position in starts if position > start), len(text))
    match reading.kind:
        case TextKind.MAIL if len(starts) == 1:
            return _message(reading.view.parts, MOST_CHARACTERS)
        case TextKind.NOTE:
            dialect = Dialect.VAULT if "vault" in reading.shown.metadata else Dialect.NOTE
            return _html(text[start:end], dialect, reading)
        case TextKind.EXTRACTED:
            return _html(_DOUBLE_MARK.sub(r"\1\2\3", text[start:end]), Dialect.EXTRACTED, reading)
    return _plain(text[start:end], is_program=is_code(reading.shown.content.media_type))


def parts(reading: ReadingView) -> int:
    """Return in how many parts the text is shown."""
    return len(_starts(reading))


def messages(reading: ReadingView, part: int = 1) -> dict[int, Markup]:
    """Return the texts of the messages of a conversation as HTML, by document, where `reading` has them.

    The message of the document is shown as by `body`; the others are shortened.
    """
    return {
        message.message.document: body(reading, part)
        if message.message.document == reading.shown.document
        else _message(message.view.parts, _MOST_BESIDE)
        for message in reading.conversation
        if message.view is not None
    }


def _message(stretches: Sequence[tuple[str, bool]], most: int) -> Markup:
    """Return the text of a message: quotations and the signature folded."""
    pieces: list[Markup] = []
    remaining = most
    for text, is_aside in stretches[:_MOST_STRETCHES]:
        piece, remaining = text[: max(0, remaining)].strip("\n"), remaining - len(text)
        if piece.strip():
            pieces += _asides(piece) if is_aside else [_html(piece, Dialect.MAIL)]
    if remaining < 0 or len(stretches) > _MOST_STRETCHES:
        pieces.append(Markup('<p class="cut">The rest of this long message is left out.</p>'))
    return Markup("\n").join(pieces)


def _asides(text: str) -> Iterator[Markup]:
    """Yield the quotations and signatures of a text, each folded."""
    for is_quotation, group in groupby(re.split(r"\n(?=\S)", text), key=lambda line: line.startswith(">")):
        lines = "\n".join(group).split("\n")
        if is_quotation:
            lines = [line.removeprefix(">").removeprefix(" ") for line in lines]
        number = sum(bool(line.strip("> ")) for line in lines)
        summary = f"Quoted text, {number} line{'' if number == 1 else 's'}" if is_quotation else "Signature"
        quotation = _html("\n".join(lines).removeprefix("-- \n"), Dialect.MAIL)
        yield Markup('<details class="quoted"><summary>{}</summary><blockquote>{}</blockquote></details>').format(
            summary, quotation
        )


def _html(text: str, dialect: Dialect, reading: ReadingView | None = None) -> Markup:
    text = clean(text)
    try:
        return HtmlWriter(reading, has_line_breaks=dialect.has_line_breaks).write(parse(text, dialect))
    except TooMuchWork:
        return _plain(text)


def _plain(text: str, *, is_program: bool = False) -> Markup:
    words = Markup("<code>{}</code>" if is_program else "{}").format(clean(text, is_code=True))
    return Markup('<pre class="plain" tabindex="0">{}</pre>').format(words)


def _starts(reading: ReadingView) -> list[int]:
    """Return where the parts of a text start: at headings, or else at line ends, so that none is longer than the maximum."""
    text = reading.shown.content.text
    if len(text) <= MOST_CHARACTERS:
        return [0]
    headings = [entity.start for entity in reading.shown.entities if entity.kind is EntityKind.HEADING]
    starts = [0]
    while len(text) - starts[-1] > MOST_CHARACTERS:
        limit = starts[-1] + MOST_CHARACTERS
        heading = max(headings[: bisect_right(headings, limit)], default=0)
        line = text.rfind("\n", starts[-1], limit) + 1
        starts.append(next(place for place in (heading, line, limit) if place > starts[-1]))
    return starts
