"""Find the author and the date that a web page shows and does not state in its metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

from catchment.model import time_of

_SPACE = re.compile(r"\s+")
_LONGEST_NAME = 100
_ASIDE = re.compile(r"comment|review|related|sidebar|recent|widget|teaser|recommend|repl(?:y|ies)", re.IGNORECASE)
_LATER = re.compile(r"updat|modif|edit|revis|aktualisiert|mis à jour|更新", re.IGNORECASE)
_FIRST = re.compile(r"publi|created|posted|entry-date", re.IGNORECASE)
_AUTHORS = (
    "[itemprop=author] [itemprop=name]",
    "[itemprop=author]",
    "a[rel~=author]",
    ".p-author, .author .fn",
    ".byline .author, span.author, .author-name, .post-author",
    ".byline a, a[href*='/author/'], a[href*='/authors/']",
)
_BY = re.compile(
    r"(?:^|[\s|,·•–—-])(?i:by|von|par|por|di|door|av|af)[\s:]+(?P<name>[^\W\d_a-z]\S*(?: [^\W\d_a-z][^\s|,·•]*){1,3})"
)
_PICTURE = re.compile(r"photo|image|picture|foto|bild", re.IGNORECASE)
_NO_NAME = frozenset({"admin", "administrator", "root", "webmaster", "unknown", "anonymous"})
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAY = re.compile(
    r"(?<![0-9])(?P<year>(?:19|20)[0-9]{2})(?P<mark>[/_-]?)(?P<month>0[1-9]|1[0-2]|[1-9](?=[/_-])|[a-z]{3,9}(?=[/_-]))(?P=mark)"
    r"(?P<day>0[1-9]|[12][0-9]|3[01]|[1-9])(?![0-9])"
)
_JAPANESE = re.compile(r"([0-9]{4})年([0-9]{1,2})月([0-9]{1,2})日")
_EARLIEST, _NO_DATE = datetime(1500, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)
"""Archives have pages of old newspapers; programs without a date write the beginning of an era."""
_NEW_YEAR = re.compile(r"\b0?1\b|\bjan|\benero|\bgenn|янв", re.IGNORECASE)
"""Matches text about 1 January. Without such text, 1 January as a date of the library stands for a year alone."""
_MOST_TIMES, _MOST_SIBLINGS, _MOST_BESIDE = 50, 3, 120
_ROOMS = frozenset({"article", "main", "body"})
_NOT_BESIDE = frozenset({"-text", "-comment", "article", "nav", "aside", "footer", "form", "script", "style"})
_HEADINGS = "h1, h2, h3, h4, h5, h6"


class Byline:
    """The facts that a page shows beside its heading."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._heading = next((node for each in ("article h1", "main h1", "h1") if (node := tree.css_first(each))), None)

    def times(self) -> Iterator[str]:
        """Yield the times that elements of the article state, those of its publication first."""
        for node in self._tree.css("[itemprop=datePublished]")[:1]:
            yield node.attributes.get("content") or node.attributes.get("datetime") or ""
        for node in self._tree.css("abbr.published[title]")[:1]:
            yield node.attributes.get("title") or ""
        shown = [node for node in self._tree.css("time[datetime]")[:_MOST_TIMES] if self._is_of_article(node)]
        about = [
            (node, f"{node.attributes.get('class')} {node.attributes.get('itemprop')} {node.text()}") for node in shown
        ]
        first = [node for node, text in about if "pubdate" in node.attributes or _FIRST.search(text)]
        for node in (*first, *(node for node, text in about if not _LATER.search(text))):
            yield node.attributes.get("datetime") or ""

    def guess(self, addresses: Sequence[str]) -> tuple[datetime | None, str]:
        """Return a day in an address of the page, or else beside its heading, and which of them."""
        for address in addresses:
            if day := _day_of(address):
                return day, "address"
        return self._day_beside(), "text"

    def author(self) -> str | None:
        """Return the names in the elements of authors, or after "by" beside the heading."""
        for selector in _AUTHORS:
            nodes = [node for node in self._tree.css(selector)[:_MOST_TIMES] if self._is_of_article(node)]
            names = [name for node in nodes if is_name(name := _without_by(clean_text(node.text())))]
            if names:
                return ", ".join(dict.fromkeys(names[:_MOST_SIBLINGS]))
        for node in self._beside():
            for line in node.text(separator="\n").splitlines():
                if (match := _BY.search(line)) and is_name(match["name"]) and not _PICTURE.search(line):
                    return clean_text(match["name"])
        return None

    def _is_of_article(self, node: Any) -> bool:
        """Return whether an element is neither of the navigation nor of another article, a comment for example."""
        heading, parent = self._heading, node
        while parent is not None and parent.tag not in ("body", "html"):
            about = f"{parent.attributes.get('class')} {parent.attributes.get('id')}"
            is_banner = parent.tag == "header" and parent.parent is not None and parent.parent.tag == "body"
            is_other = is_banner or parent.tag == "article"
            if parent.tag in ("aside", "nav", "footer") or _ASIDE.search(about):
                return False
            if is_other and heading is not None and not _has(parent, heading):
                return False
            parent = parent.parent
        return True

    def _day_beside(self) -> datetime | None:
        beside = "".join(node.html or "" for node in self._beside() if not _LATER.search(node.text()))
        if not re.search(r"[0-9]", beside):
            return None
        from htmldate import find_date

        text = _JAPANESE.sub(lambda match: f"{match[1]}-{int(match[2]):02}-{int(match[3]):02}", beside)
        date = find_date(
            f"<html><body><article>{text}</article></body></html>", extensive_search=True, original_date=True
        )
        day = time_of(date)
        is_year = day is not None and (day.month, day.day) == (1, 1) and not _NEW_YEAR.search(beside)
        # Many pages show the present day.
        return day if not is_year and is_past(day) and day.date() != datetime.now(UTC).date() else None

    def _beside(self) -> Iterator[Any]:
        """Yield the short elements before and after the heading that belong to it."""
        node = self._heading
        while node is not None and node.tag not in _ROOMS:
            for step in ("prev", "next"):
                other, number = getattr(node, step), 0
                while other is not None and number < _MOST_SIBLINGS:
                    if other.tag not in _NOT_BESIDE:
                        number += 1
                        if self._is_short(other) and self._is_of_article(other):
                            yield other
                    other = getattr(other, step)
            node = node.parent

    @staticmethod
    def _is_short(node: Any) -> bool:
        return len(node.text()) <= _MOST_BESIDE and node.css_first(_HEADINGS) is None


def clean_text(text: str) -> str:
    """Return text on one line."""
    return _SPACE.sub(" ", text).strip()


def is_name(text: str) -> bool:
    """Return whether a text may be the name of a person or an organization."""
    name = text.strip()
    return 0 < len(name) <= _LONGEST_NAME and "://" not in name and name[0] != "@" and name.casefold() not in _NO_NAME


def is_past(moment: datetime | None) -> TypeGuard[datetime]:
    """Return whether a text may have been published then: not in the future, except for a wrong clock."""
    return moment not in (None, _NO_DATE) and _EARLIEST < moment < datetime.now(UTC) + timedelta(days=1)


def _without_by(text: str) -> str:
    """Return the name in "Posted by Ada Weir"."""
    return match["name"] if (match := _BY.search(text)) else text


def _has(outer: Any, inner: Any) -> bool:
    node = inner
    while node is not None and node.mem_id != outer.mem_id:
        node = node.parent
    return node is not None


def _day_of(address: str) -> datetime | None:
    """Return the day in the path of an address, as blogs and newspapers write it."""
    path = re.split(r"[?#]", address.partition("://")[2].partition("/")[2], maxsplit=1)[0]
    for match in _DAY.finditer(path.lower()):
        month = match["month"]
        number = int(month) if month.isdecimal() else _MONTHS.index(month[:3]) + 1 if month[:3] in _MONTHS else 0
        if is_past(day := time_of(f"{match['year']}-{number:02}-{int(match['day']):02}")):
            return day
    return None
