"""Previews: a new source and its first documents, the changes of the next sync, and a proof of the library against its source.

They change no data, and are limited in time, because a person waits for them.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

from catchment.content.codec import decode_document
from catchment.content.parsing import Read, ReadTask, read
from catchment.contracts import Connected, Connector, Keeping, NothingKnown, Watchable
from catchment.errors import ItemError, Stopped, TookTooLong, TryAgain
from catchment.ledger import Ledger, PlannedAction, Step
from catchment.model import Checkpoint, Failure, Upsert
from catchment.parser_pool import ParserPool
from catchment.settings import Limits
from catchment.sync import prove as proofs
from catchment.sync.plan import Plan, make_plan
from catchment.sync.preflight import let_parse, probe, scopes_of
from catchment.sync.prove import FolderProof, ProofFinding, Proven
from deployments.actions import consents
from deployments.actions.desk import Desk, known
from deployments.actions.sources import NewSource, require_no_program

SECONDS = 15.0
"""Time limit of a plan or a proof."""
_COUNT_SECONDS = 3.0
"""Time in which the files of a new source are counted."""
_SHOWN = 25
_FIRST = 10
_LOCK = threading.Lock()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FilesOfType:
    """Files with the same ending of their names, such as "md"; "" without one. `size` in bytes."""

    ending: str
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class SourcePreview:
    """The content of a new source.

    Attributes:
        description: Of the place; None for a host, before consent.
        scopes: The scopes that need consent, by name, with descriptions; empty for files on this machine.
        secret: The setting for a password or token; None if none is needed.
        files: Of a folder, by type, the most frequent first; None for other places.
        is_complete: Whether all files were counted in time.
    """

    description: str | None
    scopes: Mapping[str, str]
    secret: str | None
    files: tuple[FilesOfType, ...] | None = None
    is_complete: bool = True


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """A kind of change that a sync would make: the number of its items, and the bytes to read."""

    action: PlannedAction
    number: int
    size: int


@dataclass(frozen=True, slots=True)
class SyncPreview:
    """The next sync of a source.

    `waiting`: jobs of earlier syncs. `steps`: the first of `number`. Estimates: None if unknown.
    """

    source: str
    totals: tuple[PlannedChanges, ...]
    waiting: int
    steps: tuple[Step, ...]
    number: int
    seconds: float | None
    requests: int | None
    done: datetime | None

    @classmethod
    def of(cls, plan: Plan, most: int | None = None) -> Self:
        """Return the preview of a plan. `most`: maximum number of steps."""
        totals = tuple(PlannedChanges(action, *total) for action, total in plan.totals.items())
        steps = plan.steps[:most]
        return cls(plan.source, totals, plan.waiting, steps, len(plan.steps), plan.seconds, plan.requests, plan.done)


@dataclass(frozen=True, slots=True)
class ProofPreview:
    """How far the library matches a source: its first folders, and the first of `number` differences.

    `texts`: number of texts compared with a new parse. `held`: number of deletions that a repair held.
    """

    source: str
    holds: bool
    folders: tuple[FolderProof, ...]
    findings: tuple[ProofFinding, ...]
    number: int
    index: tuple[str, ...]
    texts: int
    held: int

    @classmethod
    def of(cls, proof: Proven, held: int = 0, most: int | None = None) -> Self:
        """Return the preview of a proof. `most`: maximum number of folders, and of differences."""
        folders, findings = proof.folders[:most], proof.findings[:most]
        return cls(proof.source, proof.holds, folders, findings, len(proof.findings), proof.index, proof.texts, held)


@dataclass(frozen=True, slots=True)
class FirstDocument:
    """A document of a source that is not added yet. `problem`: why there is none; "" if there is."""

    locator: str
    title: str = ""
    modified: datetime | None = None
    text: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def first_documents(desk: Desk, new: NewSource, *, consented: bool = False) -> list[FirstDocument]:
    """Return the first ten documents of a source. Nothing is stored.

    Raises NoConsent without the operator's agreement to what is read, BadInput, SourceError.
    """
    entry = new.written(desk)
    connector = desk.connector(entry)
    consents.require_agreed(entry.name, connector, agreed=consented)
    probe(connector)
    limits = entry.settings.policy(connector.policy).limits
    with ParserPool(1) as pool, TemporaryDirectory(prefix="catchment-") as folder:
        let_parse(connector, pool, limits)
        if isinstance(connector, Keeping):
            connector.folder = Path(folder)
        changes = _first(connector)
        if isinstance(connector, Connected):
            connector.expect([change.item for change in changes if isinstance(change, Upsert)])
        try:
            return [_first_document(connector, pool, limits, change) for change in changes]
        finally:
            if isinstance(connector, Connected):
                connector.close()


def _first(connector: Connector) -> list[Upsert | Failure]:
    """Return some items of each container that is listed in some seconds, up to ten together."""
    by_container: dict[str, dict[str, Upsert | Failure]] = {}
    changes, ends = connector.changes(NothingKnown()), time.monotonic() + _COUNT_SECONDS
    for change in changes:
        if isinstance(change, Upsert | Failure):
            items = by_container.setdefault(change.item.container, {})
            if len(items) < _FIRST or change.item.locator in items:
                items[change.item.locator] = change
        elif isinstance(change, Checkpoint) and by_container and time.monotonic() > ends:
            break
    if isinstance(changes, Generator):
        changes.close()
    each = max(1, _FIRST // max(1, len(by_container)))
    return [item for items in by_container.values() for item in [*items.values()][:each]][:_FIRST]


def _first_document(connector: Connector, pool: ParserPool, limits: Limits, change: Upsert | Failure) -> FirstDocument:
    item = change.item
    if isinstance(change, Failure):
        return FirstDocument(item.locator, problem=str(change.error))
    try:
        raw = None if connector.fetch_in_parser else connector.fetch(item)
        reading = Read.decode(pool.call(limits, read, ReadTask(item, pickle.dumps(connector), raw, limits=limits)))
    except ItemError as error:
        return FirstDocument(item.locator, problem=str(error))
    document = decode_document(reading.document or b"{}")
    return FirstDocument(
        item.locator, reading.title or reading.name, reading.modified, document.text, document.properties
    )


def new_source(desk: Desk, new: NewSource) -> SourcePreview:
    """Return the content of a source that a page may add. Opens no connection to a host, which needs consent.

    Raises BadInput, Refused or SourceError.
    """
    require_no_program(new.kind)
    setting = desk.secret_setting(new.kind)
    # Some kinds are not valid without a secret. It is typed with the consent, and then read.
    connector = desk.connector(
        new.written(desk, **({setting: f"file:{desk.home.secrets / 'later'}"} if setting else {}))
    )
    if scopes := scopes_of(connector):
        return SourcePreview(None, scopes, setting)
    description = probe(connector)
    files, is_complete = _count(connector) if isinstance(connector, Watchable) else (None, True)
    return SourcePreview(description, {}, None, files, is_complete)


def sync(desk: Desk, name: str, *, deep: bool = False) -> SyncPreview:
    """Return the changes of the next sync of a source. Raises the exceptions of `make_plan`, and TookTooLong."""
    plan: Plan = _in_time(desk, name, "plan", make_plan, deep=deep)
    return SyncPreview.of(plan, _SHOWN)


def proof(desk: Desk, name: str) -> ProofPreview:
    """Compare a source with the library, item by item. Raises the exceptions of `make_plan`, and TookTooLong."""
    result: Proven = _in_time(desk, name, "prove", proofs.prove)
    return ProofPreview.of(result, most=_SHOWN)


def compared(desk: Desk, ledger: Ledger, name: str, compare: Callable[..., T], **options: Any) -> T:
    """Compare the library with a source by `make_plan` or `prove`, with its `options`. Raises the same exceptions."""
    entry = desk.entry(name)
    connector = desk.connector_here(entry)
    policy = entry.settings.policy(connector.policy)
    return compare(desk.home, ledger, known(desk, ledger, name), connector, policy, **options)


def _in_time(desk: Desk, name: str, command: str, compare: Callable[..., T], **options: bool) -> T:
    try:
        with _alone(), desk.writing() as ledger:
            return compared(desk, ledger, name, compare, seconds=SECONDS, **options)
    except Stopped:
        raise TookTooLong(
            f"{name}: not done in {SECONDS:.0f} seconds; in a terminal: catchment {command} {name}"
        ) from None


@contextmanager
def _alone() -> Iterator[None]:
    """Raise TryAgain during another plan or proof, so that they never take all threads of a process."""
    if not _LOCK.acquire(blocking=False):
        raise TryAgain("another plan or proof is being made; try again in some seconds")
    try:
        yield
    finally:
        _LOCK.release()


def _count(connector: Connector) -> tuple[tuple[FilesOfType, ...], bool]:
    """Count the files of a connector by ending. Returns whether there was time for all."""
    ends, totals, is_complete = time.monotonic() + _COUNT_SECONDS, dict[str, tuple[int, int]](), True
    for change in connector.changes(NothingKnown()):
        if isinstance(change, Upsert):
            ending = PurePosixPath(change.item.locator).suffix[1:].lower()
            number, size = totals.get(ending, (0, 0))
            totals[ending] = number + 1, size + (change.item.size or 0)
        if time.monotonic() > ends:
            is_complete = False
            break
    files = [FilesOfType(ending, *sums) for ending, sums in totals.items()]
    return tuple(sorted(files, key=lambda file_type: (-file_type.number, file_type.ending))), is_complete
