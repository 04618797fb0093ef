"""The first page of the library: the latest documents, and the numbers beside the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from catchment.ledger import LatestDocument, Ledger, ListPage


@dataclass(frozen=True, slots=True)
class DocumentCounts:
    """Number of documents by source, kind of source and media type; most first."""

    sources: Mapping[str, int]
    kinds: Mapping[str, int]
    types: Mapping[str, int]


def latest(ledger: Ledger, *, after: str | None = None, limit: int = 50) -> ListPage[LatestDocument]:
    """Return the documents with a date in parts, latest first."""
    return ledger.library.latest(after=after, limit=limit)


def counts(ledger: Ledger) -> DocumentCounts:
    """Return the number of documents for each value of the filters."""
    sizes = Counter(ledger.library.sizes())
    kinds: Counter[str] = Counter()
    for source in ledger.sources.all():
        kinds[source.kind] += sizes[source.name]
    return DocumentCounts(dict(sizes.most_common()), dict(kinds.most_common()), ledger.library.types())
