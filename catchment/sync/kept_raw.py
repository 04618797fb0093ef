"""Keep the raw content of items, within its limit and no longer than their source. The content itself: `content.raw_store`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress

from catchment.content.raw_store import RawStore
from catchment.contracts import Connector
from catchment.errors import HomeUnavailable
from catchment.ledger import Ledger, Readable
from catchment.model import Item, RawContent, ReplayStage
from catchment.runtime.home import Home
from catchment.settings import Policy
from catchment.sync.preflight import scopes_of


def raw_store(home: Home, connector: Connector, policy: Policy) -> RawStore | None:
    """Return the store for a sync of a source, or None if its raw content is not kept."""
    # What is on this machine can be read again.
    is_kept = bool(scopes_of(connector)) if policy.keep_raw is None else policy.keep_raw
    return RawStore(home.raw, home.raw_bytes) if is_kept and home.raw_bytes else None


def readable(connector: Connector, raw: RawStore | None, stage: ReplayStage) -> Readable | None:
    """Return which items a replay can read without a network; None if all."""
    if stage is not ReplayStage.NORMALIZE or not scopes_of(connector):
        return None
    return raw.holds if raw else lambda _: ()


def keep(raw: RawStore, ledger: Ledger, fetched: Iterable[tuple[int, Item, RawContent]]) -> None:
    """Keep content as fetched, by the ID of its item. Without room or a usable file it is not kept, which fails nothing."""
    with suppress(HomeUnavailable, OSError):
        if raw.put(fetched):
            _make_room(raw, ledger)


def forget_raw(home: Home, ledger: Ledger) -> None:
    """Delete the raw content of purged items, and what exceeds the limit. Replaces a damaged file. Raises HomeUnavailable."""
    if home.raw.exists():
        with closing(RawStore(home.raw, home.raw_bytes)) as raw:
            raw.check()
            _make_room(raw, ledger)


def _make_room(raw: RawStore, ledger: Ledger) -> None:
    items = raw.items()
    states = ledger.intake.states(items)
    raw.drop(items - states.keys())
    raw.prune({item_id for item_id, state in states.items() if state == "deleted"})
