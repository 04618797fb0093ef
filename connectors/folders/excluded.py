"""Items that a listing no longer contains: the source deleted them, or its settings no longer select them."""

from __future__ import annotations

from collections.abc import Iterator

from catchment.contracts import Known
from catchment.errors import SkipReason
from catchment.model import Change, Item, KnownItem, Skip, Tombstone


def now_excluded(locator: str, container: str, old: KnownItem) -> Iterator[Change]:
    """Yield a Skip for a known item that the settings now exclude. It is not a deletion: the item still exists at the
    source.

    Like every skipped item it has no identity, so that a later move to an included path makes it a new item, which is
    read.
    """
    version, _, reason = old.version.partition("+")
    if reason != SkipReason.EXCLUDED:
        yield Skip(Item(locator, container, f"{version}+{SkipReason.EXCLUDED}"), SkipReason.EXCLUDED)


def no_longer_listed(known: Known, container: str, *, is_deleted: bool) -> Iterator[Change]:
    """Yield the changes for all known items of a container that is not listed now: deleted, or else excluded."""
    for locator, old in sorted(known.within(container).items()):
        if is_deleted:
            yield Tombstone(locator)
        else:
            yield from now_excluded(locator, container, old)
