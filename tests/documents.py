"""Documents by name, as the commands find them, and the raw content behind them."""

from __future__ import annotations

from contextlib import closing

from catchment.content.raw_store import RawStore
from catchment.ledger import Ledger, Shown
from catchment.model import Item
from catchment.runtime.home import Home
from catchment.views import resolver


def document_named(ledger: Ledger, name: str) -> Shown:
    """Return the document with this name. Raises NotFound or Ambiguous."""
    return ledger.library.document(resolver.document(ledger, name, dict).number)


def raw_contents(home: Home) -> dict[str, bytes]:
    """Return the raw content of items by locator, b"" if it is not of the present state of the item."""
    found = {}
    with closing(RawStore(home.raw, home.raw_bytes)) as store, closing(Ledger.open(home.database_url)) as ledger:
        for number in store.items():
            row = ledger.intake.item(number)
            assert row is not None
            content = store.get(number, Item(row.locator, row.container, row.version, row.identity))
            found[row.locator] = content.data if content else b""
    return found
