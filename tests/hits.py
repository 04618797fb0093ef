"""Search of a ledger by words alone, as they are: without filters, word forms and corrections."""

from __future__ import annotations

from dataclasses import replace

from catchment.ledger import Filter, FilterName, Ledger, storable_text
from catchment.search.language import parse_words
from catchment.search.present import present
from catchment.search.results import Hit


def find_hits(ledger: Ledger, words: str, *, source: str | None = None, limit: int = 20) -> list[Hit]:
    """Return the documents with all these words, best first."""
    query = parse_words(storable_text(words))
    if not query.wanted:
        return []
    if source is not None:
        query = replace(query, filters=(Filter(FilterName.SOURCE, (source,)),))
    ranked = ledger.library.rank(query, limit=limit).ranked
    return present(ledger, ranked, query, [1.0] * len(query.wanted))
