"""Unite the forms of one text (`multipart/alternative`), such as plain text and HTML, by comparing their words.

The forms should have the same content. Some plain texts are a stub instead, such as a tracking address or a legal notice, and
some lack a table or a paragraph of the HTML.
"""

from __future__ import annotations

import re
from unicodedata import normalize

from catchment.content.normalize.mail.replies import mark_replies

_WORD = re.compile(
    r"(?:https?://|ftp://|www\.|cid:|mailto:|tel:)[^\s<>)\]]+|\[image:|\[\d{1,3}\]"
    r"|([\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]{2,})"
)
"""A word. The alternatives before it match text without words: addresses of links, placeholders of pictures and links.

Chinese and Japanese count by characters, because a line may end anywhere in their words. Other single characters, such as
bullets, are no words.
"""
_LONG_ADDRESS = re.compile(r"[(<\[]? ?\bhttps?://[^\s<>)\]]{100,} ?[)>\]]?", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n\s*\n")


def united(first: str, second: str) -> str:
    """Return the first form if it has all words of the second; otherwise the second, followed by the rest of the first.

    The later form is the richer one (RFC 2046, 5.1.4). The rest of the first form are the lines with words that the second
    lacks; if half the lines of a paragraph are such lines, the whole paragraph. Addresses of more than 100 characters are left
    out: they identify the reader.
    """
    if not first.strip():
        return second
    words = _words(second)
    if words <= _words(first):
        return first
    added = [text for paragraph in _BLANK_LINES.split(first.strip()) if (text := _own(paragraph, words))]
    return "\n\n".join((mark_replies(second), *added)) if added else second


def _own(paragraph: str, words: set[str]) -> str:
    """Return the paragraph, or only its lines with words that are not among `words`."""
    lines = paragraph.split("\n")
    lines_alone = [line for line in lines if not _words(line) <= words]
    return _LONG_ADDRESS.sub("", "\n".join(lines if 2 * len(lines_alone) >= len(lines) else lines_alone))


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalize("NFKC", text.casefold()))) - {""}
