"""The outbox: every change of a document is noted for every sink, and only while there is a sink."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import update

from catchment.errors import BadInput, NotFound
from catchment.ledger import LAST_ID, Ledger, SinkRow, SinkState
from catchment.ledger.admin import backup
from catchment.ledger.db.schema import search_model
from catchment.search.meaning.fill import fill
from tests.engine.test_purge import Hashes
from tests.ledger.world import World, note, notes

pytestmark = pytest.mark.databases


def _sink(world: World, name: str = "copy") -> SinkRow:
    """Add a sink that has received everything."""
    sink = world.ledger.outbox.add(name, "folder", "/nowhere", None, "operator:anna")
    return _received(world, world.ledger.outbox.compare(sink, "a stamp"))


def _received(world: World, sink: SinkRow) -> SinkRow:
    changed, position = world.ledger.outbox.changes(sink, 1_000)
    return world.ledger.outbox.received(sink, changed, {}, position=position, compared=LAST_ID)


def _changed(world: World, sink: SinkRow) -> set[int]:
    return set(world.ledger.outbox.changes(sink, 1_000)[0])


def test_library_without_sinks_notes_nothing(world: World) -> None:
    world.ingest(*notes(3))
    sink = _sink(world)
    assert (sink.waiting, world.ledger.outbox.due()) == (0, [])
    world.ledger.outbox.remove("copy", "operator:anna")
    world.ingest(*notes(3, 3))
    again = world.ledger.outbox.add("copy", "folder", "/nowhere", None, "operator:anna")
    assert _changed(world, again) == set()
    assert again.waiting == 6, "the whole library is compared with a new sink"


def test_each_change_of_a_document_is_noted_once(world: World) -> None:
    world.ingest(*notes(4))
    sink = _sink(world)
    world.ingest(note("n/0.md", "v2", "n0"), note("n/new.md"))
    world.ingest(note("n/0.md", "v3", "n0"))
    world.lose("n/1.md")
    world.settle()
    assert _changed(world, sink) == {1, 2, 5}
    assert world.ledger.outbox.get("copy").waiting == 3
    sink = _received(world, sink)
    assert (sink.waiting, sink.current) == (0, None)
    assert world.ledger.outbox.caught_up(sink).current == world.clock.moment


def test_undo_and_purge_are_noted(world: World) -> None:
    world.ingest(*notes(3))
    world.ledger.syncs.end(world.sync.id, "completed", {})
    sink = _sink(world)
    world.sync = world.begin()
    world.ingest(note("n/0.md", "v2", "n0"))
    world.ledger.syncs.end(world.sync.id, "completed", {})
    sink = _received(world, sink)
    world.ledger.undo.undo(world.sync.id, "anna", "a mistake", lambda _: True)
    assert _changed(world, sink) == {1}
    sink = _received(world, sink)
    assert sum(world.ledger.purging.items(world.source.id, lambda _: True)) == 3
    assert _changed(world, sink) == {1, 2, 3}
    assert world.ledger.outbox.documents([1, 2, 3]) == []


def test_sink_that_is_behind_keeps_what_another_has_received(world: World) -> None:
    one, two = _sink(world, "one"), _sink(world, "two")
    world.ingest(*notes(2))
    one = _received(world, one)
    assert (_changed(world, one), _changed(world, two)) == (set(), {1, 2})
    world.ingest(note("n/0.md", "v2", "n0"))
    assert (_changed(world, one), _changed(world, two)) == ({1}, {1, 2})


def test_change_while_a_batch_is_sent_is_sent_again(world: World) -> None:
    sink = _sink(world)
    world.ingest(*notes(2))
    changed, position = world.ledger.outbox.changes(sink, 1_000)
    world.ingest(note("n/0.md", "v2", "n0"))
    sink = world.ledger.outbox.received(sink, changed, {}, position=position)
    assert _changed(world, sink) == {1}


def test_refused_documents_are_kept_with_their_reason_until_they_are_accepted(world: World) -> None:
    sink = _sink(world)
    world.ingest(*notes(2))
    changed, position = world.ledger.outbox.changes(sink, 1_000)
    sink = world.ledger.outbox.received(sink, changed, {2: "too long"}, position=position)
    assert (sink.refused, world.ledger.outbox.refusals(sink)) == (1, {2: "too long"})
    world.ingest(note("n/1.md", "v2", "n1"))
    assert _received(world, sink).refused == 0


def test_paused_sink_and_failed_sink_wait(world: World) -> None:
    sink = _sink(world)
    world.ingest(*notes(1))
    assert world.ledger.outbox.due() == ["copy"]
    world.ledger.outbox.set_state("copy", SinkState.PAUSED, "operator:anna")
    assert world.ledger.outbox.due() == []
    world.ledger.outbox.set_state("copy", SinkState.ACTIVE, "operator:anna")
    assert world.ledger.outbox.get("copy").compared == 0
    world.ledger.outbox.failed(sink, "away")
    assert world.ledger.outbox.due() == []
    world.clock.forward(seconds=16)
    assert world.ledger.outbox.due() == ["copy"]


def test_check_finds_a_sink_without_triggers(sqlite_world: World) -> None:
    _sink(sqlite_world)
    assert sqlite_world.ledger.check() == []
    with sqlite_world.ledger._store.write() as writing:
        writing.connection.exec_driver_sql("DROP TRIGGER outbox_update")
    assert sqlite_world.ledger.check() == ["There is a sink, but changes of documents are not noted for it"]


def test_embeddings_are_noted_for_a_sink_that_wants_them(world: World) -> None:
    world.ingest(*notes(2))
    outbox = world.ledger.outbox
    sink = outbox.add("copy", "chroma", "http://nowhere/copy", None, "operator:anna", wants_vectors=True)
    sink = _received(world, outbox.compare(sink, "a stamp"))
    before = outbox.versions(0, 10, vectors=True)
    fill(world.ledger, Hashes())
    assert _changed(world, sink) == {1, 2}
    assert outbox.versions(0, 10) == before
    assert not outbox.versions(0, 10, vectors=True).items() & before.items()
    assert [len(document.vectors) for document in outbox.documents([1, 2], vectors=True)] == [1, 1]
    with world.ledger._store.write() as writing:
        writing.execute(update(search_model).values(space_id=search_model.c.space_id))
    assert outbox.get("copy").compared == 0, "after a change of the model, all documents are compared"


def test_names_are_unique_and_known(world: World) -> None:
    _sink(world)
    with pytest.raises(BadInput, match="copy: a sink with this name exists"):
        _sink(world)
    with pytest.raises(NotFound, match="did you mean copy"):
        world.ledger.outbox.remove("coppy", "operator:anna")


def test_restored_library_is_compared_with_each_sink(sqlite_world: World, tmp_path: Path) -> None:
    world = sqlite_world
    _sink(world)
    world.ledger.back_up(tmp_path / "backup.db", {})
    world.ledger.close()
    file = Path(world.url.removeprefix("sqlite:///"))
    backup.restore(f"sqlite:///{file}", tmp_path / "backup.db")
    with closing(Ledger.open(world.url)) as ledger:
        assert ledger.outbox.get("copy").compared == 0
    world.reopen()
