"""The base `Listing`: what a connector of everyday size gets from it."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest

from catchment.contracts import Connected, Manifest, NothingKnown, Parsing, parse_here
from catchment.errors import (
    AccessDenied,
    ItemError,
    LoginFailed,
    ParseError,
    ProcessKilled,
    SourceError,
    SourceInvalid,
    SourceUnavailable,
    StillChanging,
    TimedOut,
    Vanished,
)
from catchment.model import Checkpoint, Root, Tombstone, Upsert
from catchment.settings import SourceSettings
from connectors.contract.memory_ledger import MemoryLedger
from connectors.listing import Entry, Listing

MOMENT = datetime(2026, 11, 30, tzinfo=UTC)


class Heap(Listing):
    """A source in memory. `contents` has what `read` returns, by name."""

    kind: ClassVar[str] = "heap"
    manifest: ClassVar[Manifest] = Manifest("Heap", "a heap")
    settings: ClassVar[type[SourceSettings]] = SourceSettings

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.entered: list[Entry] = []
        self.contents: dict[str, bytes] = {}
        self.error: Exception | None = None
        self.listings = 0

    def entries(self) -> Iterator[Entry]:
        self.listings += 1
        yield from self.entered
        if self.error:
            raise self.error

    def read(self, entry: Entry) -> bytes:
        return self.contents[entry.name]


def heap(*entries: Entry, **texts: str) -> Heap:
    made = Heap(SourceSettings())
    made.entered = [*entries, *(Entry(f"{name}.txt", text.encode()) for name, text in texts.items())]
    return made


def test_changes_have_deletions_before_new_items() -> None:
    connector, ledger = heap(a="1", b="2"), MemoryLedger()
    ledger.sync(connector)
    connector.entered = [Entry("c.txt", b"3"), Entry("b.txt", b"2")]
    changes = list(connector.changes(ledger.known()))
    assert changes == [Root({"": "heap"}), Tombstone("a.txt"), Upsert(Entry("c.txt", b"3").item), Checkpoint()]


@pytest.mark.parametrize(
    "later",
    [
        Entry("a.txt", b"2"),
        Entry("a.txt", b"1", title="A"),
        Entry("a.txt", b"1", modified=MOMENT),
        Entry("a.txt", b"1", metadata={"url": "https://example.org/"}),
        Entry("a.txt", b"1", version="2"),
    ],
)
def test_whatever_a_document_shows_is_part_of_the_version(later: Entry) -> None:
    connector, ledger = heap(a="1"), MemoryLedger()
    ledger.sync(connector)
    connector.entered = [later]
    assert ledger.sync(connector).changed == {"a.txt"}
    raw = connector.fetch(later.item)
    assert (raw.data, raw.title, raw.modified, raw.metadata) == (
        later.content,
        later.title,
        later.modified,
        later.metadata,
    )


def test_order_of_metadata_does_not_matter() -> None:
    assert Entry("a", b"", metadata={"x": 1, "y": 2}).item == Entry("a", b"", metadata={"y": 2, "x": 1}).item


def test_renamed_entry_with_an_identity_is_moved_and_not_read_again() -> None:
    connector, ledger = heap(Entry("old.txt", version="1", identity="7@1")), MemoryLedger()
    connector.contents = {"old.txt": b"text"}
    ledger.sync(connector)
    connector.entered = [Entry("new.txt", version="1", identity="7@1")]
    report = ledger.sync(connector)
    assert (report.moved, report.fetched, report.deleted) == ({"old.txt": "new.txt"}, set(), set())


def test_entry_without_content_is_read_when_it_is_fetched() -> None:
    connector = heap(Entry("2026/a.txt", version="1"))
    (item,) = [change.item for change in connector.changes(NothingKnown()) if isinstance(change, Upsert)]
    assert item.size is None
    connector.contents = {"2026/a.txt": b"text"}
    raw = connector.fetch(item)
    assert (raw.name, raw.data) == ("a.txt", b"text")
    assert connector.listings == 1


def test_fetch_lists_once_without_a_listing_and_refuses_other_versions() -> None:
    connector = heap(a="1")
    assert connector.fetch(Entry("a.txt", b"1").item).data == b"1"
    with pytest.raises(Vanished, match="; the next sync"):
        connector.fetch(Entry("b.txt", b"1").item)
    with pytest.raises(StillChanging, match="; the next sync"):
        connector.fetch(Entry("a.txt", b"0").item)
    assert connector.listings == 1


def test_empty_source_is_listed_once() -> None:
    connector = heap()
    for _ in range(3):
        with pytest.raises(Vanished):
            connector.fetch(Entry("a.txt", b"1").item)
    assert connector.listings == 1


def test_fetch_during_a_listing_hides_no_entry() -> None:
    connector, ledger = heap(a="1", b="2", c="3"), MemoryLedger()
    listing = connector.changes(ledger.known())
    assert next(listing) == Root({"": "heap"})
    assert next(listing) == Upsert(Entry("a.txt", b"1").item)
    connector.close()
    assert connector.fetch(Entry("c.txt", b"3").item).data == b"3"
    assert [change.item.locator for change in listing if isinstance(change, Upsert)] == ["b.txt", "c.txt"]


def test_fetch_waits_for_the_listing_of_another_thread() -> None:
    connector, is_listing, may_end = heap(a="1"), threading.Event(), threading.Event()

    def entries() -> Iterator[Entry]:
        connector.listings += 1
        is_listing.set()
        may_end.wait(30)
        yield Entry("a.txt", b"1")

    connector.entries = entries  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: list(connector.changes(NothingKnown())))
    thread.start()
    is_listing.wait(30)
    threading.Timer(0.05, may_end.set).start()
    assert connector.fetch(Entry("a.txt", b"1").item).data == b"1"
    thread.join(30)
    assert connector.listings == 1


@pytest.mark.parametrize(
    ("error", "becomes"),
    [
        (ParseError("damaged; export it again"), SourceInvalid),
        (AccessDenied("not permitted; ask for access"), SourceInvalid),
        (Vanished("not found; correct the address"), SourceUnavailable),
        (TimedOut("no progress; try again"), SourceUnavailable),
        (ProcessKilled("killed; try again"), SourceUnavailable),
        (LoginFailed("login refused; correct it"), LoginFailed),
    ],
)
def test_error_of_a_listing_concerns_the_source_and_deletes_nothing(
    error: ItemError | SourceError, becomes: type[SourceError]
) -> None:
    connector, ledger = heap(a="1", b="2"), MemoryLedger()
    ledger.sync(connector)
    connector.entered, connector.error = [Entry("a.txt", b"changed")], error
    for call in (connector.probe, lambda: ledger.sync(connector)):
        with pytest.raises(becomes, match=f"{error}$"):
            call()
    assert ledger.documents() == {"a.txt": b"1", "b.txt": b"2"}
    connector.error = None
    assert ledger.sync(connector).deleted == {"b.txt"}


def test_instance_is_pickled_as_its_settings() -> None:
    connector = heap(a="1")
    list(connector.changes(NothingKnown()))
    connector.parse = lambda *_: None  # type: ignore[assignment]
    copy = pickle.loads(pickle.dumps(connector))
    assert (copy.configured, copy.listings, copy.parse) == (connector.configured, 0, parse_here)


def test_base_has_the_protocols_that_the_engine_looks_for() -> None:
    connector = heap(a="1")
    assert isinstance(connector, Connected)
    assert isinstance(connector, Parsing)
    connector.expect([])
    assert connector.probe() == "1 entry"
    connector.entered = [Entry(str(number), b"") for number in range(1_200)]
    assert connector.probe() == "1,200 entries"


def test_entry_that_changed_in_a_batch_is_not_asked_for_again() -> None:
    class Changing(Listing):
        calls = 0

        def entries(self) -> Iterator[Entry]:
            for name in ("a", "b", "c"):
                yield Entry(name, version="1")

        def read_several(self, entries: Sequence[Entry]) -> Mapping[str, bytes | None]:
            self.calls += 1
            return {entry.name: b"content" if entry.name == "c" else None for entry in entries}

    made = Changing(SourceSettings())
    items = [entry.item for entry in made._list().values()]
    made.expect(items)
    for item in items[:2]:
        with pytest.raises(StillChanging):
            made.fetch(item)
    assert made.fetch(items[2]).data == b"content"
    assert made.calls == 1
