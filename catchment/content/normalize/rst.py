"""Find the section titles of reStructuredText, and write them as Markdown headings."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1*+[ \t]*+$", re.MULTILINE)
_ALWAYS_LONG_ENOUGH = 4


def titles(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and Markdown of the section titles: styles of adornment rank in order of appearance.

    A title is a line between two equal lines of punctuation, or above one and after an empty line. Linear in the text.
    """
    styles: list[tuple[str, bool]] = []
    after = 0  # the first line after the last title
    for line in _ADORNMENT.finditer(text):
        start = text.rfind("\n", 0, max(0, line.start() - 1)) + 1
        written = text[start : line.start()]
        title = written.strip()
        if start < after or not title or _ADORNMENT.match(written):
            continue
        overline = text.rfind("\n", 0, max(0, start - 1)) + 1
        above = text[overline:start].rstrip()
        adornment = line[0].rstrip()
        is_between = above == adornment and overline >= after
        is_alone = (not above or start == after) and not written[0].isspace()
        if not (is_between or is_alone) or len(adornment) < min(len(title), _ALWAYS_LONG_ENOUGH):
            continue
        style = adornment[0], is_between
        if style not in styles:
            styles.append(style)
        level = min(styles.index(style) + 1, 6)
        yield overline if is_between else start, line.end(), f"{'#' * level} {title}"
        after = line.end() + 1
