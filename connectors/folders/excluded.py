"""Items that the settings of a source no longer select."""

from __future__ import annotations

from collections.abc import Iterator

from catchment.errors import SkipReason
from catchment.model import Change, Item, KnownItem, Skip


def now_excluded(locator: str, container: str, old: KnownItem) -> Iterator[Change]:
    """Yield a Skip for a known item that the settings now exclude. It is not a deletion: the item still exists at the
    source.

    Like every skipped item it has no identity, so that a later move to an included path makes it a new item, which is
    read.
    """
    version, _, reason = old.version.partition("+")
    if reason != SkipReason.EXCLUDED:
        yield Skip(Item(locator, container, f"{version}+{SkipReason.EXCLUDED}"), SkipReason.EXCLUDED)
