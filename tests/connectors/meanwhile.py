"""What is so only while a listing is cut short leaves no trace, wherever it is cut: a check for every kind of source."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from catchment.contracts import Connector
from catchment.errors import SourceError
from catchment.model import SkipReason
from tests.connectors.memory_ledger import MemoryLedger


def check_no_trace(
    connector: Connector, begin: Callable[[], object], undo: Callable[[], object], meanwhile: Connector | None = None
) -> None:
    """Cut a listing at each place after `begin`, `undo` that, list again: all is as for one who lists afresh.

    `meanwhile`: what lists in between, if that has other settings.
    """
    ledger = MemoryLedger()
    ledger.sync(connector)
    for cut in count():
        begin()
        try:
            whole = len(ledger.sync(meanwhile or connector, cut=cut).changes) < cut
        except SourceError:
            whole = True
        undo()
        ledger.sync(connector)
        fresh = MemoryLedger()
        fresh.sync(connector)
        assert _held(ledger) == _held(fresh), f"it was cut at {cut}"
        if whole:
            return


def _held(ledger: MemoryLedger) -> dict[str, Any]:
    """By locator, what of an item shows; that it was wanted once may be noted of one that is not."""
    return {
        locator: (row.content and row.content.data, row.skipped, row.item.attributes, row.error and str(row.error))
        for locator, row in ledger.present().items()
        if row.skipped is not SkipReason.EXCLUDED
    }
