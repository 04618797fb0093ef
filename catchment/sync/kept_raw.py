"""Decide which raw content is stored (`catchment.content.raw_store`), and delete that of purged items and above the limit."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress

import orjson

from catchment.content.parsing import Read
from catchment.content.raw_store import RawStore
from catchment.content.secret_masking import tells_of_secrets
from catchment.contracts import Connector
from catchment.errors import HomeUnavailable
from catchment.ledger import Ledger, Readable
from catchment.model import Item, RawContent, ReplayStage
from catchment.runtime.home import Home
from catchment.settings import Policy
from catchment.sync.preflight import scopes_of


def raw_store(home: Home, connector: Connector, policy: Policy) -> RawStore | None:
    """Return the store for a sync of a source, or None if its raw content is not kept."""
    # Local files can be read again.
    is_kept = bool(scopes_of(connector)) if policy.keep_raw is None else policy.keep_raw
    return RawStore(home.raw, home.raw_bytes) if is_kept and home.raw_bytes else None


def readable(connector: Connector, raw: RawStore | None, stage: ReplayStage) -> Readable | None:
    """Return which items a replay can read without a network; None if all."""
    if stage is not ReplayStage.NORMALIZE or not scopes_of(connector):
        return None
    return raw.holds if raw else lambda _: ()


def has_no_secret(raw: RawContent, reading: Read) -> bool:
    """Return whether a parse has shown that there is no secret in raw content: only then may it be kept unmasked."""
    if reading.document is None or tells_of_secrets(reading.document) or raw.title not in (None, "", reading.title):
        return False
    return bool(orjson.loads(orjson.dumps(raw.metadata)) == reading.metadata)


def keep(raw: RawStore, ledger: Ledger, fetched: Iterable[tuple[int, Item, RawContent]]) -> None:
    """Store content by the ID of its item. A full disk or an unusable file is ignored."""
    with suppress(HomeUnavailable, OSError):
        if raw.put(fetched):
            _make_room(raw, ledger)


def forget_raw(home: Home, ledger: Ledger, source_id: int | None = None) -> None:
    """Delete the raw content of a source, if given, and of purged items, and prune the store. Replaces a damaged file.

    Raises HomeUnavailable.
    """
    if home.raw.exists():
        with closing(RawStore(home.raw, home.raw_bytes)) as raw:
            raw.check()
            if source_id is not None:
                raw.drop(ledger.purging.ids(source_id, lambda _locator: True))
            _make_room(raw, ledger)


def _make_room(raw: RawStore, ledger: Ledger) -> None:
    items = raw.items()
    states = ledger.intake.states(items)
    raw.drop(items - states.keys())
    raw.prune({item_id for item_id, state in states.items() if state == "deleted"})
