"""Find the section titles of reStructuredText. Both the title of a document and its headings come from them."""

from __future__ import annotations

import re

from catchment.model import Entity, EntityKind

RST = "text/x-rst"

_ADORNMENT = re.compile(r"^([!-/:-@\[-`{-~])\1*+[ \t]*+$", re.MULTILINE)
_ALWAYS_LONG_ENOUGH = 4


def headings(text: str) -> list[Entity]:
    """Return the section titles in order, with the level as detail: styles of adornment rank in order of appearance.

    A title is a line between two equal lines of punctuation, or above one and after an empty line. Linear in the text.
    """
    found: list[Entity] = []
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
        start += len(written) - len(written.lstrip())
        found.append(Entity(EntityKind.HEADING, title, str(styles.index(style) + 1), start, line.end()))
        after = line.end() + 1
    return found
