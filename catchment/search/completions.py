"""Completions for a shell: names in the library, filters of a search and their values."""

from __future__ import annotations

from collections.abc import Iterable

from catchment.errors import BadInput
from catchment.ledger import HAS, FilterName, Ledger
from catchment.search.language import FILTERS, STATES, TYPES

_MOST = 100


def completions(ledger: Ledger, name: str, start: str) -> list[str]:
    """Return at most 100 words that begin with `start`, in alphabetical order.

    `name`: a filter for its values, "document" for titles and paths, or "filter" for the filters. Raises BadInput.
    """
    words: Iterable[str]
    match name:
        case "filter":
            words = (f"{known}:" for known in FILTERS)
        case FilterName.SOURCE:
            words = (source.name for source in ledger.sources.all())
        case FilterName.KIND:
            words = {source.kind for source in ledger.sources.all()}
        case FilterName.TYPE:
            words = TYPES
        case FilterName.IS:
            words = STATES
        case FilterName.HAS:
            words = HAS
        case FilterName.LANG:
            words = ledger.vocabulary.languages()
        case FilterName.TAG | FilterName.IN | "document":
            return ledger.library.beginning(name, start, _MOST)
        case _ if name in FILTERS:
            words = ()
        case _:
            raise BadInput(f"{name}: cannot be completed; choose document, filter or {', '.join(FILTERS)}")
    return sorted(word for word in words if word.startswith(start.casefold()))
