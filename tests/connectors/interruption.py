"""A check for every kind of source: a temporary change leaves no trace, wherever a listing during it is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from catchment.contracts import Connector
from catchment.errors import SkipReason, SourceError
from connectors.contract.memory_ledger import MemoryLedger


def check_no_trace(
    connector: Connector, begin: Callable[[], object], undo: Callable[[], object], meanwhile: Connector | None = None
) -> None:
    """Interrupt a listing at each possible place after `begin`, then `undo`, and list again: the result equals a fresh
    listing.

    `meanwhile`: the connector used between `begin` and `undo`, if its settings differ.
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
        assert _held(ledger) == _held(fresh), f"interrupted at {cut}"
        if whole:
            return


def _held(ledger: MemoryLedger) -> dict[str, Any]:
    """Return the visible state of the present items by locator, except items excluded by the settings."""
    return {
        locator: (row.content and row.content.data, row.skipped, row.item.attributes, row.error and str(row.error))
        for locator, row in ledger.present().items()
        if row.skipped is not SkipReason.EXCLUDED
    }
