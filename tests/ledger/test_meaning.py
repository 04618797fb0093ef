"""Embeddings on a real ledger with the built-in model: making, finding, following and deleting them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from catchment.errors import MeaningOff
from catchment.ledger import EmbeddingCounts, Embeddings, Passage, Space
from catchment.ledger.admin import backup
from catchment.ledger.db.database import Store, Writing, as_map
from catchment.ledger.db.schema import chunks, contents, embeddings, spaces, title_embeddings
from catchment.ledger.library.embeddings import FEW, damaged
from catchment.model import ASIDE, Chunk, Priority, Upsert
from catchment.search.meaning.builtin import BuiltIn
from catchment.search.meaning.fill import fill, parts
from catchment.search.meaning.index import MeaningIndex
from catchment.search.meaning.models import Model, Refusal
from catchment.search.meaning.vectors import Near, Vectors
from catchment.search.results import Lanes
from catchment.search.search import search
from tests.ledger.test_undo import FOREVER, next_sync, undo
from tests.ledger.world import World, content, delivered, note

NOTES = {
    "recovery.md": "File recovery. Restore a previous version of a note from a snapshot.",
    "bees.md": "The hive needs more room before the flowering season. Add a box with empty frames.",
    "fluss.md": "Der Fluss ist nach dem Regen über die Ufer getreten.",
}


@pytest.fixture(scope="module")
def model() -> BuiltIn:
    return BuiltIn()


class Counting:
    """The built-in model, counting the texts that it embeds. `fails_after`: texts until it fails."""

    def __init__(self, model: BuiltIn, fails_after: int = 1_000_000) -> None:
        self.model, self.texts, self.fails_after = model, list[str](), fails_after
        self.setting, self.name, self.dimensions = model.setting, model.name, model.dimensions

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        if len(self.texts) + len(texts) > self.fails_after:
            raise KeyboardInterrupt
        self.texts += texts
        return self.model.passages(texts)

    def query(self, text: str) -> Sequence[float]:
        return self.model.query(text)


class Cheap:
    """A model that is ready at once and counts the texts that it embeds."""

    setting = "use"

    def __init__(self, name: str, dimensions: int = 4) -> None:
        self.name, self.dimensions, self.texts = name, dimensions, list[str]()

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        self.texts += texts
        return [bytes([len(text) % 100] * self.dimensions) for text in texts]

    def query(self, text: str) -> Sequence[float]:
        raise NotImplementedError


class Another(Counting):
    """A model of another version."""

    def __init__(self, model: BuiltIn) -> None:
        super().__init__(model)
        self.name = "another"


class Refusing(Counting):
    """A model that refuses texts about bees."""

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        return [
            Refusal("no bees") if "hive" in text else vector
            for text, vector in zip(texts, super().passages(texts), strict=True)
        ]


def fill_once(world: World, model: Model) -> None:
    """Fill until the first transaction, and end there as by Ctrl-C."""

    def end(_: EmbeddingCounts) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(world.ledger, model, end)


def killed_before_commit(monkeypatch: pytest.MonkeyPatch, time: int) -> None:
    """Interrupt the transaction number `time`, from 1, after its changes and before its commit."""
    write, times = Store.write, count(1)

    @contextmanager
    def interrupted(store: Store) -> Iterator[Writing]:
        with write(store) as writing:
            yield writing
            if next(times) == time:
                raise KeyboardInterrupt

    monkeypatch.setattr(Store, "write", interrupted)


def put(world: World, texts: dict[str, str]) -> None:
    for locator, text in texts.items():
        world.see(note(locator, content(text)))
        batch = world.claim()
        world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, text, title=locator)])


def put_chunks(world: World, text: str, *chunks: Chunk) -> None:
    """Deliver a document with these chunks."""
    world.see(note("a.md", content(text)))
    batch = world.claim()
    done = delivered(batch.jobs[0].id, text)
    assert done.extraction is not None
    world.ledger.queue.deliver(batch.token, [replace(done, extraction=replace(done.extraction, chunks=chunks))])


def texts(world: World, found: Sequence[Near]) -> list[str]:
    """Return the locators of contents that were found."""
    named = {content(text): locator for locator, text in NOTES.items()}
    with world.ledger._store.read() as reading:
        hashes = as_map(reading.execute(select(contents.c.id, contents.c.hash)))
    return [named[hashes[near.content_id]] for near in found]


@pytest.mark.databases
def test_texts_are_found_by_meaning_in_other_words_and_languages(world: World, model: BuiltIn) -> None:
    put(world, NOTES)
    assert fill(world.ledger, model) == EmbeddingCounts(3, 3, 0)
    meaning = MeaningIndex(world.ledger)
    for query, first in (
        ("how do I get a deleted document back", "recovery.md"),
        ("beekeeping in spring", "bees.md"),
        ("flooding", "fluss.md"),
    ):
        found = meaning.nearest(query, 3)
        assert texts(world, found)[0] == first
        assert [near.cosine for near in found] == sorted((near.cosine for near in found), reverse=True)


def test_only_the_given_contents_are_found(world: World, model: BuiltIn) -> None:
    put(world, NOTES)
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    best = meaning.nearest("beekeeping", 1)[0]
    others = {near.content_id for near in meaning.nearest("beekeeping", 3)} - {best.content_id}
    assert {near.content_id for near in meaning.nearest("beekeeping", 3, others)} == others
    assert meaning.nearest("beekeeping", 3, []) == []


def test_related_contents_exclude_the_content_itself(world: World, model: BuiltIn) -> None:
    put(world, {**NOTES, "box.md": "Bees: the colony swarmed, because the hive was too small."})
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    bees = meaning.nearest("Add a box with empty frames before the season", 1)[0].content_id
    related = meaning.related(bees, 10)
    assert len(related) == 3 and bees not in {near.content_id for near in related}
    assert related[0].content_id == meaning.nearest("the colony swarmed", 1)[0].content_id
    assert meaning.related(12_345, 10) == []


@pytest.mark.databases
def test_new_and_deleted_embeddings_are_followed(world: World, model: BuiltIn) -> None:
    put(world, {"bees.md": NOTES["bees.md"]})
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    assert texts(world, meaning.nearest("flood", 5)) == ["bees.md"]
    put(world, {"fluss.md": NOTES["fluss.md"]})
    assert texts(world, meaning.nearest("flood", 5)) == ["bees.md"]
    fill(world.ledger, model)
    assert texts(world, meaning.nearest("flood", 5)) == ["fluss.md", "bees.md"]
    for _ in world.ledger.purging.items(world.source.id, lambda locator: locator == "fluss.md"):
        pass
    assert texts(world, meaning.nearest("flood", 5)) == ["bees.md"]
    with world.ledger._store.read() as reading:
        assert reading.execute(select(func.count()).select_from(embeddings)).scalar_one() == 1
    left = world.ledger.purging.left(world.source.id, lambda locator: locator == "fluss.md", whole=False)
    assert left["embeddings"] == 0


def stored(world: World) -> int:
    """Return the number of stored vectors. Each has to belong to a passage."""
    with world.ledger._store.read() as reading:
        owned = select(chunks.c.id).where(chunks.c.id == embeddings.c.chunk_id).exists()
        assert reading.execute(select(func.count()).select_from(embeddings).where(~owned)).scalar_one() == 0
        return int(reading.execute(select(func.count()).select_from(embeddings)).scalar_one())


def found(world: World, query: str) -> list[str]:
    """Return the documents that a search by meaning alone finds."""
    meaning = MeaningIndex(world.ledger)
    hits = search(world.ledger, query, world.clock.moment, meaning=meaning, lanes=Lanes.MEANING).hits
    return [hit.item for hit in hits]


@pytest.mark.databases
def test_undo_of_a_deletion_needs_no_new_vectors(world: World, model: BuiltIn) -> None:
    put(world, NOTES)
    counting = Counting(model)
    fill(world.ledger, counting)
    next_sync(world)
    world.lose("fluss.md")
    world.settle()
    deletion = next_sync(world)
    assert "fluss.md" not in found(world, "flooding")
    assert stored(world) == 3, "an undo needs it"
    undo(world, deletion)
    assert found(world, "flooding")[0] == "fluss.md"
    fill(world.ledger, counting)
    assert len(counting.texts) == 2 * 3 + 1, "an undo embeds nothing again but the name"
    assert counting.texts[-1] == "fluss.md"


@pytest.mark.databases
def test_old_version_loses_its_vectors_when_its_undo_data_expire(world: World, model: BuiltIn) -> None:
    put(world, {"bees.md": NOTES["bees.md"]})
    fill(world.ledger, model)
    next_sync(world)
    put(world, {"bees.md": "The accounts of the year are closed."})
    fill(world.ledger, model)
    next_sync(world)
    assert stored(world) == 2
    world.clock.forward(days=100)
    world.ledger.undo.purge(timedelta(days=30), FOREVER)
    assert stored(world) == 1
    assert found(world, "annual bookkeeping accounts") == ["bees.md"]


@pytest.mark.databases
def test_removed_source_takes_its_vectors_along(world: World, model: BuiltIn) -> None:
    put(world, NOTES)
    other = world.ledger.sources.put("other", "obsidian", Priority.NORMAL)
    sync = world.begin(other)
    world.ledger.intake.record(sync.id, [Upsert(note("copy.md", content(NOTES["bees.md"])))], {})
    batch = world.ledger.queue.claim(other.id, 1, owner="worker")
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, NOTES["bees.md"])])
    fill(world.ledger, model)
    assert stored(world) == 3
    world.ledger.sources.remove("notes", "anna", "no longer needed")
    assert stored(world) == 1
    assert found(world, "a box for the bees") == ["copy.md"]


def test_backup_and_restore_keep_the_vectors(sqlite_world: World, model: BuiltIn, tmp_path: Path) -> None:
    world = sqlite_world
    put(world, NOTES)
    fill(world.ledger, model)
    world.ledger.back_up(tmp_path / "copy.db", {"sources.yaml": b"deployments: []\n"})
    world.ledger.sources.remove("notes", "anna", "by mistake")
    assert stored(world) == 0
    world.ledger.close()
    assert backup.restore(Path(world.url.removeprefix("sqlite:///")), tmp_path / "copy.db").broken == []
    world.reopen()
    assert stored(world) == 3
    assert found(world, "flooding")[0] == "fluss.md"
    assert fill(world.ledger, Counting(model, fails_after=0)) == EmbeddingCounts(3, 3, 0)


@pytest.mark.long
def test_killed_filling_goes_on_and_embeds_nothing_twice(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, {f"{n}.md": f"Note number {n} about the subject {n * 7}" for n in range(150)})
    counting = Counting(model, fails_after=150 + 100)
    with pytest.raises(KeyboardInterrupt):
        fill(sqlite_world.ledger, counting)
    sqlite_world.reopen()
    done = sqlite_world.ledger.embeddings.counts(sqlite_world.ledger.embeddings.searched()).done
    assert done == 96
    counting.fails_after = 1_000
    reports: list[EmbeddingCounts] = []
    assert fill(sqlite_world.ledger, counting, reports.append) == EmbeddingCounts(150, 150, 0)
    assert [report.done for report in reports] == [150]
    assert len(counting.texts) == len(set(counting.texts)) == 2 * 150


@pytest.mark.parametrize("time", range(1, 10))
def test_new_model_killed_before_any_commit_goes_on(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch, time: int
) -> None:
    sqlite_world.ingest(*(note(f"{n}.md") for n in range(100)))
    fill(sqlite_world.ledger, Cheap("old"))
    new = Cheap("new")
    with monkeypatch.context() as killing:
        killed_before_commit(killing, time)
        with pytest.raises(KeyboardInterrupt):
            fill(sqlite_world.ledger, new)
    sqlite_world.reopen()
    made = sqlite_world.ledger.embeddings
    assert made.counts(made.searched()).done == 100, "the searched space is complete at any time"
    assert fill(sqlite_world.ledger, new) == EmbeddingCounts(100, 100, 0)
    lost = {2: 64, 3: 36, 4: 64, 5: 36}.get(time, 0)
    assert (len(set(new.texts)), len(new.texts)) == (200, 200 + lost)
    searched = made.searched()
    assert searched is not None and searched.model == "new"
    with sqlite_world.ledger._store.read() as reading:
        numbers = [reading.execute(select(func.count()).select_from(table)).scalar_one() for table in _TABLES]
    assert numbers == [100, 100, 1]


def test_stopped_filling_ends_between_transactions(sqlite_world: World, model: BuiltIn) -> None:
    sqlite_world.ingest(*(note(f"{n}.md") for n in range(100)))
    fill_once(sqlite_world, model)
    counts = sqlite_world.ledger.embeddings.counts(sqlite_world.ledger.embeddings.searched())
    assert (counts.done, counts.total) == (64, 100)


@pytest.mark.long
def test_few_missing_embeddings_are_made_while_searching_and_many_are_left(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, NOTES)
    embeddings = sqlite_world.ledger.embeddings
    assert embeddings.needs_run()
    meaning = MeaningIndex(sqlite_world.ledger)
    meaning.embed_few()
    assert embeddings.searched() is None
    fill(sqlite_world.ledger, model)
    assert not embeddings.needs_run()
    put(sqlite_world, {f"{n}.md": f"Few {n}" for n in range(FEW)})
    assert not embeddings.needs_run()
    meaning.embed_few()
    assert embeddings.counts(embeddings.searched()).done == FEW + 3
    put(sqlite_world, {f"{n}.md": f"Many {n}" for n in range(FEW, 2 * FEW + 1)})
    assert embeddings.needs_run()
    meaning.embed_few()
    assert embeddings.counts(embeddings.searched()).done == FEW + 3
    embeddings.setting = "off"
    assert not embeddings.needs_run()


def test_passages_before_the_first_missing_one_are_not_read_again(
    sqlite_world: World, model: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(sqlite_world, NOTES)
    fill(sqlite_world.ledger, model)
    sqlite_world.ingest(*(note(f"{n}.md") for n in range(FEW + 1)))
    meaning, begins = MeaningIndex(sqlite_world.ledger), list[int]()
    missing = Embeddings.missing

    def recorded(self: Embeddings, space: Space, after: int, limit: int) -> list[Passage]:
        begins.append(after)
        return missing(self, space, after, limit)

    monkeypatch.setattr(Embeddings, "missing", recorded)
    meaning.embed_few()
    meaning.embed_few()
    assert begins == [0, len(NOTES)]


def test_unchanged_passages_of_a_new_version_are_not_embedded_again(sqlite_world: World, model: BuiltIn) -> None:
    counting = Counting(model)
    old, same = "The first paragraph. " * 30, "The second one stays. " * 30
    for version in (old, "Rewritten. " * 60):
        text = version + same
        put_chunks(sqlite_world, text, Chunk(0, len(version), "One"), Chunk(len(version), len(text), "Two"))
        fill(sqlite_world.ledger, counting)
        next_sync(sqlite_world)
    kept = [text for text in counting.texts if text.startswith("Two")]
    assert kept and len(kept) == len({*kept})


def test_quotations_and_empty_passages_need_no_vector(sqlite_world: World, model: BuiltIn) -> None:
    text = "Mine.\n> Yours, quoted.\n   "
    put_chunks(sqlite_world, text, Chunk(0, 6, ""), Chunk(6, 23, ASIDE), Chunk(23, 27, ""))
    counting = Counting(model)
    assert fill(sqlite_world.ledger, counting) == EmbeddingCounts(3, 3, 0)
    assert counting.texts == ["a title", "Mine."]


def test_encoded_and_minified_passages_need_no_vector(sqlite_world: World, model: BuiltIn) -> None:
    encoded, minified, code = "QUJD" * 100, "function(a,b){return" * 20, "def add(one, two):\n    return one + two"
    text = encoded + minified + code
    ends = len(encoded), len(encoded + minified), len(text)
    put_chunks(
        sqlite_world, text, Chunk(0, ends[0], "One"), Chunk(ends[0], ends[1], "Two"), Chunk(ends[1], ends[2], "Three")
    )
    counting = Counting(model)
    assert fill(sqlite_world.ledger, counting) == EmbeddingCounts(3, 3, 0)
    assert counting.texts == ["a title", f"Three\n{code}"]


def test_refused_passages_are_skipped_with_their_reason(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, NOTES)
    assert fill(sqlite_world.ledger, Refusing(model)) == EmbeddingCounts(3, 3, 1)
    found = MeaningIndex(sqlite_world.ledger).nearest("bees in the hive", 5)
    by_name = [near for near in found if near.chunk_id is None]
    assert (len(found), texts(sqlite_world, by_name)) == (3, ["bees.md"])
    assert fill(sqlite_world.ledger, Counting(model, fails_after=0)).refused == 1


def test_refused_passage_leaves_the_rest_of_its_document(sqlite_world: World, model: BuiltIn) -> None:
    text = "The hive is full.\nThe river burst its banks."
    put_chunks(sqlite_world, text, Chunk(0, 18, ""), Chunk(18, len(text), ""))
    assert fill(sqlite_world.ledger, Refusing(model)) == EmbeddingCounts(2, 2, 1)
    with sqlite_world.ledger._store.read() as reading:
        rows = reading.execute(select(embeddings.c.refusal, embeddings.c.vector.is_(None)).order_by(embeddings.c.id))
        assert rows.tuples().all() == [("no bees", True), (None, False)]
    assert MeaningIndex(sqlite_world.ledger).nearest("flood", 1)[0].cosine > 0.2


@pytest.mark.long
def test_old_model_answers_until_the_new_space_is_full(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, {f"{n}.md": f"Note {n}" for n in range(100)})
    fill(sqlite_world.ledger, model)
    meaning = MeaningIndex(sqlite_world.ledger)
    fill_once(sqlite_world, Another(model))
    searched = sqlite_world.ledger.embeddings.searched()
    assert searched is not None and searched.model == model.name
    assert len(meaning.nearest("note", 5)) == 5
    assert fill(sqlite_world.ledger, Another(model)) == EmbeddingCounts(100, 100, 0)
    searched = sqlite_world.ledger.embeddings.searched()
    assert searched is not None and searched.model == "another"
    with sqlite_world.ledger._store.read() as reading:
        assert reading.execute(select(func.count()).select_from(embeddings)).scalar_one() == 100
    with pytest.raises(MeaningOff, match="has changed"):
        meaning.nearest("note", 5)


def test_search_does_not_wait_long_for_a_busy_model(
    sqlite_world: World, model: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(sqlite_world, NOTES)
    fill(sqlite_world.ledger, model)
    monkeypatch.setattr("catchment.search.meaning.index._WAIT_SECONDS", 0.05)
    meaning = MeaningIndex(sqlite_world.ledger)
    with meaning._lock, pytest.raises(MeaningOff, match="loading or busy"):
        meaning.nearest("flood", 5)
    assert meaning.nearest("flood", 5)


def test_search_does_not_wait_while_the_model_is_loaded(
    sqlite_world: World, model: BuiltIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(sqlite_world, NOTES)
    fill(sqlite_world.ledger, model)
    begun, may_end = threading.Event(), threading.Event()

    class Loading(BuiltIn):
        def query(self, text: str) -> Sequence[float]:
            begun.set()
            assert may_end.wait(60)
            return super().query(text)

    monkeypatch.setattr("catchment.search.meaning.index.load", lambda _setting: Loading())
    meaning = MeaningIndex(sqlite_world.ledger)
    monkeypatch.setattr("catchment.search.meaning.index._WAIT_SECONDS", 60)
    loader = threading.Thread(target=meaning.warm)
    loader.start()
    assert begun.wait(60)
    try:
        with pytest.raises(MeaningOff, match="loading or busy"):
            meaning.nearest("flood", 5)
    finally:
        may_end.set()
        loader.join()
    assert meaning.nearest("flood", 5)


def test_meaning_tells_why_it_is_off(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, NOTES)
    meaning = MeaningIndex(sqlite_world.ledger)
    with pytest.raises(MeaningOff, match="not made yet"):
        meaning.nearest("flood", 5)
    fill(sqlite_world.ledger, model)
    sqlite_world.ledger.embeddings.setting = "off"
    with pytest.raises(MeaningOff, match="off; switch it on"):
        meaning.nearest("flood", 5)
    sqlite_world.ledger.embeddings.setting = "use"
    assert len(meaning.nearest("flood", 5)) == 3


_DAMAGE: dict[str, dict[str, Any]] = {
    "swapped": {"vector": "SELECT vector FROM embeddings WHERE id = 2"},
    "zeroed": {"vector": bytes(512)},
    "cut": {"vector": b"short"},
    "longer": {"vector": bytes(513)},
    "lost": {"vector": None},
    "of another document": {"content_id": 3},
    "of another text": {"digest": bytes(16)},
    "of another type": {"digest": 7},
    "of another passage": {"part": 1},
    "without checksum": {"checksum": None},
}
_TABLES = embeddings, title_embeddings, spaces


@pytest.mark.parametrize("how", _DAMAGE)
def test_damaged_vector_is_not_searched_but_reported_and_made_again(sqlite_world: World, how: str) -> None:
    put(sqlite_world, NOTES)
    model = Cheap("use", 512)
    fill(sqlite_world.ledger, model)
    ledger = sqlite_world.ledger
    damage(sqlite_world, **_DAMAGE[how])
    space = ledger.embeddings.searched()
    assert space is not None
    assert [row[0] for group in ledger.embeddings.vectors(space, 0) for row in group] == [2, 3]
    (finding,) = ledger.check(deep=True)
    assert (
        finding == "The vectors of 1 passages are damaged, first of chunk 1; the next run of `embed` makes them again"
    )
    assert ledger.proof.index(sqlite_world.source.id) == ["1 passages with damaged vectors"]
    model.texts.clear()
    assert fill(ledger, model) == EmbeddingCounts(3, 3, 0)
    assert len(model.texts) == 1
    assert ledger.check(deep=True) == []


def damage(world: World, **columns: Any) -> None:
    """Change columns of the first embedding, without the checks of the ledger."""
    assert world.ledger._store.file is not None
    with closing(sqlite3.connect(world.ledger._store.file)) as database, database:
        for name, value in columns.items():
            if isinstance(value, str) and value.startswith("SELECT"):
                database.execute(f"UPDATE embeddings SET {name} = ({value}) WHERE id = 1")
            else:
                database.execute(f"UPDATE embeddings SET {name} = ? WHERE id = 1", (value,))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("vector", bytes(512)),
        ("vector", b"short"),
        ("vector", None),
        ("vector", 7),
        ("document_id", 9),
        ("content_id", 3),
        ("checksum", b"other"),
    ],
)
def test_damaged_name_is_not_searched_but_reported_and_made_again(
    sqlite_world: World, column: str, value: object
) -> None:
    put(sqlite_world, NOTES)
    model, ledger = Cheap("use", 512), sqlite_world.ledger
    fill(ledger, model)
    assert ledger._store.file is not None
    with closing(sqlite3.connect(ledger._store.file)) as database, database:
        database.execute(
            f"UPDATE title_embeddings SET {column} = ? WHERE id = 1 + (SELECT min(id) FROM title_embeddings)", (value,)
        )
    space = ledger.embeddings.searched()
    assert space is not None
    assert [row.chunk_id for group in ledger.embeddings.title_vectors(space, 0) for row in group] == [1, 3]
    (finding,) = [each for each in ledger.check(deep=True) if "vectors" in each]
    which = value if column == "document_id" else 2
    assert finding.startswith(f"The vectors of 1 names are damaged, first of document {which}; the next run of `embed`")
    if which == 2:
        assert ledger.proof.index(sqlite_world.source.id) == ["1 names with damaged vectors"]
    model.texts.clear()
    assert fill(ledger, model) == EmbeddingCounts(3, 3, 0)
    assert model.texts == ["bees.md"]
    assert ledger.check(deep=True) == []


def test_damaged_refusal_is_made_again(sqlite_world: World) -> None:
    put(sqlite_world, NOTES)
    model = Cheap("use", 512)
    fill(sqlite_world.ledger, model)
    damage(sqlite_world, vector=None, refusal="no bees")
    model.texts.clear()
    assert fill(sqlite_world.ledger, model) == EmbeddingCounts(3, 3, 0)
    assert len(model.texts) == 1


def test_damaged_vector_is_not_copied_to_another_passage(sqlite_world: World) -> None:
    put_chunks(sqlite_world, "same text", Chunk(0, 9, ""))
    model = Cheap("use", 512)
    fill(sqlite_world.ledger, model)
    damage(sqlite_world, vector=bytes(512))
    space = sqlite_world.ledger.embeddings.searched()
    assert space is not None
    with sqlite_world.ledger._store.read() as reading:
        text = reading.execute(select(embeddings.c.digest)).scalar_one()
    assert sqlite_world.ledger.embeddings.known(space, [text]) == {}


def test_repair_deletes_damaged_vectors(sqlite_world: World, model: BuiltIn) -> None:
    put(sqlite_world, NOTES)
    fill(sqlite_world.ledger, model)
    damage(sqlite_world, vector=b"short")
    near = MeaningIndex(sqlite_world.ledger).nearest("flood", 5)
    assert sorted(one.chunk_id is None for one in near) == [False, False, True], "one is known by its name alone"
    proof = sqlite_world.ledger.proof
    assert proof.index(sqlite_world.source.id) == ["1 passages with damaged vectors"]
    proof.rebuild_index()
    assert proof.index(sqlite_world.source.id) == []
    fill(sqlite_world.ledger, model)
    assert all(one.chunk_id for one in MeaningIndex(sqlite_world.ledger).nearest("flood", 5))


def test_migration_adds_checksums_and_forgets_what_a_server_refused(sqlite_world: World) -> None:
    world = sqlite_world
    put(world, NOTES)
    fill(world.ledger, Cheap("use", 512))
    assert world.ledger._store.file is not None
    world.ledger.close()
    with closing(sqlite3.connect(world.ledger._store.file)) as database, database:
        database.execute("INSERT INTO spaces VALUES (9, 'other', 'ollama:m@http://127.0.0.1:9', 512)")
        rows = "SELECT id + {}, {}, content_id, chunk_id, {}, digest, {} FROM embeddings WHERE id <= 3"
        columns = "id, space_id, content_id, chunk_id, part, digest, vector, refusal"
        for start, space, part, value in (
            (10, 1, 1, "NULL, 'no'"),
            (20, 9, 0, "vector, NULL"),
            (30, 9, 1, "NULL, 'no'"),
        ):
            database.execute(f"INSERT INTO embeddings ({columns}) {rows.format(start, space, part, value)}")
        database.execute("DELETE FROM embeddings WHERE id IN (32, 33)")
        database.execute("UPDATE embeddings SET vector = x'00' WHERE id = 3")
        database.execute("ALTER TABLE embeddings DROP COLUMN checksum")
        database.execute("ALTER TABLE syncs DROP COLUMN cause")
        database.executescript(
            "DROP TABLE measures; DROP TABLE incidents;"
            "DELETE FROM counters WHERE name IN ('incidents', 'title_embeddings', 'sinks', 'changes');"
            "DROP TABLE refused_documents; DROP TABLE sinks; DROP TABLE outbox;"
            "DROP TABLE doc_tags; DROP TABLE doc_folders; DROP TABLE title_embeddings;"
            "CREATE INDEX tags ON entities (kind, value, content_id) WHERE kind = 'tag'"
        )
        database.execute("UPDATE revision SET version_num = '0004'")
        (deleted,) = database.execute("SELECT value FROM counters WHERE name = 'embeddings_deleted'").fetchone()
    world.reopen()
    kept = select(embeddings.c.id).order_by(embeddings.c.id)
    with world.ledger._store.read() as reading:
        assert reading.execute(kept).scalars().all() == [1, 2, 3, 11, 12, 13, 22, 23]
        assert damaged(reading) == [3], "a vector of a wrong size is damaged already"
    assert world.ledger.embeddings.watermark().deleted == deleted + 2


@pytest.mark.long
def test_floor_excludes_unrelated_passages(sqlite_world: World, model: BuiltIn) -> None:
    subjects = ["Bridges", "Bread", "Cats", "Taxes"] * 60
    put(sqlite_world, {f"{n}.md": f"{subject} in the year {n}" for n, subject in enumerate(subjects)})
    fill(sqlite_world.ledger, model)
    meaning = MeaningIndex(sqlite_world.ledger)
    cosines = [near.cosine for near in meaning.nearest("felines", 240)]
    assert 0 < sum(cosine > meaning.chance.floor for cosine in cosines) < len(cosines)
    assert [meaning.chance.scaled(cosine) for cosine in (-1, 0.1, 0.35, 1)] == [0, 0, pytest.approx(0.5), 1]
    space = sqlite_world.ledger.embeddings.searched()
    assert space is not None
    vectors = Vectors(sqlite_world.ledger, space)
    few = vectors.random
    vectors.refresh()
    mean, deviation = vectors.random
    assert vectors.random != few and few[0] < mean < 1 and 0 < deviation < 1


@pytest.mark.parametrize(
    "text", ["", "  \n ", "one", "word " * 1_000, "x" * 5_000, "Ein Satz. " * 300, "行" * 3_000, "a\n\nb" * 900]
)
def test_parts_contain_the_whole_text_and_are_bounded(text: str) -> None:
    pieces = list(parts(text))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= 450 for piece in pieces)
