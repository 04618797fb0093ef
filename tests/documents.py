"""Documents by name, as the commands find them."""

from __future__ import annotations

from catchment.ledger import Ledger, Shown
from catchment.views import resolver


def document_named(ledger: Ledger, name: str) -> Shown:
    """Return the document with this name. Raises NotFound or Ambiguous."""
    return ledger.library.document(resolver.document(ledger, name, dict).number)
