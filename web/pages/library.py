"""Library: search with filters to click, and the latest documents."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from catchment.errors import BadInput
from catchment.ledger import LatestDocument
from catchment.search.language import is_code, type_of
from catchment.search.present import snippet
from catchment.search.results import Hit, Results
from web import template_filters
from web.site import Data, WebPage
from web.warm_library import SearchRequest, WarmLibrary

_PER_PAGE = 20
_COUNTED = 100
"""Results whose types, sources, people and years become filters. Their numbers are shown if these are all results."""
_MOST_PAGES = 500
_MOST_CHARACTERS = 2_000
_VALUES = 7
_MAIL = "mail"
_ASSETS = frozenset({"code", "image"})
"""Types that are not among the latest documents, unless there are no others: the files of a project, not texts to read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A value of a filter: the query with it, or without it if it `is_chosen`. `number`: of documents, if known."""

    value: str
    query: str
    number: int | None
    is_chosen: bool


def _latest(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    after, types = parameters.get("after"), library.ledger.library.types()
    assets = [media_type for media_type in types if type_of(media_type) in _ASSETS]
    without = assets if len(assets) < len(types) else ()
    part = library.ledger.library.latest(after=after, limit=_PER_PAGE, without=without)
    months = [
        (month, [(row, _opening(row)) for row in group])
        for month, group in groupby(part.rows, key=lambda document: template_filters.month(document.moment))
    ]
    sizes = Counter(library.ledger.library.sizes())
    values_by_title = {"Source": ("source", sizes.most_common()), "Type": ("type", template_filters.by_type(types))}
    facets = {
        title: [Choice(value, _filter(name, value), size, is_chosen=False) for value, size in values]
        for title, (name, values) in values_by_title.items()
    }
    total = sizes.total()
    return {"q": "", "total": total, "months": months, "next": part.next, "is_first": after is None, "facets": facets}


def _opening(row: LatestDocument) -> str:
    """Return the first words of a document, without the title that stands above them."""
    text: str = snippet(row.opening, (), None, is_code=is_code(row.media_type))["snippet"]
    return text.removeprefix(row.title).lstrip() if row.title else text


def _search(library: WarmLibrary, parameters: Mapping[str, str]) -> Data:
    q = " ".join(parameters.get("q", "")[:_MOST_CHARACTERS].split())
    if not q:
        return _latest(library, parameters)
    page = _number(parameters.get("page", ""))
    offset = (page - 1) * _PER_PAGE
    is_counted = parameters.get("part") != "found" and offset < _COUNTED
    limit = _COUNTED if is_counted else _PER_PAGE
    start = 0 if is_counted else offset
    try:
        results = library.search(SearchRequest(text=q, limit=limit, offset=start, by_conversation=True))
    except BadInput as problem:
        return {"q": q, "problem": str(problem), "facets": {}}
    hits = results.hits[offset - start : offset - start + _PER_PAGE]
    return {
        "q": q,
        "problem": None,
        "results": results,
        "hits": hits,
        "rows": replace(results, hits=hits).folded,
        "facets": _facets(library, q, results) if is_counted else {},
        "words": [word for form in results.understood.words for word in (form.text, *form.forms, *form.corrections)],
        "first": offset + 1,
        "page": page,
        "last_page": -(-results.total // _PER_PAGE),
        "has_next": results.total > offset + len(hits) and bool(hits),
        "explain": "explain" in parameters,
        "conversations": sum(hit.alike > 1 for hit in hits),
        "literal": " ".join(f'"{word.text}"' for word in results.understood.words),
    }


def without(q: str, filter_: str) -> str:
    """Return a query without a filter. `filter_`: the filter as the query spells it."""
    return " ".join(q.replace(filter_, " ", 1).split())


def _facets(library: WarmLibrary, q: str, results: Results) -> dict[str, list[Choice]]:
    values = {
        "Type": ("type", (type_of(hit.media_type) for hit in results.hits)),
        "Source": ("source", (source for hit in results.hits for source in {name for name, _ in hit.places})),
        "Person": (
            "from",
            (template_filters.person(hit.author) for hit in results.hits if hit.author and _is_mail(hit)),
        ),
        "Date": ("date", (str(hit.moment.astimezone().year) for hit in results.hits if hit.moment)),
    }
    # Several values of these find more documents, so the others stay when one is chosen. Only then they are counted.
    stored = library.ledger.library
    others: dict[str, Callable[[], Iterable[str]]] = {
        "source": stored.sizes,
        "type": lambda: (value for value, _ in template_filters.by_type(stored.types())),
    }
    return {
        title: choices
        for title, (name, facet_values) in values.items()
        if (choices := _choices(q, name, facet_values, results, others.get(name, list)))
    }


def _choices(
    q: str, name: str, values: Iterable[str], results: Results, others: Callable[[], Iterable[str]]
) -> list[Choice]:
    """Return the values of a filter in the query, and then those of the results; if one is chosen, also `others`."""
    filters = [filter_ for filter_ in results.understood.filters if filter_.startswith(f"{name}:")]
    chosen = {filter_.partition(":")[2].strip('"'): filter_ for filter_ in filters}
    result = [Choice(value, without(q, filter_), None, is_chosen=True) for value, filter_ in chosen.items()]
    numbers: dict[str, int | None] = dict(Counter(values).most_common(_VALUES))
    if chosen or results.total > len(results.hits):
        numbers = dict.fromkeys([*numbers, *(others() if chosen else ())])
    for value, number in numbers.items():
        if value not in chosen and '"' not in value:
            result.append(Choice(value, f"{q} {_filter(name, value)}", number, is_chosen=False))
    return result


def _filter(name: str, value: str) -> str:
    return f"{name}:{value}" if re.fullmatch(r"\S+", value) else f'{name}:"{value}"'


def _is_mail(hit: Hit) -> bool:
    return type_of(hit.media_type) == _MAIL


def _number(text: str) -> int:
    return min(int(text), _MOST_PAGES) if re.fullmatch(r"[1-9]\d{0,5}", text) else 1


PAGES = (WebPage("/", "library.html", _latest, ("found",)), WebPage("/search", "library.html", _search))
