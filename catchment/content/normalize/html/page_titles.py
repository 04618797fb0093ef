"""The title of a page, from its stated title and its headings, without the name of its site."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from catchment.content.normalize.html.elements import words_of

_STATED = ("og:title", "twitter:title", "dc.title")
_SEPARATOR = re.compile(r"\s+(?:[|·•»–—-]|::)\s+|[|｜]")
_HOME = re.compile(r"(?:(?:https?:)?//[^/?#\s]+)?(?:\.{0,2}/)*(?:index\.\w+)?")
_MOST_HEADINGS, _MOST_PARTS = 30, 20
_ARTICLES = frozenset({"article", "main"})


class _Heading(NamedTuple):
    node: Any
    words: str

    def names(self, part: str) -> bool:
        return self.words.startswith(part) if self.node.tag == "h1" else self.words == part

    def is_in_article(self) -> bool:
        """Return whether it is in an article or the main part of the page, where the name of the site is no heading."""
        node = self.node.parent
        while node is not None and node.tag not in _ARTICLES and node.attributes.get("role") != "main":
            node = node.parent
        return node is not None

    def leads_home(self) -> bool:
        """Return whether it is only a link to the start page."""
        link = self.node.css_first("a[href]")
        address = (link.attributes.get("href") or "").strip() if link is not None else ""
        return bool(address and _HOME.fullmatch(address)) and words_of(link) == self.words


def title_of(tree: Any, fields: Mapping[str, str], site: str | None) -> str | None:
    """Return the title of a page. `fields` are its meta elements, and `site` is the name of its site, if that is known.

    A stated title may have several parts. The title is the part that a heading repeats, preferably a heading in the article. A
    heading outside the article that is the last part, or a link to the start page, is the name of the site.
    """
    element = (tree.head.css_first("title") if tree.head else None) or tree.css_first("title:not(svg *)")
    texts = [*(fields[key] for key in _STATED if key in fields), " ".join(element.text().split()) if element else ""]
    titles = [title for title in texts if title]
    if len(titles) == 1 and not _SEPARATOR.search(titles[0]):
        return titles[0]
    headings = [_Heading(node, words_of(node)) for node in tree.css("h1, h2, h3")[:_MOST_HEADINGS]]
    firsts = [heading for heading in headings if heading.node.tag == "h1"]
    names = {*([site.casefold()] if site else []), *(each.words.casefold() for each in firsts if each.leads_home())}
    if not titles:
        words = [heading.words for heading in firsts if heading.words]
        return next((each for each in words if each.casefold() not in names), next(iter(words), None))
    stated = next((title for title in titles if title.casefold() not in names), titles[0])
    parts = [part for each in _SEPARATOR.split(stated, _MOST_PARTS) if (part := each.strip())]
    if len(parts) < 2:
        return stated
    remaining = [part for part in parts if part.casefold() not in names] or parts
    named = [(heading, part) for part in remaining for heading in headings if heading.names(part)]
    if len(remaining) == len(parts):
        sure = [(heading, part) for heading, part in named if part != parts[-1] or heading.is_in_article()]
        if named and not sure:
            remaining = parts[:-1]
        named = sure
    if named:
        heading = next((heading for heading, _ in named if heading.is_in_article()), named[0][0])
        return (
            heading.words
            if heading.words in stated
            else max((part for each, part in named if each == heading), key=len)
        )
    if parts[-1] in remaining:
        return stated if len(remaining) == len(parts) else remaining[0]
    return stated[: stated.rfind(remaining[-1]) + len(remaining[-1])]
