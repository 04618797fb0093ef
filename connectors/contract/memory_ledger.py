"""An in-memory ledger that handles changes like the real one, to test connectors without a database."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from catchment.contracts import Connector, Watchable, Windowed
from catchment.errors import ItemError, SkipReason
from catchment.model import Change, Checkpoint, Failure, Item, KnownItem, RawContent, Root, Skip, Tombstone, Upsert


@dataclass
class Row:
    """An item in the ledger; `number` survives moves."""

    number: int
    item: Item
    state: str = "present"
    job: bool = False
    skipped: SkipReason | None = None
    error: ItemError | None = None
    content_hash: str | None = None
    content: RawContent | None = None


@dataclass
class MemoryReport:
    """The changes and effects of one sync, by locator."""

    changes: list[Change] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    changed: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    skipped: dict[str, SkipReason] = field(default_factory=dict)
    failed: dict[str, ItemError] = field(default_factory=dict)
    fetched: set[str] = field(default_factory=set)

    @property
    def item_changes(self) -> list[Change]:
        """All changes except roots and checkpoints."""
        return [change for change in self.changes if not isinstance(change, (Root, Checkpoint))]


@dataclass
class Snapshot:
    """`Known`, as it was when the sync began."""

    rows: Mapping[str, Row]
    cursor: Mapping[str, str]
    accepted: Mapping[str, str]
    asked: list[str] = field(default_factory=list)

    def marks(self) -> Mapping[str, str]:
        return self.cursor

    def roots(self) -> Mapping[str, str]:
        return self.accepted

    def within(self, container: str) -> Mapping[str, KnownItem]:
        self.asked.append(container)
        return {
            locator: KnownItem(row.item.version, row.item.identity, row.content_hash, row.item.attributes)
            for locator, row in self.rows.items()
            if row.state == "present" and row.item.container == container
        }

    def containers(self) -> frozenset[str]:
        return frozenset(row.item.container for row in self.rows.values() if row.state == "present")

    def identities(self) -> frozenset[str]:
        return frozenset(r.item.identity for r in self.rows.values() if r.state != "deleted" and r.item.identity)


class MemoryLedger:
    """The items and marks of one source."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.marks: dict[str, str] = {}
        self.root: Mapping[str, str] = {}
        """The root of the last listing."""
        self.accepted: dict[str, str] = {}
        self._numbers = iter(range(1, 1_000_000))

    def known(self) -> Snapshot:
        return Snapshot(
            {locator: replace(row) for locator, row in self.rows.items()}, dict(self.marks), dict(self.accepted)
        )

    def present(self) -> dict[str, Row]:
        return {locator: row for locator, row in self.rows.items() if row.state == "present"}

    def documents(self) -> dict[str, bytes]:
        """Return the contents in the library by locator."""
        return {locator: row.content.data for locator, row in self.present().items() if row.content}

    def sync(
        self,
        connector: Connector,
        *,
        deep: bool = False,
        cut: int | None = None,
        fetch: bool = True,
        paths: Collection[str] | None = None,
        window: tuple[datetime, datetime] | None = None,
    ) -> MemoryReport:
        """List and fetch. `cut` interrupts the listing after that many changes: only checkpointed changes are kept.

        `paths`: list only these paths. `window`: list only this period, and do not settle missing items as deleted.
        """
        report = MemoryReport()
        pending: list[Change] = []
        listing = connector.changes(self.known(), deep=deep)
        if paths is not None:
            assert isinstance(connector, Watchable)
            listing = connector.changes_at(self.known(), paths)
        if window is not None:
            assert isinstance(connector, Windowed)
            listing = connector.changes_between(self.known(), *window)
        for change in islice(listing, cut):
            report.changes.append(change)
            match change:
                case Root(identities=identities):
                    self.root = identities
                    self.accepted = {**identities, **self.accepted}
                case Checkpoint(marks=marks):
                    self._record(pending, report)
                    self._mark(marks)
                    pending = []
                case _:
                    pending.append(change)
        if cut is None and window is None:
            for row in self.rows.values():
                if row.state == "missing":
                    row.state, row.job = "deleted", False
            self.accepted = dict(self.root)
        if fetch:
            self._work(connector, report)
        return report

    def _mark(self, marks: Mapping[str, str | None]) -> None:
        for key, value in marks.items():
            if value is None:
                self.marks.pop(key, None)
            else:
                self.marks[key] = value

    def _record(self, changes: Iterable[Change], report: MemoryReport) -> None:
        for change in changes:
            match change:
                case Upsert(item=item, came_from=came_from):
                    self._upsert(item, came_from, report)
                case Skip(item=item, reason=reason):
                    row = self._row(item)
                    row.item, row.job, row.skipped, row.content = item, False, reason, None
                    report.skipped[item.locator] = reason
                case Failure(item=item, error=error):
                    row = self._row(item)
                    row.item, row.error = item, error
                    report.failed[item.locator] = error
                case Tombstone(locator=locator):
                    self.rows[locator].state = "missing"
                    report.deleted.add(locator)

    def _row(self, item: Item) -> Row:
        row = self.rows.setdefault(item.locator, Row(next(self._numbers), item))
        row.state = "present"
        return row

    def _upsert(self, item: Item, came_from: str | None, report: MemoryReport) -> None:
        row = self.rows.get(item.locator)
        if row and row.state == "present" and row.item.version == item.version:
            row.item = item
            return
        moved = None if row else self._came(came_from) or self._missing(item.identity)
        if moved:
            report.moved[moved.item.locator] = item.locator
            report.deleted.discard(moved.item.locator)
            del self.rows[moved.item.locator]
            moved.job = moved.job or moved.item.identity != item.identity
            moved.item, moved.state, moved.skipped = item, "present", None
            self.rows[item.locator] = moved
            return
        (report.changed if row and row.state == "present" else report.new).add(item.locator)
        row = self._row(item)
        row.item, row.job, row.skipped, row.error = item, True, None, None

    def _came(self, locator: str | None) -> Row | None:
        row = self.rows.get(locator) if locator else None
        return row if row and row.state == "missing" else None

    def _missing(self, identity: str | None) -> Row | None:
        rows = (row for row in self.rows.values() if row.state == "missing" and row.item.identity == identity)
        return next(rows, None) if identity else None

    def _work(self, connector: Connector, report: MemoryReport) -> None:
        for locator, row in self.present().items():
            if row.job:
                try:
                    row.content = connector.fetch(row.item)
                except ItemError as error:
                    row.error = report.failed[locator] = error
                else:
                    row.content_hash = hashlib.sha256(row.content.data).hexdigest()
                    row.job = False
                    report.fetched.add(locator)
