"""Join a web page with what the feed that names it says of it."""

from __future__ import annotations

import re
from dataclasses import replace

from catchment.model import Document

_GUESSED = "date-from"
"""Property of a page that states no date. The date of its feed is more certain than a guess."""
_WORD = re.compile(r"\w+")
_DESTINATION = re.compile(r"\]\([^()\s]*\)")
_MOST_OTHER = 5
"""One word in so many of a summary may be missing in its page: an ellipsis, "read more", the name of the site."""


def joined(page: Document, summary: Document) -> Document:
    """Return the page with the words of the summary that it lacks: the longer text, then the other one unless it says the same.

    Author, dates and tags are those that the page states, else those of the summary.
    """
    longer, other = sorted((page.text, summary.text), key=len, reverse=True)
    text = longer if _says(longer, other) else f"{longer}\n\n{other}"
    is_empty = not _WORD.search(page.text)
    properties = {**summary.properties, **page.properties}
    created = page.created
    if summary.created and (created is None or _GUESSED in properties):
        created = summary.created
        properties.pop(_GUESSED, None)
    return replace(
        page,
        text=text,
        title=page.title or summary.title,
        language=summary.language if is_empty else page.language or summary.language,
        author=page.author or summary.author,
        created=created,
        modified=page.modified or summary.modified,
        properties=dict(sorted(properties.items())),
        warnings=(*page.warnings, "the page has no text; this is the summary of its feed")
        if is_empty
        else page.warnings,
    )


def _says(longer: str, other: str) -> bool:
    """Return whether a text has almost all words of another one."""
    whole = longer.casefold()
    words, wanted = set(_WORD.findall(whole)), set(_WORD.findall(_DESTINATION.sub("]", other.casefold())))
    # A teaser ends within a word, and scripts without spaces have sentences as words.
    missing = [word for word in wanted if word not in words and word not in whole]
    return len(missing) * _MOST_OTHER <= len(wanted)
