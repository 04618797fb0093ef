"""The status that the ledger reports for a proof, and its repair, on either database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from catchment.errors import SkipReason
from catchment.ledger.admin.proof import ItemStatus
from catchment.model import Skip
from catchment.sync.prove import _digest
from tests.ledger.world import PARSE_ERROR, World, note, notes

pytestmark = pytest.mark.databases

INDEXES = ("chunk_index", "document_index")


def harm(world: World, *statements: str) -> None:
    with world.ledger._store.write() as writing:
        for statement in statements:
            writing.execute(text(statement))


def standings(world: World) -> dict[str, ItemStatus]:
    return {item.locator: item.status for item in world.ledger.proof.items(world.source.id)}


def test_every_item_has_a_status(world: World) -> None:
    world.ingest(*notes(3), note("twice.md"))
    world.see(note("bad.md"), note("later.md"))
    batch = world.claim(1)
    world.ledger.queue.fail(batch.token, batch.jobs[0].id, PARSE_ERROR, retry_at=None)
    world.record(Skip(note("big.bin"), SkipReason.TOO_LARGE))
    world.lose("n/2.md")
    assert standings(world) == {
        "n/0.md": ItemStatus.STORED,
        "n/1.md": ItemStatus.STORED,
        "n/2.md": ItemStatus.HELD,
        "twice.md": ItemStatus.STORED,
        "bad.md": ItemStatus.QUARANTINED,
        "later.md": ItemStatus.WAITING,
        "big.bin": ItemStatus.SKIPPED,
    }


@pytest.fixture
def harmed(world: World) -> Iterator[World]:
    """A ledger with an empty search index; consistent again at the end."""
    world.ingest(*notes(3), note("tea.md"), text="四月の湧水")
    world.ingest(note("plain.md"))
    if world.url.startswith("sqlite"):
        harm(world, *(f"INSERT INTO {index} ({index}) VALUES ('delete-all')" for index in INDEXES))
    else:
        harm(world, *(f"DELETE FROM {index}" for index in INDEXES))
    assert world.found("plain") == []
    yield world
    assert world.ledger.check(deep=True) == []


def test_empty_index_is_reported_and_rebuilt(harmed: World) -> None:
    proof = harmed.ledger.proof
    assert proof.index(harmed.source.id) == [
        "2 passages are not in the index",
        "5 names of documents are not in the index",
    ]
    proof.rebuild_index()
    assert proof.index(harmed.source.id) == []
    assert harmed.found("plain") == ["plain.md"]
    assert len(harmed.found("湧水")) == 1, "in the index of word parts, too"


def test_items_marked_for_rereading_are_treated_as_unknown(world: World) -> None:
    world.ingest(note("a.md"), note("b.md"), text="The same words")
    [kept] = next(iter(world.ledger.proof.contents(world.source.id)))
    assert (kept.document.text, len(kept.chunks)) == ("The same words", 1)
    harm(world, "UPDATE chunks SET stop = 3")
    mine = [item.id for item in world.ledger.proof.items(world.source.id) if item.locator == "a.md"]
    assert world.ledger.proof.read_again(world.sync.id, mine, {kept.id}, "anna") == 1
    assert standings(world) == {"a.md": ItemStatus.WAITING, "b.md": ItemStatus.STORED}
    world.deliver(world.claim(), "The same words")
    assert standings(world) == {"a.md": ItemStatus.STORED, "b.md": ItemStatus.STORED}
    lengths = {one.chunks[0].end for part in world.ledger.proof.contents(world.source.id) for one in part}
    assert lengths == {3, len("The same words")}, "the other item's is as it was until it is read again, too"


def test_digest_covers_paths_and_contents_but_not_order() -> None:
    rows = [("a", "1"), ("b", "2"), ("c", None)]
    assert _digest(rows) == _digest(rows[::-1]) != _digest([("a", "2"), ("b", "1")])
    assert _digest([("c", None)]) == ""
