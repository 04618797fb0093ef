"""Join a web page with its summaries in the feeds that name it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from catchment.model import Document

_GUESSED = "date-from"
"""Property of a page that states no date. The date of its feed is more certain than a guess."""
_NO_TEXT = "the page has no text; this is the summary of its feed"
_WORD = re.compile(r"\w+")
_DESTINATION = re.compile(r"\]\([^()\s]*\)")
_MOST_OTHER = 5
"""One word in so many of a summary may be missing in its page: an ellipsis, "read more", the name of the site."""


def joined(page: Document, summaries: Sequence[Document]) -> Document:
    """Return the page with the words of the summaries that it lacks, and the title of the first; other titles are aliases.

    Author, dates and tags are taken from the page, or else from the summaries.
    """
    titles = {each.title.casefold(): each.title for each in (page, *reversed(summaries)) if each.title}
    for summary in summaries:
        page = _with(page, summary)
    *aliases, title = titles.values() or [None]
    properties = {**page.properties, **({"aliases": aliases[::-1]} if aliases else {})}
    return replace(page, title=title, properties=dict(sorted(properties.items())))


def _with(page: Document, summary: Document) -> Document:
    """Return the page with a summary: the longer text, then the other one unless they agree."""
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
        language=summary.language if is_empty else page.language or summary.language,
        author=page.author or summary.author,
        created=created,
        modified=page.modified or summary.modified,
        properties=properties,
        warnings=(*page.warnings, _NO_TEXT) if is_empty and _NO_TEXT not in page.warnings else page.warnings,
    )


def _says(longer: str, other: str) -> bool:
    """Return whether a text has almost all words of another one."""
    whole = longer.casefold()
    words, distinct = set(_WORD.findall(whole)), set(_WORD.findall(_DESTINATION.sub("]", other.casefold())))
    # A teaser ends within a word, and scripts without spaces have sentences as words.
    missing = [word for word in distinct if word not in words and word not in whole]
    return len(missing) * _MOST_OTHER <= len(distinct)
