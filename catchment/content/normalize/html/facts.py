"""Title, author, dates, site and canonical address of a web page: from its JSON-LD, meta elements and microformats."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from catchment.content.foreign_json import read_json
from catchment.content.normalize.html.page_titles import title_of
from catchment.model import time_of

_AUTHOR = ("author", "article:author", "dc.creator", "parsely-author", "sailthru.author", "byl")
_CREATED = (
    "article:published_time",
    "og:article:published_time",
    "datepublished",
    "parsely-pub-date",
    "sailthru.date",
    "dc.date.issued",
    "dcterms.created",
    "dc.date",
    "date",
)
_MODIFIED = ("article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "last-modified")
_KEPT = ("description", "keywords")
_BYLINES = "[itemprop=author], a[rel~=author], .byline .author, span.author, .p-author"
_ARTICLES = re.compile(r"(?:Article|Posting|Recipe|Report|Review|BlogPost|QAPage|WebPage|Book|Event|VideoObject)\Z")
_SPACE = re.compile(r"\s+")
_LONGEST_NAME = 100
_MOST_SCRIPTS, _MOST_NODES = 20, 5_000


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What a page states about itself. `properties` has `site`, `canonical` (an address), `description` and `keywords`."""

    title: str | None
    author: str | None
    created: datetime | None
    modified: datetime | None
    properties: dict[str, str]


def facts_of(tree: Any, fields: Mapping[str, str], base: str) -> PageFacts:
    """Return the facts of a page. `fields` are its meta elements, and relative addresses start at `base`."""
    nodes = list(islice(_linked_data(tree), _MOST_NODES))
    article: dict[str, Any] = next((node for node in nodes if _is(node, _ARTICLES) and "datePublished" in node), {})
    site = fields.get("og:site_name") or next((name for node in nodes if (name := _site(node))), None)
    times = _moments([node.attributes.get("datetime") for node in tree.css("time[datetime]")[:1]])
    canonical = tree.css_first("link[rel=canonical]")
    address = (canonical.attributes.get("href") if canonical else None) or fields.get("og:url")
    properties = {key: fields[key] for key in _KEPT if key in fields}
    properties |= {"site": site} if site else {}
    properties |= {"canonical": absolute} if address and (absolute := _absolute(base, address)) else {}
    return PageFacts(
        title_of(tree, fields, site),
        _names(article.get("author")) or _author(tree, fields),
        _moments([article.get("datePublished"), *map(fields.get, _CREATED)]) or times,
        _moments([article.get("dateModified"), *map(fields.get, _MODIFIED)]),
        properties,
    )


def _linked_data(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON-LD scripts, outer objects first."""
    for script in tree.css('script[type="application/ld+json"]')[:_MOST_SCRIPTS]:
        try:
            left = [read_json(script.text())]
        except ValueError:
            continue
        for value in left:  # the list grows in the loop
            if isinstance(value, dict):
                yield value
                left += [inner for inner in value.values() if isinstance(inner, dict | list)]
            elif isinstance(value, list):
                left += value


def _is(node: Mapping[str, Any], kinds: re.Pattern[str]) -> bool:
    named = node.get("@type")
    return any(isinstance(each, str) and kinds.search(each) for each in (named if isinstance(named, list) else [named]))


def _site(node: Mapping[str, Any]) -> str | None:
    """Return the name of the site that an object describes or belongs to."""
    if _is(node, re.compile(r"\A(?:WebSite|Blog)\Z")):
        return _names(node)
    return _names(node.get("publisher"))


def _names(value: Any) -> str | None:
    """Return the names of people or organizations in JSON-LD: text, an object with a name, or a list of them."""
    members = value if isinstance(value, list) else [value]
    names = [each.get("name") if isinstance(each, dict) else each for each in members]
    clean = [_clean(name) for name in names if isinstance(name, str) and _is_name(name)]
    return ", ".join(dict.fromkeys(clean)) or None


def _author(tree: Any, fields: Mapping[str, str]) -> str | None:
    if name := next((fields[key] for key in _AUTHOR if key in fields and _is_name(fields[key])), None):
        return name
    nodes = tree.css(_BYLINES)[:1]
    return next((name for node in nodes if _is_name(name := _clean(node.text()))), None)


def _is_name(text: str) -> bool:
    return 0 < len(text.strip()) <= _LONGEST_NAME and "://" not in text and not text.startswith("@")


def _moments(values: list[Any]) -> datetime | None:
    """Return the first ISO 8601 date or time."""
    return next((moment for each in values if isinstance(each, str) and (moment := time_of(each.strip()))), None)


def _absolute(base: str, address: str) -> str | None:
    try:
        absolute = urljoin(base, address.strip())
    except ValueError:
        return None
    return absolute if absolute.startswith(("http://", "https://")) else None


def _clean(text: str) -> str:
    return _SPACE.sub(" ", text).strip()
