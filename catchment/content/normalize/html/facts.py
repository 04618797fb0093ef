"""Title, author, dates, tags, site and canonical address of a web page: from its JSON-LD, meta elements and microformats.

`bylines` finds an author and a date that a page only shows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from catchment.content.foreign_json import read_json
from catchment.content.normalize.html.bylines import Byline, clean_text, is_name, is_past
from catchment.content.normalize.html.page_titles import title_of
from catchment.model import Document, time_of

_AUTHOR = ("author", "article:author", "dc.creator", "parsely-author", "sailthru.author", "byl", "citation_author")
_CREATED = (
    "article:published_time",
    "og:article:published_time",
    "datepublished",
    "parsely-pub-date",
    "sailthru.date",
    "dc.date.issued",
    "dcterms.created",
    "dcterms.issued",
    "dc.date.created",
    "dc.date",
    "dcterms.date",
    "citation_publication_date",
    "citation_date",
    "publish-date",
    "publish_date",
    "publishdate",
    "pubdate",
    "date",
)
_MODIFIED = ("article:modified_time", "og:updated_time", "datemodified", "dcterms.modified", "last-modified")
_KEPT = ("description", "keywords")
_ARTICLES = re.compile(r"(?:Article|Posting|Recipe|Report|Review|BlogPost|QAPage|WebPage|Book|Event|VideoObject)\Z")
_MOST_SCRIPTS, _MOST_NODES, _MOST_TAGS = 20, 5_000, 50


def facts_of(tree: Any, fields: Mapping[str, str], base: str, media_type: str) -> Document:
    """Return the document of a page, without its text and language.

    `fields` are its meta elements, and relative addresses start at `base`. `properties` has `site`, `canonical` (an address),
    `description`, `keywords` and `tags`. If the page states no date, `date-from` names the origin of the guess in `created`.
    A stated date of publication is that of the change, too: many servers send the time of their last build.
    """
    nodes = list(islice(_linked_data(tree), _MOST_NODES))
    article: dict[str, Any] = next((node for node in nodes if _is(node, _ARTICLES) and "datePublished" in node), {})
    site = fields.get("og:site_name") or next((name for node in nodes if (name := _site(node))), None)
    canonical = tree.css_first("link[rel=canonical]")
    address = (canonical.attributes.get("href") if canonical else None) or fields.get("og:url")
    properties: dict[str, Any] = {key: fields[key] for key in _KEPT if key in fields}
    properties |= {"site": site} if site else {}
    properties |= {"canonical": absolute} if address and (absolute := _absolute(base, address)) else {}
    properties |= {"tags": tags} if (tags := _tags(tree)) else {}
    byline = Byline(tree)
    created = _moments([article.get("datePublished"), *map(fields.get, _CREATED), *byline.times()])
    modified = _moments([article.get("dateModified"), *map(fields.get, _MODIFIED)]) or created
    if created is None:
        created, origin = byline.guess([properties.get("canonical", ""), base])
        properties |= {"date-from": origin} if created else {}
    return Document(
        text="",
        media_type=media_type,
        title=title_of(tree, fields, site),
        author=_names(article.get("author"), nodes) or _author(fields) or byline.author(),
        created=created,
        modified=modified,
        properties=properties,
    )


def _linked_data(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of the JSON-LD scripts, outer objects first."""
    for script in tree.css('script[type="application/ld+json"]')[:_MOST_SCRIPTS]:
        try:
            pending = [read_json(script.text())]
        except ValueError:
            continue
        for value in pending:  # the list grows in the loop
            if isinstance(value, dict):
                yield value
                pending += [inner for inner in value.values() if isinstance(inner, dict | list)]
            elif isinstance(value, list):
                pending += value


def _is(node: Mapping[str, Any], kinds: re.Pattern[str]) -> bool:
    named = node.get("@type")
    return any(isinstance(each, str) and kinds.search(each) for each in (named if isinstance(named, list) else [named]))


def _site(node: Mapping[str, Any]) -> str | None:
    """Return the name of the site that an object describes or belongs to."""
    if _is(node, re.compile(r"\A(?:WebSite|Blog)\Z")):
        return _names(node)
    return _names(node.get("publisher"))


def _names(value: Any, nodes: Sequence[dict[str, Any]] = ()) -> str | None:
    """Return the names of people or organizations in JSON-LD: text, an object with a name, the ID of one, or a list of them."""
    members = value if isinstance(value, list) else [value]
    named = {str(node["@id"]): node["name"] for node in nodes if "@id" in node and "name" in node}
    names = [each.get("name", named.get(str(each.get("@id")))) if isinstance(each, dict) else each for each in members]
    clean = [clean_text(name) for name in names if isinstance(name, str) and is_name(name)]
    return ", ".join(dict.fromkeys(clean)) or None


def _author(fields: Mapping[str, str]) -> str | None:
    return next((fields[key] for key in _AUTHOR if key in fields and is_name(fields[key])), None)


def _tags(tree: Any) -> list[str]:
    """Return the tags of an article (https://ogp.me/#type_article)."""
    named = (node.attributes.get("content") or "" for node in tree.css('meta[property="article:tag"]')[:_MOST_TAGS])
    return list(dict.fromkeys(tag for name in named if (tag := clean_text(name))))


def _moments(values: list[Any]) -> datetime | None:
    """Return the first date or time that is not in the future."""
    return next((moment for each in values if isinstance(each, str) and is_past(moment := _moment(each.strip()))), None)


def _moment(text: str) -> datetime | None:
    rfc = text if ":" in text else f"{text} 00:00"
    return time_of(text.replace("/", "-")) or time_of(rfc, parsedate_to_datetime)


def _absolute(base: str, address: str) -> str | None:
    try:
        absolute = urljoin(base, address.strip())
    except ValueError:
        return None
    return absolute if absolute.startswith(("http://", "https://")) else None
