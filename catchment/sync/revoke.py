"""Withdrawal of consent: delete all data of a source, and verify that none is left.

The order matters. Consent is withdrawn first, so that nothing new arrives, and a running sync ends. Then rows, caches and
copies are deleted, and freed pages are erased. The purge is recorded as complete only after the verification. After a kill, it
can be repeated. Other hosts of a shared library delete what their disks have in their next recovery round.
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

from catchment.content import copies_in_memory
from catchment.content.cache import Cache
from catchment.content.raw_store import RawStore
from catchment.errors import TryAgain
from catchment.ledger import Holdings, Ledger, Source, items_in_copy
from catchment.runtime import atomic_files
from catchment.settings import Home

_SYNC_ENDS_SECONDS = 120.0
"""A sync ends between two batches, and a batch may be waiting for a host."""
_LOOK_SECONDS = 0.1
_PASSAGES = 10
_AT_ONCE = 8 << 20


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a purge: these scopes, and the items with a locator for which `covers` is true."""

    scopes: frozenset[str]
    covers: Callable[[str], bool]
    whole: bool


@dataclass(frozen=True, slots=True)
class PurgeProof:
    """The amounts deleted, and the result of the search for leftovers.

    Attributes:
        scopes: The withdrawn scopes.
        holds: Whether no data is left in the library and on this host.
        left: Remaining rows by table.
        documents, chunks, cached, raw: Amounts before the purge: documents and chunks exclusive to the source, cache entries,
            and items of the source with raw content.
        still: The same amounts after the purge, by the same names.
        passages: Number of sample passages, exclusive to the source; 0 if all texts are short.
        found: Passages that a search still finds.
        in_files: Passages still present in the bytes of the ledger or the cache, and samples of the raw content, which is
            compressed, still present in its file.
        sinks: How many changes each sink has not received. Its next delivery deletes the copies there.
        hosts: The other hosts that have not deleted the data on their disks; none if the home runs alone.
        copies: Other files in the home folder (relative paths) that contain a passage or are a ledger with items of the
            source, such as a backup.
    """

    source: str
    scopes: tuple[str, ...]
    holds: bool
    items: int
    left: Mapping[str, int]
    documents: int
    chunks: int
    cached: int
    raw: int
    still: Mapping[str, int]
    passages: int
    found: int
    in_files: int
    sinks: Mapping[str, int]
    hosts: tuple[str, ...]
    copies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Before:
    """State before the purge, for comparison: deleted items, holdings, cache entries and sample passages.

    `raw`: the items with raw content. `samples`: parts of the raw content that only they had in its file.
    """

    items: int
    holdings: Holdings
    cached: int
    still_cached: int
    passages: Sequence[str]
    raw: int
    still_raw: int
    samples: Sequence[bytes]


def revoke(
    home: Home,
    ledger: Ledger,
    source: Source,
    extent: Extent,
    actor: str,
    reason: str = "",
) -> PurgeProof:
    """Withdraw consent, delete the data, and verify the deletion. May be repeated to finish an interrupted purge.

    Raises TryAgain if a sync does not end, LedgerUnavailable.
    """
    purging = ledger.purging
    ledger.consents.withdraw(source.id, extent.scopes, actor, reason)
    _wait_for_sync(ledger, source)
    purging.ask_hosts(source.id)
    passages = purging.passages(source.id, extent.covers, _PASSAGES)
    holdings = purging.holdings(source.id, extent.covers)
    # Before the items: their IDs are needed to find it.
    raw, still_raw, samples = _purge_raw(home, ledger, source.id)
    items = sum(purging.items(source.id, extent.covers))
    if extent.whole:
        purging.rest(source.id)
    cached, still_cached = purge_cache(home)
    forget_files(home, source.name)
    purging.erase()
    before = _Before(items, holdings, cached, still_cached, passages, raw, still_raw, samples)
    proof = _prove(home, ledger, source, extent, before)
    # Last, because it ends the web process, in which this may run. A killed purge is not recorded as ended, and is repeated.
    copies_in_memory.forget(home)
    if proof.holds:
        purging.end(source.id, extent.scopes, actor)
    return proof


def _purge_raw(home: Home, ledger: Ledger, source_id: int) -> tuple[int, int, list[bytes]]:
    """Delete the raw content of a source in all scopes, because a message contains its attachments, and of purged items.

    Return the number of items that had some, how many of them still have, and samples to search for.
    """
    if not home.raw.exists():
        return 0, 0, []
    with closing(RawStore(home.raw, home.raw_bytes)) as raw:
        others = ledger.intake.states(raw.items()).keys() - ledger.purging.ids(source_id, lambda _locator: True)
        deleted = raw.items() - others
        samples = raw.samples(deleted)
        raw.drop(deleted)
        raw.erase()
        return len(deleted), len(deleted & raw.items()), samples


def purge_cache(home: Home) -> tuple[int, int]:
    """Delete all cache entries, of any source, since they can be rebuilt. Return their number, and how many are left."""
    with closing(Cache(home.cache)) as cache:
        cached = set(cache.keys())
        cache.clear()
        # Another source's sync may have added entries since.
        return len(cached), len(cached.intersection(cache.keys()))


def clear_for_other_hosts(home: Home, ledger: Ledger) -> None:
    """Delete this disk's data of sources that another host removed or withdrew consent for; record it in the ledger.

    Idempotent: the next call repeats failed deletions. Raises LedgerError, HomeUnavailable.
    """
    for number, name in ledger.purging.asked_of_me().items():
        _, still_raw, samples = _purge_raw(home, ledger, number)
        _, still_cached = purge_cache(home)
        forget_files(home, name)
        copies_in_memory.forget(home)
        is_readable = any(_in_file(file, samples) for file in _with_log(home.raw))
        if not (still_raw or still_cached or is_readable):
            ledger.purging.done_here(number)


def _wait_for_sync(ledger: Ledger, source: Source) -> None:
    deadline = time.monotonic() + _SYNC_ENDS_SECONDS
    ledger.syncs.close_dead(ledger.alive)
    while (last := ledger.syncs.last(source.id)) is not None and last.outcome is None:
        if time.monotonic() > deadline:
            raise TryAgain(f"{source.name}: consent withdrawn, but its sync is still running; repeat the command")
        time.sleep(_LOOK_SECONDS)
        ledger.syncs.close_dead(ledger.alive)


def forget_files(home: Home, source: str) -> None:
    """Remove a source's files outside the ledger and the cache: copies, pushed documents and plans."""
    for folder in (home.copies(source), home.pushed / source):
        # A document that arrives meanwhile must not be left.
        with atomic_files.alone(folder):
            shutil.rmtree(folder, ignore_errors=True)
    for file in home.plans.glob("*.json"):
        if _planned(file) in (source, None):
            file.unlink(missing_ok=True)


def _planned(file: Path) -> str | None:
    """Return the source of a saved plan, or None if the plan is unusable."""
    try:
        return str(orjson.loads(file.read_bytes())["source"])
    except (ValueError, KeyError, TypeError):
        return None


def _prove(home: Home, ledger: Ledger, source: Source, extent: Extent, before: _Before) -> PurgeProof:
    passages = before.passages
    raw_files = _with_log(home.raw)
    own_files = [*ledger.purging.files(), *_with_log(home.cache), *raw_files]
    encoded = {passage.encode(): passage for passage in passages}
    in_files = {encoded[passage] for file in own_files for passage in _in_file(file, encoded)}
    others = (file for file in home.path.rglob("*") if file.is_file() and file not in own_files)
    # To close a file releases all locks that this process has on it, and those of SQLite are on `-shm`, which has no content.
    other_files = (file for file in others if not file.name.endswith("-shm"))
    copies = (
        str(file.relative_to(home.path))
        for file in other_files
        if any(_in_file(file, encoded)) or _is_copy(file, source, extent)
    )
    documents, chunks = ledger.purging.remaining(before.holdings)
    left = ledger.purging.left(source.id, extent.covers, whole=extent.whole)
    still = {"documents": documents, "chunks": chunks, "cached": before.still_cached, "raw": before.still_raw}
    searchable = sum(ledger.purging.is_found(source.id, extent.covers, passage) for passage in passages)
    # Another source may have the same passage in its own content.
    elsewhere = sum(not ledger.purging.said_elsewhere(passage) for passage in in_files)
    legible = elsewhere + sum(len(_in_file(file, before.samples)) for file in raw_files)
    return PurgeProof(
        source.name,
        tuple(sorted(extent.scopes)),
        not (any(left.values()) or any(still.values()) or searchable or legible),
        before.items,
        left,
        len(before.holdings.documents),
        before.holdings.chunks,
        before.cached,
        before.raw,
        still,
        len(passages),
        searchable,
        legible,
        {sink.name: sink.waiting for sink in ledger.outbox.all()},
        ledger.purging.unfinished().get(source.name, ()),
        tuple(sorted([*copies, *(f"schema {name}" for name in ledger.purging.replaced())])),
    )


def _is_copy(file: Path, source: Source, extent: Extent) -> bool:
    """Return whether a file is a ledger, such as a backup, with items of the source."""
    try:
        return items_in_copy(file, source.name, extent.covers) > 0
    except FileNotFoundError:
        return False
    except (OSError, sqlite3.DatabaseError):
        # A damaged backup may still be readable by other means. The other databases of the home are in use and are not copies.
        return file.parent.name == "backups"


def _with_log(file: Path) -> list[Path]:
    return [path for ending in ("", "-wal") if (path := Path(f"{file}{ending}")).exists()]


def _in_file(file: Path, patterns: Collection[bytes]) -> set[bytes]:
    """Return which of these bytes are in the file. Not memory-mapped, because others may truncate it meanwhile."""
    overlap = max(map(len, patterns), default=0)
    present: set[bytes] = set()
    before = b""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        while patterns and (part := opened.read(_AT_ONCE)):
            data = before + part
            present |= {pattern for pattern in patterns if pattern in data}
            before = data[-overlap:]
    return present
