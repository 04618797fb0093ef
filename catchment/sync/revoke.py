"""Taking consent back: what came from a source is deleted from all that Catchment keeps, and it is shown that nothing is left.

The order matters. Consent is withdrawn first, so that nothing new comes; a sync that is at work ends; then rows, caches and
copies go, then the bytes; and only when nothing was found any more it is noted as done. After a kill it is done again.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from catchment.content.cache import Cache
from catchment.errors import TryAgain
from catchment.ledger import Ledger, Source
from catchment.ledger.items.purge import Holdings, items_in_copy
from catchment.runtime import process
from catchment.settings import Home

_SYNC_ENDS_SECONDS = 120.0
"""A sync ends between two batches; one of them may wait for a host."""
_LOOK_SECONDS = 0.1
_PASSAGES = 10
_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Extent:
    """What of a source is purged: these scopes, and the items that `covers` says by their locators."""

    scopes: frozenset[str]
    covers: Callable[[str], bool]
    whole: bool


@dataclass(frozen=True, slots=True)
class PurgeProof:
    """What was deleted, and what was found when it was looked for afterwards.

    `left`: rows by table. `documents`, `chunks` and `cached` are how many documents, chunks that only this source had, and
    entries of the cache there were; `still` is how many of each there are, by the same names. `passages`: how many passages
    were looked for that only this source had, none where all texts are short; `found` are those that a search finds,
    `in_files` those whose bytes are in the files of the ledger and the cache. `copies` are other files of the home, as paths
    below it, that have a passage or are a ledger with items of the source: backups that a person made.
    """

    items: int
    left: Mapping[str, int]
    documents: int
    chunks: int
    cached: int
    still: Mapping[str, int]
    passages: int
    found: int
    in_files: int
    copies: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is left."""
        return not (any(self.left.values()) or any(self.still.values()) or self.found or self.in_files)


@dataclass(frozen=True, slots=True)
class _Before:
    """What there was before the purge, to be looked for afterwards; how many items it deleted, and which entries it left."""

    items: int
    holdings: Holdings
    cached: int
    still_cached: int
    passages: Sequence[str]


def revoke(
    home: Home, ledger: Ledger, source: Source, extent: Extent, actor: str, told: Callable[[int], None]
) -> PurgeProof:
    """Withdraw consent, delete what came from there, and look whether anything is left; may be called again, to finish.

    `told` is called with the number of items deleted so far. Raises TryAgain when a sync does not end, LedgerUnavailable.
    """
    purging = ledger.purging
    ledger.consents.withdraw(source.id, extent.scopes, actor)
    _wait_for_sync(ledger, source)
    passages = purging.passages(source.id, extent.covers, _PASSAGES)
    holdings = purging.holdings(source.id, extent.covers)
    items = 0
    for number in purging.items(source.id, extent.covers):
        items += number
        told(items)
    if extent.whole:
        purging.rest(source.id)
    # Nobody has to know whose an entry is, and it is only a cache.
    with closing(Cache(home.cache)) as cache:
        cached = set(cache.keys())
        cache.clear()
        # Another source's sync may have put other entries there by now.
        still_cached = len(cached.intersection(cache.keys()))
    forget_files(home, source.name)
    purging.erase()
    before = _Before(items, holdings, len(cached), still_cached, passages)
    proof = _prove(home, ledger, source, extent, before)
    if proof.holds:
        purging.end(source.id, extent.scopes, actor)
    return proof


def _wait_for_sync(ledger: Ledger, source: Source) -> None:
    deadline = time.monotonic() + _SYNC_ENDS_SECONDS
    ledger.syncs.close_dead(process.alive)
    while (last := ledger.syncs.last(source.id)) is not None and last.outcome is None:
        if time.monotonic() > deadline:
            raise TryAgain(
                f"consent to {source.name} is withdrawn, and its sync has not ended yet; purge with the same command again"
            )
        time.sleep(_LOOK_SECONDS)
        ledger.syncs.close_dead(process.alive)


def forget_files(home: Home, source: str) -> None:
    """Remove what is kept of a source beside the ledger and the cache: copies and plans."""
    shutil.rmtree(home.copies(source), ignore_errors=True)
    for file in home.plans.glob("*.json"):
        if _planned(file) in (source, None):
            file.unlink(missing_ok=True)


def _planned(file: Path) -> str | None:
    """The source that a plan is for; None where nobody can follow it any more."""
    try:
        return str(orjson.loads(file.read_bytes())["source"])
    except (ValueError, KeyError, TypeError):
        return None


def _prove(home: Home, ledger: Ledger, source: Source, extent: Extent, before: _Before) -> PurgeProof:
    passages = before.passages

    def is_there(passage: str) -> bool:
        hits = ledger.library.search('"' + passage.replace('"', " ") + '"', limit=1_000)
        return any(hit.source == source.name and extent.covers(hit.item) for hit in hits)

    ours = [*ledger.purging.files(), *_with_log(home.cache)]
    in_files = {passage for file in ours for passage in _in_file(file, passages)}
    others = (file for file in home.path.rglob("*") if file.is_file() and file not in ours)
    copies = (
        str(file.relative_to(home.path))
        for file in others
        if any(_in_file(file, passages)) or _is_copy(file, source, extent)
    )
    documents, chunks = ledger.purging.remaining(before.holdings)
    return PurgeProof(
        before.items,
        ledger.purging.left(source.id, extent.covers, whole=extent.whole),
        len(before.holdings.documents),
        before.holdings.chunks,
        before.cached,
        {"documents": documents, "chunks": chunks, "cached": before.still_cached},
        len(passages),
        sum(map(is_there, passages)),
        # Another source may say the same in a content of its own.
        sum(not ledger.purging.said_elsewhere(passage) for passage in in_files),
        tuple(sorted(copies)),
    )


def _is_copy(file: Path, source: Source, extent: Extent) -> bool:
    """Whether a file is a ledger, as a backup is, that has items of the source."""
    try:
        return items_in_copy(file, source.name, extent.covers) > 0
    except FileNotFoundError:
        return False
    except (OSError, sqlite3.DatabaseError):
        # A damaged backup may still be read by other means. Other databases of the home are in use and no copies.
        return file.parent.name == "backups"


def _with_log(file: Path) -> list[Path]:
    return [there for ending in ("", "-wal") if (there := Path(f"{file}{ending}")).exists()]


def _in_file(file: Path, passages: Collection[str]) -> set[str]:
    """Those of the passages whose bytes are in a file. It is read, not mapped: others may cut it short meanwhile."""
    wanted = {passage.encode(): passage for passage in passages}
    overlap = max(map(len, wanted), default=0)
    found: set[str] = set()
    before = b""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        while wanted and (part := opened.read(_AT_ONCE)):
            data = before + part
            found |= {passage for sought, passage in wanted.items() if sought in data}
            before = data[-overlap:]
    return found
