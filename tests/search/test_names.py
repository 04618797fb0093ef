"""Names of documents, which are found by meaning as texts are; and searches while some embeddings are missing."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from sqlalchemy import delete, func, select, update

from catchment.ledger import EmbeddingCounts, Ledger
from catchment.ledger.db.database import Store, Writing
from catchment.ledger.db.schema import embeddings, spaces, title_embeddings
from catchment.model import Priority, Upsert
from catchment.search.meaning.fill import fill
from catchment.search.meaning.index import MeaningIndex
from catchment.search.meaning.models import Refusal, quantized
from catchment.search.meaning.vectors import Chance
from catchment.search.results import Lanes, Results
from catchment.search.search import search
from tests.ledger.world import Clock, World, content, delivered, note


class Words:
    """A model for which two texts are as near as many words are in both."""

    setting, name, dimensions = "use", "words", 512

    def __init__(self) -> None:
        self.texts: list[str] = []

    def passages(self, texts: Sequence[str]) -> list[bytes | Refusal | None]:
        self.texts += texts
        return [quantized([*self.query(text)]) for text in texts]

    def query(self, text: str) -> Sequence[float]:
        words = [np.random.default_rng(crc32(word.encode())).standard_normal(512) for word in text.lower().split()]
        total = np.sum(words, axis=0)
        return [float(value) for value in total / np.linalg.norm(total)]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Words:
    model = Words()
    monkeypatch.setattr("catchment.search.meaning.index.load", lambda _setting: model)
    monkeypatch.setattr("catchment.search.meaning.index._CHANCE", {"use": Chance(0.0, 0.06)})
    return model


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    url, clock = f"sqlite:///{tmp_path / 'ledger.db'}", Clock()
    with closing(Ledger.open(url, clock=clock, monotonic=clock.steady)) as ledger:
        yield World(url, clock, ledger)


def put(world: World, locator: str, title: str, text: str, version: str = "v1") -> None:
    world.see(note(locator, version))
    batch = world.claim()
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, text, title=title)])


def put_other(world: World, locator: str, title: str, text: str) -> None:
    """Put a document into another source."""
    other = world.ledger.sources.put("other", "obsidian", Priority.NORMAL)
    sync = world.begin(other)
    world.ledger.intake.record(sync.id, [Upsert(note(locator, content(text)))], {})
    batch = world.ledger.queue.claim(other.id, 1, owner="worker")
    world.ledger.queue.deliver(batch.token, [delivered(batch.jobs[0].id, text, title=title)])


def near(world: World, meaning: MeaningIndex, text: str) -> list[str]:
    """Return the documents that are near a text by meaning."""
    found = search(world.ledger, text, world.clock.moment, meaning=meaning, lanes=Lanes.MEANING)
    return [hit.item for hit in found.hits]


def asked(world: World, meaning: MeaningIndex, text: str) -> Results:
    return search(world.ledger, text, world.clock.moment, meaning=meaning)


def test_renamed_document_is_found_by_its_new_name_alone(world: World, model: Words) -> None:
    put(world, "a.md", "lighthouse keeper", "He counts the boats of the harbour")
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    assert near(world, meaning, "lighthouse keeper") == ["a.md"]
    model.texts.clear()
    put(world, "a.md", "sourdough bread", "He counts the boats of the harbour", "v2")
    meaning.embed_few()
    assert model.texts == ["sourdough bread"]
    assert near(world, meaning, "sourdough bread") == ["a.md"]
    assert near(world, meaning, "lighthouse keeper") == []
    assert near(world, meaning, "boats of the harbour") == ["a.md"]
    meaning.embed_few()
    assert model.texts[1:] == [], "queries are kept, and nothing is embedded again"


def test_document_without_text_is_found_by_its_name(world: World, model: Words) -> None:
    put(world, "photo.jpg", "lighthouse keeper", "")
    put(world, "b.md", "sourdough bread", "Flour and water")
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    assert near(world, meaning, "lighthouse keeper") == ["photo.jpg"]
    put(world, "photo2.jpg", "harbour boats", "")
    meaning.embed_few()
    assert near(world, meaning, "harbour boats") == ["photo2.jpg"]


def test_copy_is_found_by_each_name_until_it_is_purged(world: World, model: Words) -> None:
    put(world, "a.md", "lighthouse keeper", "He counts the boats")
    put_other(world, "b.md", "sourdough bread", "He counts the boats")
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    assert near(world, meaning, "lighthouse keeper") and near(world, meaning, "sourdough bread")
    for _ in world.ledger.purging.items(world.source.id, lambda _: True):
        pass
    assert near(world, meaning, "sourdough bread") == ["b.md"]
    assert near(world, meaning, "lighthouse keeper") == []
    left = world.ledger.purging.left(world.source.id, lambda _: True, whole=False)
    assert left["title_embeddings"] == 0


def rows(world: World) -> list[int]:
    """Return the numbers of passages and names with vectors, and of spaces."""
    with world.ledger._store.read() as reading:
        tables = embeddings, title_embeddings, spaces
        return [reading.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]


def as_before(world: World) -> None:
    """Change a library to the old kind of embeddings, without names."""
    with world.ledger._store.write() as writing:
        writing.execute(delete(title_embeddings))
        writing.execute(update(spaces).values(name="words"))


def test_names_of_all_documents_are_missing_after_an_upgrade(world: World, model: Words) -> None:
    put(world, "a.md", "lighthouse keeper", "He counts the boats")
    assert world.ledger.embeddings.needs_run()
    fill(world.ledger, model)
    assert not world.ledger.embeddings.needs_run()
    as_before(world)
    assert world.ledger.embeddings.needs_run()
    fill(world.ledger, model)
    assert not world.ledger.embeddings.needs_run()


@pytest.mark.parametrize("time", range(1, 8))
def test_old_vectors_are_searched_until_the_new_ones_exist(
    world: World, model: Words, monkeypatch: pytest.MonkeyPatch, time: int
) -> None:
    put(world, "a.md", "lighthouse keeper", "He counts the boats")
    put(world, "b.md", "sourdough bread", "Flour and water")
    fill(world.ledger, model)
    as_before(world)
    meaning = MeaningIndex(world.ledger)
    write, times = Store.write, count(1)

    @contextmanager
    def killed(store: Store) -> Iterator[Writing]:
        with write(store) as writing:
            yield writing
            if next(times) == time:
                raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(Store, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            fill(world.ledger, model)
    assert near(world, meaning, "counts the boats") == ["a.md"]
    world.reopen()
    meaning = MeaningIndex(world.ledger)
    assert near(world, meaning, "counts the boats") == ["a.md"]
    assert world.ledger.embeddings.needs_run() is (time <= 4)
    assert fill(world.ledger, model) == EmbeddingCounts(2, 2, 0)
    assert near(world, meaning, "lighthouse keeper") == ["a.md"]
    assert rows(world) == [2, 2, 1]


def test_complete_source_is_searched_while_another_is_not_embedded(
    world: World, model: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catchment.search.meaning.index._REST", 0)
    put(world, "a.md", "lighthouse keeper", "He counts the boats")
    fill(world.ledger, model)
    meaning = MeaningIndex(world.ledger)
    assert asked(world, meaning, "counts the boats").incomplete == ()
    put_other(world, "b.md", "sourdough bread", "Flour and water")
    found = asked(world, meaning, "counts the boats")
    assert ([hit.item for hit in found.hits], found.incomplete) == (["a.md"], ("other",))
    assert asked(world, meaning, "").incomplete == ()
    with closing(Ledger.inspect(world.url, only=["notes"])) as limited:
        kept = search(limited, "counts", world.clock.moment, meaning=MeaningIndex(limited, meaning))
        assert kept.understood.meaning and kept.incomplete == ()
        told = search(limited, "counts", world.clock.moment, meaning=meaning)
        assert told.incomplete == (), "whichever vectors are asked"
    fill(world.ledger, model)
    assert asked(world, meaning, "counts the boats").incomplete == ()


def test_vector_of_a_withdrawn_name_leaves_the_file(world: World, model: Words) -> None:
    put(world, "a.md", "lighthouse keeper", "He counts the boats")
    fill(world.ledger, model)
    (vector,) = model.passages(["lighthouse keeper"])
    assert isinstance(vector, bytes) and world.ledger._store.file is not None
    with closing(sqlite3.connect(world.ledger._store.file)) as database:
        assert database.execute("SELECT count(*) FROM title_embeddings WHERE vector = ?", (vector,)).fetchone() == (1,)
    for _ in world.ledger.purging.items(world.source.id, lambda _: True):
        pass
    file = Path(world.ledger._store.file)
    world.ledger.vacuum(lambda _: False)
    world.ledger.close()
    assert vector not in b"".join(each.read_bytes() for each in file.parent.glob("ledger.db*"))
