"""What the settings of a source want no more."""

from __future__ import annotations

from collections.abc import Iterator

from catchment.model import Change, Item, KnownItem, Skip, SkipReason


def now_excluded(locator: str, container: str, old: KnownItem) -> Iterator[Change]:
    """An item that is known, and that the settings do not want any more: it leaves as a skip, for it is not gone.

    Like every skipped item it has no identity: moved to where it is wanted, it is new and is read.
    """
    version, _, reason = old.version.partition("+")
    if reason != SkipReason.EXCLUDED:
        yield Skip(Item(locator, container, f"{version}+{SkipReason.EXCLUDED}"), SkipReason.EXCLUDED)
