"""A ledger, a clock that the test moves, and shorthands for the actions of a connector and a pipeline."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from catchment.errors import FailureClass, Reason
from catchment.ledger import (
    Acks,
    Batch,
    ClaimedJob,
    Delivered,
    FailureInfo,
    IntakeCounts,
    Ledger,
    Settled,
    Source,
    Sync,
)
from catchment.ledger.db.database import Store
from catchment.model import (
    Chunk,
    Document,
    Entity,
    EntityKind,
    Extraction,
    Failure,
    Item,
    Link,
    Priority,
    Skip,
    Tombstone,
    Upsert,
)
from catchment.pacing.boot_clock import ClockReading
from tests.hits import find_hits

START = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NORMALIZER = "1"


class Clock:
    """Seconds since 1970 under test control: `forward` lets time pass, `set` changes the system clock."""

    def __init__(self) -> None:
        self.now = START.timestamp()
        self.boot, self.up = "first", 1_000.0

    def __call__(self) -> float:
        return self.now

    def forward(self, **by: float) -> None:
        self.set(**by)
        self.up += timedelta(**by).total_seconds()

    def set(self, **by: float) -> None:
        self.now += timedelta(**by).total_seconds()

    def reboot(self) -> None:
        """Reboot the machine; the time that it was off is unknown."""
        self.boot, self.up = f"after {self.boot}", 10.0

    def steady(self) -> ClockReading:
        """The monotonic clock."""
        return ClockReading(self.boot, int(self.up * 1_000_000))

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)


def note(locator: str, version: str = "v1", identity: str | None = None, **more: object) -> Item:
    """Return a file `locator` in its folder."""
    return Item(locator, locator.rpartition("/")[0], version, identity, **more)  # type: ignore[arg-type]


def content(text: str) -> str:
    """Return the hash of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def delivered(
    job_id: int,
    text: str,
    *,
    title: str = "a title",
    links: Sequence[Link] = (),
    entities: Sequence[Entity] = (),
    metadata: Mapping[str, object] | None = None,
) -> Delivered:
    """Return a job that became a document with this text in one chunk."""
    chunks = (Chunk(0, len(text), "Heading"),) if text else ()
    return Delivered(
        job_id,
        content(text),
        NORMALIZER,
        Document(text, "text/markdown"),
        Extraction(chunks, tuple(links), tuple(entities)),
        title,
        None,
        metadata or {},
    )


def killed_when_giving_way(monkeypatch: pytest.MonkeyPatch, time: int) -> None:
    """Let waiting writers write whenever a long operation yields, and kill the operation at yield number `time`, from
    1.
    """
    ways = count(1)

    def let_others_write(store: Store) -> None:
        with store.write() as writing:
            writing.ids("token")
        if next(ways) == time:
            raise KeyboardInterrupt

    monkeypatch.setattr(Store, "let_others_write", let_others_write)


PARSE_ERROR = FailureInfo(Reason.PARSE_ERROR, FailureClass.PERMANENT, "ParseError", "The file is damaged")
TIMEOUT = FailureInfo(Reason.TIMEOUT, FailureClass.TRANSIENT, "TimedOut", "It took 60 s", retry_helps=True)


@dataclass
class World:
    """One source in one ledger, with an open sync."""

    url: str
    clock: Clock
    ledger: Ledger
    source: Source = field(init=False)
    sync: Sync = field(init=False)

    def __post_init__(self) -> None:
        self.source = self.ledger.sources.put("notes", "obsidian", Priority.NORMAL)
        self.sync = self.begin()

    def begin(self, source: Source | None = None) -> Sync:
        chosen = source or self.source
        return self.ledger.syncs.begin(chosen.id, run="run-1", owner="worker", code_version="1", alive=lambda _: False)

    def reopen(self) -> None:
        """Reopen the ledger as after a crash: only the file survives."""
        self.ledger.close()
        self.ledger = Ledger.open(self.url, clock=self.clock, monotonic=self.clock.steady)

    def record(self, *changes: Upsert | Tombstone | Skip | Failure, **marks: str | None) -> IntakeCounts:
        return self.ledger.intake.record(self.sync.id, changes, marks)

    def see(self, *items: Item) -> IntakeCounts:
        return self.record(*map(Upsert, items))

    def lose(self, *locators: str) -> IntakeCounts:
        return self.record(*map(Tombstone, locators))

    def settle(self, *, changed_roots: Sequence[str] = ()) -> Settled:
        return self.ledger.intake.settle(self.sync.id, changed_roots=changed_roots)

    def sees_root(self, identity: str, name: str = "") -> list[str]:
        return self.ledger.sources.changed_roots(self.sync.id, {name: identity})

    def claim(self, limit: int = 100, *, owner: str = "worker", **which: object) -> Batch:
        return self.ledger.queue.claim(self.source.id, limit, owner=owner, **which)  # type: ignore[arg-type]

    def deliver(self, batch: Batch, text: str | None = None) -> Acks:
        """Deliver every job of a batch, each with a unique text unless `text` is given."""
        return self.ledger.queue.deliver(batch.token, [self.done(job, text) for job in batch.jobs])

    def done(self, job: ClaimedJob, text: str | None = None) -> Delivered:
        name = job.item.locator.rpartition("/")[2].removesuffix(".md")
        words = text or f"What {name} says in {job.item.version}"
        done = delivered(job.id, words, title=name, entities=[Entity(EntityKind.TAG, f"Übung/{job.item.version}")])
        return replace(done, modified=job.item.modified)

    def ingest(self, *items: Item, text: str | None = None) -> None:
        """Bring these items completely into the library."""
        self.see(*items)
        self.deliver(self.claim(10_000), text)

    def found(self, words: str) -> list[str]:
        """Return the locators of the search hits."""
        return [hit.item for hit in find_hits(self.ledger, words)]

    def expire(self) -> None:
        """Purge the deleted documents, as if their time were over."""
        self.ledger.sources.put(self.source.name, self.source.kind, self.source.priority, keep_days=0)
        self.ledger.intake.purge()

    def state(self, job_id: int) -> str:
        return self.ledger.queue.job(job_id).state.value

    def events(self, job_id: int) -> list[str]:
        return [event.event for event in self.ledger.history.of_job(job_id)]

    def item_events(self, locator: str) -> list[str]:
        return [event.event for event in self.ledger.history.of_item(self.ledger.intake.find(locator)[0].id)]


def jobs_of(batch: Batch) -> list[int]:
    return [job.id for job in batch.jobs]


def locators(batch: Batch) -> list[str]:
    return [job.item.locator for job in batch.jobs]


def notes(count: int, start: int = 0, folder: str = "n") -> Iterable[Item]:
    """Return items n/0.md, n/1.md, …, each with its own identity."""
    return [note(f"{folder}/{n}.md", identity=f"{folder}{n}") for n in range(start, start + count)]
