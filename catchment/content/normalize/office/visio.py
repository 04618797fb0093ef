"""Read the text of Visio drawings (ECMA-376 package with the parts of MS-VSDX)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree.ElementTree import Element

from catchment.content.normalize.packages import Package
from catchment.errors import ParseError, ResourceExhausted

_PAGE = re.compile(r"visio/pages/page(\d+)\.xml")


def text(package: Package) -> tuple[str, list[str]]:
    """Return the text of the shapes under the names of their pages, then the comments, and warnings.

    Labels that a shape takes from its master are omitted. A page that is damaged or too large gives a warning.
    """
    parts, unread = [], 0
    for name, page in _pages(package):
        try:
            lines = dict.fromkeys(_texts(package.tree(page), "Text"))
        except (ParseError, ResourceExhausted):
            unread += 1
            continue
        parts += [f"## {name}", *lines] if lines else []
    if package.has("visio/comments.xml"):
        parts += [f"Comment: {each}" for each in _texts(package.tree("visio/comments.xml"), "CommentEntry")]
    return "\n\n".join(parts), [f"unreadable pages: {unread}"] if unread else []


def _pages(package: Package) -> list[tuple[str, str]]:
    """Return the names and parts of the pages in order; a file without a list of pages has them by number."""
    index = "visio/pages/pages.xml"
    if not package.has(index):
        numbers = sorted(int(match[1]) for name in package.names if (match := _PAGE.fullmatch(name)))
        return [(f"Page {number}", f"visio/pages/page{number}.xml") for number in numbers]
    targets = {relation.id: relation.target for relation in package.relations(index)}
    pages = []
    for page in package.tree(index).iter("Page"):
        targeted = [targets[each.get("r:id", "")] for each in page.iter("Rel") if each.get("r:id", "") in targets]
        pages += [(page.get("Name") or page.get("NameU") or "Page", target) for target in targeted[:1]]
    return pages


def _texts(root: Element, tag: str) -> Iterator[str]:
    for element in root.iter(tag):
        if words := " ".join("".join(element.itertext()).split()):
            yield words
