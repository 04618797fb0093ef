"""Search the library as a person asks: every word has to be there, in some form; failing that, as many as possible."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import chain

from catchment.ledger import Hit, Ledger
from catchment.search.language import parse
from catchment.search.widen import Correction, widen


@dataclass(frozen=True, slots=True)
class Results:
    """One page of hits, how many there are in all, and how the query was understood.

    `is_partial`: no document has all the words, and the hits have some of them.
    """

    hits: list[Hit]
    total: int
    corrections: list[Correction]
    is_partial: bool


def search(
    ledger: Ledger, text: str, now: datetime, *, limit: int = 20, offset: int = 0, by_thread: bool = False
) -> Results:
    """The documents that match a query in the language of `language.parse`, best first.

    `now`: aware, in the time zone of the person. `by_thread`: of each conversation only the best. Raises BadInput.
    """
    query = parse(text, {source.name: source.kind for source in ledger.sources.all()}, now)
    if not query.wanted and not query.filters:
        return Results([], 0, [], is_partial=False)
    query, corrections = widen(query, ledger.vocabulary)
    find = partial(ledger.library.find, by_thread=by_thread)
    found = find(query, limit=limit, offset=offset)
    has_any = found.total or (offset and find(query, limit=1).total)
    if has_any or len(query.wanted) < 2:
        return Results(found.hits, found.total, corrections, is_partial=False)
    found = find(replace(query, wanted=(tuple(chain.from_iterable(query.wanted)),)), limit=limit, offset=offset)
    return Results(found.hits, found.total, corrections, is_partial=True)
