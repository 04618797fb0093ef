"""Documents related by meaning: near a document, or nearly the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from catchment.ledger import Ledger, Ranked
from catchment.ledger.library.query import Query
from catchment.results import Hit

if TYPE_CHECKING:
    from catchment.meaning.meaning import Meaning

SAME = 0.9
"""Cosine of near-duplicates. One word replaced in a sentence of fourteen yields 0.92, a sentence added to it 0.83."""


def related(ledger: Ledger, meaning: Meaning, content_id: int, limit: int) -> list[Hit]:
    """Return the documents whose meaning is nearest to a content, best first. Loads no model. Raises MeaningOff."""
    floor = meaning.floor
    near = [one for one in meaning.related(content_id, limit) if one.cosine >= floor]
    ranked = [
        Ranked(one.content_id, one.chunk_id, one.cosine, semantic_rank=rank, cosine=one.cosine)
        for rank, one in enumerate(near, 1)
    ]
    return ledger.library.present(ranked, Query((), ()))
