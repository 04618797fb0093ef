"""Taking consent back: what came from a source is deleted from all that Catchment keeps, and it is shown that nothing is left.

The order matters. Consent is withdrawn first, so that nothing new comes; a sync that is at work ends; then rows, caches and
copies go, then the bytes; and only when nothing was found any more it is noted as done. After a kill it is done again.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from catchment.content.cache import Cache
from catchment.dirty import DirtyFile
from catchment.errors import TryAgain
from catchment.ledger import Ledger, Source
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
class Proof:
    """What was deleted, and what was found when it was looked for afterwards.

    `left`: rows by table. `passages`: how many passages were looked for that only this source had; `found` are those that a
    search finds, `in_files` those whose bytes are in the files of the ledger and the cache. `copies` are other files of the
    home, as paths below it, that have one: backups that a person made.
    """

    items: int
    left: Mapping[str, int]
    passages: int
    found: int
    in_files: int
    copies: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing is left."""
        return not any(self.left.values()) and not self.found and not self.in_files


def revoke(
    home: Home, ledger: Ledger, source: Source, extent: Extent, actor: str, told: Callable[[int], None]
) -> Proof:
    """Withdraw consent, delete what came from there, and look whether anything is left; may be called again, to finish.

    `told` is called with the number of items deleted so far. Raises TryAgain when a sync does not end, LedgerUnavailable.
    """
    purging = ledger.purging
    ledger.consents.withdraw(source.id, extent.scopes, actor)
    _wait_for_sync(ledger, source)
    passages = purging.passages(source.id, extent.covers, _PASSAGES)
    items = 0
    for number in purging.items(source.id, extent.covers):
        items += number
        told(items)
    if extent.whole:
        purging.rest(source.id)
    # Nobody has to know whose an entry is, and it is only a cache.
    with closing(Cache(home.cache)) as cache:
        cache.clear()
    forget_files(home, source.name)
    purging.erase()
    proof = _prove(home, ledger, source, extent, items, passages)
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
    """Remove what is kept of a source beside the ledger and the cache: copies, what its watcher saw, plans."""
    shutil.rmtree(home.copies(source), ignore_errors=True)
    DirtyFile(home, source).forget()
    for file in home.plans.glob("*.json"):
        if _planned(file) in (source, None):
            file.unlink(missing_ok=True)


def _planned(file: Path) -> str | None:
    """The source that a plan is for; None where nobody can follow it any more."""
    try:
        return str(orjson.loads(file.read_bytes())["source"])
    except (ValueError, KeyError, TypeError):
        return None


def _prove(home: Home, ledger: Ledger, source: Source, extent: Extent, items: int, passages: Sequence[str]) -> Proof:
    def is_there(passage: str) -> bool:
        hits = ledger.library.search('"' + passage.replace('"', " ") + '"', limit=1_000)
        return any(hit.source == source.name and extent.covers(hit.item) for hit in hits)

    ours = [*ledger.purging.files(), *_with_log(home.cache)]
    in_files = {passage for file in ours for passage in _in_file(file, passages)}
    others = (file for file in home.path.rglob("*") if file.is_file() and file not in ours)
    copies = (str(file.relative_to(home.path)) for file in others if any(_in_file(file, passages)))
    return Proof(
        items,
        ledger.purging.left(source.id, extent.covers, whole=extent.whole),
        len(passages),
        sum(map(is_there, passages)),
        # Another source may say the same in a content of its own.
        sum(not ledger.purging.said_elsewhere(passage) for passage in in_files),
        tuple(sorted(copies)),
    )


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
